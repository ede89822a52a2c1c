"""Gradient methods: projected descent on a nuclear-norm ball, and matrix factorization by stochastic gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from discreet.data.interactions import Interactions
from discreet.engine import Blocks, LocalBlocks
from discreet.engine.batches import equal_weights, shared_users, user_batches
from discreet.errors import DataError, PrivacyError
from discreet.models.base import Model, NotPrivateModel, require_ratings
from discreet.models.centering import (
    MEAN,
    VARIANCES,
    Centering,
    Shares,
    private_user_means,
    release_user_means,
    with_user_means,
)
from discreet.models.eigen import check_catalog, frequent_items, places, second_moment
from discreet.models.fold_in import FoldIn, Penalty, ReplayFoldIn, RidgeFoldIn
from discreet.models.gradient.contributions import VECTOR_PENALTY, Descent, own_gradient, user_ridge
from discreet.models.gradient.estimate import Adam, Step, project
from discreet.models.private import PrivateModel
from discreet.privacy import GramSum, MeanSum, Noisy, OuterSum, Plan, Planned, Releaser, VectorSum
from discreet.privacy.releaser import noise_edge
from discreet.privacy.selection import largest_mu, sampled_cost
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array
from discreet.validation import Count, Positive, Seed

POPULARITY, MOMENT = "item popularity", "second moment of gradient steps"
GRADIENT = "item gradient over a sample of users"
POPULARITY_SHARE = 0.05  # share of mu^2
FEW_ITEMS = 500  # in catalogs up to this size, all items are used
START = 0.3  # norm of an item's initial vector, in the unit of the ratings
LATER = 0.5  # the share of steps after which factors are averaged


class DescentModel(Model):
    """What private and exact models of projected descent share: the steps, and how a user replays them."""

    step_size: float
    n_steps: int
    radius: float | None
    centre: bool
    steps_: Array
    gains_: Array
    ranks_: list[int]
    row_norm_: float
    shrinkage_: float | None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.step_size >= 2:
            raise DataError(f"step_size: below 2 is needed, or steps overshoot more and more, not {self.step_size!r}")

    def _learned(self, descent: Descent, place: Array, popularity: Array) -> dict[str, Any]:
        """Learned attributes, from public steps on the items that have a place."""
        steps, centering, ranks = descent.steps, descent.centering, [len(step.gains) for step in descent.steps]
        vectors = np.where(place[:, None] >= 0, np.hstack([step.vectors for step in steps])[place], 0.0)
        return {
            "steps_": vectors,
            "gains_": np.concatenate([step.gains for step in steps]),
            "ranks_": ranks,
            "item_factors_": vectors[:, sum(ranks[:-1]) :].astype(np.float32),
            "item_bias_": np.zeros(len(vectors), np.float32),
            "popularity_": popularity.astype(np.float32),
            "implicit_": False,
            "global_mean_": float(centering.centre),
            "row_norm_": float(centering.row_norm),
            "shrinkage_": centering.shrinkage,
        }

    def _make_fold_in(self) -> FoldIn:
        centering = Centering(self.global_mean_, self.shrinkage_, self.row_norm_)
        ends = np.cumsum(self.ranks_)[:-1]
        pairs = zip(np.split(self.steps_, ends, axis=1), np.split(self.gains_, ends), strict=True)
        steps = [Step(*pair) for pair in pairs]
        descent = Descent(float(self.step_size), len(self.item_bias_), centering, steps)
        return ReplayFoldIn(columns=self.item_factors_, base=self._base, steps=descent)

    def _check_learned(self) -> None:
        super()._check_learned()
        m, ranks = len(self.catalogue_), list(self.ranks_)
        fit = len(ranks) == self.n_steps and self.steps_.shape == (m, sum(ranks)) and self.gains_.shape == (sum(ranks),)
        if not fit or ranks[-1] != self.item_factors_.shape[1] or not self.row_norm_ > 0:
            raise DataError("steps_, gains_, ranks_, row_norm_: they do not fit together")


@dataclass(kw_only=True, eq=False, repr=False)
class DPGradientDescent(DescentModel, PrivateModel):
    """Completion of ratings by projected gradient descent on a nuclear-norm ball: user-level joint DP.

    Minimizes |P(Y - X)|^2 / 2 over matrices Y whose singular values add up to at most `radius`. P keeps the entries
    that users have rated; x_i are a user's ratings less their own mean, scaled down to a length of at most `row_norm`.
    What own means are shrunk to is released first (docs/proofs/own-mean.md). With more than 500 items, popularity is
    released, too, and descent is on the most frequent items, at most 4,000; others are predicted by the user's own
    mean. In each of T = `n_steps` steps a user computes, on their own side, z = y - eta P(y - x), with eta =
    `step_size` or more if they have rated few items (`Descent`). The sum of z z^T is released with symmetric noise,
    where z is clipped to norm C = `clip` as a whole: a user moves it by at most C^2 (add-remove), or sqrt(2) C^2
    (replace), in the Frobenius norm. Its eigenvectors V, and the roots of its eigenvalues, lowered to fit in the ball,
    give the gains; then y = z V diag(gains) V^T, on the user's side again. docs/proofs/gradient-descent.md has the
    proof.

    A user's prediction is their own mean and y after the last step; new users replay the public steps. No user's row is
    kept: their state is their coefficients on public directions, at most 64 or half of the items.

    Example:
        >>> import discreet
        >>> ratings = discreet.datasets.movielens_like(300, 50, 6_000, random_state=0)
        >>> model = discreet.DPGradientDescent(epsilon=5, delta=1e-6).fit(ratings)
        >>> len(model.recommend({3: 5.0, 14: 1.5}, n=5))
        5

    Args:
        epsilon: The privacy budget.
        delta: The delta of the budget, a constant well below 1 / the number of users.
        n_steps: T, the number of steps, which share the budget.
        step_size: eta for full rows, below 2; public.
        radius: The bound on the sum of singular values, public. By default there is none: steps keep the directions
            that stand out of the noise, scaled by how well they predict a row
            (`discreet.models.gradient.estimate.predictive`).
        row_norm: L, public; by default from the range of ratings and the number of items
            (`discreet.models.centering.public_row_norm`).
        clip: C, public; by default L.
        centre: Whether users subtract their own mean.
        adjacency: "add-remove" or "replace".
        n_jobs: Number of threads, as in scikit-learn.
    """

    n_steps: Count = 5
    step_size: Positive = 1.0
    radius: Positive | None = None
    row_norm: Positive | None = None
    clip: Positive | None = None
    centre: bool = True

    def _plan(self, n_items: int) -> Plan:
        popularity = POPULARITY_SHARE if n_items > FEW_ITEMS else 0.0
        shares: Shares = {POPULARITY: popularity} if popularity else {}
        shares[MOMENT] = (1 - popularity, self.n_steps)
        return Plan.gaussian(self._mu(), with_user_means(shares) if self.centre else shares)

    def _check_data(self, ratings: Interactions) -> None:
        self._centering(ratings)  # raises if there is no bound

    def _centering(self, ratings: Interactions) -> Centering:
        return Centering.public(type(self).__name__, ratings, self.row_norm, centre=self.centre)

    def _learn_privately(self, releaser: Releaser, ratings: Interactions) -> dict[str, Any]:
        centering = self._centering(ratings)
        if self._releases_means:
            centering = centering.about(private_user_means(releaser, ratings))
        popularity = self._popularity(releaser, ratings)
        items = np.arange(ratings.n_items)
        if popularity is not None:
            items = frequent_items(popularity, releaser.noise(MOMENT, GramSum(1, 1.0)).std)
        n, place = len(items), places(items, ratings.n_items)
        clip = float(self.clip or centering.row_norm)
        statistic = GramSum(n, clip**2)
        descent, rated = Descent(float(self.step_size), n, centering), np.zeros(n)
        users: LocalBlocks[UserBatch] = LocalBlocks(partial(descent.blocks, ratings, place))
        for _ in range(self.n_steps):
            moment = releaser.release(MOMENT, statistic, users, descent.rows)
            if not descent.steps:  # each item's sum of squared ratings, as a proxy for popularity
                rated = np.maximum(np.diag(moment.values), 0) / centering.row_norm**2
            chance = clip**2 * np.maximum(np.diag(moment.values), 0)
            step = project(moment.values, float(noise_edge(moment.std, n)), self.radius, chance)
            descent = replace(descent, steps=(*descent.steps, step))
        known = rated if popularity is None else popularity.values
        return self._learned(descent, place, known)

    @property
    def _releases_means(self) -> bool:
        """Whether the center that users' means are shrunk to is released; otherwise it is the middle of the range."""
        return self.centre

    def _popularity(self, releaser: Releaser, ratings: Interactions) -> Noisy | None:
        """The popularity of all items, by which frequent ones are chosen; None if there are few items."""
        if ratings.n_items <= FEW_ITEMS:
            return None
        statistic = VectorSum(ratings.n_items, 1.0, nonnegative=True)
        return releaser.release(POPULARITY, statistic, shared_users(ratings), equal_weights)


@dataclass(eq=False, repr=False)
class GradientDescent(DescentModel, NotPrivateModel):
    """Completion of ratings by projected gradient descent on a nuclear-norm ball. Not private.

    Minimizes |P(Y - X)|^2 / 2 over matrices Y whose singular values add up to at most `radius`. P keeps the entries
    that users have rated; x_i are a user's ratings less their own mean. Steps are y = project(y - eta P(y - x)).

    Example:
        >>> import discreet
        >>> ratings = discreet.datasets.movielens_like(300, 50, 6_000, random_state=0)
        >>> len(discreet.GradientDescent().fit(ratings).recommend({3: 5.0, 14: 1.5}, n=5))
        5

    Args:
        n_steps: The number of steps.
        step_size: eta for full rows, below 2; it is larger for users with few ratings (`Descent`).
        radius: The bound on the sum of singular values. By default there is none: steps keep the directions that stand
            out, scaled by how well they predict a row.
        centre: Whether users subtract their own mean.
        n_jobs: Number of threads, as in scikit-learn.
    """

    n_steps: Count = 10
    _: KW_ONLY
    step_size: Positive = 1.0
    radius: Positive | None = None
    centre: bool = True
    n_jobs: int | None = -1

    def _learn_exactly(self, ratings: Interactions) -> dict[str, Any]:
        n, centering = ratings.n_items, Centering.exact("GradientDescent", ratings, centre=self.centre)
        check_catalog(n)
        place = np.arange(n)
        descent = Descent(float(self.step_size), n, centering)
        for _ in range(self.n_steps):
            moment = second_moment(descent.blocks(ratings, place), n, self.n_jobs, descent.rows)
            chance = np.zeros(n)
            for part in descent.blocks(ratings, place):
                squares = descent.rows(part) ** 2
                chance += squares.sum(axis=1) @ squares
            descent = replace(descent, steps=(*descent.steps, project(moment, 0.0, self.radius, chance)))
        return self._learned(descent, place, np.bincount(ratings.indices, minlength=n))


@dataclass(kw_only=True, eq=False, repr=False)
class DPSGD(PrivateModel):
    """Matrix factorization by differentially private stochastic gradient descent (DP-SGD): user-level joint DP.

    The model is y_ij = mean + a_i + b_j + u_i . v_j. In each step every user takes part with probability `sample_rate`,
    by an independent and secret coin. A user who does solves their own ridge regression for a and u,

        sum over their items of (y_j - mean - b_j - a - u . v_j)^2 + shrinkage a^2 + 2 |u|^2

    (in units of a quarter of the range), on their own side; mean and shrinkage come from two releases over samples
    before the first step (docs/proofs/own-mean.md). Their gradient, the residuals e_j times (1, u), a row for each of
    their items, is clipped to norm `clip` as a whole. Its sum over the sample, with Gaussian noise, is released, once
    for each step. So one user moves a release by at most `clip`, and only if they are in the sample, which makes it
    cheaper. The noise is calibrated with a privacy-loss distribution accountant. Steps follow Adam (Kingma and Ba
    2015), vectors decay, and the model averages the factors of later steps. docs/proofs/sgd.md has the proof.

    A ledger that pays for it must be new, or have filter="renyi". Sampling is accounted for add-remove adjacency only.

    Example:
        >>> import discreet
        >>> model = discreet.DPSGD(epsilon=5, delta=1e-6, sample_rate=0.1)  # model.fit(ratings), as for every model
        >>> print(f"{model.n_steps} steps, each on about a tenth of the users")
        100 steps, each on about a tenth of the users

    Args:
        epsilon: The privacy budget.
        delta: The delta of the budget, a constant well below 1 / the number of users.
        rank: The length of the vectors v_j.
        n_steps: The number of steps.
        sample_rate: The probability that a user takes part in a step; with 1, all users do.
        clip: The bound of a user's gradient, in units of a quarter of the range of ratings; public.
        learning_rate: The size of the first steps, in that unit; later steps shrink to a tenth of it.
        adjacency: "add-remove".
        random_state: Seed of the initial vectors; public.
        n_jobs: Number of threads, as in scikit-learn.
    """

    rank: Count = 4
    n_steps: Count = 100
    sample_rate: Positive = 0.1
    clip: Positive = 1.0
    learning_rate: Positive = 0.03
    random_state: Seed = 0
    unit_: float = field(init=False)
    shrinkage_: float = field(init=False)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.sample_rate > 1:
            raise DataError(f"sample_rate: a probability is needed, not {self.sample_rate!r}")
        if self.adjacency != "add-remove":
            raise PrivacyError(
                f"adjacency: releases over samples are accounted for 'add-remove' only, not {self.adjacency!r}; use "
                "that, or another model"
            )

    @property
    def _rate(self) -> float:
        return float(self.sample_rate)

    def _noise_mu(self) -> float:
        """The mu of each release, without amplification by sampling."""
        return largest_mu(float(self.epsilon), float(self.delta), self._rate, self.n_steps + 2)

    def _plan(self, n_items: int) -> Plan:
        cost = sampled_cost(self._noise_mu(), self._rate, 1)
        return Plan((Planned(MEAN, cost), Planned(VARIANCES, cost), Planned(GRADIENT, cost, self.n_steps)))

    def _check_data(self, ratings: Interactions) -> None:
        require_ratings("DPSGD", ratings)

    def _learn_privately(self, releaser: Releaser, ratings: Interactions) -> dict[str, Any]:
        assert ratings.value_range is not None
        low, high = ratings.value_range
        unit, noise = (high - low) / 4, {"mu": self._noise_mu(), "rate": self._rate}

        def sample(numbers: Array) -> Blocks[UserBatch]:
            return user_batches(ratings if self._rate == 1 else ratings.of_users(numbers))

        def release(label: str, statistic: MeanSum | OuterSum, contribution: Callable[[UserBatch], Any]) -> Noisy:
            return releaser.release_sampled(label, statistic, ratings.n_users, sample, contribution, **noise)

        means = release_user_means(release, (low, high), self.adjacency)
        rng = np.random.default_rng(self.random_state)
        factors = np.zeros((ratings.n_items, 1 + self.rank))
        factors[:, 1:] = START * rng.standard_normal((ratings.n_items, self.rank)) / np.sqrt(self.rank)
        adam, mean, count = Adam(float(self.learning_rate), self.n_steps), np.zeros_like(factors), 0
        statistic = OuterSum(factors.shape, float(self.clip))
        for step in range(self.n_steps):
            gradient = partial(own_gradient, user_ridge(factors, means.shrinkage), means.mean, unit)
            released = release(GRADIENT, statistic, gradient)
            factors = adam.step(factors, released.values)
            if step >= LATER * self.n_steps or step == self.n_steps - 1:
                count += 1
                mean = mean + (factors - mean) / count
        return {
            "item_factors_": (mean[:, 1:] * unit).astype(np.float32),
            "item_bias_": (mean[:, 0] * unit).astype(np.float32),
            "popularity_": np.zeros(ratings.n_items, np.float32),
            "global_mean_": means.mean,
            "unit_": unit,
            "shrinkage_": means.shrinkage,
        }

    def _make_fold_in(self) -> FoldIn:
        penalty = Penalty(VECTOR_PENALTY * self.unit_**2)
        return RidgeFoldIn(columns=self.item_factors_, base=self._base, penalty=penalty, offset_penalty=self.shrinkage_)

    def _check_learned(self) -> None:
        super()._check_learned()
        if not 0 < self.unit_ < np.inf:
            raise DataError("unit_: a positive number is needed")
