"""The local side: a user's own regression of her true bits on public item vectors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.completion.one_bit.links import Link
from discreet.completion.ridge import Ridge
from discreet.data.interactions import Interactions

Array = NDArray[Any]

STEPS = 15  # each a ridge regression


@dataclass(frozen=True)
class BitRidge(Ridge):
    """A regression of a user's bits. Her offset a_i and vector z_i make this as small as possible.

        sum over j in row i of -log P(bit_ij | x_ij) + |z_i|^2 / 2 + EFFECT_PENALTY / 2 (a_i / unit)^2

    where x_ij = (base_j - threshold + a_i + c_j . z_i) / unit and c_j are the columns.

    Numbers are in the unit of ratings, in which x is a straight line: threshold + unit x. Each step replaces the loss
    by the parabola that touches it and bends as much as any part of it does, and so is a ridge regression.

    Attributes:
        link: P(bit = 1 | x).
        threshold: Ratings from here on are ones.
        unit: How much of a rating is 1 of x.
    """

    link: Link = field(default_factory=Link)
    threshold: float = 0.0
    unit: float = 1.0

    def _aims(self, values: Array, fitted: Array) -> Array:
        """Where the parabolas have their lowest points, in the unit of ratings."""
        sign = np.where(values >= np.float32(self.threshold), 1.0, -1.0)
        x = (fitted - self.threshold) / self.unit
        aims: Array = fitted + self.unit * sign * self.link.log_slope(sign * x) / self.link.curvature
        return aims

    def _steps(self, indptr: Array, indices: Array, values: Array, n_jobs: int | None) -> tuple[Array, Array, Array]:
        """Offsets, vectors, and what the last regression aimed at."""
        owners = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        fitted = self.base[indices].astype(np.float64)
        for _ in range(STEPS):
            aims = self._aims(values, fitted)
            offsets, vectors = self.solve(indptr, indices, aims, n_jobs=n_jobs)
            fitted = self.base[indices].astype(np.float64) + offsets[owners]
            for k in range(vectors.shape[1]):  # column by column: the same sum whoever else is here
                fitted += vectors[owners, k] * self.columns[indices, k]
        return offsets, vectors, aims

    def fold_in(self, histories: Interactions, n_jobs: int | None) -> tuple[Array, Array]:
        """Users' offsets and vectors, from their own histories."""
        return self._steps(histories.indptr, histories.indices, histories.values, n_jobs)[:2]

    def contributions(self, indices: Array, values: Array, item: int) -> Array:
        """What each rating adds to the score of an item, by the last regression: they and `base` add up to it."""
        aims = self._steps(np.array([0, len(indices)]), indices, values, 1)[2]
        return super().contributions(indices, aims, item)
