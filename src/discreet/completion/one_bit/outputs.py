"""The output mechanism: noise on the completed matrix, whose objective is made strongly convex so that it is stable."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.completion.one_bit.fitting import MAX_RANK, Completed, Effects
from discreet.completion.one_bit.gradients import usual_penalty
from discreet.completion.one_bit.likelihood import FlippedBits
from discreet.completion.one_bit.links import Link
from discreet.completion.one_bit.mechanisms import TrueBits
from discreet.completion.one_bit.projections import Dense, Factored, nuclear_ball, simplex
from discreet.completion.one_bit.solver import SEED
from discreet.linalg.threads import single_threaded_blas
from discreet.privacy import Cost, Gaussian, GridArray
from discreet.privacy.ledger import Reservation

Array = NDArray[Any]

OUTPUT = "completed matrix"
SLACK = 0.01  # of the sensitivity, for what the solver leaves
UP = 1 + 2.0**-20  # for the rounding of floats, in the solver and here


@dataclass(frozen=True)
class Stable:
    """argmin over |X|_* <= radius of the logistic loss of true bits + ridge / 2 |X|^2, nearly.

    By projected gradient steps of length 1 / (1/4 + ridge), which bring X nearer to the optimum by a factor of
    (1/4) / (1/4 + ridge), from 0, which is at most `radius` away. Their number is fixed, so that what is left is known.

    Attributes:
        radius: tau.
        ridge: lambda.
        entries: How many bits may change.
    """

    radius: float
    ridge: float
    entries: int

    @property
    def distance(self) -> float:
        """How far apart the optima of neighbours are, at most: sqrt(entries) / ridge."""
        return math.sqrt(self.entries) / self.ridge

    @property
    def steps(self) -> int:
        """As many as leave SLACK / 2 of that distance to the optimum."""
        rate = math.log1p(self.ridge / Link().curvature)
        return max(1, math.ceil(math.log(max(2 * self.radius / (SLACK * self.distance), 1.0)) / rate))

    def solve(self, true: TrueBits) -> Array:
        """The matrix, with all its entries. Private."""
        loss, at = FlippedBits(true.bits, Link()), (true.cells.rows, true.cells.columns)
        length = 1 / (loss.curvature + self.ridge)
        x = np.zeros(true.cells.shape)
        for _ in range(self.steps):
            slopes = loss(x[at])[1]
            x *= 1 - length * self.ridge
            x[at] -= length * slopes
            left, values, right = np.linalg.svd(x, full_matrices=False)
            x = (left * simplex(values, self.radius)[0]) @ right
        return x

    def release(self, reservation: Reservation, true: TrueBits, cost: Cost) -> Completed:
        """The matrix with noise on every entry, and projected on the ball again."""
        cells = math.prod(true.cells.shape)
        sensitivity = self.distance * (1 + SLACK) * UP
        grid = Gaussian.for_cost(cost, sensitivity=sensitivity).grid()
        sensitivity += grid.step * math.sqrt(cells) * UP  # each entry is rounded to the nearest cell, in both worlds
        noise = Gaussian.for_cost(cost, sensitivity=sensitivity)
        with single_threaded_blas():
            on_grid = GridArray(np.rint(self.solve(true) / grid.step).astype(np.int64), grid)
            noisy = reservation.release(on_grid, sensitivity, noise, OUTPUT)
            rng = np.random.default_rng(SEED)
            matrix = nuclear_ball(Dense(noisy), self.radius, Factored.zeros(true.cells.shape), rng, MAX_RANK)
        return Completed(Effects.none(true.cells.shape), matrix, usual_penalty(matrix))
