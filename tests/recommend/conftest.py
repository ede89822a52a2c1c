"""Small data, and one of every kind of model."""

import numpy as np
import pytest

import discreet
from discreet.models.als import ALS
from discreet.models.baselines import MeanRating, Popularity

N_ITEMS = 30

MODELS = {
    "ALS": lambda: ALS(rank=4, n_steps=3),
    "ALS without biases": lambda: ALS(rank=4, n_steps=3, biases=False),
    "ALS in double precision": lambda: ALS(rank=4, n_steps=3, dtype="float64"),
    "ALS with a global penalty": lambda: ALS(rank=4, n_steps=3, global_penalty=0.2),
    "implicit ALS": lambda: ALS(rank=4, n_steps=3),
    "MeanRating global": lambda: MeanRating("global"),
    "MeanRating user": lambda: MeanRating("user"),
    "MeanRating item": lambda: MeanRating("item"),
    "MeanRating both": lambda: MeanRating("both"),
    "MeanRating without shrinkage": lambda: MeanRating("both", shrinkage=0.0),
    "Popularity": Popularity,
}


def make_ratings(ids):
    """Ratings 1 to 5 of 60 users for 30 items with the given ids; the last item has none."""
    rng = np.random.default_rng(0)
    taste, kind = rng.standard_normal((60, 2)), rng.standard_normal((N_ITEMS, 2))
    score = np.clip(np.round(3 + taste @ kind.T + 0.3 * rng.standard_normal((60, N_ITEMS))), 1, 5)
    rows = [
        (f"user {u}", ids[i], float(score[u, i])) for u in range(60) for i in range(N_ITEMS - 1) if rng.random() < 0.35
    ]
    return discreet.read(rows, items=ids, value_range=(1, 5))


@pytest.fixture(scope="session")
def ids():
    return [f"film {i}" for i in range(N_ITEMS)]


@pytest.fixture(scope="session")
def ratings(ids):
    return make_ratings(ids)


@pytest.fixture(scope="session")
def models(ratings):
    return {
        name: make().fit(ratings.to_implicit() if name.startswith("implicit") else ratings)
        for name, make in MODELS.items()
    }


@pytest.fixture(params=list(MODELS))
def model(request, models):
    """Each kind of model in turn."""
    return models[request.param]


@pytest.fixture
def als(models):
    return models["ALS"]


@pytest.fixture
def implicit(models):
    return models["implicit ALS"]


@pytest.fixture
def history(ids):
    return {ids[3]: 5.0, ids[7]: 1.0, ids[12]: 4.0, ids[20]: 2.5}
