"""DPALS: what a model keeps from one fit to the next, and how it is pooled."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

import discreet
from discreet.models.als.contributions import BIAS
from discreet.models.als.estimate import ItemEstimate, ItemPosterior
from discreet.models.als.knowledge import Knowledge, KnownMoment, StepInformation, standing_of
from discreet.models.als.model import DPALS
from discreet.models.als.moments import Directions, ItemFrequencies
from discreet.privacy.releaser import Noisy
from tests.models.als.test_model import DELTA, seeded

DATA = discreet.datasets.movielens_like(4000, 500, 200_000, random_state=5)


def frequencies(m: int) -> ItemFrequencies:
    sums = np.linspace(50.0, 5.0, m)
    noise = np.full(m, 0.1)
    return ItemFrequencies(np.ones(m), sums, noise, 1000.0, np.zeros(m), sums, noise)


def known(m: int, precision: float) -> Knowledge:
    """Two directions, three frequent items, and other numbers; all with this precision."""
    rng = np.random.default_rng(0)
    own = np.zeros(m), np.eye(5)
    steps = StepInformation(np.tile(precision * np.eye(5), (m, 1, 1)), np.full((m, 5), precision), own)
    moment = KnownMoment(np.ones((3, 3)), np.arange(3), np.array([precision**-0.5 if precision else 1e9, 1.0]))
    return Knowledge(
        unit=1.0,
        users=np.append(rng.random(5), precision**-0.5 if precision else 1e9),
        frequencies=frequencies(m),
        bias=np.column_stack([rng.standard_normal(m), np.full(m, precision)]),
        items=np.column_stack([np.zeros(m), np.ones(m)]),
        chosen=moment,
        residuals=moment,
        loadings=np.eye(3)[:, :2],
        standing=np.column_stack([rng.standard_normal((m, 2)), np.full(m, precision)]),
        steps=steps,
        others=np.zeros((m, 0)),
        others_variance=np.zeros((m, 0)),
    )


def test_pooling_with_nothing_is_the_new_release() -> None:
    m, rng = 8, np.random.default_rng(1)
    nothing, c = known(m, 0.0), frequencies(m)
    users = Noisy(np.array([800.0, 600.0, 200.0, 900.0, 50.0]), 2.0)
    assert np.allclose(nothing.with_users(users)[0].values, users.values)
    bias = Noisy(rng.standard_normal(m), 0.5)
    pooled = nothing.with_bias(bias, c, 1.0, 1.0)
    assert np.allclose(pooled.values, bias.values)
    assert np.allclose(pooled.std, 0.5)
    pairs = Noisy(rng.standard_normal((4, 4)), 0.5)
    assert np.allclose(nothing.chosen.pool(c, 1.0)(pairs, np.arange(4)).values, pairs.values)
    standing = Noisy(rng.standard_normal((m, 2)), 0.5)
    assert np.allclose(nothing.with_standing(standing, c, np.eye(2), 1.0).values, standing.values)
    items = ItemPosterior(rng.standard_normal((m, 5)), np.tile(np.eye(5), (m, 1, 1)))
    steps = nothing.steps
    same = ItemEstimate.of(items, steps.precision, steps.information, steps.own).items
    assert np.allclose(same.mean, items.mean)
    assert np.allclose(same.covariance, items.covariance)


def test_pooling_twice_the_same_halves_the_variance() -> None:
    m, rng = 6, np.random.default_rng(2)
    c, before = frequencies(m), known(m, 1.0)
    bias = Noisy(rng.standard_normal(m), 0.5)
    kept = replace(before, bias=np.column_stack([bias.values / c.sums, (c.sums / bias.std) ** 2]))
    pooled = kept.with_bias(bias, c, 1.0, 1.0)
    assert np.allclose(pooled.values, bias.values)
    assert np.allclose(pooled.std**2, 0.125)
    standing = Noisy(rng.standard_normal((m, 2)), 0.5)
    twice = replace(before, standing=standing_of(standing, c)).with_standing(standing, c, np.eye(2), 1.0)
    assert np.allclose(twice.values, standing.values)
    assert np.allclose(twice.std**2, 0.125)
    pairs, size = Noisy(rng.standard_normal((3, 3)), 0.5), c.sums[:3].sum() ** 2 / c.n_users
    kept = replace(before, chosen=KnownMoment(pairs.values, np.arange(3), np.array([0.5, size])))
    again = kept.chosen.pool(c, 1.0)(pairs, np.arange(3))
    assert np.allclose(again.values, pairs.values)
    assert np.isclose(again.std**2, 0.125)


def test_many_noisy_releases_of_popularity_are_as_good_as_one_that_is_surer() -> None:
    m, n, rng = 3000, 10, np.random.default_rng(6)
    sums, one = rng.exponential(20.0, m) * rng.uniform(0, 2, m) ** 2, np.ones(m)

    def released(std: float) -> Noisy:
        return Noisy(sums + std * rng.standard_normal(m), std)

    std = 40.0
    found = ItemFrequencies.of(one, released(std), released(std), 1000.0)
    for _ in range(n - 1):
        found = found.updated(released(std), 1000.0).weighed(0.0).updated(released(std), 1000.0)
    sure = ItemFrequencies.of(one, released(std / np.sqrt(n)), released(std / np.sqrt(n)), 1000.0)
    errors = [float(np.mean((each.sums - sums) ** 2)) for each in (found, sure)]
    assert errors[0] < 1.1 * errors[1]
    popular = np.argsort(-sums)[:100]
    assert abs(float(found.sums[popular].sum() / sums[popular].sum()) - 1) < 0.1


def test_what_was_known_of_less_data_counts_as_less() -> None:
    ratings = discreet.datasets.movielens_like(4000, 500, 400_000, random_state=5)
    few = ratings.to_arrow().filter(pa.array(np.random.default_rng(0).random(len(ratings.values)) < 0.25))
    few = discreet.read(few, items=ratings.catalogue, value_range=ratings.value_range)
    for first, part in ((ratings, 1.0), (few, 0.25)):
        model = DPALS(epsilon=2.0, delta=DELTA).fit(first, ledger=seeded(2.0))
        assert 0.95 < model._known_share <= 1
        before = bias_precision(model)
        model.fit_more(ratings, seeded(2.0, 2), epsilon=2.0)
        old = before / bias_precision(model)
        assert abs(model._known_share - (1 - old + part * old)) < 0.07


def bias_precision(model: DPALS) -> float:
    releases = model.statement().certificate["releases"]
    found = [each["noise"]["std"] for each in releases if each.get("what", each["label"]) == BIAS]
    return float((np.array(found) ** -2).sum())


def test_items_come_and_go() -> None:
    before = known(4, 2.0)
    after = before.of_items(np.array([-1, 2, 0, -1, 3]))
    assert np.array_equal(after.bias[:, 1], [0, 2, 2, 0, 2])
    assert np.array_equal(after.bias[[1, 2, 4]], before.bias[[2, 0, 3]])
    assert np.array_equal(np.sort(after.chosen.items), [1, 2])  # item 1, which was frequent, is gone
    assert after.chosen.values.shape == (2, 2)
    assert not after.steps.precision[[0, 3]].any()


def test_a_model_that_predicts_badly_counts_less() -> None:
    m, rng = 200, np.random.default_rng(3)
    c = replace(frequencies(m), sums=np.full(m, 100.0))
    bias = 0.3 * rng.standard_normal(m)
    items = np.column_stack([bias, np.full(m, 0.01)])
    released = np.column_stack([bias + 0.1 * rng.standard_normal(m), np.full(m, 100.0)])
    before = replace(known(m, 1.0), items=items, bias=released)
    own = np.sqrt(c.squares) * rng.standard_normal(m)
    same = c.sums * (bias + 0.02 * rng.standard_normal(m)) + own
    assert before.inflation(Noisy(same, 1.0), c, 1.0) == 1
    other = c.sums * 0.3 * rng.standard_normal(m) + own
    assert before.inflation(Noisy(other, 1.0), c, 1.0) > 5


def test_what_item_steps_correct_is_no_difference() -> None:
    """Releases of biases are about users' own means, and so off from the model in a way that stays the same."""
    m, rng = 500, np.random.default_rng(4)
    c = replace(frequencies(m), sums=np.full(m, 100.0))
    bias, shift = 0.3 * rng.standard_normal(m), 0.3 * rng.standard_normal(m)
    released = np.column_stack([bias + shift + 0.1 * rng.standard_normal(m), np.full(m, 100.0)])
    before = replace(known(m, 1.0), items=np.column_stack([bias, np.full(m, 0.001)]), bias=released)
    noise = np.sqrt(c.squares + 1) * rng.standard_normal(m)
    assert before.inflation(Noisy(c.sums * (bias + shift) + noise, 1.0), c, 1.0) < 1.1


def test_columns_that_noise_explains_are_dropped() -> None:
    m, rng = 300, np.random.default_rng(5)
    own = np.full(m, 0.5), np.eye(7)
    for signal in (0.0, 1.0):
        found = rng.standard_normal((m, 7)) * np.sqrt(1.5 + signal * (np.arange(7) > 4))  # 1 of releases, .5 of ratings
        steps = StepInformation(np.tile(np.eye(7), (m, 1, 1)), found, own)
        others = rng.standard_normal((m, 2))
        before = replace(known(m, 1.0), steps=steps, others=others, others_variance=np.ones((m, 2)))
        after = before.proven()
        kept = 2 if signal else 0
        assert after.others.shape == after.others_variance.shape == (m, kept)
        assert np.array_equal(after.steps.information, found[:, : 5 + kept])
        assert after.steps.precision.shape == (m, 5 + kept, 5 + kept)
        assert after.steps.own[1].shape == (5 + kept, 5 + kept)


def test_precisions_without_an_inverse_prove_nothing() -> None:
    for precision in (np.zeros((3, 2, 2)), np.ones((3, 2, 2))):
        assert not StepInformation(precision, np.zeros((3, 2)), (np.ones(3), np.eye(2))).proves(1)


def test_directions_are_found_again() -> None:
    before = replace(known(4, 1.0), loadings=np.eye(3)[:, :2])
    places = np.zeros((4, 2))
    places[:2] = [[0.0, 1.0], [1.0, 0.0]]
    between = before.between(Directions(places, places), 4)
    assert np.allclose(between, [[0, 1], [1, 0]])
    columns = before.columns(between, 0)
    assert np.allclose(columns @ columns.T, np.eye(5))


def error(model: Any, train: Any, test: Any) -> float:
    return float(np.sqrt(np.mean((model.predict(train, test) - test.values) ** 2)))


def test_a_model_of_something_else_does_no_harm() -> None:
    """Its items have the names of others: what it knows is wrong."""
    train, _, test = discreet.splits.holdout(DATA, test=0.2, random_state=0)
    ids = DATA.items.to_list()
    table = train.to_arrow()
    names = dict(zip(ids, np.random.default_rng(0).permutation(ids).tolist(), strict=True))
    wrong = table.set_column(1, table.column_names[1], [[names[i] for i in table.column(1).to_pylist()]])
    wrong = discreet.read(wrong, items=train.catalogue, value_range=train.value_range)
    errors = []
    for seed in range(3):
        model = DPALS(epsilon=3.0, delta=DELTA).fit(wrong, ledger=seeded(3.0, seed))
        model.fit_more(train, seeded(3.0, seed + 10))
        fresh = DPALS(epsilon=3.0, delta=DELTA).fit(train, ledger=seeded(3.0, seed + 10))
        errors.append((error(model, train, test), error(fresh, train, test)))
    misled, anew = np.mean(errors, axis=0)
    assert misled < anew + 0.01
