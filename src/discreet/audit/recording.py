"""One fit, watched: every statistic before its noise, what was released, and everything that is visible from outside.

With `answers`, the release step returns what it returned in an earlier fit. What then differs between fits on
neighboring data comes from one person: the statistics, by at most their sensitivity, and nothing else.
"""

from __future__ import annotations

import io
import logging
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any
from unittest.mock import patch

import numpy as np

from discreet.data.progress import Bar, _quiet
from discreet.privacy import Cost, Gaussian, GridArray, L2Laplace, Laplace, Ledger, RandomizedResponse
from discreet.privacy.ledger import require_ready
from discreet.privacy.noise import InsecureSeededNoise, Noise, Stream
from discreet.privacy.store import Entry
from discreet.typing import Array

SEED = 7
_epsilon = lru_cache(4096)(Cost.epsilon)  # slow, and asked for the same releases again and again
# Secret random choices that are charged for but add no noise: who is in a sample, how many trials a search makes.
COINS = ("discreet.privacy.selection:poisson_sample", "discreet.privacy.selection:uniform_bits")


@dataclass(frozen=True)
class Release:
    """One release of a statistic."""

    label: str
    units: Array  # the statistic before noise: integers, in units of its grid
    sensitivity: float
    noise: Noise
    step: float  # of its grid
    answer: Array

    @property
    def statistic(self) -> Array:
        """The statistic before noise, as numbers."""
        values: Array = self.units * self.step
        return values

    def _squared_distance(self, other: Release) -> int:
        """In grid units, exactly, and in the norm that the noise is calibrated to."""
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

    @property
    def scale(self) -> float:
        """The scale of the noise: a standard deviation, Laplace's scale, or 1 for randomized response."""
        if isinstance(self.noise, Gaussian):
            return self.noise.std
        return self.noise.scale if isinstance(self.noise, Laplace | L2Laplace) else 1.0


@dataclass
class Recording:
    """What happened in one fit.

    Attributes:
        releases: In order.
        coins: How many secret random choices other than noise were made.
        elsewhere: Where noise was drawn outside a release, as "module:function".
        words: Warnings, log lines, printed text and progress, in order.
        warned: The warnings themselves.
        keys: The keys of all noise.
        model: What the fit returned, or None.
        error: What it raised, or None.
        events: What the ledger has recorded.
    """

    releases: list[Release] = field(default_factory=list)
    coins: int = 0
    elsewhere: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    warned: list[warnings.WarningMessage] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    model: Any = None
    error: Exception | None = None
    events: list[Entry] = field(default_factory=list)

    @property
    def labels(self) -> list[str]:
        """What was released."""
        return [release.label for release in self.releases]

    @property
    def statistics(self) -> list[Array]:
        """Before noise, as numbers."""
        return [release.statistic for release in self.releases]

    @property
    def sensitivities(self) -> list[float]:
        """As declared."""
        return [release.sensitivity for release in self.releases]

    @property
    def stds(self) -> list[float]:
        """The scales of the noise."""
        return [release.scale for release in self.releases]

    @property
    def answers(self) -> list[Array]:
        """What was made public."""
        return [release.answer for release in self.releases]


class _Keys(InsecureSeededNoise):
    """Seeded noise that remembers its keys."""

    def __init__(self, seed: int, keys: list[bytes]) -> None:
        super().__init__(seed)
        self._keys = keys

    def fresh_key(self) -> bytes:
        """The next key, noted."""
        self._keys.append(super().fresh_key())
        return self._keys[-1]


class _Lines(logging.Handler):
    def __init__(self, words: list[str]) -> None:
        super().__init__(logging.DEBUG)
        self._words = words

    def emit(self, record: logging.LogRecord) -> None:
        self._words.append(f"log: {record.getMessage()}")


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
    """Note every release, and noise that is drawn outside one; return `answers` for the first releases."""
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
        at = len(recording.releases)
        if at < len(answers) and answers[at].shape == answer.shape:
            answer = np.array(answers[at])
        mechanism = noise if isinstance(noise, Noise) else Gaussian(noise)
        recording.releases.append(Release(label, units, sensitivity, mechanism, on_grid.grid.step, np.array(answer)))
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
    """Note everything that a fit prints, logs, warns of or shows as progress."""
    words, advance, printed = recording.words, Bar.advance, io.StringIO()

    def advanced(self: Bar, amount: float, doing: str = "") -> None:
        if not _quiet.get():
            words.append(f"progress: {amount!r} {doing}")
        advance(self, amount, doing)

    logger, handler = logging.getLogger("discreet"), _Lines(words)
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


def record(
    fit: Callable[[Ledger], Any], *, answers: Sequence[Array] | None = None, seed: int = SEED, **ledger: Any
) -> Recording:
    """Fit once, with seeded noise.

    Args:
        fit: Fits a model with the ledger that it is given, and returns the model.
        answers: Of an earlier recording: the release step returns these again.
        seed: Of the noise.
        ledger: Settings of the ledger.
    """
    require_ready()  # which draws noise once in each process, and is no part of a fit
    recording = Recording()
    book = Ledger(noise_source=_Keys(seed, recording.keys), **ledger)
    with _releases(recording, answers or ()), _words(recording):
        try:
            recording.model = fit(book)
        except Exception as error:  # any error: that it happened is visible from outside
            recording.error = error
    recording.events = book.events
    return recording
