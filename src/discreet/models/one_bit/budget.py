"""How much noise the bits need: of an entry, or of all entries of a user."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.errors import PrivacyError
from discreet.models.one_bit.links import Link
from discreet.privacy import Cost, Gaussian, Laplace, Plan, PureEvent, RandomizedResponse
from discreet.privacy.entries import TwoValued, pure_cost
from discreet.privacy.guarantee import account
from discreet.typing import Array
from discreet.validation import positive, whole

MECHANISMS = ("input", "objective", "gradient", "output")
# Those that add noise to bits, or to derivatives, one number of which moves with a flip.
ADDITIVE = (("objective", "logistic"), ("gradient", "logistic"), ("gradient", "probit"))
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


@dataclass(frozen=True)
class Budget:
    """The noise of a mechanism, for what may be spent.

    Attributes:
        mechanism: "input", "objective", "gradient" or "output".
        link: P(bit = 1 | x).
        epsilon: Of all releases together; if `published`, what the paper calls epsilon.
        delta: Of all releases together.
        entries: How many bits neighbours differ in, at most.
        gaussian: Whether noise is Gaussian, else it is Laplace's.
        published: Whether it is the noise that was printed.
        flips: The probabilities that a 1 and a 0 are flipped, if they are given.
        alpha: The box.
        ridge: lambda, if it is given.
        clamp: C, of gradients.
        steps: Of gradients.
    """

    mechanism: str
    link: Link
    epsilon: float
    delta: float
    entries: int
    gaussian: bool
    published: bool
    flips: tuple[float, float] | None
    alpha: float
    ridge: float | None
    clamp: float
    steps: int

    def __post_init__(self) -> None:
        if self.mechanism not in MECHANISMS:
            known = ", ".join(map(repr, MECHANISMS))
            raise PrivacyError(f"mechanism: there is a proof for {known}, and none for {self.mechanism!r}")

    @property
    def releases(self) -> int:
        """How many there are, of the noise of `additive`."""
        return self.steps if self.mechanism == "gradient" else 1

    @property
    def change(self) -> float:
        """How far a flip moves the one number that it moves: a bit, or one entry of a clamped gradient.

        Of the latter at most min(2 C, h'(alpha) / (h(alpha) h(-alpha))).
        """
        return min(2 * self.clamp, self.link.sensitivity(self.alpha)) if self.mechanism == "gradient" else 1.0

    def response(self) -> RandomizedResponse:
        """The coins of the input mechanism."""
        if self.flips is not None:
            return RandomizedResponse(flip_one=self.flips[0], flip_zero=self.flips[1])
        return RandomizedResponse(bit_epsilon(self.epsilon, self.delta, self.entries))

    def two_valued(self, one: Array | float = 1.0, zero: Array | float = 0.0, finest: int = 0) -> TwoValued:
        """What is released of bits or gradients."""
        return TwoValued(one, zero, self.change, self.entries, finest)

    def additive(self) -> Laplace | Gaussian:
        """The noise on bits or gradients."""
        if (self.mechanism, self.link.name) not in ADDITIVE:
            raise PrivacyError(f"mechanism: {self.mechanism!r} with the {self.link.name} link has no noise on numbers")
        if self.published:
            half = self.steps * self.clamp if self.mechanism == "gradient" else 0.5
            return Laplace(half / self.epsilon)
        if self.gaussian:
            distance = self.two_valued().sensitivity("flip", Gaussian(1.0))
            return Gaussian.for_cost(self.share(), sensitivity=distance)
        distance = self.two_valued().sensitivity("flip", Laplace(1.0))
        scale = distance * self.releases / self.epsilon
        while (Laplace(scale).cost(distance) * self.releases).pure > self.epsilon:
            scale = math.nextafter(scale, math.inf)
        return Laplace(scale)

    def share(self) -> Cost:
        """What each of some equal releases may cost."""
        if not self.gaussian:
            return pure_cost(self.epsilon)
        mu = account(epsilon=self.epsilon, delta=self.delta).mu or 0.0
        return Plan.gaussian(mu, {"each": (1.0, self.releases)})["each"].cost
