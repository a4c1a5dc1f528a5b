r"""Mean-field updates of the rows of X = W A + E, W = Z or Z ⊙ S, given q(A).

With Q = E[AAᵀ], B = X E[A]ᵀ, R = B − E[W] Q and precision 1/σ_x², the expected log likelihood as a
function of one w_nk is  precision (w e − ½ w² Q_kk),  e = R_k + E[w_k] Q_kk,  so that

    bits      logit ν = odds + precision (e − ½ Q_kk)
    amounts   q(s | z = 1) ∝ p(s) exp(precision (s e − ½ s² Q_kk)),   logit ν = odds + log ∫ …

are the best given all others: a Gaussian for the Gaussian slab, two truncated Gaussians side
by side for the Laplace slab, both in closed form. An entry that stays costs O(1), one that moves
O(K), and no step touches D. Rows with gaps have a Q of their own, of the columns they show.
"""

import math

from thali.kernels.compiling import helper, kernel
from thali.kernels.truncated_normal import log_lifted_ndtr, mean, sample, variance

STILL = 1e-11  # a change of ν or E[w] below this is not made
FLAT = 1e-12  # the least curvature: a row that shows nothing has none, or a rounding below zero
LOG_HALF_ROOT = 0.5 * math.log(0.5 * math.pi)


@helper
def logistic(x):
    """1/(1 + e^{−x}), without overflow."""
    if x >= 0.0:
        return 1.0 / (1.0 + math.exp(-x))
    e = math.exp(x)
    return e / (1.0 + e)


@helper
def coin_entropy(p):
    """−p log p − (1−p) log(1−p)."""
    if p <= 0.0 or p >= 1.0:
        return 0.0
    return -p * math.log(p) - (1.0 - p) * math.log1p(-p)


@kernel
def expect_bits(R, Q, odds, precision, nu, passes, small, gain):
    """Update ν and R in place, at most ``passes`` over each row, and add entropies to ``gain``.

    Q is (1, K, K) for all rows or (rows, K, K).
    """
    rows, k = nu.shape
    for n in range(rows):
        q = Q[n if Q.shape[0] > 1 else 0]
        r = R[n]
        p = nu[n]
        for _ in range(passes):
            largest = 0.0
            for i in range(k):
                new = logistic(odds[i] + precision * (r[i] + (p[i] - 0.5) * q[i, i]))
                change = new - p[i]
                if abs(change) > STILL:
                    p[i] = new
                    largest = max(largest, abs(change))
                    for j in range(k):
                        r[j] -= change * q[i, j]
            if largest < small:
                break
        for i in range(k):
            gain[i] += coin_entropy(p[i])


@helper
def gaussian_amount(a, b):
    """Mean, second moment and log normalizer of N(s; 0, 1) exp(bs − ½as²)."""
    v = 1.0 / (a + 1.0)
    m = v * b
    return m, v + m * m, 0.5 * (math.log(v) + m * b)


@helper
def laplace_amount(a, b):
    """The same of ½e^{−|s|} exp(bs − ½as²): one truncated Gaussian on each side of zero."""
    a = max(a, FLAT)
    root = math.sqrt(a)
    right = log_lifted_ndtr((b - 1.0) / root)
    left = log_lifted_ndtr((-b - 1.0) / root)
    top = max(right, left)
    total = math.exp(right - top) + math.exp(left - top)
    share = math.exp(right - top) / total
    m_right = mean((b - 1.0) / a, 1.0 / root)
    m_left = mean((-b - 1.0) / a, 1.0 / root)
    s_right = variance((b - 1.0) / a, 1.0 / root) + m_right * m_right
    s_left = variance((-b - 1.0) / a, 1.0 / root) + m_left * m_left
    log_total = LOG_HALF_ROOT - math.log(2.0 * root) + top + math.log(total)
    m = share * m_right - (1.0 - share) * m_left
    return m, share * s_right + (1.0 - share) * s_left, log_total


@kernel
def expect_amounts(R, Q, odds, precision, laplace, nu, first, second, cost, passes, small, gain):
    """The same with amounts: ``first`` and ``second`` moments of q(s | z = 1), and ``cost``, its
    divergence from p(s), change in place along with ν."""
    rows, k = nu.shape
    for n in range(rows):
        q = Q[n if Q.shape[0] > 1 else 0]
        r = R[n]
        for _ in range(passes):
            largest = 0.0
            for i in range(k):
                w = nu[n, i] * first[n, i]
                a = precision * q[i, i]
                b = precision * (r[i] + w * q[i, i])
                if laplace:
                    m, s, log_total = laplace_amount(a, b)
                else:
                    m, s, log_total = gaussian_amount(a, b)
                new = logistic(odds[i] + log_total)
                change = new * m - w
                moved = abs(new - nu[n, i])
                if abs(change) > STILL or moved > STILL or abs(s - second[n, i]) > STILL * s:
                    nu[n, i] = new
                    first[n, i] = m
                    second[n, i] = s
                    cost[n, i] = b * m - 0.5 * a * s - log_total
                    largest = max(largest, max(moved, abs(change) / (1.0 + abs(w))))
                    for j in range(k):
                        r[j] -= change * q[i, j]
            if largest < small:
                break
        for i in range(k):
            gain[i] += coin_entropy(nu[n, i]) - nu[n, i] * cost[n, i]


@kernel
def draw_amounts(rng, R, Q, precision, laplace, W, bits, S):
    """Draw s from q(s | z = 1) given the means W of all entries, where a bit is on, into S."""
    rows, k = bits.shape
    for n in range(rows):
        q = Q[n if Q.shape[0] > 1 else 0]
        for i in range(k):
            if not bits[n, i]:
                continue
            a = max(precision * q[i, i], FLAT)
            b = precision * (R[n, i] + W[n, i] * q[i, i])
            if laplace:
                root = math.sqrt(a)
                right = log_lifted_ndtr((b - 1.0) / root)
                left = log_lifted_ndtr((-b - 1.0) / root)
                if rng.random() < logistic(right - left):
                    S[n, i] = sample(rng, (b - 1.0) / a, 1.0 / root)
                else:
                    S[n, i] = -sample(rng, (-b - 1.0) / a, 1.0 / root)
            else:
                S[n, i] = (b + math.sqrt(a + 1.0) * rng.standard_normal()) / (a + 1.0)


@kernel
def residuals(B, W, Q, R):
    """R = B − W Q with a Q for each row."""
    rows, k = W.shape
    for n in range(rows):
        for j in range(k):
            R[n, j] = B[n, j]
        for i in range(k):
            w = W[n, i]
            if w != 0.0:
                for j in range(k):
                    R[n, j] -= w * Q[n, i, j]


@kernel
def outer_sums(first, second, out):
    """Flattened E[w wᵀ] of each row: products off the diagonal, second moments on it."""
    rows, k = first.shape
    for n in range(rows):
        for i in range(k):
            for j in range(k):
                out[n, i * k + j] = first[n, i] * first[n, j]
            out[n, i * k + i] = second[n, i]
    return out
