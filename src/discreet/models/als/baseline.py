"""Alternating least squares without privacy: the model that private ones are measured against."""

from __future__ import annotations

from dataclasses import KW_ONLY, astuple, dataclass, field
from typing import Any, Literal

import numpy as np

from discreet import kernels
from discreet.data.interactions import Interactions
from discreet.errors import DataError
from discreet.kernels import Table
from discreet.models.als.contributions import MOST_ITEMS, USER_CHOICES, moments
from discreet.models.als.estimate import ItemPosterior
from discreet.models.als.moments import ItemFrequencies, UserStatistics, kernel_columns
from discreet.models.base import NotPrivateModel
from discreet.models.fold_in import FoldIn, Penalty, RidgeFoldIn, shared_gram
from discreet.parallel import Bar, single_threaded_blas
from discreet.privacy.releaser import Noisy
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array
from discreet.validation import Count, NotNegative, Positive, Seed

EXPLICIT, IMPLICIT = (16, 12.0, 0.0), (64, 6.0, 0.2)  # rank, regularization, global penalty: good on MovieLens 1M
FEW_ITEMS_RANK = 64  # largest default rank for few items: with estimated variances, extra columns do little harm
BIAS_PENALTY, EXPONENT = 1.0, 0.5
PENALTIES = ("regularization", "bias_regularization", "user_exponent", "item_exponent", "global_penalty")
START = 0.1  # size of the initial random item vectors, for ratings with a standard deviation of about 1
EXACT = 1e-9  # standard deviation in place of 0, for sums without noise
KERNEL = 0.1  # variance of users' tastes along the kernel columns
LEAST = 1e-4  # lower bound on the variances of noise and of columns of item vectors, in the same unit


@dataclass(eq=False, repr=False)
class ALS(NotPrivateModel):
    """Matrix factorization by alternating least squares, for ratings and for implicit feedback. Not private.

    Minimizes, over user vectors u_i and offsets a_i, item vectors v_j and biases b_j,

        sum over observed (i, j) of (y_ij - m - a_i - b_j - u_i . v_j)^2
        + global_penalty * sum over all (i, j) of (u_i . v_j)^2
        + regularization * (sum_i w_i |u_i|^2 + sum_j w'_j |v_j|^2)
        + bias_regularization * (sum_i a_i^2 + sum_j b_j^2)

    with m the mean rating, w_i = c_i^user_exponent / Z for a user with c_i interactions and w'_j = c_j^item_exponent /
    Z' for an item with c_j, where Z and Z' are the means of the numerators. Without biases (biases=False, the default
    for implicit feedback) m = a_i = b_j = 0; then every y_ij is 1, and the second term keeps u_i . v_j from being 1
    everywhere. A step solves for all users and then for all items, each by a ridge regression; a new user is folded in
    by the same one.

    With biases, and if none of the five penalties is given, they are estimated from the data, so that the model suits
    ratings of any scale and number. Offsets, biases, vectors and noise are modeled as normal; each step of variational
    Bayes estimates their variances, and allows for the uncertainty of the other side's vectors. Users are folded in as
    by `DPALS`: the prior mean of a user's vector depends on which items they have, and kernel columns let predictions
    rise for any item that is similar to those they liked.

    Example:
        >>> import discreet
        >>> ratings = discreet.datasets.movielens_like(300, 50, 6_000, random_state=0)
        >>> model = discreet.ALS(rank=8).fit(ratings)
        >>> model.guarantee_.holds
        False
        >>> len(model.recommend({3: 5.0, 14: 1.5}, n=5))
        5

    Args:
        rank: The length of the vectors; by default 16 for ratings and 64 for implicit feedback. With estimated
            penalties and at most 400 items, the number of items, but at most 64.
        regularization: Weight of the vectors' squared lengths; by default 12 for ratings, 6 for implicit feedback. With
            biases it is estimated, like the four below, unless one of the five is given.
        bias_regularization: Weight of the squared biases; by default 1.
        user_exponent: How regularization grows with a user's number of interactions (nu in DPALS, Eq. 24); by default
            0.5.
        item_exponent: The same for items (mu).
        global_penalty: Weight of the squared scores of all pairs, rated or not (lambda_0); by default 0 for ratings and
            0.2 for implicit feedback.
        biases: Whether there are m, a and b; by default for ratings, not for implicit feedback.
        n_steps: The number of steps.
        solver: "exact" (Cholesky), or "cg": a few conjugate-gradient steps from the last vectors, faster at high ranks.
        cg_steps: Steps of conjugate gradients.
        dtype: "float32" or "float64".
        random_state: Seed of the vectors that the first step starts from.
        n_jobs: Number of threads, as in scikit-learn. The result is the same, bit for bit, for any number.
    """

    gram_: Array = field(init=False)
    item_prior_: Array = field(init=False)
    biases_: bool = field(init=False)
    offset_penalty_: float = field(init=False)
    folding_: tuple[float, float, float, float] = field(init=False)

    rank: Count | None = None
    _: KW_ONLY
    regularization: Positive | None = None
    bias_regularization: Positive | None = None
    user_exponent: NotNegative | None = None
    item_exponent: NotNegative | None = None
    global_penalty: NotNegative | None = None
    biases: bool | None = None
    n_steps: Count = 15
    solver: Literal["exact", "cg"] = "exact"
    cg_steps: Count = 3
    dtype: Literal["float32", "float64"] = "float32"
    random_state: Seed | None = 0
    n_jobs: int | None = -1

    def _learn_exactly(self, ratings: Interactions) -> dict[str, Any]:
        biases = self.biases if self.biases is not None else not ratings.implicit
        if biases and ratings.implicit:
            raise DataError("biases: implicit feedback has no ratings, so it has no biases; leave biases=True out")
        given = any(getattr(self, name) is not None for name in PENALTIES)
        return (_Estimation(self, ratings) if biases and not given else _Training(self, ratings, biases)).run()

    def _check_learned(self) -> None:
        super()._check_learned()
        m, k = self.item_factors_.shape
        prior, gram = self.item_prior_.shape, self.gram_.shape
        if len(prior) != 2 or prior[0] != m or prior[1] > k or gram not in ((0, 0), (k, k)) or len(self.folding_) != 4:
            raise DataError("item_prior_, gram_, folding_: their shapes do not fit the factors")

    def _similar_columns(self) -> slice:
        """All columns but kernel columns, which follow from the others."""
        return slice(0, self.item_prior_.shape[1] or self.item_factors_.shape[1])

    def _make_fold_in(self) -> FoldIn:
        n_kernel = self.item_factors_.shape[1] - self.item_prior_.shape[1]
        return RidgeFoldIn(
            columns=self.item_factors_,
            base=self.item_bias_ + self.item_bias_.dtype.type(self.global_mean_ if self.biases_ else 0),
            penalty=Penalty(*self.folding_),
            gram=self.gram_ if self.gram_.size else None,
            offset_penalty=self.offset_penalty_ if self.biases_ else None,
            prior=np.pad(self.item_prior_, ((0, 0), (0, n_kernel))) if self.item_prior_.size else None,
            prior_count=USER_CHOICES,
        )


class _Training:
    """One fit with given penalties: both sides' vectors and biases."""

    def __init__(self, model: ALS, ratings: Interactions, biases: bool) -> None:
        self.model, self.biases = model, biases
        self.kind = np.dtype(model.dtype)
        columns = ratings.by_item
        mean = self.kind.type(ratings.values.mean(dtype=np.float64) if biases else 0)
        self.by_user = (ratings.indptr, ratings.indices, ratings.values.astype(self.kind) - mean)
        self.by_item = (columns.indptr, columns.indices, columns.values.astype(self.kind) - mean)
        usual = IMPLICIT if ratings.implicit else EXPLICIT
        rank = usual[0] if model.rank is None else model.rank
        self.scale = usual[1] if model.regularization is None else model.regularization
        self.global_penalty = usual[2] if model.global_penalty is None else model.global_penalty
        self.bias_penalty = BIAS_PENALTY if model.bias_regularization is None else model.bias_regularization
        self.user_penalty = _penalty(self.scale, model.user_exponent, np.diff(ratings.indptr))
        item_penalty = _penalty(self.scale, model.item_exponent, np.diff(columns.indptr))
        self.user_scales = self.user_penalty(np.diff(ratings.indptr), self.kind)
        self.item_scales = item_penalty(np.diff(columns.indptr), self.kind)
        rng = np.random.default_rng(model.random_state)
        self.V = Table.of((rng.standard_normal((ratings.n_items, rank)) / np.sqrt(rank)).astype(self.kind))
        self.U = Table.empty(ratings.n_users, rank, self.kind)
        self.a, self.b = np.zeros(ratings.n_users, self.kind), np.zeros(ratings.n_items, self.kind)

    def run(self) -> dict[str, Any]:
        with Bar("ALS", self.model.n_steps, "steps") as bar:
            for _ in range(self.model.n_steps):
                self.a, self.U = self._side(self.by_user, self.V, self.b, self.user_scales, (self.a, self.U))
                self.b, self.V = self._side(self.by_item, self.U, self.a, self.item_scales, (self.b, self.V))
                bar.advance(1)
        gram = self._gram(self.V)
        return {
            "item_factors_": self.V.values.copy(),
            "item_bias_": self.b,
            "gram_": np.zeros((0, 0), self.kind) if gram is None else gram,
            "item_prior_": np.zeros((len(self.b), 0), self.kind),
            "biases_": self.biases,
            "offset_penalty_": float(self.bias_penalty),
            "folding_": tuple(map(float, astuple(self.user_penalty))),
        }

    def _gram(self, table: Table) -> Array | None:
        return shared_gram(table.values, self.kind.type(self.global_penalty), self.model.n_jobs)

    def _side(
        self, rows: tuple[Array, Array, Array], table: Table, base: Array, scales: Array, now: tuple[Array, Table]
    ) -> tuple[Array, Table]:
        """One side's biases and vectors, given the other side's; the present ones are overwritten."""
        model, by_steps = self.model, self.model.solver == "cg"
        return kernels.ridge(
            *rows,
            table,
            scales,
            base=base if self.biases else None,
            gram=self._gram(table),
            offset_penalty=self.bias_penalty if self.biases else None,
            steps=model.cg_steps if by_steps else 0,
            start=now,
            n_jobs=model.n_jobs,
        )


def _penalty(scale: float, exponent: float | None, counts: Array) -> Penalty:
    exponent = EXPONENT if exponent is None else exponent
    return Penalty(scale, exponent, float(np.mean(np.maximum(counts, 1).astype(np.float64) ** exponent)))


class _Estimation:
    """One fit that estimates its penalties: variational Bayes.

    Ratings are relative to their mean, in units of about the standard deviation of a user's ratings. Users' vectors
    have the prior variance 1 in all directions, items' the variance `spread` in each column. Only averages of posterior
    covariances are needed: for a row with c ratings it is noise * (c C + noise * P)^-1, where P is the inverse of the
    prior covariance and C the mean square of the other side's vectors.
    """

    def __init__(self, model: ALS, ratings: Interactions) -> None:
        self.model, self.kind = model, np.dtype(model.dtype)
        few = min(FEW_ITEMS_RANK, ratings.n_items) if ratings.n_items <= MOST_ITEMS else EXPLICIT[0]
        rank = few if model.rank is None else model.rank
        columns, mean = ratings.by_item, ratings.values.mean(dtype=np.float64)
        half = max(float(np.abs(ratings.values - mean).max()), 1e-30)  # nonzero, even if all ratings are the same
        rows = [(one.indptr, one.indices, (one.values - mean) / half) for one in (ratings, columns)]
        users, items = (_statistics(*one) for one in rows)
        self.unit, self.offset_penalty, self.bias_penalty = (
            users.within * half,
            users.offset_penalty,
            items.offset_penalty,
        )
        self.by_user, self.by_item = ((*one[:2], (one[2] / users.within).astype(self.kind)) for one in rows)
        self.user_counts, self.item_counts = np.diff(ratings.indptr), np.diff(columns.indptr)
        start = np.random.default_rng(model.random_state).standard_normal((ratings.n_items, rank))
        self.U, self.V = np.zeros((ratings.n_users, rank)), START * start
        self.a, self.b = np.zeros(ratings.n_users, self.kind), np.zeros(ratings.n_items, self.kind)
        self.noise, self.spread = 1.0, np.full(rank, START**2)
        self.unknown = np.zeros((rank, rank))  # the covariance of items' vectors, on average over ratings
        self.item_covariance = np.zeros((rank, rank))  # and over items

    def run(self) -> dict[str, Any]:
        with Bar("ALS", self.model.n_steps, "steps") as bar, single_threaded_blas():
            for at in range(self.model.n_steps):
                self._item_step(self._user_step(), first=at == 0)
                bar.advance(1)
        kind, unit, k = self.kind, self.unit, self.V.shape[1]
        known = ItemPosterior(np.column_stack([self.b, self.V]), np.zeros((len(self.b), 0, 0)))
        counts, one = self.item_counts.astype(np.float64), np.ones(len(self.b))
        kernel = kernel_columns(known.mean, counts) * np.sqrt(KERNEL)
        return {
            "item_factors_": (np.column_stack([self.V, kernel]) * unit).astype(kind),
            "item_bias_": self.b * kind.type(unit),
            "item_prior_": known.priors(ItemFrequencies.known(one, counts, counts, one)).astype(kind),
            "gram_": np.zeros((0, 0), kind),
            "biases_": True,
            "offset_penalty_": float(self.offset_penalty),
            "folding_": (float(np.trace(self.unknown) / k * unit**2), 1.0, 1.0, float(self.noise * unit**2)),
        }

    def _user_step(self) -> Array:
        """Update users' vectors; then rotate and scale them, and items' with them. Returns `unknown` of users."""
        counts, k = self.user_counts, self.V.shape[1]
        penalty = Penalty(float(np.trace(self.unknown) / k), 1.0, constant=self.noise)
        table = Table.of(self.V, self.kind)
        self.a, self.U = self._ridge(
            (self.by_user, table),
            (self.a, self.U),
            penalty=penalty(counts, self.kind),
            offset_penalty=self.offset_penalty,
            base=self.b,
        )
        moment = self._moment(self.V, self.item_counts) + self.unknown
        covariance, unknown = self._covariances(moment, np.ones(k), counts)
        prior = self._moment(self.U, counts > 0) + covariance
        scale = np.linalg.cholesky(prior)
        turn = scale @ np.linalg.eigh(scale.T @ self._moment(self.V, self.item_counts) @ scale)[1][:, ::-1]
        back = np.linalg.inv(turn)
        self.U, self.V = self.U @ back.T, self.V @ turn
        self.item_covariance = turn.T @ self.item_covariance @ turn
        found: Array = back @ unknown @ back.T
        return found

    def _item_step(self, unknown: Array, first: bool) -> None:
        """Update items' vectors and the noise, in coordinates in which `unknown` of users is the identity."""
        counts = self.item_counts
        if not first:
            squares = np.diagonal(self._moment(self.V, counts > 0) + self.item_covariance)
            self.spread = np.maximum(squares, LEAST**2)
        root = np.linalg.cholesky(unknown)
        back, left = np.linalg.inv(root), np.empty(len(self.by_item[2]), self.kind)
        gram = (back * (self.noise / self.spread)) @ back.T
        table, start = Table.of(self.U @ back.T, self.kind), (self.b, self.V @ root)
        self.b, V = self._ridge(
            (self.by_item, table),
            start,
            penalty=counts.astype(self.kind),
            offset_penalty=self.bias_penalty,
            base=self.a,
            gram=gram,
            residuals=left,
        )
        self.V = V @ back
        moment = self._moment(self.U, self.user_counts) + unknown
        self.item_covariance, self.unknown = self._covariances(moment, self.spread, counts)
        blur = np.sum(self._moment(self.V, counts) * unknown) + np.sum(self.unknown * moment)
        self.noise = max(float(np.mean(left.astype(np.float64) ** 2) + blur), LEAST)

    def _ridge(
        self,
        given: tuple[tuple[Array, Array, Array], Table],
        now: tuple[Array, Array],
        *,
        penalty: Array,
        **options: Any,
    ) -> tuple[Array, Array]:
        """One side's biases and vectors, from its rows and the other side's vectors."""
        (rows, table), (offsets, vectors) = given, now
        offsets, found = kernels.ridge(
            *rows,
            table,
            penalty,
            steps=self.model.cg_steps if self.model.solver == "cg" else 0,
            start=(offsets, Table.of(vectors, self.kind)),
            n_jobs=self.model.n_jobs,
            **options,
        )
        return offsets, found.values.astype(np.float64)

    def _moment(self, vectors: Array, weights: Array) -> Array:
        """The weighted mean of v v^T; the same for any number of threads."""
        gram = shared_gram(vectors * np.sqrt(weights)[:, None], 1 / float(weights.sum()), self.model.n_jobs)
        assert gram is not None
        return gram

    def _covariances(self, moment: Array, spread: Array, counts: Array) -> tuple[Array, Array]:
        """The mean posterior covariance, over rows with ratings, and over ratings."""
        root = np.sqrt(spread)
        values, axes = np.linalg.eigh(root[:, None] * moment * root)
        axes = root[:, None] * axes
        c, times = np.unique(counts[counts > 0], return_counts=True)
        each = self.noise / (c[:, None] * np.maximum(values, 0) + self.noise)
        rows, ratings = (np.average(each, axis=0, weights=weights) for weights in (times, times * c))
        return (axes * rows) @ axes.T, (axes * ratings) @ axes.T


def _statistics(indptr: Array, indices: Array, values: Array) -> UserStatistics:
    """Statistics of rows of ratings between -1 and 1, for users or items."""
    rows = UserBatch(indptr, indices, values)
    found = moments((0.0, 1.0, np.inf), 1.0)(rows)
    return UserStatistics.of(Noisy(found[rows.counts > 0].sum(axis=0), EXACT))
