"""Replay: fit on neighboring data with the same noise and the same released values, and compare everything.

`record` watches one fit: every statistic before its noise, every released value, and all that is visible from outside.
`replay` records two. In the second, every release returns the value of the first. The fits may then differ only in the
statistics before noise, each by at most its declared sensitivity. Releases come in the same order, with the same shapes
and noise; messages are the same; and the models are equal bit for bit, since everything after a release is
post-processing. All other users are also shown the same: that is the joint view of the guarantee.
"""

from __future__ import annotations

import io
import logging
import math
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, fields, is_dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.special import log_ndtr

from discreet.audit.report import Finding
from discreet.data.interactions import Interactions
from discreet.models.base import DERIVED
from discreet.parallel import Bar, _quiet
from discreet.privacy import (
    Cost,
    Gaussian,
    Grid,
    GridArray,
    L2Laplace,
    Laplace,
    Ledger,
    RandomizedResponse,
    SampledGaussian,
    Threshold,
)
from discreet.privacy.guarantee import Selection
from discreet.privacy.ledger import require_ready
from discreet.privacy.noise import InsecureSeededNoise, Noise, Stream
from discreet.privacy.statement import Statement
from discreet.privacy.store import Entry
from discreet.typing import Array

FIT, EVENTS, SENSITIVITY, ACCOUNT = "fit", "events", "sensitivity", "account"
OUTPUT, JOINT, THRESHOLD = "post-processing", "joint view", "threshold"
ROUNDING = 1e-9  # relative, for costs and densities in float64; statistics are compared exactly
SCORE = "evaluation"  # how the label of a noisy score begins
SHOWN = 10  # recommendations to each user
# Secret random choices that are charged for but add no noise: who is in a sample, how many trials a search makes
COINS = ("discreet.privacy.selection:poisson_sample", "discreet.privacy.selection:uniform_bits")
PASSING = ("issued", "digest", "signature")  # fields of a certificate that differ every time
_ID = re.compile(r"[0-9a-f]{12,}|(?<=\()[0-9a-f]{8}(?=\))")  # random ids
_epsilon = lru_cache(4096)(Cost.epsilon)  # slow, and computed for the same releases again and again

# Fits a model, paid for by a ledger, and returns the result that has the guarantee
Fit = Callable[[Any, Any, Ledger], Any]


# One fit, watched


@dataclass(frozen=True)
class Release:
    """One release of a statistic."""

    label: str
    units: Array  # the statistic before noise: integers, in units of its grid
    sensitivity: float
    noise: Noise
    step: float  # of its grid
    answer: Array
    threshold: Threshold | None = None  # that entries must pass to become public

    @property
    def statistic(self) -> Array:
        """The statistic before noise, in its own units."""
        values: Array = self.units * self.step
        return values

    @property
    def scale(self) -> float:
        """The scale of the noise: a standard deviation, Laplace's scale, or 1 / epsilon of one bit that is flipped."""
        if isinstance(self.noise, Gaussian):
            return self.noise.std
        return self.noise.scale if isinstance(self.noise, Laplace | L2Laplace) else 1 / self.noise.bit_epsilon

    @property
    def cost(self) -> Cost:
        """What it costs, by its noise and its threshold."""
        cost = self.noise.cost(self.sensitivity)
        return cost if self.threshold is None else cost + self.threshold.cost

    def passing(self, other: Release) -> float:
        """The probability that an entry passes the threshold if only one of the two data sets has it."""
        assert self.threshold is not None
        std, least = self.scale / self.step, self.threshold.units(self.scale, Grid(round(math.log2(self.step))))
        own = (one.units[(one.units > 0) & (two.units <= 0)] for one, two in ((self, other), (other, self)))
        return max(float(-np.expm1(log_ndtr((least - 0.5 - units) / std).sum())) for units in own)

    def _squared_distance(self, other: Release) -> int:
        """In grid units, exact, in the norm that the noise is calibrated to."""
        if isinstance(self.noise, RandomizedResponse):
            return int(np.count_nonzero((self.units > 0) != (other.units > 0))) ** 2
        apart = (self.units - other.units).ravel()
        units = apart[apart != 0].tolist()
        return sum(map(abs, units)) ** 2 if isinstance(self.noise, Laplace) else sum(unit * unit for unit in units)

    def distance(self, other: Release) -> float:
        """How far the statistic is from another, in the norm that the noise is calibrated to."""
        return math.sqrt(self._squared_distance(other)) * self.step

    def within_sensitivity(self, other: Release) -> bool:
        """Whether the two statistics differ by at most the declared sensitivity, compared without rounding."""
        return self._squared_distance(other) * Fraction(self.step) ** 2 <= Fraction(self.sensitivity) ** 2


@dataclass
class Recording:
    """One fit: the releases in order, and all that is visible from outside."""

    releases: list[Release] = field(default_factory=list)
    coins: int = 0  # how many secret random choices other than noise were made
    elsewhere: list[str] = field(default_factory=list)  # where noise was drawn outside a release: "module:function"
    words: list[str] = field(default_factory=list)  # warnings, log lines, progress and printed text
    warned: list[warnings.WarningMessage] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)  # of all noise
    model: Any = None  # what the fit returned
    error: Exception | None = None  # what it raised
    events: list[Entry] = field(default_factory=list)  # from the ledger

    labels = property(lambda self: [release.label for release in self.releases])
    statistics = property(lambda self: [release.statistic for release in self.releases])
    sensitivities = property(lambda self: [release.sensitivity for release in self.releases])
    stds = property(lambda self: [release.scale for release in self.releases])
    answers = property(lambda self: [release.answer for release in self.releases])

    @property
    def charged(self) -> Cost:
        """The total that the ledger charged."""
        return sum((event.cost for event in self.events), Cost())


class _Keys(InsecureSeededNoise):
    """Seeded noise that records its keys."""

    def __init__(self, seed: int, keys: list[bytes]) -> None:
        super().__init__(seed)
        self._keys = keys

    def fresh_key(self) -> bytes:
        self._keys.append(super().fresh_key())
        return self._keys[-1]


def _caller() -> str:
    """The innermost running function of the library's models, or of `COINS`, as "module:function"."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        name = frame.f_globals.get("__name__", "")
        place = f"{name}:{frame.f_code.co_name}"
        if place in COINS or (name.startswith("discreet.") and not name.startswith(("discreet.privacy", __name__))):
            return place
    return "elsewhere"


@contextmanager
def _releases(recording: Recording, answers: Sequence[Array]) -> Iterator[None]:
    """Record every release, and noise that is drawn outside one; return `answers` for the first releases."""
    release, stream, inside = Ledger._release, Stream.__init__, [False]

    def noted(self: Ledger, *given: Any, **options: Any) -> Array:
        statistic, sensitivity, noise, label = given[:4]
        on_grid = GridArray.of(statistic)
        units = np.array(on_grid.values)  # a copy: the noise may be added in place
        inside[0] = True
        try:
            answer = release(self, *given, **options)
        finally:
            inside[0] = False
        at, threshold = len(recording.releases), options.get("threshold")
        if at < len(answers) and (answers[at].shape == answer.shape or threshold is not None):
            answer = np.array(answers[at])
        mechanism = noise if isinstance(noise, Noise) else Gaussian(noise)
        seen = Release(label, units, sensitivity, mechanism, on_grid.grid.step, np.array(answer), threshold)
        recording.releases.append(seen)
        return answer

    def begun(self: Stream, key: bytes, number: int = 0) -> None:
        if not inside[0]:
            caller = _caller()
            recording.coins += caller in COINS
            recording.elsewhere += [] if caller in COINS else [caller]
        stream(self, key, number)

    with (
        patch.object(Ledger, "_release", noted),
        patch.object(Stream, "__init__", begun),
        patch.object(Cost, "epsilon", _epsilon),
    ):
        yield


@contextmanager
def _words(recording: Recording) -> Iterator[None]:
    """Record everything that a fit prints, logs, warns about or shows as progress."""
    words, advance, printed = recording.words, Bar.advance, io.StringIO()

    def advanced(self: Bar, amount: float, doing: str = "") -> None:
        if not _quiet.get():
            words.append(f"progress: {amount!r} {doing}")
        advance(self, amount, doing)

    logger, handler = logging.getLogger("discreet"), logging.Handler(logging.DEBUG)
    handler.emit = lambda record: words.append(f"log: {record.getMessage()}")  # type: ignore[method-assign]
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        with (
            redirect_stdout(printed),
            warnings.catch_warnings(record=True) as recording.warned,
            patch.object(Bar, "advance", advanced),
        ):
            warnings.simplefilter("always")
            yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        words += [f"warning: {warning.message}" for warning in recording.warned]
        words += [f"printed: {printed.getvalue()}"] if printed.getvalue() else []


def record(fit: Callable[[Ledger], Any], *, answers: Sequence[Array] = (), seed: int = 7, **ledger: Any) -> Recording:
    """Fit once, with seeded noise.

    Args:
        fit: Fits a model with the given ledger, and returns the model.
        answers: From an earlier recording: releases return these again.
        seed: Of the noise.
        ledger: Settings of the ledger.
    """
    require_ready()  # draws noise once in each process, which is not part of a fit
    recording = Recording()
    book = Ledger(noise_source=_Keys(seed, recording.keys), **ledger)
    with _releases(recording, answers), _words(recording):
        try:
            recording.model = fit(book)
        except Exception as error:  # any error is visible from outside
            recording.error = error
    recording.events = book.events
    return recording


def fit_once(model: Any, data: Any, ledger: Ledger) -> Any:
    """One call of `fit`."""
    return model.fit(data, ledger=ledger)


def fitted(make: Callable[[], Any], data: Any, fit: Fit = fit_once, **given: Any) -> Recording:
    """Make a model and record its fit, with a ledger that suits it; `given` is for `record`."""
    model = make()
    ledger = {"unit": getattr(model, "unit", "user"), "adjacency": model.adjacency, "delta": model.delta}
    return record(lambda book: fit(model, data, book), **given, **ledger)


# Two fits, compared


@dataclass(frozen=True)
class Replay:
    """Two fits on neighboring data."""

    first: Recording  # with its own released values
    second: Recording  # on the neighbor, with the same released values
    moved: dict[str, float]  # how far one person moved each label, as a fraction of its declared sensitivity
    findings: list[Finding]  # the results of the comparison

    @property
    def ok(self) -> bool:
        """Whether nothing differs that must not."""
        return all(finding.ok for finding in self.findings)

    @property
    def mu(self) -> float:
        """How well the best test can distinguish these neighbors, as Gaussian DP (Gaussian noise only).

        Given the released values, the likelihood ratio of all releases is that of one number at this distance.
        """
        return float(np.sqrt(sum(distance**2 for distance in self._distances)))

    @cached_property
    def share(self) -> float | None:
        """How far apart these neighbors are, over all releases, as a fraction of what the guarantee allows.

        A fraction of mu, of a pure epsilon, or of the epsilon of releases over secret samples; None if the guarantee is
        of another kind, or there is no model.
        """
        if self.first.model is None or len(self.first.releases) != len(self.second.releases):
            return None
        guarantee, charged = self.first.model.guarantee_, self.first.charged.noise.events
        if guarantee.cost.noise.mu:
            return self.mu / float(guarantee.cost.noise.mu)
        each, count = charged[0] if len(charged) == 1 else (None, 0)
        if isinstance(each, SampledGaussian):
            # Every release that a sampled person moves counts as moved by the smallest share.
            shares = [one.distance(other) / one.sensitivity for one, other in _pairs(self.first, self.second)]
            least = min((share for share in shares if share), default=0.0)
            cost = Cost.of(SampledGaussian(each.mu * least, each.probability), count) if least else Cost()
            return cost.epsilon(guarantee.delta) / float(guarantee.epsilon)
        pure = not any(isinstance(release.noise, Gaussian) for release in self.first.releases)
        return sum(self._distances) / float(guarantee.epsilon) if pure and not guarantee.delta else None

    @property
    def _distances(self) -> list[float]:
        """For each release the distance, in units of its noise."""
        return [one.distance(other) / one.scale for one, other in _pairs(self.first, self.second)]


def replay(make: Callable[[], Any], data: Any, neighbor: Any, *, seed: int = 7, fit: Fit = fit_once) -> Replay:
    """Fit on both, and compare.

    Args:
        make: Makes the model, unfitted; called twice.
        data: Interactions, or anything else that the model can be fitted on.
        neighbor: The same with one person added, removed or changed, according to the model's guarantee.
        seed: Of the noise.
        fit: How the model is fitted, if not by one call of `fit`.
    """
    first = fitted(make, data, fit, seed=seed)
    second = fitted(make, neighbor, fit, answers=first.answers, seed=seed)
    findings, furthest = [_events(first, second)], moved(first, second)
    if len(first.releases) == len(second.releases):
        too_far = {one.label for one, other in _pairs(first, second) if not one.within_sensitivity(other)}
        for label, share in furthest.items():
            words = f"one person moves {label!r} by {share:.1%} of its declared sensitivity"
            figures = {"release": label, "share": share}
            findings.append(Finding(SENSITIVITY, label not in too_far, words, figures))
        findings += [_exposed(one, other) for one, other in _pairs(first, second) if one.threshold is not None]
    if first.model is not None and second.model is not None:
        findings += [_account(first), _output(first.model, second.model), *_joint(first.model, data, neighbor)]
    return Replay(first, second, furthest, findings)


def _pairs(first: Recording, second: Recording) -> list[tuple[Release, Release]]:
    """The releases of two fits, in order, where shapes agree."""
    pairs = zip(first.releases, second.releases, strict=False)
    return [(one, other) for one, other in pairs if one.units.shape == other.units.shape]


def moved(first: Recording, second: Recording) -> dict[str, float]:
    """For each label the largest distance of its statistics, as a fraction of the declared sensitivity."""
    found: dict[str, float] = {}
    for one, other in _pairs(first, second):
        found[one.label] = max(found.get(one.label, 0.0), one.distance(other) / one.sensitivity)
    return found


def _exposed(one: Release, other: Release) -> Finding:
    """What only one person has must not pass a threshold more often than it is charged for."""
    assert one.threshold is not None
    chance, most = one.passing(other), one.threshold.delta
    words = f"what one person alone has passes the threshold of {one.label!r} with probability {chance:.3g}"
    figures = {"release": one.label, "probability": chance, "delta": most}
    return Finding(THRESHOLD, chance <= most * (1 + ROUNDING), f"{words}, of {most:.3g} charged for", figures)


def _events(first: Recording, second: Recording) -> Finding:
    """Whatever is visible of a fit while it runs must not depend on one person."""
    seen: dict[str, Callable[[Recording], Any]] = {
        "the releases or their order": lambda r: r.labels,
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
    return Finding(EVENTS, True, f"the same releases, {len(first.releases)}, with and without one person")


def _account(seen: Recording) -> Finding:
    """Every draw of noise must belong to a release in the ledger, and the guarantee must cover all of them."""
    if seen.elsewhere:
        return Finding(ACCOUNT, False, f"noise is drawn without a ledger, in {', '.join(sorted(set(seen.elsewhere)))}")
    searches = [event for event, _ in seen.charged.events if isinstance(event, Selection)]
    sampled = [event for event, _ in seen.charged.events if isinstance(event, SampledGaussian)]
    if len(searches) == 1:
        return _search(seen, searches[0])
    costs = [release.cost for release in seen.releases]
    if len(sampled) == 1:  # releases over secret samples: each must be one that was charged for
        if seen.coins != len(seen.releases):
            return Finding(ACCOUNT, False, "secret samples are charged for but not drawn for every release")
        costs = [Cost.of(SampledGaussian(float(cost.mu or 0.0), sampled[0].probability)) for cost in costs]
    if len(set(seen.keys)) < len(seen.keys):
        return Finding(ACCOUNT, False, "some noise is drawn twice: two releases have the same key")
    guarantee = seen.model.guarantee_
    spent, told = sum(costs, Cost()).epsilon(guarantee.delta), guarantee.epsilon
    if not spent <= told * (1 + ROUNDING):
        return Finding(ACCOUNT, False, f"the releases cost epsilon = {spent:.4g}, but {told:.4g} is declared")
    return Finding(ACCOUNT, True, f"every draw of noise is in the ledger, and the guarantee is epsilon = {told:.4g}")


def _search(seen: Recording, search: Selection) -> Finding:
    """Each trial of a search, which ends with its score, must cost at most what the search was charged for."""
    trials: list[Cost] = [Cost()]
    for release in seen.releases:
        trials[-1] += release.cost
        if release.label.startswith(SCORE):
            trials.append(Cost())
    delta = seen.model.guarantee_.delta
    most, paid = max(trial.epsilon(delta) for trial in trials), search.run.epsilon(delta)
    words = f"a trial costs epsilon = {most:.4g}; the search was charged for trials of {paid:.4g}"
    return Finding(ACCOUNT, most <= paid * (1 + ROUNDING), words)


def _output(first: Any, second: Any) -> Finding:
    """The two models, bit for bit."""
    names = sorted({*vars(first), *vars(second)} - {*DERIVED})
    differing = [name for name in names if not same(vars(first).get(name), vars(second).get(name))]
    if differing:
        return Finding(OUTPUT, False, f"given the same released values, {', '.join(differing)} depend on one person")
    return Finding(OUTPUT, True, f"given the same released values, all {len(names)} parts of the model are the same")


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal to the last bit, except for times and random ids."""
    return bool(_content(one) == _content(other))


def _content(value: Any) -> Any:
    """A value in a form that is equal only if every bit is."""
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
    """What all other users are shown, with and without one person among them."""
    if not isinstance(data, Interactions) or not hasattr(model, "embed"):
        return []
    histories = [
        {
            user: (table.indices[a:b].tobytes(), table.values[a:b].tobytes())
            for user, (a, b) in zip(table.users.to_list(), pairwise(table.indptr.tolist()), strict=True)
        }
        for table in (data, neighbor)
    ]
    others = {user for user, history in histories[0].items() if history == histories[1].get(user)}

    def shown(table: Interactions) -> list[Array]:
        """Vectors, recommended items and scores of the others, served with all users of the table."""
        at = np.array([at for at, user in enumerate(table.users.to_list()) if user in others], np.int64)
        found = model.recommend(table, n=SHOWN)
        lists = [slice(found.indptr[i], found.indptr[i + 1]) for i in at]
        return [model.embed(table)[at], *(part[one] for part in (found.numbers, found.scores) for one in lists)]

    ok = same(shown(data), shown(neighbor))
    words = "the others are shown the same, with and without one person among them"
    return [Finding(JOINT, ok, words if ok else "what others are shown depends on who else is served")]
