"""Replays of designed people, and the search for people who exceed a bound: at random, and uphill from the worst."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.audit.findings import Finding, failed
from discreet.audit.neighbors import entries, extremes
from discreet.audit.replaying import ROUNDING, SENSITIVITY, Replay
from discreet.audit.subjects import WORST, Subject
from discreet.data.interactions import Interactions
from discreet.privacy.guarantee import Adjacency, require_adjacency

TIGHT, WHOLE, SEARCH = "worst case", "whole claim", "search"
LEAST = 0.9  # of the claim: how far apart designed people must be


@dataclass(frozen=True)
class Tried:
    """Replays of designed people, and what they show."""

    replays: list[Replay]
    findings: list[Finding]

    @property
    def shares(self) -> list[float]:
        """How much of the claim each pair reaches; 0 where releases do not tell."""
        return [one.share or 0.0 for one in self.replays]


def designed(subject: Subject) -> Tried:
    """Replay the people of a subject; if they were designed for it, check that some of them reach each bound."""
    replays = [subject.replay(pair) for pair in subject.pairs]
    findings = _merged([finding for one in replays for finding in one.findings])
    if subject.designed and not failed(findings):
        findings += [_tight(subject, **one.figures) for one in findings if one.check == SENSITIVITY]
        if all(one.share is not None for one in replays):
            findings.append(_whole(max(one.share or 0.0 for one in replays)))
    return Tried(replays, findings)


def _whole(share: float) -> Finding:
    """Every bound may be tight, and still no two people may be as far apart as the claim, over all releases."""
    ok = LEAST <= share <= 1 + ROUNDING
    words = f"all releases together, two designed people are {share:.1%} of the claim apart"
    return Finding(WHOLE, ok, words if ok else f"{words}; this should be {LEAST:.0%} to 100%", {"share": share})


def _tight(subject: Subject, release: str, share: float) -> Finding:
    """A bound that no one comes near is slack, or the test is blind."""
    ok = share >= WORST
    words = f"a designed person moves {release!r} by {share:.1%} of its bound"
    if release in subject.elsewhere:
        ok, words = True, f"{release!r}: {share:.1%} of its bound here; its worst case is {subject.elsewhere[release]}"
    elif not ok:
        words += f", less than {WORST:.0%}: the bound is slack, or this audit is blind"
    return Finding(TIGHT, ok, words, {"release": release, "share": share})


def _merged(findings: list[Finding]) -> list[Finding]:
    """One finding of each check and release: a failure before a success, and of several the furthest."""
    kept: dict[tuple[str, Any], Finding] = {}
    for finding in sorted(findings, key=lambda one: (one.ok, -one.figures.get("share", 0.0))):
        kept.setdefault((finding.check, finding.figures.get("release")), finding)
    order = {(one.check, one.figures.get("release")): None for one in findings}
    return [kept[key] for key in order]


def search(subject: Subject, *, tries: int) -> list[Finding]:
    """Climb from extreme people to more extreme ones, by so many replays; for models of ratings only."""
    empty = subject.world(None) if subject.pairs and isinstance(subject.pairs[0][0], dict) else None
    adjacency = require_adjacency(subject.make().adjacency, *Adjacency)
    if not isinstance(empty, Interactions) or adjacency is Adjacency.FLIP:
        return []
    rng, low_high = np.random.default_rng(0), empty.value_range or (0.0, 1.0)
    people = [*extremes(empty).values()]
    best: tuple[float, Any] = (-1.0, people[0])
    wrong: list[Finding] = []
    for at in range(tries):
        person = people[at] if at < len(people) else _changed(best[1], empty.n_items, low_high, rng)
        other = _random(empty.n_items, low_high, rng) if adjacency is Adjacency.REPLACE else None
        one = subject.replay((person, other))
        wrong += failed(one.findings)
        share = max(one.moved.values(), default=0.0)
        best = max(best, (share, person), key=lambda pair: pair[0])
    words = f"{tries} people, extreme ones and others uphill from them: the furthest moves a release by {best[0]:.1%}"
    return [*_merged(wrong), Finding(SEARCH, not wrong, words, {"share": best[0]})]


def _random(n_items: int, value_range: tuple[float, float], rng: np.random.Generator) -> dict[int, float]:
    items = rng.choice(n_items, int(rng.integers(1, n_items + 1)), replace=False)
    return {int(item): float(rng.choice(value_range)) for item in items}


def _changed(person: Any, n_items: int, value_range: tuple[float, float], rng: np.random.Generator) -> dict[int, float]:
    """A person with some items more, some fewer, some ratings at the other end; or one at random."""
    if rng.random() < 0.25:
        return _random(n_items, value_range, rng)
    changed = {item: rating for item, rating in entries(person) if rng.random() > 0.1}
    for item in rng.choice(n_items, int(rng.integers(1, 5)), replace=False).tolist():
        changed[item] = float(rng.choice(value_range))
    return changed
