"""Secret choices that add no noise: who is in a Poisson sample of the users, and how many trials a search makes.

Their bits come from the noise source, since anyone who knew the choices would learn more than was charged for.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from discreet.errors import PrivacyError
from discreet.privacy.guarantee import SPENDABLE, Cost, SampledGaussian, largest_gaussian
from discreet.privacy.noise import NoiseSource, Stream, Uniform, bernoulli, precision
from discreet.validation import positive

# -- Poisson samples of users: for each release, an exact and secret coin decides for each person. They are accounted as
# `SampledGaussian` events, for add-remove adjacency only: docs/proofs/sgd.md.

AIM, CLOSE = 0.997, 0.99  # shares of epsilon: the target of the search, and what is close enough
TRIALS = 60
LEAST_MU = 2.0**-20  # of one release: below it, noise would drown out any number of people


def poisson_sample(n_users: int, rate: float, source: NoiseSource) -> npt.NDArray[np.intp]:
    """The numbers of the users in a fresh sample, increasing: each is in it with probability `rate`, independently."""
    if rate == 1:
        return np.arange(n_users)
    coins = np.empty(n_users, np.int64)
    bernoulli(lambda digits: Decimal(rate), Stream(source.fresh_key()), coins)
    return np.flatnonzero(coins)


def sampled_cost(mu: float, rate: float, releases: int) -> Cost:
    """The total cost of mu-Gaussian releases over Poisson samples."""
    if rate == 1:
        return Cost.of_mu(mu) * releases
    return Cost.of(SampledGaussian(mu, rate), releases)


@lru_cache(maxsize=64)
def largest_mu(epsilon: float, delta: float, rate: float, releases: int) -> float:
    """(Nearly) the largest mu for which this many mu-Gaussian releases over samples of this rate keep a budget."""
    low, high, slope = 0.0, math.inf, 1.2
    before: tuple[float, float] | None = None
    budget = Cost(math.floor(largest_gaussian(epsilon, delta) * Fraction(SPENDABLE)), 1)
    mu: float = (budget.mu or 0.0) / releases**0.5  # exact if everyone is in every sample
    if mu < LEAST_MU:
        raise PrivacyError(
            f"epsilon, delta: {epsilon:g} and {delta:g} leave nothing to spend; give more, or fewer steps"
        )
    for _ in range(TRIALS):
        cost = max(sampled_cost(mu, rate, releases).epsilon(delta), 1e-9 * epsilon)
        if CLOSE * epsilon <= cost <= epsilon:
            return mu
        low, high = (mu, high) if cost <= epsilon else (low, mu)
        now = math.log(mu), math.log(cost)
        if before is not None:  # locally, costs grow like a power of mu
            slope = min(max((now[1] - before[1]) / (now[0] - before[0]), 0.5), 8.0)
        before = now
        # Small steps up: a mu that is much too large takes long to account for.
        guess = mu * min((AIM * epsilon / cost) ** (1 / slope), 2.5)
        mu = guess if low < guess < high else (low + min(high, 2 * low)) / 2
    return low


# -- the number of trials of a search, drawn before any data is touched. The charge of Papernot and Steinke (2022) is
# proved for these laws and no others (docs/proofs/tuning.md), each with the mean that is asked for: "poisson", drawn
# again if it is 0; "geometric", "logarithmic", or a shape between and beyond them, truncated negative binomial.

SHAPES = {"poisson": math.inf, "geometric": 1.0, "logarithmic": 0.0}
MOST = 1000.0  # trials on average: more would take forever
BITS = 512  # initial bits of a uniform number


@dataclass(frozen=True)
class Trials:
    """The law of the number of trials, at least 1, given by its mean and shape (infinite: Poisson)."""

    mean: float
    shape: float

    @classmethod
    def of(cls, mean: float, law: str | float) -> "Trials":
        """The law for a caller's arguments, which are checked."""
        if isinstance(law, str) and law not in SHAPES:
            raise PrivacyError(
                f"law: must be one of {', '.join(SHAPES)}, or the shape of a negative binomial, not {law!r}"
            )
        shape = SHAPES[law] if isinstance(law, str) else positive("law", law, zero=True)
        if not 1 <= positive("trials", mean) <= MOST:
            raise PrivacyError(f"trials: must be from 1 to {MOST:g} on average, not {mean:g}")
        return cls(float(mean), shape)

    def __str__(self) -> str:
        named = {shape: name for name, shape in SHAPES.items()}
        law = named.get(self.shape, f"negative binomial of shape {self.shape:g}")
        return f"{self.mean:g} trials on average ({law}, at least one)"

    def draw(self, source: NoiseSource) -> int:
        """A number of trials, by inversion: exact, with as many digits as needed."""
        uniform, digits = uniform_bits(source), BITS // 4
        while True:
            uniform.refine(4 * digits)
            with precision(digits):
                error = Decimal(10) ** (20 - digits)  # the error of the point, and of sums of probabilities
                low, high = (self._at(uniform.decimal() + sign * error) for sign in (-1, 1))
            if low == high and high:
                return high
            digits *= 2

    def _at(self, point: Decimal) -> int:
        """The first number of trials at which the distribution function exceeds `point`; 0 if there is none."""
        below, number, masses = Decimal(0), 0, self._masses()
        while point >= below and point < 1:
            below += next(masses)
            number += 1
        return number if point < 1 else 0

    def _masses(self) -> Iterator[Decimal]:
        """The probabilities of 1, 2, 3, ... trials."""
        if self.mean == 1:
            yield Decimal(1)
            return
        parameter, shape, poisson = Decimal(self.parameter), Decimal(self.shape), math.isinf(self.shape)
        if poisson:
            mass = parameter / (parameter.exp() - 1)
        else:
            log = parameter.ln()
            mass = (1 - parameter) * (shape / ((-shape * log).exp() - 1) if shape else -1 / log)
        k = 1
        while True:
            yield mass
            mass *= parameter / (k + 1) if poisson else (1 - parameter) * (k + shape) / (k + 1)
            k += 1

    @property
    def parameter(self) -> float:
        """The rate of the Poisson law, or gamma of the negative binomial, for which the mean is at most `mean`."""
        if self.shape == 1:
            return 1 / self.mean
        if math.isinf(self.shape):  # the mean grows with the rate: take the lower end
            return _bisected(lambda rate: rate / -math.expm1(-rate) <= self.mean, 0.0, self.mean)[0]
        return _bisected(lambda gamma: self._mean_at(gamma) > self.mean, 0.0, 1.0)[1]

    def _mean_at(self, gamma: float) -> float:
        """The mean of a truncated negative binomial law."""
        if not self.shape:
            return (1 / gamma - 1) / -math.log(gamma)
        return self.shape * (1 / gamma - 1) / -math.expm1(self.shape * math.log(gamma))


def _bisected(is_low: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Adjacent floats: the lower one is low and the upper one is not."""
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if is_low(middle) else (low, middle)
    return low, high


def uniform_bits(source: NoiseSource) -> Uniform:
    """A uniform secret number in [0, 1) whose binary digits are drawn when they are needed."""
    stream = Stream(source.fresh_key())
    return Uniform(stream, int.from_bytes(stream.words(BITS // 64).tobytes(), "little"), BITS)


def choose(count: int, source: NoiseSource) -> int:
    """One of 0, ..., count - 1, all equally likely."""
    uniform = uniform_bits(source)
    while (found := uniform.value * count >> uniform.bits) != ((uniform.value + 1) * count - 1) >> uniform.bits:
        uniform.refine(uniform.bits + 64)
    return found
