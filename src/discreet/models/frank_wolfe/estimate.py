"""The public side of Frank-Wolfe: steps of constant size, or corrective steps, from released directions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from discreet.models.eigen import PENALTY, Direction, Products
from discreet.privacy.releaser import Noisy
from discreet.typing import Array

Kept = tuple[Array, list[tuple[float, ...]], float]  # vectors, numbers for each step, and k

COVARIANCE = "residual covariance"
PRODUCT, ENERGY, LENGTH = "residual product", "residual energy", "residual length"

RADIUS = 2.5  # times the estimated first singular value of the full matrix
LEAST_NOISE = 1.0  # times what the last direction explains: the least residual that is assumed
CLEAR = 2.0  # standard deviations: a smaller sum of squares may be nothing but noise
LEAST_NEW = 1e-6  # squared norm of the part of a direction that is orthogonal to earlier ones, at least
ROUNDING = 2.0**-20  # share of the first residuals, and of L, below which residuals may be mostly rounding errors


@dataclass(frozen=True)
class Step:
    """One public step."""

    vector: Array  # v, of length 1, or zeros
    size: float  # eta, the step size toward the new atom: the previous iterate is multiplied by 1 - eta
    gain: float  # eta k / lambda', the factor of a user's residual along v


def packed(steps: Sequence[Step]) -> tuple[Array, list[tuple[float, ...]]]:
    """Steps as a model keeps them: vectors as columns, and numbers."""
    return np.stack([step.vector for step in steps], axis=1), [(step.size, step.gain) for step in steps]


@dataclass
class Schedule:
    """Steps of one size, as in the paper: eta = 1 / T, lambda'^2 = lambda^2 + a bound on the error due to noise."""

    n_steps: int  # T
    fill: float  # approximate share of items that a user has rated
    radius: float | None  # k, the largest nuclear norm; None to derive it from the first release
    clip: float  # C
    covariance_fill: ClassVar[None] = None  # covariances are used as they are
    which: str = ""  # suffix of the next releases' labels
    later: list[tuple[float, str]] = field(default_factory=list)  # C and `which` of later releases, if they differ
    slack: float | None = None  # as published, lambda' is lambda plus this
    oja_rate: float | None = None  # as published, the step size of Oja's method times the noise's standard deviation
    made: list[Step] = field(default_factory=list)

    def before(self, residuals: Products) -> bool:
        """True: nothing is released before a direction, and all steps are made."""
        return True

    def step(self, direction: Direction) -> Step:
        """The step for a direction. Then moves on to C and the labels of the next release."""
        value = max(direction.value, 0.0)
        largest = math.sqrt(value + direction.slack) if self.slack is None else math.sqrt(value) + self.slack
        self.radius = self.radius or RADIUS * largest / self.fill
        vector = direction.vector.astype(np.float32).astype(np.float64)
        self.made.append(Step(vector, 1 / self.n_steps, self.radius / (self.n_steps * largest)))
        if self.later:
            self.clip, self.which = self.later.pop(0)
        return self.made[-1]

    def kept(self) -> Kept:
        """The parts of all steps that a model keeps."""
        return (*packed(self.made), self.radius or 0.0)


@dataclass(frozen=True)
class Basis:
    """Orthonormal directions, and estimates of how ratings vary along them."""

    vectors: Array  # orthonormal columns, or zeros where a direction did not stand out of the noise
    signals: tuple[float, ...]  # the sum over users of |A_i . v|^2 when v was found, shrunk
    noises: tuple[float, ...]  # after each step, the sum over users of |A_i|^2 that the directions leave unexplained
    fill: float  # approximate share of items that a user has rated

    @classmethod
    def nothing(cls, n_items: int, fill: float) -> Basis:
        """The basis before the first step."""
        return cls(np.zeros((n_items, 0)), (), (), fill)

    def add(self, direction: Direction, length: float, least: float) -> Basis:
        """Add a direction. `length`, the sum of |A_i|^2 before it was fitted, and `least` are positive.

        Users' coefficients on v explain signal / fill of it, if all users have rated the share `fill` of the items. The
        rest is taken to be at least `least`, since smaller penalties would make users' regressions ill-conditioned.
        Noise rotates v away from the ratings that are fitted and from those to be predicted, so trust counts twice.
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

        Users' coefficients on v have mean square signal / fill^2 / users, and a single rating has the variance
        noise / fill / items / users. The best ridge penalty is their ratio, in which the number of users cancels.
        """
        return (self.vectors * np.sqrt(self._clarities / self.fill)).astype(np.float32)

    @property
    def used(self) -> float:
        """The degrees of freedom of a typical user's regression."""
        return float((self._clarities / (1 + self._clarities)).sum())

    @property
    def _clarities(self) -> Array:
        """The squared norms of columns, restricted to the items that a typical user has rated."""
        if not self.signals:
            return np.zeros(0)
        return np.array(self.signals) * len(self.vectors) / (PENALTY * self.noises[-1])


@dataclass
class Correction:
    """Corrective steps: with each new direction, users refit their ratings along all directions so far.

    Later steps then never undo earlier ones. What users compute from their own ratings and public numbers is free under
    joint differential privacy. C shrinks with the root of the sum of |A_i|^2, which is released first, clipped at the
    previous C, so that the noise shrinks with the residuals. Steps end when only rounding errors are left.
    """

    which: ClassVar[str] = ""  # all releases have the same cost
    oja_rate: ClassVar[None] = None  # the default of `oja`

    basis: Basis  # the directions so far
    clip: float  # C
    least_clip: float  # lower bound of C
    shrinkage: float | None = None  # of users' own offsets; None if they have none
    length: float = 0.0  # the sum of |A_i|^2 as last released, or a lower bound that is clear of its noise
    least_length: float = 0.0  # the part of it that may be rounding errors

    @classmethod
    def of(cls, n_items: int, fill: float, clip: float, shrinkage: float | None = None) -> Correction:
        """The state before the first step."""
        return cls(Basis.nothing(n_items, fill), clip, ROUNDING * clip, shrinkage)

    @property
    def covariance_fill(self) -> float:
        """The approximate share of items that a user has rated."""
        return self.basis.fill

    @property
    def unexplained(self) -> float:
        """The sum of |A_i|^2 that ratings to which nothing was fitted would have.

        Regressions also fit noise: with as many directions as ratings, a user would have no residuals at all. The sum
        is divided by the share of degrees of freedom that the best ridge penalty leaves.
        """
        rated = self.basis.fill * len(self.basis.vectors)
        used = self.basis.used + (0.0 if self.shrinkage is None else rated / (rated + self.shrinkage))
        return self.length / max(1 - used / rated, 1 / (1 + rated))

    def before(self, residuals: Products) -> bool:
        """Release the sum of |A_i|^2, and set C by it. Returns whether to look for another direction."""
        self.measure(residuals.length(LENGTH))
        return self.length > self.least_length

    def measure(self, length: Noisy) -> None:
        """Update C from a released sum of |A_i|^2."""
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
        """The parts of all steps that a model keeps; there is no radius."""
        return self.basis.columns, [(noise,) for noise in self.basis.noises], 0.0
