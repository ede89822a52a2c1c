"""Fits on neighbouring data with frozen public outputs: how far does each released statistic move?

The first fit records every statistic before its noise, and what the door answered. The second, on neighbouring data, is
given the same answers, so that every difference of its statistics is one person's doing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import discreet
from discreet.data import Interactions
from discreet.privacy import GridArray
from discreet.privacy.ledger import Reservation
from discreet.testing import InsecureSeededNoise

Array = NDArray[Any]


@dataclass
class Recording:
    """What went through the door in one fit: labels, statistics in their own units, sensitivities, answers."""

    labels: list[str] = field(default_factory=list)
    statistics: list[Array] = field(default_factory=list)
    sensitivities: list[float] = field(default_factory=list)
    stds: list[float] = field(default_factory=list)
    answers: list[Array] = field(default_factory=list)


def record(
    monkeypatch: Any, fit: Callable[[discreet.Ledger], object], answers: list[Array] | None, **ledger: Any
) -> Recording:
    """Fit once; with `answers`, the door says again what it said before."""
    recording = Recording()
    real = Reservation.release

    def release(self: Reservation, statistic: Any, sensitivity: float, noise: Any, label: str) -> Array:
        answer = real(self, statistic, sensitivity, noise, label)
        on_grid = GridArray.of(statistic)
        recording.labels.append(label)
        recording.statistics.append(on_grid.values * on_grid.grid.step)
        recording.sensitivities.append(sensitivity)
        recording.stds.append(noise.std)
        if answers is not None:
            answer = answers[len(recording.answers)]
        recording.answers.append(answer)
        return answer

    with monkeypatch.context() as patched:
        patched.setattr(Reservation, "release", release)
        fit(discreet.Ledger(noise_source=InsecureSeededNoise(7), **ledger))
    return recording


def moved(first: Recording, second: Recording) -> dict[str, float]:
    """For each label the largest distance of its statistics, as a fraction of the declared sensitivity.

    Symmetric matrices are compared whole, in the Frobenius norm.
    """
    assert first.labels == second.labels
    assert first.sensitivities == second.sensitivities
    assert first.stds == second.stds
    assert [s.shape for s in first.statistics] == [s.shape for s in second.statistics]
    found: dict[str, float] = {}
    for label, one, other, bound in zip(
        first.labels, first.statistics, second.statistics, first.sensitivities, strict=True
    ):
        found[label] = max(found.get(label, 0.0), float(np.linalg.norm((one - other).ravel())) / bound)
    return found


def replay(
    monkeypatch: Any, make: Callable[[], Any], data: Interactions, neighbour: Interactions, **ledger: Any
) -> dict[str, float]:
    """Fit on both; how far each statistic moved, as a fraction of its sensitivity."""
    first = record(monkeypatch, lambda door: make().fit(data, ledger=door), None, **ledger)
    second = record(monkeypatch, lambda door: make().fit(neighbour, ledger=door), first.answers, **ledger)
    return moved(first, second)
