"""DPSVD on ratings, as published too, and SVD: bounds, what is spent, that they learn, and odd data."""

from typing import Any

import numpy as np
import pytest

import discreet
from discreet.audit.neighbors import ordinary
from discreet.data import Interactions
from discreet.engine import batches as users_rows
from discreet.errors import DataError, NotPublic, PrivacyError, Unbounded
from discreet.models.base import Model
from discreet.models.centering import MEAN, VARIANCES, Centering, public_row_norm
from discreet.models.choices import SECOND_MOMENT
from discreet.models.eigen import places
from discreet.models.spectral.model import POPULARITY
from discreet.models.spectral.published import SECOND_MOMENT as PUBLISHED
from discreet.testing import InsecureSeededNoise, ModelConformance
from tests.models.replay import record, replay, without_means

DELTA = 1e-6
ITEMS = 40
Row = dict[int, float]


def seeded(seed: int = 1, **settings: Any) -> discreet.Ledger:
    return discreet.Ledger(delta=DELTA, noise_source=InsecureSeededNoise(seed), **settings)


def model(epsilon: float = 30.0, **params: Any) -> discreet.DPSVD:
    return discreet.DPSVD(epsilon=epsilon, delta=DELTA, **params)


def published(epsilon: float = 30.0, **params: Any) -> discreet.PublishedDPSVD:
    return discreet.DPSVD.as_published(epsilon=epsilon, delta=DELTA, **params)


class _Suite(ModelConformance):
    implicit = False
    n_users = 1000

    def fit(self, model: Model, ratings: Interactions) -> Model:
        return model.fit(ratings, ledger=seeded(3))


class TestDPSVDOnRatings(_Suite):
    n_items_large = 8_000  # of which it looks at some

    def model(self, **params: Any) -> Model:
        return model(50.0, **{"max_items": 100, **params})


class TestPublishedDPSVD(_Suite):
    def model(self, **params: Any) -> Model:
        return published(200.0, **{"rank": 2, "scale": 1.0, **params})

    def test_memory_of_a_batch_is_bounded(self) -> None:
        """It serves as the neighbors of DPCleansedSVD do."""


class TestSVD(_Suite):
    def model(self, **params: Any) -> Model:
        return discreet.SVD(**params)

    def test_memory_of_a_batch_is_bounded(self) -> None:
        """It serves as DPSVD does."""

    def fit(self, model: Model, ratings: Interactions) -> Model:
        return model.fit(ratings)


def world(*people: tuple[str, Row]) -> Interactions:
    return ordinary(ITEMS, *people)


# The bounds

DIVIDED = {item: 5.0 * (item % 2) for item in range(20)}
ELSEWHERE = {item: 5.0 * (item % 2) for item in range(20, 40)}
SHORT = {3: 5.0, 4: 4.0}


@pytest.mark.parametrize("make", [model, published])
@pytest.mark.parametrize(("row", "reached"), [(DIVIDED, True), (SHORT, False), ({7: 0.0}, False)])
def test_one_person_moves_each_statistic_by_its_bound_and_no_more(
    monkeypatch: Any, make: Any, row: Row, reached: bool
) -> None:
    found = replay(monkeypatch, make, world(("x", row)), world())
    assert set(found) == ({PUBLISHED} if make is published else {MEAN, VARIANCES, POPULARITY, SECOND_MOMENT})
    found = without_means(found)
    assert max(found.values()) <= 1
    assert not reached or min(found.values()) >= 0.95, found


@pytest.mark.parametrize("make", [model, published])
@pytest.mark.parametrize(("other", "reached"), [(ELSEWHERE, True), (SHORT, False), ({}, False)])
def test_replacing_a_person_moves_each_statistic_by_its_bound_and_no_more(
    monkeypatch: Any, make: Any, other: Row, reached: bool
) -> None:
    people = (world(("z", SHORT), ("x", row)) for row in (DIVIDED, other))
    found = without_means(replay(monkeypatch, lambda: make(adjacency="replace"), *people, adjacency="replace"))
    assert max(found.values()) <= 1
    assert not reached or min(found.values()) >= 0.95, found


@pytest.mark.parametrize("centre", [True, False])
def test_the_second_moment_is_the_sum_of_what_the_definition_says(monkeypatch: Any, centre: bool) -> None:
    data = world(("x", DIVIDED))
    fitted = model(row_norm=4.0, centre=centre)
    seen = record(monkeypatch, lambda paid: fitted.fit(data, ledger=paid), None)
    expected, at = np.zeros((ITEMS, ITEMS)), fitted.global_mean_
    for user in range(data.n_users):
        row = slice(data.indptr[user], data.indptr[user + 1])
        x, own = np.zeros(ITEMS), data.values[row].astype(float)
        mean = at + (own - at).sum() / (len(own) + fitted.shrinkage_) if centre else 0.0
        x[data.indices[row]] = own - mean
        x *= min(1, 4 / np.linalg.norm(x))
        expected += np.outer(x, x)
    assert np.allclose(seen.statistics[-1], expected, atol=0.2)  # each entry of 101 rows is cut off


def test_sums_are_the_same_however_they_are_cut(monkeypatch: Any) -> None:
    data = world()
    whole = record(monkeypatch, lambda paid: model().fit(data, ledger=paid), None)
    monkeypatch.setattr(users_rows, "PART", 100)
    monkeypatch.setattr(users_rows, "DENSE_CELLS", ITEMS * 3)
    cut = record(monkeypatch, lambda paid: model(n_jobs=3).fit(data, ledger=paid), None)
    assert all(np.array_equal(one, other) for one, other in zip(whole.statistics, cut.statistics, strict=True))


def test_a_contribution_is_ones_own() -> None:
    data = discreet.datasets.movielens_like(200, 80, 8000, random_state=0).rescale(0, 5)
    entries, place = Centering.of((0, 5), 6.0, centre=True).entries, places(np.arange(5, 75), 80)
    together = users_rows.on_items(entries, place, next(users_rows.parts(data, data.values)))
    for user in range(0, data.n_users, 7):
        one = data.of_users(np.array([user]))
        alone = users_rows.on_items(entries, place, next(users_rows.parts(one, one.values)))
        assert np.array_equal(alone.values, together.values[together.owners == user])


# What is spent


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_the_certificate_lists_every_release(adjacency: Any) -> None:
    fitted = model(2.0, adjacency=adjacency).fit(world())
    assert fitted.guarantee_.holds
    assert 1.99 <= fitted.guarantee_.epsilon <= 2
    labels = [release["label"] for release in fitted.statement().certificate["releases"]]
    assert labels == [POPULARITY, MEAN, VARIANCES, SECOND_MOMENT]
    assert {line.label for line in fitted.plan(ITEMS, implicit=False).lines} == set(labels)


def test_as_published_says_what_it_costs() -> None:
    """Much less than the paper says, for add-remove and for replace."""
    costs = [published(1.0, adjacency=kind).fit(world()).guarantee_ for kind in ("add-remove", "replace")]
    assert all(cost.holds for cost in costs)
    assert 0.11 < costs[0].epsilon < 0.13
    assert costs[0].epsilon < costs[1].epsilon < 0.19


def test_nothing_is_spent_on_wrong_input() -> None:
    unknown = discreet.read([("a", 1, 3.0), ("b", 2, 3.0)], value_range=(0, 5))  # whose catalog is the data's
    flat = discreet.read([("a", 1, 0.0)], items=list(range(9)), value_range=(0, 1e-35))
    wrong: list[tuple[type[Exception], str, Any, Any]] = [
        (NotPublic, "items", unknown, model()),
        (DataError, "explore", world(), model(explore=0.1)),
        (DataError, "value_range", flat, model()),
        (DataError, "value_range", flat, published()),
        (DataError, "rank", world(), model(rank=41)),
        (DataError, "rank", world(), published(rank=41)),
        (PrivacyError, "row_norm", world(), model(row_norm=0.0)),
        (PrivacyError, "scale", world(), published(scale=-1.0)),
        (DataError, "implicit", world().to_implicit(), published()),
        (PrivacyError, "adjacency", world(), published(adjacency="flip")),
    ]
    ledger = seeded(epsilon=100.0)
    for kind, words, data, asked in wrong:
        with pytest.raises(kind, match=words):
            asked.fit(data, ledger=ledger)
    assert [entry.kind for entry in ledger.entries] == ["open"]
    with pytest.raises(Unbounded, match="row_norm"):
        public_row_norm(None, 10)
    with pytest.raises(DataError, match="implicit"):
        discreet.SVD().fit(world().to_implicit())


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
@pytest.mark.parametrize(
    ("rows", "n_items"),
    [
        ([("a", 0, 5.0)], 1),
        ([("a", 0, 5.0), ("a", 1, 0.0), ("b", 1, 2.0)], 2),
        ([("a", item, 2.5) for item in range(30)], 30),  # a row of zeros, once it is centered
        ([(f"u{user}", user % 60, 5.0 * (user % 2)) for user in range(600)], 60),
    ],
)
def test_odd_data_makes_no_error(rows: Any, n_items: int, epsilon: float) -> None:
    data = discreet.read(rows, items=list(range(n_items)), value_range=(0, 5))
    fits = [model(epsilon), model(epsilon, centre=False), published(epsilon, rank=1), discreet.SVD()]
    for fitted in fits:
        fitted.fit(data, **({} if isinstance(fitted, discreet.SVD) else {"ledger": seeded()}))
        assert all(np.isfinite(getattr(fitted, name)).all() for name in fitted._ARRAYS)
        for history in ({}, {0: 3.0}, dict.fromkeys(range(n_items), 5.0)):
            found = fitted.recommend(history, n=5, exclude_seen=False)
            assert len(found) == min(5, n_items)
            assert np.isfinite(found.scores).all()


# They learn


def rmse(fitted: Any, train: Interactions, test: Interactions) -> float:
    return float(np.sqrt(np.mean((fitted.predict(train, test) - test.values) ** 2)))


def test_learns_in_private() -> None:
    data = discreet.datasets.movielens_like(6000, 80, 240_000, random_state=2).rescale(0, 5)
    train, _, test = discreet.splits.holdout(data, valid=0.0, test=0.2, random_state=0)
    own = rmse(discreet.MeanRating("user").fit(train), train, test)
    exact = rmse(discreet.SVD().fit(train), train, test)
    found = [rmse(model(epsilon).fit(train, ledger=seeded(5)), train, test) for epsilon in (1.0, 10.0)]
    assert exact < found[1] + 0.005
    assert found[1] < found[0] < 0.97 * own, (found, own, exact)


def test_approximates_a_matrix_that_is_fully_observed() -> None:
    """The directions of the rows, and rows regressed on them."""
    rng = np.random.default_rng(0)
    matrix = np.clip(rng.standard_normal((3000, 3)) @ rng.standard_normal((3, 20)) / 3, -1, 1)
    rows = [(i, j, float(matrix[i, j])) for i in range(3000) for j in range(20)]
    data = discreet.read(rows, items=list(range(20)), value_range=(-1, 1))
    fitted = model(20.0, centre=False, rank=3).fit(data, ledger=seeded())
    assert fitted.item_factors_.shape == (20, 3)
    error = np.linalg.norm(fitted.predict(data, data) - data.values) / np.linalg.norm(data.values)
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    best = np.linalg.norm(matrix - (left[:, :3] * values[:3]) @ right[:3]) / np.linalg.norm(matrix)
    assert error < best + 0.02, (best, error)
