"""The public side of Frank-Wolfe: the steps that follow from released directions, of constant size or corrective."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from discreet.models.eigen import PENALTY, Direction, Products
from discreet.privacy.releaser import Noisy
from discreet.typing import Array

Kept = tuple[Array, list[tuple[float, ...]], float]  # vectors, the numbers of each step, and k

COVARIANCE = "residual covariance"
PRODUCT, ENERGY, LENGTH = "residual product", "residual energy", "residual length"

RADIUS = 2.5  # times the first singular value of the whole matrix, as far as it is known
LEAST_NOISE = 1.0  # times what the last direction explains: so much is taken to be left, at least
CLEAR = 2.0  # standard deviations: a smaller sum of squares may be noise
LEAST_NEW = 1e-6  # of a direction, squared, that is not among those before
ROUNDING = 2.0**-20  # of residuals at first, and of L: what is shorter is little more than rounding errors of ratings


@dataclass(frozen=True)
class Step:
    """One step, as all users get it."""

    vector: Array  # v, of length 1, or zeros
    size: float  # eta, how far to go to the new atom: the previous iterate is multiplied by 1 - eta
    gain: float  # eta k / lambda', by which a user's residual along v is multiplied


def packed(steps: Sequence[Step]) -> tuple[Array, list[tuple[float, ...]]]:
    """Steps as a model keeps them: their vectors side by side, and their numbers."""
    return np.stack([step.vector for step in steps], axis=1), [(step.size, step.gain) for step in steps]


@dataclass
class Schedule:
    """Steps of one size, as in the paper: eta = 1 / T, lambda'^2 = lambda^2 + a bound on what noise hides of it."""

    n_steps: int  # T
    fill: float  # about what share of the items a user has rated
    radius: float | None  # k, the largest nuclear norm; None: to be derived from the first release
    clip: float  # C
    covariance_fill: ClassVar[None] = None  # a covariance is taken as it is
    which: str = ""  # how the labels of the next releases end
    later: list[tuple[float, str]] = field(default_factory=list)  # C and `which` after that, if they are others
    slack: float | None = None  # as published, lambda' is lambda plus this
    oja_rate: float | None = None  # as published, the step of Oja's method, times the noise's standard deviation
    made: list[Step] = field(default_factory=list)

    def before(self, residuals: Products) -> bool:
        """Nothing is released before a direction, and all steps are made."""
        return True

    def step(self, direction: Direction) -> Step:
        """The step for a direction; then C and the labels of the next release."""
        value = max(direction.value, 0.0)
        largest = math.sqrt(value + direction.slack) if self.slack is None else math.sqrt(value) + self.slack
        self.radius = self.radius or RADIUS * largest / self.fill
        vector = direction.vector.astype(np.float32).astype(np.float64)
        self.made.append(Step(vector, 1 / self.n_steps, self.radius / (self.n_steps * largest)))
        if self.later:
            self.clip, self.which = self.later.pop(0)
        return self.made[-1]

    def kept(self) -> Kept:
        """What a model keeps of all steps."""
        return (*packed(self.made), self.radius or 0.0)


@dataclass(frozen=True)
class Basis:
    """Orthonormal directions, and what is known about how ratings vary along them."""

    vectors: Array  # orthonormal columns, or zeros where a direction did not stand out of the noise
    signals: tuple[float, ...]  # the sum over users of |A_i . v|^2 when v was found, as far as it is believed
    noises: tuple[float, ...]  # after each step, the sum over users of |A_i|^2 that no direction explains
    fill: float  # about what share of the items a user has rated

    @classmethod
    def nothing(cls, n_items: int, fill: float) -> Basis:
        """Before the first step."""
        return cls(np.zeros((n_items, 0)), (), (), fill)

    def add(self, direction: Direction, length: float, least: float) -> Basis:
        """One more direction; `length`, the sum of |A_i|^2 before it was fitted, is positive, as is `least`.

        Of that, users' coefficients on v make up signal / fill if all users have rated this share of the items. What
        remains is at least `least`: smaller penalties would make users' regressions ill-conditioned. Noise has turned v
        away from the ratings that users are fitted to, and from those to be predicted: trust counts twice.
        """
        explained = direction.signal / self.fill
        new = direction.vector - self.vectors @ (self.vectors.T @ direction.vector)
        share = float(new @ new)
        signal = direction.signal * direction.trust**2 * share if share > LEAST_NEW else 0.0
        vector = new / math.sqrt(share) if signal else np.zeros_like(new)
        noise = max(length - explained, LEAST_NOISE * explained, least)
        return Basis(np.column_stack([self.vectors, vector]), (*self.signals, signal), (*self.noises, noise), self.fill)

    @property
    def columns(self) -> Array:
        """One vector for each item, for users' ridge regressions with the penalty 1.

        Users' coefficients on v have the mean square signal / fill^2 / users, and a single rating varies by
        noise / fill / items / users. The best ridge is the ratio of the two, in which the number of users cancels.
        """
        return (self.vectors * np.sqrt(self._clarities / self.fill)).astype(np.float32)

    @property
    def used(self) -> float:
        """The degrees of freedom of a typical user's regression: what it takes of single ratings' variance."""
        return float((self._clarities / (1 + self._clarities)).sum())

    @property
    def _clarities(self) -> Array:
        """The squared lengths of columns, on the items that a typical user has rated."""
        if not self.signals:
            return np.zeros(0)
        return np.array(self.signals) * len(self.vectors) / (PENALTY * self.noises[-1])


@dataclass
class Correction:
    """Corrective steps: with each new direction, users fit their ratings again, along all directions so far.

    Steps then undo nothing of each other. What users compute from their own ratings and public numbers is free under
    joint differential privacy.

    C follows the residuals: it shrinks as the root of the sum of |A_i|^2 does, which is released first, with the last
    step's C. So the noise shrinks with what is left to be found. Where only rounding errors are left, steps end.
    """

    which: ClassVar[str] = ""  # all releases are charged alike
    oja_rate: ClassVar[None] = None  # the default of `oja`

    basis: Basis  # the directions so far
    clip: float  # C
    least_clip: float  # the least that C becomes
    shrinkage: float | None = None  # of users' own offsets; None: they have none
    length: float = 0.0  # the sum of |A_i|^2 as it was last released, and no less than its noise makes clear
    least_length: float = 0.0  # how much of it is rounding errors: a part of the first one

    @classmethod
    def of(cls, n_items: int, fill: float, clip: float, shrinkage: float | None = None) -> Correction:
        """Before the first step."""
        return cls(Basis.nothing(n_items, fill), clip, ROUNDING * clip, shrinkage)

    @property
    def covariance_fill(self) -> float:
        """About what share of the items a user has rated."""
        return self.basis.fill

    @property
    def unexplained(self) -> float:
        """The sum of |A_i|^2 if these were ratings that nothing was fitted to.

        A user's regression also follows what single ratings vary by: with as many directions as a typical user has
        ratings, nothing would be left. The best ridge leaves the share of the ratings that it has no freedom for.
        """
        rated = self.basis.fill * len(self.basis.vectors)
        used = self.basis.used + (0.0 if self.shrinkage is None else rated / (rated + self.shrinkage))
        return self.length / max(1 - used / rated, 1 / (1 + rated))

    def before(self, residuals: Products) -> bool:
        """Release the sum of |A_i|^2, and set C by it. Whether another direction is worth looking for."""
        self.measure(residuals.length(LENGTH))
        return self.length > self.least_length

    def measure(self, length: Noisy) -> None:
        """Update C by a released sum of |A_i|^2."""
        clear = max(float(length.values[0]), CLEAR * length.std)
        if self.length:
            self.clip = max(self.clip * math.sqrt(min(clear / self.length, 1.0)), self.least_clip)
        else:
            self.least_length = ROUNDING**2 * clear
        self.length = clear

    def step(self, direction: Direction) -> Basis:
        """The directions so far, for users to fit."""
        self.basis = self.basis.add(direction, self.unexplained, self.least_length)
        return self.basis

    def kept(self) -> Kept:
        """What a model keeps of all steps; there is no radius."""
        return self.basis.columns, [(noise,) for noise in self.basis.noises], 0.0
