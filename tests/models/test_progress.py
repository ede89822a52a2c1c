"""Private models say on a terminal what they do and what of the budget is spent."""

import io
import sys
from typing import Any

import pytest

import discreet
from discreet.data import progress
from discreet.models import private
from discreet.models.base import Model

MODELS = [
    (discreet.DPALS(epsilon=1, delta=1e-6), True, "item step"),
    (discreet.DPALS.as_published(epsilon=1, delta=1e-6, rank=2), True, "item step"),
    (discreet.DPSVD(epsilon=1, delta=1e-6), False, "item popularity"),
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def ratings(explicit: bool) -> discreet.Interactions:
    made = discreet.datasets.movielens_like(100, 30, 1_000, random_state=0)
    return made if explicit else made.to_implicit(4)


@pytest.mark.parametrize(("model", "explicit", "doing"), MODELS)
def test_a_fit_tells_its_releases_and_the_whole_of_its_budget(
    monkeypatch: pytest.MonkeyPatch, model: Model, explicit: bool, doing: str
) -> None:
    told: list[tuple[float, str]] = []

    class Recorder(progress.Bar):
        def advance(self, amount: float, doing: str = "") -> None:
            told.append((amount, doing))

    monkeypatch.setattr(private, "Bar", Recorder)
    plan: Any = model.fit(ratings(explicit)).plan(30)  # type: ignore[attr-defined]
    assert [name for _, name in told].count(doing) == plan[doing].count
    assert sum(amount for amount, _ in told) == pytest.approx(100)


def test_it_is_seen_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0)
    monkeypatch.setenv("TERM", "xterm")
    for stream, seen in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        discreet.DPALS(epsilon=1, delta=1e-6).fit(ratings(explicit=True))
        assert ("DPALS: item step" in stream.getvalue()) == seen
        assert ("% of the budget" in stream.getvalue()) == seen
        assert seen or not stream.getvalue()
