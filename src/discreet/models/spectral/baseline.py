"""SVD without privacy: what DPSVD would do if there were no noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.data.interactions import Interactions
from discreet.engine.batches import DENSE_CELLS, parts
from discreet.models.base import NotPrivateModel, check_parameters, require_ratings
from discreet.models.centering import Centering
from discreet.models.eigen import check_catalogue, require_rank, second_moment
from discreet.models.fold_in import FoldIn
from discreet.models.spectral.contributions import RatingRows
from discreet.models.spectral.estimate import rating_factors, rating_fold_in
from discreet.privacy import Noisy


class SVD(NotPrivateModel):
    """Completion of ratings by the leading eigenvectors of their second moment. Not private: the twin of `DPSVD`.

    Users' rows are centered by their own means, with 0 for items that they have not rated. With q_k the eigenvectors of
    the sum of the rows' outer products, and d_k how much rows vary along them, relative to how much a single rating
    varies by itself, a user's a and z minimize

        sum over their items of (y_j - middle of the range - a - sum_k sqrt(d_k) z_k q_jk)^2 + 2 |z|^2 + a^2.

    Example:
        >>> import discreet
        >>> ratings = discreet.datasets.movielens_like(300, 50, 6_000, random_state=0)
        >>> len(discreet.SVD().fit(ratings).recommend({3: 5.0, 14: 1.5}, n=5))
        5

    Args:
        rank: How many directions; by default up to 64, and half of the items.
        centre: Whether users subtract their own mean.
        n_jobs: Threads, in scikit-learn's meaning.
    """

    def __init__(self, rank: int | None = None, *, centre: bool = True, n_jobs: int | None = -1) -> None:
        self.rank = rank
        self.centre = centre
        self.n_jobs = n_jobs

    def _check_parameters(self) -> None:
        check_parameters(self, wholes=("rank",))

    def _learn_exactly(self, ratings: Interactions) -> dict[str, Any]:
        value_range = require_ratings("SVD", ratings)
        require_rank(self.rank, ratings.n_items)
        check_catalogue(ratings.n_items)
        longest = 2 * max(map(abs, value_range)) * ratings.n_items**0.5  # no row is longer
        centering = Centering.of(value_range, longest, centre=self.centre)
        items = np.arange(ratings.n_items)
        blocks = parts(ratings, ratings.values, most_users=max(DENSE_CELLS // len(items), 1))
        moment = second_moment(blocks, RatingRows(items, len(items), centering), len(items), self.n_jobs)
        factors = rating_factors(Noisy(moment, 0.0), items, len(items), self.rank)
        return {
            "item_factors_": factors.astype(np.float32),
            "item_bias_": np.zeros(len(items), np.float32),
            "global_mean_": float(centering.centre),
        }

    def _make_fold_in(self) -> FoldIn:
        base = self.item_bias_ + np.float32(self.global_mean_)
        return rating_fold_in(self.item_factors_, base, centre=self.centre)
