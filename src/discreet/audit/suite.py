"""`discreet.audit.run`: an audit of a model, or of everything that the library ships."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np

from discreet.audit import attacks, subjects
from discreet.audit.canaries import end_to_end, one_run
from discreet.audit.findings import Alarms, Finding, failed
from discreet.audit.neighbors import Row
from discreet.audit.quick import quick
from discreet.audit.report import Report
from discreet.audit.searching import designed, search
from discreet.audit.subjects import Subject
from discreet.audit.zoo import MUTANTS
from discreet.audit.zoo import zoo as try_zoo
from discreet.data.movielens_like import movielens_like
from discreet.data.progress import Bar
from discreet.errors import DataError
from discreet.models.private import PrivateModel

Effort = Literal["quick", "full"]

TRIES = {"quick": 0, "full": 40}  # people that are searched through
FEW_RUNS = 24  # fits in each of two worlds, end to end, with somebody who is not the worst for all releases at once
CANARIES = 200
WORST = 0.93  # of the claim: what one pair must make up for whole fits to show 0.9 of it


def run(
    model: Any = None, *, effort: Effort = "quick", zoo: bool = False, attack: bool = False, everything: bool = False
) -> Report:
    """Audit a model: what can one person change in what it releases, says, learns and shows to others?

    It is fitted on made-up data, many times; nothing is spent of anybody's budget.

    Args:
        model: A private model, fitted or not, or its name; for other models on the base of private models, with
            designed people too, a `discreet.audit.Subject`. None: see `everything`.
        effort: "quick", some seconds for each model; or "full", with a search for people who break a bound, and whole
            fits end to end: minutes.
        zoo: Try the broken mechanisms, too: does this audit catch them?
        attack: Run attacks of the literature against private models and others, for people to see.
        everything: Audit all private models that the library ships.
    """
    chosen = subjects.shipped().values() if everything else [] if model is None else _subjects(model)
    chosen = list(chosen)
    total = len(chosen) + (len(MUTANTS) if zoo else 0) + 2 * attack
    found: dict[str, list[Finding]] = {}
    alarms = Alarms()
    with Bar("audit", total, "checked") as bar:
        for subject in chosen:
            found[subject.name] = audit(subject, effort, alarms)
            bar.advance(1, subject.name)
        if effort == "full" and chosen:
            found["one run, DPSVD"] = [_one_run(alarms)]
        caught = try_zoo(done=lambda name: bar.advance(1, name)) if zoo else []
        achieved: list[attacks.Success] = []
        for one in (attacks.membership, attacks.reconstruction) if attack else ():
            achieved += one()
            bar.advance(1, one.__name__)
    return Report(found, caught, achieved)


def _subjects(model: Any) -> Iterable[Subject]:
    """The subjects that were designed for a model's class, and one for the model as it is."""
    if isinstance(model, Subject):
        return [model]
    shipped = subjects.shipped().values()
    if isinstance(model, str):
        named = [subject for subject in shipped if type(subject.make()).__name__.lower() == model.lower()]
        if not named:
            known = dict.fromkeys(type(subject.make()).__name__ for subject in shipped)
            raise DataError(f"model: there is no private model {model!r}; there are {', '.join(known)}")
        return named
    if not isinstance(model, PrivateModel):
        raise DataError(f"model: {type(model).__name__} is not private, so there is no guarantee to audit")
    mine = [subject for subject in shipped if type(subject.make()) is type(model)]
    own = [] if model.adjacency == "flip" else [subjects.of(model)]
    return [*own, *(subject for subject in mine if subject.make().adjacency == model.adjacency)]


def audit(subject: Subject, effort: Effort, alarms: Alarms) -> list[Finding]:
    """All checks of one subject."""
    tried = designed(subject)
    findings = quick(subject, alarms=alarms, tried=tried)
    if effort == "quick" or failed(findings):
        return findings
    findings += search(subject, tries=TRIES[effort])
    if not subject.open:
        return findings
    best = max(range(len(tried.replays)), key=lambda at: tried.shares[at])
    # Many fits only for somebody who is the worst for all releases at once, as far as anybody can be.
    worst = tried.shares[best] >= WORST
    runs = subject.runs if worst else FEW_RUNS
    return [*findings, end_to_end(subject, subject.pairs[best], runs=runs, alarms=alarms, worst=worst)]


def _one_run(alarms: Alarms) -> Finding:
    """Among a million ratings, as in MovieLens 1M: canaries with two items each that no other canary has."""
    from discreet.models.spectral import DPSVD

    crowd = movielens_like(25_000, 400, 1_000_000, random_state=0)
    items = np.random.default_rng(0).permutation(crowd.n_items)[: 2 * CANARIES].reshape(-1, 2).tolist()
    people: list[Row] = [{crowd.items[one]: 5.0, crowd.items[other]: 0.5} for one, other in items]
    return one_run(lambda: DPSVD(epsilon=30.0, delta=1e-6, n_jobs=1), crowd, people, alarms=alarms)[0]
