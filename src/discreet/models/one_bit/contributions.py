"""The private side: true bits, the two ways in which they leave as noisy bits, and the fits to true bits.

`FlippedBits` and `ShiftedBits` hold no true bit, and are all that the solver of `estimate` gets. Mechanisms whose
guarantee is about an optimum itself fit the true bits here (`StronglyConvex`), and release the result with noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.data.interactions import Interactions
from discreet.errors import DataError, PrivacyError
from discreet.models.one_bit.likelihood import FlippedBits, Link, Observed, ShiftedBits
from discreet.models.one_bit.matrices import gram, in_ball
from discreet.privacy import Gaussian, Laplace, RandomizedResponse, Releaser
from discreet.privacy.entries import Bits, TwoValued
from discreet.typing import Array

FLIPPED, SHIFTED = "flipped bits", "bits with noise"
NEWTON = 60  # steps of Newton's method between bounds that close in, at most: bisection alone would need as many
CHECK = 10  # steps between two computations of the gap
INERTIA = 0.23  # of a step, repeated with the next: below sqrt(5) - 2 all steps together converge
PRECISION = 1e-13  # least gap of a fit relative to the size of its objective; rounding takes about a tenth of it


@dataclass(frozen=True)
class TrueBits:
    """Which entries are observed, which is public, and their bits, which are not."""

    observed: Observed
    bits: NDArray[np.int64]

    @classmethod
    def of(cls, ratings: Interactions, threshold: float) -> TrueBits:
        """1 for values from the threshold on, 0 for those below."""
        shape = (ratings.n_users, ratings.n_items)
        observed = Observed(ratings.user_numbers().astype(np.int64), ratings.indices.astype(np.int64), shape)
        return cls(observed, (ratings.values >= np.float32(threshold)).astype(np.int64))

    @property
    def signs(self) -> Array:
        """1 for ones, -1 for zeros."""
        return np.where(self.bits > 0, 1.0, -1.0)


def flipped(releaser: Releaser, true: TrueBits, noise: RandomizedResponse, entries: int, link: Link) -> FlippedBits:
    """Release every bit, flipped by a coin. Neighbors differ in at most `entries` bits."""
    bits = releaser.release_entries(FLIPPED, Bits(entries), true.bits, noise)
    return FlippedBits(bits, link, *flips(noise))


def flips(noise: RandomizedResponse) -> tuple[float, float]:
    """The probabilities that a 1 and a 0 are flipped."""
    if noise.flip_one is not None and noise.flip_zero is not None:
        return noise.flip_one, noise.flip_zero
    assert noise.epsilon is not None
    flip = 1 / (1 + math.exp(noise.epsilon))
    return flip, flip


def shifted(releaser: Releaser, true: TrueBits, statistic: TwoValued, noise: Laplace | Gaussian) -> ShiftedBits:
    """Release every bit plus noise. 0 and 1 are exact on any grid, so nothing is rounded."""
    return ShiftedBits(releaser.release_entries(SHIFTED, statistic, true.bits, noise), variance(noise))


def variance(noise: Laplace | Gaussian) -> float:
    """Of the noise on one number."""
    return 2 * noise.scale**2 if isinstance(noise, Laplace) else noise.std**2


def two_valued(ratings: Interactions, threshold: float | None) -> float:
    """The threshold; without one, the middle of the range, if all values are its two ends.

    Neighbors have values of the same kind, so this error says nothing about any user's values.
    """
    low, high = ratings.value_range or (math.nan, math.nan)
    if ratings.implicit or not low < high:
        raise DataError(
            "ratings: one-bit completion needs two values; implicit feedback has just one, use discreet.DPSVD"
        )
    if threshold is None:
        ends = (np.float32(low), np.float32(high))
        if not np.isin(ratings.values, ends).all():
            raise DataError(
                f"threshold: there are values other than {low:g} and {high:g}, the ends of value_range; give the "
                "threshold from which on a value counts as high"
            )
        return (low + high) / 2
    if not low < threshold <= high:
        raise DataError(f"threshold: a number above {low:g} and up to {high:g} is needed, not {threshold:g}")
    return float(threshold)


def require_flipped(ratings: Interactions, most: int | None) -> None:
    """Raise if these cannot be bits from `perturb`: by their range and by which entries there are, both public."""
    if ratings.value_range != (0.0, 1.0):
        low, high = ratings.value_range or (math.nan, math.nan)
        raise PrivacyError(
            f"perturbed: bits in the range 0 to 1 are needed, as `perturb` returns them, not values from {low:g} to "
            f"{high:g}: are these the true ones? Nothing was spent"
        )
    if most is not None and len(ratings) and int(np.diff(ratings.indptr).max()) > most:
        raise PrivacyError(
            f"max_entries: there are users with more than {most} flipped bits, so that all of them together are not as "
            "private as is declared; give `perturb` and `OneBit` the same number"
        )


def capped(ratings: Interactions, most: int, seed: int) -> Interactions:
    """At most `most` entries of each user, chosen by a public seed and by which entries there are, also public."""
    keys, owners = np.random.default_rng(seed).random(len(ratings)), ratings.user_numbers()
    order = np.lexsort((keys, owners))
    place = np.empty(len(ratings), np.int64)
    place[order] = np.arange(len(ratings)) - ratings.indptr[:-1][owners]
    return ratings.where(place < most)


@dataclass(frozen=True)
class StronglyConvex:
    """F(X) = loss of the true bits + <linear, X> + ridge / 2 |X|^2, for |X|_* <= radius and all |x| <= alpha.

    The linear term is at observed entries. F is minimized to a gap that is computed. All entries are kept: this is for
    matrices that LAPACK decomposes quickly.

    It is solved in the dual: A is the multiplier of the ball, and X(A), which minimizes F(X) + <A, X> within alpha, is
    found entry by entry. The gradient of the dual at A is X(A), and moves at most 1 / ridge times as far as A. So
    proximal steps of length `ridge` converge to the optimum for any data, and sooner with a little inertia (Lorenz and
    Pock 2015).
    """

    link: Link
    radius: float
    alpha: float
    ridge: float

    def solve(self, true: TrueBits, linear: Array | float, gap: float) -> Array:
        """A feasible matrix whose F is at most `gap` above the minimum. Private.

        The number of steps has no limit, since reaching one would reveal something. That the gap is within reach
        follows from public numbers.
        """
        if gap < PRECISION * self.alpha * len(true.observed) * self.link.sensitivity(self.alpha):
            raise PrivacyError(
                "ridge: its optimum would have to be known more precisely than is possible; give a smaller one"
            )
        dual = before = np.zeros(true.observed.shape)
        x = np.zeros(len(true.observed))
        while True:
            for _ in range(CHECK):
                ahead = dual + INERTIA * (dual - before)
                primal, x = self._primal(true, linear, ahead, x)
                moved = ahead / self.ridge + primal
                before, dual = dual, self.ridge * (moved - in_ball(moved, self.radius))
            found, left_over = self._certified(true, linear, dual, x)
            if left_over <= gap:
                return found

    def _certified(self, true: TrueBits, linear: Array | float, dual: Array, x: Array) -> tuple[Array, float]:
        """X(A), shrunk into the ball, and its gap; `x` is a guess.

        F(Z) >= F(X) + <G, Z - X>, and with B = -G - A, <-G, Z> <= radius |A| + alpha sum |B_ij| for all feasible Z.
        """
        primal, x = self._primal(true, linear, dual, x)
        size = float(np.linalg.svd(primal, compute_uv=False).sum())
        share = min(1.0, self.radius / max(size, 1e-300))
        primal *= share
        sign, x = true.signs, share * x
        entries = -dual - self.ridge * primal
        entries[true.observed.rows, true.observed.columns] -= -sign * self.link.log_slope(sign * x) + linear
        norm = math.sqrt(max(float(np.linalg.eigvalsh(gram(dual))[-1]), 0.0))  # the largest singular value
        ball = self.radius * norm - float((dual * primal).sum())
        return primal, ball + float((self.alpha * np.abs(entries) - entries * primal).sum())

    def _primal(self, true: TrueBits, linear: Array | float, dual: Array, x: Array) -> tuple[Array, Array]:
        """X(A) and its observed entries, by Newton's method; where it leaves the bounds, by bisection."""
        at = (true.observed.rows, true.observed.columns)
        primal = np.clip(dual / -self.ridge, -self.alpha, self.alpha)
        sign, pull = true.signs, dual[at] + linear
        low, high = np.full(len(x), -self.alpha), np.full(len(x), self.alpha)
        for _ in range(NEWTON):
            slopes = -sign * self.link.log_slope(sign * x) + self.ridge * x + pull
            low, high = np.where(slopes < 0, x, low), np.where(slopes < 0, high, x)
            aim = x - slopes / (self.link.bend(sign * x) + self.ridge)
            # Where |x| = alpha and the slope points outwards, Newton's aim is beyond alpha, and x stays there.
            aim = np.where(aim <= -self.alpha, -self.alpha, np.where(aim >= self.alpha, self.alpha, aim))
            aim = np.where((aim < low) | (aim > high), (low + high) / 2, aim)
            moved = float(np.abs(aim - x).max(initial=0.0))
            x = aim
            if moved <= 1e-15 * self.alpha:
                break
        primal[at] = x
        return primal, x
