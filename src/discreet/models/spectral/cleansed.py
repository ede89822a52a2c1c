"""DPCleansedSVD: item averages and a covariance (McSherry and Mironov 2009), in private for users."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import numpy as np

from discreet.data.interactions import Interactions
from discreet.errors import DataError
from discreet.models.as_published import PublishedModel, true_plan
from discreet.models.base import check_parameters, require_ratings
from discreet.models.centering import SPREAD
from discreet.models.directions import Directions
from discreet.models.eigen import check_catalogue, require_rank
from discreet.models.fold_in import FoldIn, LinearFoldIn
from discreet.models.private import PrivateModel
from discreet.models.spectral.cleansing import COUNTS, COVARIANCE, SUMS, WEIGHTS, Cleansing, factored, similarities
from discreet.models.spectral.estimate import rating_fold_in
from discreet.privacy import Plan, Releaser
from discreet.privacy.guarantee import AdjacencyName
from discreet.typing import Array
from discreet.validation import probability, whole

Predictor = Literal["svd", "knn"]

SHARES: dict[str, float | tuple[float, int]] = {COUNTS: 0.05, SUMS: 0.1, WEIGHTS: 0.2, COVARIANCE: 0.65}  # of mu^2
CLAMP = 2 * SPREAD  # of the value range
DAMPING = 5.0  # ratings
ENTRY_EPSILONS = {COUNTS: 0.105, SUMS: 0.105, WEIGHTS: 0.395, COVARIANCE: 0.395}  # of epsilon, as published


class DPCleansedSVD(PrivateModel):
    """Item averages and the covariance of ratings without them: user-level joint differential privacy.

    After McSherry and Mironov (2009), whose weights protect single ratings; here each user's contribution is bounded
    as a whole. With R half the width of the range of ratings, and c a user's own number of them, these are released:

    - item counts and sums of ratings: c^-1/2 and c^-1/2 (y_j - middle of the range) on their items; bounds 1 and R;
    - the covariance, r r^T / c, of what is left of their ratings without items' averages and their own (damped) mean,
      clamped to [-clamp, clamp] and shortened so that its root mean square is at most `spread`; bound
      min(clamp, spread)^2; and its weights, e e^T / c with e_j = 1 on their items; bound 1.

    Bounds are L2 norms of a user's contribution: the sensitivity for add-remove; for replace sqrt(2) times that, for
    sums of ratings twice. docs/proofs/cleansed-svd.md has the proof. The eigenvectors v_k of covariance / weights that
    stand out of the noise, with variances d_k relative to that of a single rating, make the model: a user's a and z
    minimize, on their own side,

        sum over their items of (y_j - average_j - a - sum_k sqrt(d_k) z_k v_jk)^2 + 2 |z|^2 + a^2

    (predictor="svd"). With predictor="knn", a user's rating of an item is predicted from their ratings of the items
    nearest to it, by the cosine of the covariance.

    Example:
        >>> import discreet
        >>> ratings = discreet.datasets.movielens_like(300, 50, 6_000, random_state=0)
        >>> model = discreet.DPCleansedSVD(epsilon=5, delta=1e-6).fit(ratings)
        >>> model.predict({3: 5.0, 14: 1.5}, [7, 8]).shape
        (2,)

    Args:
        epsilon: The privacy budget.
        delta: The delta of the budget, a constant well below 1 / the number of users.
        predictor: "svd" or "knn".
        rank: The most directions; by default as many as stand out of the noise, up to 64, and to half of the items.
        neighbours: How many items predict another, for predictor="knn".
        clamp: B, public; by default two fifths of the range of ratings.
        spread: Public; by default a fifth of that range.
        adjacency: "add-remove" or "replace".
        n_jobs: Threads, in scikit-learn's meaning.
    """

    _ARRAYS: ClassVar[tuple[str, ...]] = (*PrivateModel._ARRAYS, "loadings_")

    loadings_: Array

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        predictor: Predictor = "svd",
        rank: int | None = None,
        neighbours: int = 30,
        clamp: float | None = None,
        spread: float | None = None,
        adjacency: AdjacencyName = "add-remove",
        n_jobs: int | None = -1,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.predictor = predictor
        self.rank = rank
        self.neighbours = neighbours
        self.clamp = clamp
        self.spread = spread
        self.adjacency = adjacency
        self.n_jobs = n_jobs

    @classmethod
    def as_published(cls, **parameters: Any) -> PublishedDPCleansedSVD:
        """With the noise of 2009, which protects single ratings: `PublishedDPCleansedSVD(**parameters)`."""
        return PublishedDPCleansedSVD(**parameters)

    def _check_common(self) -> None:
        probability("delta", self.delta)
        predictors = {"predictor": ("svd", "knn")}
        check_parameters(self, positives=("epsilon", "clamp"), wholes=("neighbours", "rank"), choices=predictors)

    def _check_parameters(self) -> None:
        self._check_common()
        check_parameters(self, positives=("spread",))

    def plan(self, n_items: int) -> Plan:
        """What a fit would release, and what each release costs; needs no data, only the size of the catalogue."""
        self._check_parameters()
        self._check_items(n_items)
        return Plan.gaussian(self._mu(), SHARES)

    def _cleansing(self, low: float, high: float) -> Cleansing:
        width = high - low
        clamp, spread = self.clamp or CLAMP * width, self.spread or SPREAD * width
        return Cleansing((low + high) / 2, width / 2, float(clamp), float(spread), DAMPING)

    def _check_data(self, ratings: Interactions) -> None:
        require_ratings(type(self).__name__, ratings)

    def _check_items(self, n_items: int) -> None:
        whole("n_items", n_items, 1)
        require_rank(self.rank, n_items)
        check_catalogue(n_items)

    def _learn_privately(self, releaser: Releaser, ratings: Interactions) -> dict[str, Any]:
        assert ratings.value_range is not None
        low, high = ratings.value_range
        cleansed = self._cleansing(low, high).run(releaser, ratings)
        if self.predictor == "svd":
            factors = Directions.of(cleansed.covariance, cleansed.edge, self.rank).columns
            loadings = np.zeros((len(factors), 0))
        else:
            factors, loadings = factored(similarities(cleansed.covariance, self.neighbours))
        middle = (low + high) / 2
        return {
            "item_factors_": factors.astype(np.float32),
            "item_bias_": (cleansed.averages - middle).astype(np.float32),
            "popularity_": cleansed.counts.astype(np.float32),
            "loadings_": loadings.astype(np.float32),
            "value_range_": (low, high),
            "implicit_": False,
            "global_mean_": middle,
        }

    def _make_fold_in(self) -> FoldIn:
        """With predictor="knn", columns_j . loadings_l is the similarity of j and l, over the sum of j's neighbors'.

        Since a user has rated only a share of these, about count / items, the sum over their ratings is scaled up.
        """
        columns, base = self.item_factors_, self.item_bias_ + np.float32(self.global_mean_)
        if self.predictor == "knn":
            spread = float(len(base))
            return LinearFoldIn(columns=columns, base=base, loadings=self.loadings_, damping=DAMPING, spread=spread)
        return rating_fold_in(columns, base, centre=True)

    def _check_learned(self) -> None:
        super()._check_learned()
        k = self.item_factors_.shape[1] if self.predictor == "knn" else 0
        if self.loadings_.shape != (len(self.catalogue_), k):
            raise DataError(f"loadings_: {self.loadings_.shape} does not fit {len(self.catalogue_)} items")


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

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        max_items: int = 80,
        predictor: Predictor = "svd",
        rank: int | None = None,
        neighbours: int = 30,
        clamp: float | None = None,
        adjacency: AdjacencyName = "add-remove",
        n_jobs: int | None = -1,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.max_items = max_items
        self.predictor = predictor
        self.rank = rank
        self.neighbours = neighbours
        self.clamp = clamp
        self.adjacency = adjacency
        self.n_jobs = n_jobs

    def _check_parameters(self) -> None:
        self._check_common()
        check_parameters(self, wholes=("max_items",))

    def plan(self, n_items: int) -> Plan:
        """What a fit would release, and what each release truly costs; needs only the size of the catalogue."""
        self._check_parameters()
        self._check_items(n_items)
        self._mu()  # checks the adjacency
        root = self.max_items**0.5
        users = {COUNTS: (root, True), SUMS: (root, False), WEIGHTS: (root, True), COVARIANCE: (root, True)}
        entries = {COUNTS: 1.0, SUMS: 1.0, WEIGHTS: math.sqrt(2), COVARIANCE: 1 + 2 * math.sqrt(2)}
        noise = math.sqrt(2 * math.log(2 * len(entries) / self.delta)) / self.epsilon
        return true_plan(
            {label: (*users[label], entries[label] * noise / share, 1) for label, share in ENTRY_EPSILONS.items()},
            self.adjacency,
        )

    def _least_items(self) -> int:
        return self.rank or 1

    def _cleansing(self, low: float, high: float) -> Cleansing:
        width = high - low
        clamp = float(self.clamp or CLAMP * width)
        return Cleansing((low + high) / 2, width / 2, clamp, clamp, DAMPING, self.max_items, entry_level=True)
