"""Losses: what a user's residual is, given what is fitted to her ratings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, get_args

import numpy as np

from discreet.errors import DataError
from discreet.typing import Array

LossName = Literal["squared", "logistic"]


class Loss(Protocol):
    """A smooth convex loss l(y, x) of a fitted value y and a centred rating x, with dl/dy = slope(y) y - x.

    Any such loss will do for Frank-Wolfe: the sensitivity of a residual is bounded by clipping it, whatever it is.
    """

    @property
    def width(self) -> float | None:
        """Of the range of ratings, where the loss depends on it."""
        ...

    def slope(self, fitted: Array) -> Array:
        """What a fitted value is multiplied by in the derivative: a public function, one value at a time."""
        ...


@dataclass(frozen=True)
class Squared:
    """(y - x)^2 / 2."""

    width: ClassVar[None] = None

    def slope(self, fitted: Array) -> Array:
        """1: the derivative is y - x."""
        return np.ones_like(fitted)


@dataclass(frozen=True)
class Logistic:
    """The logistic loss of ratings that are mostly at the two ends of their range.

    In units of ratings: with R the width of the range and x the rating less its middle, a fitted y says that the rating
    is the higher one with probability 1 / (1 + exp(-4 y / R)), so that the middle + y is the expected rating to first
    order, and on the right side of the middle in any case. The loss is R^2 / 4 times the usual one.
    """

    width: float

    def slope(self, fitted: Array) -> Array:
        """R / 2 tanh(2 y / R) / y."""
        scaled = 2 / self.width * fitted
        small = np.abs(scaled) < 1e-4  # where tanh(s) / s is 1 to eight digits
        found: Array = np.where(small, 1.0, np.tanh(scaled) / np.where(small, 1.0, scaled))
        return found


def loss_of(name: LossName, width: float) -> Loss:
    """The loss of this name, for ratings in a range of this width."""
    if name not in get_args(LossName):
        raise DataError(f"loss: one of {', '.join(get_args(LossName))} is needed, not {name!r}")
    return Logistic(width) if name == "logistic" else Squared()
