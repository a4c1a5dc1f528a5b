"""thali warm-up: compile ahead what fits will call, in an image of a machine or on a cluster.

A few rows are fitted and scored, in as few sweeps as a fit ever makes by itself: what that calls is
compiled, and kept where Numba keeps it (beside the library, or in the folder that NUMBA_CACHE_DIR
names).
"""

import time
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.sparse import csr_array

from thali import datasets
from thali.cli.parts import CLUSTER
from thali.engines import chain_settings
from thali.engines.base import AnyEngine
from thali.engines.capabilities import missing_capabilities, takes_missing
from thali.model import Model
from thali.registry import ENGINES, LIKELIHOODS, PRIORS, estimator_of
from thali.run.choices import choose_engine
from thali.run.compiling import watching
from thali.run.likelihoods import AUTOMATIC
from thali.structures.grouped_partitions import GROUPED_PARTITIONS


def warm_up(engines: Sequence[str], likelihoods: Sequence[str], missing: bool) -> Iterator[str]:
    """Compile what these engines call for these likelihoods; a line about each pair that works."""
    found = 0
    for likelihood in likelihoods:
        part = LIKELIHOODS.make(likelihood)
        model = Model(PRIORS.make(estimator_of(part.structure)().prior), part)
        for name in engines:
            engine = choose_engine(name, model)
            if isinstance(engine, chain_settings.ChainSettings):
                engine = engine.replace(sweeps=chain_settings.FEWEST)
            able = takes_missing(engine, model) or not missing
            if able and not missing_capabilities(engine, model):
                found += 1
                yield _compiled(engine, model, missing)
    if not found:
        raise ValueError(
            f"None of {', '.join(engines)} can run {' or '.join(likelihoods)}"
            f"{' with missing entries' if missing else ''}: there is nothing to compile."
        )


def every_engine() -> list[str]:
    """The names of all engines."""
    return list(ENGINES)


def every_likelihood() -> list[str]:
    """The names of all likelihoods."""
    return list(LIKELIHOODS)


def default_likelihoods() -> list[str]:
    """Those that a default ``thali fit``, by the data, and ``thali cluster`` may have."""
    return [*AUTOMATIC, str(CLUSTER.estimator().likelihood)]


def _compiled(engine: AnyEngine, model: Model, missing: bool) -> str:
    """What one engine compiled for one likelihood, in a line."""
    X = (datasets.images(n=12).X > 0.5).astype(float)  # 0 and 1 suit every likelihood
    X[0, 0] = np.nan if missing else 0.0
    if model.structure == GROUPED_PARTITIONS:
        X = csr_array(X)  # counts of words
    began = time.monotonic()
    with watching(lambda functions: None) as compiler:
        estimator = estimator_of(model.structure)
        fitted = estimator(
            prior=model.prior, likelihood=model.likelihood, engine=engine, random_state=0
        ).fit(X)
        if hasattr(fitted, "score"):
            fitted.score(X[1:3])
        elif hasattr(fitted, "predict_proba"):
            fitted.predict_proba(X[1:3])
    what = f"{compiler.functions} functions" if compiler.functions else "nothing left to compile"
    pair = f"{type(engine).__name__} × {type(model.likelihood).__name__}"
    return f"{pair}: {what}, {time.monotonic() - began:.0f} s"
