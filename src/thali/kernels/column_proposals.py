r"""Proposals of the moves on columns that look at the data, and their probabilities.

Each function either draws and returns the log probability of what it drew, or, with draw = False,
returns that of what it is given. Both read the same state, so the two agree to the last digit.
"""

import numpy as np

from thali.kernels.compiling import helper
from thali.kernels.maintained_rows import FAST, dot, dot_rows, inverse, multiply, products

REFINED = 2  # times the direction of a residue is averaged over the rows that share it
URN = 1.0  # weight of a pattern not yet seen among the flips of a column's rows
MOST_LOGIT = 30.0
NOTHING = -50.0  # e to this is lost in rounding, whatever it is added to


@helper
def means(rows, k, scales):
    """μ = (C + rI)⁻¹ T, the features' posterior mean."""
    r = (scales.sigma_x / scales.sigma_a) ** 2
    return multiply(inverse(rows.C, k, r), rows.T, k)


@helper
def code_anew(rng, X, rows, whole, scales, flips, draw):
    """New codes, without the last column d, of the rows that have it: at most two flips each.

    P(z') ∝ exp(−‖x − z'μ‖²/2σ_x²) over z' within two flips of z, with μ of the state at hand (d
    included, which takes its share of what the others need not explain).
    """
    k = whole - 1
    mu = means(rows, whole, scales)
    G = products(mu, k)
    precision = 0.5 / (scales.sigma_x * scales.sigma_x)
    b = np.zeros(k)
    gain = np.zeros(k)
    sign = np.zeros(k)
    total = 0.0
    for n in range(X.shape[0]):
        z = rows.Z[n]
        if not z[k]:
            continue
        dot_rows(mu, X[n], k, b)
        for i in range(k):
            sign[i] = -1.0 if z[i] else 1.0
            h = 0.0
            for j in range(k):
                if z[j]:
                    h += G[i, j]
            gain[i] = -precision * (2.0 * sign[i] * (h - b[i]) + G[i, i])
        top = largest_gain(gain, sign, G, precision)
        weight, _, _ = sum_gains(gain, sign, G, precision, top, np.inf)
        if draw:
            stop = rng.random() * weight
            _, flips[n, 0], flips[n, 1] = sum_gains(gain, sign, G, precision, top, stop)
        i, j = flips[n, 0], flips[n, 1]
        value = 0.0
        if i >= 0:
            value = gain[i] if j < 0 else pair_gain(i, j, gain, sign, G, precision)
        total += value - top - np.log(weight)
    return total


@helper
def pair_gain(i, j, gain, sign, G, precision):
    """log P of two flips over that of none."""
    return gain[i] + gain[j] - 2.0 * precision * sign[i] * sign[j] * G[i, j]


@helper
def largest_gain(gain, sign, G, precision):
    """The largest over no flip, one and two."""
    top = 0.0
    for i in range(len(gain)):
        top = max(top, gain[i])
        for j in range(i):
            top = max(top, pair_gain(i, j, gain, sign, G, precision))
    return top


@helper
def sum_gains(gain, sign, G, precision, top, stop):
    """Σ e^{gain − top} over no flip, one and two, and the flips i > j (or −1) that pass stop."""
    total = np.exp(-top)
    if total > stop:
        return total, -1, -1
    for i in range(len(gain)):
        total += np.exp(gain[i] - top)
        if total > stop:
            return total, i, -1
        for j in range(i):
            more = pair_gain(i, j, gain, sign, G, precision) - top
            if more > NOTHING:
                total += np.exp(more)
                if total > stop:
                    return total, i, j
    return total, -1, -1


@helper
def log_base(i, j, k):
    """Probabilities of a new pattern: no flip ½, one ¼, two ¼, evenly among the k columns."""
    if k == 0:
        return 0.0
    if i < 0:
        return np.log(0.5)
    if j < 0:
        return np.log((0.5 if k == 1 else 0.25) / k)
    return np.log(0.5 / (k * (k - 1.0)))


@helper
def draw_base(rng, k):
    u = rng.random()
    if k == 0 or u < 0.5:
        return -1, -1
    i = int(rng.random() * k)
    if k == 1 or u < 0.75:
        return i, -1
    j = int(rng.random() * (k - 1))
    if j >= i:
        j += 1
    return max(i, j), min(i, j)


@helper
def flips_from_urn(rng, Z, d, flips, draw):
    """Flips of the rows that have column d, the patterns from a Pólya urn over ``log_base``.

    Each row repeats the pattern of a random earlier one, or with weight ``URN`` takes a new one;
    so flips that most rows share cost little, whatever they are.
    """
    k = d
    seen = np.zeros((k + 1, k + 1))
    earlier = np.zeros(Z.shape[0], np.int64)
    t = 0
    total = 0.0
    for n in range(Z.shape[0]):
        if not Z[n, d]:
            continue
        if draw:
            u = int(rng.random() * (t + URN)) if t > 0 else t
            if u < t:
                flips[n, 0], flips[n, 1] = flips[earlier[u], 0], flips[earlier[u], 1]
            else:
                flips[n, 0], flips[n, 1] = draw_base(rng, k)
        i, j = flips[n, 0], flips[n, 1]
        total += np.log((seen[i, j] + URN * np.exp(log_base(i, j, k))) / (t + URN))
        seen[i, j] += 1.0  # −1 is the last position, which no column has
        earlier[t] = n
        t += 1
    return total


@helper(fastmath=FAST)
def residue_scores(X, Z, k, mu, w, out):
    """out_n = e_n·w with e = X − Zμ; returns ‖w‖²."""
    along = np.zeros(k)
    dot_rows(mu, w, k, along)
    width = X.shape[1]
    for n in range(X.shape[0]):
        score = dot(X[n], w, width)
        z = Z[n]
        for i in range(k):
            if z[i]:
                score -= along[i]
        out[n] = score
    return dot(w, w, width)


@helper(fastmath=FAST)
def residue_mean(X, Z, k, mu, scores, least, w):
    """w = the mean of e_n over the rows with a score above ``least``; returns their number."""
    counts = np.zeros(k)
    total = np.zeros(X.shape[1])
    size = 0
    for n in range(X.shape[0]):
        if scores[n] > least:
            size += 1
            for c in range(X.shape[1]):
                total[c] += X[n, c]
            for i in range(k):
                counts[i] += Z[n, i]
    if size == 0:
        return 0
    for i in range(k):
        for c in range(X.shape[1]):
            total[c] -= counts[i] * mu[i, c]
    for c in range(X.shape[1]):
        w[c] = total[c] / size
    return size


@helper
def residue_column(rng, X, rows, k, scales, seed, v, draw):
    """A column around what the k features leave of row ``seed``, which has it for certain.

    w, first the seed's residual, is averaged over the rows nearer to w than to 0, a few times; then
    v_n ~ Bernoulli with log odds (e_n·w − ‖w‖²/2)/σ_x² + log odds of the share of such rows.
    """
    mu = means(rows, k, scales)
    w = X[seed].copy()
    for i in range(k):
        if rows.Z[seed, i]:
            for c in range(X.shape[1]):
                w[c] -= mu[i, c]
    scores = np.zeros(X.shape[0])
    size = 0
    for turn in range(REFINED + 1):
        square = residue_scores(X, rows.Z, k, mu, w, scores)
        if turn < REFINED:
            size = residue_mean(X, rows.Z, k, mu, scores, 0.5 * square, w)
    share = np.log((size + 1.0) / (X.shape[0] - size + 1.0))
    total = 0.0
    for n in range(X.shape[0]):
        if n == seed:
            if draw:
                v[n] = 1
            continue
        logit = (scores[n] - 0.5 * square) / scales.sigma_x**2 + share
        logit = min(max(logit, -MOST_LOGIT), MOST_LOGIT)
        if draw:
            v[n] = 1 if rng.random() * (1.0 + np.exp(-logit)) < 1.0 else 0
        total -= np.log(1.0 + np.exp(-logit if v[n] else logit))
    return total
