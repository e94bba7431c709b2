"""Sums of blocks: how they are kept, and what is made of them at the end, rounded once."""

from typing import Any

import numpy as np
from numba import njit

from .kinds import INLINED, Reduction, inlined, number

# Float results, rounded once.

LOW = 2**32 - 1
EXACT = "pair", "limbs", "int64", ""  # states of what a float64 may not hold; the last is that of single elements


@njit(**INLINED)
def pair_of(high, low):
    """high * 2^32 + low, two integers, as a float64 and what it lost."""
    high, low = np.int64(high) + (np.int64(low) >> 32), np.int64(low) & LOW
    a, b, c = np.float64(high >> 32) * 2.0**64, np.float64(high & LOW) * 2.0**32, np.float64(low)
    s = a + b
    t = s + c
    return t, (b - (s - a)) + (c - (t - s))


def is_rounded_twice(R: Reduction) -> bool:
    """Whether a float64 that is made of something exact is rounded to fewer bits."""
    return R.half or (R.out == "float32" and R.state in EXACT)


def rounding(R: Reduction) -> Any:
    """A function of a float64, of what it lost, and of a divisor: the quotient, which users get with fewer bits.

    A number that is rounded twice, to a float64 and to fewer bits, comes out wrong only if the float64 lies halfway
    between two results, and the number does not. Such a float64 has few bits itself, so that its product with the
    divisor is exact (for float32 with one of at most 2^28), and tells on which side of it the number lies. There it is
    moved, by the smallest step.
    """
    if not is_rounded_twice(R):
        return njit(**INLINED)(lambda s, lost, n: (s + lost) / n)
    splits = 2.0**32 + 1 if R.half else 2.0**28 + 1  # the upper 21 or 25 bits from the rest; source: Veltkamp, 1968

    @njit(**INLINED)
    def quotient(s, lost, n):
        q = (s + lost) / n
        c = q * splits
        rest = (s - q * n) + lost if c - (c - q) == q else 0.0
        step = abs(q) * 2.0**-52
        return q + step if rest > 0.0 else q - step if rest < 0.0 else q

    return quotient


def picked(R, v):
    """One of the elements, as a result."""


@inlined(picked)
def _(R, v):
    if not R.reduction.half or R.reduction.x not in ("int64", "uint64"):
        out = number(R.reduction.out)
        return lambda R, v: out(v)
    rounded, low = rounding(R.reduction), number(R.reduction.x)(LOW)

    def for_half(R, v):
        s, lost = pair_of(v >> 32, v & low)
        return rounded(s, lost, 1.0)

    return for_half


# States of sums. Each has the sum of no element, of one, of two sums, and a sum as a pair: a float64, and what it lost.
# `quotient` rounds to an integer.


class Plain:
    """One number: a float64 for floats of 32 bits, or an integer that is wide enough to be exact."""

    def empty(R):
        zero = number(R.state)(0)
        return lambda R: (zero,)

    def lift(R):
        state = number(R.state)
        return lambda R, v: (state(v),)

    def join(R):
        state = number(R.state)
        return lambda R, a, b: (state(a[0] + b[0]),)

    def pair(R):
        if R.state == "int64" and is_rounded_twice(R):
            return lambda R, s: pair_of(s[0] >> 32, s[0] & LOW)
        return lambda R, s: (np.float64(s[0]), -0.0)  # to add it changes nothing

    def quotient(R):
        out = number(R.out)
        state, added, divided = number(R.state), ROUNDINGS[R.option], division(R)
        size = R.size
        bits = state(max(size, 1).bit_length() - 1)

        def shifted(R, s, n):
            return out(state(s[0] + state(added(state(s[0] >> bits), state(size)))) >> bits)

        def quotient(R, s, n):
            k = state(max(n, 1))
            q, rest = divided(s[0], k)
            return out(state(q + 1) if state(rest + state(added(q, k))) >= k else q)

        return shifted if size and size & (size - 1) == 0 else quotient


class Pair:
    """A float64 and what it lost by rounding: sums of float64 are right to an ulp. Source: Knuth, TAOCP 2, 4.2.2 B."""

    def empty(R):
        return lambda R: (0.0, 0.0)

    def lift(R):
        return lambda R, v: (v, 0.0)

    def join(R):
        def join(R, a, b):
            s = a[0] + b[0]
            t = s - a[0]
            return s, (a[0] - (s - t)) + (b[0] - t) + (a[1] + b[1])

        return join

    def pair(R):
        return lambda R, s: (s[0], s[1] if s[0] - s[0] == 0.0 else -0.0)  # what an infinity lost is a NaN


class Limbs:
    """Integers of 64 bits as their upper and their lower 32 bits, so that sums of 2^31 of them are exact."""

    def empty(R):
        return lambda R: (np.int64(0), np.int64(0))

    def lift(R):
        if R.x == "uint64":
            return lambda R, v: (np.int64(v >> np.uint64(32)), np.int64(v & np.uint64(0xFFFFFFFF)))
        return lambda R, v: (v >> np.int64(32), v & np.int64(0xFFFFFFFF))

    def join(R):
        return lambda R, a, b: (a[0] + b[0], a[1] + b[1])

    def pair(R):
        return lambda R, s: pair_of(s[0], s[1])

    def quotient(R):
        out = number(R.out)
        added, sign = ROUNDINGS[R.option], np.int64(2**63 - 1 if R.x == "uint64" else -1)

        def exact(R, s, n):
            size = np.int64(max(n, 1))
            high = s[0] // size
            rest = np.uint64((s[0] - high * size) << 32) + np.uint64(s[1])
            low = rest // np.uint64(size)
            q = (high << 32) + np.int64(low)
            seen = q & sign  # uint64 from 2^63 on are no negative numbers
            return out(q + 1 if np.int64(rest - low * np.uint64(size)) + added(seen, size) >= size else q)

        return exact


def total(R: Reduction) -> Any:
    """The kind of state that sums of a reduction have."""
    return {"pair": Pair, "limbs": Limbs}.get(R.state, Plain)


def of_pair(R: Reduction) -> Any:
    """A function that divides a sum by a number: a float."""
    out, pair, rounded = number(R.out), njit(**INLINED)(total(R).pair(R)), rounding(R)

    def quotient(R, s, n):
        t, lost = pair(R, s)
        return out(rounded(t, lost, n))

    return quotient


def division(R: Reduction) -> Any:
    """A function that divides an integer by a positive one: the quotient rounded down, and the remainder."""
    state, width = number(R.state), np.dtype(R.state).itemsize
    guess = np.float32 if width == 2 else np.float64

    @njit(**INLINED)
    def exactly(s, n):
        q = state(s // n)
        return q, state(s - q * n)

    @njit(**INLINED)
    def by_reciprocal(s, n):
        # Processors divide no vectors of integers. As floats they may come out wrong by one, which the rest tells.
        k = np.int32(n)
        q = np.int32(np.floor(guess(s) * (guess(1) / guess(k))))
        rest = np.int32(s) - q * k
        q = q - 1 if rest < 0 else q + 1 if rest >= k else q
        return state(q), state(np.int32(s) - q * k)

    return exactly if R.size or width == 8 else by_reciprocal


# What is added to the remainder of a quotient `q`, before it is divided by `n` and rounded down once more.


@njit(**INLINED)
def even(q, n):
    """To the nearest integer, halves to the even one."""
    return (n - 1) // 2 + (q & (n + 1) & 1)


@njit(**INLINED)
def nearest(q, n):
    """To the nearest integer, halves away from zero."""
    return n // 2 if q >= 0 else (n - 1) // 2


@njit(**INLINED)
def truncate(q, n):
    """Toward zero."""
    return 0 if q >= 0 else n - 1


ROUNDINGS = {"even": even, "nearest": nearest, "truncate": truncate}
