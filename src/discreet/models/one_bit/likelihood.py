"""What the solver sees of the data: noisy bits, and the likelihood of a matrix given them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from scipy.special import expit, log_expit

from discreet.models.one_bit.links import Link
from discreet.typing import Array


@dataclass(frozen=True)
class Cells:
    """Which entries of a matrix are observed, row by row. Public: only their bits are protected."""

    rows: Array
    columns: Array
    shape: tuple[int, int]

    def __len__(self) -> int:
        return len(self.rows)

    def at(self, which: Array) -> Cells:
        """Some of the entries."""
        return Cells(self.rows[which], self.columns[which], self.shape)


class Loss(Protocol):
    """A sum over observed entries of losses of x, the entry of the matrix: what is minimised."""

    @property
    def curvature(self) -> float:
        """A bound on second derivatives, or near one."""

    @property
    def dispersion(self) -> float:
        """The variance of its derivatives against that of a likelihood's, which is their mean curvature: 1 for one."""

    @property
    def clarity(self) -> float:
        """The root of what a noisy bit tells of x, against a true bit, where x is near 0."""

    def __call__(self, x: Array) -> tuple[float, Array]:
        """The sum of losses at these entries, and the derivative of each."""

    def at(self, which: Array) -> Loss:
        """The loss of some of the entries."""


@dataclass(frozen=True)
class FlippedBits:
    """-log P(bit | x) for bits that were flipped: a 1 with probability `flip_one`, a 0 with `flip_zero`.

    A bit is 1 with probability c(x) = (1 - flip_one) h(x) + flip_zero h(-x). Without flips these are the true bits.
    """

    bits: Array
    link: Link
    flip_one: float = 0.0
    flip_zero: float = 0.0

    @property
    def curvature(self) -> float:
        """That of bits which are not flipped: -log c bends less."""
        return self.link.curvature

    @property
    def dispersion(self) -> float:
        """1: it is a likelihood."""
        return 1.0

    @property
    def clarity(self) -> float:
        """c'(0) / h'(0)."""
        return 1 - self.flip_one - self.flip_zero

    def __call__(self, x: Array) -> tuple[float, Array]:
        """The sum of losses at these entries, and the derivative of each."""
        sign = np.where(self.bits > 0, 1.0, -1.0)
        if not self.flip_one and not self.flip_zero:
            return -float(self.link.log(sign * x).sum()), -sign * self.link.log_slope(sign * x)
        keep, stray = 1 - self.flip_one - self.flip_zero, np.where(sign > 0, self.flip_zero, self.flip_one)
        chance = stray + keep * self.link.probability(sign * x)
        return -float(np.log(chance).sum()), -sign * keep * self.link.density(x) / chance

    def at(self, which: Array) -> FlippedBits:
        """The loss of some of the entries."""
        return replace(self, bits=self.bits[which])


@dataclass(frozen=True)
class ShiftedBits:
    """log(1 + e^x) - t x, where t is a bit plus noise: the logistic loss, to which noise adds a random linear term."""

    targets: Array
    variance: float  # of the noise

    @property
    def curvature(self) -> float:
        """1/4."""
        return 0.25

    @property
    def dispersion(self) -> float:
        """(1/4 + variance) / (1/4)."""
        return 1 + 4 * self.variance

    @property
    def clarity(self) -> float:
        """The root of 1 / dispersion."""
        return float(self.dispersion**-0.5)

    def __call__(self, x: Array) -> tuple[float, Array]:
        """The sum of losses at these entries, and the derivative of each."""
        return float((-log_expit(-x) - self.targets * x).sum()), expit(x) - self.targets

    def at(self, which: Array) -> ShiftedBits:
        """The loss of some of the entries."""
        return replace(self, targets=self.targets[which])


@dataclass(frozen=True)
class TiltedBits(FlippedBits):
    """-log P(bit | x) + tilt x, of true bits: the objective that was published for the probit link.

    To whoever fits it is a likelihood: what the tilt adds is not known.
    """

    tilt: Array = field(kw_only=True)

    def __call__(self, x: Array) -> tuple[float, Array]:
        """The sum of losses at these entries, and the derivative of each."""
        value, slopes = super().__call__(x)
        return value + float(self.tilt @ x), slopes + self.tilt

    def at(self, which: Array) -> TiltedBits:
        """The loss of some of the entries."""
        return replace(self, bits=self.bits[which], tilt=self.tilt[which])
