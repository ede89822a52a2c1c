"""Generators: the shapes that the papers describe."""

import numpy as np
import pytest
from scipy.stats import norm

from discreet.data.datasets import movielens_like, one_bit, rank_one, synthetic_low_rank
from discreet.data.interactions import Interactions
from discreet.data.synthetic import Truth
from discreet.errors import DataError
from tests.data.conftest import check_sound


def test_low_rank_is_as_in_figure_4_of_dpals() -> None:
    n, m = 5000, 1000
    ratings, truth = synthetic_low_rank(n, m, 5, random_state=0, return_truth=True)
    check_sound(ratings)
    ratings.require_public()
    assert ratings.values.std(dtype=np.float64) == pytest.approx(1, abs=1e-6)
    scale = truth.user_factors.T @ truth.user_factors
    assert scale == pytest.approx(scale[0, 0] * np.eye(5), abs=1e-6 * scale[0, 0])  # orthogonal, one length
    assert truth.item_factors.T @ truth.item_factors == pytest.approx(np.eye(5), abs=1e-9)
    values = truth.predict(ratings.user_numbers(), ratings.indices)
    assert np.allclose(ratings.values, values, rtol=0, atol=1e-5)  # no noise
    p = 20 * np.log(n) / m
    counts = np.diff(ratings.indptr)
    assert counts.mean() == pytest.approx(m * p, abs=5 * np.sqrt(m * p * (1 - p) / n))
    assert counts.var() == pytest.approx(m * p * (1 - p), rel=0.1)  # Bernoulli, not a fixed number
    per_item = np.bincount(ratings.indices, minlength=m)
    assert per_item.var() == pytest.approx(n * p * (1 - p), rel=0.25)
    assert ratings == synthetic_low_rank(n, m, 5, random_state=0)
    assert ratings != synthetic_low_rank(n, m, 5, random_state=1)


def test_low_rank_range_is_that_of_the_whole_matrix() -> None:
    ratings, truth = synthetic_low_rank(60, 40, 3, p=0.3, random_state=2, return_truth=True)
    largest = float(np.abs(truth.matrix()).max())
    assert ratings.value_range == pytest.approx((-largest, largest))
    assert synthetic_low_rank(30, 20, 2, p=1.0).indptr[-1] == 600


def test_rank_one_is_as_in_frank_wolfe() -> None:
    ratings, truth = rank_one(3000, 400, random_state=1, return_truth=True)
    check_sound(ratings)
    assert (np.diff(ratings.indptr) == 80).all()
    assert ratings.value_range == (-1.0, 1.0)
    matrix = truth.matrix()
    assert np.abs(matrix).max() == pytest.approx(1)
    assert np.linalg.matrix_rank(matrix) == 1
    assert ratings.values == pytest.approx(matrix[ratings.user_numbers(), ratings.indices], abs=1e-6)
    per_item = np.bincount(ratings.indices, minlength=400)
    assert np.abs(per_item - 600).max() < 6 * np.sqrt(3000 * 0.2 * 0.8)
    assert ratings == rank_one(3000, 400, random_state=1)


@pytest.mark.parametrize("link", ["logistic", "probit"])
@pytest.mark.parametrize(("rank", "alpha"), [(1, 1.0), (3, 2.0)])
def test_one_bit_is_as_in_the_paper(link: str, rank: int, alpha: float) -> None:
    ratings, truth = one_bit(
        600, 500, rank=rank, alpha=alpha, link=link, observed=0.3, random_state=4, return_truth=True
    )
    check_sound(ratings)
    assert set(ratings.values.tolist()) == {-1.0, 1.0}
    matrix = truth.matrix()
    assert np.abs(matrix).max() == pytest.approx(alpha)
    assert np.linalg.matrix_rank(matrix) == rank
    assert len(ratings) == pytest.approx(0.3 * 300_000, abs=5 * np.sqrt(0.21 * 300_000))
    entries = matrix[ratings.user_numbers(), ratings.indices]
    chance = 1 / (1 + np.exp(-entries)) if link == "logistic" else norm.cdf(entries)
    for low, high in [(-alpha, -0.3), (-0.3, 0), (0, 0.3), (0.3, alpha)]:
        inside = (entries >= low) & (entries < high)
        hits, expected = (ratings.values[inside] > 0).sum(), chance[inside].sum()
        assert abs(hits - expected) < 5 * np.sqrt((chance[inside] * (1 - chance[inside])).sum())
    assert len(one_bit()) == pytest.approx(1500, abs=200)


def test_the_noise_of_probit_has_a_scale() -> None:
    loud = one_bit(300, 300, link="probit", sigma=100.0, observed=0.5, random_state=0, return_truth=True)
    quiet = one_bit(300, 300, link="probit", sigma=0.01, observed=0.5, random_state=0, return_truth=True)
    right = [float((np.sign(t.predict(r.user_numbers(), r.indices)) == r.values).mean()) for r, t in (loud, quiet)]
    assert right[0] < 0.52
    assert right[1] > 0.95


@pytest.fixture(scope="module")
def large() -> tuple[Interactions, Truth]:
    """A tenth of MovieLens 10M in users, its whole catalog."""
    return movielens_like(7000, 10_677, 1_001_000, random_state=0, return_truth=True)


def test_movielens_like_has_the_habits_of_movielens(large: tuple[Interactions, Truth]) -> None:
    ratings, _ = large
    check_sound(ratings.where(np.arange(len(ratings)) < 50_000))
    per_user, per_item = np.diff(ratings.indptr), np.bincount(ratings.indices, minlength=ratings.n_items)
    assert len(ratings) == 1_001_000
    assert per_user.min() == 20
    assert 65 <= np.median(per_user) <= 75
    assert per_user.mean() == pytest.approx(143)
    top = np.sort(per_item)[::-1][: ratings.n_items // 5].sum() / len(ratings)
    assert 0.85 < top < 0.92
    counts = per_user[ratings.user_numbers()], per_item[ratings.indices]
    assert -0.4 < np.corrcoef(*counts)[0, 1] < -0.1
    assert set(ratings.values.tolist()) == {half / 2 for half in range(1, 11)}
    assert ratings.values.mean() == pytest.approx(3.55, abs=0.15)  # MovieLens 10M: 3.51
    assert ratings.values.std() == pytest.approx(1.05, abs=0.08)  # 1.06


def test_movielens_like_has_biases_and_a_low_rank_signal(large: tuple[Interactions, Truth]) -> None:
    ratings, truth = large
    users, items = ratings.user_numbers(), ratings.indices
    opinion = np.concatenate(
        [truth.predict(users[at : at + 200_000], items[at : at + 200_000]) for at in range(0, len(ratings), 200_000)]
    )
    bias = truth.mean + truth.user_bias[users] + truth.item_bias[items]

    def error(guess: np.ndarray) -> float:
        return float(np.sqrt(np.mean((ratings.values - np.clip(guess, 0.5, 5)) ** 2)))

    mean = np.full(len(ratings), ratings.values.mean())
    assert error(mean) > error(bias) + 0.05 > error(opinion) + 0.1
    assert error(opinion) == pytest.approx(0.74, abs=0.04)


def test_movielens_like_chooses_by_taste(large: tuple[Interactions, Truth]) -> None:
    """What people watch tells something of their taste, so that implicit feedback has a signal."""
    ratings, truth = large
    at = np.random.default_rng(0).integers(len(ratings), size=100_000)
    users, items = ratings.user_numbers()[at], ratings.indices[at]
    strangers = np.random.default_rng(1).permutation(users)
    own, other = (
        np.einsum("nr,nr->n", truth.user_factors[who], truth.item_factors[items]) for who in (users, strangers)
    )
    assert own.mean() > other.mean() + 0.2


def test_movielens_like_has_a_catalogue(large: tuple[Interactions, Truth]) -> None:
    ratings, _ = large
    ratings.require_public()
    assert ratings.catalogue.column("title")[0] == "Film 1"
    genres = ratings.catalogue.column("genres")
    assert all(genres)
    assert any("|" in genre for genre in genres)
    assert ratings.users[0] == 1


@pytest.mark.parametrize(
    "size", [(1, 1, 1), (3, 4, 12), (50, 30, 60), (200, 100, 3000), (100, 40, 3900), (5, 5000, 9000)]
)
def test_movielens_like_of_any_size(size: tuple[int, int, int]) -> None:
    ratings = movielens_like(*size, random_state=1)
    assert (ratings.n_users, ratings.n_items, len(ratings)) == size
    assert np.diff(ratings.indptr).min() >= min(20, size[2] // size[0])
    check_sound(ratings)
    assert ratings == movielens_like(*size, random_state=1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: movielens_like(3, 3, 10), lambda: movielens_like(5, 5, 4), lambda: movielens_like(0, 3, 1),
        lambda: synthetic_low_rank(10, 5, 6), lambda: synthetic_low_rank(0, 5), lambda: synthetic_low_rank(9, 9, p=2),
        lambda: rank_one(10, 5, per_user=6), lambda: rank_one(0), lambda: one_bit(link="cauchit"),
        lambda: one_bit(alpha=0), lambda: one_bit(observed=0), lambda: one_bit(rank=0),
        lambda: one_bit(3, 3, observed=1e-9),
    ],
)  # fmt: skip
def test_arguments_that_cannot_be(make: object) -> None:
    with pytest.raises(DataError):
        make()  # type: ignore[operator]


@pytest.mark.parametrize("rank", [0, -1])
def test_a_taste_has_at_least_one_dimension(rank: int) -> None:
    with pytest.raises(DataError, match="rank: at least 1"):
        movielens_like(30, 20, 100, rank=rank)
