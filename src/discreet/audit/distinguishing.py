"""Distinguish neighbors from outside: what the scores of many runs prove about a guarantee, for any mechanism.

A threshold is chosen on one half of the runs and tried on the other. Clopper-Pearson bounds turn the rates of true and
false positives into a lower bound on Gaussian DP, mu >= z(true positives) - z(false positives), or on epsilon. If a
claim is true, the bound exceeds it with probability at most 2 * level: an audit can prove a guarantee wrong, never
right.

`end_to_end` does this with whole fits, with and without one person. The score is the likelihood ratio of the released
values, the best that any attacker can use: a replay finds what each fit would have released on the neighbor, given the
same released values. What all users except the canary are shown follows from these values and from their own data
alone, as the replay has checked, so this is the joint view of the guarantee. `one_run` does the same with many canaries
in one fit (Steinke, Nasr, Jagielski 2023).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from scipy.special import betaincinv, expit, ndtr, ndtri
from scipy.stats import binom, norm

from discreet.audit.neighbors import Row, entries
from discreet.audit.replaying import Recording, Release, fitted
from discreet.audit.report import EACH, Alarms, Finding
from discreet.audit.subjects import Subject
from discreet.data.interactions import Interactions
from discreet.data.readers import read
from discreet.privacy import L2Laplace, Laplace, RandomizedResponse
from discreet.typing import Array

CANARY, ONE_RUN = "canary", "one run"
CANDIDATES = 200  # thresholds to choose from
FEW = 12  # thresholds that are examined more closely
SURELY = 0.95  # "detectable" means detected with this probability
MOST = 1e3  # what is not detectable up to here counts as never detectable
BLIND = 0.9  # of the claim: an audit that measures less of a designed worst case is blind
SMALL = 1e-4  # of the level: the delta at which guesses about many canaries are evaluated


def clopper_pearson(hits: int, runs: int, level: float) -> tuple[float, float]:
    """Bounds on a probability, each wrong with probability at most `level`."""
    low = float(betaincinv(hits, runs - hits + 1, level)) if hits else 0.0
    high = 1 - float(betaincinv(runs - hits, hits + 1, level)) if hits < runs else 1.0
    return low, high


@dataclass(frozen=True)
class Evidence:
    """The results of a test that guesses whether a person is in the data."""

    hits: int  # how often it said yes with the person
    alarms: int  # how often it said yes without them
    runs: int  # with the person, and as many without
    level: float = EACH  # of each of the two bounds

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
        """A proved lower bound on epsilon at a delta, the better of both directions: with the person, or without."""
        hits, alarms = self.rates
        misses = clopper_pearson(self.runs - self.hits, self.runs, self.level)[1]  # right whenever that on hits is
        ratios = (hits - delta) / alarms if alarms else 0.0, (1 - alarms - delta) / misses if misses else 0.0
        return max(math.log(max(ratio, 1.0)) for ratio in ratios)


def distinguish(
    present: Array, absent: Array, *, level: float = EACH, by: Callable[[Evidence], float] | None = None
) -> Evidence:
    """Choose a threshold on the first half of the scores with and without the person, and try it on the second.

    The chosen threshold maximizes `by`, by default the proved mu.
    """
    n = min(len(present), len(absent))
    half = n // 2
    first = np.sort(present[:half]), np.sort(absent[:half])
    candidates = np.unique(np.quantile(np.concatenate(first), np.linspace(0, 1, CANDIDATES)))
    hits, alarms = (half - np.searchsorted(scores, candidates) for scores in first)
    some = np.arange(len(candidates))
    if by is None:  # examine only those where mu is likely to be large
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
    """The smallest true mu that this many runs would prove, with probability 95%, to exceed a claim.

    This is for the best test. Half of the runs are used to choose its threshold. Infinity if there is no such mu.
    """
    half = max(runs // 2, 1)
    places = np.linspace(0.0, 1.0, 9).tolist()  # of the threshold, between the two means

    def detected(mu: float) -> bool:
        rates = ((float(ndtr(mu * (1 - place))), float(ndtr(-mu * place))) for place in places)
        return any(_likely(hit, alarm, half, level).mu > claim for hit, alarm in rates)

    return least(detected, claim)


@cache
def detectable_epsilon(claim: float, runs: int, *, delta: float = 0.0, level: float = EACH) -> float:
    """The same for epsilon: for one bit that is true with odds e^epsilon, which is the easiest to distinguish."""
    half = max(runs // 2, 1)

    def detected(epsilon: float) -> bool:
        truly = float(expit(epsilon))
        return _likely(truly, 1 - truly, half, level).epsilon(delta) > claim

    return least(detected, claim)


def _likely(hit: float, alarm: float, runs: int, level: float) -> Evidence:
    """In 95% of cases, such rates give this evidence or better."""
    hits, alarms = binom.ppf((1 - SURELY) / 2, runs, hit), binom.ppf((1 + SURELY) / 2, runs, alarm)
    return Evidence(int(hits), int(alarms), runs, level)


def least(detected: Callable[[float], bool], claim: float) -> float:
    """The smallest number above a claim that is detected, if all larger ones are; infinity if none is."""
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
    return f"{least_detectable:.3g} or more would have been noticed"


# Whole fits


def _log_likelihood_ratio(one: Release, other: Release) -> float:
    """Of the values that `one` released: given its own statistic, against that of `other`."""
    if isinstance(one.noise, RandomizedResponse):
        bits, changed = one.units > 0, (one.units > 0) != (other.units > 0)
        agree = (one.answer > 0)[changed] == bits[changed]
        return one.noise.bit_epsilon * float(np.where(agree, 1, -1).sum())
    own, others = ((one.answer - release.statistic).ravel() for release in (one, other))
    if isinstance(one.noise, Laplace):
        return float((np.abs(others) - np.abs(own)).sum()) / one.noise.scale
    if isinstance(one.noise, L2Laplace):
        return float(np.linalg.norm(others) - np.linalg.norm(own)) / one.noise.scale
    return float(others @ others - own @ own) / (2 * one.noise.std**2)


def scores(subject: Subject, pair: tuple[Any, Any], runs: int) -> tuple[Array, Array]:
    """Log-likelihood ratios of `runs` fits with the first person of a pair, and with the second."""
    data = [subject.data(person) for person in pair]
    found = np.empty((2, runs))
    for own in (0, 1):
        for run in range(runs):
            number = 2 * run + own
            seen = fitted(subject.make, data[own], subject.fit, seed=number)
            other = fitted(subject.make, data[1 - own], subject.fit, answers=seen.answers, seed=number)
            if seen.error is not None or len(seen.releases) != len(other.releases):
                raise ValueError(f"{subject.name}: fits on neighboring data do not make the same releases")
            ratios = map(_log_likelihood_ratio, seen.releases, other.releases)
            found[own, run] = (1 - 2 * own) * sum(ratios)
    return found[0], found[1]


def end_to_end(subject: Subject, pair: tuple[Any, Any], *, runs: int, alarms: Alarms, worst: bool = True) -> Finding:
    """Fit `runs` times with each person of a pair, and see what that proves.

    If the pair was designed to reach the claim (`worst`), measuring less than 0.9 of it is a failure.
    """
    guarantee = fitted(subject.make, subject.data(pair[0]), subject.fit).model.guarantee_
    present, absent = scores(subject, pair, runs)
    gaussian = guarantee.mu is not None
    tests = 2 + (worst and gaussian)  # a bound on each of two rates
    level, blind = alarms.take(tests), False
    if gaussian:
        # The scores of two normal distributions at a distance of mu have means that differ by mu^2.
        measured = math.sqrt(max(float(present.mean() - absent.mean()), 0.0))
        name, claim, proved = "mu", guarantee.mu, distinguish(present, absent, level=level).mu
        noticed = detectable(claim, runs, level=level)
        error = float(norm.isf(level)) * claim * math.sqrt(2 / runs)  # of the square of `measured`
        blind = worst and measured**2 + error < (BLIND * claim) ** 2
    else:
        name, claim, delta = "epsilon", guarantee.epsilon, guarantee.delta
        evidence = distinguish(present, absent, level=level, by=lambda e: e.epsilon(delta))
        proved, measured = evidence.epsilon(delta), _likeliest(evidence)
        noticed = detectable_epsilon(claim, runs, delta=delta, level=level)
    words = (
        f"{runs:,} fits with a person and {runs:,} without: {name} >= {proved:.3g} is proved, and {measured:.3g} is "
        f"measured, of {claim:.3g} claimed; {could(noticed)}"
    )
    figures = {"proved": proved, "measured": measured, "claimed": claim, "runs": runs, "detectable": noticed}
    return Finding(CANARY, proved <= claim and not blind, words, figures, tests=tests)


def _likeliest(found: Evidence) -> float:
    """The epsilon of the rates as counted."""
    hits, alarms = ((count + 0.5) / (found.runs + 1) for count in (found.hits, found.alarms))
    return max(math.log(hits / alarms), math.log((1 - alarms) / (1 - hits)), 0.0)


# Many canaries in one fit


@dataclass(frozen=True)
class OneRun:
    """Guesses about canaries, each of which was put in the data by a fair coin."""

    canaries: int
    guesses: int  # how many canaries were guessed about
    right: int  # how many guesses were right

    def chance(self, epsilon: float, delta: float) -> float:
        """The largest probability of this many right guesses, if (epsilon, delta) holds.

        Each guess is right with probability at most e^eps / (1 + e^eps), whatever the others are; delta adds at most
        what it can by making up for missing guesses.
        """
        q = 1 / (1 + math.exp(-epsilon))
        counts = np.arange(1, self.right + 1)
        reached = np.cumsum(binom.pmf(self.right - counts, self.guesses, q))
        extra = float((reached / counts).max(initial=0.0))
        return float(min(binom.sf(self.right - 1, self.guesses, q) + 2 * self.canaries * delta * extra, 1.0))

    def epsilon(self, delta: float, level: float = EACH) -> float:
        """A proved lower bound on epsilon."""
        if self.chance(0.0, delta) > level:
            return 0.0
        low, high = 0.0, 100.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if self.chance(middle, delta) <= level else (low, middle)
        return low


def one_run(
    make: Callable[[], Any], crowd: Interactions, people: list[Row], *, alarms: Alarms
) -> tuple[Finding, OneRun]:
    """Put each of many canaries in the data, or not, by a coin; fit once; guess who is in it.

    Statistics are sums over users, so a fit on a canary alone, given the released values, shows what the canary adds to
    every release. Its score is how much of that is in the released values. Guesses are about the quarter of canaries
    with the highest scores, and the quarter with the lowest. The model has add-remove adjacency.
    """
    coins = np.random.default_rng(0).random(len(people)) < 0.5
    present = [person for person, coin in zip(people, coins.tolist(), strict=True) if coin]
    seen = fitted(make, _with(crowd, present), seed=0)
    again = partial(fitted, make, answers=seen.answers, seed=0)
    others, no_one = again(crowd), crowd.of_users(np.arange(0))
    found = np.array([_share(seen, others, again(_with(no_one, [person]))) for person in people])
    order, half = np.argsort(found), len(people) // 4
    right = int(np.count_nonzero(coins[order[-half:]]) + np.count_nonzero(~coins[order[:half]]))
    run, guarantee = OneRun(len(people), 2 * half, right), seen.model.guarantee_
    level = alarms.take()
    # Delta counts once for every canary: unless it is far below the level, nothing can be proved.
    delta = min(guarantee.delta, SMALL * level)
    proved, claim = run.epsilon(delta, level), guarantee.epsilon_at(delta)
    words = (
        f"one fit with {len(people):,} canaries, each in it or not: {right:,} of {2 * half:,} guesses were right, "
        f"which proves epsilon >= {proved:.3g} at delta {delta:.0e}, of {claim:.3g} claimed"
    )
    figures = {"proved": proved, "claimed": claim, "right": right, "guesses": 2 * half}
    return Finding(ONE_RUN, proved <= claim, words, figures, tests=1), run


def _with(crowd: Interactions, people: list[Row]) -> Interactions:
    """The crowd and some canaries."""
    columns = crowd.to_arrow().select(["user", "item", "rating"]).to_pydict().values()
    rows = [(str(user), item, value) for user, item, value in zip(*columns, strict=True)]
    rows += [(f"x{i:05}", item, value) for i, person in enumerate(people) for item, value in entries(person)]
    return read(rows, items=crowd.catalogue, value_range=crowd.value_range)


def _share(seen: Recording, others: Recording, canary: Recording) -> float:
    """How much of a canary's contributions is in the released values, beyond the crowd's."""
    total = 0.0
    for release, crowd, own in zip(seen.releases, others.releases, canary.releases, strict=True):
        beyond = release.answer - crowd.statistic - own.statistic / 2
        total += float((beyond * own.statistic).sum()) / release.scale**2
    return total
