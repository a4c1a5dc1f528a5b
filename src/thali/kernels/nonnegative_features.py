r"""Features and own features of rows of X = Z A + E with a_kd ≥ 0, half-normal or exponential.

One entry of A given the others, with C = ZᵀZ and T = ZᵀX, is truncated normal:

    a_kd | rest ~ TN( (T_kd − Σ_{j≠k} C_kj a_jd − pull) / (C_kk + r),  σ_x² / (C_kk + r) )

with the ridge r and the pull of the prior (``positive_entries``).

Features a_1 … a_j that only one row has come and go by births and deaths. With e the
row's residual, what one more does to its density is known in closed form,

    M(e) = ∏_d ∫₀^∞ N(e_d; a, σ_x²) p(a) da / N(e_d; 0, σ_x²)
         = ∏_d p(0) τ √(π/2) 2Φ(t_d) e^{t_d²/2},
    τ² = σ_x²/(1 + r),  t_d = (e_d − pull) τ/σ_x²,

and so is that of the feature, a_d | e ~ TN(τ t_d, τ²). Own features are an unordered set, of
weight w_j (``new_features``) times the density. A birth puts a feature drawn so in one of j+1
positions, a death takes one of j+1 features: p(a) and its proposal cancel, and

    birth j → j+1 is accepted with probability min(1, ρ),  ρ = M(e) w_{j+1}/w_j

and the death that undoes it with min(1, 1/ρ).
"""

import math

import numpy as np

from thali.kernels.compiling import helper, kernel
from thali.kernels.copying import put, put_matrix
from thali.kernels.new_features import MOST_NEW, NewFeatures, is_full, log_step, room_left
from thali.kernels.positive_entries import draw_entry
from thali.kernels.truncated_normal import LOG_2, log_density, log_lifted_ndtr, sample

H0 = math.sqrt(2.0 / math.pi)  # h(0) = φ(0)/Φ(0), the slope of log Φ at 0
CUBIC = 0.044


@helper
def left_over(C, T, A, k, pull, out):
    """T_k − Σ_{j≠k} C_kj a_j − pull, what the other features and the prior leave for feature k."""
    for i in range(A.shape[1]):
        out[i] = T[k, i] - pull
    for j in range(A.shape[0]):
        c = C[k, j]
        if j != k and c != 0.0:
            for i in range(A.shape[1]):
                out[i] -= c * A[j, i]


@kernel
def draw_features(rng, C, T, A, law, passes):
    """Passes over all entries of A, each drawn given the others, in place: O(K²D) a pass."""
    left = np.empty(A.shape[1])
    sigma_x = law.sigma_x
    for _ in range(passes):
        for k in range(A.shape[0]):
            left_over(C, T, A, k, law.pull, left)
            precision = C[k, k] + law.ridge
            for i in range(A.shape[1]):
                A[k, i] = sample(rng, left[i] / precision, sigma_x / math.sqrt(precision))


@kernel
def log_density_of_pass(C, T, before, after, law):
    """Log density with which one pass of ``draw_features`` goes from A = before to A = after."""
    A = before.copy()
    left = np.empty(A.shape[1])
    total = 0.0
    sigma_x = law.sigma_x
    for k in range(A.shape[0]):
        left_over(C, T, A, k, law.pull, left)
        precision = C[k, k] + law.ridge
        for i in range(A.shape[1]):
            total += log_density(after[k, i], left[i] / precision, sigma_x / math.sqrt(precision))
        A[k] = after[k]
    return total


@helper
def log_gain(e, law):
    """log M(e): what one more feature, integrated out, does to a residual's density."""
    total = e.shape[0] * law.log_each
    for i in range(e.shape[0]):
        total += log_lifted_ndtr(law.slope * (e[i] - law.pull))
    return total


@helper
def most_gain(e, law):
    """An upper bound of ``log_gain`` from polynomials, which decides nearly all births that fail.

    L(t) = log 2Φ(t) + t²/2 has L' = t + h > 0 and L'' < L''(0) for t < 0, so the parabola at 0 lies
    above it, and so does that parabola's least value. For t > 0, log 2Φ(t) is at most log 2, and
    h(0)t − h(0)²t²/2 + CUBIC·t³ since what it is above the parabola is at most 0.0437 t³.
    """
    total = 0.0
    for i in range(e.shape[0]):
        t = law.slope * (e[i] - law.pull)
        if t > 0.0:
            total += 0.5 * t * t + min(LOG_2, t * (H0 - t * (0.5 * H0 * H0 - CUBIC * t)))
        else:
            t = max(t, -H0 / (1.0 - H0 * H0))
            total += t * (H0 + 0.5 * (1.0 - H0 * H0) * t)
    return total + e.shape[0] * law.log_each


@helper
def draw_own_feature(rng, e, law, out):
    """The feature that only a row with residual e has: a | e ~ TN(τt, τ²)."""
    for i in range(e.shape[0]):
        out[i] = sample(rng, (e[i] - law.pull) * law.share, law.scale)


@kernel
def own_features(rng, E, Z, m, A, others, tables, capacity, law, steps):
    """Births and deaths of the features that only one row has, ``steps`` tries a row.

    E = X − ZA changes in place. Returns which columns of Z stay, and for each feature that was born
    and still is, its row and the feature. ``others`` are the numbers of the rows' other features,
    which only θ asks for.
    """
    theta = tables.row_potentials
    n_rows, d = E.shape
    used = Z.shape[1]
    stays = np.ones(used, np.bool_)
    features = A  # those of Z's columns, then of those born, in order of birth
    owner = np.full(used, -1)
    size = used
    own = np.empty(used, np.int64)
    proposal = np.empty(d)
    for n in range(n_rows):
        e = E[n]
        j = 0
        for k in range(Z.shape[1]):
            if m[k] == 1 and Z[n, k]:
                own[j] = k
                j += 1
        free = room_left(capacity, used - j)
        F = others[n] if theta is not None else 0
        new = NewFeatures(tables.new_log_weight, free, F, MOST_NEW)
        for _ in range(steps):
            birth = rng.random() < 0.5
            log_u = math.log(1.0 - rng.random())
            if birth:
                if is_full(new.free, j):
                    continue
                weight = log_step(new, theta, j)
                if log_u >= weight + most_gain(e, law) or log_u >= weight + log_gain(e, law):
                    continue
                if size == features.shape[0]:
                    owner, own, stays = longer(owner), longer(own), longer(stays)
                    more = np.zeros((owner.shape[0], d))
                    put_matrix(more, features)
                    features = more
                draw_own_feature(rng, e, law, features[size])
                owner[size] = n
                stays[size] = True
                for c in range(d):
                    e[c] -= features[size, c]
                own[j] = size
                size += 1
                j += 1
                used += 1
            elif j > 0:
                at = int(rng.random() * j)
                for c in range(d):
                    proposal[c] = e[c] + features[own[at], c]
                if log_u < -(log_step(new, theta, j - 1) + log_gain(proposal, law)):
                    put(e, proposal)
                    stays[own[at]] = False
                    own[at] = own[j - 1]
                    j -= 1
                    used -= 1
    k = Z.shape[1]
    born = k + np.flatnonzero(stays[k:size])
    return stays[:k], owner[born], features[born]


@kernel
def own_observed_features(rng, E, mask, Z, m, A, others, tables, law, steps):
    """Births and deaths, as ``own_features``, of one row after the other.

    Only the observed columns are looked at; in the others a feature is drawn from its prior.
    """
    n_rows, d = E.shape
    used = Z.shape[1]
    stays = np.ones(used, np.bool_)
    owners = [0]
    features = [np.empty(d)]
    for n in range(n_rows):
        own = np.flatnonzero((m == 1) & (Z[n] == 1))
        there = np.flatnonzero(mask[n])
        j = len(own)
        free = room_left(tables.capacity, used - j)
        e = E[n][there].reshape(1, len(there))
        alone = np.ones((1, j), np.uint8)
        part = A[own][:, there]
        one, F = np.ones(j, np.int64), others[n : n + 1]
        stay, _, born = own_features(rng, e, alone, one, part, F, tables, free, law, steps)
        stays[own] = stay
        used += stay.sum() - j + len(born)
        for b in range(len(born)):
            feature = np.empty(d)
            for c in range(d):
                feature[c] = draw_entry(rng, law)
            feature[there] = born[b]
            owners.append(n)
            features.append(feature)
    found = np.empty((len(features) - 1, d))
    for b in range(len(found)):
        put(found[b], features[b + 1])
    return stays, np.array(owners[1:]), found


@helper
def longer(array):
    """The same values with room for at least twice as many."""
    more = np.zeros(2 * array.shape[0] + 8, array.dtype)
    put(more, array)
    return more
