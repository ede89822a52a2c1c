"""What scikit-learn asks of an estimator, and its tools on tables of ratings."""

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit, cross_val_score
from sklearn.utils import estimator_checks, get_tags
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted, validate_data

import discreet
from discreet.errors import DataError, NotFitted
from discreet.testing import ModelConformance
from tests.models.test_conformance import _suites as suites

WIDE = 1e6
RATINGS = discreet.datasets.movielens_like(300, 40, 6000, random_state=0)
PARTS = discreet.splits.holdout(RATINGS, test=0.2)
SUITES = suites(ModelConformance)
SPENT = {"epsilon": 5, "delta": 1e-6}

# Checks that a class fails for a reason, each with that reason; a check that passes must not be named here.
NOISE = "every fit draws its own noise, and no seed repeats it"
ERRORS = "input that cannot be read is a DataError, which is a ValueError; the check wants a TypeError"
NOBODY = "whether there is anybody in a table is private, so an empty one is no error"
PCA_FAILS = {
    "check_dtype_object": ERRORS,
    "check_fit_idempotent": NOISE,
    "check_estimators_empty_data_messages": NOBODY,
}


class OfArrays(BaseEstimator):
    """A recommender for full arrays, with which scikit-learn tests: every cell is a rating, `predict` gives all cells.

    A recommender itself takes a table with empty cells, and predicts for histories.
    """

    def __init__(self, model: Any = None) -> None:
        self.model = model

    def _table(self, X: Any, *, reset: bool = False) -> discreet.Interactions:
        array = validate_data(self, X, dtype=np.float64, reset=reset)
        rows = [(user, item, float(array[user, item])) for user, item in np.ndindex(array.shape)]
        return discreet.read(rows, items=range(array.shape[1]), value_range=(-WIDE, WIDE), on_invalid="clip")

    def fit(self, X: Any, y: Any = None) -> "OfArrays":
        self.model_ = clone(self.model).fit(self._table(X, reset=True), y)
        return self

    def predict(self, X: Any) -> Any:
        check_is_fitted(self)
        table = self._table(X)
        return self.model_.predict(table, table).reshape(table.shape)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = get_tags(self.model).non_deterministic
        return tags


def failures(estimator: Any, expected: dict[str, str]) -> dict[str, str]:
    """The checks that fail and are not expected to, and those that are expected to and pass."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(estimator, on_fail=None, on_skip=None)
    assert len(found) > 30
    failed = {one["check_name"]: repr(one["exception"]) for one in found if one["status"] == "failed"}
    unexpected = {name: why for name, why in failed.items() if name not in expected}
    return {**unexpected, **{name: "passes now: name it no more" for name in expected if name not in failed}}


def test_private_principal_components() -> None:
    assert not failures(discreet.DPPCA(1, **SPENT, row_norm=1.0), PCA_FAILS)


@pytest.mark.parametrize(
    ("model", "expected"),
    [(discreet.ALS(rank=2, n_steps=2), {}), (discreet.DPALS(**SPENT, n_steps=1), {"check_fit_idempotent": NOISE})],
    ids=["ALS", "DPALS"],
)
def test_recommenders_on_arrays(model: Any, expected: dict[str, str]) -> None:
    assert not failures(OfArrays(model), expected)


ABOUT_PARAMETERS = (
    "check_estimator_cloneable",
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
    "check_estimator_repr",
    "check_no_attributes_set_in_init",
    "check_get_params_invariance",
    "check_set_params",
)


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.__name__)
def test_parameters_of_every_recommender(suite: Any) -> None:
    model = suite().model()
    for check in ABOUT_PARAMETERS:
        getattr(estimator_checks, check)(type(model).__name__, clone(model))


def test_tags() -> None:
    private, exact = discreet.Recommender(**SPENT), discreet.ALS()
    assert not get_tags(private).input_tags.two_d_array  # cells may be empty, and their range is public
    assert get_tags(private).non_deterministic
    assert not get_tags(exact).non_deterministic
    with pytest.raises(NotFitted, match="fit"):
        exact.n_features_in_  # noqa: B018
    fitted = exact.fit(RATINGS, None)
    check_is_fitted(fitted)
    assert fitted.n_features_in_ == RATINGS.n_items


# -- its tools on tables


def test_tables_are_divided_by_users() -> None:
    assert RATINGS.shape == RATINGS.to_scipy().shape
    assert RATINGS[:10] == RATINGS.of_users(np.arange(10))
    assert RATINGS[[7, 2], ...] == RATINGS.of_users(np.array([2, 7]))
    mask = np.zeros(RATINGS.n_users, bool)
    mask[5:9] = True
    assert RATINGS[mask] == RATINGS[5:9]
    for wrong, words in ((3, "history"), ([1, 1], "twice"), ([RATINGS.n_users], "rows"), ("ann", "rows")):
        with pytest.raises(DataError, match=words):
            RATINGS[wrong]
    with pytest.raises(TypeError, match="not iterable"):
        list(RATINGS)
    assert pickle.loads(pickle.dumps(RATINGS)) == RATINGS


@pytest.mark.parametrize("cv", [3, KFold(3, shuffle=True, random_state=0), ShuffleSplit(3, random_state=0)])
def test_cross_validation(cv: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a model that promises nothing breaks no promise
        scores = cross_val_score(discreet.ALS(rank=2, n_steps=2), RATINGS, cv=cv)
        by_query = cross_val_score(discreet.ALS(rank=2, n_steps=2), *PARTS[::2], cv=cv)
        lists = cross_val_score(discreet.ALS(rank=2, n_steps=2), RATINGS.to_implicit(), cv=cv)
    assert scores.shape == by_query.shape == lists.shape == (3,)
    assert (scores < 0).all()
    assert (by_query < 0).all()
    assert ((lists > 0) & (lists <= 1)).all()


def test_scores_are_those_of_evaluate() -> None:
    query, _, target = PARTS
    for model in (discreet.ALS(rank=2, n_steps=2), discreet.MeanRating("both")):
        fitted = model.fit(query)
        assert fitted.score(query, target) == pytest.approx(-discreet.evaluate(fitted, target, history=query)["rmse"])
    train, wanted = query.to_implicit(), target.to_implicit()
    popular = discreet.Popularity().fit(train)
    found = discreet.evaluate(popular, wanted, history=train, metrics=["recall@20"])
    assert popular.score(train, wanted) == pytest.approx(found["recall@20"])
    assert 0 < popular.score(RATINGS.to_implicit()) < 1
    for X, y, words in (
        (RATINGS.to_scipy(), None, "X: Interactions"),
        (query, target.to_scipy(), "y: Interactions"),
        (query, target[:5], "y: targets of the same users"),
        (query[:1].where(np.zeros(len(query[:1]), bool)), query[:1].where(np.zeros(len(query[:1]), bool)), "nothing"),
    ):
        with pytest.raises(DataError, match=words):
            popular.score(X, y)


def test_a_search_says_that_it_is_not_private() -> None:
    model = discreet.Recommender(**SPENT, objective="ratings")
    search = GridSearchCV(model, {"epsilon": [0.01, 50.0]}, cv=2)
    with pytest.warns(UserWarning, match=r"discreet\.tune\.search chooses privately"):
        search.fit(RATINGS)
    assert search.best_params_ == {"epsilon": 50.0}
    assert search.best_estimator_.recommend({}, n=3).items
    private = GridSearchCV(discreet.DPALS(**SPENT), {"n_steps": [1]}, cv=2, scoring=of_lists)
    private.fit(RATINGS)
    assert 0 < private.best_score_ < 1


def of_lists(model: Any, X: Any, y: Any = None) -> float:
    query, _, target = discreet.splits.holdout(X, test=0.2)
    return float(discreet.evaluate(model, target, history=query, metrics=["ndcg@10"])["ndcg@10"])
