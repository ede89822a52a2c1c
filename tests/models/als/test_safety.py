"""DPALS on awkward data: never worse than each person's own mean, beyond noise; and where its steps lead."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import discreet
from discreet.data import Interactions
from discreet.models.als.model import DPALS
from discreet.testing import InsecureSeededNoise

DELTA = 1e-6
RNG = np.random.default_rng  # each case has its own generator
Made = tuple[Any, Any, Any, int]  # users, items, ratings, size of the catalog


def rmse(model: Any, history: Interactions, test: Interactions) -> float:
    return float(np.sqrt(np.mean((model.predict(history, test) - test.values) ** 2)))


def fitted(data: Interactions, epsilon: float, seed: int, n_steps: int | None = None) -> DPALS:
    ledger = discreet.Ledger(noise_source=InsecureSeededNoise(seed))
    return DPALS(epsilon=epsilon, delta=DELTA, n_steps=n_steps).fit(data, ledger=ledger)


def chosen(rng: Any, counts: Any, n_items: int, *, skewed: bool = True) -> tuple[Any, Any]:
    """Users and the items they choose: popular ones more often."""
    popularity = np.arange(1, n_items + 1) ** (-0.8 if skewed else 0.0)
    rows = [np.unique(rng.choice(n_items, n, p=popularity / popularity.sum())) for n in counts]
    return np.repeat(np.arange(len(rows)), list(map(len, rows))), np.concatenate(rows)


def stars(ratings: Any) -> Any:
    return np.clip(np.round(ratings), 1, 5)


def pure_noise(rng: Any) -> Made:
    users, items = chosen(rng, np.full(2000, 25), 300)
    return users, items, rng.integers(1, 6, len(users)), 300


def noisy_people(rng: Any) -> Made:
    users, items = chosen(rng, rng.geometric(1 / 30, 2000), 500)
    return users, items, stars(3.5 + rng.normal(0, 0.5, 2000)[users] + rng.normal(size=len(users))), 500


def one_rating(rng: Any) -> Made:
    users, items = chosen(rng, np.ones(4000, int), 300)
    return users, items, rng.integers(1, 6, len(users)), 300


def one_item(rng: Any) -> Made:
    return np.arange(3000), np.zeros(3000, int), rng.integers(1, 6, 3000), 50


def catalog_of_one(rng: Any) -> Made:
    return np.arange(3000), np.zeros(3000, int), rng.integers(1, 6, 3000), 1


def catalog_of_two(rng: Any) -> Made:
    return np.repeat(np.arange(2000), 2), np.tile([0, 1], 2000), rng.integers(1, 6, 4000), 2


def heavy_tails(rng: Any) -> Made:
    users, items = chosen(rng, np.minimum(1 + 3 * rng.pareto(1.0, 2000), 400).astype(int), 400)
    return users, items, stars(3.5 + rng.normal(0, 0.5, 2000)[users] + rng.normal(size=len(users))), 400


def unrated_catalog(rng: Any) -> Made:
    users, items = chosen(rng, np.full(2000, 6), 8, skewed=False)
    return users, items * 500, rng.integers(1, 6, len(users)), 4000


def constant_people(rng: Any) -> Made:
    users, items = chosen(rng, np.full(2000, 15), 200)
    return users, items, np.where(users % 2, 5.0, 1.0), 200


def two_values(rng: Any) -> Made:
    users, items = chosen(rng, np.full(2000, 20), 300)
    return users, items, np.where(rng.random(len(users)) < 0.5, 1.0, 5.0), 300


def loud_and_quiet(rng: Any) -> Made:
    users, items = chosen(rng, np.full(2000, 20), 300)
    return users, items, np.clip(3 + np.where(users % 2, 0.1, 1.6) * rng.normal(size=len(users)), 1, 5), 300


def hardly_any_fives(rng: Any) -> Made:
    users, items = chosen(rng, np.minimum(1 + rng.lognormal(2.5, 1, 3000), 300).astype(int), 800)
    rate = 0.02 * np.exp(0.5 * rng.normal(size=800))
    return users, items, np.where(rng.random(len(users)) < rate[items], 5.0, 1.0), 800


CASES: list[Callable[[Any], Made]] = [
    pure_noise,
    noisy_people,
    one_rating,
    one_item,
    catalog_of_one,
    catalog_of_two,
    heavy_tails,
    unrated_catalog,
    constant_people,
    two_values,
    loud_and_quiet,
    hardly_any_fives,
]


def halves(made: Made, value_range: tuple[float, float] = (1, 5)) -> tuple[Interactions, Interactions]:
    users, items, ratings, n_items = made
    table = pa.table({"user": users, "item": items, "value": np.asarray(ratings, float)})
    data = discreet.read(table, user="user", item="item", value="value", items=range(n_items), value_range=value_range)
    tested = RNG(1).random(len(data)) < 0.2
    return data.where(~tested), data.where(tested)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_never_worse_than_the_own_mean(case: Callable[[Any], Made]) -> None:
    """By more than .5%, where the mean and the spread of users' means can be known; and 9% where they cannot be.

    With an epsilon of .1, what is known of 2,000 users is the range of their ratings and what is usual for ratings.
    """
    train, test = halves(case(RNG(0)))
    own = rmse(discreet.MeanRating("user").fit(train), train, test)
    for epsilon, limit in ((0.1, 1.09), (1.0, 1.01), (10.0, 1.005), (50.0, 1.005)):
        errors = [rmse(fitted(train, epsilon, seed), train, test) for seed in range(2)]
        assert np.mean(errors) <= limit * own, (epsilon, errors, own)


def ten_people(rng: Any) -> Made:
    users, items = chosen(rng, np.full(10, 25), 50, skewed=False)
    return users, items, rng.integers(1, 6, len(users)), 50


def biased_items(rng: Any) -> Made:
    users, items = chosen(rng, np.full(2000, 25), 200)
    offset, bias = rng.normal(0, 0.5, 2000), rng.normal(0, 0.4, 200)
    return users, items, stars(3.5 + offset[users] + bias[items] + rng.normal(size=len(users))), 200


@pytest.mark.xfail(strict=True, reason="not yet: at epsilon 10, 1.9% on average (12 draws), mostly by item biases")
def test_ten_people() -> None:
    """Where the limit of .5% is not kept: with so few people noise is larger than what is shrunk."""
    train, test = halves(ten_people(RNG(0)), (1, 5))
    own = rmse(discreet.MeanRating("user").fit(train), train, test)
    for epsilon in (1.0, 10.0):
        assert np.mean([rmse(fitted(train, epsilon, seed), train, test) for seed in range(2)]) <= 1.005 * own


def test_a_mean_far_from_the_middle_is_found_before_items_are() -> None:
    """With 1,000 people of six ratings each, epsilon 1 tells their mean only if it gets some of what items would."""
    errors = []
    for seed in range(4):
        rng = RNG(seed)
        users, items = chosen(rng, np.full(1000, 6), 100)
        ratings = stars(4.5 + rng.normal(0, 0.5, 1000)[users] + rng.normal(size=len(users)))
        train, test = halves((users, items, ratings, 100))
        own = min(rmse(discreet.MeanRating("user", shrinkage=s).fit(train), train, test) for s in (2.0, 5.0, 12.0))
        errors.append(rmse(fitted(train, 1.0, seed), train, test) / own)
    assert np.mean(errors) <= 1.015, errors


@pytest.mark.parametrize("reach", [10.0, 100.0, 1e6])
def test_a_range_that_is_far_too_wide(reach: float) -> None:
    """The order of magnitude of users' spread is found all the same, and the mean that is not known is not used."""
    train, test = halves(biased_items(RNG(0)), (-reach, reach))
    own = rmse(discreet.MeanRating("user").fit(train), train, test)
    for epsilon, limit in ((0.1, 1.05), (1.0, 1.005), (10.0, 1.005)):
        assert rmse(fitted(train, epsilon, 0), train, test) <= limit * own


def test_ratings_that_are_all_the_same() -> None:
    users, items = chosen(RNG(0), np.full(2000, 15), 200)
    train, test = halves((users, items, np.full(len(users), 4.0), 200))
    for epsilon, limit in ((0.1, 0.3), (1.0, 0.07), (10.0, 0.03), (50.0, 0.01)):
        assert rmse(fitted(train, epsilon, 0), train, test) < limit


def test_kernel_columns_weigh_what_tastes_do() -> None:
    """Next to nothing where ratings are noise: there, their fixed weight would cost."""
    train, _ = halves(pure_noise(RNG(0)))
    tastes = discreet.datasets.movielens_like(2000, 420, 60_000, random_state=0)
    sizes = []
    for data in (train, tastes):
        model = fitted(data, 10.0, 0)
        kernel = model.item_factors_[:, model.item_prior_.shape[1] :] / model.unit_
        sizes.append(float((kernel**2).sum(axis=1).mean()))
    assert sizes[0] < 0.005
    assert sizes[1] > 10 * sizes[0]


def tweets(rng: Any) -> Interactions:
    """Like MovieTweetings: 45% of users have one rating, and items differ far more than tastes."""
    n, m = 6000, 1500
    counts = np.where(rng.random(n) < 0.45, 1, 1 + np.minimum(3 * rng.pareto(1.2, n), 300).astype(int))
    users, items = chosen(rng, counts, m)
    bias, offset = rng.normal(0, 0.5, m), rng.normal(0, 0.6, n)
    u, v = rng.normal(size=(n, 2)), rng.normal(0, 0.25, (m, 2))
    ratings = 3.5 + bias[items] + offset[users] + (u[users] * v[items]).sum(axis=1) + rng.normal(0, 0.7, len(users))
    table = pa.table({"user": users, "item": items, "value": np.clip(ratings, 1, 5)})
    return discreet.read(table, user="user", item="item", value="value", items=range(m), value_range=(1, 5))


@pytest.mark.parametrize("name", ["dense", "sparse", "low rank"])
def test_without_noise_it_is_as_good_as_least_squares(name: str) -> None:
    """A gain that is wrong makes steps slower: more of them have to come to the same."""
    data = {
        "dense": lambda: discreet.datasets.movielens_like(3000, 500, 150_000, random_state=0),
        "sparse": lambda: tweets(RNG(0)),
        "low rank": lambda: discreet.datasets.synthetic_low_rank(3000, 300, 3, random_state=0),
    }[name]()
    train, _, test = discreet.splits.holdout(data, test=0.1, random_state=0)
    best = rmse(discreet.ALS(regularization=12.0).fit(train), train, test)  # with penalties that are not estimated
    assert rmse(fitted(train, 200.0, 0, n_steps=40), train, test) <= 1.01 * best


def test_steps_go_on_where_nothing_is_left_unexplained() -> None:
    """As residuals vanish, users' scales grow: were the shared Gram matrix truncated then, steps would be far off."""
    train, _, test = discreet.splits.holdout(discreet.datasets.synthetic_low_rank(3000), test=0.1, random_state=0)
    assert rmse(fitted(train, 10.0, 0), train, test) < 0.02 * float(np.std(test.values))
