"""Maximum likelihood in the nuclear-norm ball, by a spectral projected gradient method (Birgin, Martinez, Raydan 2000).

Iterates are kept as singular vectors and values; the gradient is sparse. So a step multiplies thin matrices with a
sparse one and a factored one, and never looks at all entries. Steps have the length of Barzilai and Borwein, searched
along the projection arc, and may go up for a while: only the worst of the last few losses must fall.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from discreet.completion.one_bit.likelihood import Cells, Loss
from discreet.completion.one_bit.projections import Factored, nuclear_ball

Array = NDArray[Any]

MEMORY = 10  # losses that a step is compared with
DECREASE = 1e-4  # share of the promised decrease that a step must bring
SHORTEST, LONGEST = 1e-10, 1e10  # steps
SEED = 0  # of the vectors that subspace iteration starts from, where nothing better is known


@dataclass(frozen=True)
class Moved:
    """A factored matrix plus a sparse one."""

    low: Factored
    sparse: csr_array

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.low.shape

    def times(self, right: Array) -> Array:
        """A @ right."""
        found: Array = self.low.times(right) + self.sparse @ right
        return found

    def transposed_times(self, left: Array) -> Array:
        """A^T @ left."""
        found: Array = self.low.transposed_times(left) + self.sparse.T @ left
        return found

    def dense(self) -> Array:
        """A."""
        found: Array = self.low.dense() + self.sparse.toarray()
        return found


@dataclass(frozen=True)
class Solution:
    """A matrix, its loss, and the derivatives of the loss at the observed entries."""

    matrix: Factored
    loss: float
    slopes: Array
    steps: int

    def multiplier(self, cells: Cells, radius: float) -> float:
        """What the loss would fall by for a larger radius: the weight at which a nuclear-norm penalty does the same."""
        return max(-float(self.slopes @ self.matrix.at(cells.rows, cells.columns)) / radius, 0.0)


def minimise(
    cells: Cells,
    loss: Loss,
    radius: float,
    *,
    base: Array | float = 0.0,
    start: Factored | None = None,
    tolerance: float = 1e-3,
    max_steps: int = 200,
    max_rank: int | None = None,
) -> Solution:
    """The matrix X of nuclear norm at most `radius` with the least loss of base + X at the observed entries.

    Args:
        cells: Which entries are observed.
        loss: Of the numbers at these entries.
        radius: tau.
        base: What is added to the entries of X; one number for each, or for all.
        start: Where to begin; by default at zero.
        tolerance: Change of X in a step, relative to its length, at which to stop.
        max_steps: Steps, at most.
        max_rank: Of X, at most: time and memory are then bounded, but the problem is no longer convex.
    """
    rng = np.random.default_rng(SEED)
    now = start or Factored.zeros(cells.shape)
    x = now.at(cells.rows, cells.columns)
    value, slopes = loss(base + x)
    recent, length, steps = [value], 1 / loss.curvature, 0
    while steps < max_steps:
        steps += 1
        while True:
            moved = Moved(now, csr_array((-length * slopes, (cells.rows, cells.columns)), shape=cells.shape))
            trial = nuclear_ball(moved, radius, now, rng, max_rank)
            x_trial = trial.at(cells.rows, cells.columns)
            trial_value, trial_slopes = loss(base + x_trial)
            promised = float(slopes @ (x_trial - x))
            if trial_value <= max(recent) + DECREASE * promised or length <= SHORTEST:
                break
            length /= 2
        apart = max(trial.inner(trial) + now.inner(now) - 2 * trial.inner(now), 0.0)
        bent = float((trial_slopes - slopes) @ (x_trial - x))
        length = min(max(apart / bent, SHORTEST), LONGEST) if bent > 0 else LONGEST
        now, x, value, slopes = trial, x_trial, trial_value, trial_slopes
        recent = [*recent, value][-MEMORY:]
        if apart <= (tolerance**2) * max(now.inner(now), 1e-300):
            break
    return Solution(now, value, slopes, steps)
