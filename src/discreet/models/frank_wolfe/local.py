"""The local component of Algorithm 1: what one user does with their own ratings and the public steps.

Training and serving run the same code. A user's prediction is sum_t z_t v_t, so all they need are their coefficients z
on the public vectors. For anyone who was not there in training, they come from replaying the public steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from discreet.models.centering import Centring, Prepared
from discreet.models.frank_wolfe.contributions import Fitted
from discreet.models.frank_wolfe.losses import Loss
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

if TYPE_CHECKING:
    from discreet.models.fold_in import Description


@dataclass(frozen=True)
class Step:
    """What the global component tells everybody. Public.

    Attributes:
        vector: v, of length 1, or zeros.
        size: eta, how far to go to the new atom: what there was is multiplied by 1 - eta.
        gain: eta k / lambda', by which a user's residual along v is multiplied.
    """

    vector: Array
    size: float
    gain: float


def packed(steps: Sequence[Step]) -> tuple[Array, list[tuple[float, ...]]]:
    """Steps as a model keeps them: their vectors side by side, and their numbers."""
    return np.stack([step.vector for step in steps], axis=1), [(step.size, step.gain) for step in steps]


@dataclass(frozen=True)
class Local:
    """The public constants of the local component.

    Attributes:
        centring: How a user prepares their row, and L.
        loss: What a residual is.
    """

    centring: Centring
    loss: Loss

    @property
    def forgets(self) -> bool:
        """A step goes on from where the last one arrived."""
        return False

    def residuals(self, row: Prepared, fitted: Array) -> tuple[Array, Array]:
        """A_i on the user's own items, and the slopes of the loss."""
        slopes = self.loss.slope(fitted)
        return slopes * fitted - row.values, slopes

    def update(self, row: Prepared, fitted: Array, residuals: Array, step: Step) -> tuple[Array, Array, Array]:
        """One local update: (1 - eta) Y_i - eta k u_i v, projected so that it is no longer than L on their items.

        Returns the fitted values, the coefficient of v before the projection, and what the projection multiplied by.
        """
        own = step.vector[row.indices]
        weights = -step.gain * row.row_sums(residuals * own)
        moved = (1 - step.size) * fitted + weights[row.owners] * own
        limit = self.centring.row_norm
        shrunk = limit / np.maximum(np.sqrt(row.row_sums(moved**2)), limit)
        return moved * shrunk[row.owners], weights, shrunk

    def begin(self, part: UserBatch) -> tuple[Array, Array]:
        """Y_i and A_i of some users before the first step: Y = 0."""
        row = self.centring.prepare(part)
        nothing = np.zeros(len(row.values))
        return nothing, self.residuals(row, nothing)[0]

    def move(self, part: Fitted, step: Step) -> tuple[Array, Array]:
        """The same after one step more."""
        row, fitted = self.centring.prepare(part), part.fitted.astype(np.float64)
        moved = self.update(row, fitted, self.residuals(row, fitted)[0], step)[0]
        return moved, self.residuals(row, moved)[0]


@dataclass(frozen=True)
class FrankWolfeSteps:
    """The public steps, to be replayed by whoever is folded in.

    Attributes:
        local: The constants of the local component.
        steps: The steps, one for each column.
    """

    most_users: ClassVar[None] = None  # nothing large is made of a user

    local: Local
    steps: Sequence[Step]

    @property
    def centring(self) -> Centring:
        """How a user prepares their ratings."""
        return self.local.centring

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

        How much the user was scaled and projected, and how steep the loss was, is taken as it turned out for the whole
        history. Given these, every coefficient is a sum over the centered ratings, and so is the score: the replay runs
        forward, and the score's derivatives run back through it.
        """
        row, values = self.centring.prepare(part), part.values
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
        added: Array = self.centring.offset_shares(values) + by_rating * row.values / row.scales[0]
        return added

    def describe(self) -> Description:
        """Sizes and gains; the vectors are the columns."""
        numbers = [[step.size, step.gain] for step in self.steps]
        return {"rule": "frank-wolfe", "width": self.local.loss.width, "numbers": numbers}, {}, {}

    def with_tables(self, tables: dict[str, Array]) -> FrankWolfeSteps:
        """The same with other columns."""
        vectors = tables["columns"].astype(np.float64)
        return replace(self, steps=[replace(step, vector=vectors[:, t]) for t, step in enumerate(self.steps)])
