"""Spectral models: eigenvectors of noisy second-moment matrices, of histories or of ratings; and SVD without noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from discreet.data.catalogue import item_features
from discreet.data.interactions import Interactions
from discreet.engine import Blocks
from discreet.engine.batches import dense_users, equal_weights, on_items, parts, shared_users, user_batches, weights
from discreet.errors import DataError
from discreet.models.base import NotPrivateModel, require_ratings
from discreet.models.centering import CLAMP, SPREAD, Centering, Shares, UserMeans, private_user_means, with_user_means
from discreet.models.choices import LABELS, POPULARITY, SECOND_MOMENT, choice_shares, learn_choices
from discreet.models.eigen import check_catalog, places, rating_directions, require_rank, second_moment
from discreet.models.fold_in import FoldIn, LinearFoldIn
from discreet.models.grading import Grading
from discreet.models.private import PrivateModel
from discreet.models.spectral.contributions import COUNTS, COVARIANCE, SUMS, WEIGHTS, Cleansing
from discreet.models.spectral.estimate import Cleansed, factored, rating_factors, rating_fold_in, similarities
from discreet.models.taste import COMMON_TASTE, Chosen, exploration
from discreet.privacy import GramSum, Noisy, Plan, Releaser, VectorSum
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array
from discreet.validation import Count, Positive, whole

Predictor: TypeAlias = Literal["svd", "knn"]

SHARES: Shares = {COUNTS: 0.05, SUMS: 0.1, WEIGHTS: 0.2, COVARIANCE: 0.65}  # shares of mu^2


def popularity_share(mu: float) -> float:
    """The share of mu^2 for popularity: with more noise, finding the popular items needs a larger one."""
    return float(min(max(0.1 * mu**-0.3, 0.05), 0.5))


@dataclass(kw_only=True, eq=False, repr=False)
class DPSVD(PrivateModel):
    """Private recommender for implicit feedback and for ratings, with user-level joint differential privacy.

    It finds directions of taste, the leading eigenvectors of a noisy second moment of users' histories. A user's own
    history is then regressed on them, on their side: no noise is added to it, and it never leaves. All formulas and the
    proof: docs/proofs/dpsvd.md.

    **Implicit feedback.** Three statistics are released, each of which one user can change by at most 1 in the L2 norm
    (add-remove), or sqrt(2), for the last one 2 (replace):

    - item popularity, in which each user is a vector of norm 1: 15% of mu^2 at epsilon 1, 8% at 10 (delta 1e-5);
    - second moment of histories, 60% of the rest: on the most popular items J, as many as stand out of the noise, and
      without the taste that all users share;
    - power step, 40%: where histories are short and J has less than half of all choices, it estimates the directions
      for many more items. Elsewhere it is the second moment again, whose mean has less noise.

    Eigenvectors q_k are kept if their eigenvalues stand out of the noise, and shrunk by how far the noise has rotated
    them. With variances d_k, and p the direction of common taste, a user's vector is the z that minimizes

        |h - (h.p) p - sum_k sqrt(d_k) z_k q_k|^2 + lam |z|^2

    where h is the history given to `recommend`, and the score of an item in J is its prediction. All other items
    compete by their popularity alone. If hardly more items are clearly popular than a list has places, popularity is
    released again until it is sure, and lists are as good as those of `DPPopularity`.

    **Ratings as graded likes**, with objective="lists". The same, after two small releases, of users' means and
    variances (docs/proofs/own-mean.md), at the same total cost. An item counts more for a user the higher it is above
    their own mean. `predict` gives scores, not ratings.

    **Ratings**, to predict them. Popularity, one second moment, and the two small releases are released. Rows are the
    user's ratings less their own shrunken mean, 0 for unrated items, scaled down to a length of at most L = `row_norm`,
    so that the second moment has the bounds L^2 and sqrt(2) L^2. With variances d_k, now of ratings, relative to that
    of a single one, a user's a and z minimize

        sum over their items of (y_j - mean - a - sum_k sqrt(d_k) z_k q_jk)^2 + 2 |z|^2 + shrinkage a^2.

    Example:
        >>> import discreet
        >>> liked = discreet.datasets.movielens_like(3000, 200, 60_000, random_state=0).to_implicit(4)
        >>> model = discreet.DPSVD(epsilon=5, delta=1e-6).fit(liked)
        >>> len(model.recommend([liked.items[0]], n=5))
        5

    Args:
        epsilon: The privacy parameter; all of it is spent.
        delta: The delta of the budget, a constant well below 1 / the number of users.
        objective: What ratings are for: to predict "ratings", or as graded likes for "lists". Implicit feedback is for
            lists.
        explore: The approximate share of a list of 20 to fill with items outside J, which vary with the history.
            It costs no privacy, but places in the list. For lists.
        features: Columns of the catalog that describe items (numbers, or text: categories, several of them separated
            by "|"). They are public, cost no privacy, and help to place items that few users have. For lists.
        rank: The most directions, for ratings; by default as many as stand out of the noise, up to 64.
        row_norm: L, the length of a typical user's centered row of ratings, public; by default from the range of
            ratings and the number of items (`discreet.models.centering.public_row_norm`).
        centre: Whether users subtract their own mean. If not, for low-rank approximation of a matrix whose zeros are
            meaningful, predictions have no offset.
        max_items: The largest J. Memory grows with its square, time with its cube. Power steps have more items.
        adjacency: "add-remove" or "replace".
        n_jobs: Number of threads, as in scikit-learn.

    Attributes:
        popularity_: The released popularity of each item.
        history_weights_: The weight of each item in a history; 0 for items outside J.
        exploration_: Public random vectors that spread the items outside J; without columns if `explore` is 0.
        n_users_: The approximate number of users, from the trace of the second moment (if that was not released, a
            lower estimate, the popularity of the most popular item). For ratings, a user whose row is shorter than L
            counts as a part of one.
        shrinkage_: The number of pseudo-ratings in a user's own mean, for centered ratings; otherwise None.
        unit_: The standard deviation of ratings about users' means, for lists from ratings; otherwise None.
    """

    _in_spark: ClassVar[bool] = True

    objective: Literal["ratings", "lists"] = "ratings"
    explore: float = 0.0
    features: Sequence[str] | None = None
    rank: Count | None = None
    row_norm: Positive | None = None
    centre: bool = True
    max_items: Count = 4000
    history_weights_: Array = field(init=False)
    exploration_: Array = field(init=False)
    n_users_: float = field(init=False)
    shrinkage_: float | None = field(init=False)
    unit_: float | None = field(init=False)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not (isinstance(self.explore, int | float) and 0 <= self.explore < 1):
            raise DataError(f"explore: a share from 0 to below 1 is needed, not {self.explore!r}")

    def plan(self, n_items: int, *, implicit: bool = True) -> Plan:
        """What a fit would release, and what each release costs; needs no data, only the size of the catalog.

        Args:
            n_items: The size of the catalog.
            implicit: Whether it is for implicit feedback. From ratings more is released, at the same total cost.
        """
        self._check_parameters()
        whole("n_items", n_items, 1)
        mu = self._mu()
        popularity, lists = popularity_share(mu), implicit or self.objective == "lists"
        rest = choice_shares(1 - popularity) if lists else {SECOND_MOMENT: 1 - popularity}
        lines = {POPULARITY: popularity, **rest}
        centered = not implicit and (lists or self.centre)
        return Plan.gaussian(mu, with_user_means(lines) if centered else lines)

    def _plan_for(self, ratings: Interactions) -> Plan:
        return self.plan(ratings.n_items, implicit=ratings.implicit)

    def _check_data(self, ratings: Interactions) -> None:
        if not ratings.implicit:
            require_ratings("DPSVD", ratings)
        if ratings.implicit or self.objective == "lists":
            item_features(ratings.catalogue, self.features or ())  # raises if there is no such column
            return
        for name in ("explore", "features"):
            if getattr(self, name):
                raise DataError(f"{name}: this is for lists; leave it out for ratings, or give objective='lists'")
        require_rank(self.rank, ratings.n_items)
        self._centering(ratings)  # raises if there is no bound

    def _public_inputs(self) -> dict[str, str]:
        return {"features": ", ".join(self.features)} if self.features else {}

    def _people(self, learned: Mapping[str, Any], plan: Plan) -> float:
        # The trace has the noise of n numbers. It is in units of one user's row, so L is 1 here.
        items = np.count_nonzero(learned["history_weights_"])
        noise = plan.noise(SECOND_MOMENT, sensitivity=GramSum(1, 1.0).sensitivity(self.adjacency))
        return float(learned["n_users_"] - 3 * noise.std * np.sqrt(items))

    def _centering(self, ratings: Interactions) -> Centering:
        return Centering.public("DPSVD", ratings, self.row_norm, centre=self.centre)

    def _learn_privately(self, releaser: Releaser, ratings: Interactions) -> dict[str, Any]:
        lists = ratings.implicit or self.objective == "lists"
        return self._for_lists(releaser, ratings) if lists else self._from_ratings(releaser, ratings)

    def _for_lists(self, releaser: Releaser, ratings: Interactions) -> dict[str, Any]:
        grading = None if ratings.implicit else Grading.of(private_user_means(releaser, ratings))

        def users(most: int | None = None) -> Blocks[UserBatch]:
            all_users = user_batches(ratings, most, n_jobs=self.n_jobs)
            return all_users if grading is None else all_users.map(grading.apply)

        statistic = VectorSum(ratings.n_items, 1.0, nonnegative=True)
        entries = weights(rated=grading.numbers if grading else False)
        popularity = releaser.release(POPULARITY, statistic, shared_users(ratings), entries)
        features = item_features(ratings.catalogue, self.features or ())
        choices = learn_choices(releaser, users, popularity, self.max_items, labels=LABELS, features=features)
        popularity, chosen, spectrum = choices.popularity, choices.chosen, choices.spectrum
        random, columns = exploration(chosen, spectrum, self.explore)
        return {
            "popularity_": popularity.values.astype(np.float32),
            "item_factors_": np.hstack([choices.item_factors, columns], dtype=np.float32),
            "item_bias_": (COMMON_TASTE * chosen.common).astype(np.float32),
            "history_weights_": chosen.weights,
            "exploration_": random.astype(np.float32),
            "value_range_": (0.0, 1.0) if ratings.implicit else ratings.value_range,
            "implicit_": ratings.implicit,
            "global_mean_": 1.0 if grading is None else grading.mean,
            "n_users_": spectrum.n_users,
            "shrinkage_": None if grading is None else grading.shrinkage,
            "unit_": None if grading is None else grading.unit,
        }

    def _from_ratings(self, releaser: Releaser, ratings: Interactions) -> dict[str, Any]:
        statistic = VectorSum(ratings.n_items, 1.0, nonnegative=True)
        popularity = releaser.release(POPULARITY, statistic, shared_users(ratings), equal_weights)
        chosen = Chosen.by(popularity, releaser.noise(SECOND_MOMENT, GramSum(1, 1.0)).std, self.max_items)
        m, n, centering = ratings.n_items, len(chosen.items), self._centering(ratings)
        if self.centre:
            centering = centering.about(private_user_means(releaser, ratings))
        users = user_batches(ratings, dense_users(n), n_jobs=self.n_jobs)
        users, bound = users.map(partial(on_items, centering.entries, places(chosen.items, m))), centering.row_norm**2
        moment = releaser.release(SECOND_MOMENT, GramSum(n, bound), users, attrgetter("values"))
        return {
            "popularity_": popularity.values.astype(np.float32),
            "item_factors_": rating_factors(moment, chosen.items, m, self.rank).astype(np.float32),
            "history_weights_": (chosen.weights > 0).astype(np.float64),
            "exploration_": np.zeros((m, 0), np.float32),
            "global_mean_": float(centering.centre),
            "n_users_": max(float(np.trace(moment.values)) / bound, 1.0),
            "shrinkage_": centering.shrinkage,
            "unit_": None,
        }

    def _make_fold_in(self) -> FoldIn:
        """For lists, projecting a history on the directions solves a ridge regression in closed form.

        The history is h_j = weights_j / (their norm over the history). With directions q_k of length 1 and variances
        d_k, the z that minimizes |h - sum_k sqrt(d_k) z_k q_k|^2 + lam |z|^2 has z_k = sqrt(d_k) / (d_k + lam) q_k . h.
        Where columns hold sqrt(f_k) q_k, f_k = d_k / (d_k + lam), the vector sum_j h_j columns_j gives the same scores.
        """
        if self._predicts_ratings:
            return rating_fold_in(self.item_factors_, self._base, self.shrinkage_)
        known = self.item_factors_.shape[1] - self.exploration_.shape[1]
        loadings = np.hstack([self.item_factors_[:, :known], self.exploration_])
        loadings[self.history_weights_ == 0] = 0
        grading = None
        if self.unit_ is not None and self.shrinkage_ is not None:
            grading = Grading(self.global_mean_, self.shrinkage_, self.unit_)
        return LinearFoldIn(
            columns=self.item_factors_,
            base=self.item_bias_,
            loadings=loadings,
            weights=self.history_weights_,
            grading=grading,
        )

    @property
    def _predicts_ratings(self) -> bool:
        return not self.implicit_ and self.objective == "ratings"

    def _similar_columns(self) -> slice:
        """The columns of `item_factors_` that describe what items are like."""
        if self._predicts_ratings:
            return super()._similar_columns()
        # Popularity is common to all items, and random vectors carry no information.
        return slice(1, self.item_factors_.shape[1] - self.exploration_.shape[1])

    def _check_learned(self) -> None:
        super()._check_learned()
        weights = self.history_weights_
        if weights.shape != (len(self.catalogue_),) or not (np.isfinite(weights) & (weights >= 0)).all():
            raise DataError(f"history_weights_: {len(self.catalogue_)} finite numbers of at least 0 are needed")
        random = self.exploration_
        least = 1 if self._predicts_ratings else self.item_factors_.shape[1]
        if random.ndim != 2 or len(random) != len(weights) or random.shape[1] >= least:
            raise DataError(f"exploration_: {random.shape} does not fit factors of shape {self.item_factors_.shape}")


@dataclass(eq=False, repr=False)
class SVD(NotPrivateModel):
    """Completion of ratings by the leading eigenvectors of their second moment. Not private: the twin of `DPSVD`.

    Users' rows are centered by their own means, with 0 for items that they have not rated. With q_k the eigenvectors of
    the sum of the rows' outer products, and d_k the variance of rows along them, relative to that of a single rating, a
    user's a and z minimize

        sum over their items of (y_j - mean - a - sum_k sqrt(d_k) z_k q_jk)^2 + 2 |z|^2 + shrinkage a^2.

    Example:
        >>> import discreet
        >>> ratings = discreet.datasets.movielens_like(300, 50, 6_000, random_state=0)
        >>> len(discreet.SVD().fit(ratings).recommend({3: 5.0, 14: 1.5}, n=5))
        5

    Args:
        rank: How many directions; by default up to 64, and half of the items.
        centre: Whether users subtract their own mean.
        n_jobs: Number of threads, as in scikit-learn.
    """

    rank: Count | None = None
    _: KW_ONLY
    centre: bool = True
    n_jobs: int | None = -1
    shrinkage_: float | None = field(init=False)

    def _learn_exactly(self, ratings: Interactions) -> dict[str, Any]:
        n, centering = ratings.n_items, Centering.exact("SVD", ratings, centre=self.centre)
        check_catalog(n, self.rank)
        items = np.arange(n)
        blocks = parts(ratings, ratings.values, most_users=dense_users(n))
        moment = second_moment(map(partial(on_items, centering.entries, items), blocks), n, self.n_jobs)
        return {
            "item_factors_": rating_factors(Noisy(moment, 0.0), items, n, self.rank).astype(np.float32),
            "item_bias_": np.zeros(n, np.float32),
            "global_mean_": float(centering.centre),
            "shrinkage_": centering.shrinkage,
        }

    def _make_fold_in(self) -> FoldIn:
        return rating_fold_in(self.item_factors_, self._base, self.shrinkage_)


@dataclass(kw_only=True, eq=False, repr=False)
class DPCleansedSVD(PrivateModel):
    """Item averages and the covariance of ratings without them: user-level joint differential privacy.

    After McSherry and Mironov (2009), whose weights protect single ratings; here each user's contribution is bounded as
    a whole. Users' means and variances are released first (docs/proofs/own-mean.md); they determine how a user's own
    mean is shrunk. With c a user's number of ratings, d that of frequent items among them, and r their ratings minus
    their own mean and items' averages, clamped to [-clamp, clamp] and shortened so that the root mean square of r is at
    most `spread`, these are released:

    - item counts and sums of ratings: c^-1/2 and c^-1/2 r, with one average for all items; bounds 1 and
      min(clamp, spread). The resulting averages are shrunk according to their noise;
    - for the frequent items by these counts, up to 4,000, the covariance, r r^T / d, and its weights, e e^T / d with
      e_j = 1 on their items; bounds min(clamp, spread)^2 and 1. Other items are predicted by their averages.

    Bounds are L2 norms of a user's contribution: the sensitivity for add-remove; for replace sqrt(2) times that, for
    sums of ratings twice. docs/proofs/cleansed-svd.md has the proof. The eigenvectors v_k of covariance / weights that
    stand out of the noise, with variances d_k relative to that of a single rating, make the model: a user's a and z
    minimize, on their own side,

        sum over their items of (y_j - average_j - a - sum_k sqrt(d_k) z_k v_jk)^2 + 2 |z|^2 + shrinkage a^2

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
        n_jobs: Number of threads, as in scikit-learn.
    """

    predictor: Predictor = "svd"
    rank: Count | None = None
    neighbours: Count = 30
    clamp: Positive | None = None
    spread: Positive | None = None
    loadings_: Array = field(init=False)
    shrinkage_: float = field(init=False)

    def _plan(self, n_items: int) -> Plan:
        require_rank(self.rank, n_items)
        return Plan.gaussian(self._mu(), with_user_means(SHARES))

    def _check_data(self, ratings: Interactions) -> None:
        require_ratings(type(self).__name__, ratings)

    def _learn_privately(self, releaser: Releaser, ratings: Interactions) -> dict[str, Any]:
        assert ratings.value_range is not None
        low, high = ratings.value_range
        users = private_user_means(releaser, ratings)
        clamp, spread = self.clamp or CLAMP * (high - low), self.spread or SPREAD * (high - low)
        cleansing = Cleansing(users.mean, users.shrinkage, float(clamp), float(spread))
        return self._learned(cleansing.run(releaser, ratings, users.n_users), (low, high), users)

    def _learned(self, cleansed: Cleansed, value_range: tuple[float, float], users: UserMeans) -> dict[str, Any]:
        """Learned attributes, from public estimates."""
        if self.predictor == "svd":
            chosen, loadings = rating_directions(cleansed.covariance, cleansed.edge, self.rank), np.zeros((0, 0))
        else:
            chosen, loadings = factored(similarities(cleansed.covariance, self.neighbours))
        n = len(cleansed.averages)
        return {
            "item_factors_": _of_all(chosen, cleansed.items, n),
            "item_bias_": (cleansed.averages - users.mean).astype(np.float32),
            "popularity_": cleansed.counts.astype(np.float32),
            "loadings_": _of_all(loadings, cleansed.items[: len(loadings)], n),
            "value_range_": value_range,
            "implicit_": False,
            "global_mean_": users.mean,
            "shrinkage_": users.shrinkage,
        }

    def _make_fold_in(self) -> FoldIn:
        """With predictor="knn", columns_j . loadings_l is the similarity of items j and l over a sum for j's neighbors.

        As a user has rated only a share of these neighbors, about count / items, the sum over their ratings is scaled.
        """
        columns, base = self.item_factors_, self._base
        if self.predictor == "knn":
            known = np.hstack([columns, self.loadings_]).any(axis=1)  # the items that have a covariance
            spread, damping = float(np.count_nonzero(known)), self.shrinkage_
            return LinearFoldIn(columns=columns, base=base, loadings=self.loadings_, damping=damping, spread=spread)
        return rating_fold_in(columns, base, self.shrinkage_)

    def _check_learned(self) -> None:
        super()._check_learned()
        k = self.item_factors_.shape[1] if self.predictor == "knn" else 0
        if self.loadings_.shape != (len(self.catalogue_), k):
            raise DataError(f"loadings_: {self.loadings_.shape} does not fit {len(self.catalogue_)} items")


def _of_all(rows: Array, items: Array, n_items: int) -> Array:
    """One row for each item: zeros for all but the given items."""
    every = np.zeros((n_items, rows.shape[1]), np.float32)
    every[items] = rows
    return every
