r"""Rows one by one in many weighted particles, each a partition of the rows so far.

After i rows, the next one is in cluster k of n_k rows, or in one of its own beside K others, with
weight

    w_k = (n_k − d)/(i + α) · p(x | its rows),        w_new = (α + K d)/(i + α) · p(x),

and its label is drawn by these weights: the proposal that makes the particle's own weight, which
is multiplied by Σ w, vary least (Kong, Liu and Wong 1994; Fearnhead 2004). Or it is drawn by the
prior alone, and the weight is multiplied by the density of what was drawn.

Particle p has the slots p·room … p·room + K, the last of which is empty: clusters are in the order
of their first rows, so that a slot less p·room is a canonical label.
"""

from typing import NamedTuple

import numpy as np
from numba.extending import overload

from thali.kernels.compiling import BORROWS, helper, kernel
from thali.kernels.groups import add, clear, laws_of, log_marginal, log_predictives

NOTHING = 40.0  # a log weight so far below another adds nothing to it in double precision
DONE, RESAMPLE, ROOM, LOST = 0, 1, 2, 3  # why a call ended


class Particles(NamedTuple):
    """Of each particle: α, d, K, its log weight and log joint; and the size of every slot."""

    mass: np.ndarray
    discount: np.ndarray
    k: np.ndarray
    log_weights: np.ndarray  # normalized
    log_joints: np.ndarray  # log P(partition) + log p(rows | partition)
    sizes: np.ndarray


class Plan(NamedTuple):
    """When to resample: below which effective size, and not after row ``last``; and whether labels
    are drawn given the row's data."""

    least: float
    last: int
    informed: bool


def at_particle(groups, laws, p):
    """Groups with the hyperparameters of particle p: ``laws`` has those fields of all of them.

    Only for helpers that borrow: nothing that is in it is counted.
    """
    own = zip(laws_of(type(groups)), laws, strict=True)
    return groups._replace(**{name: values[p] for name, values in own})


@overload(at_particle, jit_options=BORROWS)
def _at_particle(groups, laws, p):
    """Written out field by field, since compiled code knows no ``_replace``."""
    cls = groups.instance_class
    names, scope = laws_of(cls), {"cls": cls}
    fields = [
        f"laws[{names.index(name)}][p]" if name in names else f"groups.{name}"
        for name in cls._fields
    ]
    exec(f"def made(groups, laws, p): return cls({', '.join(fields)})", scope)
    return scope["made"]


@helper(borrows=True)
def prior_weight(size, k, mass, discount):
    """Of joining a cluster of so many rows, or (size 0) of opening one beside k others."""
    if size > 0:
        return size - discount
    return mass + k * discount if k > 0 else 1.0


@helper(borrows=True)
def put(own, particles, p, base, label, i):
    """Row i has this label; the slot after the last one in use is always empty."""
    slot, k = base + label, particles.k[p]
    particles.sizes[slot] += 1
    add(own, slot, i, particles.sizes[slot])
    if label == k:
        particles.k[p] = k + 1
        particles.sizes[slot + 1] = 0
        clear(own, slot + 1)


@helper(borrows=True)
def extend(rng, groups, laws, particles, p, i, cut, informed, which, logs, sums):
    """Give row i a label in particle p; returns it, and what multiplies the weight, its log."""
    own = at_particle(groups, laws, p)
    mass, discount, k = particles.mass[p], particles.discount[p], particles.k[p]
    base = p * (len(particles.sizes) // len(particles.k))
    for j in range(k + 1):
        which[j] = base + j
        logs[j] = 0.0
    log_predictives(own, which, particles.sizes, k + 1, i, logs, np.inf)
    top, lost = logs[k], logs[k] != logs[k]
    for j in range(k):
        top = max(top, logs[j])
        lost |= logs[j] != logs[j]
    total = 0.0
    for j in range(k + 1):
        weight = prior_weight(particles.sizes[base + j], k, mass, discount)
        if not informed:
            total += weight
        elif logs[j] > top - cut:
            total += weight * np.exp(logs[j] - top)
        sums[j] = total
    u = total * rng.random()
    label = 0
    while label < k and sums[label] <= u:
        label += 1
    whole = i + mass if k > 0 else 1.0
    weight = prior_weight(particles.sizes[base + label], k, mass, discount)
    particles.log_joints[p] += np.log(weight / whole) + logs[label]
    gained = top + np.log(total / whole) if informed else logs[label]
    put(own, particles, p, base, label, i)
    return label, -np.inf if lost else gained


@helper(borrows=True)
def normalize(log_weights):
    """Weights that sum to one; returns the log of what they summed to, the effective size 1/ΣW²,
    and which is the largest."""
    heaviest = 0
    for p in range(len(log_weights)):
        if log_weights[p] > log_weights[heaviest]:
            heaviest = p
    top, total, squares = log_weights[heaviest], 0.0, 0.0
    if top == -np.inf:
        return top, 0.0, heaviest
    for p in range(len(log_weights)):
        weight = np.exp(log_weights[p] - top)
        total += weight
        squares += weight * weight
    log_total = top + np.log(total)
    for p in range(len(log_weights)):
        log_weights[p] -= log_total
    return log_total, total * total / squares, heaviest


@helper
def cuts(particles, rows):
    """How far below the largest density one may lie and have weight: priors' weights differ too."""
    found = np.empty(len(particles.k))
    for p in range(len(found)):
        mass, discount = particles.mass[p], particles.discount[p]
        least = min(1.0 - discount, mass + discount)
        found[p] = NOTHING + np.log((rows + abs(mass) + 1.0) / least)
    return found


@kernel
def take_rows(rng, groups, laws, particles, first, plan, labels, told):
    """Rows from ``first`` on, as many as ``labels`` (rows, P) has room for, until one after which
    particles are to be resampled, or before which they need more slots, or none has any weight.

    ``told`` has of each row K and the log joint of the heaviest particle, and which it is. Returns
    the next row, how much log P(X) gained, and why it ended.
    """
    room = len(particles.sizes) // len(particles.k)
    which, logs, sums = np.empty(room, np.int64), np.empty(room), np.empty(room)
    cut = cuts(particles, first + len(labels))
    most, gained = particles.k.max(), 0.0
    for at in range(len(labels)):
        i = first + at
        if most + 2 > room:
            return i, gained, ROOM
        for p in range(len(particles.k)):
            labels[at, p], more = extend(
                rng, groups, laws, particles, p, i, cut[p], plan.informed, which, logs, sums
            )
            particles.log_weights[p] += more
            most = max(most, particles.k[p])
        total, effective, heaviest = normalize(particles.log_weights)
        if not np.isfinite(total):
            return i, gained, LOST
        gained += total
        told[at, 0] = particles.k[heaviest]
        told[at, 1] = particles.log_joints[heaviest]
        told[at, 2] = heaviest
        if effective < plan.least and i < plan.last:
            return i + 1, gained, RESAMPLE
    return first + len(labels), gained, DONE


@helper(borrows=True)
def clear_one(groups, laws, particles, p, slot):
    """A slot of particle p is empty."""
    particles.sizes[slot] = 0
    clear(at_particle(groups, laws, p), slot)


@kernel
def clear_next(groups, laws, particles):
    """The slot after those in use is empty, in every particle."""
    room = len(particles.sizes) // len(particles.k)
    for p in range(len(particles.k)):
        clear_one(groups, laws, particles, p, p * room + particles.k[p])


@helper(borrows=True)
def refill_one(groups, laws, particles, p, labels):
    """Statistics of particle p afresh; returns log p(rows | partition)."""
    own, k = at_particle(groups, laws, p), particles.k[p]
    base = p * (len(particles.sizes) // len(particles.k))
    for slot in range(base, base + k + 1):
        particles.sizes[slot] = 0
        clear(own, slot)
    for i in range(labels.shape[1]):
        put(own, particles, p, base, labels[p, i], i)
    found = 0.0
    for slot in range(base, base + k):
        found += log_marginal(own, slot, particles.sizes[slot])
    return found


@kernel
def refill(groups, laws, particles, labels):
    """Statistics afresh from labels (P, rows), canonical; returns log p(rows | partition) of each.

    Hyperparameters may have changed, and there may be more rows than before, in no new clusters.
    """
    found = np.zeros(len(particles.k))
    for p in range(len(found)):
        found[p] = refill_one(groups, laws, particles, p, labels)
    return found


@helper(borrows=True)
def most_probable_of_one(groups, laws, particles, p, first, labels, which, logs):
    """As ``most_probable``, in one particle."""
    own, k = at_particle(groups, laws, p), particles.k[p]
    base = p * (len(particles.sizes) // len(particles.k))
    for j in range(k):
        which[j] = base + j
    for at in range(labels.shape[1]):
        for j in range(k):
            logs[j] = np.log(particles.sizes[which[j]] - particles.discount[p])
        log_predictives(own, which, particles.sizes, k, first + at, logs, np.inf)
        best = 0
        for j in range(k):
            if logs[j] > logs[best]:
                best = j
        labels[p, at] = best


@kernel
def most_probable(groups, laws, particles, first, labels):
    """For rows from ``first`` on, the most probable of the clusters that there are, (P, rows)."""
    room = len(particles.sizes) // len(particles.k)
    which, logs = np.empty(room, np.int64), np.empty(room)
    for p in range(len(particles.k)):
        most_probable_of_one(groups, laws, particles, p, first, labels, which, logs)
