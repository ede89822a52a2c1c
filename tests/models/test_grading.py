"""Ratings as graded likes."""

from typing import Any

import numpy as np
import pytest

import discreet
from discreet.engine.batches import standing, weights
from discreet.models.fold_in import LinearFoldIn
from discreet.models.grading import SLOPE, Grading
from discreet.privacy.statistics import UserBatch
from discreet.web.scoring import table_of

GRADING = Grading(mean=3.0, shrinkage=2.0, unit=1.5)


def of(*rows: list[float]) -> UserBatch:
    indptr = np.cumsum([0, *map(len, rows)])
    return UserBatch(indptr, np.concatenate([np.arange(len(row)) for row in rows]), np.concatenate(rows))


def test_an_item_counts_by_how_far_its_rating_is_above_the_own_mean() -> None:
    ratings = np.array([5.0, 4.0, 1.0])
    own = (ratings.sum() + 2 * 3.0) / 5
    expected = np.maximum(1 + SLOPE * (ratings - own) / 1.5, 0)
    np.testing.assert_allclose(GRADING(of(ratings.tolist())), expected, rtol=1e-12)
    assert expected[0] > 1 > expected[2]


def test_grades_are_not_negative_and_ones_own_to_the_last_bit() -> None:
    rng = np.random.default_rng(0)
    rows = [rng.uniform(-1000, 1000, n).tolist() for n in (1, 7, 0, 300, 2)]
    among = np.split(GRADING(of(*rows)), np.cumsum([len(row) for row in rows])[:-1])
    for row, own in zip(rows, among, strict=True):
        assert (own >= 0).all()
        np.testing.assert_array_equal(own, GRADING(of(row)))


def test_ratings_that_are_all_alike_count_alike() -> None:
    grades = GRADING(of([4.0] * 6))
    assert (grades == grades[0]).all()
    assert grades[0] > 0


def test_a_history_is_graded_in_the_same_way() -> None:
    model = discreet.Popularity().fit([(0, item, 3.0) for item in range(12)], items=list(range(12)), value_range=(1, 5))
    m = len(model.items_)
    loadings = np.random.default_rng(1).standard_normal((m, 3))
    weights = np.linspace(0, 2, m)
    fold_in = LinearFoldIn(columns=loadings, base=np.zeros(m), loadings=loadings, weights=weights, grading=GRADING)
    items, ratings = np.array([1, 5, 9]), np.array([5.0, 1.0, 3.0])
    _, vectors = fold_in.fold_in(table_of(model, [(items, ratings)]), 1)
    own = weights[items] * GRADING(UserBatch(np.array([0, 3]), items, ratings))
    np.testing.assert_allclose(vectors[0], own / np.linalg.norm(own) @ loadings[items], rtol=1e-6)
    added = fold_in.contributions(items, ratings, 7)
    np.testing.assert_allclose(added.sum(), vectors[0] @ loadings[7], rtol=1e-6)
    assert fold_in.describe()[0]["grading"] == {"mean": 3.0, "shrinkage": 2.0, "slope": SLOPE / 1.5}


@pytest.mark.parametrize("scale", [(0.0, 1.0, np.inf), (2.5, 0.8, 2.0)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_compiled_functions_grade_to_the_same_bits(scale: tuple[float, float, float], dtype: type) -> None:
    rng = np.random.default_rng(1)
    given = of(*[rng.uniform(-5, 10, n).tolist() for n in (1, 7, 0, 30, 2)])
    given = UserBatch(given.indptr, given.indices, given.values.astype(dtype))
    middle, unit, reach = scale
    values = np.clip((given.values.astype(np.float64) - middle) / unit, -reach, reach)
    graded = GRADING.apply(UserBatch(given.indptr, given.indices, values))
    loadings, a, chosen = rng.standard_normal((30, 3)), rng.random(30), rng.random(30)
    compiled: dict[str, Any] = {"rated": GRADING.numbers, "scale": scale}
    np.testing.assert_array_equal(weights(a, **compiled)(given), weights(a, rated=True)(graded))
    expected = standing(loadings, chosen, a, rated=True, by_length=True)(graded)
    for own, other in zip(standing(loadings, chosen, a, by_length=True, **compiled)(given), expected, strict=True):
        np.testing.assert_array_equal(own, other)
