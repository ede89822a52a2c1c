"""Corrective steps: with each new direction, users fit their ratings anew, along all directions so far.

The global component says what the directions are, how far users go along them and how much of their ratings it does not
explain (`Basis`); a user then solves a ridge regression of their own, so that steps undo nothing of each other. Under
joint differential privacy that is free, as is everything that users do with their own ratings and what is public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from discreet.models.centering import SHRINKAGE
from discreet.models.directions import PENALTY
from discreet.models.eigen import Products
from discreet.models.frank_wolfe.contributions import Fitted
from discreet.models.frank_wolfe.losses import Loss, Squared
from discreet.models.frank_wolfe.steps import LENGTH, Found, Kept
from discreet.models.ridge import Penalty, Ridge
from discreet.privacy.releaser import Noisy
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

LEAST_NOISE = 1.0  # times what the last direction explains: so much is taken to be left, at least
CLEAR = 2.0  # standard deviations: a sum of squares that is smaller may be noise
LEAST_NEW = 1e-6  # of a direction, squared, that is not among those before
ROUNDING = 2.0**-20  # of residuals at first, and of L: what is shorter is little more than rounding errors of ratings


@dataclass(frozen=True)
class Basis:
    """The public side: orthonormal directions, and what is known of how ratings vary along them.

    Attributes:
        vectors: Orthonormal columns, or zeros where a direction did not stand out of the noise.
        signals: The sum over users of |A_i . v|^2 when v was found, as far as it is believed.
        noises: After each step, the sum over users of |A_i|^2 that no direction explains.
        fill: About what share of the items a user has rated.
    """

    vectors: Array
    signals: tuple[float, ...]
    noises: tuple[float, ...]
    fill: float

    @classmethod
    def nothing(cls, n_items: int, fill: float) -> Basis:
        """Before the first step."""
        return cls(np.zeros((n_items, 0)), (), (), fill)

    def add(self, found: Found, length: float, least: float) -> Basis:
        """One direction more; `length` is the sum of |A_i|^2 before it was fitted, and positive, as is `least`.

        Of that, users' coefficients on v make up signal / fill if everybody has rated this share of the items. What is
        left is at least `least`: penalties below what rounds would make users' regressions ill-conditioned.
        """
        direction = found.direction
        explained = direction.signal / self.fill
        new = direction.vector - self.vectors @ (self.vectors.T @ direction.vector)
        share = float(new @ new)
        signal = direction.signal * direction.trust * share if share > LEAST_NEW else 0.0
        vector = new / math.sqrt(share) if signal else np.zeros_like(new)
        noise = max(length - explained, LEAST_NOISE * explained, least)
        return Basis(np.column_stack([self.vectors, vector]), (*self.signals, signal), (*self.noises, noise), self.fill)

    @property
    def columns(self) -> Array:
        """One vector for each item, for users' ridge regressions with the penalty 1.

        Users' coefficients on v have the mean square signal / fill^2 / users, and a single rating varies by
        noise / fill / items / users, so that the best ridge is the ratio of the two, in which users cancel.
        """
        n = len(self.vectors)
        variances = np.array(self.signals) * n / (PENALTY * self.fill * self.noises[-1])
        return (self.vectors * np.sqrt(variances)).astype(np.float32)


@dataclass(frozen=True)
class Corrective:
    """The local component: regressions on all directions so far, and on a constant if rows are centred.

    The residual of a squared loss is what the regression leaves. For another loss, with a derivative that rises no
    faster, each step makes the quadratic function above it small that touches it where the last step arrived.

    Attributes:
        loss: What a residual is.
        centre: What a rating is expected to be, publicly.
        offsets: Whether users have offsets of their own.
    """

    loss: Loss
    centre: float
    offsets: bool

    @property
    def forgets(self) -> bool:
        """A regression of a squared loss is of the ratings themselves."""
        return isinstance(self.loss, Squared)

    def ridge(self, columns: Array) -> Ridge:
        """A user's regression, of their ratings less the centre."""
        base = np.zeros(len(columns), columns.dtype)
        return Ridge(columns, base, Penalty(1.0), offset_penalty=SHRINKAGE if self.offsets else None)

    def begin(self, part: UserBatch) -> tuple[Array, Array]:
        """Y_i, the user's own damped mean if there are offsets, and A_i."""
        about = self._about(part)
        fitted = np.zeros(len(about))
        if self.offsets:
            fitted = (part.row_sums(about) / (part.counts + SHRINKAGE))[part.owners]
        return fitted, self._residuals(about, fitted)

    def move(self, part: Fitted, step: Basis) -> tuple[Array, Array]:
        """Y_i and A_i after the directions of a basis were fitted."""
        about, left = self._about(part), np.zeros(len(part.indices))
        targets = self.targets(about, part.fitted.astype(np.float64))
        self.ridge(step.columns.astype(np.float64)).solve(part.indptr, part.indices, targets, residuals=left)
        return targets - left, self._residuals(about, targets - left)

    def targets(self, about: Array, fitted: Array) -> Array:
        """What a regression is to fit: Y_i - A_i, which for a squared loss are the ratings themselves."""
        return about if self.forgets else fitted - self._residuals(about, fitted)

    def _about(self, part: UserBatch) -> Array:
        about: Array = part.values.astype(np.float64) - self.centre
        return about

    def _residuals(self, about: Array, fitted: Array) -> Array:
        return self.loss.slope(fitted) * fitted - about


@dataclass(frozen=True)
class LogisticTargets:
    """What a user who is folded in fits where the loss is logistic: a regression for each step gives the next targets.

    Attributes:
        component: The local component.
        noises: Of each step; a step's columns are those of the last one, scaled.
    """

    component: Corrective
    noises: Sequence[float]

    def __call__(self, ridge: Ridge, indptr: Array, indices: Array, values: Array, n_jobs: int | None) -> Array:
        """What the last regression fits."""
        about = values.astype(np.float64) - self.component.centre
        targets, left = self.component.targets(about, np.zeros(len(about))), np.zeros(len(about))
        for t, factor in self._rounds()[:-1]:
            step = self.component.ridge(ridge.columns[:, :t] * factor)
            step.solve(indptr, indices, targets, residuals=left, n_jobs=n_jobs)
            targets = self.component.targets(about, targets - left)
        return targets + ridge.base[indices]

    def _rounds(self) -> list[tuple[int, float]]:
        """Of each step, how many columns it has, and what they are multiplied by."""
        return [(t, math.sqrt(self.noises[-1] / noise)) for t, noise in enumerate(self.noises, 1)]

    def describe(self, rank: int) -> dict[str, Any]:
        """The loss and the steps."""
        loss = {"name": "logistic", "width": self.component.loss.width, "centre": self.component.centre}
        return {"loss": loss, "rounds": [list(one) for one in self._rounds()]}


@dataclass
class Correction:
    """The rule of corrective steps: C and the basis, both functions of releases.

    C follows the residuals: it is shortened as the root of the sum of |A_i|^2 is, which is released first, with the
    last step's C. So the noise shrinks with what is left to be found. Where that is rounding errors, steps end.

    Attributes:
        basis: The directions so far.
        clip: C.
        least_clip: The least that C becomes.
        length: The sum of |A_i|^2 as it was last released, and no less than its noise makes clear.
        least_length: What of it is rounding errors: a part of the first one.
    """

    which: ClassVar[str] = ""  # all releases are charged alike

    basis: Basis
    clip: float
    least_clip: float
    length: float = 0.0
    least_length: float = 0.0

    @classmethod
    def of(cls, n_items: int, fill: float, clip: float) -> Correction:
        """Before the first step."""
        return cls(Basis.nothing(n_items, fill), clip, ROUNDING * clip)

    def before(self, residuals: Products) -> bool:
        """Release the sum of |A_i|^2, and set C by it. Whether another direction is worth looking for."""
        self.measure(residuals.length(LENGTH))
        return self.length > self.least_length

    def measure(self, length: Noisy) -> None:
        """Take on a released sum of |A_i|^2."""
        clear = max(float(length.values[0]), CLEAR * length.std)
        if self.length:
            self.clip = max(self.clip * math.sqrt(min(clear / self.length, 1.0)), self.least_clip)
        else:
            self.least_length = ROUNDING**2 * clear
        self.length = clear

    def step(self, found: Found) -> Basis:
        """The directions so far, for everybody to fit."""
        self.basis = self.basis.add(found, self.length, self.least_length)
        return self.basis

    def kept(self) -> Kept:
        """What a model keeps of all steps; there is no radius."""
        return self.basis.columns, [(noise,) for noise in self.basis.noises], 0.0
