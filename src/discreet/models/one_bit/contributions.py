"""The private side: true bits, and the two ways in which they leave it as noisy bits.

What comes out, `FlippedBits` or `ShiftedBits`, is all that is ever given to the solver: neither holds a true bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from discreet.data.interactions import Interactions
from discreet.errors import DataError, PrivacyError
from discreet.models.one_bit.likelihood import Cells, FlippedBits, ShiftedBits
from discreet.models.one_bit.links import Link
from discreet.privacy import Gaussian, Laplace, RandomizedResponse, Releaser
from discreet.privacy.entries import Bits, TwoValued

FLIPPED, SHIFTED = "flipped bits", "bits with noise"
NoiseName = Literal["laplace", "gaussian"]


@dataclass(frozen=True)
class TrueBits:
    """Which entries are observed, which is public, and their bits, which are not."""

    cells: Cells
    bits: NDArray[np.int64]

    @classmethod
    def of(cls, ratings: Interactions, threshold: float) -> TrueBits:
        """1 for values from the threshold on, 0 for those below."""
        shape = (ratings.n_users, ratings.n_items)
        cells = Cells(ratings.user_numbers().astype(np.int64), ratings.indices.astype(np.int64), shape)
        return cls(cells, (ratings.values >= np.float32(threshold)).astype(np.int64))


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
    """Release every bit plus noise: 0 and 1 are exact on any grid, so that nothing is rounded."""
    return ShiftedBits(releaser.release_entries(SHIFTED, statistic, true.bits, noise), variance(noise))


def variance(noise: Laplace | Gaussian) -> float:
    """Of the noise on one number."""
    return 2 * noise.scale**2 if isinstance(noise, Laplace) else noise.std**2


def two_valued(ratings: Interactions, threshold: float | None) -> float:
    """The threshold; without one, the middle of the range, if there is no value but its two ends.

    Neighbours have values of the same kind, so that this error tells nothing about anybody's.
    """
    low, high = ratings.value_range or (math.nan, math.nan)
    if ratings.implicit or not low < high:
        raise DataError(
            "ratings: one-bit completion needs two values; implicit feedback has but one, use discreet.DPSVD"
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
    """Raise if these cannot be bits that `perturb` gave out: by their range and by which there are, both public."""
    if ratings.value_range != (0.0, 1.0):
        low, high = ratings.value_range or (math.nan, math.nan)
        raise PrivacyError(
            f"perturbed: bits in the range 0 to 1 are needed, as `perturb` gives them out, not values from {low:g} to "
            f"{high:g}: are these the true ones? Nothing was spent"
        )
    if most is not None and len(ratings) and int(np.diff(ratings.indptr).max()) > most:
        raise PrivacyError(
            f"max_entries: there are users with more than {most} flipped bits, so that all of them together are not as "
            "private as is declared; give `perturb` and `OneBit` the same number"
        )


def capped(ratings: Interactions, most: int, seed: int) -> Interactions:
    """At most so many entries of each user, chosen by a public seed and by which entries there are: public, too."""
    keys, owners = np.random.default_rng(seed).random(len(ratings)), ratings.user_numbers()
    order = np.lexsort((keys, owners))
    place = np.empty(len(ratings), np.int64)
    place[order] = np.arange(len(ratings)) - ratings.indptr[:-1][owners]
    return ratings.where(place < most)
