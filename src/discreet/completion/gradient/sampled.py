"""Releases over Poisson samples of the users: how much noise they take, who is in a sample, and how they are recorded.

Whether a person is in a sample is decided by a coin of her own, exact and secret, for each release anew. What follows
is accounted as `SampledGaussian` events, for add-remove adjacency only. A ledger's `release` knows no such event: so
the cost of all of them is charged to the ledger first, and then releases go through a ledger of their own, which draws
noise and has no budget. docs/proofs/sgd.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.calculator import account
from discreet.completion.door import Door
from discreet.data.interactions import Interactions
from discreet.errors import PrivacyError
from discreet.privacy import Cost, Gaussian, Ledger, NoiseSource, Plan, Planned, SampledGaussian
from discreet.privacy.guarantee import require_adjacency
from discreet.privacy.keystream import Stream
from discreet.privacy.sampling import bernoulli
from discreet.privacy.store import Entry

Array = NDArray[Any]

AIM, CLOSE = 0.997, 0.99  # of epsilon: what to look for, and what is near enough
TRIALS = 60


@lru_cache(maxsize=64)
def largest_mu(epsilon: float, delta: float, rate: float, releases: int) -> float:
    """(Nearly) the largest mu for which so many mu-Gaussian releases over samples of this rate keep a budget."""
    low, high, slope = 0.0, math.inf, 1.2
    before: tuple[float, float] | None = None
    mu: float = (account(epsilon=epsilon, delta=delta).mu or 0.0) / releases**0.5  # enough if all were in every sample
    for _ in range(TRIALS if mu else 0):
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
    if not low:
        raise PrivacyError(
            f"epsilon, delta: {epsilon:g} and {delta:g} leave nothing to spend; give more, or fewer steps"
        )
    return low


def sampled_cost(mu: float, rate: float, releases: int) -> Cost:
    """What mu-Gaussian releases over Poisson samples cost together."""
    if rate == 1:
        return Cost.of_mu(mu) * releases
    return Cost.of(SampledGaussian(mu, rate), releases)


@dataclass(frozen=True)
class Samples:
    """Some of the users, other ones whenever asked.

    Attributes:
        rate: The probability that a user is among them, each by herself.
        source: Where the coins come from: secret, as the noise.
    """

    rate: float
    source: NoiseSource

    def draw(self, ratings: Interactions) -> Interactions:
        """A fresh Poisson sample."""
        if self.rate == 1:
            return ratings
        coins = np.empty(ratings.n_users, np.int64)
        bernoulli(lambda digits: Decimal(self.rate), Stream(self.source.fresh_key()), coins)
        return ratings.of_users(np.flatnonzero(coins))


@dataclass
class Charged:
    """What a block under `charged` gets, and what there is to tell of it afterwards."""

    door: Door
    samples: Samples
    event: Entry


@contextmanager
def charged(
    ledger: Ledger, label: str, *, mu: float, bound: float, rate: float, releases: int, n_jobs: int | None
) -> Iterator[Charged]:
    """Charge a ledger for releases over samples, all at once and before any data is touched; then make them.

    Args:
        ledger: Who pays.
        label: What is released.
        mu: Sensitivity over standard deviation, of each release.
        bound: The sensitivity of each release: how far a user moves it who is in the sample.
        rate: The probability that a user is in a sample.
        releases: How many.
        n_jobs: Threads.
    """
    require_adjacency(ledger.adjacency, "add-remove")
    cost, source = sampled_cost(mu, rate, releases), ledger.noise_source
    noise = Gaussian.for_cost(Cost.of_mu(mu), sensitivity=bound)
    event = ledger.charge(cost, label, source=source, noise=noise, sensitivity=bound, count=releases)
    inner = Ledger(delta=ledger.delta, adjacency=ledger.adjacency, noise_source=source)
    with inner.reserve(Plan((Planned(label, Cost.of_mu(mu), releases),))) as reservation:
        yield Charged(Door(reservation, ledger.adjacency, n_jobs), Samples(rate, source), event)
