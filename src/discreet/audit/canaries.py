"""End to end: whole fits, with and without one person, told apart by everything that they release.

The score is the likelihood ratio of the released values, the best that any attacker can use: a replay finds what each
fit would have released in the other case, given the same released values. What all users but the canary are shown
follows from these values and from their own data alone, as the replay has checked, so this is the joint view of the
guarantee. `one_run` does the same with many canaries in one fit (Steinke, Nasr, Jagielski 2023).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit
from scipy.stats import binom, norm

from discreet.audit.distinguishing import SURELY, Evidence, could, detectable, detectable_epsilon, distinguish, least
from discreet.audit.findings import EACH, Alarms, Finding
from discreet.audit.neighbors import Row, entries
from discreet.audit.recording import Recording, Release, record
from discreet.audit.replaying import settings
from discreet.audit.subjects import Subject
from discreet.data.interactions import Interactions
from discreet.data.readers import read
from discreet.privacy import L2Laplace, Laplace, RandomizedResponse
from discreet.typing import Array

CANARY, ONE_RUN = "canary", "one run"
BLIND = 0.9  # of the claim: an audit that measures less of a designed worst case is blind
SMALL = 1e-4  # of the level: the delta at which guesses about many canaries are weighed


def _log_likelihood_ratio(one: Release, other: Release) -> float:
    """Of the released values of `one`: with its own statistic against that of `other`."""
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
    """Log-likelihood ratios of so many fits with the first person of a pair, and with the second."""
    worlds = [subject.world(person) for person in pair]
    found = np.empty((2, runs))
    for own in (0, 1):
        for run in range(runs):
            number = 2 * run + own
            seen = _fitted(subject, worlds[own], seed=number)
            other = _fitted(subject, worlds[1 - own], answers=seen.answers, seed=number)
            if seen.error is not None or len(seen.releases) != len(other.releases):
                raise ValueError(f"{subject.name}: fits on neighboring data do not make the same releases")
            ratios = map(_log_likelihood_ratio, seen.releases, other.releases)
            found[own, run] = (1 - 2 * own) * sum(ratios)
    return found[0], found[1]


def _fitted(subject: Subject, data: Any, **given: Any) -> Recording:
    return record(lambda ledger: subject.fit(subject.make(), data, ledger), **given, **settings(subject.make()))


def end_to_end(subject: Subject, pair: tuple[Any, Any], *, runs: int, alarms: Alarms, worst: bool = True) -> Finding:
    """Fit many times with and without one person, and see what that proves.

    Args:
        subject: What to audit.
        pair: The person, before and after.
        runs: Fits with each; half of them choose a threshold, half test it.
        alarms: The budget for false alarms.
        worst: Whether the pair was designed to reach the claim: then less than 0.9 of it is a failure.
    """
    guarantee = _fitted(subject, subject.world(pair[0])).model.guarantee_
    present, absent = scores(subject, pair, runs)
    gaussian = guarantee.mu is not None
    tests = 2 + worst if gaussian else 4
    level = alarms.take(tests)
    blind = False
    if gaussian:
        # The scores of two normal distributions at a distance mu have means that differ by mu^2.
        measured = math.sqrt(max(float(present.mean() - absent.mean()), 0.0))
        name, claim, proved = "mu", guarantee.mu, distinguish(present, absent, level=level).mu
        noticed = detectable(claim, runs, level=level)
        error = float(norm.isf(level)) * claim * math.sqrt(2 / runs)  # of the square of what is measured
        blind = worst and measured**2 + error < (BLIND * claim) ** 2
    else:
        name, claim, delta = "epsilon", guarantee.epsilon, guarantee.delta
        directions = (present, absent), (-absent, -present)
        tried = [distinguish(*one, level=level, by=lambda e: e.epsilon(delta)) for one in directions]
        proved, measured = max(one.epsilon(delta) for one in tried), max(map(_likeliest, tried))
        noticed = detectable_epsilon(claim, runs, delta=delta, level=level)
    words = (
        f"{runs:,} fits with a person and {runs:,} without: {name} >= {proved:.3g} is proved, and {measured:.3g} "
        f"measured, of {claim:.3g} claimed; {could(noticed)}"
    )
    figures = {"proved": proved, "measured": measured, "claimed": claim, "runs": runs, "detectable": noticed}
    return Finding(CANARY, proved <= claim and not blind, words, figures, tests=tests)


def _likeliest(found: Evidence) -> float:
    """The epsilon of the rates as they were counted."""
    hits, alarms = ((count + 0.5) / (found.runs + 1) for count in (found.hits, found.alarms))
    return max(math.log(hits / alarms), math.log((1 - alarms) / (1 - hits)), 0.0)


# Many canaries in one fit


@dataclass(frozen=True)
class OneRun:
    """Guesses about canaries, each of which was in the data or not by a fair coin.

    Attributes:
        canaries: How many there were.
        guesses: About how many of them a guess was made.
        right: How many guesses were right.
    """

    canaries: int
    guesses: int
    right: int

    def chance(self, epsilon: float, delta: float) -> float:
        """The largest probability of so many right guesses, if (epsilon, delta) holds.

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

    def detectable(self, claim: float, delta: float, level: float = EACH) -> float:
        """The smallest true epsilon that so many guesses would prove to be above a claim, with probability 95%.

        If each canary can be told with odds e^epsilon, which is the most that epsilon allows.
        """

        def detected(epsilon: float) -> bool:
            right = int(binom.ppf(1 - SURELY, self.guesses, float(expit(epsilon))))
            return OneRun(self.canaries, self.guesses, right).chance(claim, delta) <= level

        return least(detected, claim)


def one_run(
    make: Callable[[], Any], crowd: Interactions, people: list[Row], *, alarms: Alarms
) -> tuple[Finding, OneRun]:
    """Put each of many canaries in the data, or not, by a coin; fit once; guess who is in it.

    What a canary adds to every release, given the released values, is what a fit on the canary alone has: sums over
    users are sums. Its score is how much of that there is in what was released. Guesses are about the quarter of them
    with the highest scores, and the quarter with the lowest.

    Args:
        make: Makes the model; with add-remove adjacency.
        crowd: The other users.
        people: The canaries' ratings.
        alarms: The budget for false alarms.
    """
    book = settings(make())

    def fitted(data: Interactions, answers: list[Array] | None) -> Recording:
        return record(lambda ledger: make().fit(data, ledger=ledger), answers=answers, seed=0, **book)

    coins = np.random.default_rng(0).random(len(people)) < 0.5
    seen = fitted(_with(crowd, [person for person, coin in zip(people, coins.tolist(), strict=True) if coin]), None)
    others = fitted(crowd, seen.answers)
    no_one = crowd.of_users(np.arange(0))
    found = np.array([_share(seen, others, fitted(_with(no_one, [person]), seen.answers)) for person in people])
    order, half = np.argsort(found), len(people) // 4
    right = int(np.count_nonzero(coins[order[-half:]]) + np.count_nonzero(~coins[order[:half]]))
    run, guarantee = OneRun(len(people), 2 * half, right), seen.model.guarantee_
    level = alarms.take()
    # Delta counts once for every canary: it must be far below the level, or nothing can be proved.
    delta = min(guarantee.delta, SMALL * level)
    proved, claim = run.epsilon(delta, level), guarantee.epsilon_at(delta)
    noticed = run.detectable(claim, delta, level)
    words = (
        f"one fit with {len(people):,} canaries, each in it or not: {right:,} of {2 * half:,} guesses were right, and "
        f"this proves epsilon >= {proved:.3g} at delta {delta:.0e}, of {claim:.3g} claimed; {could(noticed)}"
    )
    figures = {"proved": proved, "claimed": claim, "right": right, "guesses": 2 * half, "detectable": noticed}
    return Finding(ONE_RUN, proved <= claim, words, figures, tests=1), run


def _with(crowd: Interactions, people: list[Row]) -> Interactions:
    """The crowd and some canaries."""
    frame = crowd.to_arrow()
    columns = [frame.column(name).to_pylist() for name in ("user", "item", "rating")]
    rows = [(str(user), item, value) for user, item, value in zip(*columns, strict=True)]
    rows += [(f"x{i:05}", item, value) for i, person in enumerate(people) for item, value in entries(person)]
    return read(rows, items=crowd.catalogue, value_range=crowd.value_range)


def _share(seen: Recording, others: Recording, canary: Recording) -> float:
    """How much of a canary's contributions there is in what was released, beyond the crowd's."""
    total = 0.0
    for release, crowd, own in zip(seen.releases, others.releases, canary.releases, strict=True):
        beyond = release.answer - crowd.statistic - own.statistic / 2
        total += float((beyond * own.statistic).sum()) / release.scale**2
    return total
