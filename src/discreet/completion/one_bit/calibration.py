"""How much noise the bits need: of an entry, or of all entries of a user."""

from __future__ import annotations

import math

import numpy as np

from discreet.errors import PrivacyError
from discreet.numbers import positive, whole
from discreet.privacy import Cost, PureEvent

STEPS = 60  # of bisection
BACK = 1 - 2.0**-10  # by how much epsilon is lowered at a time until the accountant agrees


def binomial_delta(entries: int, bit_epsilon: float, epsilon: float) -> float:
    """The exact delta at `epsilon` of randomised response on so many bits, all of which may change.

    The number of bits that stay as they are is binomial, with p = 1 / (1 + e^-bit_epsilon) in one world and 1 - p in
    the other; it is all that an observer can use.
    """
    from scipy.stats import binom

    counts = np.arange(whole("entries", entries, 1) + 1)
    stay = 1 / (1 + math.exp(-positive("bit_epsilon", bit_epsilon)))
    ones, others = binom.logpmf(counts, entries, stay), binom.logpmf(counts, entries, 1 - stay) + epsilon
    worse = ones > others
    return float((np.exp(ones[worse]) * -np.expm1(others[worse] - ones[worse])).sum())


def bit_epsilon(epsilon: float, delta: float, entries: int) -> float:
    """The largest epsilon of single bits for which randomised response on `entries` bits is (epsilon, delta)-DP.

    At delta 0 it is epsilon / entries; else it is found by the exact binomial delta, and lowered until the accountant
    of the ledger, which rounds up, agrees.
    """
    least = epsilon / entries
    if delta == 0 or entries == 1:
        return least
    low, high = least, epsilon
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if binomial_delta(entries, middle, epsilon) <= delta else (low, middle)
    while low > least and Cost.of(PureEvent(low), entries).epsilon(delta) > epsilon:
        low *= BACK
    return max(low, least)


def require_flips(flip_one: float, flip_zero: float, epsilon: float, *, published: bool) -> None:
    """Raise unless these probabilities of a flip give epsilon: by all four ratios, or the two published ones."""
    one, zero = (positive(name, flip) for name, flip in (("flip_one", flip_one), ("flip_zero", flip_zero)))
    if one + zero >= 1:
        raise PrivacyError(
            f"flip_one, flip_zero: they must add up to less than 1, or noisy bits tell nothing (or the opposite), not "
            f"{one:g} + {zero:g}"
        )
    names = ("(1 - flip_one) / flip_zero", "flip_one / (1 - flip_zero)", "(1 - flip_zero) / flip_one")
    ratios = (
        (1 - one) / zero,
        one / (1 - zero),
        (1 - zero) / one,
    )  # the fourth, flip_zero / (1 - flip_one), is below 1
    for name, ratio in list(zip(names, ratios, strict=True))[: 2 if published else 3]:
        if math.log(ratio) > epsilon * (1 + 1e-12):
            raise PrivacyError(
                f"flip_one, flip_zero: {name} is e^{math.log(ratio):.4g}, more than epsilon = {epsilon:g} admits; "
                "raise the lower of the two"
            )
