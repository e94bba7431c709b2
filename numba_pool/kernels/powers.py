"""Powers of the magnitudes of many numbers at once, as loops that LLVM turns into vectors."""

from math import factorial, log

import numpy as np

from ._compile import copied, helper

ROUND = 32  # numbers that LLVM takes in one turn of a loop; what is left over it takes one by one
# float64 by its bits: 52 of the fraction, and the exponent counted from -1023.
FRACTION_BITS, BIAS = 52, 1023
FRACTION, ONE = np.int64((1 << FRACTION_BITS) - 1), np.int64(BIAS << FRACTION_BITS)
SQRT2 = np.float64(2**0.5).view(np.int64)
WHOLE = 1.5 * 2**52
WHOLE_BITS = np.float64(WHOLE).view(np.int64)
# log2((1 + s) / (1 - s)) is s times a polynomial in s^2; here |s| is at most 0.172, and what is left out below 1e-10.
LOG2 = tuple(2 / log(2) / (2 * i + 1) for i in range(6))
# 2^f = exp(f log(2)), |f| at most 1/2: what is left out is below 3e-10.
EXP2 = tuple(log(2) ** i / factorial(i) for i in range(9))


@copied
def power(v, p):  # type: ignore[no-untyped-def]
    """v^p for a positive normal number, within 1e-9 of it as long as |p log2(v)| is below 1022, by log2 and exp2.

    Whole numbers become floats, and back, by their place behind the leading bit of `WHOLE`: AVX2 has no instruction.
    """
    bits = np.float64(v).view(np.int64)
    fraction = (bits & FRACTION) | ONE
    up = (SQRT2 - fraction) >> 63  # -1 if so: between 0.7 and 1.4 from here on
    m = np.int64(fraction + (up << FRACTION_BITS)).view(np.float64)
    exponent = np.int64((bits >> FRACTION_BITS) - BIAS - up + WHOLE_BITS).view(np.float64) - WHOLE
    s = np.divide(m - 1.0, m + 1.0)  # `/` looks for zeros, in a branch that vectors have not
    z = s * s
    a, b, c, d, e, f = LOG2
    t = p * (exponent + s * (a + z * (b + z * (c + z * (d + z * (e + z * f))))))
    t = -1022.0 if t <= -1022.0 else 1023.0 if t >= 1023.0 else t
    whole = t + WHOLE
    x = t - (whole - WHOLE)
    a, b, c, d, e, f, g, h, i = EXP2
    r = a + x * (b + x * (c + x * (d + x * (e + x * (f + x * (g + x * (h + x * i)))))))
    scale = (np.float64(whole).view(np.int64) - WHOLE_BITS) << FRACTION_BITS
    return np.int64(np.float64(r).view(np.int64) + scale).view(np.float64)


@helper
def raise_all(values, begin, end, p, exact):  # type: ignore[no-untyped-def]
    """The magnitude of float64 values[begin:end], each to the power p. Where no product or root does it, those that are
    neither 0 nor infinite nor NaN must be normal, and so their powers; these are within 1e-9, which float32 does not
    tell, or by the library if `exact`, in 10 ns each instead of 2. A slice would have its references counted: 5 ns.
    """
    begin, end = np.uintp(begin), np.uintp(end)
    if p != 2.0:
        for i in range(begin, end):
            values[i] = abs(values[i])
    if p < 0 and p in (-0.5, -1.0, -2.0):
        for i in range(begin, end):
            values[i] = np.divide(1.0, values[i])
        p = -p
    while p in (2.0, 4.0):
        p /= 2.0
        for i in range(begin, end):
            values[i] *= values[i]
    while p in (0.25, 0.5):
        p *= 2.0
        for i in range(begin, end):
            values[i] = np.sqrt(values[i])
    if p == 1.0:
        return
    if p == 0.0:
        for i in range(begin, end):
            values[i] = 1.0
    elif p == 3.0:
        for i in range(begin, end):
            values[i] *= values[i] * values[i]
    elif p == 1.5:
        for i in range(begin, end):
            values[i] *= np.sqrt(values[i])
    elif exact:
        for i in range(begin, end):
            values[i] = values[i] ** p
    else:
        for i in range(begin, end):
            v = values[i]
            limit = v if v != v else 0.0 if (v == 0.0) == (p > 0.0) else np.inf
            values[i] = power(v, p) if (v > 0.0) & (v < np.inf) else limit


@helper
def powers_times(bases, factors, begin, count, p, exact, signed):  # type: ignore[no-untyped-def]
    """Raise the magnitudes of so many bases to the power p. If factors are not None, multiply them with these, and if
    `signed` with the signs that they had, but 0 stays 0. Up to `ROUND` more numbers are overwritten, of both.
    """
    begin, end = np.uintp(begin), np.uintp(begin + (count + ROUND - 1) // ROUND * ROUND)  # nothing is left over
    if factors is not None:
        for i in range(begin, end):
            v = bases[i]
            factor = factors[i] * np.copysign(1.0, v) if signed else factors[i]
            factors[i] = factor if v != 0.0 else 0.0
            bases[i] = v if v != 0.0 else 1.0
    raise_all(bases, begin, end, p, exact)
    if factors is not None:
        for i in range(begin, end):
            bases[i] *= factors[i]
