"""`discreet.audit.run`: an audit of a model, of all models of the library, or of the audit itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np

from discreet.audit import attacks, subjects
from discreet.audit.canaries import end_to_end, one_run
from discreet.audit.findings import Alarms, Finding, failed
from discreet.audit.neighbors import Row
from discreet.audit.report import Report
from discreet.audit.samplers import mechanisms, streams
from discreet.audit.searching import designed, search
from discreet.audit.subjects import Subject
from discreet.audit.tainting import taint
from discreet.audit.zoo import MUTANTS, Caught, Mutant
from discreet.data.progress import Bar
from discreet.data.synthetic import movielens_like
from discreet.errors import DataError
from discreet.models.private import PrivateModel
from discreet.privacy.keystream import InsecureSeededNoise

Effort = Literal["quick", "full"]

DRAWS, SEED = 100_000, 11  # of each kind of noise
TRIES = 40  # people that a full audit searches through
FEW_RUNS = 24  # fits with and without a person who is not the worst case of all releases at once
CANARIES = 200
WORST = 0.93  # of the claim: what a pair must reach for whole fits to show 0.9 of it


def run(
    model: Any = None, *, effort: Effort = "quick", zoo: bool = False, attack: bool = False, everything: bool = False
) -> Report:
    """Audit a model: what can one person change in what it releases, says, learns and shows to others?

    The model is fitted many times, on synthetic data. No budget is spent.

    Args:
        model: A private model, fitted or not, or its name; for other models on the base of private models, with
            designed people too, a `discreet.audit.Subject`. None: see `everything`.
        effort: "quick", some seconds for each model; or "full", with a search for people who break a bound, and whole
            fits end to end: minutes.
        zoo: Try the broken mechanisms too: does this audit catch them?
        attack: Run attacks from the literature against private and other models, as a demonstration.
        everything: Audit all private models of the library.
    """
    chosen = [*(subjects.shipped().values() if everything else [] if model is None else _subjects(model))]
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
        shipped = subjects.shipped() if mutants else {}
        for mutant in mutants:
            caught.append(catch(mutant, shipped))
            bar.advance(1, mutant.name)
        for attacker in attackers:
            achieved += attacker()
            bar.advance(1, attacker.__name__)
    return Report(found, caught, achieved)


def _subjects(model: Any) -> Iterable[Subject]:
    """The subjects designed for a model's class, and one for the model as it is."""
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
    own = [] if model.adjacency == "flip" else [subjects.of(model)]
    mine = [subject for subject in shipped if type(subject.make()) is type(model)]
    return [*own, *(subject for subject in mine if subject.make().adjacency == model.adjacency)]


def audit(subject: Subject, effort: Effort = "quick", alarms: Alarms | None = None) -> list[Finding]:
    """All checks of one subject; by default as a run with its own budget for false alarms."""
    alarms, tried = alarms or Alarms(), designed(subject)
    findings = list(tried.findings)
    first = next((one.first for one in tried.replays if one.first.model is not None), None)
    if first is not None:
        findings += mechanisms(first, draws=DRAWS, source=InsecureSeededNoise(SEED), alarms=alarms)
    findings += [streams(), *taint(subject, subject.world(subject.pairs[0][0]))]
    if effort == "quick" or failed(findings):
        return findings
    findings += search(subject, tries=TRIES)
    if not subject.open:
        return findings
    best = max(range(len(tried.replays)), key=lambda at: tried.shares[at])
    # Many fits pay off only for a pair that is nearly the worst case of all releases at once.
    worst = tried.shares[best] >= WORST
    runs = subject.runs if worst else FEW_RUNS
    return [*findings, end_to_end(subject, subject.pairs[best], runs=runs, alarms=alarms, worst=worst)]


def catch(mutant: Mutant, shipped: dict[str, Subject] | None = None) -> Caught:
    """Audit a mutant as any model is audited."""
    subject = mutant.on((shipped or subjects.shipped())[mutant.subject])
    with mutant.patch():
        return Caught(mutant, audit(subject))


def _one_run(alarms: Alarms) -> Finding:
    """Among a million ratings, as in MovieLens 1M: canaries with two items each that no other canary has."""
    from discreet.models.spectral import DPSVD

    crowd = movielens_like(25_000, 400, 1_000_000, random_state=0)
    items = np.random.default_rng(0).permutation(crowd.n_items)[: 2 * CANARIES].reshape(-1, 2).tolist()
    people: list[Row] = [{crowd.items[one]: 5.0, crowd.items[other]: 0.5} for one, other in items]
    return one_run(lambda: DPSVD(epsilon=30.0, delta=1e-6, n_jobs=1), crowd, people, alarms=alarms)[0]
