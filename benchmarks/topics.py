"""Topics of words: how fast, how good, how large.

1. Against tomotopy's HDP on one thread, on the KOS blog (folder in THALI_DATA): both samplers run
   for the same time on the same seen words, and predict the hidden half of a quarter of the
   documents: words visited in a second, perplexity of one state and of the mean over states of the
   second half of the time. tomotopy with its default settings (its documentation recommends no
   others), and with more topics to begin with. Needs `pip install tomotopy`; left out without.
2. The floor: what a word costs when its list of topics is only read, and the ratio to a sweep.
3. Growth: seconds for a sweep over 1, 2, 4, … times as many documents, drawn from a model, and the
   slope of their logarithms, which should be 1. Ten thousand documents are among them.
4. Memory: bytes for each word of what a chain holds, and of the peak of a fit, beyond the data.

Nothing is asserted: machines differ, ratios less so.

    THALI_DATA=… python benchmarks/topics.py [--seconds 30] [--only 1 2 3 4]
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator

import numpy as np
from real_data import Skipped, load
from scipy.sparse import csr_array, vstack
from tables import markdown

import thali
from thali.data.documents import Documents
from thali.engines.topics import steps
from thali.engines.topics.state import TopicState, state_of
from thali.evaluation import hide_words
from thali.kernels.compiling import kernel
from thali.kernels.corpus import topic_of, weigh_list
from thali.kernels.direct_assignment import topics_of_words
from thali.model import Model
from thali.starts.topics import scattered_start

EACH = 6  # states that are looked at in a run


def perplexity(chances: np.ndarray, held: csr_array) -> float:
    """Of hidden words with these probabilities, one for each entry."""
    return float(np.exp(-(held.data @ np.log(chances)) / held.data.sum()))


def mixed(shares: np.ndarray, words: np.ndarray, held: csr_array) -> np.ndarray:
    """Σ_t shares[j, t] words[t, x] of each entry (j, x)."""
    rows = np.repeat(np.arange(held.shape[0]), np.diff(held.indptr))
    found = np.empty(len(rows))
    by_word = np.ascontiguousarray(words.T)
    for at in range(0, len(rows), 2**14):
        some = slice(at, at + 2**14)
        found[some] = np.einsum("ek,ek->e", shares[rows[some]], by_word[held.indices[some]])
    return found


# ---- ours ----------------------------------------------------------------------------------------


def chances_of(model: Model, state: TopicState, held: csr_array) -> np.ndarray:
    """The probabilities of hidden words given one state, a new topic among what they may have."""
    topics, beta = state.topics, model.likelihood_at(state.hyper).beta
    used = topics.order[: topics.live[0]]
    v, prior = state.corpus.vocabulary, model.prior_values(state.hyper)
    counts = np.zeros((len(used) + 1, v))
    for x in range(v):
        own = state.lists.entry[state.lists.begin[x] : state.lists.begin[x] + state.lists.length[x]]
        counts[topics.place[own & 0xFFFFFFFF], x] = own >> 32
    words = (counts + beta) / (counts.sum(axis=1, keepdims=True) + v * beta)
    label = topics.place[topics_of_words(state.corpus, state.seating)]
    owner = np.repeat(np.arange(held.shape[0]), np.diff(state.corpus.first))
    own = np.zeros((held.shape[0], len(used) + 1))
    np.add.at(own, (owner, label), 1.0)
    base = np.append(topics.groups[used], prior["gamma"])
    shares = own + prior["alpha"] * base / base.sum()
    return mixed(shares / shares.sum(axis=1, keepdims=True), words, held)


def ours(
    seen: csr_array, held: csr_array, seconds: float, model: Model, engine: thali.DirectAssignment
) -> list[str]:
    """A chain for so many seconds, compiled before."""
    rng, data = np.random.default_rng(0), Documents(seen)
    start = scattered_start(rng, model, data)
    state = state_of(model, data, start.latent, dict(start.hyper))
    engine.step(rng, model, data, state)
    state = state_of(model, data, start.latent, dict(start.hyper))
    used, sweeps, looks, total = 0.0, 0, 1, np.zeros(held.nnz)
    one, many = np.nan, 0
    while used < seconds:
        at = time.perf_counter()
        info = engine.step(rng, model, data, state)
        used += time.perf_counter() - at
        sweeps += 1
        if used > seconds * looks / EACH:
            looks += 1
            chances = chances_of(model, state, held)
            one = perplexity(chances, held)
            if used > seconds / 2:
                total, many = total + chances, many + 1
    rate = sweeps * engine.passes * seen.sum() / used / 1e6
    mean = perplexity(total / many, held)
    return [f"{info.n_components}", f"{rate:.1f}", f"{one:.0f}", f"{mean:.0f}"]


# ---- tomotopy ------------------------------------------------------------------------------------


def theirs(
    seen: csr_array, held: csr_array, seconds: float, settings: dict[str, float]
) -> list[str]:
    """tomotopy's HDP on one thread for so many seconds."""
    import tomotopy

    model = tomotopy.HDPModel(seed=1, **settings)
    for j in range(seen.shape[0]):
        own = slice(seen.indptr[j], seen.indptr[j + 1])
        words = np.repeat(seen.indices[own], seen.data[own].astype(int))
        model.add_doc([str(x) for x in words])
    alone = {"workers": 1, "parallel": tomotopy.ParallelScheme.NONE}
    model.train(0, **alone)
    column = np.array([int(word) for word in model.used_vocabs])
    used, passes, looks, total = 0.0, 0, 1, np.zeros(held.nnz)
    one, many = np.nan, 0
    while used < seconds:
        at = time.perf_counter()
        model.train(5, **alone)
        used += time.perf_counter() - at
        passes += 5
        if used > seconds * looks / EACH:
            looks += 1
            live = [k for k in range(model.k) if model.is_live_topic(k)]
            # a word that was never seen has what tomotopy gives to one in a topic without words
            words = np.full((len(live), seen.shape[1]), 1.0 / seen.shape[1] * 1e-3)
            for row, k in enumerate(live):
                words[row, column] = model.get_topic_word_dist(k)
            shares = np.array([document.get_topic_dist() for document in model.docs])[:, live]
            chances = np.maximum(mixed(shares, words, held), 1e-12)
            one = perplexity(chances, held)
            if used > seconds / 2:
                total, many = total + chances, many + 1
    rate = passes * seen.sum() / used / 1e6
    return [f"{len(live)}", f"{rate:.1f}", f"{one:.0f}", f"{perplexity(total / many, held):.0f}"]


def against_tomotopy(options: argparse.Namespace) -> Iterator[str]:
    seen, held = hide_words(load("kos"), documents=0.25, random_state=0)
    hdp = Model(thali.HierarchicalDirichletProcess(), thali.TopicWords())
    engine = thali.DirectAssignment(sweeps=10)
    rows = [["thali, defaults", *ours(seen, held, options.seconds, hdp, engine)]]
    try:
        import tomotopy
    except ImportError:
        yield "tomotopy is not installed: left out."
    else:
        name = f"tomotopy {tomotopy.__version__}"
        for says, settings in {
            "defaults": {},
            "50 topics, η = 0.1": {"initial_k": 50, "alpha": 1.0, "gamma": 1.0, "eta": 0.1},
            "100 topics, η = 0.1": {"initial_k": 100, "alpha": 1.0, "gamma": 1.0, "eta": 0.1},
        }.items():
            found = theirs(seen, held, options.seconds, settings)
            rows.append([f"{name}, {says}", *found])
    head = ["", "topics", "million words/s", "perplexity, one state", "mean over states"]
    yield markdown(head, rows)


# ---- floor, growth, memory -----------------------------------------------------------------------


@kernel
def only_read(corpus, lists, by_topic):
    """Read the list of every word once, as a sweep must."""
    found = 0.0
    for i in range(corpus.word.shape[0]):
        found += weigh_list(lists, corpus.word[i], by_topic)
        found += topic_of(lists.entry[lists.begin[corpus.word[i]]])
    return found


def settled(X: csr_array, sweeps: int) -> tuple[Model, Documents, TopicState]:
    """A chain after some sweeps."""
    rng, data = np.random.default_rng(0), Documents(X)
    model = Model(thali.HierarchicalDirichletProcess(), thali.TopicWords())
    start = scattered_start(rng, model, data)
    state = state_of(model, data, start.latent, dict(start.hyper))
    engine = thali.DirectAssignment(sweeps=10)
    for _ in range(sweeps):
        engine.step(rng, model, data, state)
    return model, data, state


def least(call, times: int = 5) -> float:
    """The shortest of several calls, in seconds."""
    found = []
    for _ in range(times):
        at = time.perf_counter()
        call()
        found.append(time.perf_counter() - at)
    return min(found)


def floor(options: argparse.Namespace) -> Iterator[str]:
    model, _, state = settled(load("kos"), 30)
    rng, n = np.random.default_rng(1), len(state.corpus.word)
    by_topic = rng.random(len(state.topics.total))
    only_read(state.corpus, state.lists, by_topic)
    read = least(lambda: only_read(state.corpus, state.lists, by_topic)) / n * 1e9
    hyper = model.prior_values(state.hyper)
    numbers = float(hyper["alpha"]), float(hyper["gamma"]), 0.1
    one = least(lambda: steps.sweep_assignments(rng, state, *numbers, 1))
    four = least(lambda: steps.sweep_assignments(rng, state, *numbers, 4))
    a_pass = (four - one) / 3 / n * 1e9
    length = (state.lists.length[state.corpus.word]).mean()
    yield f"{state.n_topics} topics; the list of a word has {length:.1f} of them on average."
    yield f"A list read: {read:.0f} ns for each word; a pass over all words: {a_pass:.0f} ns, "
    yield f"{a_pass / read:.1f} times as much."


def drawn(documents: int) -> csr_array:
    """Documents of 100 words of 40 topics over 5000 words."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(5000, 0.02), 40)
    parts = []
    for _ in range(documents // 250):  # a few at a time, so that nothing large is made dense
        shares = rng.dirichlet(np.full(40, 0.1), 250)
        parts.append(csr_array(rng.multinomial(100, shares @ topics).astype(float)))
    return csr_array(vstack(parts))


def growth(options: argparse.Namespace) -> Iterator[str]:
    whole, rows, sizes = drawn(20_000), [], [1250, 2500, 5000, 10_000, 20_000]
    for n in sizes:
        model, data, state = settled(whole[:n], 40)
        rng, engine = np.random.default_rng(1), thali.DirectAssignment(sweeps=10)
        seconds = least(lambda: engine.step(rng, model, data, state), 5)  # noqa: B023
        rows.append([f"{n:,}", f"{100 * n:,}", f"{state.n_topics}", f"{seconds * 1e3:.0f}"])
    yield markdown(["documents", "words", "topics", "ms for a sweep"], rows)
    times = [float(row[3]) for row in rows]
    slope = np.polyfit(np.log(sizes), np.log(times), 1)[0]
    yield ""
    yield f"Seconds grow as words to the power {slope:.2f}."


def peak(documents: int) -> float:
    """The most memory that a process of its own takes for a fit, in bytes."""
    command = [sys.executable, __file__, "--fit", str(documents)]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(found.stdout.split()[-1])


def fit_once(documents: int, trace: bool = False) -> float:
    """The peak of what this process takes for a fit, in bytes, or of what it allocates there."""
    X = csr_array(vstack([drawn(5000)] * (documents // 5000), format="csr"))
    model = thali.TopicModel(
        engine=thali.DirectAssignment(sweeps=20, chains=1), random_state=0, progress=False
    )
    if not trace:
        model.fit(X)
        return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model.fit(X[:250])  # compiles
    tracemalloc.start()
    model.fit(X)
    return tracemalloc.get_traced_memory()[1] - X.data.nbytes - X.indices.nbytes


def memory(options: argparse.Namespace) -> Iterator[str]:
    _, _, state = settled(load("kos"), 3)
    arrays = [a for part in (state.corpus, state.seating, state.lists, state.topics) for a in part]
    held = sum(a.nbytes for a in arrays if isinstance(a, np.ndarray))
    yield f"KOS: a chain holds {held / len(state.corpus.word):.1f} bytes for each word."
    few, many = 5000, 45_000
    needed = fit_once(20_000, trace=True) / 2e6
    yield f"A fit of one chain needs {needed:.0f} at its peak, beside a copy of the data: the"
    yield "chain, 10 draws, and what the answer is worked out from."
    grown = (peak(many) - peak(few)) / (100 * (many - few))
    yield f"The peak of a process grows by {grown:.0f} for each word: the data and their copy too,"
    yield "and what allocators retain."


PARTS = {
    1: ("Against tomotopy, KOS", against_tomotopy),
    2: ("The floor", floor),
    3: ("Growth", growth),
    4: ("Memory", memory),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--only", type=int, nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--fit", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fit:
        print(fit_once(options.fit))
        return
    for part in options.only:
        title, run = PARTS[part]
        print(f"\n## {title}\n")
        try:
            for line in run(options):
                print(line, flush=True)
        except Skipped as reason:
            print(reason)


if __name__ == "__main__":
    main()
