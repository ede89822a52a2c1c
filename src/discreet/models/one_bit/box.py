"""A bound on entries, |x| <= alpha, beside the nuclear-norm ball: where it is exceeded, and projections on both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from discreet.models.one_bit.projections import Factored, simplex, trimmed
from discreet.typing import Array

BLOCK = 1 << 20  # entries of a factored matrix that are looked at at a time
PRECISE = 1e-8  # share of |A|^2 that the gap of a projection may be
SWEEPS = 500  # of Dykstra's method, at most


@dataclass(frozen=True)
class Excess:
    """The entries of X + B / weight that are beyond the box, and `weight` times by how much.

    These are the derivatives of weight / 2 * (squared distance of X + B / weight to the box), the term that the method
    of multipliers adds to a loss; and the next multipliers B.

    Attributes:
        rows: Of these entries.
        columns: Of these entries.
        pulls: The derivatives there.
        weight: Of the term.
        largest: The largest |x|, of all entries.
    """

    rows: Array
    columns: Array
    pulls: Array
    weight: float = 1.0
    largest: float = 0.0

    @classmethod
    def none(cls) -> Excess:
        """Where there is no box."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))

    @classmethod
    def of(cls, matrix: Factored, alpha: float, multipliers: Excess, weight: float) -> Excess:
        """Looks at all entries, some rows at a time."""
        table = csr_array((multipliers.pulls / weight, (multipliers.rows, multipliers.columns)), shape=matrix.shape)
        scaled, found, largest = matrix.left * matrix.values, list[tuple[Array, Array, Array]](), 0.0
        height = max(BLOCK // matrix.shape[1], 1)
        for first in range(0, matrix.shape[0], height):
            block = scaled[first : first + height] @ matrix.right.T
            largest = max(largest, float(block.max(initial=0.0)), -float(block.min(initial=0.0)))
            shift = table[first : first + height].tocoo()
            block[shift.row, shift.col] += shift.data
            rows, columns = np.nonzero(np.abs(block) > alpha)
            beyond = block[rows, columns]
            found.append((rows + first, columns, weight * (beyond - np.copysign(alpha, beyond))))
        rows, columns, pulls = (np.concatenate(part) for part in zip(*found, strict=True))
        return cls(rows, columns, pulls, weight, largest)

    @property
    def penalty(self) -> float:
        """The term: weight / 2 * the squared distance."""
        return float(self.pulls @ self.pulls) / (2 * self.weight)


def intersection(
    array: Array, radius: float, alpha: float, *, precise: float = PRECISE, sweeps: int = SWEEPS
) -> tuple[Factored, float]:
    """The nearest matrix of nuclear norm at most `radius` with entries up to `alpha`, by Dykstra's method; and its gap.

    The matrix X is within both sets. |X - A|^2 / 2 is at most `gap` more than the least there is, so that X is no
    further than sqrt(2 gap) from the projection. With p and q, what the method subtracts for either set,
    A = Y + p + q, and by the dual problem

        gap = |X - Y|^2 / 2 + (radius |p| - <p, X>) + (alpha sum |q_ij| - <q, X>),

    |p| being the largest singular value. Y is within the ball; X = c Y, with the largest c up to 1 that the box allows.
    """
    q = np.zeros_like(array)
    enough = precise * float((array**2).sum())
    for _ in range(sweeps):
        left, values, right = np.linalg.svd(array - q, full_matrices=False)
        kept, threshold = simplex(values, radius)
        low = (left * kept) @ right
        share = min(1.0, alpha / max(float(np.abs(low).max()), 1e-300))
        gap = (1 - share) ** 2 * float((kept**2).sum()) / 2
        gap += threshold * (radius - share * float(kept.sum())) + float((alpha * np.abs(q) - share * q * low).sum())
        if gap <= enough:
            break
        q += low
        q -= np.clip(q, -alpha, alpha)
    return trimmed(left, kept, right.T).scaled(share), max(gap, 0.0)
