"""The private side of Frank-Wolfe: what users compute from their own ratings and public steps.

Training and serving run the same code. A user's numbers depend only on that user and public numbers, to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, TypeAlias

import numpy as np

from discreet.engine import Blocks
from discreet.engine.batches import Ratings, user_batches
from discreet.models.centering import Centering, Prepared
from discreet.models.fold_in import Description, Penalty, Ridge
from discreet.models.frank_wolfe.estimate import Basis, Step
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array


@dataclass(frozen=True)
class Loss:
    """A smooth convex loss l(y, x) of a fitted value y and a centered rating x, with dl/dy = slope(y) y - x.

    Without a width it is the squared loss, (y - x)^2 / 2. With `width` R, the width of the range of ratings, it is the
    logistic loss of ratings that are mostly at the two ends of their range: in units of ratings, with x the rating less
    the middle, a fitted y means that the rating is the higher one with probability 1 / (1 + exp(-4 y / R)). So the
    middle + y is the expected rating to first order, and always on the right side of the middle. The loss is R^2 / 4
    times the usual one. Clipping bounds the sensitivity of a residual, for any loss.
    """

    width: float | None = None

    def slope(self, fitted: Array) -> Array:
        """1, or R / 2 tanh(2 y / R) / y: a public function, applied to each value by itself."""
        if self.width is None:
            return np.ones_like(fitted)
        scaled = 2 / self.width * fitted
        small = np.abs(scaled) < 1e-4  # here tanh(s) / s is 1 to eight digits
        return np.where(small, 1.0, np.tanh(scaled) / np.where(small, 1.0, scaled))


@dataclass(frozen=True)
class Fitted(UserBatch):
    """Some users' rows in training, on their own items."""

    fitted: Array  # Y_i, the current fit
    residuals: Array  # A_i, the current residuals


@dataclass(frozen=True)
class Local:
    """The local component of Algorithm 1. A user's prediction is sum_t z_t v_t, with coefficients z of their own.

    A user who is folded in replays all `steps`, one for each column.
    """

    forgets: ClassVar[bool] = False  # a step starts from the previous iterate
    most_users: ClassVar[None] = None  # a replay computes nothing large for a user

    centering: Centering  # how a user prepares their row, and L
    loss: Loss
    steps: Sequence[Step] = ()

    def residuals(self, row: Prepared, fitted: Array) -> tuple[Array, Array]:
        """A_i on the user's own items, and the slopes of the loss."""
        slopes = self.loss.slope(fitted)
        return slopes * fitted - row.values, slopes

    def update(self, row: Prepared, fitted: Array, residuals: Array, step: Step) -> tuple[Array, Array, Array]:
        """One local update: (1 - eta) Y_i - eta k u_i v, projected so that it is no longer than L on their items.

        Returns the fitted values, the coefficient of v before the projection, and the factor of the projection.
        """
        own = step.vector[row.indices]
        weights = -step.gain * row.row_sums(residuals * own)
        moved = (1 - step.size) * fitted + weights[row.owners] * own
        limit = self.centering.row_norm
        shrunk = limit / np.maximum(np.sqrt(row.row_sums(moved**2)), limit)
        return moved * shrunk[row.owners], weights, shrunk

    def begin(self, part: UserBatch) -> tuple[Array, Array]:
        """Y_i = 0, and A_i."""
        row = self.centering.prepare(part)
        nothing = np.zeros(len(row.values))
        return nothing, self.residuals(row, nothing)[0]

    def move(self, part: Fitted, step: Step) -> tuple[Array, Array]:
        """Y_i and A_i after one more step."""
        row, fitted = self.centering.prepare(part), part.fitted.astype(np.float64)
        moved = self.update(row, fitted, self.residuals(row, fitted)[0], step)[0]
        return moved, self.residuals(row, moved)[0]

    def coefficients(self, row: Prepared) -> Array:
        """Some users' coefficients (users, steps)."""
        fitted = np.zeros(len(row.values))
        vectors = np.zeros((len(row.counts), len(self.steps)))
        for t, step in enumerate(self.steps):
            residuals = self.residuals(row, fitted)[0]
            fitted, weights, shrunk = self.update(row, fitted, residuals, step)
            vectors[:, :t] *= ((1 - step.size) * shrunk)[:, None]
            vectors[:, t] = weights * shrunk
        return vectors

    def contributions(self, part: UserBatch, aim: Array) -> Array:
        """The contribution of each of one user's ratings to the offset plus coefficients . aim.

        Scales, projections and slopes are held fixed at their values for the whole history. Then coefficients and score
        are linear in the centered ratings: the replay runs forward, and backpropagation gives the score's derivatives.
        """
        row, values = self.centering.prepare(part), part.values
        fitted, seen = np.zeros(len(values)), []
        for step in self.steps:
            residuals, slopes = self.residuals(row, fitted)
            fitted, _, shrunk = self.update(row, fitted, residuals, step)
            seen.append((step, step.vector[row.indices], slopes, shrunk[0]))
        by_fitted, by_rating, kept = np.zeros(len(values)), np.zeros(len(values)), 1.0
        for t in reversed(range(len(seen))):
            step, own, slopes, shrunk_by = seen[t]
            kept *= shrunk_by
            by_weight = kept * float(aim[t]) + shrunk_by * float((own * by_fitted).sum())
            kept *= 1 - step.size
            by_residual = -step.gain * by_weight * own
            by_fitted = shrunk_by * (1 - step.size) * by_fitted + slopes * by_residual
            by_rating -= by_residual
        return np.asarray(self.centering.offset_shares(values) + by_rating * row.values / row.scales[0])

    def describe(self) -> Description:
        """Sizes and gains; the vectors are the columns."""
        numbers = [[step.size, step.gain] for step in self.steps]
        return {"rule": "frank-wolfe", "width": self.loss.width, "numbers": numbers}, {}, {}

    def with_tables(self, tables: dict[str, Array]) -> Local:
        """A copy with other columns."""
        vectors = tables["columns"].astype(np.float64)
        return replace(self, steps=[replace(step, vector=vectors[:, t]) for t, step in enumerate(self.steps)])


@dataclass(frozen=True)
class Corrective:
    """The local component of corrective steps: regressions on all directions so far, and on a constant if centered.

    For the squared loss, A_i is the residual of the regression. For another loss, each step minimizes a quadratic upper
    bound that touches the loss at the previous iterate (its curvature is at most 1). A user who is folded in then needs
    the regressions of all steps, each of which gives the targets of the next one.
    """

    loss: Loss
    centre: float  # the publicly expected rating
    shrinkage: float | None  # of users' own offsets; None if they have none
    noises: Sequence[float] = ()  # for fold-in, one for each step; a step's columns are the last step's, rescaled

    @property
    def forgets(self) -> bool:
        """With the squared loss, a regression fits the ratings themselves."""
        return self.loss.width is None

    def ridge(self, columns: Array) -> Ridge:
        """A user's regression of their ratings minus the center."""
        base = np.zeros(len(columns), columns.dtype)
        return Ridge(columns, base, Penalty(1.0), offset_penalty=self.shrinkage)

    def begin(self, part: UserBatch) -> tuple[Array, Array]:
        """Y_i, the user's own shrunken mean if there are offsets, and A_i."""
        about = self._about(part)
        fitted = np.zeros(len(about))
        if self.shrinkage is not None:
            fitted = (part.row_sums(about) / (part.counts + self.shrinkage))[part.owners]
        return fitted, self._residuals(about, fitted)

    def move(self, part: Fitted, step: Basis) -> tuple[Array, Array]:
        """Y_i and A_i after fitting the directions of a basis."""
        about, left = self._about(part), np.zeros(len(part.indices))
        targets = self.targets(about, part.fitted.astype(np.float64))
        self.ridge(step.columns.astype(np.float64)).solve(part.indptr, part.indices, targets, residuals=left)
        return targets - left, self._residuals(about, targets - left)

    def targets(self, about: Array, fitted: Array) -> Array:
        """The targets of a regression: Y_i - A_i, which for the squared loss are the ratings themselves."""
        return about if self.forgets else fitted - self._residuals(about, fitted)

    def _about(self, part: UserBatch) -> Array:
        return np.asarray(part.values.astype(np.float64) - self.centre)

    def _residuals(self, about: Array, fitted: Array) -> Array:
        return self.loss.slope(fitted) * fitted - about

    # The interface of `Targets` for `RidgeFoldIn`, with the logistic loss.

    def __call__(self, ridge: Ridge, indptr: Array, indices: Array, values: Array, n_jobs: int | None) -> Array:
        """The targets of the last regression."""
        about = values.astype(np.float64) - self.centre
        targets, left = self.targets(about, np.zeros(len(about))), np.zeros(len(about))
        for t, factor in self._rounds()[:-1]:
            step = self.ridge(ridge.columns[:, :t] * factor)
            step.solve(indptr, indices, targets, residuals=left, n_jobs=n_jobs)
            targets = self.targets(about, targets - left)
        return targets + ridge.base[indices]

    def _rounds(self) -> list[tuple[int, float]]:
        """The number of columns of each step, and their factor."""
        return [(t, math.sqrt(self.noises[-1] / noise)) for t, noise in enumerate(self.noises, 1)]

    def describe(self, rank: int) -> dict[str, Any]:
        """The loss and the steps."""
        loss = {"name": "logistic", "width": self.loss.width, "centre": self.centre}
        return {"loss": loss, "rounds": [list(one) for one in self._rounds()]}


Component: TypeAlias = Local | Corrective


@dataclass
class Users:
    """All users, with Y_i and A_i on their own items only, so that memory is O(|Omega|), the number of ratings.

    In Spark, Y_i and A_i are not kept: each pass replays the public steps.
    """

    component: Component
    begun: Blocks[Fitted]  # before the first step
    batches: Blocks[Fitted]  # now
    n_jobs: int | None

    @classmethod
    def of(cls, ratings: Ratings, component: Component, most_users: int | None, n_jobs: int | None) -> Users:
        """Users before the first step, in batches of at most `most_users`."""
        begun = user_batches(ratings, most_users).map(partial(_fitted, component.begin))
        return cls(component, begun, begun.keep(n_jobs), n_jobs)

    def advance(self, step: Step | Basis) -> None:
        """Make the local update of all users."""
        before = self.begun if self.component.forgets else self.batches
        move: Callable[..., tuple[Array, Array]] = self.component.move
        self.batches = before.map(partial(_fitted, partial(move, step=step))).keep(self.n_jobs)


def _fitted(update: Callable[[Any], tuple[Array, Array]], part: UserBatch) -> Fitted:
    fitted, residuals = (array.astype(np.float32) for array in update(part))
    return Fitted(part.indptr, part.indices, part.values, fitted, residuals)


def residuals_of(part: Fitted) -> Array:
    """A_i of some users, on their own items."""
    return part.residuals.astype(np.float64)
