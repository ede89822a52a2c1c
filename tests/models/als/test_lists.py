"""DPALS with objective="both": ratings and lists from one fit and one budget."""

from typing import Any

import numpy as np
import pytest

import discreet
from discreet.data.interactions import Interactions
from discreet.errors import DataError
from discreet.models.als.contributions import EXTENSION, GRAM, POPULARITY, STEP, settings
from discreet.models.base import Model
from discreet.models.choices import LABELS
from discreet.models.liked import Liked
from discreet.testing import ModelConformance
from tests.models.als.test_model import DELTA, seeded
from tests.models.replay import moved, record, replay


class TestDPALSWithLists(ModelConformance):
    n_users = 600
    implicit = False

    def model(self, **params: Any) -> Model:
        given = {"epsilon": 50.0, "delta": DELTA, "n_users_hint": 600, "objective": "both"}
        return discreet.DPALS(**{**given, **params})

    def fit(self, model: Model, ratings: Interactions) -> Model:
        return model.fit(ratings, ledger=seeded(model.get_params()["epsilon"]))


@pytest.fixture(scope="module")
def split() -> tuple[Interactions, Interactions]:
    ratings = discreet.datasets.movielens_like(2500, 500, 120_000, random_state=3)
    train, _, test = discreet.splits.holdout(ratings, valid=0.0, test=0.2, random_state=0)
    return train, test


def fitted(train: Interactions, seed: int = 1, **params: Any) -> discreet.DPALS:
    model = discreet.DPALS(**{"epsilon": 10.0, "delta": DELTA, "n_users_hint": 2500, **params})
    return model.fit(train, ledger=seeded(model.epsilon, seed))


def recall(model: Any, train: Interactions, test: Interactions) -> float:
    return float(discreet.evaluate(model, test.to_implicit(4), history=train, metrics=["recall@20"])["recall@20"])


def rmse(model: Any, train: Interactions, test: Interactions) -> float:
    return float(discreet.evaluate(model, test, history=train, metrics=["rmse"])["rmse"])


def test_lists_are_better_than_what_is_popular_and_ratings_hardly_worse(split: Any) -> None:
    both, ratings, popular = fitted(split[0], objective="both"), fitted(split[0]), discreet.Popularity().fit(split[0])
    assert recall(both, *split) > 1.05 * max(recall(popular, *split), recall(ratings, *split))
    assert rmse(both, *split) < 1.01 * rmse(ratings, *split)


def test_lists_have_their_share_of_the_budget_and_no_release_is_made_twice(split: Any) -> None:
    both = fitted(split[0], objective="both")
    labels = [release["label"] for release in both.statement().certificate["releases"]]
    assert [label for label in labels if label in LABELS] == list(LABELS)
    assert "second moment" not in labels
    assert both.guarantee_.epsilon <= 10


@pytest.mark.parametrize("n_users", [100, 1_000, 10_000, 10**7])
@pytest.mark.parametrize("mu", [0.03, 0.27, 2.0, 8.0])
@pytest.mark.parametrize("n_items", [1, 100, 5000])
def test_shares_of_lists(n_users: int, mu: float, n_items: int) -> None:
    shared = settings(mu, n_items, n_users, lists=True).shares
    total = sum(share if isinstance(share, float) else share[0] for share in shared.values())
    assert total == pytest.approx(1, rel=1e-12)
    lists, steps = sum(shared[label] for label in LABELS), shared[STEP][0]
    assert 0 < lists <= 0.28 + 1e-12
    assert steps > 0.19
    assert settings(mu, n_items, 2 * n_users, lists=True).shares[LABELS[0]] >= shared[LABELS[0]]


def test_going_on_pools_what_is_chosen_together(split: Any) -> None:
    first = fitted(split[0], objective="both", epsilon=2.0)
    before = recall(first, *split)
    epsilon = 2.0
    for seed in range(3):
        first.fit_more(split[0], seeded(epsilon, 10 + seed), epsilon=epsilon)
    assert recall(first, *split) > 1.02 * before
    assert np.isfinite(first.list_factors_).all()


def test_lists_that_were_popularity_are_popularity_again_until_there_is_more_to_say(split: Any) -> None:
    """A first fit that knew too little for a second moment leaves none, and the next one may know too little, too."""
    few = split[0].of_users(np.arange(60))
    model = fitted(few, objective="both", epsilon=0.5)
    assert model.list_factors_.shape[1] == 1
    assert not len(model.known_frequent_)
    model.fit_more(few, seeded(0.5, 2), epsilon=0.5)
    assert not len(model.known_frequent_)
    model.fit_more(split[0], seeded(10.0, 3), epsilon=10.0)
    assert model.list_factors_.shape[1] > 1


@pytest.mark.parametrize("n_items", [100, 600])  # with residuals that could have directions, and without
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_where_no_taste_is_found_other_lines_release_popularity(monkeypatch: Any, adjacency: Any, n_items: int) -> None:
    """Someone with one item moves each of them by all of its sensitivity, and the certificate says what they were."""

    def few(*more: tuple[str, int, float]) -> Interactions:
        rows = [(f"user {user}", (user + at) % n_items, 1.0 + at) for user in range(20) for at in range(5)]
        return discreet.read([*rows, *more], items=range(n_items), value_range=(1, 5))

    fits: list[discreet.DPALS] = []

    def make() -> discreet.DPALS:
        fits.append(discreet.DPALS(epsilon=3, delta=DELTA, adjacency=adjacency, n_users_hint=100_000, objective="both"))
        return fits[-1]

    other = few(("x", 1, 5.0)) if adjacency == "replace" else few()
    found = replay(monkeypatch, make, few(("x", 0, 5.0)), other, adjacency=adjacency)
    lines = {GRAM, STEP} if n_items == 100 else {GRAM, STEP, EXTENSION}
    assert max(found.values()) <= 1
    assert min(found[label] for label in {*lines, *LABELS, POPULARITY}) >= 0.95, found
    certificate = fits[0].statement().certificate
    releases = certificate["releases"][5:]  # the last of the others is another release of biases
    assert all(release.get("what") == POPULARITY for release in releases)
    assert {release["label"] for release in releases} == {*lines, *LABELS}
    assert f"{STEP} (released: {POPULARITY})" in str(fits[0].statement())
    model = fits[0]
    assert model.list_factors_.shape[1] == 1
    assert np.isfinite(model.predict({0: 5.0, 1: 2.0}, [3, 4])).all()
    model.fit_more(few(), seeded(3.0, adjacency=adjacency), epsilon=3.0)
    assert np.isfinite(model.predict({0: 5.0, 1: 2.0}, [3, 4])).all()


@pytest.mark.parametrize("n_items", [100, 600])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_lines_that_release_graded_popularity_move_by_their_bound_and_no_more(
    monkeypatch: Any, adjacency: Any, n_items: int
) -> None:
    """Someone who likes one of two items moves that one further, and both together by all of the sensitivity."""
    monkeypatch.setattr(Liked, "gains_from_grades", lambda self, std: True)
    rows = [(f"user {user}", (user + at) % n_items, 1.0 + at) for user in range(20) for at in range(5)]

    def fit(ledger: discreet.Ledger, *person: tuple[str, int, float]) -> discreet.DPALS:
        data = discreet.read([*rows, *person], items=range(n_items), value_range=(1, 5))
        model = discreet.DPALS(epsilon=3, delta=DELTA, adjacency=adjacency, n_users_hint=100_000, objective="both")
        return model.fit(data, ledger=ledger)

    one, other = ([("x", item, 5.0), ("x", item + 1, 1.0)] for item in (0, 2))
    given = other if adjacency == "replace" else []
    first = record(monkeypatch, lambda ledger: fit(ledger, *one), None, adjacency=adjacency)
    second = record(monkeypatch, lambda ledger: fit(ledger, *given), first.answers, adjacency=adjacency)
    found, lines = moved(first, second), {GRAM, STEP, *LABELS, *[EXTENSION] * (n_items > 400)}
    assert max(found.values()) <= 1
    assert min(found[label] for label in lines) >= 0.95, found
    releases = zip(first.labels, first.statistics, second.statistics, strict=True)
    changes = [one - other for label, one, other in releases if label in lines]
    assert len(changes) > len(lines)
    assert all(change[0] > 2 * change[1] >= 0 for change in changes)


@pytest.mark.parametrize(("epsilon", "again"), [(0.2, POPULARITY), (0.7, None)])
def test_popularity_is_released_again_only_until_it_is_sure(split: Any, epsilon: float, again: str | None) -> None:
    """Then tastes are looked for even if the noise leaves few items for that."""
    releases = fitted(split[0], objective="both", epsilon=epsilon).statement().certificate["releases"]
    assert [release.get("what") for release in releases if release["label"] == LABELS[0]] == [again]


def test_new_items_and_lost_ones(split: Any, tmp_path: Any) -> None:
    model = fitted(split[0], objective="both")
    kept = [*(item for item in split[0].items if item % 7), 10_001, 10_002]
    columns = split[0].to_arrow().select(["user", "item", "rating"]).to_pydict()
    rows = [row for row in zip(*columns.values(), strict=True) if row[1] % 7]
    again = discreet.read(rows, items=kept, value_range=(0.5, 5))
    model.fit_more(again, seeded(5.0, 2), epsilon=5.0)
    assert len(model.list_factors_) == len(kept)
    model.save(tmp_path / "model")
    loaded = discreet.load(tmp_path / "model")
    history = dict.fromkeys(kept[:5], 4.0)
    assert loaded.recommend(history, n=7).items == model.recommend(history, n=7).items


def test_what_does_not_go_together(split: Any) -> None:
    with pytest.raises(DataError, match="caution: this is for lists by predicted rating"):
        discreet.DPALS(epsilon=1, delta=DELTA, objective="both", caution=1.0).fit(split[0])
    with pytest.raises(DataError, match="objective: one of"):
        discreet.DPALS(epsilon=1, delta=DELTA, objective="lists").fit(split[0])


@pytest.mark.parametrize("seed", [5, 12, 23])
def test_popularity_that_noise_turns_negative(seed: int) -> None:
    rows = [(user, item, 3.0) for user in range(30) for item in (0, 1)]
    few = discreet.read(rows, items=range(40), value_range=(1, 5))
    model = discreet.DPALS(epsilon=0.05, delta=DELTA, objective="both").fit(few, ledger=seeded(0.05, seed))
    assert model.recommend([0], n=3).items
