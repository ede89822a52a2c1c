"""What every recommender must beat: popularity and averages. Not private."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np

from discreet.data.interactions import Interactions
from discreet.errors import DataError
from discreet.models.base import NotPrivateModel, check_parameters
from discreet.models.fold_in import FoldIn, RidgeFoldIn


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
        n_jobs: Threads for recommending, in scikit-learn's meaning.
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

    minimized by users and items taking turns.

    Example:
        >>> import discreet
        >>> ratings = discreet.datasets.movielens_like(300, 50, 6_000, random_state=0)
        >>> train, _, test = discreet.splits.holdout(ratings, test=0.1)
        >>> model = discreet.MeanRating("both").fit(train)
        >>> discreet.evaluate(model, test, history=train, metrics="rmse")["rmse"] < 1.1
        True

    Args:
        by: "global", "user", "item" or "both".
        shrinkage: How many ratings at the global mean are added to each user and item.
        n_steps: How often users and items take turns ("both").
        n_jobs: Threads for serving, in scikit-learn's meaning.
    """

    by: Literal["global", "user", "item", "both"] = "both"
    _: KW_ONLY
    shrinkage: float = 5.0
    n_steps: int = 10
    n_jobs: int | None = -1

    def _check_parameters(self) -> None:
        check_parameters(self, wholes=("n_steps",), choices={"by": ("global", "user", "item", "both")})
        if not (isinstance(self.shrinkage, int | float) and 0 <= self.shrinkage < np.inf):
            raise DataError(f"shrinkage: a finite number of at least 0 is needed, not {self.shrinkage!r}")

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
        base = self.item_bias_ + np.float32(self.global_mean_)
        offset_penalty = self.shrinkage if self.by in ("user", "both") else None
        return RidgeFoldIn(columns=self.item_factors_, base=base, offset_penalty=offset_penalty)


def _ratio(sums: Any, counts: Any) -> Any:
    return np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
