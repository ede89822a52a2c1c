"""`discreet.audit` for tests of models: warnings and errors of a fit are raised here too."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import discreet
from discreet.audit import replaying
from discreet.audit.replaying import Recording
from discreet.data import Interactions
from discreet.models.centering import MEAN, VARIANCES
from discreet.typing import Array


def record(
    monkeypatch: Any, fit: Callable[[discreet.Ledger], object], answers: list[Array] | None, **ledger: Any
) -> Recording:
    """Fit once; with `answers`, the release step returns these again."""
    seen = replaying.record(fit, answers=answers or (), **ledger)
    for warning in seen.warned:
        warnings.warn(warning.message, warning.category, stacklevel=2)
    if seen.error is not None:
        raise seen.error
    return seen


def moved(first: Recording, second: Recording) -> dict[str, float]:
    """For each label the largest distance of its statistics, as a fraction of the declared sensitivity."""
    assert first.labels == second.labels
    assert first.sensitivities == second.sensitivities
    assert first.stds == second.stds
    assert [s.shape for s in first.statistics] == [s.shape for s in second.statistics]
    return replaying.moved(first, second)


def replay(
    monkeypatch: Any, make: Callable[[], Any], data: Interactions, neighbor: Interactions, **settings: Any
) -> dict[str, float]:
    """Fit on both; how far each statistic moved, as a fraction of its sensitivity."""
    first = record(monkeypatch, lambda ledger: make().fit(data, ledger=ledger), None, **settings)
    second = record(monkeypatch, lambda ledger: make().fit(neighbor, ledger=ledger), first.answers, **settings)
    return moved(first, second)


def without_means(found: dict[str, float]) -> dict[str, float]:
    """Without what models of ratings have in common, whose bounds are reached in tests/models/test_centering.py."""
    assert all(found.get(label, 0.0) <= 1 for label in (MEAN, VARIANCES))
    return {label: share for label, share in found.items() if label not in (MEAN, VARIANCES)}
