"""Replay: fit on neighboring data with the same noise and the same released values, and compare everything.

With the released values frozen, two fits may differ in the statistics before noise, each by at most its declared
sensitivity, and in nothing else. Releases come in the same order, with the same shapes and noise; the words are the
same; and the models are equal bit for bit, since everything after a release is post-processing. What all other users
are shown is also the same: that is the joint view of the guarantee.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from discreet.audit.findings import Finding
from discreet.audit.recording import SEED, Recording, Release, record
from discreet.data.interactions import Interactions
from discreet.models.base import DERIVED
from discreet.privacy import Cost, Gaussian, Ledger, SampledGaussian
from discreet.privacy.guarantee import Selection
from discreet.privacy.statement import Statement
from discreet.typing import Array

FIT, EVENTS, SENSITIVITY, ACCOUNT = "fit", "events", "sensitivity", "account"
OUTPUT, JOINT = "post-processing", "joint view"
ROUNDING = 1e-9  # relative, for costs and densities in float64; statistics are compared exactly
SCORE = "evaluation"  # how the label of a noisy score begins
SHOWN = 10  # recommendations to each user
PASSING = ("issued", "digest", "signature")  # of a certificate: different every time
_ID = re.compile(r"[0-9a-f]{12,}|(?<=\()[0-9a-f]{8}(?=\))")  # random ids

# Fits a model, paid for by a ledger, and returns what has the guarantee.
Fit = Callable[[Any, Any, Ledger], Any]
# For releases that stay secret: the answers with which a neighbor's fit gives the same result, and for each of their
# labels the logarithm of the ratio of densities of these and the first fit's answers, as a share of what is declared.
Couple = Callable[[Recording, Any, Any], tuple[list[Array], dict[str, float]]]


@dataclass(frozen=True)
class Replay:
    """Two fits on neighboring data.

    Attributes:
        first: The fit with released values of its own.
        second: The fit on the neighbor, with the same released values.
        moved: For each label, how far one person moved the release, as a fraction of its declared sensitivity.
        findings: What was compared.
        secret: The same as `moved` for releases that stay secret, where only what is computed from them is visible.
    """

    first: Recording
    second: Recording
    moved: dict[str, float]
    findings: list[Finding]
    secret: dict[str, float] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing differs that must not."""
        return all(finding.ok for finding in self.findings)

    @property
    def mu(self) -> float:
        """How well the best test can tell these neighbors apart, as Gaussian DP (Gaussian noise only).

        Given the released values, the likelihood ratio of all releases is that of one number at this distance.
        """
        return float(np.sqrt(sum(distance**2 for distance in self._distances())))

    @property
    def share(self) -> float | None:
        """How far apart these neighbors are, over all releases, as a fraction of what the guarantee allows.

        A fraction of mu, of a pure epsilon, or of the epsilon of releases over secret samples; None if the guarantee is
        none of these, or there is no model.
        """
        if self.first.model is None or len(self.first.releases) != len(self.second.releases):
            return None
        guarantee = self.first.model.guarantee_
        if guarantee.mu:
            return self.mu / float(guarantee.mu)
        charged = sum((event.cost for event in self.first.events), Cost())
        if [type(event) for event, _ in charged.events] == [SampledGaussian]:
            return self._sampled(*charged.events[0]) / float(guarantee.epsilon)
        pure = not any(isinstance(release.noise, Gaussian) for release in self.first.releases)
        return sum(self._distances()) / float(guarantee.epsilon) if pure and not guarantee.delta else None

    def _sampled(self, each: Any, count: int) -> float:
        """The epsilon of releases that a sampled person moves as far as the least of those that did move."""
        moved = [one.distance(other) / one.sensitivity for one, other in _pairs(self.first, self.second)]
        least = min((share for share in moved if share), default=0.0)
        cost = Cost.of(SampledGaussian(each.mu * least, each.probability), count) if least else Cost()
        return cost.epsilon(self.first.model.guarantee_.delta)

    def _distances(self) -> Iterator[float]:
        """For each release the distance, in units of its noise."""
        for one, other in _pairs(self.first, self.second):
            secret = self.secret.get(one.label)
            yield (one.distance(other) if secret is None else secret * one.sensitivity) / one.scale


def fit_once(model: Any, data: Any, ledger: Ledger) -> Any:
    """One call of `fit`."""
    return model.fit(data, ledger=ledger)


def settings(model: Any) -> dict[str, Any]:
    """The ledger that a model asks for."""
    return {"unit": getattr(model, "unit", "user"), "adjacency": model.adjacency, "delta": model.delta}


def replay(
    make: Callable[[], Any],
    data: Any,
    neighbour: Any,
    *,
    seed: int = SEED,
    fit: Fit = fit_once,
    couple: Couple | None = None,
    told: Sequence[Array] = (),
) -> Replay:
    """Fit on both, and compare.

    Args:
        make: Makes the model, unfitted; called twice.
        data: What to fit on: Interactions, or what the model takes.
        neighbour: The same with one person more, less or changed, according to the model's guarantee.
        seed: Of the noise.
        fit: How the model is fitted, if that is more than one call of `fit`.
        couple: For models with releases that stay secret.
        told: The values of the first releases, if they are not left to chance.
    """
    book = settings(make())
    first = record(lambda ledger: fit(make(), data, ledger), answers=told, seed=seed, **book)
    answers, secret = (first.answers, {}) if couple is None or first.error else couple(first, data, neighbour)
    second = record(lambda ledger: fit(make(), neighbour, ledger), answers=answers, seed=seed, **book)
    findings = [_events(first, second)]
    furthest = {**moved(first, second), **secret}
    if len(first.releases) == len(second.releases):
        too_far = {one.label for one, other in _pairs(first, second) if not one.within_sensitivity(other)} - {*secret}
        too_far |= {label for label, share in secret.items() if share > 1 + ROUNDING}
        findings += [_sensitivity(label, share, label not in too_far) for label, share in furthest.items()]
    if first.model is not None and second.model is not None:
        findings += [_account(first), _output(first.model, second.model), *_joint(first.model, data, neighbour)]
    return Replay(first, second, furthest, findings, secret)


def _pairs(first: Recording, second: Recording) -> list[tuple[Release, Release]]:
    """The releases of two fits, in order, that have the same shape."""
    pairs = zip(first.releases, second.releases, strict=False)
    return [(one, other) for one, other in pairs if one.units.shape == other.units.shape]


def moved(first: Recording, second: Recording) -> dict[str, float]:
    """For each label the largest distance of its statistics, as a fraction of the declared sensitivity."""
    found: dict[str, float] = {}
    for one, other in _pairs(first, second):
        found[one.label] = max(found.get(one.label, 0.0), one.distance(other) / one.sensitivity)
    return found


def _events(first: Recording, second: Recording) -> Finding:
    """What is visible of a fit while it runs must not depend on one person."""
    seen: dict[str, Callable[[Recording], Any]] = {
        "the releases, in their order": lambda r: r.labels,
        "their shapes": lambda r: [release.units.shape for release in r.releases],
        "their declared sensitivities": lambda r: r.sensitivities,
        "their noise": lambda r: [release.noise for release in r.releases],
        "their grids": lambda r: [release.step for release in r.releases],
        "how often noise was drawn": lambda r: len(r.keys),
        "warnings, log lines and progress": lambda r: [_ID.sub("#", words) for words in r.words],
        "what was raised": lambda r: None if r.error is None else (type(r.error), str(r.error)),
    }
    differing = [what for what, of in seen.items() if of(first) != of(second)]
    if differing:
        return Finding(EVENTS, False, f"one person changes {', '.join(differing)}")
    if first.error is not None:
        return Finding(FIT, False, f"the fit failed: {type(first.error).__name__}: {first.error}")
    return Finding(EVENTS, True, f"{len(first.releases)} releases: the same with and without one person")


def _sensitivity(label: str, share: float, ok: bool) -> Finding:
    words = f"one person moves {label!r} by {share:.1%} of its declared sensitivity"
    return Finding(SENSITIVITY, ok, words, {"release": label, "share": share})


def _account(seen: Recording) -> Finding:
    """Every draw of noise belongs to a release that the ledger has, and the guarantee covers all of them."""
    if seen.elsewhere:
        return Finding(ACCOUNT, False, f"noise is drawn without a ledger, in {', '.join(sorted(set(seen.elsewhere)))}")
    charged = sum((event.cost for event in seen.events), Cost())
    searches = [event for event, _ in charged.events if isinstance(event, Selection)]
    if len(searches) == 1:
        return _search(seen, searches[0])
    costs = [release.noise.cost(release.sensitivity) for release in seen.releases]
    sampled = [event for event, _ in charged.events if isinstance(event, SampledGaussian)]
    if len(sampled) == 1:  # releases over secret samples: each must be one that was charged for
        if seen.coins != len(seen.releases):
            return Finding(ACCOUNT, False, "secret samples are charged for, but not drawn for every release")
        costs = [Cost.of(SampledGaussian(float(cost.mu or 0.0), sampled[0].probability)) for cost in costs]
    if len(set(seen.keys)) < len(seen.keys):
        return Finding(ACCOUNT, False, "some noise is drawn twice: two releases have the same key")
    guarantee = seen.model.guarantee_
    spent, told = sum(costs, Cost()).epsilon(guarantee.delta), guarantee.epsilon
    if not spent <= told * (1 + ROUNDING):
        return Finding(ACCOUNT, False, f"what was released costs epsilon = {spent:.4g}, and {told:.4g} is declared")
    return Finding(ACCOUNT, True, f"every draw of noise is in the ledger, and the guarantee is epsilon = {told:.4g}")


def _search(seen: Recording, search: Selection) -> Finding:
    """Each trial of a search, which ends with its score, costs at most what the search was charged for."""
    trials: list[Cost] = [Cost()]
    for release in seen.releases:
        trials[-1] += release.noise.cost(release.sensitivity)
        if release.label.startswith(SCORE):
            trials.append(Cost())
    delta = seen.model.guarantee_.delta
    most, paid = max(trial.epsilon(delta) for trial in trials), search.run.epsilon(delta)
    words = f"a trial costs epsilon = {most:.4g}, and the search was charged for trials of {paid:.4g}"
    return Finding(ACCOUNT, most <= paid * (1 + ROUNDING), words)


def _output(first: Any, second: Any) -> Finding:
    """The two models, bit for bit."""
    names = sorted({*vars(first), *vars(second)} - {*DERIVED})
    differing = [name for name in names if not same(vars(first).get(name), vars(second).get(name))]
    if differing:
        return Finding(OUTPUT, False, f"given the same released values, {', '.join(differing)} depend on one person")
    return Finding(OUTPUT, True, f"given the same released values, all {len(names)} parts of the model are the same")


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal to the last bit, except for what differs every time (times, random ids)."""
    return bool(_content(one) == _content(other))


def _content(value: Any) -> Any:
    """A value in a form that is equal exactly where every bit is."""
    content = value
    if isinstance(value, np.ndarray):
        content = value.shape, str(value.dtype), value.tobytes()
    elif isinstance(value, Statement):
        content = {key: _content(part) for key, part in value.certificate.items() if key not in PASSING}
    elif isinstance(value, float):
        content = value.hex()
    elif isinstance(value, str):
        content = _ID.sub("#", value)
    elif isinstance(value, Mapping):
        content = {key: _content(part) for key, part in value.items()}
    elif isinstance(value, list | tuple):
        content = [_content(part) for part in value]
    elif is_dataclass(value) and not isinstance(value, type):
        content = {one.name: _content(getattr(value, one.name)) for one in fields(value)}
    return type(value), content


def _joint(model: Any, data: Any, neighbor: Any) -> list[Finding]:
    """What all other users are shown, with and without one person served beside them."""
    if not isinstance(data, Interactions) or not hasattr(model, "embed"):
        return []
    tables = data, neighbor
    rows = [_rows(table) for table in tables]
    alike = {user for user, row in rows[0].items() if row == rows[1].get(user)}
    places = [np.array([at for at, user in enumerate(users) if user in alike], np.int64) for users in rows]
    ok = same(*(_shown(model, table, at) for table, at in zip(tables, places, strict=True)))
    words = "what the others are shown is the same, with and without one person beside them"
    return [Finding(JOINT, ok, words if ok else "what others are shown depends on who is served beside them")]


def _rows(table: Interactions) -> dict[Any, tuple[bytes, bytes]]:
    """Each user's items and ratings."""
    rows = zip(table.users.to_list(), pairwise(table.indptr.tolist()), strict=True)
    return {user: (table.indices[a:b].tobytes(), table.values[a:b].tobytes()) for user, (a, b) in rows}


def _shown(model: Any, table: Interactions, at: Array) -> list[Array]:
    """Vectors, recommended items and scores of some of the users who are served together."""
    found = model.recommend(table, n=SHOWN)
    lists = [slice(found.indptr[i], found.indptr[i + 1]) for i in at]
    return [model.embed(table)[at], *(found.numbers[one] for one in lists), *(found.scores[one] for one in lists)]
