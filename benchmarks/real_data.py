"""Real data from the folder that the variable THALI_DATA names.

No data file belongs to the project. A benchmark asks for a name; when the variable is not set, or
the file is not in the folder, it gets a sentence that says what is skipped instead.

name                file                        what X is
faces               yaleb_ext_32x32.npz         400 of the 2,414 faces, 32×32 pixels in [0, 1]
all_faces           yaleb_ext_32x32.npz         all 2,414 faces, 32×32 pixels in [0, 1]
faces_small         yaleb_ext_32x32.npz         all 2,414 faces, averaged to 8×8, in [0, 1]
sonar               sonar.npz                   208 echoes × 60 bands
sonar_transposed    sonar.npz                   60 bands × 208 echoes (Rai and Daumé 2011, 6.5)
votes               house_votes84.npz           the 232 members who voted on all 16 questions, 0/1
animals             animals50_kemp.npz          50 animals × 85 attributes, 0/1
spectrogram         audio_vibeace_500x161.npz   500 frames × 161 magnitudes
tags                mirflickr_tags.npz          20,015 pictures × 1,386 tags, 0/1, sparse
kos                 kos_bow.npz                 3,430 blog entries × 6,906 words, counts, sparse
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

__all__ = ["NAMES", "Skipped", "archive", "load", "sparse"]

VARIABLE = "THALI_DATA"
Archive = dict[str, NDArray]


class Skipped(Exception):
    """Says in one sentence which data are not there and why."""


def _faces(archive: Archive) -> NDArray:
    # A fixed random subset: consecutive faces would be a few people only.
    chosen = np.sort(np.random.default_rng(0).permutation(len(archive["X"]))[:400])
    return archive["X"][chosen] / 255.0


def _faces_small(archive: Archive) -> NDArray:
    pixels = archive["X"].reshape(-1, 8, 4, 8, 4) / 255.0
    return pixels.mean(axis=(2, 4)).reshape(-1, 64)


def _votes(archive: Archive) -> NDArray:
    complete = (archive["X"] >= 0).all(axis=1)
    return archive["X"][complete]


def sparse(archive: Archive) -> csr_array:
    """X of an archive that has its compressed rows."""
    parts = archive["X_data"].astype(float), archive["X_indices"].astype(np.int32)
    return csr_array((*parts, archive["X_indptr"]), shape=tuple(archive["X_shape"]))


class Source(NamedTuple):
    file: str
    read: Callable[[Archive], NDArray | csr_array]


SOURCES = {
    "faces": Source("yaleb_ext_32x32.npz", _faces),
    "all_faces": Source("yaleb_ext_32x32.npz", lambda archive: archive["X"] / 255.0),
    "faces_small": Source("yaleb_ext_32x32.npz", _faces_small),
    "sonar": Source("sonar.npz", lambda archive: archive["X"]),
    "sonar_transposed": Source("sonar.npz", lambda archive: archive["X"].T),
    "votes": Source("house_votes84.npz", _votes),
    "animals": Source("animals50_kemp.npz", lambda archive: archive["X"]),
    "spectrogram": Source("audio_vibeace_500x161.npz", lambda archive: archive["X"]),
    "tags": Source("mirflickr_tags.npz", sparse),
    "kos": Source("kos_bow.npz", sparse),
}
NAMES = tuple(SOURCES)


def archive(file: str, name: str | None = None) -> Archive:
    """The arrays of a file of the folder, or `Skipped` with the reason."""
    name, folder = name or file, os.environ.get(VARIABLE)
    if not folder:
        raise Skipped(f"{name} is skipped: {VARIABLE} is not set (the folder with {file}).")
    path = Path(folder) / file
    if not path.is_file():
        raise Skipped(f"{name} is skipped: the folder in {VARIABLE} has no {file}.")
    with np.load(path, allow_pickle=False) as found:
        return dict(found)


def load(name: str) -> NDArray[np.float64] | csr_array:
    """X of a named data set, or `Skipped` with the reason."""
    source = SOURCES[name]
    X = source.read(archive(source.file, name))
    return X if issparse(X) else np.ascontiguousarray(X, dtype=np.float64)


if __name__ == "__main__":
    for name in NAMES:
        try:
            X = load(name)
        except Skipped as reason:
            print(reason)
        else:
            print(f"{name}: {X.shape[0]} x {X.shape[1]}, from {X.min():g} to {X.max():g}")
