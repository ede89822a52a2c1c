"""Baselines that every recommender should beat: popularity and averages, without privacy and at the same epsilon."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal

import numpy as np

from discreet.data.interactions import Interactions
from discreet.engine.batches import equal_weights, shared_users, user_batches
from discreet.models.base import NotPrivateModel, require_ratings
from discreet.models.centering import private_user_means, with_user_means
from discreet.models.fold_in import FoldIn, RidgeFoldIn
from discreet.models.private import PrivateModel
from discreet.models.shrinkage import item_offsets
from discreet.privacy import Plan, Releaser, UserBatch, VectorSum
from discreet.typing import Array
from discreet.validation import Count, NotNegative

POPULARITY, SUMS = "item popularity", "item sums of ratings"
BOUND = 0.25  # the bound on contributions to the sums, relative to the value range: the norm of a typical one


@dataclass(kw_only=True, eq=False, repr=False)
class Popularity(NotPrivateModel):
    """Recommends to all users what most users have interacted with. Not private.

    score_ij = (number of users of item j) / (number of users). Ratings are not used.

    Example:
        >>> import discreet
        >>> ratings = discreet.datasets.movielens_like(300, 50, 6_000, random_state=0)
        >>> print(discreet.Popularity().fit(ratings).recommend([], n=3).note)
        no history: ranked by popularity

    Args:
        n_jobs: Number of threads for recommending, as in scikit-learn.
    """

    n_jobs: int | None = -1

    def _learn_exactly(self, ratings: Interactions) -> dict[str, Any]:
        counts = np.bincount(ratings.indices, minlength=ratings.n_items)
        return {
            "item_factors_": np.zeros((ratings.n_items, 0), np.float32),
            "item_bias_": (counts / ratings.n_users).astype(np.float32),
            "implicit_": True,  # its scores are not ratings
        }

    def _make_fold_in(self) -> FoldIn:
        return RidgeFoldIn(columns=self.item_factors_, base=self.item_bias_)


@dataclass(eq=False, repr=False)
class MeanRating(NotPrivateModel):
    """Predicts averages: of all ratings, of the user's own, of the item's, or of both together. Not private.

    "global": the mean m of all ratings. "user": m + a_i. "item": m + b_j. "both": m + a_i + b_j, with

        sum over observed (i, j) of (y_ij - m - a_i - b_j)^2 + shrinkage * (sum_i a_i^2 + sum_j b_j^2)

    minimized by updating users and items in turn.

    Example:
        >>> import discreet
        >>> ratings = discreet.datasets.movielens_like(300, 50, 6_000, random_state=0)
        >>> train, _, test = discreet.splits.holdout(ratings, test=0.1)
        >>> model = discreet.MeanRating("both").fit(train)
        >>> discreet.evaluate(model, test, history=train, metrics="rmse")["rmse"] < 1.1
        True

    Args:
        by: "global", "user", "item" or "both".
        shrinkage: The number of pseudo-ratings at the global mean for each user and item.
        n_steps: How many times to update both ("both").
        n_jobs: Number of threads for serving, as in scikit-learn.
    """

    by: Literal["global", "user", "item", "both"] = "both"
    _: KW_ONLY
    shrinkage: NotNegative = 5.0
    n_steps: Count = 10
    n_jobs: int | None = -1

    def _learn_exactly(self, ratings: Interactions) -> dict[str, Any]:
        mean = float(ratings.values.mean(dtype=np.float64))
        residual = ratings.values.astype(np.float64) - mean
        users, items = ratings.user_numbers(), ratings.indices
        b, a = np.zeros(ratings.n_items), np.zeros(ratings.n_users)
        item_counts = np.bincount(items, minlength=ratings.n_items) + self.shrinkage
        user_counts = np.diff(ratings.indptr) + self.shrinkage
        for _ in range(self.n_steps if self.by == "both" else 1):
            if self.by in ("item", "both"):
                b = _ratio(np.bincount(items, residual - a[users], minlength=ratings.n_items), item_counts)
            if self.by == "both":
                a = _ratio(np.bincount(users, residual - b[items], minlength=ratings.n_users), user_counts)
        return {
            "item_factors_": np.zeros((ratings.n_items, 0), np.float32),
            "item_bias_": b.astype(np.float32),
            "global_mean_": mean,
            "implicit_": False,
        }

    def _make_fold_in(self) -> FoldIn:
        offset_penalty = self.shrinkage if self.by in ("user", "both") else None
        return RidgeFoldIn(columns=self.item_factors_, base=self._base, offset_penalty=offset_penalty)


def _ratio(sums: Any, counts: Any) -> Any:
    return np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)


@dataclass(kw_only=True, eq=False, repr=False)
class DPPopularity(PrivateModel):
    """Recommends the same popular items to all users, with user-level differential privacy: the baseline for lists.

    The whole budget goes into one release, in which a user with n items adds 1 / sqrt(n) to each of them: a vector of
    length 1 (docs/proofs/baselines.md). Ratings are not used. A private model whose lists are no better than these, at
    the same epsilon, has learned nothing about tastes.

    Example:
        >>> import discreet
        >>> ratings = discreet.datasets.movielens_like(3000, 50, 60_000, random_state=0)
        >>> len(discreet.DPPopularity(epsilon=1, delta=1e-6).fit(ratings).recommend([], n=3))
        3

    Args:
        epsilon: The privacy budget.
        delta: The delta of the budget, a constant well below 1 / the number of users.
        adjacency: "add-remove" or "replace".
        n_jobs: Number of threads, as in scikit-learn.
    """

    def _plan(self, n_items: int) -> Plan:
        return Plan.gaussian(self._mu(), {POPULARITY: 1.0})

    def _learn_privately(self, releaser: Releaser, ratings: Interactions) -> dict[str, Any]:
        statistic = VectorSum(ratings.n_items, 1.0, nonnegative=True)
        released = releaser.release(POPULARITY, statistic, shared_users(ratings), equal_weights)
        popularity: Array = released.values.astype(np.float32)
        return {
            "item_factors_": np.zeros((ratings.n_items, 0), np.float32),
            "item_bias_": popularity,
            "popularity_": popularity,
            "value_range_": (0.0, 1.0),
            "implicit_": True,  # its scores are not ratings
            "global_mean_": 1.0,
        }

    def _make_fold_in(self) -> FoldIn:
        return RidgeFoldIn(columns=self.item_factors_, base=self.item_bias_)


@dataclass(kw_only=True, eq=False, repr=False)
class DPMeanRating(PrivateModel):
    """Predicts the mean rating of an item and the user's own offset, with user-level joint differential privacy.

    The baseline for ratings: a private model whose error is no lower, at the same epsilon, has learned nothing about
    tastes. It releases the mean of users' means, item popularity and, weighted in the same way, sums of ratings about
    that mean (docs/proofs/baselines.md). Users' own offsets are computed from their own histories.

    Example:
        >>> import discreet
        >>> ratings = discreet.datasets.movielens_like(3000, 50, 60_000, random_state=0)
        >>> discreet.DPMeanRating(epsilon=1, delta=1e-6).fit(ratings).predict({3: 5.0, 14: 1.5}, [7, 8]).shape
        (2,)

    Args:
        epsilon: The privacy budget.
        delta: The delta of the budget, a constant well below 1 / the number of users.
        adjacency: "add-remove" or "replace".
        n_jobs: Number of threads, as in scikit-learn.

    Attributes:
        shrinkage_: The number of pseudo-ratings at the mean in a user's own mean.
    """

    shrinkage_: float = field(init=False)

    def _plan(self, n_items: int) -> Plan:
        return Plan.gaussian(self._mu(), with_user_means({POPULARITY: 0.25, SUMS: 0.75}))

    def _check_data(self, ratings: Interactions) -> None:
        require_ratings("DPMeanRating", ratings)

    def _learn_privately(self, releaser: Releaser, ratings: Interactions) -> dict[str, Any]:
        low, high = require_ratings("DPMeanRating", ratings)
        known, users = private_user_means(releaser, ratings), user_batches(ratings, n_jobs=self.n_jobs)
        m, bound = ratings.n_items, BOUND * (high - low)

        def about_the_mean(batch: UserBatch) -> Array:
            return np.asarray(equal_weights(batch) * (batch.values.astype(np.float64) - known.mean))

        popularity = releaser.release(POPULARITY, VectorSum(m, 1.0, nonnegative=True), users, equal_weights)
        sums = releaser.release(SUMS, VectorSum(m, bound), users, about_the_mean)
        return {
            "item_factors_": np.zeros((m, 0), np.float32),
            "item_bias_": item_offsets(sums, popularity, bound, known.n_users).astype(np.float32),
            "popularity_": popularity.values.astype(np.float32),
            "global_mean_": known.mean,
            "shrinkage_": known.shrinkage,
        }

    def _make_fold_in(self) -> FoldIn:
        return RidgeFoldIn(columns=self.item_factors_, base=self._base, offset_penalty=self.shrinkage_)
