"""From nothing to an answer: an earlier state of the library and this one, in turns.

All on one machine, in one run.

The earlier one is a source tree, such as `git worktree add ../earlier COMMIT`; every measurement
runs in a process of its own with that tree, or ours, on its path.

    cold      a first default fit of the 100×36 images by a process that finds nothing compiled
    warm      the same and others with everything compiled: seconds, and the share of two cores
    import    `import thali`, and what it stands on
    report    the page that a fit of the images leaves
    answers   over seeds: the best draw's log joint, and the log density of rows left out (a fifth)

Sets: the images, planted data (a: 500×500, K = 20; b: 1000×100, K = 4; c: 500×100 from the model)
and, from the folder in THALI_DATA, the animals, sonar and votes. A difference of answers is told
with twice the standard error of its mean over seeds. Nothing is asserted.

    python benchmarks/first_minute.py --before ../earlier/src [--seeds 10] [--only images sonar]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from tables import markdown

HERE = Path(__file__).resolve().parent
SETS = ("images", "planted_a", "planted_b", "planted_c", "animals", "sonar", "votes")
TIMED = ("images", "planted_a", "planted_b")
WORKER = """
import json, os, sys, time
import numpy as np
began = time.perf_counter()
import thali
imported = time.perf_counter() - began
sys.path.insert(0, sys.argv[1])

def data(name, seed):
    from thali import datasets
    if name == "images":
        return datasets.images(n=100, random_state=seed).X
    if name == "planted_a":
        return datasets.noisy_nonnegative(random_state=seed).X
    if name == "planted_b":
        return datasets.planted(random_state=seed).X
    if name == "planted_c":
        parts = thali.IBP(alpha=3.0), thali.LinearGaussian(sigma_x=0.5, sigma_a=1.0)
        return datasets.draw(*parts, n=500, d=100, random_state=seed).X
    import real_data
    return real_data.load(name)

def fit(X, seed):
    clock, processor = time.perf_counter(), time.process_time()
    model = thali.LatentFeatures(random_state=seed, progress=False).fit(X)
    seconds = time.perf_counter() - clock
    return model, {"seconds": seconds, "processors": (time.process_time() - processor) / seconds}

for line in sys.stdin:
    what, name, seed = json.loads(line)
    if what == "import":
        answer = {"seconds": imported}
    elif what == "report":
        model, _ = fit(data("images", seed), seed)
        clock = time.perf_counter()
        model.report(os.path.join(sys.argv[2], "report.html"))
        answer = {"seconds": time.perf_counter() - clock}
    elif what == "time":
        model, answer = fit(data(name, seed), seed)
    else:
        X = data(name, seed)
        order = np.random.default_rng(seed).permutation(len(X))
        train, test = X[order[len(X) // 5 :]], X[order[: len(X) // 5]]
        model, answer = fit(train, seed)
        best = model.best_
        answer |= {"log joint": best.log_joint, "K": int(best.Z.any(axis=0).sum()),
                   "held out": float(model.score(test))}
    print(json.dumps(answer), flush=True)
"""


class Library:
    """A process that has imported one state of the library, and answers."""

    def __init__(self, source: Path, cache: Path, scratch: Path) -> None:
        environment = os.environ | {"PYTHONPATH": str(source), "NUMBA_CACHE_DIR": str(cache)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(HERE), str(scratch)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )

    def ask(self, what: str, name: str = "", seed: int = 0) -> dict[str, float]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps([what, name, seed]), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"{what} {name} {seed}: the process ended; see above.")
        found: dict[str, float] = json.loads(answer)
        say(f"{what} {name} {seed}: " + "  ".join(f"{k} {v:.7g}" for k, v in found.items()))
        return found

    def close(self) -> None:
        self.process.communicate()


def say(text: str) -> None:
    """Progress to stderr, so that the tables can be redirected."""
    print(text, file=sys.stderr, flush=True)


def times(sources: dict[str, Path], caches: dict[str, Path], scratch: Path, repeats: int) -> None:
    """The table of seconds; each is the smallest of a few, but a cold fit, which is made once."""
    seconds: dict[str, dict[str, float]] = {"cold first fit": {}}
    shares: dict[str, dict[str, float]] = {}
    for which, source in sources.items():
        first = Library(source, caches[which], scratch)
        seconds["cold first fit"][which] = first.ask("time", "images")["seconds"]
        first.close()
    jobs = [("import", ""), ("report", ""), *(("time", name) for name in TIMED)]
    for what, name in jobs:
        label = f"default fit, {name}" if name else what
        seconds[label], shares[label] = {}, {}
        for _ in range(repeats):
            for which, source in sources.items():
                library = Library(source, caches[which], scratch)
                found = library.ask(what, name)
                library.close()
                if found["seconds"] < seconds[label].get(which, np.inf):
                    seconds[label][which] = found["seconds"]
                    shares[label][which] = found.get("processors", np.nan)
    rows = []
    for label, took in seconds.items():
        own = [*took.values()]
        busy = [f"{share:.2f}" for share in shares.get(label, {}).values()] or ["", ""]
        rows.append([label, *(f"{t:.2f}" for t in own), f"{own[-1] / own[0]:.2f}", *busy])
    head = ["seconds", "before", "after", "ratio", "cores busy before", "after"]
    print(f"\n{markdown(head, rows)}\n", flush=True)


def answers(
    sources: dict[str, Path], caches: dict[str, Path], scratch: Path, names: list[str], seeds: int
) -> None:
    """The table of answers over seeds."""
    libraries = {
        which: Library(source, caches[which], scratch) for which, source in sources.items()
    }
    rows = []
    for name in names:
        found: dict[str, list[dict[str, float]]] = {which: [] for which in libraries}
        for seed in range(seeds):
            for which, library in libraries.items():
                found[which].append(library.ask("answers", name, seed))
        row: list[object] = [name]
        for key in ("log joint", "held out"):
            before, after = (np.array([each[key] for each in own]) for own in found.values())
            change = after - before
            noise = 2.0 * change.std(ddof=1) / np.sqrt(seeds) if seeds > 1 else np.nan
            row += [f"{before.mean():.2f}", f"{change.mean():+.3f} ± {noise:.3f}"]
        for key in ("K", "seconds"):
            row += [f"{np.mean([each[key] for each in own]):.1f}" for own in found.values()]
        rows.append(row)
    head = ["set", "log joint", "change", "held out", "change"]
    head += ["K before", "after", "s before", "after"]
    print(f"\n{markdown(head, rows)}\n", flush=True)
    for library in libraries.values():
        library.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="The first minute, before and after.")
    parser.add_argument("--before", type=Path, required=True, help="an earlier src folder")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3, help="of each warm measurement")
    parser.add_argument("--only", nargs="+", choices=SETS, help="sets to compare answers on")
    parser.add_argument("--no-times", action="store_true", help="answers alone")
    options = parser.parse_args()
    names = options.only or [s for s in SETS if "THALI_DATA" in os.environ or s in SETS[:4]]
    sources = {"before": options.before.resolve(), "after": HERE.parent / "src"}
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        caches = {which: scratch / which for which in sources}
        if not options.no_times:
            times(sources, caches, scratch, options.repeats)
        answers(sources, caches, scratch, names, options.seeds)


if __name__ == "__main__":
    main()
