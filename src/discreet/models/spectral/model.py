"""DPSVD: a private recommender from one noisy second-moment matrix, of histories or of ratings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from discreet.data.interactions import Interactions
from discreet.engine.batches import DENSE_CELLS, equal_weights, user_batches
from discreet.errors import DataError
from discreet.models.base import check_parameters
from discreet.models.centering import Centering
from discreet.models.eigen import require_rank
from discreet.models.fold_in import FoldIn, LinearFoldIn
from discreet.models.private import PrivateModel
from discreet.models.spectral.contributions import RatingRows, Residuals
from discreet.models.spectral.estimate import (
    COMMON_TASTE,
    Chosen,
    Exploration,
    Spectrum,
    item_factors,
    rating_factors,
    rating_fold_in,
)
from discreet.models.spectral.published import PublishedDPSVD
from discreet.privacy import GramSum, Plan, Releaser, VectorSum
from discreet.privacy.guarantee import AdjacencyName, sensitivity_factor
from discreet.typing import Array
from discreet.validation import probability, whole

POPULARITY, SECOND_MOMENT = "item popularity", "second moment of histories"


def shares(mu: float) -> dict[str, float | tuple[float, int]]:
    """The share of mu^2 of each release: with more noise, finding the popular items takes more of it."""
    popularity = min(max(0.1 * mu**-0.3, 0.05), 0.5)
    return {POPULARITY: popularity, SECOND_MOMENT: 1 - popularity}


class DPSVD(PrivateModel):
    """Private recommender for implicit feedback and for ratings, with user-level joint differential privacy.

    It finds directions of taste, the leading eigenvectors of a noisy second-moment matrix of users' histories. A user's
    own history is then regressed on them, on their side: no noise is added to it, and it never leaves.

    **Implicit feedback.** The taste that all users share is removed first. Let x_i be the set of items of user i. Two
    statistics are released, each of which one user can change by at most 1 in the L2 norm (add-remove), or sqrt(2)
    (replace):

    - item popularity, 15% of mu^2 at epsilon 1, 8% at 10 (delta 1e-5): sum over users of 1 / sqrt(|x_i|) on their
      items, a vector of norm 1;
    - second moment of histories, all the rest: sum over users of r_i r_i^T, r_i of norm at most 1, with symmetric
      noise. On the N most popular items J, w_i has popularity_j^-0.3 for the user's items, scaled to length 1; p is the
      direction of common taste, popularity_j^0.7; and r_i = (w_i - (w_i.p) p) / sqrt(max(1 - (w_i.p)^2, 1/4)).

    J has as many items as the noise allows to tell apart (at most `max_items`). Eigenvectors q_k are kept if their
    eigenvalues stand out of the noise, and shrunk by what noise did to them. With variances d_k, a user's vector is
    the z that minimizes

        |h - (h.p) p - sum_k sqrt(d_k) z_k q_k|^2 + lam |z|^2

    where h is w_i of the history that is given when recommending, and the score of an item is its prediction. Items
    outside J are known by their popularity alone, and compete by that, unless `explore` asks for more of them.

    **Ratings.** The same two releases, at the same cost; r_i is the row of the user's ratings less their own mean, 0
    for unrated items, scaled down to a length of at most L = `row_norm`, so that the second moment has the bounds L^2
    and sqrt(2) L^2. With variances d_k, now of ratings, relative to that of a single one, a user's a and z minimize

        sum over their items of (y_j - middle of the range - a - sum_k sqrt(d_k) z_k q_jk)^2 + 2 |z|^2 + a^2.

    Example:
        >>> import discreet
        >>> liked = discreet.datasets.movielens_like(3000, 200, 60_000, random_state=0).to_implicit(4)
        >>> model = discreet.DPSVD(epsilon=5, delta=1e-6).fit(liked)
        >>> len(model.recommend([liked.items[0]], n=5))
        5

    Args:
        epsilon: The privacy parameter; all of it is spent.
        delta: The other one: a constant well below 1 / the number of users.
        explore: About what share of a list of 20 to fill with items outside J, different ones for different histories.
            It costs no privacy, but places. For implicit feedback.
        rank: The most directions, for ratings; by default as many as stand out of the noise, up to 64.
        row_norm: L, the length of a typical user's centered row of ratings, public; by default from the range of
            ratings and the number of items (`discreet.models.centering.public_row_norm`).
        centre: Whether users subtract their own mean. Without, for low-rank approximation of a matrix whose zeros mean
            something, predictions have no offset.
        max_items: The largest J. Memory grows with its square, time with its cube.
        adjacency: "add-remove" or "replace".
        n_jobs: Threads, in scikit-learn's meaning.

    Attributes:
        popularity_: The released popularity of each item.
        history_weights_: How much each item counts in a history; 0 for items outside J.
        exploration_: Public random vectors that spread the items outside J; of no columns if `explore` is 0.
        n_users_: About how many users there were, from the trace of the second moment. For ratings it counts a user
            whose row is shorter than L as a part of one.
    """

    _ARRAYS: ClassVar[tuple[str, ...]] = (*PrivateModel._ARRAYS, "history_weights_", "exploration_")
    _VALUES: ClassVar[tuple[str, ...]] = (*PrivateModel._VALUES, "n_users_")

    history_weights_: Array
    exploration_: Array
    n_users_: float

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        explore: float = 0.0,
        rank: int | None = None,
        row_norm: float | None = None,
        centre: bool = True,
        max_items: int = 4000,
        adjacency: AdjacencyName = "add-remove",
        n_jobs: int | None = -1,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.explore = explore
        self.rank = rank
        self.row_norm = row_norm
        self.centre = centre
        self.max_items = max_items
        self.adjacency = adjacency
        self.n_jobs = n_jobs

    @classmethod
    def as_published(cls, **parameters: Any) -> PublishedDPSVD:
        """For ratings, with the noise that was published in 2018: `PublishedDPSVD(**parameters)`."""
        return PublishedDPSVD(**parameters)

    def _check_parameters(self) -> None:
        probability("delta", self.delta)
        check_parameters(self, positives=("epsilon", "row_norm"), wholes=("max_items", "rank"))
        if not (isinstance(self.explore, int | float) and 0 <= self.explore < 1):
            raise DataError(f"explore: a share from 0 to below 1 is needed, not {self.explore!r}")

    def plan(self, n_items: int) -> Plan:
        """What a fit would release, and what each release costs; needs no data, only the size of the catalogue."""
        self._check_parameters()
        whole("n_items", n_items, 1)
        mu = self._mu()
        return Plan.gaussian(mu, shares(mu))

    def _check_data(self, ratings: Interactions) -> None:
        if ratings.implicit:
            return
        if self.explore:
            raise DataError(
                "explore: is for implicit feedback; leave it out for ratings, or use ratings.to_implicit(...)"
            )
        require_rank(self.rank, ratings.n_items)
        self._centering(ratings)  # raises if there is no bound

    def _people(self, learned: Mapping[str, Any], plan: Plan) -> float:
        # The trace has the noise of so many numbers; in the unit of a user, so that L is 1 here.
        items = np.count_nonzero(learned["history_weights_"])
        noise = plan.noise(SECOND_MOMENT, sensitivity=sensitivity_factor(self.adjacency, nonnegative=True))
        return float(learned["n_users_"] - 3 * noise.std * np.sqrt(items))

    def _centering(self, ratings: Interactions) -> Centering:
        return Centering.public("DPSVD", ratings, self.row_norm, centre=self.centre)

    def _learn_privately(self, releaser: Releaser, ratings: Interactions) -> dict[str, Any]:
        statistic = VectorSum(ratings.n_items, 1.0, cone="nonnegative")
        popularity = releaser.release(POPULARITY, statistic, user_batches(ratings), equal_weights)
        chosen = Chosen.by(popularity, releaser.noise(SECOND_MOMENT, GramSum(1, 1.0)).std, self.max_items)
        learn = self._from_histories if ratings.implicit else self._from_ratings
        return {"popularity_": popularity.values.astype(np.float32), **learn(releaser, ratings, chosen)}

    def _from_histories(self, releaser: Releaser, ratings: Interactions, chosen: Chosen) -> dict[str, Any]:
        n = len(chosen.items)
        users = user_batches(ratings, max(DENSE_CELLS // n, 1))
        moment = releaser.release(SECOND_MOMENT, GramSum(n, 1.0), users, Residuals.of(chosen))
        spectrum = Spectrum.of(moment, chosen)
        exploration = Exploration.of(chosen, spectrum, self.explore)
        factors = np.hstack([item_factors(chosen, spectrum), exploration.columns()])
        return {
            "item_factors_": factors.astype(np.float32),
            "item_bias_": (COMMON_TASTE * chosen.common).astype(np.float32),
            "history_weights_": chosen.weights,
            "exploration_": exploration.vectors.astype(np.float32),
            "value_range_": (0.0, 1.0),
            "implicit_": True,
            "global_mean_": 1.0,
            "n_users_": spectrum.n_users,
        }

    def _from_ratings(self, releaser: Releaser, ratings: Interactions, chosen: Chosen) -> dict[str, Any]:
        m, n, centering = ratings.n_items, len(chosen.items), self._centering(ratings)
        users = user_batches(ratings, max(DENSE_CELLS // n, 1))
        rows, bound = RatingRows(chosen.items, m, centering), centering.row_norm**2
        moment = releaser.release(SECOND_MOMENT, GramSum(n, bound), users, rows)
        return {
            "item_factors_": rating_factors(moment, chosen.items, m, self.rank).astype(np.float32),
            "item_bias_": np.zeros(m, np.float32),
            "history_weights_": (chosen.weights > 0).astype(np.float64),
            "exploration_": np.zeros((m, 0), np.float32),
            "value_range_": ratings.value_range,
            "implicit_": False,
            "global_mean_": float(centering.centre),
            "n_users_": max(float(np.trace(moment.values)) / bound, 1.0),
        }

    def _make_fold_in(self) -> FoldIn:
        """Projecting a history on the directions is a ridge regression without a system to solve.

        The history is h_j = weights_j / (their norm over the history). With directions q_k of length 1 and variances
        d_k, the z that minimizes |h - sum_k sqrt(d_k) z_k q_k|^2 + lam |z|^2 has z_k = sqrt(d_k) / (d_k + lam) q_k . h.
        Where columns hold sqrt(f_k) q_k, f_k = d_k / (d_k + lam), the vector sum_j h_j columns_j gives the same scores.
        """
        if not self.implicit_:
            base = self.item_bias_ + np.float32(self.global_mean_)
            return rating_fold_in(self.item_factors_, base, centre=self.centre)
        known = self.item_factors_.shape[1] - self.exploration_.shape[1]
        loadings = np.hstack([self.item_factors_[:, :known], self.exploration_])
        loadings[self.history_weights_ == 0] = 0
        return LinearFoldIn(
            columns=self.item_factors_, base=self.item_bias_, loadings=loadings, weights=self.history_weights_
        )

    def _similar_columns(self) -> slice:
        """The columns of `item_factors_` that say what items are like."""
        if not self.implicit_:
            return super()._similar_columns()
        # Popularity is common to all items, and random vectors say nothing.
        return slice(1, self.item_factors_.shape[1] - self.exploration_.shape[1])

    def _check_learned(self) -> None:
        super()._check_learned()
        weights = self.history_weights_
        if weights.shape != (len(self.catalogue_),) or not (np.isfinite(weights) & (weights >= 0)).all():
            raise DataError(f"history_weights_: {len(self.catalogue_)} finite numbers of at least 0 are needed")
        random = self.exploration_
        least = self.item_factors_.shape[1] if self.implicit_ else 1
        if random.ndim != 2 or len(random) != len(weights) or random.shape[1] >= least:
            raise DataError(f"exploration_: {random.shape} does not fit factors of shape {self.item_factors_.shape}")
