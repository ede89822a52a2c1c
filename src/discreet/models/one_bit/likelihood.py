"""The probability that a bit is 1, and the likelihoods of noisy bits, which are all that the solver sees.

A loss is a sum over observed entries. Called with the entries x of a matrix, it returns its value and its derivatives.
`curvature` bounds second derivatives; `dispersion` is the variance of the derivatives, relative to their mean curvature
(1 for a likelihood); `clarity` is the square root of the information of a noisy bit about x near 0, relative to a true
bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, get_args

import numpy as np
from scipy.special import expit, log_expit, log_ndtr, ndtr

from discreet.errors import DataError
from discreet.typing import Array
from discreet.validation import positive

LinkName = Literal["logistic", "probit"]


@dataclass(frozen=True)
class Link:
    """h(x), the probability of a 1: 1 / (1 + e^-x), or Phi(x / sigma)."""

    name: LinkName = "logistic"
    sigma: float = 1.0

    def __post_init__(self) -> None:
        if self.name not in get_args(LinkName):
            raise DataError(f"link: one of {', '.join(get_args(LinkName))} is needed, not {self.name!r}")
        positive("sigma", self.sigma)

    def probability(self, x: Array) -> Array:
        """h(x)."""
        return np.asarray(expit(x) if self.name == "logistic" else ndtr(x / self.sigma))

    def log(self, x: Array) -> Array:
        """The logarithm of h, accurate even if h rounds to 0; for 1 - h, use -x."""
        return np.asarray(log_expit(x) if self.name == "logistic" else log_ndtr(x / self.sigma))

    def density(self, x: Array) -> Array:
        """h'(x)."""
        if self.name == "logistic":
            return np.asarray(expit(x) * expit(-x))
        return np.asarray(np.exp(-0.5 * (x / self.sigma) ** 2) / (self.sigma * math.sqrt(2 * math.pi)))

    def log_slope(self, x: Array) -> Array:
        """(log h)'(x) = h'(x) / h(x)."""
        if self.name == "logistic":
            return np.asarray(expit(-x))
        z = x / self.sigma
        return np.asarray(np.exp(-0.5 * z * z - log_ndtr(z)) / (self.sigma * math.sqrt(2 * math.pi)))

    def bend(self, x: Array) -> Array:
        """-(log h)''(x), the second derivative of the loss of a 1; for a 0, it is the same at -x."""
        if self.name == "logistic":
            return self.density(x)
        slope = self.log_slope(x)
        return np.asarray(slope * (slope + x / self.sigma**2))

    @property
    def slope(self) -> float:
        """h'(0), the largest value of h'."""
        return 0.25 if self.name == "logistic" else 1 / (self.sigma * math.sqrt(2 * math.pi))

    @property
    def curvature(self) -> float:
        """The largest second derivative of -log h: 1/4, or 1 / sigma^2."""
        return 0.25 if self.name == "logistic" else 1 / self.sigma**2

    def sensitivity(self, alpha: float) -> float:
        """How far a flip moves the derivative of the loss within |x| <= alpha, at most: 1 for the logistic link.

        h'(x) / (h(x) h(-x)) is even, and rises with |x| for the probit link.
        """
        if self.name == "logistic":
            return 1.0
        ends = np.array([alpha, -alpha])
        return math.nextafter(float(self.log_slope(ends).sum()) * (1 + 1e-12), math.inf)

    def least_bend(self, alpha: float) -> float:
        """The smallest second derivative of the loss within |x| <= alpha: at alpha, for both links."""
        return float(self.bend(np.array([alpha]))[0]) * (1 - 1e-9)

    def log_bends(self, alpha: float, ridge: float) -> float:
        """The largest |log((ridge + bend(x)) / (ridge + bend(-x)))| within |x| <= alpha: at alpha. 0 if logistic."""
        if self.name == "logistic":
            return 0.0
        most, least = self.bend(np.array([-alpha, alpha])).tolist()
        return math.log((ridge + most) / (ridge + least)) + 1e-9


@dataclass(frozen=True)
class Observed:
    """Which entries of a matrix are observed, row by row. Public: only their bits are protected."""

    rows: Array
    columns: Array
    shape: tuple[int, int]

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class FlippedBits:
    """-log P(bit | x) for flipped bits: a 1 is flipped with probability `flip_one`, a 0 with `flip_zero`.

    A bit is 1 with probability c(x) = (1 - flip_one) h(x) + flip_zero h(-x). Without flips these are the true bits.
    """

    bits: Array
    link: Link
    flip_one: float = 0.0
    flip_zero: float = 0.0
    dispersion: ClassVar[float] = 1.0  # it is a likelihood

    @property
    def curvature(self) -> float:
        """The curvature without flips, since -log c has less curvature."""
        return self.link.curvature

    @property
    def clarity(self) -> float:
        """c'(0) / h'(0)."""
        return 1 - self.flip_one - self.flip_zero

    @property
    def targets(self) -> Array:
        """Numbers whose expectations are the true bits."""
        return np.asarray((self.bits - self.flip_zero) / self.clarity)

    @property
    def variance(self) -> float:
        """An upper bound on the variance of a target beside its bit."""
        return max(flip * (1 - flip) for flip in (self.flip_one, self.flip_zero)) / self.clarity**2

    def __call__(self, x: Array) -> tuple[float, Array]:
        """The loss, and its derivatives."""
        sign = np.where(self.bits > 0, 1.0, -1.0)
        if not self.flip_one and not self.flip_zero:
            return -float(self.link.log(sign * x).sum()), -sign * self.link.log_slope(sign * x)
        keep, stray = 1 - self.flip_one - self.flip_zero, np.where(sign > 0, self.flip_zero, self.flip_one)
        chance = stray + keep * self.link.probability(sign * x)
        return -float(np.log(chance).sum()), -sign * keep * self.link.density(x) / chance


@dataclass(frozen=True)
class ShiftedBits:
    """log(1 + e^x) - t x, where t is a bit plus noise: the logistic loss plus a random linear term."""

    targets: Array
    variance: float  # of the noise
    curvature: ClassVar[float] = 0.25

    @property
    def dispersion(self) -> float:
        """(1/4 + variance) / (1/4)."""
        return 1 + 4 * self.variance

    @property
    def clarity(self) -> float:
        """The square root of 1 / dispersion."""
        return float(self.dispersion**-0.5)

    def __call__(self, x: Array) -> tuple[float, Array]:
        """The loss, and its derivatives."""
        return float((-log_expit(-x) - self.targets * x).sum()), expit(x) - self.targets


Loss: TypeAlias = FlippedBits | ShiftedBits


@dataclass(frozen=True)
class Counts:
    """The number of ones of each item, with noise of this variance."""

    ones: Array
    variance: Array | float
    link: Link

    def with_bits(self, observed: Observed, loss: Loss) -> Counts:
        """Combine these counts with those of noisy bits, weighted by precision."""
        n = np.maximum(np.bincount(observed.columns, minlength=len(self.ones)), 1)
        sums = np.bincount(observed.columns, loss.targets, len(self.ones))
        share = self.variance / (self.variance + n * loss.variance)  # the weight of the noisy bits
        return Counts(share * sums + (1 - share) * self.ones, share * n * loss.variance, self.link)
