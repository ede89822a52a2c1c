"""ALS: its objective, its parameters, and how good it is on generated data."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import discreet
from discreet.data import Interactions
from discreet.errors import DataError, PrivacyError
from discreet.models.als import ALS

Array = NDArray[Any]


@pytest.fixture(scope="module")
def ratings() -> Interactions:
    return discreet.datasets.movielens_like(60, 30, 900, random_state=3)


def objective(model: ALS, data: Interactions, U: Array, a: Array) -> float:
    """The sum in the docstring, written out."""
    V, b = model.item_factors_.astype(np.float64), model.item_bias_.astype(np.float64)
    dense, seen = data.to_scipy().toarray(), np.zeros((data.n_users, data.n_items), bool)
    seen[data.user_numbers(), data.indices] = True
    biases = model.biases_
    mean = model.global_mean_ if biases else 0
    predicted = mean + a[:, None] + b + U @ V.T
    weights = []
    for counts, given in ((seen.sum(1), model.user_exponent), (seen.sum(0), model.item_exponent)):
        exponent = 0.5 if given is None else given
        power = np.maximum(counts, 1).astype(float) ** exponent
        weights.append(power / power.mean())
    penalty = model.folding_[0] * ((weights[0] * (U**2).sum(1)).sum() + (weights[1] * (V**2).sum(1)).sum())
    whole = (model.global_penalty or 0) * ((U @ V.T) ** 2).sum()
    bias = model.offset_penalty_ * ((a**2).sum() + (b**2).sum()) if biases else 0
    return float(((dense - predicted)[seen] ** 2).sum() + whole + penalty + bias)


def state(model: ALS, data: Interactions) -> tuple[Array, Array]:
    a, U = model._user_vectors(data)
    return U.astype(np.float64), a.astype(np.float64)


SETTINGS: list[dict[str, Any]] = [
    {"biases": True},
    {"biases": False},
    {"biases": True, "global_penalty": 0.3, "user_exponent": 1.0, "item_exponent": 0.0},
    {"biases": False, "global_penalty": 0.3, "rank": 40},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_every_step_lowers_the_objective(ratings: Interactions, settings: dict[str, Any]) -> None:
    given = {"rank": 5, "regularization": 2.0, "dtype": "float64", **settings}
    values = []
    for n_steps in (1, 2, 4, 8):
        model = ALS(**given, n_steps=n_steps).fit(ratings)
        values.append(objective(model, ratings, *state(model, ratings)))
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_user_is_folded_in_at_the_minimum(ratings: Interactions, settings: dict[str, Any]) -> None:
    model = ALS(**{"rank": 5, "regularization": 2.0, "dtype": "float64", "n_steps": 3, **settings}).fit(ratings)
    U, a = state(model, ratings)
    best = objective(model, ratings, U, a)
    rng = np.random.default_rng(0)
    for size in (1e-3, 1e-1):
        moved = U + size * rng.standard_normal(U.shape)
        assert objective(model, ratings, moved, a) > best
        if model.biases_:
            assert objective(model, ratings, U, a + size * rng.standard_normal(a.shape)) > best


def test_conjugate_gradients_come_to_the_same(ratings: Interactions) -> None:
    given: dict[str, Any] = {"rank": 4, "regularization": 5.0, "dtype": "float64", "n_steps": 20}
    exact = ALS(**given).fit(ratings)
    quick = ALS(**given, solver="cg", cg_steps=3).fit(ratings)
    reached = [objective(model, ratings, *state(model, ratings)) for model in (exact, quick)]
    assert reached[1] == pytest.approx(reached[0], rel=0.01)


def test_more_steps_of_conjugate_gradients_come_nearer(ratings: Interactions) -> None:
    given: dict[str, Any] = {"rank": 12, "dtype": "float64", "n_steps": 1, "random_state": 0}
    exact = ALS(**given).fit(ratings)
    off = [
        np.abs(exact.item_factors_ - ALS(**given, solver="cg", cg_steps=n).fit(ratings).item_factors_).max()
        for n in (1, 30)
    ]
    assert off[1] < 1e-8 < off[0]


def test_implicit_feedback_has_no_biases(ratings: Interactions) -> None:
    with pytest.raises(DataError, match="biases"):
        ALS(biases=True).fit(ratings.to_implicit())


def test_precisions_agree(ratings: Interactions) -> None:
    single, double = (ALS(4, dtype=kind, n_steps=5).fit(ratings) for kind in ("float32", "float64"))  # type: ignore[arg-type]
    assert single.item_factors_.dtype == np.float32
    assert double.item_factors_.dtype == np.float64
    assert np.allclose(single.predict(ratings, ratings), double.predict(ratings, ratings), atol=1e-3)


def test_learns_more_than_averages() -> None:
    data = discreet.datasets.movielens_like(3000, 400, 150_000, random_state=5)
    train, _, test = discreet.splits.holdout(data, test=0.1, random_state=0)
    errors = {}
    for model in (discreet.MeanRating("user"), discreet.MeanRating("both"), ALS()):
        predicted = model.fit(train).predict(train, test)
        errors[repr(model)] = float(np.sqrt(np.mean((predicted - test.values) ** 2)))
    own, both, als = errors.values()
    assert als < both - 0.01 < own - 0.02


def rmse(model: ALS, train: Interactions, test: Interactions) -> float:
    return float(np.sqrt(np.mean((model.predict(train, test) - test.values) ** 2)))


def test_estimated_penalties_do_not_depend_on_the_scale_of_ratings() -> None:
    data = discreet.datasets.movielens_like(400, 60, 9_000, random_state=2)
    train, _, test = discreet.splits.holdout(data, test=0.1, random_state=0)
    low, high = data.value_range or (0.5, 5.0)
    wide = [one.rescale(-1000, 1000) for one in (train, test)]
    narrow = rmse(ALS(dtype="float64").fit(train), train, test)
    assert rmse(ALS(dtype="float64").fit(wide[0]), *wide) == pytest.approx(narrow * 2000 / (high - low), rel=1e-3)


def test_estimated_penalties_fit_better_than_given_ones() -> None:
    data = discreet.datasets.movielens_like(3000, 400, 90_000, random_state=5)
    train, _, test = discreet.splits.holdout(data, test=0.1, random_state=0)
    given = min(rmse(ALS(regularization=value).fit(train), train, test) for value in (6.0, 12.0, 24.0))
    assert rmse(ALS().fit(train), train, test) < given - 0.003


def test_the_offset_penalty_is_within_over_between_variance() -> None:
    rng = np.random.default_rng(0)
    values = 0.5 * rng.standard_normal((2000, 1)) + rng.standard_normal((2000, 20))  # the ratio of variances is 4
    users, items = np.divmod(np.arange(values.size), 20)
    table = list(zip(users.tolist(), items.tolist(), values.ravel().tolist(), strict=True))
    data = discreet.read(table, value_range=(-8, 8), items=list(range(20)))
    model = ALS(rank=2, n_steps=2).fit(data)
    assert model.offset_penalty_ == pytest.approx(4, rel=0.15)
    assert model.folding_[3] == pytest.approx(1, rel=0.1)  # noise is all that is left


@pytest.mark.parametrize("name", ["regularization", "bias_regularization", "user_exponent", "global_penalty"])
def test_a_given_penalty_turns_estimation_off(ratings: Interactions, name: str) -> None:
    model = ALS(**{"rank": 3, "n_steps": 1, name: 1.0}).fit(ratings)
    assert model.item_factors_.shape[1] == 3
    assert not model.item_prior_.size


def test_ratings_that_are_all_the_same() -> None:
    table = [(0, 0, 3.0), (0, 1, 3.0), (1, 1, 3.0), (2, 2, 3.0)]
    model = ALS().fit(discreet.read(table, value_range=(1, 5), items=[0, 1, 2, 3]))
    assert np.allclose(model.predict({0: 3.0}, [1, 2, 3]), 3.0)


def test_estimation_by_conjugate_gradients(ratings: Interactions) -> None:
    exact, quick = (ALS(4, solver=kind, dtype="float64", n_steps=20).fit(ratings) for kind in ("exact", "cg"))  # type: ignore[arg-type]
    assert np.allclose(exact.predict(ratings, ratings), quick.predict(ratings, ratings), atol=0.05)


def test_defaults_follow_the_kind_of_data(ratings: Interactions) -> None:
    explicit, implicit = ALS(n_steps=1).fit(ratings), ALS(n_steps=1).fit(ratings.to_implicit())
    assert explicit.item_prior_.shape[1] == min(64, ratings.n_items)  # few items: 16 of many
    assert explicit.biases_
    assert implicit.item_factors_.shape[1] == 64
    assert not implicit.biases_
    assert implicit.gram_.shape == (64, 64)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rank", 0),
        ("rank", 2.5),
        ("n_steps", 0),
        ("regularization", 0),
        ("regularization", float("nan")),
        ("bias_regularization", -1),
        ("user_exponent", float("inf")),
        ("global_penalty", "much"),
        ("solver", "qr"),
        ("dtype", "float16"),
        ("random_state", "x"),
        ("random_state", -1),
        ("n_jobs", "2"),
    ],
)
def test_bad_parameters_are_named(ratings: Interactions, name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        ALS(**{name: value}).fit(ratings)


def test_a_ledger_is_refused(ratings: Interactions) -> None:
    with pytest.raises(PrivacyError, match="not private"):
        ALS().fit(ratings, ledger=discreet.Ledger(epsilon=1, delta=1e-6))


def test_nothing_to_learn_from() -> None:
    with pytest.raises(DataError, match="interaction"):
        ALS().fit(discreet.datasets.movielens_like(20, 5, 60, random_state=0).where(np.zeros(60, bool)))
