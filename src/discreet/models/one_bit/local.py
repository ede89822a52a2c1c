"""The local side: a user's own regression of their true bits on public item vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.models.one_bit.links import Link
from discreet.models.ridge import Ridge
from discreet.typing import Array

STEPS = 15  # each a ridge regression


@dataclass(frozen=True)
class BitTargets:
    """What a user fits so that their offset a_i and vector z_i make this as small as possible.

        sum over j in row i of -log P(bit_ij | x_ij) + |z_i|^2 / 2 + EFFECT_PENALTY / 2 (a_i / unit)^2

    where x_ij = (base_j - threshold + a_i + c_j . z_i) / unit and c_j are the columns.

    Numbers are in the unit of ratings, in which x is a straight line: threshold + unit x. Each step replaces the loss
    by the parabola that touches it and bends as much as any part of it does, and so is a ridge regression.

    Attributes:
        link: P(bit = 1 | x).
        threshold: Ratings from here on are ones.
        unit: How much of a rating is 1 of x.
    """

    link: Link
    threshold: float
    unit: float

    def __call__(self, ridge: Ridge, indptr: Array, indices: Array, values: Array, n_jobs: int | None) -> Array:
        """What the last regression fits."""
        owners = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        base = ridge.base[indices].astype(np.float64)
        targets = self._lowest(values, base)
        for _ in range(STEPS - 1):
            offsets, vectors = ridge.solve(indptr, indices, targets, n_jobs=n_jobs)
            fitted = base + offsets[owners]
            for k in range(vectors.shape[1]):  # column by column: the same sum whoever else is here
                fitted += vectors[owners, k] * ridge.columns[indices, k]
            targets = self._lowest(values, fitted)
        return targets

    def _lowest(self, values: Array, fitted: Array) -> Array:
        """Where the parabolas have their lowest points, in the unit of ratings."""
        sign = np.where(values >= np.float32(self.threshold), 1.0, -1.0)
        x = (fitted - self.threshold) / self.unit
        lowest: Array = fitted + self.unit * sign * self.link.log_slope(sign * x) / self.link.curvature
        return lowest

    def describe(self, rank: int) -> dict[str, Any]:
        """The loss and the steps."""
        loss = {
            "name": "bits",
            "link": self.link.name,
            "sigma": float(self.link.sigma),
            "curvature": self.link.curvature,
            "threshold": float(np.float32(self.threshold)),
            "unit": float(self.unit),
        }
        return {"loss": loss, "rounds": [[rank, 1.0]] * STEPS}
