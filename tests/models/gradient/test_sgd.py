"""DPSGD: its bound, secret samples, how it is charged, that it learns, and odd data."""

from typing import Any

import numpy as np
import pytest

import discreet
from discreet.audit.neighbors import ordinary
from discreet.data import Interactions
from discreet.engine import batches as users_rows
from discreet.engine.batches import parts
from discreet.errors import BudgetExceeded, DataError, NotPublic, PrivacyError
from discreet.models.base import Model
from discreet.models.centering import MEAN, VARIANCES
from discreet.models.gradient import model as gradient
from discreet.models.gradient.contributions import own_gradient, user_ridge
from discreet.models.gradient.estimate import Adam
from discreet.models.gradient.model import GRADIENT
from discreet.privacy.selection import largest_mu
from discreet.testing import InsecureSeededNoise, ModelConformance
from tests.models.replay import record, replay, without_means

DELTA = 1e-6
ITEMS = 40
Row = dict[int, float]


def seeded(seed: int = 1, **settings: Any) -> discreet.Ledger:
    return discreet.Ledger(**{"delta": DELTA, **settings}, noise_source=InsecureSeededNoise(seed))


def model(epsilon: float = 5.0, **params: Any) -> discreet.DPSGD:
    return discreet.DPSGD(epsilon=epsilon, delta=DELTA, **{"n_steps": 6, "sample_rate": 0.5, **params})


class TestDPSGD(ModelConformance):
    implicit = False
    n_users = 1000

    def model(self, **params: Any) -> Model:
        return model(20.0, **{"n_steps": 40, "learning_rate": 0.1, **params})

    def fit(self, model: Model, ratings: Interactions) -> Model:
        return model.fit(ratings, ledger=seeded(3))


def world(*people: tuple[str, Row]) -> Interactions:
    return ordinary(ITEMS, *people)


# The bound

DIVIDED = {item: 5.0 * (item % 2) for item in range(20)}


@pytest.mark.parametrize(
    ("row", "reached"), [(DIVIDED, True), ({3: 5.0}, False), (dict.fromkeys(range(9), 2.5), False)]
)
@pytest.mark.parametrize("rate", [0.5, 1.0])
def test_one_person_moves_a_gradient_by_its_bound_and_no_more(
    monkeypatch: Any, row: Row, reached: bool, rate: float
) -> None:
    """In the steps that they take part in; others take part in the same ones with and without them."""
    found = replay(monkeypatch, lambda: model(sample_rate=rate), world(("x", row)), world())
    assert set(without_means(found)) == {GRADIENT}
    assert found[GRADIENT] <= 1
    assert not reached or found[GRADIENT] >= 0.95


def test_who_is_not_in_a_sample_moves_nothing(monkeypatch: Any) -> None:
    first = record(monkeypatch, lambda paid: model(n_steps=30).fit(world(("x", DIVIDED)), ledger=paid), None)
    second = record(monkeypatch, lambda paid: model(n_steps=30).fit(world(), ledger=paid), first.answers)
    moved = [float(np.linalg.norm(one - other)) for one, other in zip(first.statistics, second.statistics, strict=True)]
    assert first.labels[:3] == [MEAN, VARIANCES, GRADIENT]
    moved = moved[2:]
    still = sum(distance == 0 for distance in moved)
    assert 5 <= still <= 25
    assert all(distance == 0 or distance >= 0.95 for distance in moved)
    assert len(set(first.stds[2:])) == 1
    assert np.isclose(first.stds[2], 1 / largest_mu(5.0, DELTA, 0.5, 32))


def test_the_gradient_is_what_the_definition_says(monkeypatch: Any) -> None:
    data = world(("x", DIVIDED))
    fitted = model(sample_rate=1.0, clip=2.0, n_steps=1)
    seen = record(monkeypatch, lambda paid: fitted.fit(data, ledger=paid), None)
    factors = np.zeros((ITEMS, 5))
    factors[:, 1:] = 0.3 * np.random.default_rng(0).standard_normal((ITEMS, 4)) / 2
    expected = np.zeros_like(factors)
    for user in range(data.n_users):
        row = slice(data.indptr[user], data.indptr[user + 1])
        items, y = data.indices[row], (data.values[row] - fitted.global_mean_) / 1.25
        X = np.column_stack([np.ones(len(items)), factors[items, 1:]])
        own = np.linalg.solve(X.T @ X + np.diag([fitted.shrinkage_, 2, 2, 2, 2]), X.T @ (y - factors[items, 0]))
        left = y - factors[items, 0] - X @ own
        gradient = np.zeros_like(factors)
        gradient[items] = np.outer(left, [1, *own[1:]])
        expected += gradient * min(1, 2 / np.linalg.norm(gradient))
    assert np.allclose(seen.statistics[-1], expected, atol=0.02)


def test_a_contribution_is_ones_own() -> None:
    data = discreet.datasets.movielens_like(200, 80, 8000, random_state=0).rescale(-2, 2)
    ridge = user_ridge(np.random.default_rng(0).standard_normal((80, 6)), 3.3)
    (whole,) = parts(data, data.values)
    x, a = own_gradient(ridge, 0.5, 2.0, whole)
    for user in range(0, data.n_users, 7):
        one = data.of_users(np.array([user]))
        (alone,) = parts(one, one.values)
        own, vector = own_gradient(ridge, 0.5, 2.0, alone)
        assert np.array_equal(own, x[data.indptr[user] : data.indptr[user + 1]])
        assert np.array_equal(vector[0], a[user])


def test_sums_are_the_same_however_they_are_cut(monkeypatch: Any) -> None:
    data = world()
    whole = record(monkeypatch, lambda paid: model().fit(data, ledger=paid), None)
    monkeypatch.setattr(users_rows, "PART", 100)
    cut = record(monkeypatch, lambda paid: model(n_jobs=3).fit(data, ledger=paid), None)
    assert all(np.array_equal(one, other) for one, other in zip(whole.statistics, cut.statistics, strict=True))


# What is charged


def test_the_plan_is_reserved_before_anything_is_done() -> None:
    ledger = discreet.Ledger(epsilon=5.0, delta=DELTA)
    fitted = model().fit(world(), ledger=ledger)
    assert fitted.guarantee_.holds
    assert 0.98 * 5 <= fitted.guarantee_.epsilon <= 5
    assert fitted.guarantee_.mu is None
    assert [event.kind for event in ledger.entries] == ["open", "reserve", *["release"] * 8, "close"]
    assert ledger.spent.cost == fitted.guarantee_.cost == fitted.plan(ITEMS).cost
    certificate = fitted.statement().certificate
    assert [release["label"] for release in certificate["releases"]] == [MEAN, VARIANCES, *[GRADIENT] * 6]
    assert "over samples of users at rate 0.5" in str(fitted.statement())
    with pytest.raises(BudgetExceeded):
        model().fit(world(), ledger=ledger)
    assert model().preview(ITEMS).fits


def test_a_failure_leaves_the_charge(monkeypatch: Any) -> None:
    ledger = discreet.Ledger(epsilon=5.0, delta=DELTA)

    def fail(*_: Any) -> None:
        raise RuntimeError("power cut")

    monkeypatch.setattr(gradient, "own_gradient", fail)
    with pytest.raises(RuntimeError):
        model().fit(world(), ledger=ledger)
    assert ledger.spent.epsilon > 4.9


@pytest.mark.parametrize("rate", [0.5, 1.0])
def test_seeded_noise_and_seeded_samples_are_not_private(rate: float) -> None:
    """Neither the model, nor the ledger that paid, nor the certificate of either."""
    ledger = seeded()
    fitted = model(sample_rate=rate).fit(world(), ledger=ledger)
    assert str(fitted.guarantee_).startswith("NOT PRIVATE")
    assert str(ledger.spent).startswith("NOT PRIVATE")
    for statement in (fitted.statement(), ledger.statement()):
        assert not discreet.Statement.parse(statement.json()).guarantee.holds


def test_the_certificate_lists_what_each_step_released() -> None:
    fitted = model(clip=0.7).fit(world())
    releases = discreet.Statement.parse(fitted.statement().json()).certificate["releases"]
    steps = releases[2:]
    assert [(release["label"], release["sensitivity"]) for release in steps] == [(GRADIENT, 0.7)] * fitted.n_steps
    noise = [release["noise"]["std"] / release["sensitivity"] for release in releases]
    assert np.allclose(noise, 1 / fitted._noise_mu())


def test_a_ledger_with_a_renyi_filter_takes_several() -> None:
    ledger = discreet.Ledger(epsilon=8.0, delta=DELTA, filter="renyi")
    for _ in range(2):
        model(2.0).fit(world(), ledger=ledger)
    assert len(ledger.events) == 2 * 8
    assert ledger.spent.epsilon < 8


def test_nothing_is_spent_on_wrong_input() -> None:
    unknown = discreet.read([("a", 1, 3.0), ("b", 2, 3.0)], value_range=(0, 5))  # whose catalog is the data's
    wrong: list[tuple[type[Exception], str, Any, Any]] = [
        (DataError, "implicit", world().to_implicit(), model()),
        (NotPublic, "items", unknown, model()),
        (DataError, "sample_rate", world(), model(sample_rate=1.5)),
        (PrivacyError, "sample_rate", world(), model(sample_rate=0.0)),
        (PrivacyError, "n_steps", world(), model(n_steps=0)),
        (PrivacyError, "clip", world(), model(clip=-1.0)),
        (PrivacyError, "rank", world(), model(rank=0)),
        (PrivacyError, "add-remove", world(), model(adjacency="replace")),
    ]
    ledger = seeded(epsilon=100.0)
    for kind, words, data, asked in wrong:
        with pytest.raises(kind, match=words):
            asked.fit(data, ledger=ledger)
    replacing = seeded(epsilon=100.0, adjacency="replace")
    with pytest.raises(PrivacyError, match="adjacency"):
        model().fit(world(), ledger=replacing)
    assert [entry.kind for entry in (*ledger.entries, *replacing.entries)] == ["open", "open"]


@pytest.mark.parametrize(
    ("rows", "n_items"),
    [
        ([("a", 0, 5.0)], 1),
        ([("a", item, 2.5) for item in range(30)], 30),  # a row of zeros, once it is centered
        ([(f"u{user}", user % 60, 5.0 * (user % 2)) for user in range(600)], 60),
    ],
)
@pytest.mark.parametrize("rate", [0.05, 1.0])
def test_odd_data_makes_no_error(rows: Any, n_items: int, rate: float) -> None:
    data = discreet.read(rows, items=list(range(n_items)), value_range=(0, 5))
    fitted = model(sample_rate=rate).fit(data, ledger=seeded())
    assert all(np.isfinite(getattr(fitted, name)).all() for name in fitted._ARRAYS)
    for history in ({}, {0: 3.0}, dict.fromkeys(range(n_items), 5.0)):
        found = fitted.recommend(history, n=5, exclude_seen=False)
        assert len(found) == min(5, n_items)
        assert np.isfinite(found.scores).all()


# It learns


def test_learns_in_private() -> None:
    data = discreet.datasets.movielens_like(6000, 80, 240_000, random_state=2).rescale(0, 5)
    train, _, test = discreet.splits.holdout(data, valid=0.0, test=0.2, random_state=0)

    def rmse(fitted: Any) -> float:
        return float(np.sqrt(np.mean((fitted.predict(train, test) - test.values) ** 2)))

    own = rmse(discreet.MeanRating("user").fit(train))
    found = rmse(discreet.DPSGD(epsilon=5.0, delta=DELTA).fit(train, ledger=seeded(5)))
    assert found < 0.97 * own, (found, own)


def test_steps_are_in_units_of_the_gradients_own_size() -> None:
    rng = np.random.default_rng(0)
    adam, big = Adam(0.1, 10), Adam(0.1, 10)
    for _ in range(3):
        gradient = rng.standard_normal((4, 2))
        gradient[0, 0] = 0
        one, other = adam.step(np.zeros((4, 2)), gradient), big.step(np.zeros((4, 2)), 1000 * gradient)
    assert np.allclose(one, other)
    assert one[0, 0] == 0


def test_vectors_decay_where_gradients_do_not_keep_them_up() -> None:
    adam, factors = Adam(0.03, 100), np.ones((3, 3))
    for _ in range(100):
        factors = adam.step(factors, np.zeros((3, 3)))
    assert (factors[:, 0] == 1).all()
    assert (factors[:, 1:] < 0.15).all()
