"""Welling, Porteous and Kurihara (2012), section V: topics of the KOS blog, figures 3 and 4.

The hierarchical Dirichlet process (HDP) against a hierarchy whose groups of words follow
λ_i = a + b log Γ(i + c), a, b and c learned (HFP), and whose topics follow a Dirichlet process. Ten
tenths of the documents; half of the words of a quarter of the documents are hidden; 300 sweeps,
then 400 over which the probabilities of hidden words are averaged; perplexity is e to the minus
mean of their logarithms. Paired t-test over the tenths.

What the paper does not say, and what is done here: documents are dealt to tenths at random; the
words of topics have a Dirichlet distribution of weight β, which is 0.1 unless --beta says
otherwise, in both models; chains begin with words scattered over topics; topics are also split and
merged. a, b and c are brought to their best by steps along the exact gradient ("exact"), or by
contrastive divergence as in the paper; α of the HDP, which the paper learns by contrastive
divergence too, is sampled, with Gamma(1, 1) before the data.

    THALI_DATA=… python reproductions/welling_2012_topics.py [--out welling_2012_topics] [--full]

--full adds a, b and c with their uncertainty ("posterior"), and β = 0.5. Figure 5 is
welling_2012.py, figure 1 benchmarks/flexible_partitions.py.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np
from presenting import Section, Skipped, panels, parser_of, read, table, write_report
from scipy.sparse import csr_array
from scipy.stats import ttest_rel

import thali
from thali.evaluation import hide_words

PAPER = "Welling, Porteous and Kurihara (2012), section V"
PRINTED = "1737 (HDP), 1675 (HFP), p = 0.01"
LENGTH = 100  # words of a document for which sizes of groups are shown


class Job(NamedTuple):
    """A tenth of the documents, and a model of them."""

    tenth: int
    model: str
    beta: float
    sweeps: tuple[int, int]
    seed: int


class Found(NamedTuple):
    """What came of it."""

    perplexity: float
    topics: float
    groups: tuple[float, ...]  # a, b, c
    seconds: float


def kos() -> csr_array:
    """The counts of words in the blog."""
    found = read("kos_bow.npz")
    parts = found["X_data"].astype(float), found["X_indices"].astype(np.int32)
    return csr_array((*parts, found["X_indptr"]), shape=tuple(found["X_shape"]))


def prior_of(model: str) -> object:
    """The HDP, or the flexible one with the way in which a, b and c are found."""
    if model == "HDP":
        return thali.HierarchicalDirichletProcess()
    return thali.HierarchicalFlexible(groups=thali.SmoothPartition(), learning=model)


def run(job: Job) -> Found:
    """Fit a model to a tenth, and predict its hidden words."""
    X, rng = kos(), np.random.default_rng(job.seed)
    rows = np.array_split(rng.permutation(X.shape[0]), 10)[job.tenth]
    part = X[np.sort(rows)]
    part = part[:, np.flatnonzero(part.sum(axis=0))].tocsr()
    hiding = np.random.default_rng((job.seed, job.tenth))
    seen, held = hide_words(part, documents=0.25, random_state=hiding)
    burn_in, kept = job.sweeps
    engine = thali.Franchise(sweeps=burn_in + kept, burn_in=burn_in, thin=1, chains=1)
    model = thali.TopicModel(
        prior=prior_of(job.model),
        likelihood=thali.TopicWords(concentration=job.beta),
        engine=engine,
        random_state=job.tenth,
        progress=False,
    )
    model.fit(seen, n_hidden=held.sum(axis=1).astype(int))
    means = model.fit_.means()
    groups = (
        (float(np.log(means["alpha"])), 1.0, 0.0)
        if job.model == "HDP"
        else tuple(float(means[f"groups_{name}"]) for name in "abc")
    )
    return Found(model.perplexity(None, held), means["n_components"], groups, model.seconds_)


def section_v(options: argparse.Namespace) -> Section:
    """The comparison, one table for each β."""
    try:
        kos()
    except Skipped as reason:
        return Section("Topics of the KOS blog", [str(reason)], {})
    sweeps = (30, 40) if options.quick else (300, 400)
    tenths = range(2 if options.quick else 10)
    models = ["HDP", "exact", "contrastive", *(["posterior"] if options.full else [])]
    betas = [0.1, 0.5] if options.full else [options.beta]
    jobs = [Job(t, m, b, sweeps, options.seed) for b in betas for t in tenths for m in models]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        results = dict(zip(jobs, pool.map(run, jobs), strict=True))
    lines = [f"The paper: {PRINTED}.", ""]
    for beta in betas:
        own = {m: [results[Job(t, m, beta, sweeps, options.seed)] for t in tenths] for m in models}
        lines += [f"β = {beta:g}, perplexity of hidden words:", ""]
        lines += table(
            ["tenth", *models],
            [[t, *(f"{own[m][t].perplexity:.0f}" for m in models)] for t in tenths],
        )
        lines += ["", *summary(own), ""]
    own = {m: [results[Job(t, m, betas[0], sweeps, options.seed)] for t in tenths] for m in models}
    return Section("Topics of the KOS blog", lines, {"figures_3_4.png": picture(own)})


def summary(own: dict[str, list[Found]]) -> list[str]:
    """Means, topics, and paired tests against the HDP."""
    rows = []
    base = np.array([found.perplexity for found in own["HDP"]])
    for name, each in own.items():
        values = np.array([found.perplexity for found in each])
        numbers = np.mean([found.groups for found in each], axis=0)
        test = "" if name == "HDP" else f"{ttest_rel(values, base).pvalue:.2g}"
        lower = "" if name == "HDP" else f"{(values < base).sum()} of {len(base)}"
        topics, seconds = (np.mean([getattr(f, k) for f in each]) for k in ("topics", "seconds"))
        shown = ", ".join(f"{x:.2f}" for x in numbers)
        rows.append(
            [name, f"{values.mean():.0f}", lower, test, f"{topics:.0f}", shown, f"{seconds:.0f}"]
        )
    head = ["model", "mean", "lower than HDP", "p", "topics", "a, b, c", "seconds"]
    return table(head, rows)


def picture(own: dict[str, list[Found]]) -> object:
    """Figure 3: the potentials of sizes, and what they mean. Figure 4: perplexity by tenth."""
    figure, axes = panels(3)
    i = np.arange(1, LENGTH + 1)
    for name, each in own.items():
        a, b, c = np.mean([found.groups for found in each], axis=0)
        prior = thali.SmoothPartition(a=float(a), b=float(b), c=float(c))
        own_potentials = prior.potentials_for(LENGTH)
        line = np.interp(i, [1, LENGTH], own_potentials[[0, -1]])  # λ_i + k·i is the same prior
        axes[0].plot(i, own_potentials - line, label=name)
        axes[1].plot(i, prior.expected_size_counts(LENGTH), label=name)
        if name != "HDP":
            x, y = ([found.perplexity for found in one] for one in (own["HDP"], each))
            axes[2].plot(x, y, "o", label=name)
    ends = [
        min(axes[2].get_xlim()[0], axes[2].get_ylim()[0]),
        max(axes[2].get_xlim()[1], axes[2].get_ylim()[1]),
    ]
    axes[2].plot(ends, ends, color="0.6", lw=1)
    axes[0].set(
        xlabel="words of a group, i", ylabel="λ_i less a line", title="figure 3: potentials"
    )
    axes[1].set(xlabel="words of a group", yscale="log", title=f"groups of {LENGTH} words expected")
    axes[2].set(xlabel="perplexity, HDP", ylabel="perplexity, HFP", title="figure 4")
    for ax in axes:
        ax.legend(frameon=False, fontsize=8)
    return figure


PARTS = {"section_v": section_v}


def main() -> None:
    parser = parser_of("welling_2012_topics", __doc__, PARTS, "all ways of learning, two β")
    parser.add_argument("--quick", action="store_true", help="two tenths and few sweeps")
    parser.add_argument("--beta", type=float, default=0.1, help="weight of words in topics")
    options = parser.parse_args()
    write_report(PAPER, PARTS, options, "One chain for each tenth and model.")


if __name__ == "__main__":
    main()
