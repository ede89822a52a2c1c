"""Telling two cases apart from outside: what scores of many runs prove about a guarantee, for any mechanism.

A threshold is chosen on one half of the runs and tried on the other. Clopper-Pearson bounds turn how often it was right
and wrong into a lower bound on Gaussian DP, mu >= z(true positives) - z(false positives), or on epsilon. If a claim is
true, the bound exceeds it with probability at most 2 * level: an audit can prove a guarantee wrong, never right.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import betaincinv, expit, ndtr, ndtri
from scipy.stats import binom

from discreet.audit.findings import EACH
from discreet.typing import Array

CANDIDATES = 200  # thresholds to choose from
FEW = 12  # thresholds that are looked at more closely
SURELY = 0.95  # the probability with which something is said to be detectable
MOST = 1e3  # what is not detectable up to here is taken never to be


def clopper_pearson(hits: int, runs: int, level: float) -> tuple[float, float]:
    """Bounds on a probability, each wrong with probability at most `level`."""
    low = float(betaincinv(hits, runs - hits + 1, level)) if hits else 0.0
    high = 1 - float(betaincinv(runs - hits, hits + 1, level)) if hits < runs else 1.0
    return low, high


@dataclass(frozen=True)
class Evidence:
    """What a test that says "this person is in the data" shows.

    Attributes:
        hits: How often it said so where the person is in the data.
        alarms: How often where they are not.
        runs: In each case.
        level: Of each of the two bounds.
    """

    hits: int
    alarms: int
    runs: int
    level: float = EACH

    @property
    def rates(self) -> tuple[float, float]:
        """The smallest possible rate of hits, and the largest possible rate of false alarms."""
        hits, alarms = (clopper_pearson(count, self.runs, self.level) for count in (self.hits, self.alarms))
        return hits[0], alarms[1]

    @property
    def mu(self) -> float:
        """A proved lower bound on the parameter of Gaussian DP."""
        hits, alarms = self.rates
        return max(float(ndtri(hits) - ndtri(alarms)), 0.0) if hits > 0 and alarms < 1 else 0.0

    def epsilon(self, delta: float = 0.0) -> float:
        """A proved lower bound on epsilon at a delta, in either direction."""
        hits, alarms = self.rates
        misses = clopper_pearson(self.runs - self.hits, self.runs, self.level)[1]
        ratios = (hits - delta) / alarms if alarms else 0.0, (1 - alarms - delta) / misses if misses else 0.0
        return max(math.log(max(ratio, 1.0)) for ratio in ratios)


def distinguish(
    present: Array, absent: Array, *, level: float = EACH, by: Callable[[Evidence], float] | None = None
) -> Evidence:
    """Choose a threshold on the first half of the scores, and try it on the second.

    Args:
        present: Scores of runs with the person.
        absent: Scores of runs without.
        level: Of each bound.
        by: What the threshold should make large; by default the mu that is proved.
    """
    n = min(len(present), len(absent))
    half = n // 2
    first = np.sort(present[:half]), np.sort(absent[:half])
    candidates = np.unique(np.quantile(np.concatenate(first), np.linspace(0, 1, CANDIDATES)))
    hits, alarms = (half - np.searchsorted(scores, candidates) for scores in first)
    some = np.arange(len(candidates))
    if by is None:  # only those at which mu is likely to be large are worth a closer look
        likely = ndtri((hits + 0.5) / (half + 1)) - ndtri((alarms + 0.5) / (half + 1))
        some = np.union1d(np.argsort(-likely)[:FEW], np.argsort(np.abs(hits + alarms - half))[:FEW])

    def merit(at: int) -> float:
        evidence = Evidence(int(hits[at]), int(alarms[at]), half, level)
        return evidence.mu if by is None else by(evidence)

    threshold = candidates[max(some.tolist(), key=merit)]
    rest = [int(np.count_nonzero(scores[half:n] >= threshold)) for scores in (present, absent)]
    return Evidence(rest[0], rest[1], n - half, level)


@cache
def detectable(claim: float, runs: int, *, level: float = EACH) -> float:
    """The smallest true mu that so many runs (half of them to choose) would prove to be above a claim.

    With probability 95%, by the best test. Infinity if there is none.
    """
    half = max(runs // 2, 1)
    places = np.linspace(0.0, 1.0, 9).tolist()  # of the threshold, between the two means

    def detected(mu: float) -> bool:
        rates = ((float(ndtr(mu * (1 - place))), float(ndtr(-mu * place))) for place in places)
        return any(_likely(hit, alarm, half, level).mu > claim for hit, alarm in rates)

    return least(detected, claim)


@cache
def detectable_epsilon(claim: float, runs: int, *, delta: float = 0.0, level: float = EACH) -> float:
    """The same for epsilon: for one bit that is true with odds e^epsilon, which is the easiest to tell apart."""
    half = max(runs // 2, 1)

    def detected(epsilon: float) -> bool:
        truly = float(expit(epsilon))
        return _likely(truly, 1 - truly, half, level).epsilon(delta) > claim

    return least(detected, claim)


def _likely(hit: float, alarm: float, runs: int, level: float) -> Evidence:
    """The evidence that rates like these give, or better, in 95% of cases."""
    hits, alarms = binom.ppf((1 - SURELY) / 2, runs, hit), binom.ppf((1 + SURELY) / 2, runs, alarm)
    return Evidence(int(hits), int(alarms), runs, level)


def least(detected: Callable[[float], bool], claim: float) -> float:
    """The smallest number above a claim that is detected, if all larger ones are too; infinity if none is."""
    low, high = claim, claim + 1.0
    while not detected(high):
        high *= 2
        if high > MOST:
            return math.inf
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if detected(middle) else (middle, high)
    return high


def could(least_detectable: float) -> str:
    """What an audit could have noticed, in words."""
    if math.isinf(least_detectable):
        return "so few runs could prove nothing"
    return f"from {least_detectable:.3g} on it would have been noticed"
