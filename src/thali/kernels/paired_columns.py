r"""What log P(X, [Z]) comes to where other columns stand in place of one or two.

A column made of two others is z = α a + β b + γ (a ∩ b), so that its sums of products with all
columns and with X are those of a, b and a ∩ b, with the same three numbers:

    a ∪ b = a + b − a∩b      a ⊕ b = a + b − 2 a∩b      a ∖ b = a − a∩b

and a matrix with other columns costs K³/6 + K²D/2 (``column_moves.log_evidence``). Equal columns
are not counted: these are numbers by which changes are compared.
"""

import numpy as np

from thali.kernels.column_moves import log_evidence
from thali.kernels.compiling import helper, kernel

A, B, BOTH = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
UNION, EITHER, A_ALONE, B_ALONE = (1.0, 1.0, -1.0), (1.0, 1.0, -2.0), (1.0, 0.0, -1.0), (
    0.0, 1.0, -1.0
)  # fmt: skip
CHANGES = (  # what stands in place of a and b
    (UNION,), (A, UNION), (B, UNION), (A, EITHER), (B, EITHER), (A, BOTH), (B, BOTH),
    (A, B_ALONE), (A_ALONE, B), (A_ALONE, B_ALONE, BOTH),
)  # fmt: skip
MADE = np.array([len(change) for change in CHANGES])
PARTS = np.zeros((len(CHANGES), 3, 3))
for _at, _change in enumerate(CHANGES):
    PARTS[_at, : len(_change)] = _change


@helper
def value_of(C, T, k, scales, potential):
    """The log joint of k columns but for what all Z have in common; −∞ where one is empty."""
    total = 0.0
    for j in range(k):
        m = int(C[j, j] + 0.5)
        if m == 0:
            return -np.inf
        total += potential[m]
    return total + log_evidence(C, T, k, scales)


@kernel
def value_without(C, T, scales, potential):
    """The log joint without each of the columns, and of all."""
    k = C.shape[0]
    values = np.empty(k + 1)
    order = np.arange(k)
    for a in range(k + 1):
        for j in range(k):
            order[j] = j + (j >= a)
        left = k - (a < k)
        own_C = np.empty((left, left))
        own_T = np.empty((left, T.shape[1]))
        for i in range(left):
            for j in range(left):
                own_C[i, j] = C[order[i], order[j]]
            for c in range(T.shape[1]):
                own_T[i, c] = T[order[i], c]
        values[a] = value_of(own_C, own_T, left, scales, potential)
    return values


@kernel
def value_of_pairs(X, Z, C, T, pairs, made, parts, scales, potential):
    """The log joint of each change of each pair of columns."""
    k, d = T.shape
    values = np.empty((pairs.shape[0], made.shape[0]))
    own_C = np.empty((k + 1, k + 1))
    own_T = np.empty((k + 1, d))
    with_both = np.empty(k)
    shared = np.empty(d)
    rest = np.empty(k, np.int64)
    gram = np.empty((3, 3))
    for p in range(pairs.shape[0]):
        a = pairs[p, 0]
        b = pairs[p, 1]
        left = 0
        for j in range(k):
            if j not in (a, b):
                rest[left] = j
                left += 1
        with_both[:] = 0.0
        shared[:] = 0.0
        for n in range(X.shape[0]):
            if Z[n, a] and Z[n, b]:
                for j in range(k):
                    with_both[j] += Z[n, j]
                for c in range(d):
                    shared[c] += X[n, c]
        gram[:] = with_both[a]
        gram[0, 0] = C[a, a]
        gram[1, 1] = C[b, b]
        for i in range(left):
            for j in range(left):
                own_C[i, j] = C[rest[i], rest[j]]
            for c in range(d):
                own_T[i, c] = T[rest[i], c]
        for o in range(made.shape[0]):
            for h in range(made[o]):
                part = parts[o, h]
                at = left + h
                for j in range(left):
                    product = part[0] * C[a, rest[j]] + part[1] * C[b, rest[j]]
                    product += part[2] * with_both[rest[j]]
                    own_C[at, j] = product
                    own_C[j, at] = product
                for c in range(d):
                    own_T[at, c] = part[0] * T[a, c] + part[1] * T[b, c] + part[2] * shared[c]
                for g in range(h + 1):
                    product = 0.0
                    for i in range(3):
                        for j in range(3):
                            product += part[i] * parts[o, g, j] * gram[i, j]
                    own_C[at, left + g] = product
                    own_C[left + g, at] = product
            values[p, o] = value_of(own_C, own_T, left + made[o], scales, potential)
    return values
