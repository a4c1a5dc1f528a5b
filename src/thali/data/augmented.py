"""Complete data that replace those that were given.

A sampler that completes its data holds both as one: ``X`` has no gap, and is what kernels of
complete data read; ``given`` are the data as they were observed, of which answers are told. Where X
was observed and the likelihood is Gaussian, the two agree. A likelihood of other entries has latent
Gaussians in X wherever it needs them, and what was observed in ``given`` alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from thali.data.matrix import Data


@dataclass(frozen=True)
class Augmented(Data):
    """Complete ``X`` that replaces the data ``source``.

    >>> import numpy as np
    >>> gaps = Data.of([[1.0, np.nan]])
    >>> drawn = Augmented(np.array([[1.0, 2.0]]), source=gaps)
    >>> drawn.observed is None, drawn.given.observed.tolist()
    (True, [[True, False]])
    """

    source: Data = field(kw_only=True)

    @property
    def given(self) -> Data:
        return self.source
