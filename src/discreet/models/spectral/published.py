"""Spectral models as they were published, with their true guarantees."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg import eigh

from discreet.data.interactions import Interactions
from discreet.engine.batches import DENSE_CELLS, user_batches
from discreet.models.as_published import PublishedModel, frank_wolfe_std, true_plan
from discreet.models.base import check_parameters
from discreet.models.centering import RATINGS_PER_USER, SHRINKAGE, Centering
from discreet.models.eigen import check_catalog
from discreet.models.fold_in import FoldIn, LinearFoldIn
from discreet.models.spectral.contributions import COUNTS, COVARIANCE, SUMS, WEIGHTS, Cleansing, RatingRows
from discreet.models.spectral.model import CLAMP, DAMPING, DPCleansedSVD, Predictor
from discreet.privacy import GramSum, Plan, Releaser
from discreet.privacy.guarantee import AdjacencyName
from discreet.validation import probability, whole

SECOND_MOMENT = "second moment of ratings"
ENTRY_EPSILONS = {COUNTS: 0.105, SUMS: 0.105, WEIGHTS: 0.395, COVARIANCE: 0.395}  # of epsilon, for cleansing


@dataclass(kw_only=True, eq=False, repr=False)
class PublishedDPSVD(PublishedModel):
    """Completion by a private SVD, as published: user-level joint differential privacy.

    Users' rows x_i, of length at most L, make W = sum_i x_i x_i^T, which is released with symmetric noise of standard
    deviation L^2 sqrt(64 log(1 / delta)) / epsilon (sensitivity L^2; sqrt(2) L^2 for replace). With V its leading
    eigenvectors, a user's completed row is scale * x_i V V^T, on their own side. The paper's scale, items over ratings
    per user, is computed from the data and so would leak; here it is public. The printed noise is several times what
    (epsilon, delta) takes: `guarantee_` has the epsilon that it truly gives.

    Example:
        >>> import discreet
        >>> model = discreet.DPSVD.as_published(epsilon=5, delta=1e-6)
        >>> round(model.plan(n_items=1000).cost.epsilon(1e-6), 2)  # more noise than it takes
        0.69

    Args:
        epsilon: What the paper would call epsilon.
        delta: And delta.
        rank: r, how many eigenvectors.
        row_norm: L, public; by default from the range of ratings and the number of items.
        scale: What projections are multiplied by, public; by default the number of items over 80, or 1 if there are
            fewer items.
        centre: Whether users subtract their own mean (free under joint differential privacy).
        adjacency: "add-remove" or "replace".
        n_jobs: Threads, in scikit-learn's meaning.
    """

    _error = "the noise is too little for neighbors that differ in a user's whole row"

    epsilon: float
    delta: float
    rank: int = 5
    row_norm: float | None = None
    scale: float | None = None
    centre: bool = True
    adjacency: AdjacencyName = "add-remove"
    n_jobs: int | None = -1

    def _check_parameters(self) -> None:
        probability("delta", self.delta)
        check_parameters(self, positives=("epsilon", "row_norm", "scale"), wholes=("rank",))

    def plan(self, n_items: int) -> Plan:
        """What a fit would release, and what it truly costs; needs only the size of the catalog."""
        self._check_parameters()
        check_catalog(whole("n_items", n_items, 1), self.rank)
        self._mu()  # checks the adjacency
        std = frank_wolfe_std(1.0, 1, self.epsilon, self.delta)
        return true_plan({SECOND_MOMENT: (1.0, True, std, 1)}, self.adjacency)

    def _check_data(self, ratings: Interactions) -> None:
        self._centering(ratings)  # raises if there is no bound

    def _centering(self, ratings: Interactions) -> Centering:
        return Centering.public("PublishedDPSVD", ratings, self.row_norm, centre=self.centre)

    def _learn_privately(self, releaser: Releaser, ratings: Interactions) -> dict[str, Any]:
        n, centering = ratings.n_items, self._centering(ratings)
        users, rows = user_batches(ratings, max(DENSE_CELLS // n, 1)), RatingRows(np.arange(n), n, centering)
        moment = releaser.release(SECOND_MOMENT, GramSum(n, centering.row_norm**2), users, rows)
        vectors = eigh(moment.values, subset_by_index=[n - self.rank, n - 1])[1][:, ::-1]
        scale = self.scale or max(1.0, n / RATINGS_PER_USER)
        return {
            "item_factors_": (vectors * np.sqrt(scale)).astype(np.float32),
            "item_bias_": np.zeros(n, np.float32),
            # How much of all ratings, squared, is of each item: the nearest there is to popularity.
            "popularity_": (np.maximum(np.diag(moment.values), 0) / centering.row_norm**2).astype(np.float32),
            "value_range_": ratings.value_range,
            "implicit_": False,
            "global_mean_": float(centering.centre),
        }

    def _make_fold_in(self) -> FoldIn:
        base = self.item_bias_ + np.float32(self.global_mean_)
        damping = SHRINKAGE if self.centre else None
        return LinearFoldIn(columns=self.item_factors_, base=base, loadings=self.item_factors_, damping=damping)


@dataclass(kw_only=True, eq=False, repr=False)
class PublishedDPCleansedSVD(PublishedModel, DPCleansedSVD):
    """Cleansing with the weights and the noise of 2009, for single ratings; the guarantee is that for users.

    A user's first `max_items` ratings, in a random order, count with weight 1 in sums and counts, with c^-1/2 in the
    covariance and its weights. One rating moves these by at most R, 1, (1 + 2 sqrt 2) B^2 and sqrt 2; each gets noise
    of that times sqrt(2 log(2 / delta')) / epsilon', with its part epsilon', delta' of the budget. The paper was not
    available: its constants are from memory. For users the sensitivities are, with k = `max_items`, sqrt(k) R,
    sqrt(k), sqrt(k) B^2 and sqrt(k) (add-remove). `guarantee_` has what follows.

    Example:
        >>> import discreet
        >>> model = discreet.DPCleansedSVD.as_published(epsilon=5, delta=1e-6)
        >>> round(model.plan(n_items=1000).cost.epsilon(1e-6), 1)  # of a user, where 5 is meant of a rating
        15.5

    Args:
        epsilon: What the paper would call epsilon.
        delta: And delta.
        max_items: k.
        predictor: "svd" or "knn".
        rank: The most directions; by default as many as stand out of the noise.
        neighbours: How many items predict another, for predictor="knn".
        clamp: B, public; by default two fifths of the range of ratings.
        adjacency: "add-remove" or "replace".
        n_jobs: Threads, in scikit-learn's meaning.
    """

    _error = "its weights and noise protect single ratings, not users"

    max_items: int = 80
    predictor: Predictor = "svd"
    spread: None = field(init=False, default=None)  # there was none

    def _check_parameters(self) -> None:
        super()._check_parameters()
        whole("max_items", self.max_items, 1)

    def plan(self, n_items: int) -> Plan:
        """What a fit would release, and what each release truly costs; needs only the size of the catalog."""
        self._check_parameters()
        check_catalog(whole("n_items", n_items, 1), self.rank)
        self._mu()  # checks the adjacency
        root = self.max_items**0.5
        # One rating moves a release by so much; what a user can do is sqrt(k), with nonnegative inner products or not.
        entries = {COUNTS: 1.0, SUMS: 1.0, WEIGHTS: math.sqrt(2), COVARIANCE: 1 + 2 * math.sqrt(2)}
        noise = math.sqrt(2 * math.log(2 * len(entries) / self.delta)) / self.epsilon
        lines = {a: (root, a != SUMS, entries[a] * noise / share, 1) for a, share in ENTRY_EPSILONS.items()}
        return true_plan(lines, self.adjacency)

    def _cleansing(self, low: float, high: float) -> Cleansing:
        width = high - low
        clamp = float(self.clamp or CLAMP * width)
        return Cleansing((low + high) / 2, width / 2, clamp, clamp, DAMPING, self.max_items)
