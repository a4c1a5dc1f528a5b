"""A developer's tool: does a change of the code change any draw, log joint, bound or answer?

    python tests/golden.py write before.npz      on the commit before, with its own environment
    python tests/golden.py compare before.npz    after the change, on the same machine

Every engine × likelihood × prior that is valid is fitted to small data, complete, with gaps and
sparse, from fixed seeds, and all that the fit says is written down: draws, records, answers,
predictions. ``compare`` wants the same numbers bit for bit, and names each one that differs.
The numbers depend on the machine and its libraries, so none are kept with the project.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import thali

SWEEPS = 12
ENGINES: dict[str, Callable[[], Any]] = {
    "collapsed": lambda: thali.CollapsedGibbs(sweeps=SWEEPS, chains=2),
    "collapsed plain": lambda: thali.CollapsedGibbs(
        sweeps=SWEEPS, chains=1, moves=0, sigma_step="metropolis", init="prior", anneal=8
    ),
    "uncollapsed": lambda: thali.UncollapsedGibbs(sweeps=SWEEPS, chains=2),
    "uncollapsed slice": lambda: thali.UncollapsedGibbs(
        sweeps=SWEEPS, chains=1, new_features="slice", init="prior", thin=2, burn_in=3
    ),
    "filter": lambda: thali.ParticleFilter(n_particles=40, passes=2),
    "filter prior": lambda: thali.ParticleFilter(n_particles=40, proposal="prior"),
    "variational": lambda: thali.Variational(truncation=6, max_iter=25),
    "variational annealed": lambda: thali.Variational(
        truncation=5, max_iter=20, n_init=1, anneal=6, init="prior",
        stick_bound="taylor", features="factorized",
    ),
    "variational single": lambda: thali.Variational(
        truncation=5, max_iter=10, n_init=1, dtype="float32", init="empty"
    ),
    "hard": lambda: thali.MaximizationExpectation(truncation=6, max_iter=25),
    "hard greedy": lambda: thali.MaximizationExpectation(
        truncation=6, max_iter=15, n_init=1, solver="randomized_double_greedy"
    ),
    "search": lambda: thali.BeamSearch(width=4, n_init=2),
    "search admissible": lambda: thali.BeamSearch(
        width=6, n_init=1, heuristic="admissible", order="given", init="empty"
    ),
}  # fmt: skip
PRIORS: dict[str, Callable[[], Any]] = {
    "ibp": thali.IBP,
    "two": thali.TwoParameterIBP,
    "finite": lambda: thali.BetaBernoulli(n_components=5),
}
LIKELIHOODS: dict[str, Callable[[], Any]] = {
    "linear": thali.LinearGaussian,
    "linear fixed": lambda: thali.LinearGaussian(sigma_x=0.5, sigma_a=1.0),
    "nonnegative": thali.NonnegativeLinearGaussian,
    "laplace": lambda: thali.SparseFactor(slab="laplace"),
    "gaussian": lambda: thali.SparseFactor(slab="gaussian"),
    "noisy or": thali.NoisyOr,
}
ATTRIBUTES = (
    "Z_", "assignment_probabilities_", "components_", "amounts_", "n_components_", "log_joint_",
    "weights_", "log_evidence_", "elbo_", "elbos_", "variational_params_", "proven_optimal_",
    "log_joint_upper_bound_", "n_enqueued_", "n_dequeued_", "history_", "burn_in_", "starts_",
    "drift_", "diagnostics_", "alpha_", "beta_", "sigma_x_", "sigma_a_", "epsilon_", "lam_", "p_",
)  # fmt: skip


def tables(binary: bool) -> dict[str, Any]:
    """The same small data complete, wide, with gaps and sparse."""
    rng = np.random.default_rng(7)
    Z = rng.random((24, 3)) < 0.45
    A = rng.gamma(2.0, 0.8, (3, 8))
    X = Z @ A + 0.4 * rng.standard_normal((24, 8))
    wide = Z[:14] @ rng.gamma(2.0, 0.8, (3, 20)) + 0.4 * rng.standard_normal((14, 20))
    if binary:
        X, wide = (X > 0.9).astype(float), (wide > 0.9).astype(float)
    gaps = X.copy()
    gaps[rng.random(X.shape) < 0.12] = np.nan
    thin = np.where(rng.random(X.shape) < 0.5, X, 0.0)
    return {"complete": X, "wide": wide, "gaps": gaps, "sparse": csr_array(thin)}


def cases() -> Iterator[tuple[str, Any, Any]]:
    """Name, estimator and data of every fit; combinations that are refused are passed over."""
    for e, engine in ENGINES.items():
        for lik, likelihood in LIKELIHOODS.items():
            for p, prior in PRIORS.items():
                if p != "ibp" and lik not in ("linear", "nonnegative"):
                    continue  # the prior is data to the same kernels
                for form, X in tables(lik == "noisy or").items():
                    if form == "wide" and (p != "ibp" or lik != "linear"):
                        continue
                    model = thali.LatentFeatures(
                        prior(), likelihood(), engine(), random_state=3, progress=False
                    )
                    yield f"{e} | {lik} | {p} | {form}", model, X


def said(model: Any, X: Any) -> dict[str, Any]:
    """Everything that a fitted model says, by name."""
    found: dict[str, Any] = {}
    for name in ATTRIBUTES:
        try:
            value = getattr(model, name)
        except (AttributeError, ValueError):
            continue
        if isinstance(value, dict):
            flat = {f"{name}.{k}": v for k, v in value.items()}
            for key, inner in flat.items():
                if isinstance(inner, dict):
                    found |= {f"{key}.{k}": v for k, v in inner.items()}
                else:
                    found[key] = inner
        else:
            found[name] = value
    for i, draw in enumerate(model.draws()):
        found[f"draw{i}.Z"], found[f"draw{i}.A"] = draw.Z, draw.A
        found[f"draw{i}.log_joint"], found[f"draw{i}.weight"] = draw.log_joint, draw.weight
        found |= {f"draw{i}.{k}": v for k, v in draw.hyper.items()}
        found |= {f"draw{i}.{k}": v for k, v in draw.parameters.items()}
    new = X[:6]
    questions: dict[str, Callable[[], Any]] = {
        "proba": lambda: model.predict_proba(new),
        "transform": lambda: model.transform(new),
        "score": lambda: model.score(new),
        "inverse": lambda: model.inverse_transform(getattr(model, "amounts_", model.Z_)),
        "impute": lambda: model.impute(interval=0.8),
        "impute std": lambda: model.impute(return_std=True),
        "best": lambda: model.best_.Z,
    }
    for name, question in questions.items():
        try:
            answer = question()
        except (ValueError, TypeError):
            continue
        if isinstance(answer, tuple):
            found |= {f"{name}.{i}": part for i, part in enumerate(answer)}
        else:
            found[name] = answer
    if hasattr(model, "partial_fit") and not hasattr(X, "indptr"):
        again = model.partial_fit(X[:10])
        found["partial.components"] = again.components_
        found["partial.proba"], found["partial.score"] = again.predict_proba(new), again.score(new)
    return found


def everything(only: str) -> dict[str, np.ndarray]:
    """All answers of all cases as arrays."""
    found: dict[str, np.ndarray] = {}
    for name, model, X in cases():
        if only not in name:
            continue
        try:
            model.fit(X)
        except (ValueError, TypeError):
            continue
        print(name, flush=True)
        found |= {f"{name} : {k}": np.asarray(v) for k, v in said(model, X).items()}
    return found


def compare(before: dict[str, np.ndarray], after: dict[str, np.ndarray], only: str) -> int:
    """Print every number that differs, and return how many fits have one."""
    wanted = {name for name in before if only in name.split(" : ")[0]}
    wrong: dict[str, list[str]] = {}
    for name in sorted(wanted | after.keys()):
        case, what = name.split(" : ")
        if name not in before or name not in after:
            wrong.setdefault(case, []).append(f"{what} {'new' if name in after else 'gone'}")
        elif not _same(before[name], after[name]):
            wrong.setdefault(case, []).append(what)
    for case, names in wrong.items():
        print(f"{case}: {', '.join(names[:6])}{f' and {len(names) - 6} more' * (len(names) > 6)}")
    print(
        f"{len(wanted)} values of {len({n.split(' : ')[0] for n in wanted})} fits compared; ",
        end="",
    )
    print(f"{len(wrong)} fits differ")
    return len(wrong)


def _same(left: np.ndarray, right: np.ndarray) -> bool:
    if left.dtype.kind in "fc" and right.dtype.kind in "fc":
        return np.array_equal(left, right, equal_nan=True)
    return np.array_equal(left, right)


def main() -> int:
    action, path, *rest = sys.argv[1:]
    only = rest[0] if rest else ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = everything(only)
    if action == "write":
        np.savez_compressed(path, **{k.replace("/", "_"): v for k, v in found.items()})
        print(f"{len(found)} values written to {path}")
        return 0
    with np.load(Path(path), allow_pickle=False) as file:
        before = {name: file[name] for name in file.files}
    return min(compare(before, found, only), 1)


if __name__ == "__main__":
    sys.exit(main())
