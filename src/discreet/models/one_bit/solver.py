"""Maximum likelihood in the nuclear-norm ball, by a spectral projected gradient method (Birgin, Martinez, Raydan 2000).

Iterates are kept as singular vectors and values; the gradient is sparse. So a step multiplies thin matrices with a
sparse one and a factored one, and never looks at all entries. Steps have the length of Barzilai and Borwein, searched
along the projection arc, and may go up for a while: only the worst of the last few losses must fall.

A bound on all entries, |x| <= alpha, is kept by the method of multipliers: the loss gets a term for entries that exceed
it, and is minimised again, from where it was, with multipliers that have learned from it. What is in excess is sparse.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.sparse import csr_array

from discreet.models.one_bit.box import Excess
from discreet.models.one_bit.likelihood import Cells, Loss
from discreet.models.one_bit.projections import Factored, Moved, nuclear_ball
from discreet.typing import Array

MEMORY = 10  # losses that a step is compared with
DECREASE = 1e-4  # share of the promised decrease that a step must bring
SHORTEST, LONGEST = 1e-10, 1e10  # steps
SEED = 0  # of the vectors that subspace iteration starts from, where nothing better is known
STIFF = 12.0  # times the curvature of the loss, the weight of the term for entries in excess
ROUNDS = 20  # of multipliers, at most
DENSE = 400  # rows or columns up to which LAPACK finds the largest singular value sooner
UP = 1 + 1e-9  # for the rounding of the largest singular value


@dataclass(frozen=True)
class Problem:
    """The loss of base + X at observed entries, |X|_* <= radius and, if alpha is given, |x| <= alpha."""

    cells: Cells
    loss: Loss
    radius: float
    base: Array | float = 0.0
    alpha: float | None = None
    max_rank: int | None = None
    multipliers: Excess = field(default_factory=Excess.none)

    def at(self, matrix: Factored) -> Point:
        """What there is to know of a matrix."""
        x = matrix.at(self.cells.rows, self.cells.columns)
        loss, slopes = self.loss(self.base + x)
        excess = Excess.none()
        if self.alpha is not None:
            excess = Excess.of(matrix, self.alpha, self.multipliers, STIFF * self.loss.curvature)
        return Point(matrix, x, loss, slopes, excess)

    def solution(self, matrix: Factored) -> Solution:
        """A matrix that was found elsewhere, of its own nuclear norm."""
        point = self.at(matrix)
        return Solution(matrix, point.loss, point.slopes, 0, point.excess)

    def step(self, now: Point, length: float, rng: np.random.Generator) -> Point:
        """A step against the gradient, and back into the ball."""
        data = np.concatenate([now.slopes, now.excess.pulls]) * -length
        rows = np.concatenate([self.cells.rows, now.excess.rows])
        columns = np.concatenate([self.cells.columns, now.excess.columns])
        moved = Moved(now.matrix, csr_array((data, (rows, columns)), shape=self.cells.shape))
        return self.at(nuclear_ball(moved, self.radius, now.matrix, rng, self.max_rank))


@dataclass(frozen=True)
class Point:
    """A matrix, its observed entries, their loss and its derivatives, and which entries are beyond the box."""

    matrix: Factored
    x: Array
    loss: float
    slopes: Array
    excess: Excess

    @property
    def value(self) -> float:
        """What is minimised."""
        return self.loss + self.excess.penalty

    def along(self, start: Point, end: Point) -> float:
        """The inner product of the gradient here with the way from one point to another."""
        at = (self.excess.rows, self.excess.columns)
        way = end.matrix.at(*at) - start.matrix.at(*at)
        return float(self.slopes @ (end.x - start.x) + self.excess.pulls @ way)


@dataclass(frozen=True)
class Solution:
    """A matrix in the ball (and the box), its loss, the derivatives at observed entries, and the box's multipliers."""

    matrix: Factored
    loss: float
    slopes: Array
    steps: int
    multipliers: Excess

    def multiplier(self, problem: Problem) -> float:
        """What the loss would fall by for a larger radius: the weight at which a nuclear-norm penalty does the same."""
        fall = -float(self.slopes @ self.matrix.at(problem.cells.rows, problem.cells.columns))
        fall -= (problem.alpha or 0.0) * float(np.abs(self.multipliers.pulls).sum())
        return max(fall / max(float(self.matrix.values.sum()), 1e-300), 0.0)

    def gap(self, problem: Problem) -> float:
        """No matrix in the ball and the box has a loss that is lower by more than this, if the loss is convex.

        With G the gradient at X, the loss of a matrix Z is at least that of X plus <G, Z - X>; and for any B, also for
        the multipliers of the box, <-G, Z> = <-G - B, Z> + <B, Z> is at most radius |G + B| + alpha sum |B_ij|.
        """
        cells, box = problem.cells, self.multipliers
        rows, columns = np.concatenate([cells.rows, box.rows]), np.concatenate([cells.columns, box.columns])
        rest = csr_array((np.concatenate([self.slopes, box.pulls]), (rows, columns)), shape=cells.shape)
        here = float(self.slopes @ self.matrix.at(cells.rows, cells.columns))
        outside = (problem.alpha or 0.0) * float(np.abs(box.pulls).sum())
        return max(here + problem.radius * largest_singular_value(rest) * UP + outside, 0.0)


def largest_singular_value(table: csr_array) -> float:
    """Of a sparse matrix."""
    if min(table.shape) <= DENSE:
        return float(np.linalg.norm(table.toarray(), 2))
    from scipy.sparse.linalg import svds

    start = np.random.default_rng(SEED).standard_normal(min(table.shape))
    return float(svds(table, 1, v0=start, return_singular_vectors=False)[0])


def minimise(
    problem: Problem, *, start: Factored | None = None, tolerance: float = 1e-3, max_steps: int = 200, gap: float = 1e-3
) -> Solution:
    """The matrix with the least loss.

    Args:
        problem: The loss and its constraints. With a largest rank, time and memory are bounded, but it is not convex.
        start: Where to begin; by default at zero.
        tolerance: Change of X in a step, relative to its length, at which to stop.
        max_steps: Steps, at most; with a box, in each round.
        gap: With a box, the certified gap, for each observed entry, at which to stop.
    """
    now, steps = problem.at(start or Factored.zeros(problem.cells.shape)), 0
    for _ in range(1 if problem.alpha is None else ROUNDS):
        now, more = descend(problem, problem.at(now.matrix), tolerance, max_steps)
        steps += more
        found = _inside(problem, now, steps)
        if problem.alpha is None or found.gap(problem) <= gap * len(problem.cells):
            break
        problem = replace(problem, multipliers=now.excess)
    return found


def _inside(problem: Problem, now: Point, steps: int) -> Solution:
    """A point, shrunk until all of its entries are in the box, if there is one."""
    if problem.alpha is None or now.excess.largest <= problem.alpha:
        return Solution(now.matrix, now.loss, now.slopes, steps, now.excess)
    matrix = now.matrix.scaled(problem.alpha / now.excess.largest)
    loss, slopes = problem.loss(problem.base + matrix.at(problem.cells.rows, problem.cells.columns))
    return Solution(matrix, loss, slopes, steps, now.excess)


def descend(problem: Problem, now: Point, tolerance: float, max_steps: int) -> tuple[Point, int]:
    """Spectral projected gradient steps, and how many."""
    rng = np.random.default_rng(SEED)
    recent, length, steps = [now.value], 1 / problem.loss.curvature, 0
    while steps < max_steps:
        steps += 1
        while True:
            trial = problem.step(now, length, rng)
            promised = now.along(now, trial)
            if trial.value <= max(recent) + DECREASE * promised or length <= SHORTEST:
                break
            length /= 2
        apart = trial.matrix.distance(now.matrix) ** 2
        bent = trial.along(now, trial) - promised
        length = min(max(apart / bent, SHORTEST), LONGEST) if bent > 0 else LONGEST
        now = trial
        recent = [*recent, now.value][-MEMORY:]
        if apart <= (tolerance**2) * max(now.matrix.inner(now.matrix), 1e-300):
            break
    return now, steps
