"""A hint where a Gaussian is asked for by name and the columns hold 0 and 1, or whole numbers."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import thali
from thali.cli import run
from thali.data import Data
from thali.likelihoods import LinearGaussian, NonnegativeLinearGaussian, SparseFactor
from thali.results.discrete import DiscreteData, discrete, hint

RNG = np.random.default_rng(0)
BITS = (RNG.random((60, 6)) < 0.4).astype(float)
MARKS = RNG.integers(1, 6, (60, 6)).astype(float)
COUNTS = RNG.poisson(4.0, (60, 6)).astype(float)
REAL = RNG.normal(size=(60, 6))
QUICK = thali.CollapsedGibbs(sweeps=10, chains=1)


def told(X: Any, **settings: Any) -> list[str]:
    """What a fit warns of for these data, besides what may ail the answer."""
    settings = {"likelihood": "linear_gaussian", "engine": QUICK} | settings
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        thali.LatentFeatures(**settings, random_state=0, progress=False).fit(X)
    return [str(one.message) for one in seen if one.category is DiscreteData]


def hint_of(X: Any, likelihood: Any = None) -> str:
    return hint(likelihood or LinearGaussian(), Data.of(X))


# What is said -------------------------------------------------------------------------------------


def test_a_fit_warns_once() -> None:
    assert told(BITS) == [
        "6 of 6 columns hold only 0 and 1, which Gaussian noise does not suit: likelihood='probit' "
        "and 'noisy_or' are made for these, and 'auto' chooses by the columns."
    ]


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (MARKS, "6 of 6 columns hold whole numbers from 1 to 5, which"),
        (MARKS, "likelihood='mixed' takes levels and counts, 'poisson' counts alone, and 'auto'"),
        (
            MARKS - 3.0,
            "hold whole numbers from -2 to 2, which Gaussian noise does not suit",
        ),
        (COUNTS, "'poisson' counts alone"),
        (np.hstack([BITS, REAL]), "6 of 12 columns hold only 0 and 1"),
        (np.where(RNG.random(BITS.shape) < 0.2, np.nan, BITS), "6 of 6 columns hold only 0 and 1"),
        (np.hstack([BITS[:, :3], COUNTS]), "9 of 9 columns hold whole numbers from 0 to "),
        (sp.csr_array(BITS), "'noisy_or' are made for these, of a dense matrix."),
    ],
)
def test_what_was_seen_and_what_suits(X: Any, words: str) -> None:
    assert words in hint_of(X)


def test_poisson_is_for_no_negative_number() -> None:
    assert "poisson" not in hint_of(MARKS - 3.0)


@pytest.mark.parametrize(
    "likelihood",
    [
        LinearGaussian(),
        LinearGaussian(sigma_x=0.5),
        SparseFactor(),
        NonnegativeLinearGaussian(),
        LinearGaussian(noise="column").specialized(),
    ],
    ids=lambda likelihood: type(likelihood).__name__,
)
def test_all_with_gaussian_noise_are_told(likelihood: Any) -> None:
    assert "0 and 1" in hint_of(BITS, likelihood)


@pytest.mark.parametrize(
    "X",
    [
        REAL,
        BITS + 0.5,
        BITS[:19],  # too few rows to tell
        np.zeros((60, 4)),
        np.ones((60, 4)),
        np.hstack([BITS[:, :2], REAL[:, :3]]),
        RNG.integers(0, 256, (60, 6)).astype(float),  # pixels
        np.round(20.0 * REAL) + 170.0,  # centimeters
        sp.csr_array(np.where(BITS > 0, REAL, 0.0)),
    ],
    ids=["real", "shifted", "few rows", "zeros", "ones", "mostly real", "pixels", "cm", "sparse"],
)
def test_nothing_is_said_of_others(X: Any) -> None:
    assert hint_of(X) == ""


def test_nothing_is_said_to_whom_it_was_chosen_for() -> None:
    assert told(BITS, likelihood="auto", center=True) == []
    assert (
        told(BITS, likelihood="noisy_or", engine=thali.UncollapsedGibbs(sweeps=5, chains=1)) == []
    )
    assert told(REAL) == []


def test_scaled_and_centered_bits_are_bits() -> None:
    assert "only 0 and 1" in told(BITS, center=True, scale=True)[0]


def test_frames_and_truth_values_are_looked_at() -> None:
    assert told(pd.DataFrame(BITS)) == told(BITS.astype(bool)) == told(BITS)


def test_some_rows_and_columns_are_enough() -> None:
    """Of a large table no more is looked at than of a small one."""
    X = np.lib.stride_tricks.as_strided(np.arange(2.0), (10**7, 1000), (0, 0))
    assert discrete(Data(X)).columns == 0
    wide = np.lib.stride_tricks.as_strided(np.arange(2.0), (50, 10**6), (8 * 0, 0))
    assert discrete(Data(wide)).columns == 0


# Where it is shown --------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::thali.DiscreteData", "ignore::thali.DegenerateFit")
def test_the_hint_is_kept_saved_and_reported(tmp_path: Path) -> None:
    model = thali.LatentFeatures(
        likelihood="linear_gaussian", engine=QUICK, random_state=0, progress=False
    ).fit(BITS)
    assert model.hint_ == hint_of(BITS)
    assert model.findings_ == () or DiscreteData not in [f.kind for f in model.findings_]
    model.save(tmp_path / "m.thali")
    again = thali.load(tmp_path / "m.thali")
    assert again.hint_ == model.hint_
    assert "6 of 6 columns hold only 0 and 1" in again.report(tmp_path / "r.html").read_text(
        "utf-8"
    )
    assert model.set_params(likelihood="linear_gaussian").fit(REAL).hint_ == ""
    assert "A hint" not in model.report(tmp_path / "r.html").read_text("utf-8")


def test_the_command_line_says_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "x.csv", tmp_path / "out"
    pd.DataFrame(BITS).to_csv(path, index=False)
    options = ["--likelihood", "linear-gaussian", "--sweeps", "10", "--chains", "1", "--seed", "0"]
    assert run(["fit", str(path), "--out", str(out), *options]) == 0
    shown = capsys.readouterr()
    assert shown.out.count("6 of 6 columns hold only 0 and 1") == 1
    assert "DiscreteData" not in shown.err
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert summary["hint"] == hint_of(BITS)
