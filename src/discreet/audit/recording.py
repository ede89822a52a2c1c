"""One fit, watched: every statistic before its noise, what the door answered, and all that could be seen from outside.

With `answers`, the door says what it said in an earlier fit. Whatever then differs between fits on neighbouring data is
one person's doing: the statistics, by no more than their sensitivity, and nothing else at all.
"""

from __future__ import annotations

import io
import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from discreet.audit.patching import patched
from discreet.data.progress import Bar, _quiet
from discreet.privacy import Cost, Gaussian, GridArray, L2Laplace, Laplace, Ledger, RandomizedResponse
from discreet.privacy.keystream import InsecureSeededNoise, Stream
from discreet.privacy.noise import Noise
from discreet.privacy.readiness import require_ready
from discreet.privacy.store import Entry
from discreet.typing import Array

SEED = 7
_epsilon = lru_cache(4096)(Cost.epsilon)  # the same for the same releases, and dear to compute
# Secret chances that are charged for, and no noise: who is in a sample, how many trials a search makes, and of what.
COINS = ("discreet.privacy.poisson:poisson_sample", "discreet.privacy.selection:uniform_bits")


@dataclass(frozen=True)
class Release:
    """One statistic on its way through the door."""

    label: str
    statistic: Array  # in its own units, before noise
    sensitivity: float
    noise: Noise
    step: float  # of its grid
    answer: Array

    def distance(self, other: Release) -> float:
        """How far the statistic is from another, in the norm that the noise is for."""
        if isinstance(self.noise, RandomizedResponse):
            return float(np.count_nonzero((self.statistic > 0) != (other.statistic > 0)))
        apart = (self.statistic - other.statistic).ravel()
        return float(np.abs(apart).sum() if isinstance(self.noise, Laplace) else np.linalg.norm(apart))

    @property
    def scale(self) -> float:
        """Of its noise: a standard deviation, Laplace's scale, or 1 for coins."""
        if isinstance(self.noise, Gaussian):
            return self.noise.std
        return self.noise.scale if isinstance(self.noise, Laplace | L2Laplace) else 1.0


@dataclass
class Recording:
    """What happened in one fit.

    Attributes:
        releases: In order.
        coins: How often such a chance was drawn.
        elsewhere: Where noise was drawn that no release asked for, as "module:function".
        words: Warnings, log lines, what was printed, and progress that was shown, in order.
        warned: The warnings themselves.
        keys: Of all noise.
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
        """Before noise, in their own units."""
        return [release.statistic for release in self.releases]

    @property
    def sensitivities(self) -> list[float]:
        """As declared."""
        return [release.sensitivity for release in self.releases]

    @property
    def stds(self) -> list[float]:
        """Of the noise."""
        return [release.scale for release in self.releases]

    @property
    def answers(self) -> list[Array]:
        """What the door said."""
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
        if record.name.startswith("discreet"):
            self._words.append(f"log: {record.getMessage()}")


def _caller() -> str:
    """The innermost function of the library's models, or of `COINS`, that is running, as "module:function"."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        name = frame.f_globals.get("__name__", "")
        place = f"{name}:{frame.f_code.co_name}"
        if place in COINS or (name.startswith("discreet.") and not name.startswith(("discreet.privacy", __name__))):
            return place
    return "elsewhere"


def _cached(self: Cost, delta: float) -> float:
    return _epsilon(self, delta)


@contextmanager
def _door(recording: Recording, answers: Sequence[Array] | None) -> Iterator[None]:
    """Note what passes the door, and noise that is drawn beside it; with `answers`, say those."""
    release, stream, inside = Ledger._release, Stream.__init__, [False]

    def noted(self: Ledger, *given: Any, **options: Any) -> Array:
        statistic, sensitivity, noise, label = given[:4]
        on_grid = GridArray.of(statistic)
        values = np.array(on_grid.values * on_grid.grid.step)  # whose place what is released may take
        inside[0] = True
        try:
            answer = release(self, *given, **options)
        finally:
            inside[0] = False
        at = len(recording.releases)
        if answers is not None and at < len(answers) and answers[at].shape == answer.shape:
            answer = np.array(answers[at])
        mechanism = noise if isinstance(noise, Noise) else Gaussian(noise)
        recording.releases.append(Release(label, values, sensitivity, mechanism, on_grid.grid.step, np.array(answer)))
        return answer

    def begun(self: Stream, key: bytes, number: int = 0) -> None:
        if not inside[0]:
            caller = _caller()
            recording.coins += caller in COINS
            recording.elsewhere += [] if caller in COINS else [caller]
        stream(self, key, number)

    with patched(Ledger, _release=noted), patched(Stream, __init__=begun), patched(Cost, epsilon=_cached):
        yield


@contextmanager
def _outside(recording: Recording) -> Iterator[None]:
    """Note all words that a fit says."""
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
        with ExitStack() as stack:
            stack.enter_context(redirect_stdout(printed))
            recording.warned = stack.enter_context(warnings.catch_warnings(record=True))
            warnings.simplefilter("always")
            stack.enter_context(patched(Bar, advance=advanced))
            yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        words += [f"warning: {warning.message}" for warning in recording.warned]
        words += [f"printed: {printed.getvalue()}"] if printed.getvalue() else []


def record(
    fit: Callable[[Ledger], Any], *, answers: Sequence[Array] | None = None, seed: int = SEED, **ledger: Any
) -> Recording:
    """Fit once, with seeded noise; with `answers`, the door says again what it said before.

    Args:
        fit: Fits a model with the ledger that it is given, and returns the model.
        answers: Of an earlier recording.
        seed: Of the noise.
        ledger: Settings of the ledger.
    """
    require_ready()  # which draws noise once in each process, and is no part of a fit
    recording = Recording()
    book = Ledger(noise_source=_Keys(seed, recording.keys), **ledger)
    with _door(recording, answers), _outside(recording):
        try:
            recording.model = fit(book)
        except Exception as error:  # whatever it is: that it happened is what an outsider sees
            recording.error = error
    recording.events = book.events
    return recording
