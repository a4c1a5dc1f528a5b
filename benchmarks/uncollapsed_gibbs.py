"""What a sweep of uncollapsed Gibbs sampling costs, beside the two products it cannot do without.

10⁵×100 with 20 planted features, A given, X Aᵀ and Zᵀ X are N·K·D multiply-adds each; everything
else a sweep does (the bits, the rows' own dishes, ZᵀZ, A, the scales, α, the log joint) never
touches D for a row. Both are timed in turn in one process on one BLAS thread, as chains run; the
smallest of several times each.

    python benchmarks/uncollapsed_gibbs.py [--quick]
"""

from __future__ import annotations

import argparse

import numpy as np
from measuring import smallest
from tables import markdown
from threadpoolctl import threadpool_limits

import thali
from thali import datasets
from thali.data import Data
from thali.model import Model
from thali.starts import given_start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="10⁴ rows, few sweeps")
    options = parser.parse_args()
    n, d, k = 10_000 if options.quick else 100_000, 100, 20
    times = 3 if options.quick else 15
    planted = datasets.planted(n=n, d=d, k=k, sigma_x=0.5, random_state=0)
    data = Data.of(planted.X)
    model = Model(thali.IBP(), thali.LinearGaussian()).resolve(data)
    rng = np.random.default_rng(0)
    rows = []
    with threadpool_limits(limits=1, user_api="blas"):
        Z, A = planted.Z.astype(float), planted.A
        products = smallest(lambda: (data.X @ A.T, Z.T @ data.X), times)
        rows.append(["X Aᵀ and Zᵀ X", f"{1e3 * products:.1f}", "1.00"])
        for way in ("integrated", "slice"):
            engine = thali.UncollapsedGibbs(new_features=way)
            state = engine.begin(rng, model, data, given_start(planted.Z, model, data))
            engine.step(rng, model, data, state)
            step = smallest(lambda e=engine, s=state: e.step(rng, model, data, s), times)
            again = smallest(lambda: (data.X @ A.T, Z.T @ data.X), times)
            ratio = step / min(products, again)
            name = f'a sweep, new features by "{way}", K {state.n_components}'
            rows.append([name, f"{1e3 * step:.1f}", f"{ratio:.2f}"])
    print(f"\n{n}×{d}, {k} features\n")
    print(markdown(["work", "ms", "times the products"], rows))


if __name__ == "__main__":
    main()
