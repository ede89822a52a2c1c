"""Replay: what one person may change, and that nothing else passes unnoticed."""

import logging
import warnings
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import discreet
from discreet import Laplace, account
from discreet.audit import Subject, record, replay
from discreet.audit.neighbors import ordinary
from discreet.audit.replaying import ACCOUNT, EVENTS, OUTPUT, SCORE, SENSITIVITY, Release, _search, same
from discreet.audit.report import failed
from discreet.audit.subjects import DELTA, of
from discreet.audit.suite import designed
from discreet.privacy import Cost, PureEvent, Selection
from discreet.privacy.ledger import require_ready


class Mine(discreet.DPSVD):
    """A user's own model, whose `_learn_privately` a test replaces."""


def audited(monkeypatch: pytest.MonkeyPatch, wrong: Any) -> dict[str, str]:
    """The failures of a model that does something wrong beside what it should."""
    real = discreet.DPSVD._learn_privately

    def learn(self: Any, releaser: Any, ratings: Any) -> Any:
        learned = real(self, releaser, ratings)
        return wrong(learned, ratings) or learned

    monkeypatch.setattr(Mine, "_learn_privately", learn, raising=False)
    data, neighbor = ordinary(40, ("x", {3: 5.0, 4: 1.0})), ordinary(40)
    one = replay(lambda: Mine(epsilon=5.0, delta=DELTA), data, neighbor)
    return {finding.check: finding.words for finding in failed(one.findings)}


def test_a_model_on_the_same_base_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not audited(monkeypatch, lambda learned, ratings: None)
    subject = of(Mine(epsilon=5.0, delta=DELTA))
    assert isinstance(subject, Subject)
    assert not failed(designed(replace(subject, pairs=subject.pairs[:3]))[1])


def test_an_exact_number_in_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    found = audited(monkeypatch, lambda learned, ratings: {**learned, "n_users_": float(ratings.n_users)})
    assert list(found) == [OUTPUT]
    assert "n_users_" in found[OUTPUT]


def test_an_exact_number_in_a_log_a_warning_or_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def log(learned: Any, ratings: Any) -> None:
        logging.getLogger("discreet.mine").info("%d ratings", len(ratings))

    def warn(learned: Any, ratings: Any) -> None:
        warnings.warn(f"{len(ratings)} ratings", stacklevel=2)

    def fail(learned: Any, ratings: Any) -> None:
        if ratings.n_users > 100:
            raise discreet.errors.DataError("too many users")

    def show(learned: Any, ratings: Any) -> None:
        print(len(ratings))  # noqa: T201

    for wrong in (log, warn, fail, show):
        assert EVENTS in audited(monkeypatch, wrong), wrong


def test_noise_beside_the_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    def noisy(learned: Any, ratings: Any) -> Any:
        count = discreet.privacy.GridArray(np.array([ratings.n_users]), discreet.privacy.Grid())
        released = discreet.Gaussian(1e9).add(count, discreet.privacy.SystemNoise())  # twice the same: once in 10^9
        return {**learned, "n_users_": float(released[0])}

    found = audited(monkeypatch, noisy)
    assert {ACCOUNT, OUTPUT} <= set(found)
    assert "without a ledger" in found[ACCOUNT]


def test_a_recording_repeats_the_answers_that_it_is_given() -> None:
    data = ordinary(40)
    first = record(lambda ledger: discreet.DPSVD(epsilon=5.0, delta=DELTA).fit(data, ledger=ledger), delta=DELTA)
    other = [answer * 1.001 for answer in first.answers]
    again = record(
        lambda ledger: discreet.DPSVD(epsilon=5.0, delta=DELTA).fit(data, ledger=ledger), answers=other, delta=DELTA
    )
    assert all(np.array_equal(one, two) for one, two in zip(again.answers, other, strict=True))
    assert not np.array_equal(again.model.popularity_, first.model.popularity_)
    assert [event.label for event in first.events] == first.labels
    assert len(first.keys) == len(set(first.keys)) >= len(first.releases)


@dataclass
class OneNumber:
    """Releases a number that one person moves by `moves` grid units."""

    moves: int
    adjacency: str = "add-remove"
    delta: float = 1e-5

    def fit(self, data: int, ledger: discreet.Ledger) -> "OneNumber":
        ledger.release(np.array([data * self.moves]), 2.0**31, discreet.Gaussian(2.0**30), "number")
        self.guarantee_ = ledger.spent
        return self


@pytest.mark.parametrize(("beyond", "ok"), [(0, True), (1, False)])
def test_one_grid_unit_beyond_the_sensitivity_is_found(beyond: int, ok: bool) -> None:
    """Statistics are compared as integers: a relative error of 5e-10 is no rounding error."""
    found = replay(lambda: OneNumber(2**31 + beyond), 1, 0)
    assert [finding.check for finding in failed(found.findings)] == ([] if ok else [SENSITIVITY])
    assert found.ok is ok


def test_what_is_the_same() -> None:
    assert same(np.array([1.0, np.nan]), np.array([1.0, np.nan]))
    assert not same(np.array([0.0]), np.array([-0.0]))
    assert not same(np.zeros(2), np.zeros(2, np.float32))
    assert not same(1, 1.0)
    assert same({"a": [1.0, "id 0123456789abcdef"]}, {"a": [1.0, "id fedcba9876543210"]})
    assert not same({"a": 1.0}, {"a": np.nextafter(1.0, 2)})


@pytest.mark.parametrize(("scale", "paid_for"), [(10.0, True), (1.0, False)])
def test_a_search_whose_trials_are_not_gaussian_is_accounted_for(scale: float, paid_for: bool) -> None:
    release = Release(f"{SCORE} rmse", np.zeros(1, np.int64), 1.0, Laplace(scale), 1.0, np.zeros(1))
    seen: Any = SimpleNamespace(releases=[release], model=SimpleNamespace(guarantee_=account(epsilon=1, delta=1e-6)))
    assert _search(seen, Selection(Cost.of(PureEvent(0.1)), 3.0, 1.0)).ok is paid_for


def test_what_a_ledger_tries_in_a_new_process_is_no_part_of_a_fit() -> None:
    require_ready.cache_clear()
    ratings = discreet.datasets.movielens_like(60, 10, 300, random_state=0)
    seen = record(lambda ledger: discreet.DPSVD(epsilon=1, delta=DELTA).fit(ratings, ledger=ledger), delta=DELTA)
    assert seen.error is None
    assert seen.elsewhere == []
    assert seen.releases
