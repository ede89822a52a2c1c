"""What tables and figures of DPALS share: the three tasks, and the model of 2021 with the hyper-parameters of Table 4.

"DPALS 2021, as published" has the noise that Table 4 prints, "DPALS 2021, exact noise" the same model with its noise
scaled to what epsilon takes; "DPALS" is this library's, with defaults. Gram matrices are projected before penalties are
added, as in code that the authors published later; the other order, as printed, is far worse. Table 4 leaves out the
start and the users' Z: here they are the library's. Where the paper tuned hyper-parameters again for a figure, here
they stay those of Table 4. Choosing them was not charged, by the paper or here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import discreet
from discreet.data.interactions import Interactions
from discreet.papers.data import Labelled, Shape, divided, load, most_rated
from discreet.papers.dpals_tables import DELTA, TABLE_4
from discreet.papers.frank_wolfe.figure_2 import as_published
from discreet.papers.reproduction import Options, Point, Published, fitted, printed, true_epsilon

Array = NDArray[Any]

PAPER = "DPALS (Chien and others 2021)"
PRINTED, EXACT = "DPALS 2021, as published", "DPALS 2021, exact noise"
OURS, OURS_IMPLICIT = "DPALS", "Recommender (DPSVD)"
ALS = "ALS, not private"
TOP_400: Shape = (69_692, 400, 4_490_000)  # Table 2
ML_10M: Shape = (69_878, 10_677, 10_000_000)
ML_20M: Shape = (138_493, 26_744, 20_000_000)
HELD_OUT = 10_000  # users of ML-20M for validation, and as many for the test
EPSILONS = {"ml-10m-top400": (0.8, 4, 8, 16), "ml-10m": (1, 5, 10, 20), "ml-20m": (1, 5, 10, 20)}

# epsilon -> length of the first item vectors for MovieLens 20M, which Table 4 does not print, so that users' vectors
# are about as long as their clip: tried on generated data.
START = {1: 0.1, 5: 0.1, 10: 0.1, 20: 4.0}

# Table 5: mean over 20 runs
TABLE_5: dict[str, dict[float, float]] = {
    "ml-10m-top400": {0.8: 0.8855, 4: 0.8321, 8: 0.8201, 16: 0.8147},
    "ml-10m": {1: 0.9398, 5: 0.8725, 10: 0.8530, 20: 0.8373},
    "ml-20m": {1: 0.3120, 5: 0.3330, 10: 0.3368, 20: 0.3444},
}


@dataclass(frozen=True)
class Task:
    """Data to learn from, and how good a model is.

    Attributes:
        column: Of Table 4.
        label: What the data are.
        measure: The name of what `score` gives.
        train: What models are fitted to.
        score: The measure of a fitted model.
        options: The caller's.
    """

    column: str
    label: str
    measure: str
    train: Interactions
    score: Callable[[Any], float]
    options: Options

    @property
    def delta(self) -> float:
        """The paper's."""
        return DELTA[self.column]

    def point(
        self, method: str, make: Callable[[], Any], epsilon: float | None = None, runs: int | None = None, **keys: Any
    ) -> Point:
        """A point: the model that `make` makes."""

        def run(seed: int) -> Mapping[str, float | None]:
            model = fitted(make(), self.train)
            return {self.measure: self.score(model), "true_epsilon": true_epsilon(model)}

        return Point({"data": self.label, "method": method, "epsilon": epsilon, **keys}, run, runs)

    def of_2021(
        self, epsilon: float, keys: Mapping[str, Any] | None = None, name: str = "DPALS 2021", **other: Any
    ) -> Iterator[Point]:
        """The model of 2021 at an epsilon of Table 4, with both kinds of noise."""
        for end, calibration in (("as published", "given"), ("exact noise", "exact")):
            method = f"{name}, {end}"
            if self.options.wants(method):
                make = partial(table_4, self, epsilon, calibration=calibration, **other)
                yield self.point(method, make, epsilon, **(keys or {}))

    def ours(self, epsilon: float, runs: int | None = None, **keys: Any) -> Iterator[Point]:
        """DPALS with defaults, or for implicit feedback what `Recommender` chooses."""
        method, make = (OURS_IMPLICIT, discreet.Recommender) if self.train.implicit else (OURS, discreet.DPALS)
        if self.options.wants(method):
            yield self.point(method, partial(make, epsilon=epsilon, delta=self.delta), epsilon, runs, **keys)


def table_5(column: str, measure: str, **keys: Any) -> tuple[Published, ...]:
    """The means of Table 5, beside the model of 2021 and ours."""
    methods = (PRINTED, EXACT, OURS_IMPLICIT if column == "ml-20m" else OURS)
    return printed(TABLE_5[column], measure, methods, "Table 5", **keys)


def table_4(task: Task, epsilon: float, **other: Any) -> Any:
    """DPALS as published, with Table 4's hyper-parameters."""
    params = {**TABLE_4[task.column, epsilon], "project_first": True, **other}
    if task.column == "ml-20m":
        params["start_scale"] = START[int(epsilon)]
    if task.options.quick:
        params |= {"rank": 4, "item_fraction": max(params["item_fraction"], 0.2)}
    return discreet.DPALS.as_published(**params)


# The three tasks


def rmse(model: Any, history: Interactions, test: Interactions) -> float:
    """Root mean squared error over all test ratings."""
    return float(np.sqrt(np.mean((model.predict(history, test) - test.values) ** 2)))


def ratings_task(column: str, data: Labelled, valid: float, test: float, options: Options) -> Task:
    """Ratings to be foretold; a test user's vector is solved from her ratings for training and for validation."""
    parts = divided(data, valid, test)
    score = partial(rmse, history=parts.history, test=parts.test)
    return Task(column, parts.label, "rmse", parts.train, score, options)


def top_400(options: Options) -> Task:
    """ML-10M-top400: the 400 most rated films, 98/1/1."""
    return ratings_task("ml-10m-top400", most_rated(load("ml-10m", options, TOP_400)), 0.01, 0.01, options)


def ml_10m(options: Options) -> Task:
    """ML-10M: 80/10/10."""
    return ratings_task("ml-10m", load("ml-10m", options, ML_10M), 0.1, 0.1, options)


def ml_20m(options: Options) -> Task:
    """ML-20M as Liang and others (2018) use it.

    Ratings of at least 4, users with at least 5 of them; 10,000 users for validation and 10,000 to test on are held out
    whole (at most a tenth, of smaller data), and a fifth of a test user's films is to be found among the best 20 that
    she is not known to have seen.
    """
    ratings, label = load("ml-20m", options, ML_20M)
    liked = ratings.to_implicit(4)
    held_out = min(HELD_OUT, liked.n_users // 10)
    train, _, test = discreet.splits.held_out_users(liked, valid=held_out, test=held_out, random_state=98765)

    def recall(model: Any) -> float:
        found = discreet.evaluate(model, test.target, history=test.query, metrics=["recall@20"], confidence=None)
        return float(found["recall@20"])

    return Task("ml-20m", f"{label}, ratings of at least 4", "recall@20", train, recall, options)


TASKS = {"ml-10m-top400": top_400, "ml-10m": ml_10m, "ml-20m": ml_20m}
SOURCES = {"ml-10m-top400": "ml-10m", "ml-10m": "ml-10m", "ml-20m": "ml-20m"}


class Partly:
    """A model of some items; a user's own mean for the others."""

    def __init__(self, make: Callable[[], Any], kept: Array, sample: Callable[[Interactions], Array] | None = None):
        self.model = make()
        self.kept = kept
        self.sample = sample

    def fit(self, train: Interactions) -> Partly:
        """Fit the model to these items, or to the sampled of their ratings."""
        some = train.of_items(self.kept)
        self.mean = discreet.MeanRating("user").fit(train)
        self.model.fit(some if self.sample is None else some.where(self.sample(some)))
        return self

    @property
    def guarantee_(self) -> Any:
        """The model's: which items there are is not charged."""
        return self.model.guarantee_

    def predict(self, history: Interactions, test: Interactions) -> Any:
        """Predictions of test ratings."""
        found = np.array(self.mean.predict(history, test), np.float64)
        inside = np.isin(test.indices, self.kept)
        if inside.any():
            some = test.where(inside).of_items(self.kept)
            found[inside] = self.model.predict(history.of_items(self.kept), some)
        return found


def most_rated_items(train: Interactions, n_items: int) -> Array:
    """The numbers of the items with the most ratings, increasing."""
    counts = np.bincount(train.indices, minlength=train.n_items)
    return np.sort(np.argsort(-counts, kind="stable")[:n_items])


def frank_wolfe(task: Task, epsilon: float, n_items: int, make: Callable[..., Any] = as_published) -> Any:
    """Private Frank-Wolfe of 2018; k and L as in its Figure 2, which the paper does not print for these data."""
    return make(epsilon, 1.5 * (task.train.n_users * n_items) ** 0.5, 8.0, 6, delta=task.delta, centre=True)
