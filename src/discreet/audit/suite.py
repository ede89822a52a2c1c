"""`discreet.audit.run`: audit a model, all models of the library, or the audit itself.

`audit` runs all checks of one subject: it replays the designed people, tests the noise and follows private numbers. A
full audit also searches for people who exceed a bound, and fits many times.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from discreet.audit import attacks, subjects
from discreet.audit.distinguishing import end_to_end, one_run
from discreet.audit.neighbors import Row, entries, extremes
from discreet.audit.replaying import ROUNDING, SENSITIVITY, Replay
from discreet.audit.report import Alarms, Finding, Report, failed
from discreet.audit.samplers import mechanisms, streams
from discreet.audit.subjects import Subject
from discreet.audit.tainting import taint
from discreet.audit.zoo import MUTANTS, Caught, Mutant
from discreet.data.interactions import Interactions
from discreet.data.synthetic import movielens_like
from discreet.errors import DataError
from discreet.models.private import PrivateModel
from discreet.models.spectral import DPSVD
from discreet.parallel import Bar
from discreet.privacy.noise import InsecureSeededNoise, SystemNoise

Effort = Literal["quick", "full"]

TIGHT, WHOLE, SEARCH = "worst case", "whole claim", "search"
REACHED = 0.95  # of its declared sensitivity: how far a designed person must move each release
SYSTEM = SystemNoise()
DRAWS, SEED = 100_000, 11  # of each kind of noise
TRIES = 40  # people to try in the search of a full audit
FEW_RUNS = 24  # fits with and without a person who is not the worst case of all releases at once
CANARIES = 200
NEARLY = 0.93  # of the claim: what a pair must reach for whole fits to show 0.9 of it


def run(
    model: Any = None, *, effort: Effort = "quick", zoo: bool = False, attack: bool = False, everything: bool = False
) -> Report:
    """Audit a model: what can one person change in what it releases, says, learns and shows to others?

    The model is fitted many times, on synthetic data. No budget is spent.

    Args:
        model: A private model, fitted or not, or its name. To audit your own model with people designed for it, pass a
            `discreet.audit.Subject`. None: see `everything`.
        effort: "quick" takes seconds for each model; "full" takes minutes, searches for people who exceed a bound, and
            compares whole fits end to end.
        zoo: Also try the broken mechanisms: does this audit catch them?
        attack: Run attacks from the literature on private and nonprivate models, as a demonstration.
        everything: Audit all private models of the library.
    """
    chosen = list(subjects.shipped().values()) if everything else [] if model is None else _subjects(model)
    mutants = MUTANTS if zoo else []
    attackers = (attacks.membership, attacks.reconstruction) if attack else ()
    found: dict[str, list[Finding]] = {}
    caught: list[Caught] = []
    achieved: list[attacks.Success] = []
    alarms = Alarms()
    with Bar("audit", len(chosen) + len(mutants) + len(attackers), "checked") as bar:
        for subject in chosen:
            found[subject.name] = audit(subject, effort, alarms)
            bar.advance(1, subject.name)
        if effort == "full" and chosen:
            found["one run, DPSVD"] = [_one_run(alarms)]
        for mutant in mutants:
            caught.append(catch(mutant))
            bar.advance(1, mutant.name)
        for attacker in attackers:
            achieved += attacker()
            bar.advance(1, attacker.__name__)
    return Report(found, caught, achieved)


def _subjects(model: Any) -> list[Subject]:
    """The subjects designed for a model's class, and one for the model as it is."""
    if isinstance(model, Subject):
        return [model]
    kinds = {name: subject.make() for name, subject in subjects.shipped().items()}
    if isinstance(model, str):
        named = [name for name, kind in kinds.items() if type(kind).__name__.lower() == model.lower()]
        if not named:
            known = dict.fromkeys(type(kind).__name__ for kind in kinds.values())
            raise DataError(f"model: there is no private model {model!r}; there are {', '.join(known)}")
        return [subjects.shipped()[name] for name in named]
    if not isinstance(model, PrivateModel):
        raise DataError(f"model: {type(model).__name__} is not private, so there is no guarantee to audit")
    own = [] if model.adjacency == "flip" else [subjects.of(model)]
    mine = [name for name, one in kinds.items() if type(one) is type(model) and one.adjacency == model.adjacency]
    return [*own, *(subjects.shipped()[name] for name in mine)]


def audit(subject: Subject, effort: Effort = "quick", alarms: Alarms | None = None) -> list[Finding]:
    """All checks of one subject; by default with its own false-alarm budget."""
    alarms = alarms or Alarms()
    replays, findings = designed(subject)
    first = next((one.first for one in replays if one.first.model is not None), None)
    if first is not None:
        findings += mechanisms(first, draws=DRAWS, source=InsecureSeededNoise(SEED), alarms=alarms)
    findings += [streams(SYSTEM.fresh_key), *taint(subject, subject.data(subject.pairs[0][0]))]
    if effort == "quick" or failed(findings):
        return findings
    findings += search(subject, tries=TRIES)
    if not subject.open:
        return findings
    furthest, pair = max(zip(replays, subject.pairs, strict=True), key=lambda tried: tried[0].share or 0.0)
    # Many fits pay off only for a pair that is nearly the worst case of all releases at once.
    worst = (furthest.share or 0.0) >= NEARLY
    runs = subject.runs if worst else FEW_RUNS
    return [*findings, end_to_end(subject, pair, runs=runs, alarms=alarms, worst=worst)]


def catch(mutant: Mutant) -> Caught:
    """Audit a mutant as any model is audited."""
    subject = mutant.on(subjects.shipped()[mutant.subject])
    with mutant.patch():
        return Caught(mutant, audit(subject))


def _one_run(alarms: Alarms) -> Finding:
    """Canaries with two items each, which no other canary has, among a million ratings, as in MovieLens 1M."""
    crowd = movielens_like(25_000, 400, 1_000_000, random_state=0)
    items = np.random.default_rng(0).permutation(crowd.n_items)[: 2 * CANARIES].reshape(-1, 2).tolist()
    people: list[Row] = [{crowd.items[one]: 5.0, crowd.items[other]: 0.5} for one, other in items]
    return one_run(lambda: DPSVD(epsilon=30.0, delta=1e-6, n_jobs=1), crowd, people, alarms=alarms)[0]


# Designed people, and the search for people who exceed a bound


def designed(subject: Subject) -> tuple[list[Replay], list[Finding]]:
    """Replay the people of a subject; if they were designed for it, check that each bound is reached."""
    replays = [subject.replay(pair) for pair in subject.pairs]
    findings = _merged([finding for one in replays for finding in one.findings])
    if subject.designed and not failed(findings):
        findings += [_tight(subject, **one.figures) for one in findings if one.check == SENSITIVITY]
        if all(one.share is not None for one in replays):
            findings.append(_whole(max(one.share or 0.0 for one in replays), subject.apart))
    return replays, findings


def _whole(share: float, apart: float) -> Finding:
    """Even if every bound is tight, two people may never be as far apart as the claim, over all releases."""
    ok = apart <= share <= 1 + ROUNDING
    words = f"over all releases, two designed people are {share:.1%} of the claim apart"
    return Finding(WHOLE, ok, words if ok else f"{words}; this should be {apart:.0%} to 100%", {"share": share})


def _tight(subject: Subject, release: str, share: float) -> Finding:
    """If nobody comes near a bound, it is loose, or the test cannot see it."""
    ok = share >= REACHED
    words = f"a designed person moves {release!r} by {share:.1%} of its bound"
    if release in subject.elsewhere:
        ok, words = True, f"{release!r}: {share:.1%} of its bound here; its worst case is {subject.elsewhere[release]}"
    elif not ok:
        words += f", less than {REACHED:.0%}: the bound is loose, or this audit cannot see it"
    return Finding(TIGHT, ok, words, {"release": release, "share": share})


def _merged(findings: list[Finding]) -> list[Finding]:
    """One finding for each check and release: a failure rather than a success, and the largest share."""
    kept: dict[tuple[str, Any], Finding] = {}
    for finding in sorted(findings, key=lambda one: (one.ok, -one.figures.get("share", 0.0))):
        kept.setdefault((finding.check, finding.figures.get("release")), finding)
    order = {(one.check, one.figures.get("release")): None for one in findings}
    return [kept[key] for key in order]


def search(subject: Subject, *, tries: int) -> list[Finding]:
    """Look for people who are more extreme than given ones, in `tries` replays; for models of ratings only."""
    empty = subject.data(None) if subject.pairs and isinstance(subject.pairs[0][0], dict) else None
    adjacency = subject.make().adjacency
    if not isinstance(empty, Interactions) or adjacency == "flip":
        return []
    rng, low_high = np.random.default_rng(0), empty.value_range or (0.0, 1.0)
    people = [*extremes(empty).values()]
    best: tuple[float, Any] = (-1.0, people[0])
    wrong: list[Finding] = []
    for at in range(tries):
        person = people[at] if at < len(people) else _changed(best[1], empty.n_items, low_high, rng)
        other = _random(empty.n_items, low_high, rng) if adjacency == "replace" else None
        one = subject.replay((person, other))
        wrong += failed(one.findings)
        share = max(one.moved.values(), default=0.0)
        best = max(best, (share, person), key=lambda pair: pair[0])
    words = f"{tries} people, extreme ones and others found from them: the furthest moves a release by {best[0]:.1%}"
    return [*_merged(wrong), Finding(SEARCH, not wrong, words, {"share": best[0]})]


def _random(n_items: int, value_range: tuple[float, float], rng: np.random.Generator) -> dict[int, float]:
    items = rng.choice(n_items, int(rng.integers(1, n_items + 1)), replace=False)
    return {int(item): float(rng.choice(value_range)) for item in items}


def _changed(person: Any, n_items: int, value_range: tuple[float, float], rng: np.random.Generator) -> dict[int, float]:
    """The person with some items added or removed and some ratings changed; or a random person."""
    if rng.random() < 0.25:
        return _random(n_items, value_range, rng)
    changed = {item: rating for item, rating in entries(person) if rng.random() > 0.1}
    for item in rng.choice(n_items, int(rng.integers(1, 5)), replace=False).tolist():
        changed[item] = float(rng.choice(value_range))
    return changed
