"""What tables and figures of DPALS share: Tables 4 and 5, the tasks, and the model of 2021.

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

import discreet
from discreet.data.interactions import Interactions
from discreet.models.als.calibration import published_rho_squared, published_rho_squared_for
from discreet.models.als.sampling import lowest, uniform
from discreet.papers.data import Labeled, Shape, divided, load, most_rated
from discreet.papers.frank_wolfe import as_published
from discreet.papers.reproduction import Options, Point, scored
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

PRINTED, EXACT = "DPALS 2021, as published", "DPALS 2021, exact noise"
OURS, OURS_IMPLICIT = "DPALS", "Recommender (DPSVD)"
ALS = "ALS, not private"
TOP_400: Shape = (69_692, 400, 4_490_000)  # Table 2
ML_10M: Shape = (69_878, 10_677, 10_000_000)
ML_20M: Shape = (138_493, 26_744, 20_000_000)
HELD_OUT = 10_000  # users of ML-20M for validation, and as many for the test
DELTA = {"ml-10m-top400": 1e-5, "ml-10m": 1e-5, "ml-20m": 1 / 136_677}

_FIELDS = (
    "rank", "regularization", "global_penalty", "n_steps", "max_items",
    "gram_noise", "rhs_noise", "item_fraction", "preprocessing_noise",
)  # fmt: skip
_COLUMNS = {
    ("ml-10m-top400", 0.8): (50, 90, 0, 2, 40, 126.9, 63.4, 1, 200),
    ("ml-10m-top400", 4): (50, 90, 0, 2, 50, 29.0, 14.5, 1, 200),
    ("ml-10m-top400", 8): (50, 80, 0, 2, 50, 11.3, 11.3, 1, 20),
    ("ml-10m-top400", 16): (50, 80, 0, 2, 50, 5.86, 5.86, 1, 20),
    ("ml-10m", 1): (32, 120, 0, 2, 50, 125.9, 63.0, 0.05, 100),
    ("ml-10m", 5): (128, 80, 0, 2, 50, 27.8, 13.9, 0.4, 20),
    ("ml-10m", 10): (128, 70, 0, 2, 50, 15.5, 7.7, 0.5, 10),
    ("ml-10m", 20): (128, 60, 0, 2, 50, 7.5, 3.8, 0.6, 10),
    ("ml-20m", 1): (32, 0.5, 2, 1, 60, 64.0, 64.0, 0.05, 100),
    ("ml-20m", 5): (32, 0.5, 0.6, 3, 60, 20.2, 20.2, 0.1, 100),
    ("ml-20m", 10): (32, 0.1, 0.4, 3, 100, 14.0, 14.0, 0.05, 100),
    ("ml-20m", 20): (128, 50, 0.4, 1, 60, 3.5, 3.5, 0.05, 100),
}
_RATINGS = {"item_exponent": 0.5, "user_exponent": 1.0, "entry_clip": 5.0, "center": True}
_IMPLICIT = {"item_exponent": 0.0, "user_exponent": 0.0, "entry_clip": 1.0, "center": False}
# Table 4: (data set, epsilon) -> the arguments of DPALS.as_published. By default its noise is scaled, in the paper's
# proportions, to what epsilon really takes; with calibration="given" it is the noise that was printed.
TABLE_4: dict[tuple[str, float], dict[str, Any]] = {
    (column, epsilon): {
        **{"epsilon": epsilon, "delta": DELTA[column], "user_clip": 1.0},
        **dict(zip(_FIELDS, values, strict=True)),
        **(_IMPLICIT if column == "ml-20m" else _RATINGS),
    }
    for (column, epsilon), values in _COLUMNS.items()
}
EPSILONS = {column: [epsilon for name, epsilon in TABLE_4 if name == column] for column in DELTA}

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
    """Data to learn from, and how good a model is."""

    column: str  # of Table 4
    label: str  # what the data are
    measure: str  # the name of what `score` gives
    train: Interactions
    score: Callable[[Any], float]  # of a fitted model
    options: Options

    @property
    def delta(self) -> float:
        """The paper's."""
        return DELTA[self.column]

    def point(
        self, method: str, make: Callable[[], Any], epsilon: float | None = None, runs: int | None = None, **keys: Any
    ) -> Point:
        """A point: the model that `make` makes."""
        found = {"data": self.label, "method": method, "epsilon": epsilon, **keys}
        return Point(found, lambda seed: scored(make(), self.train, self.measure, self.score), runs)

    def private(self, epsilon: float | None, methods: Mapping[str, Callable[[], Any]], **keys: Any) -> Iterator[Point]:
        """Points of those private methods that the caller wants."""
        for method, make in methods.items():
            if self.options.wants(method):
                yield self.point(method, make, epsilon, **keys)

    def dpals_2021(
        self, epsilon: float, keys: Mapping[str, Any] | None = None, name: str = "DPALS 2021", **other: Any
    ) -> Iterator[Point]:
        """The model of 2021 at an epsilon of Table 4, with both kinds of noise."""
        make = partial(self.table_4, epsilon, **other)
        kinds = {"as published": partial(make, calibration="given"), "exact noise": partial(make, calibration="exact")}
        return self.private(epsilon, {f"{name}, {kind}": made for kind, made in kinds.items()}, **(keys or {}))

    def table_4(self, epsilon: float, **other: Any) -> Any:
        """DPALS as published, with Table 4's hyper-parameters."""
        params = {**TABLE_4[self.column, epsilon], "project_first": True, **other}
        if self.column == "ml-20m":
            params["start_scale"] = START[int(epsilon)]
        if self.options.quick:
            params |= {"rank": 4, "item_fraction": max(params["item_fraction"], 0.2)}
        return discreet.DPALS.as_published(**params)

    def ours(self, epsilon: float, **keys: Any) -> Iterator[Point]:
        """DPALS with defaults, or for implicit feedback what `Recommender` chooses."""
        method, model = (OURS_IMPLICIT, discreet.Recommender) if self.train.implicit else (OURS, discreet.DPALS)
        return self.private(epsilon, {method: partial(model, epsilon=epsilon, delta=self.delta)}, **keys)

    def frank_wolfe(self, epsilon: float, n_items: int, make: Callable[..., Any] = as_published) -> Any:
        """Private Frank-Wolfe of 2018; k and L as in its Figure 2, which the paper does not print for these data."""
        return make(epsilon, 1.5 * (self.train.n_users * n_items) ** 0.5, 8.0, 6, delta=self.delta, centre=True)


def ratings_task(column: str, data: Labeled, valid: float, test: float, options: Options) -> Task:
    """Ratings to be predicted; test users' vectors are solved from their ratings for training and for validation."""
    parts = divided(data, valid, test)
    return Task(column, parts.label, "rmse", parts.train, parts.rmse, options)


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
    they are not known to have seen.
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


# Samples of ratings

SAMPLE = 50  # of each user


def uniform_sample(ratings: Interactions) -> Array:
    """Which 50 ratings of each user count."""
    return uniform(UserBatch(ratings.indptr, ratings.indices, ratings.values), SAMPLE, 0)


def adaptive_sample(ratings: Interactions, counted: Array | None = None) -> Array:
    """The 50 whose films are rated least, among all ratings or those counted."""
    indices = ratings.indices if counted is None else ratings.indices[counted]
    counts = np.bincount(indices, minlength=ratings.n_items).astype(np.float64)
    return lowest(UserBatch(ratings.indptr, ratings.indices, ratings.values), SAMPLE, counts)


def held(ratings: Interactions) -> tuple[Array, Array]:
    """Fractions of the items, the most rated first, and what fraction of the ratings they have."""
    counts = np.sort(np.bincount(ratings.indices, minlength=ratings.n_items))[::-1]
    return np.arange(len(counts) + 1) / len(counts), np.concatenate([[0], np.cumsum(counts)]) / counts.sum()


def correlation(ratings: Interactions) -> float:
    """Of how many ratings the user and the item of a rating have."""
    users = np.repeat(np.diff(ratings.indptr), np.diff(ratings.indptr))
    items = np.bincount(ratings.indices, minlength=ratings.n_items)[ratings.indices]
    return float(np.corrcoef(users, items)[0, 1])


class ItemSubset:
    """A model of some items; a user's own mean for the others."""

    def __init__(self, make: Callable[[], Any], kept: Array, sample: Callable[[Interactions], Array] | None = None):
        self.model = make()
        self.kept = kept
        self.sample = sample

    def fit(self, train: Interactions) -> ItemSubset:
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


# Synthetic data

DELTA_SYNTHETIC = 1e-5
K = 150  # ratings of each user, at most

# (n, epsilon) -> entry_clip, penalty of items, of a user with 150 ratings, n_steps, sigma_G / sigma_g, start's share
SETTINGS = {
    (5_000, 1): (1.0, 10_000.0, 0.01, 3, 2.0, 0.1), (5_000, 5): (1.0, 1000.0, 0.01, 1, 2.0, 0.25),
    (5_000, 10): (1.5, 1000.0, 0.03, 1, 2.0, 0.25), (5_000, 20): (2.0, 100.0, 0.3, 1, 2.0, 0.25),
    (10_000, 1): (0.7, 3000.0, 0.003, 1, 1.0, 0.55), (10_000, 5): (1.5, 1000.0, 0.01, 1, 2.0, 0.1),
    (10_000, 10): (1.5, 1000.0, 0.1, 1, 2.0, 0.1), (10_000, 20): (3.0, 300.0, 0.003, 1, 2.0, 0.1),
    (20_000, 1): (1.0, 3000.0, 0.003, 1, 2.0, 0.25), (20_000, 5): (3.0, 1000.0, 0.1, 1, 2.0, 0.4),
    (20_000, 10): (3.0, 1000.0, 0.1, 1, 2.0, 0.1), (20_000, 20): (3.0, 10.0, 0.003, 1, 1.0, 0.1),
    (50_000, 1): (1.5, 3000.0, 0.1, 1, 2.0, 0.4), (50_000, 5): (3.0, 1000.0, 0.1, 1, 1.0, 0.4),
    (50_000, 10): (3.0, 1000.0, 0.1, 1, 1.0, 0.4), (50_000, 20): (3.0, 300.0, 0.003, 1, 1.0, 0.4),
}  # fmt: skip


def low_rank(n_users: int, options: Options) -> Task:
    """The matrix, divided; test users are folded in from what is for training alone."""
    n_items = 200 if options.quick else 1000
    made = discreet.datasets.synthetic_low_rank(n_users, n_items, 5, random_state=0)
    parts = divided(Labeled(made, f"synthetic, rank 5, {n_items} items"), 0.1, 0.1)
    return Task("ml-10m", parts.label, "rmse", parts.train, parts._replace(history=parts.train).rmse, options)


def ball(n_users: int) -> tuple[float, float]:
    """What Frank-Wolfe is told: the nuclear norm of the matrix, and a length that most rows have."""
    return float(np.sqrt(5 * n_users * 1000)), float(np.sqrt(20 * np.log(n_users)))


def algorithm_1(n_users: int, searched: int, **other: Any) -> Any:
    """Algorithm 1 alone, with the clip and the penalties of `SETTINGS` for an epsilon."""
    entry_clip, penalty, user_penalty = SETTINGS[n_users, searched][:3]
    model = {"rank": 5, "regularization": penalty, "item_exponent": 0.0, "typical_count": penalty * K / user_penalty}
    sample = {"entry_clip": entry_clip, "max_items": K, "item_fraction": 1.0, "preprocess": False}
    return discreet.DPALS.as_published(delta=DELTA_SYNTHETIC, **model, **sample, **other)


def from_noisy_svd(n_users: int, epsilon: int, *, exact: bool) -> Any:
    """Algorithm 1 from a noisy SVD."""
    n_steps, ratio, share = SETTINGS[n_users, epsilon][3:]
    # The start gets `share` of the budget: (k / start_noise)^2 = share / (1 - share) times what all steps cost.
    start = K * np.sqrt((1 - share) / share / (n_steps * K * (1 + 1 / ratio**2)))
    charged = published_rho_squared(K, n_steps, ratio, 1.0, np.inf) + 0.5 * (K / start) ** 2
    scale = 1.0 if exact else np.sqrt(charged / published_rho_squared_for(epsilon, DELTA_SYNTHETIC))
    noise = {"gram_noise": ratio * scale, "rhs_noise": scale, "start": "svd", "start_noise": start * scale}
    calibration = "exact" if exact else "given"
    return algorithm_1(n_users, epsilon, epsilon=epsilon, n_steps=n_steps, **noise, calibration=calibration)


def same_noise(n_users: int, sigma: float, steps: int) -> Any:
    """Frank-Wolfe with constant steps that spends what Algorithm 1 does."""
    epsilon = float(fixed_noise(sigma, steps).preview(100).cost.epsilon)
    radius, row_norm = ball(n_users)
    told: dict[str, Any] = {"n_steps": steps, "step": "constant", "radius": radius, "row_norm": row_norm}
    return discreet.DPFrankWolfe(epsilon=epsilon, delta=DELTA_SYNTHETIC, **told, centre=False)


def fixed_noise(sigma: float, steps: int) -> Any:
    """Algorithm 1, with given noise."""
    noise = {"gram_noise": sigma, "rhs_noise": sigma, "calibration": "given"}
    return algorithm_1(20_000, 10, epsilon=1.0, n_steps=steps, **noise)
