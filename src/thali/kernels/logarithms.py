r"""Logarithms of many numbers at once.

The C library takes one at a time, and a call of it ends what a compiler can do with a loop. This
one is plain arithmetic, so that loops of it become vector instructions: with x = 2ᵉ m and m within
a factor √2 of one,

    log x = e log 2 + 2 (s + s³/3 + s⁵/5 + …),        s = (m − 1)/(m + 1),  |s| < 0.172,

the series of atanh, of which eleven terms leave less than rounding does.
"""

import numpy as np

from thali.kernels.compiling import helper

LOG_2 = np.log(2.0)
ROOT_2 = np.sqrt(2.0)
MANTISSA, ONE = np.int64(0x000FFFFFFFFFFFFF), np.int64(0x3FF0000000000000)
# a number with these bits and an integer below 2⁵² in the last ones is 2⁵² more than the integer
SHIFT, SHIFTED = np.int64(0x4330000000000000), 2.0**52 + 1023.0


@helper(borrows=True, fastmath={"contract"})
def quick_log(x):
    """log x of a positive, normal, finite number, to about two units in the last place."""
    bits = np.float64(x).view(np.int64)
    e = np.int64((bits >> 52) | SHIFT).view(np.float64) - SHIFTED
    m = np.int64((bits & MANTISSA) | ONE).view(np.float64)
    large = m > ROOT_2
    m = 0.5 * m if large else m
    e = e + 1.0 if large else e
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    more = z / 23.0
    more = z * (1.0 / 21.0 + more)
    more = z * (1.0 / 19.0 + more)
    more = z * (1.0 / 17.0 + more)
    more = z * (1.0 / 15.0 + more)
    more = z * (1.0 / 13.0 + more)
    more = z * (1.0 / 11.0 + more)
    more = z * (1.0 / 9.0 + more)
    more = z * (1.0 / 7.0 + more)
    more = z * (1.0 / 5.0 + more)
    more = z * (1.0 / 3.0 + more)
    return e * LOG_2 + 2.0 * s * (1.0 + more)
