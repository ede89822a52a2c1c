"""Strongly convex fits in the nuclear-norm ball and the box, to a gap that is computed and not believed.

For mechanisms whose guarantee is about the optimum itself. All entries are kept: this is for matrices that LAPACK
decomposes quickly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.errors import PrivacyError
from discreet.models.one_bit.contributions import TrueBits
from discreet.models.one_bit.links import Link
from discreet.models.one_bit.projections import gram, in_ball
from discreet.typing import Array

NEWTON = 60  # steps of Newton's method between bounds that close in, at most: bisection alone would need as many
CHECK = 10  # steps between two looks at the gap
INERTIA = 0.23  # of a step, that is taken again with the next: below sqrt(5) - 2 all steps together converge
PRECISION = 1e-13  # least gap of a fit against the size of its objective; rounding takes about a tenth of it


@dataclass(frozen=True)
class StronglyConvex:
    """F(X) = loss of the true bits + <tilt, X> + ridge / 2 |X|^2, for |X|_* <= radius and all |x| <= alpha.

    The tilt is at observed entries. Solved in the dual: A is the multiplier of the ball, and X(A), which minimises
    F(X) + <A, X> within the box, is found entry by entry. The gradient of the dual at A is X(A), and moves at most
    1 / ridge times as far as A: so proximal steps of length `ridge` converge to the optimum, whatever the data are,
    and sooner with a little inertia (Lorenz and Pock 2015).

    Attributes:
        link: P(bit = 1 | x).
        radius: tau.
        alpha: Of the box.
        ridge: lambda.
    """

    link: Link
    radius: float
    alpha: float
    ridge: float

    def solve(self, true: TrueBits, tilt: Array | float, gap: float) -> Array:
        """A matrix within the constraints, F of which is at most `gap` more than the least. Private.

        There is no limit to the steps, which would be an observation; that a gap is within reach follows from what is
        public.
        """
        if gap < PRECISION * self.alpha * len(true.cells) * self.link.sensitivity(self.alpha):
            raise PrivacyError(
                "ridge: its optimum would have to be known more precisely than it can; give a smaller one"
            )
        dual = before = np.zeros(true.cells.shape)
        x = np.zeros(len(true.cells))
        while True:
            for _ in range(CHECK):
                ahead = dual + INERTIA * (dual - before)
                primal, x = self._primal(true, tilt, ahead, x)
                moved = ahead / self.ridge + primal
                before, dual = dual, self.ridge * (moved - in_ball(moved, self.radius))
            found, left_over = self.certified(true, tilt, dual, x)
            if left_over <= gap:
                return found

    def certified(self, true: TrueBits, tilt: Array | float, dual: Array, x: Array) -> tuple[Array, float]:
        """X(A), shrunk into the ball, and its gap; `x` is a guess.

        F(Z) >= F(X) + <G, Z - X>, and with B = -G - A, <-G, Z> <= radius |A| + alpha sum |B_ij| for all Z in both sets.
        """
        primal, x = self._primal(true, tilt, dual, x)
        size = float(np.linalg.svd(primal, compute_uv=False).sum())
        share = min(1.0, self.radius / max(size, 1e-300))
        primal *= share
        box = -dual - self.ridge * primal
        box[true.cells.rows, true.cells.columns] -= self._slopes(true, share * x) + tilt
        norm = math.sqrt(max(float(np.linalg.eigvalsh(gram(dual))[-1]), 0.0))  # the largest singular value
        ball = self.radius * norm - float((dual * primal).sum())
        return primal, ball + float((self.alpha * np.abs(box) - box * primal).sum())

    def _slopes(self, true: TrueBits, x: Array) -> Array:
        sign = np.where(true.bits > 0, 1.0, -1.0)
        return -sign * self.link.log_slope(sign * x)

    def _primal(self, true: TrueBits, tilt: Array | float, dual: Array, x: Array) -> tuple[Array, Array]:
        """X(A), and its observed entries: Newton's method, and where it leaves the bounds, their middle."""
        at = (true.cells.rows, true.cells.columns)
        primal = np.clip(dual / -self.ridge, -self.alpha, self.alpha)
        sign, pull = np.where(true.bits > 0, 1.0, -1.0), dual[at] + tilt
        low, high = np.full(len(x), -self.alpha), np.full(len(x), self.alpha)
        for _ in range(NEWTON):
            slopes = -sign * self.link.log_slope(sign * x) + self.ridge * x + pull
            low, high = np.where(slopes < 0, x, low), np.where(slopes < 0, high, x)
            aim = x - slopes / (self.link.bend(sign * x) + self.ridge)
            # At an end of the box whose slope points outwards Newton's aim is beyond it, and x stays there.
            aim = np.where(aim <= -self.alpha, -self.alpha, np.where(aim >= self.alpha, self.alpha, aim))
            aim = np.where((aim < low) | (aim > high), (low + high) / 2, aim)
            moved = float(np.abs(aim - x).max(initial=0.0))
            x = aim
            if moved <= 1e-15 * self.alpha:
                break
        primal[at] = x
        return primal, x
