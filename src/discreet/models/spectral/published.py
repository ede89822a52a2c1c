"""Spectral models as they were published, with their true guarantees."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import eigh

from discreet.data.interactions import Interactions
from discreet.engine import Blocks
from discreet.engine.batches import DENSE_CELLS, kept, uniform, user_batches
from discreet.models.centering import CLAMP, RATINGS_PER_USER, SHRINKAGE, Centering, UserMeans
from discreet.models.eigen import check_catalog
from discreet.models.fold_in import FoldIn, LinearFoldIn
from discreet.models.private import PublishedModel, frank_wolfe_std, true_plan
from discreet.models.spectral.contributions import COUNTS, COVARIANCE, SUMS, WEIGHTS
from discreet.models.spectral.estimate import Cleansed, over_weights
from discreet.models.spectral.model import DPCleansedSVD, Predictor
from discreet.privacy import GramSum, Noisy, Plan, Releaser, Statistic, VectorSum
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array
from discreet.validation import Count, Positive

SECOND_MOMENT = "second moment of ratings"
DAMPING = 5.0  # pseudo-ratings at the average in a user's own mean
ENTRY_EPSILONS = {COUNTS: 0.105, SUMS: 0.105, WEIGHTS: 0.395, COVARIANCE: 0.395}  # shares of epsilon in cleansing


@dataclass(kw_only=True, eq=False, repr=False)
class PublishedDPSVD(PublishedModel):
    """Completion by a private SVD, as published: user-level joint differential privacy.

    Users' rows x_i, of length at most L, make W = sum_i x_i x_i^T, which is released with symmetric noise of standard
    deviation L^2 sqrt(64 log(1 / delta)) / epsilon (sensitivity L^2; sqrt(2) L^2 for replace). With V its leading
    eigenvectors, a user's completed row is scale * x_i V V^T, computed on their own side. The paper computes the scale,
    items over ratings per user, from the data, which would leak; here it is public. The printed noise is several times
    what (epsilon, delta) requires: `guarantee_` has the epsilon that it truly gives.

    Example:
        >>> import discreet
        >>> model = discreet.DPSVD.as_published(epsilon=5, delta=1e-6)
        >>> round(model.plan(n_items=1000).cost.epsilon(1e-6), 2)  # more noise than it takes
        0.69

    Args:
        epsilon: What the paper calls epsilon.
        delta: What the paper calls delta.
        rank: The number of eigenvectors.
        row_norm: L, public; by default from the range of ratings and the number of items.
        scale: A factor of projections, public; by default the number of items over 80, or 1 if there are
            fewer items.
        centre: Whether users subtract their own mean (free under joint differential privacy).
        adjacency: "add-remove" or "replace".
        n_jobs: Number of threads, as in scikit-learn.
    """

    _error = "the noise is too little for neighbors that differ in a user's whole row"

    rank: Count = 5
    row_norm: Positive | None = None
    scale: Positive | None = None
    centre: bool = True

    def _plan(self, n_items: int) -> Plan:
        check_catalog(n_items, self.rank)
        std = frank_wolfe_std(1.0, 1, self.epsilon, self.delta)
        return true_plan({SECOND_MOMENT: (GramSum(n_items, 1.0), std, 1)}, self.adjacency)

    def _check_data(self, ratings: Interactions) -> None:
        self._centering(ratings)  # raises if there is no bound

    def _centering(self, ratings: Interactions) -> Centering:
        return Centering.public("PublishedDPSVD", ratings, self.row_norm, centre=self.centre)

    def _learn_privately(self, releaser: Releaser, ratings: Interactions) -> dict[str, Any]:
        n, centering = ratings.n_items, self._centering(ratings)
        users = user_batches(ratings, max(DENSE_CELLS // n, 1))
        moment = releaser.release(SECOND_MOMENT, GramSum(n, centering.row_norm**2), users, centering.entries)
        vectors = eigh(moment.values, subset_by_index=[n - self.rank, n - 1])[1][:, ::-1]
        scale = self.scale or max(1.0, n / RATINGS_PER_USER)
        return {
            "item_factors_": (vectors * np.sqrt(scale)).astype(np.float32),
            # Each item's sum of squared ratings, as a proxy for popularity.
            "popularity_": (np.maximum(np.diag(moment.values), 0) / centering.row_norm**2).astype(np.float32),
            "global_mean_": float(centering.centre),
        }

    def _make_fold_in(self) -> FoldIn:
        factors, damping = self.item_factors_, SHRINKAGE if self.centre else None
        return LinearFoldIn(columns=factors, base=self._base, loadings=factors, damping=damping)


@dataclass(kw_only=True, eq=False, repr=False)
class PublishedDPCleansedSVD(PublishedModel, DPCleansedSVD):
    """Cleansing with the weights and the noise of 2009, for single ratings; the guarantee is that for users.

    A user's first `max_items` ratings, in a random order, count with weight 1 in sums and counts, with c^-1/2 in the
    covariance and its weights. One rating moves these by at most R, 1, (1 + 2 sqrt 2) B^2 and sqrt 2; each gets noise
    of that times sqrt(2 log(2 / delta')) / epsilon', with its part epsilon', delta' of the budget. The paper was not
    available: its constants are quoted from memory. For users the sensitivities are, with k = `max_items`, sqrt(k) R,
    sqrt(k), sqrt(k) B^2 and sqrt(k) (add-remove). `guarantee_` follows from these.

    Example:
        >>> import discreet
        >>> model = discreet.DPCleansedSVD.as_published(epsilon=5, delta=1e-6)
        >>> round(model.plan(n_items=1000).cost.epsilon(1e-6), 1)  # of a user, where 5 is meant of a rating
        15.5

    Args:
        epsilon: What the paper calls epsilon.
        delta: What the paper calls delta.
        max_items: k, the number of a user's ratings that count.
        predictor: "svd" or "knn".
        rank: The most directions; by default as many as stand out of the noise.
        neighbours: How many items predict another, for predictor="knn".
        clamp: B, public; by default two fifths of the range of ratings.
        adjacency: "add-remove" or "replace".
        n_jobs: Number of threads, as in scikit-learn.
    """

    _error = "its weights and noise protect single ratings, not users"

    max_items: Count = 80
    predictor: Predictor = "svd"
    spread: None = field(init=False, default=None)  # there was none

    def _plan(self, n_items: int) -> Plan:
        check_catalog(n_items, self.rank)
        root = self.max_items**0.5
        # How far one rating moves each release, in units of R and B.
        entries = {COUNTS: 1.0, SUMS: 1.0, WEIGHTS: math.sqrt(2), COVARIANCE: 1 + 2 * math.sqrt(2)}
        noise = math.sqrt(2 * math.log(2 * len(entries) / self.delta)) / self.epsilon
        statistics: dict[str, Statistic] = {
            COUNTS: VectorSum(n_items, root, nonnegative=True),
            SUMS: VectorSum(n_items, root),
            WEIGHTS: GramSum(n_items, root),
            COVARIANCE: GramSum(n_items, root),
        }
        lines = {a: (statistics[a], entries[a] * noise / share, 1) for a, share in ENTRY_EPSILONS.items()}
        return true_plan(lines, self.adjacency)

    def _learn_privately(self, releaser: Releaser, ratings: Interactions) -> dict[str, Any]:
        assert ratings.value_range is not None
        low, high = ratings.value_range
        clamp = float(self.clamp or CLAMP * (high - low))
        cleansed = PublishedCleansing((low + high) / 2, (high - low) / 2, clamp, self.max_items).run(releaser, ratings)
        users = UserMeans((low + high) / 2, SHRINKAGE if self.predictor == "svd" else DAMPING, math.nan, math.nan)
        return self._learned(cleansed, (low, high), users)


@dataclass(frozen=True)
class PublishedCleansing:
    """How users compute contributions, with weights that protect single ratings.

    A user's first `cap` ratings, in a random order, count. With c of them, they add y_j - middle to the sum of an item,
    and 1 to its count. They subtract the averages that follow and their own damped mean, and clamp what is left to
    [-clamp, clamp], r_j. With e_j = 1 on their items, they add r r^T / sqrt(c) to the covariance, and e e^T / sqrt(c)
    to the weights.
    """

    middle: float  # of the range of ratings
    half: float  # R, half the width of the range
    clamp: float  # B
    cap: int  # k, the most ratings of a user

    def run(self, releaser: Releaser, ratings: Interactions) -> Cleansed:
        """Make all releases. Returns estimates from them."""
        n, root = ratings.n_items, self.cap**0.5
        users, some = self.users(ratings), self.users(ratings, max(DENSE_CELLS // n, 1))
        counts = releaser.release(COUNTS, VectorSum(n, root, nonnegative=True), users, _ones)
        sums = releaser.release(SUMS, VectorSum(n, root * self.half), users, self._centered)
        averages = self.middle + item_averages(sums, counts, self.half)
        weights = releaser.release(WEIGHTS, GramSum(n, root), some, _indicators)
        residuals = partial(self.residuals, averages)
        covariance = releaser.release(COVARIANCE, GramSum(n, root * self.clamp**2), some, residuals)
        return Cleansed(averages, counts.values, np.arange(n), *over_weights(covariance, weights, self.clamp**2))

    def users(self, ratings: Interactions, most_users: int | None = None) -> Blocks[UserBatch]:
        """All users, with the ratings that count."""
        return user_batches(ratings, most_users).map(self._capped)

    def _capped(self, part: UserBatch) -> UserBatch:
        return kept(part, uniform(part, self.cap, seed=0))

    def _centered(self, part: UserBatch) -> Array:
        return np.clip(part.values.astype(np.float64) - self.middle, -self.half, self.half)

    def residuals(self, averages: Array, part: UserBatch) -> Array:
        """Some users' entries of sqrt(w) r. Sums are over one user's ratings, in order."""
        about = part.values.astype(np.float64) - averages[part.indices]
        about -= (part.row_sums(about) / np.maximum(part.counts + DAMPING, 1))[part.owners]
        return np.clip(about, -self.clamp, self.clamp) * _indicators(part)


def _ones(part: UserBatch) -> Array:
    return np.ones(len(part.indices))


def _indicators(part: UserBatch) -> Array:
    """Some users' entries of sqrt(w) e."""
    return np.asarray((np.maximum(part.counts, 1) ** -0.25)[part.owners])


def item_averages(sums: Noisy, counts: Noisy, half: float) -> Array:
    """Item averages about the middle, shrunk to the global one by as many pseudo-ratings as a count's noise."""
    totals, known = float(sums.values.sum()), np.maximum(counts.values, 0)
    everywhere = np.clip(totals / max(float(known.sum()), counts.std), -half, half)
    return np.asarray(np.clip((sums.values + counts.std * everywhere) / (known + counts.std), -half, half))
