"""Replay: fit on neighbouring data with the same noise and the same answers of the door, and compare everything.

With the door's answers frozen, two fits may differ in the statistics before noise, each by at most its declared
sensitivity, and in nothing else: the same releases in the same order, shapes and noise, the same words, and the very
same model, bit for bit, since all that follows the door is post-processing. What everybody else is shown is the same
too: that is the guarantee's joint view.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Protocol

import numpy as np

from discreet.audit.findings import Finding
from discreet.audit.recording import Recording, record
from discreet.data.interactions import Interactions
from discreet.models.base import DERIVED
from discreet.privacy import Cost, Gaussian, Ledger, SampledGaussian
from discreet.privacy.accounting import Selection
from discreet.privacy.statement import Statement
from discreet.typing import Array

FIT, EVENTS, SENSITIVITY, ACCOUNT = "fit", "events", "sensitivity", "account"
OUTPUT, JOINT = "post-processing", "joint view"
ROUNDING = 1e-9  # relative; of float64 sums that are compared with a bound
SCORE = "evaluation"  # how the label of a noisy score begins
SHOWN = 10  # recommendations to each person
PASSING = ("issued", "digest", "signature")  # of a certificate: not the same twice
_ID = re.compile(r"[0-9a-f]{12,}|(?<=\()[0-9a-f]{8}(?=\))")  # random ids


@dataclass(frozen=True)
class Replay:
    """Two fits on neighbouring data.

    Attributes:
        first: The fit that had the door's own answers.
        second: The fit on the neighbour, with the same answers.
        moved: For each release's label, how far one person moved it, as a fraction of its declared sensitivity.
        findings: What was compared.
        secret: The same as `moved` for releases that stay secret, of which only what is made of them is seen.
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
        """How well these neighbours can be told apart by the best test there is, as Gaussian DP (Gaussian noise only).

        Given the answers, the likelihood ratio of all releases together is that of one number with this distance.
        """
        return float(np.sqrt(sum(apart**2 for apart in self._apart())))

    @property
    def share(self) -> float | None:
        """How far apart these neighbours are, all releases together, as a fraction of what the guarantee admits.

        Of mu, or of a pure epsilon, or of the epsilon of releases over secret samples; None where the guarantee is none
        of these, or there is no model.
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
        return sum(self._apart()) / float(guarantee.epsilon) if pure and not guarantee.delta else None

    def _sampled(self, each: Any, count: int) -> float:
        """The epsilon of releases that move, whenever she is in the sample, as far as the least of those that did."""
        pairs = zip(self.first.releases, self.second.releases, strict=True)
        moved = [one.distance(other) / one.sensitivity for one, other in pairs]
        least = min((share for share in moved if share), default=0.0)
        cost = Cost.of(SampledGaussian(each.mu * least, each.probability), count) if least else Cost()
        return cost.epsilon(self.first.model.guarantee_.delta)

    def _apart(self) -> Iterator[float]:
        """For each release the distance, in units of its noise."""
        for one, other in zip(self.first.releases, self.second.releases, strict=False):
            if one.label in self.secret:
                yield self.secret[one.label] * one.sensitivity / one.scale
            else:
                yield one.distance(other) / one.scale


class Fit(Protocol):
    """Fits a model, paid for by a ledger; may return something else that has the guarantee."""

    def __call__(self, model: Any, data: Any, ledger: Ledger) -> Any:
        """What was fitted."""
        ...


def fit_once(model: Any, data: Any, ledger: Ledger) -> Any:
    """The usual way."""
    return model.fit(data, ledger=ledger)


# For releases that stay secret: the answers with which a neighbour's fit comes to the same result, and for each of
# their labels the logarithm of the ratio of densities of these and the first fit's answers, over what is declared.
Couple = Callable[[Recording, Any, Any], tuple[list[Array], dict[str, float]]]


def settings(model: Any) -> dict[str, Any]:
    """The ledger that a model asks for."""
    return {"unit": getattr(model, "unit", "user"), "adjacency": model.adjacency, "delta": model.delta}


def replay(
    make: Callable[[], Any],
    data: Any,
    neighbour: Any,
    *,
    seed: int = 7,
    fit: Fit = fit_once,
    couple: Couple | None = None,
    told: Sequence[Array] = (),
) -> Replay:
    """Fit on both, and compare.

    Args:
        make: Makes the model, unfitted; twice.
        data: What to fit on: Interactions, or whatever the model takes.
        neighbour: The same with one person more, less or changed, as the model's guarantee has it.
        seed: Of the noise.
        fit: How it is fitted, if that is more than one call of `fit`.
        couple: For models with releases that stay secret.
        told: What the door answers to the first releases, if it is not left to chance.
    """
    book = settings(make())
    first = record(lambda ledger: fit(make(), data, ledger), answers=told, seed=seed, **book)
    said, secret = (first.answers, {}) if couple is None or first.error else couple(first, data, neighbour)
    second = record(lambda ledger: fit(make(), neighbour, ledger), answers=said, seed=seed, **book)
    findings = [*_events(first, second)]
    furthest = {**moved(first, second), **secret}
    if len(first.releases) == len(second.releases):
        findings += _sensitivities(furthest)
    if first.model is not None and second.model is not None:
        findings += [*_account(first), _output(first.model, second.model), *_joint(first.model, data, neighbour)]
    return Replay(first, second, furthest, findings, secret)


def moved(first: Recording, second: Recording) -> dict[str, float]:
    """For each label the largest distance of its statistics, as a fraction of the declared sensitivity."""
    found: dict[str, float] = {}
    for one, other in zip(first.releases, second.releases, strict=False):
        if one.statistic.shape == other.statistic.shape:
            found[one.label] = max(found.get(one.label, 0.0), one.distance(other) / one.sensitivity)
    return found


def _events(first: Recording, second: Recording) -> list[Finding]:
    """What can be seen of a fit while it runs must not depend on anybody."""
    seen: dict[str, Callable[[Recording], Any]] = {
        "the releases, in their order": lambda r: r.labels,
        "their shapes": lambda r: [release.statistic.shape for release in r.releases],
        "their declared sensitivities": lambda r: r.sensitivities,
        "their noise": lambda r: [release.noise for release in r.releases],
        "their grids": lambda r: [release.step for release in r.releases],
        "how often noise was drawn": lambda r: len(r.keys),
        "warnings, log lines and progress": lambda r: [_ID.sub("#", words) for words in r.words],
        "what was raised": lambda r: None if r.error is None else (type(r.error), str(r.error)),
    }
    differing = [what for what, of in seen.items() if of(first) != of(second)]
    if differing:
        return [Finding(EVENTS, False, f"one person changes {', '.join(differing)}")]
    if first.error is not None:
        return [Finding(FIT, False, f"the fit failed: {type(first.error).__name__}: {first.error}")]
    return [Finding(EVENTS, True, f"{len(first.releases)} releases: the same with and without one person")]


def _sensitivities(moved: dict[str, float]) -> list[Finding]:
    findings = []
    for label, share in moved.items():
        words = f"one person moves {label!r} by {share:.1%} of its declared sensitivity"
        findings.append(Finding(SENSITIVITY, share <= 1 + ROUNDING, words, {"release": label, "share": share}))
    return findings


def _account(seen: Recording) -> list[Finding]:
    """Every draw of noise belongs to a release that the ledger has, and the guarantee is that of all of them."""
    if seen.elsewhere:
        return [
            Finding(ACCOUNT, False, f"noise is drawn without a ledger, in {', '.join(sorted(set(seen.elsewhere)))}")
        ]
    charged = sum((event.cost for event in seen.events), Cost())
    made = sum((release.noise.cost(release.sensitivity) for release in seen.releases), Cost())
    searches = [event for event, _ in charged.events if isinstance(event, Selection)]
    if len(searches) == 1:
        return [_search(seen, searches[0])]
    sampled = [event for event, _ in charged.events if isinstance(event, SampledGaussian)]
    if len(sampled) == 1:  # releases over secret samples: each must be one that was charged for
        each = sampled[0]
        made = sum((Cost.of(SampledGaussian(_mu(r), each.probability)) for r in seen.releases), Cost())
        if seen.coins != len(seen.releases):
            return [Finding(ACCOUNT, False, "secret samples are charged for, but not drawn for every release")]
    guarantee = seen.model.guarantee_
    spent, told = made.epsilon(guarantee.delta), guarantee.epsilon
    if len(set(seen.keys)) < len(seen.keys):
        return [Finding(ACCOUNT, False, "some noise is drawn twice: two releases have the same key")]
    if not spent <= told * (1 + ROUNDING):
        return [Finding(ACCOUNT, False, f"what was released costs epsilon = {spent:.4g}, and {told:.4g} is declared")]
    return [Finding(ACCOUNT, True, f"every draw of noise is in the ledger, and the guarantee is epsilon = {told:.4g}")]


def _search(seen: Recording, search: Selection) -> Finding:
    """Each trial of a search, which ends with its score, costs no more than what the search was charged for."""
    trials: list[Cost] = [Cost()]
    for release in seen.releases:
        trials[-1] += release.noise.cost(release.sensitivity)
        if release.label.startswith(SCORE):
            trials.append(Cost())
    delta = seen.model.guarantee_.delta
    dearest, paid = max(trial.epsilon(delta) for trial in trials), search.run.epsilon(delta)
    ok = dearest <= paid * (1 + ROUNDING)
    words = f"a trial costs epsilon = {dearest:.4g}, and the search was charged for trials of {paid:.4g}"
    return Finding(ACCOUNT, ok, words)


def _mu(release: Any) -> float:
    return float(release.noise.cost(release.sensitivity).mu)


def _output(first: Any, second: Any) -> Finding:
    """The two models, bit for bit."""
    names = sorted({*vars(first), *vars(second)} - {*DERIVED})
    differing = [name for name in names if not same(vars(first).get(name), vars(second).get(name))]
    if differing:
        return Finding(
            OUTPUT, False, f"given the same answers of the door, {', '.join(differing)} depend on one person"
        )
    return Finding(
        OUTPUT, True, f"given the same answers of the door, the model is the same in all its {len(names)} parts"
    )


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal to the last bit, but for what is not the same twice (times, random ids)."""
    return bool(_content(one) == _content(other))


def _content(value: Any) -> Any:
    """A value in a form that is equal where every bit is."""
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


def _joint(model: Any, data: Any, neighbour: Any) -> list[Finding]:
    """What everybody else is shown, whoever is served beside them."""
    if not isinstance(data, Interactions) or not hasattr(model, "embed"):
        return []
    others = _others(data, neighbour)
    one, other = (_shown(model, table, at) for table, at in zip((data, neighbour), others, strict=True))
    ok = same(one, other)
    words = "what the others are shown is the same, with and without one person beside them"
    return [Finding(JOINT, ok, words if ok else "what others are shown depends on who is served beside them")]


def _shown(model: Any, table: Interactions, at: Array) -> list[Array]:
    """Vectors, recommended items and scores of some of the people who are served together."""
    found = model.recommend(table, n=SHOWN)
    lists = [slice(found.indptr[i], found.indptr[i + 1]) for i in at]
    return [model.embed(table)[at], *(found.numbers[one] for one in lists), *(found.scores[one] for one in lists)]


def _others(data: Interactions, neighbour: Interactions) -> tuple[Array, Array]:
    """The rows of those who are the same in both."""
    rows = [
        {user: (t.indices[a:b].tobytes(), t.values[a:b].tobytes()) for user, a, b in _bounds(t)}
        for t in (data, neighbour)
    ]
    alike = {user for user in rows[0] if rows[0][user] == rows[1].get(user)}
    first, second = (np.array([i for i, user in enumerate(part) if user in alike], np.int64) for part in rows)
    return first, second


def _bounds(table: Interactions) -> Any:
    return zip(table.users.to_list(), table.indptr[:-1].tolist(), table.indptr[1:].tolist(), strict=True)
