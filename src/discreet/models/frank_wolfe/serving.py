"""How a user is folded in: by replaying the public steps, or the corrective regressions, on their own ratings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from discreet.models.centering import Centering, Prepared
from discreet.models.frank_wolfe.contributions import Corrective, Local
from discreet.models.frank_wolfe.estimate import Step
from discreet.models.ridge import Ridge
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

if TYPE_CHECKING:
    from discreet.models.fold_in import Description


@dataclass(frozen=True)
class FrankWolfeSteps:
    """The public steps, for a user who is folded in to replay; one for each column."""

    most_users: ClassVar[None] = None  # nothing large is computed for a user

    local: Local
    steps: Sequence[Step]

    @property
    def centering(self) -> Centering:
        """How a user prepares their ratings."""
        return self.local.centering

    def coefficients(self, row: Prepared) -> Array:
        """Some users' coefficients (users, steps)."""
        fitted = np.zeros(len(row.values))
        vectors = np.zeros((len(row.counts), len(self.steps)))
        for t, step in enumerate(self.steps):
            residuals = self.local.residuals(row, fitted)[0]
            fitted, weights, shrunk = self.local.update(row, fitted, residuals, step)
            vectors[:, :t] *= ((1 - step.size) * shrunk)[:, None]
            vectors[:, t] = weights * shrunk
        return vectors

    def contributions(self, part: UserBatch, aim: Array) -> Array:
        """What each rating of one user adds to the offset and to coefficients . aim.

        Scales, projections and the slopes of the loss are taken as they turned out for the whole history. Given these,
        every coefficient is a sum over the centered ratings, and so is the score: the replay runs forward, and the
        score's derivatives run back through it.
        """
        row, values = self.centering.prepare(part), part.values
        fitted, seen = np.zeros(len(values)), []
        for step in self.steps:
            residuals, slopes = self.local.residuals(row, fitted)
            fitted, _, shrunk = self.local.update(row, fitted, residuals, step)
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
        return {"rule": "frank-wolfe", "width": self.local.loss.width, "numbers": numbers}, {}, {}

    def with_tables(self, tables: dict[str, Array]) -> FrankWolfeSteps:
        """The same with other columns."""
        vectors = tables["columns"].astype(np.float64)
        return replace(self, steps=[replace(step, vector=vectors[:, t]) for t, step in enumerate(self.steps)])


@dataclass(frozen=True)
class LogisticTargets:
    """The targets of a user who is folded in, for the logistic loss: the regression of each step gives the next ones.

    Attributes:
        component: The local component.
        noises: Of each step; a step's columns are those of the last one, scaled.
    """

    component: Corrective
    noises: Sequence[float]

    def __call__(self, ridge: Ridge, indptr: Array, indices: Array, values: Array, n_jobs: int | None) -> Array:
        """The targets of the last regression."""
        about = values.astype(np.float64) - self.component.centre
        targets, left = self.component.targets(about, np.zeros(len(about))), np.zeros(len(about))
        for t, factor in self._rounds()[:-1]:
            step = self.component.ridge(ridge.columns[:, :t] * factor)
            step.solve(indptr, indices, targets, residuals=left, n_jobs=n_jobs)
            targets = self.component.targets(about, targets - left)
        return targets + ridge.base[indices]

    def _rounds(self) -> list[tuple[int, float]]:
        """The number of columns of each step, and their factor."""
        return [(t, math.sqrt(self.noises[-1] / noise)) for t, noise in enumerate(self.noises, 1)]

    def describe(self, rank: int) -> dict[str, Any]:
        """The loss and the steps."""
        loss = {"name": "logistic", "width": self.component.loss.width, "centre": self.component.centre}
        return {"loss": loss, "rounds": [list(one) for one in self._rounds()]}
