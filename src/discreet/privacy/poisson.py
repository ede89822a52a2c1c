"""Poisson samples of the users: who is in one, what a release over one costs, and how much noise a budget takes.

Whether a person is in a sample is decided by a coin of their own, exact and secret, anew for each release. What follows
is accounted as `SampledGaussian` events, for add-remove adjacency only. docs/proofs/sgd.md.
"""

import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from discreet.errors import PrivacyError
from discreet.privacy.accounting import Cost, SampledGaussian, largest_gaussian
from discreet.privacy.keystream import NoiseSource, Stream
from discreet.privacy.sampling import bernoulli

AIM, CLOSE = 0.997, 0.99  # of epsilon: what to look for, and what is near enough
TRIALS = 60
LEAST_MU = 2.0**-20  # of a release: with less, noise would drown any number of people


def poisson_sample(n_users: int, rate: float, source: NoiseSource) -> npt.NDArray[np.intp]:
    """The numbers of the users in a fresh sample, increasing. Secret: whoever knew it would know more than is paid for.

    Args:
        n_users: How many there are.
        rate: The probability that a user is in it, each by themselves.
        source: Where the coins come from: where the noise does.
    """
    if rate == 1:
        return np.arange(n_users)
    coins = np.empty(n_users, np.int64)
    bernoulli(lambda digits: Decimal(rate), Stream(source.fresh_key()), coins)
    return np.flatnonzero(coins)


def sampled_cost(mu: float, rate: float, releases: int) -> Cost:
    """What mu-Gaussian releases over Poisson samples cost together."""
    if rate == 1:
        return Cost.of_mu(mu) * releases
    return Cost.of(SampledGaussian(mu, rate), releases)


@lru_cache(maxsize=64)
def largest_mu(epsilon: float, delta: float, rate: float, releases: int) -> float:
    """(Nearly) the largest mu for which so many mu-Gaussian releases over samples of this rate keep a budget."""
    low, high, slope = 0.0, math.inf, 1.2
    before: tuple[float, float] | None = None
    whole = Cost(math.floor(largest_gaussian(epsilon, delta) * Fraction(1 - 2.0**-40)), 1)
    mu: float = (whole.mu or 0.0) / releases**0.5  # enough if all were in every sample
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
        if before is not None:  # costs grow like a power of mu, for a while
            slope = min(max((now[1] - before[1]) / (now[0] - before[0]), 0.5), 8.0)
        before = now
        # Small steps up: a mu that is much too large takes long to account for.
        guess = mu * min((AIM * epsilon / cost) ** (1 / slope), 2.5)
        mu = guess if low < guess < high else (low + min(high, 2 * low)) / 2
    return low
