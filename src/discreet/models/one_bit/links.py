"""Links: the probability that a bit is 1, as a function of a number of a low-rank matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

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
        found: Array = expit(x) if self.name == "logistic" else ndtr(x / self.sigma)
        return found

    def log(self, x: Array) -> Array:
        """The logarithm of h, also far out, where h rounds to 0. Of 1 - h it is this at -x."""
        found: Array = log_expit(x) if self.name == "logistic" else log_ndtr(x / self.sigma)
        return found

    def density(self, x: Array) -> Array:
        """h'(x)."""
        if self.name == "logistic":
            found: Array = expit(x) * expit(-x)
            return found
        bell: Array = np.exp(-0.5 * (x / self.sigma) ** 2) / (self.sigma * math.sqrt(2 * math.pi))
        return bell

    def log_slope(self, x: Array) -> Array:
        """(log h)'(x) = h'(x) / h(x)."""
        if self.name == "logistic":
            found: Array = expit(-x)
            return found
        z = x / self.sigma
        slope: Array = np.exp(-0.5 * z * z - log_ndtr(z)) / (self.sigma * math.sqrt(2 * math.pi))
        return slope

    def bend(self, x: Array) -> Array:
        """-(log h)''(x), the second derivative of the loss of a 1. Of the loss of a 0 it is this at -x."""
        if self.name == "logistic":
            return self.density(x)
        slope = self.log_slope(x)
        found: Array = slope * (slope + x / self.sigma**2)
        return found

    @property
    def slope(self) -> float:
        """h'(0), the largest."""
        return 0.25 if self.name == "logistic" else 1 / (self.sigma * math.sqrt(2 * math.pi))

    @property
    def curvature(self) -> float:
        """The largest second derivative of -log h: 1/4, or 1 / sigma^2."""
        return 0.25 if self.name == "logistic" else 1 / self.sigma**2

    def sensitivity(self, alpha: float) -> float:
        """How far a flip moves the derivative of the loss, at most, within |x| <= alpha: 1 for the logistic link.

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
