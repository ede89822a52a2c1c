"""From noisy bits to public item vectors: effects of rows and columns, a low-rank matrix, and what users need of them.

All of it is post-processing of what the door gave out, so that nothing here has to be private.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.linalg.threads import single_threaded_blas
from discreet.models.one_bit.factored import factorise
from discreet.models.one_bit.likelihood import Cells, Loss
from discreet.models.one_bit.projections import Factored
from discreet.models.one_bit.solver import Problem, minimise
from discreet.typing import Array

ROUNDS = 3  # of effects and matrix by turns
SWEEPS = (30, 10)  # over the effects, in the first round and in each later one
EFFECT_PENALTY = 2.0  # 1 / the variance that effects of rows and columns are taken to have
SHARE = 0.5  # of tau, where effects explain part of what the matrix would have to
LEAST_PENALTY = 1e-3  # of users' vectors
MAX_RANK = 64  # of the matrix: what is beyond is noise, and too much to work with for large matrices


@dataclass(frozen=True)
class Effects:
    """level + rows_i + columns_j: how high entries are by whose and of what they are."""

    level: float
    rows: Array
    columns: Array

    @classmethod
    def none(cls, shape: tuple[int, int]) -> Effects:
        """All of them zero."""
        return cls(0.0, np.zeros(shape[0]), np.zeros(shape[1]))

    def at(self, rows: Array, columns: Array) -> Array:
        """Their sum at some entries."""
        total: Array = self.level + self.rows[rows] + self.columns[columns]
        return total

    def refined(self, cells: Cells, loss: Loss, x: Array, sweeps: int) -> Effects:
        """Better ones, beside x: by turns, each by a step for the largest curvature, which never overshoots."""
        level, rows, columns = self.level, self.rows, self.columns
        bend, penalty = loss.curvature, EFFECT_PENALTY * loss.dispersion
        per_row, per_column = (
            bend * np.bincount(index, minlength=size) + penalty
            for index, size in zip((cells.rows, cells.columns), cells.shape, strict=True)
        )
        for _ in range(sweeps):
            slopes = loss(x + Effects(level, rows, columns).at(cells.rows, cells.columns))[1]
            level -= float(slopes.mean()) / bend
            slopes = loss(x + Effects(level, rows, columns).at(cells.rows, cells.columns))[1]
            columns = columns - (np.bincount(cells.columns, slopes, len(columns)) + penalty * columns) / per_column
            slopes = loss(x + Effects(level, rows, columns).at(cells.rows, cells.columns))[1]
            rows = rows - (np.bincount(cells.rows, slopes, len(rows)) + penalty * rows) / per_row
        return Effects(level, rows, columns)


@dataclass(frozen=True)
class Completed:
    """What was learned: x_ij = effects_ij + matrix_ij, and the penalty that goes with the matrix."""

    effects: Effects
    matrix: Factored
    penalty: float

    def item_vectors(self) -> Array:
        """Vectors v_j such that a user's vector u, in x_j = u . v_j, has the penalty |u|^2 / 2.

        A nuclear norm is the least of (|U|^2 + |V|^2) / 2 over all U V^T = X, reached by the singular vectors times the
        roots of the singular values; so a row of X minimises its own loss plus penalty / 2 |u|^2, given V.
        """
        return self.matrix.right * np.sqrt(self.matrix.values / self.penalty)

    def at(self, rows: Array, columns: Array) -> Array:
        """Some entries of x."""
        return self.effects.at(rows, columns) + self.matrix.at(rows, columns)


def default_radius(shape: tuple[int, int], alpha: float, rank: int, *, clarity: float, effects: bool) -> float:
    """tau: alpha sqrt(d1 d2 r), which every matrix of rank r with entries up to alpha keeps, times clarity^2.

    The less noisy bits tell, the more of what would be fitted is noise. Beside effects of rows and columns, which
    explain part of the matrix, half as much.
    """
    return alpha * math.sqrt(shape[0] * shape[1] * rank) * clarity**2 * (SHARE if effects else 1.0)


def complete(
    cells: Cells,
    loss: Loss,
    radius: float,
    *,
    effects: bool,
    alpha: float | None = None,
    rank: int | None = None,
    n_jobs: int | None = 1,
) -> Completed:
    """The most likely matrix of nuclear norm at most `radius`; with `effects`, beside a number for each row and column.

    Effects have a penalty of their own, EFFECT_PENALTY / 2 times their squares (more, if the loss is dispersed). With
    `alpha`, no entry of the matrix is larger. With `rank`, it is the best that is found of this rank with a max-norm of
    radius / sqrt(d1 d2), which bounds the nuclear norm, too.
    """
    beside = Effects.none(cells.shape)
    start, x = Factored.zeros(cells.shape), np.zeros(len(cells))
    with single_threaded_blas():
        for turn in range(ROUNDS if effects else 1):
            if effects:
                beside = beside.refined(cells, loss, x, SWEEPS[turn > 0])
            problem = Problem(cells, loss, radius, beside.at(cells.rows, cells.columns), alpha, MAX_RANK)
            if rank is None:
                found = minimise(problem, start=start)
            else:
                bound = radius / math.sqrt(math.prod(cells.shape))
                found = problem.solution(factorise(problem, bound, rank, start, n_jobs))
            start, x = found.matrix, found.matrix.at(cells.rows, cells.columns)
    # The multiplier of the constraint; more than that if item vectors come from bits less clear than a user's own.
    penalty = found.multiplier(problem) / loss.clarity
    return Completed(beside, found.matrix, max(penalty, LEAST_PENALTY))
