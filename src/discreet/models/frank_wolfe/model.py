"""Matrix completion by the Frank-Wolfe method (Jain, Thakkar, Thakurta 2018), private and not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import brentq
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, eigsh

from discreet.data.interactions import Interactions
from discreet.engine.batches import DENSE_CELLS, parts
from discreet.errors import DataError
from discreet.models.base import Model, NotPrivateModel, require_ratings
from discreet.models.centering import (
    RATINGS_PER_USER,
    Centering,
    Prepared,
    Shares,
    exact_user_means,
    private_user_means,
    public_row_norm,
    with_user_means,
)
from discreet.models.eigen import Direction, Products, check_budget, leading, oja, second_moment
from discreet.models.fold_in import FoldIn, ReplayFoldIn, RidgeFoldIn
from discreet.models.frank_wolfe.contributions import Corrective, Local, Loss, Users, residuals_of
from discreet.models.frank_wolfe.estimate import COVARIANCE, ENERGY, LENGTH, PRODUCT, Correction, Schedule, Step, packed
from discreet.models.private import PrivateModel
from discreet.parallel import Bar, single_threaded_blas
from discreet.privacy import Plan, Releaser
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array
from discreet.validation import Count, Positive, positive

LossName: TypeAlias = Literal["squared", "logistic"]
Eigensolver: TypeAlias = Literal["dense", "oja"]

ENERGY_SHARE, LENGTH_SHARE = 0.05, 0.01  # shares of the budget for single numbers, whose noise matters little
MOST_STEPS = 20
MOST_DENSE = 4000  # the most items whose covariance is released as a matrix by default
LARGEST_DENSE = 1 << 14  # the most items whose covariance can be released as a matrix: 2 GiB
NO_BOUND = 1e100  # longer than any row
SMALL = 1000  # the most items for which forming the exact covariance is faster
RADIUS = 2.0  # times the largest singular value of the ratings, rescaled to the full matrix


class FrankWolfeModel(Model):
    """A low-rank prediction: a public vector for each step, and each user's coefficients along these vectors.

    Attributes:
        item_factors_: The vectors v_t, one column each; scaled for users' regressions, if steps are corrective.
        steps_: What users need to compute their coefficients: eta_t and eta_t k / lambda_t of each step; for a
            corrective step, the sum of squared residuals after it.
        radius_: k, the nuclear norm that the steps assume; 0 for corrective steps.
        row_norm_: L, the largest length of a user's row.
        centre_: The expected rating before anything is known about the user or the item.
        shrinkage_: The number of pseudo-ratings equal to `centre_` in a user's own mean; None if means are not used.
    """

    steps_: Array
    row_norm_: float
    radius_: float
    centre_: float
    shrinkage_: float | None
    loss: LossName
    centre: bool

    @property
    def _corrective(self) -> bool:
        """Whether users refit all directions with each new one."""
        return False

    @property
    def _centered(self) -> bool:
        """Whether users have their own offsets. With logistic loss, ratings are relative to the middle of the range."""
        return self.centre and self.loss == "squared"

    def _centering(self, value_range: tuple[float, float], row_norm: float) -> Centering:
        """How users prepare their ratings, by public inputs alone."""
        if self.loss == "logistic":
            return Centering(sum(value_range) / 2, None, row_norm)
        return Centering.of(value_range, row_norm, centre=self.centre)

    def _component(self, centering: Centering, value_range: tuple[float, float]) -> Local | Corrective:
        """What users compute."""
        loss = Loss(value_range[1] - value_range[0] if self.loss == "logistic" else None)
        if self._corrective:
            return Corrective(loss, centering.centre, centering.shrinkage)
        return Local(centering, loss)

    def _learned(
        self, centering: Centering, kept: tuple[Array, Sequence[Sequence[float]]], popularity: Array
    ) -> dict[str, Any]:
        """Learned attributes, from public steps."""
        vectors, steps = kept
        return {
            "row_norm_": centering.row_norm,
            "centre_": float(centering.centre),
            "shrinkage_": centering.shrinkage,
            "item_factors_": vectors.astype(np.float32),
            "item_bias_": np.zeros(len(vectors), np.float32),
            "popularity_": np.maximum(popularity, 0).astype(np.float32),
            "steps_": np.array(steps),
        }

    def _make_fold_in(self) -> FoldIn:
        columns, centering = self.item_factors_, Centering(self.centre_, self.shrinkage_, self.row_norm_)
        component = self._component(centering, self.value_range_)
        if isinstance(component, Corrective):
            base, ridge = self.item_bias_ + np.float32(component.centre), component.ridge(columns)
            targets = replace(component, noises=self.steps_[:, 0].tolist()) if self.loss == "logistic" else None
            regression: dict[str, Any] = {"penalty": ridge.penalty, "offset_penalty": ridge.offset_penalty}
            return RidgeFoldIn(columns=columns, base=base, targets=targets, double=True, **regression)
        base, vectors = self.item_bias_ + np.float32(component.centering.centre), columns.astype(np.float64)
        steps = [Step(vectors[:, t], *map(float, numbers)) for t, numbers in enumerate(self.steps_)]
        return ReplayFoldIn(columns=columns, base=base, steps=replace(component, steps=steps))

    def _check_learned(self) -> None:
        super()._check_learned()
        positive("row_norm_", self.row_norm_)
        steps, numbers = self.steps_, 1 if self._corrective else 2
        if steps.shape != (self.item_factors_.shape[1], numbers) or not np.isfinite(steps).all():
            raise DataError(f"steps_: {steps.shape} does not fit factors of shape {self.item_factors_.shape}")
        if self._corrective and not (steps > 0).all():
            raise DataError("steps_: what a step leaves must be positive")


@dataclass(kw_only=True, eq=False, repr=False)
class DPFrankWolfe(FrankWolfeModel, PrivateModel):
    """Private matrix completion by Frank-Wolfe steps, one direction at a time. User-level joint differential privacy.

    It minimizes the sum over users of |P(Y_i - x_i)|^2 / 2 over matrices Y of low rank; x_i is user i's row of ratings,
    and P keeps the items that they have rated. With A_i = P(Y_i - x_i), shortened to length C at most, each of T steps
    is

    - global: release A^T A, the sum over users of A_i^T A_i, with symmetric noise. One user moves it by at most C^2
      (add-remove), or sqrt(2) C^2 (replace). Its leading eigenvector v and eigenvalue lambda^2 are public.
    - local: each user fits their own ratings along all v so far, by a ridge regression whose penalties are public,
      with an offset of their own, shrunk by an amount from two releases before the first step: fully corrective steps.
      C follows the residuals: before each step the sum of |A_i|^2 is released, with the last C (one user moves it by at
      most C^2), and C shrinks as its root does. So does the noise. Steps end where only rounding errors are left, and
      the ledger gets the rest of the budget back; the guarantee stays that of the whole plan.

    With step="constant" the local part is the paper's: Y_i = (1 - eta) Y_i - eta k / lambda' (A_i . v) v, eta = 1 / T,
    with x_i about the user's own mean and scaled to length L at most, projected so that |P Y_i| is at most L; Y stays
    in the ball of nuclear norm k, and C is the same for all steps.

    With eigensolver="oja" the matrix is never formed: v comes from `oja_steps` releases of A^T A v, which one user
    moves by at most C^2 in both adjacencies, and lambda^2 = |A v|^2 from one more. A new user is folded in by the
    public steps and their own history. Proofs: docs/proofs/frank-wolfe.md, oja.md and own-mean.md there.

    Example:
        >>> import discreet
        >>> ratings = discreet.datasets.movielens_like(3000, 100, 60_000, random_state=0)
        >>> model = discreet.DPFrankWolfe(epsilon=5, delta=1e-6).fit(ratings)
        >>> len(model.recommend({ratings.items[0]: 5.0}, n=5))
        5

    Args:
        epsilon: The privacy budget.
        delta: The delta of the budget, a constant well below 1 / the number of users.
        n_steps: T, the most steps. By default 10 sqrt(mu): 5 at epsilon 1 and delta 1e-6, never more than 20.
        radius: k, for constant steps. By default 2.5 times the largest singular value of the whole matrix, estimated
            from the first release.
        row_norm: L. By default the length of a typical row: a fifth of the value range (not centered: half the largest
            rating; logistic: half the range) times the root of `ratings_per_user`.
        residual_clip: C, of the first step or of constant ones; by default L.
        ratings_per_user: About how many ratings a user has: a public guess, by default 80, or all items if fewer.
        eigensolver: "dense", or "oja", in memory linear in items and ratings; by default the former up to 4,000 items.
        oja_steps: Gamma, the number of products for each direction.
        loss: "squared", or "logistic" for ratings that are mostly at the ends of their range.
        step: "corrective", or "constant", as in the paper, but with C.
        centre: Whether rows are taken about users' own means, which is local and free; False for centered data.
        adjacency: "add-remove" or "replace".
        n_jobs: Number of threads, as in scikit-learn. The result is the same for any number.
    """

    _in_spark: ClassVar[bool] = True

    n_steps: Count | None = None
    radius: Positive | None = None
    row_norm: Positive | None = None
    residual_clip: Positive | None = None
    ratings_per_user: Count | None = None
    eigensolver: Eigensolver | None = None
    oja_steps: Count = 8
    loss: LossName = "squared"
    step: Literal["corrective", "constant"] = "corrective"
    centre: bool = True

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.radius is not None and self._corrective:
            raise DataError("radius: corrective steps have none; pass step='constant', or leave radius out")

    @property
    def _corrective(self) -> bool:
        return self.step == "corrective"

    def _solver(self, n_items: int) -> Eigensolver:
        """The dense covariance, unless there are very many items."""
        if self.eigensolver is None:
            return "dense" if n_items <= MOST_DENSE else "oja"
        if self.eigensolver == "dense" and n_items > LARGEST_DENSE:
            raise DataError(
                f"eigensolver: the covariance of {n_items:,} items is too large to be released whole; use 'oja'"
            )
        return self.eigensolver

    def _row_norm(self, value_range: tuple[float, float], n_items: int) -> float:
        """L, from public inputs; raises if it does not follow from them."""
        width = value_range[1] - value_range[0]
        ends, centre = ((-width, width), False) if self.loss == "logistic" else (value_range, self.centre)
        typical = self.ratings_per_user
        return float(self.row_norm or public_row_norm(ends, n_items, ratings_per_user=typical, centre=centre))

    def _fill(self, n_items: int) -> float:
        """About what share of the items a user has rated, from public numbers."""
        return min(self.ratings_per_user or RATINGS_PER_USER, n_items) / n_items

    def _plan(self, n_items: int) -> Plan:
        count = self._n_releases()
        length = LENGTH_SHARE if self._corrective else 0.0
        shares: Shares = {LENGTH: (length, count)} if length else {}
        if self._solver(n_items) == "oja":
            shares |= {PRODUCT: (1 - ENERGY_SHARE - length, count * self.oja_steps), ENERGY: (ENERGY_SHARE, count)}
        else:
            shares |= {COVARIANCE: (1 - length, count)}
        return check_budget(
            Plan.gaussian(self._mu(), with_user_means(shares) if self._releases_means else shares), n_items
        )

    @property
    def _releases_means(self) -> bool:
        """Whether the center that users' means are shrunk to is released; otherwise it is the middle of the range."""
        return self._centered

    def _n_releases(self) -> int:
        """The number of directions to find."""
        return self.n_steps or min(max(round(10 * math.sqrt(self._mu())), 1), MOST_STEPS)

    def _rule(self, n_items: int, centering: Centering) -> Schedule | Correction:
        """The rule for steps."""
        fill, clip = self._fill(n_items), float(self.residual_clip or centering.row_norm)
        if self._corrective:
            return Correction.of(n_items, fill, clip, centering.shrinkage)
        return Schedule(self._n_releases(), fill, self.radius, clip)

    def _public_inputs(self) -> dict[str, str]:
        given = ("n_steps", "radius", "row_norm", "residual_clip", "ratings_per_user")
        words = [f"{name} = {getattr(self, name)}" for name in given if getattr(self, name) is not None]
        return {"bounds": ", ".join(words) + ", given"} if words else {}

    def _direction(self, residuals: Products, rule: Schedule | Correction) -> tuple[Direction, Array | None]:
        """The leading direction, from 1 or `oja_steps` + 1 releases, and the diagonal of the covariance, if released.

        The dense release is the sum over users of A_i^T A_i: sensitivity C^2, or sqrt(2) times that. `rule.which` is
        the suffix of labels of releases that are charged differently from those of other steps.
        """
        if self._solver(residuals.size) == "oja":
            labels = PRODUCT + rule.which, ENERGY + rule.which
            return oja(residuals, labels, self.oja_steps, rate=rule.oja_rate), None
        release = residuals.moment(COVARIANCE + rule.which)
        return leading(release, rule.covariance_fill), np.diag(release.values)

    def _check_data(self, ratings: Interactions) -> None:
        self._row_norm(require_ratings(type(self).__name__, ratings), ratings.n_items)
        self._solver(ratings.n_items)

    def _learn_privately(self, releaser: Releaser, ratings: Interactions) -> dict[str, Any]:
        value_range, n = require_ratings(type(self).__name__, ratings), ratings.n_items
        row_norm = self._row_norm(value_range, n)
        centering = self._centering(value_range, row_norm)
        if self._releases_means:
            centering = centering.about(private_user_means(releaser, ratings))
        rule, popularity, last = self._rule(n, centering), np.zeros(n), self._n_releases() - 1
        most_users = max(DENSE_CELLS // n, 1) if self._solver(n) == "dense" else None
        users = Users.of(ratings, self._component(centering, value_range), most_users, self.n_jobs)

        def residuals() -> Products:  # users' residuals, clipped to norm C, so one user moves a release by at most C^2
            return Products(releaser, users.batches, residuals_of, n, rule.clip * rule.clip)

        for t in range(last + 1):
            if not rule.before(residuals()):
                break  # a decision by releases: the rest of the plan is not spent
            direction, diagonal = self._direction(residuals(), rule)
            step = rule.step(direction)
            if t == 0 and diagonal is not None:
                popularity = diagonal  # it is large for items with many and varied ratings
            if t < last:  # the last step is made only when users are folded in
                users.advance(step)
        vectors, numbers, radius = rule.kept()
        return {
            **self._learned(centering, (vectors, numbers), popularity),
            "global_mean_": centering.centre if self._centered else sum(value_range) / 2,
            "radius_": radius,
        }


@dataclass(kw_only=True, eq=False, repr=False)
class FrankWolfe(FrankWolfeModel, NotPrivateModel):
    """Matrix completion in a nuclear-norm ball by Frank-Wolfe steps, not private: what `DPFrankWolfe` does with noise.

    Minimizes the loss of the fitted ratings over matrices of nuclear norm at most k. Each step moves Y toward
    -k u v^T, where u and v are the leading singular vectors of the gradient at the observed entries.

    Example:
        >>> import discreet
        >>> ratings = discreet.datasets.movielens_like(300, 50, 6_000, random_state=0)
        >>> len(discreet.FrankWolfe().fit(ratings).recommend({3: 5.0, 14: 1.5}, n=5))
        5

    Args:
        n_steps: The number of steps.
        radius: k, the largest nuclear norm; by default twice the largest singular value of the ratings, scaled up to
            the whole matrix.
        step: "line-search": the step size in [0, 1] with the least loss. "classic": eta = 2 / (t + 2).
        loss: "squared" or "logistic".
        centre: Whether rows are taken about users' own means.
        n_jobs: Number of threads, as in scikit-learn.
    """

    n_steps: Count = 20
    radius: Positive | None = None
    step: Literal["line-search", "classic"] = "line-search"
    loss: LossName = "squared"
    centre: bool = True
    n_jobs: int | None = -1

    def _learn_exactly(self, ratings: Interactions) -> dict[str, Any]:
        low, high = require_ratings("FrankWolfe", ratings)
        fill = len(ratings) / (ratings.n_users * ratings.n_items)
        centering = self._centering((low, high), NO_BOUND)
        if self._centered:
            centering = centering.about(exact_user_means(ratings, (low, high)))
        local = self._component(centering, (low, high))
        assert isinstance(local, Local)
        row = local.centering.prepare(UserBatch(ratings.indptr, ratings.indices.astype(np.int64), ratings.values))
        fitted, radius = np.zeros(len(row.values)), self.radius
        steps: list[Step] = []
        with Bar("FrankWolfe", self.n_steps, "steps") as bar:
            for t in range(self.n_steps):
                residuals = local.residuals(row, fitted)[0]
                vector, largest = _exactly_leading(ratings, residuals, self.n_jobs)
                radius = radius or RADIUS * largest / fill
                gain = radius / largest if largest else 0.0
                atom = local.update(row, fitted, residuals, Step(vector, 1.0, gain))[0]
                size = 2 / (t + 2) if self.step == "classic" else _line_search(local, row, fitted, atom)
                fitted += size * (atom - fitted)
                steps.append(Step(vector, size, size * gain))
                bar.advance(1)
        popularity = np.bincount(ratings.indices, minlength=ratings.n_items)
        return {
            **self._learned(centering, packed(steps), popularity),
            "value_range_": (low, high),
            "radius_": float(radius or 0.0),
        }


def _exactly_leading(ratings: Interactions, residuals: Array, n_jobs: int | None) -> tuple[Array, float]:
    """The leading right singular vector of a sparse matrix of residuals, and its singular value."""
    n = ratings.n_items
    if not residuals.any():
        return np.zeros(n), 0.0
    if n <= SMALL:
        blocks = parts(ratings, residuals, most_users=max(DENSE_CELLS // n, 1))
        square = second_moment(blocks, n, n_jobs)
        with single_threaded_blas():
            values, vectors = eigh(square, subset_by_index=[n - 1, n - 1])
    else:
        table = csr_array((residuals, ratings.indices, ratings.indptr), shape=(ratings.n_users, n))
        operator = LinearOperator((n, n), matvec=lambda v: table.T @ (table @ v), dtype=np.float64)
        begin = np.random.default_rng(0).standard_normal(n)
        with single_threaded_blas():
            values, vectors = eigsh(operator, k=1, v0=begin, tol=1e-4)
    vector = vectors[:, 0].astype(np.float32).astype(np.float64)
    return vector, float(np.sqrt(max(values[0], 0.0)))


def _line_search(local: Local, row: Prepared, fitted: Array, atom: Array) -> float:
    """The step size in [0, 1] toward the atom with the least loss, which is convex."""
    change = atom - fitted

    def derivative(size: float) -> float:
        return float((local.residuals(row, fitted + size * change)[0] * change).sum())

    if derivative(0.0) >= 0:
        return 0.0
    return 1.0 if derivative(1.0) <= 0 else float(brentq(derivative, 0.0, 1.0, xtol=1e-9))
