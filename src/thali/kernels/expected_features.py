r"""Mean-field updates of nonnegative features: each entry a normal distribution cut off below zero.

a_kd ~ TN((T_kd − Σ_{j≠k} C_kj E[a_jd] − pull) / (C_kk + r),  σ_x²/(C_kk + r))

with the ridge r and the pull of the prior (``positive_entries``).
"""

import math

import numpy as np

from thali.kernels.compiling import kernel
from thali.kernels.truncated_normal import mean


@kernel
def expect_nonnegative(C, T, mu, s, phi, sigma_x, r, pull, passes):
    """Passes over the features, parameters and means in place; C is (1, K, K) or (D, K, K)."""
    k, d = phi.shape
    left = np.empty(d)
    for _ in range(passes):
        for i in range(k):
            for e in range(d):
                left[e] = T[i, e] - pull
            for j in range(k):
                if j == i:
                    continue
                if C.shape[0] == 1:
                    c = C[0, i, j]
                    if c != 0.0:
                        for e in range(d):
                            left[e] -= c * phi[j, e]
                else:
                    for e in range(d):
                        left[e] -= C[e, i, j] * phi[j, e]
            for e in range(d):
                precision = C[e if C.shape[0] > 1 else 0, i, i] + r
                mu[i, e] = left[e] / precision
                s[i, e] = sigma_x / math.sqrt(precision)
                phi[i, e] = mean(mu[i, e], s[i, e])
