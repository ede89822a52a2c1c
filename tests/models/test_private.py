"""Private models warn of a delta that is large for the number of people, and tell on a terminal what they do."""

import io
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import discreet
from discreet import parallel
from discreet.data import Interactions
from discreet.errors import PrivacyError
from discreet.models import private
from discreet.models.base import Model
from discreet.models.private import large_delta

RATINGS = discreet.datasets.movielens_like(3000, 30, 40_000, random_state=0)
LIKED = RATINGS.to_implicit(4)
FEW = RATINGS.of_users(range(100))  # type: ignore[arg-type]


def test_the_rule() -> None:
    assert large_delta(1e-6, 0) == large_delta(1e-6, 100_000) == large_delta(1e-5, 10_000) == []
    (said,) = large_delta(1e-5, 138_493.0)
    assert said.startswith("delta: 1e-05 is large for about 140,000 people.")
    assert "expose 1.4 of them on average" in said
    assert "7e-07 or less." in said
    assert "expose 430 of them on average" in large_delta(0.5, 860.0)[0]


@pytest.mark.parametrize(
    ("model", "data"),
    [
        (discreet.DPALS(epsilon=5, delta=1e-4), RATINGS),
        (discreet.DPALS(epsilon=5, delta=1e-4, n_users_hint=5_000), FEW),  # as declared
        (discreet.DPSVD(epsilon=5, delta=1e-4), LIKED),
        (discreet.DPSVD(epsilon=5, delta=1e-3), RATINGS),
    ],
)
def test_a_warning_and_a_note(tmp_path: Path, model: Any, data: Interactions) -> None:
    with pytest.warns(UserWarning, match=r"^delta: .* is large for about [\d,]+ people") as told:
        model.fit(data)
    assert told[0].filename == __file__
    note = str(told[0].message)
    assert note in model.statement().certificate["notes"]
    for face in (str(model.statement()), model.statement().html()):
        assert note in face
    model.save(tmp_path / "m")
    assert note in discreet.load(tmp_path / "m").statement().certificate["notes"]


@pytest.mark.parametrize(
    ("model", "data"),
    [
        (discreet.DPALS(epsilon=5, delta=1e-5), RATINGS),
        (discreet.DPALS(epsilon=5, delta=1e-4), FEW),
        (discreet.DPALS(epsilon=0.01, delta=1e-5), RATINGS),  # of which the noise may say anything
        (discreet.DPSVD(epsilon=0.01, delta=1e-5), LIKED),
        (discreet.DPGradientDescent(epsilon=5, delta=1e-2, n_steps=1), FEW),  # releases no number of people
    ],
)
def test_nothing_is_said_without_reason(model: Any, data: Interactions) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(data)
    assert not [note for note in model.statement().certificate["notes"] if "large for" in note]


def test_a_path_is_not_a_ledger() -> None:
    with pytest.raises(PrivacyError, match=r"^ledger: a Ledger is needed, not 'ledger.db'; discreet.Ledger\(url"):
        discreet.DPALS(epsilon=1, delta=1e-6).fit(RATINGS, ledger="ledger.db")  # type: ignore[arg-type]


def test_a_search_knows_what_is_declared() -> None:
    model = discreet.DPALS(epsilon=5, delta=1e-4, n_users_hint=5_000)
    found = discreet.tune.search(model, {"n_steps": [1, 2]}, FEW, (5, 1e-4), trials=1.5)
    assert any(
        "delta: 0.0001 is large for about 5,000 people" in note for note in found.statement().certificate["notes"]
    )


# -- progress


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
def test_a_fit_tells_each_of_its_releases(
    monkeypatch: pytest.MonkeyPatch, model: Model, explicit: bool, doing: str
) -> None:
    told: list[tuple[float, str]] = []

    class Recorder(parallel.Bar):
        def advance(self, amount: float, doing: str = "") -> None:
            told.append((amount, doing))

    monkeypatch.setattr(private, "Bar", Recorder)
    plan: Any = model.fit(ratings(explicit)).plan(30)  # type: ignore[attr-defined]
    assert sum(amount for amount, name in told if name == doing) == plan[doing].count
    assert sum(amount for amount, _ in told) == sum(line.count for line in plan.lines)


def test_it_is_seen_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "PATIENCE", 0)
    monkeypatch.setenv("TERM", "xterm")
    for stream, seen in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        discreet.DPALS(epsilon=1, delta=1e-6).fit(ratings(explicit=True))
        assert ("DPALS: item step" in stream.getvalue()) == seen
        assert ("releases" in stream.getvalue()) == seen
        assert seen or not stream.getvalue()


def test_a_callback_in_the_place_of_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "PATIENCE", 0)
    monkeypatch.setattr(sys, "stderr", Terminal())
    calls: list[tuple[Any, ...]] = []
    model = discreet.DPALS(epsilon=1, delta=1e-6)
    with discreet.on_progress(lambda *call: calls.append(call)):
        model.fit(ratings(explicit=True))
        with parallel.quiet():
            model.fit(ratings(explicit=True))
    planned = sum(line.count for line in model.plan(30).lines)
    assert {(name, total) for name, _, total, _ in calls} == {("DPALS", planned)}
    done = [call[1] for call in calls]
    assert done == sorted(done)
    assert calls[-1][1:] == (planned, planned, "item step")
    assert not sys.stderr.getvalue()  # type: ignore[attr-defined]
    discreet.DPALS(epsilon=1, delta=1e-6).fit(ratings(explicit=True))
    assert len(calls) == len(done)
