"""Directions that stand out of a noisy second moment, and how much users vary along each. Public."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh

from discreet.typing import Array

MOST = 64  # directions, however many stand out
LEAST_BULK = 0.05  # of the mean eigenvalue: the least variance of single ratings
PENALTY = 2.0  # of a user's coefficients, in units of that variance: the prior variances are a little optimistic


def noise_edge(std: float, n_items: Any) -> Any:
    """The largest eigenvalue of a symmetric noise matrix of standard deviation `std` (off the diagonal: / sqrt 2)."""
    return std * np.sqrt(2.0 * n_items)


def without_noise(values: Any, edge: float) -> Any:
    """Eigenvalues above the edge as they were before noise of that edge: it turns t into t + edge^2 / 4t."""
    return (values + np.sqrt(values**2 - edge**2)) / 2


def standing_out(matrix: Array, edge: float, most: int) -> tuple[Array, Array, Array]:
    """Eigenvalues, squared cosines and eigenvectors that stand out of noise whose largest eigenvalue is `edge`.

    Noise raises an eigenvalue t, which is undone here, and turns its vector by an angle with squared cosine
    1 - edge^2 / 4t^2, the share of a direction to believe. Eigenvalues are in falling order.
    """
    n = len(matrix)
    values, vectors = eigh(matrix, subset_by_index=[max(n - most, 0), n - 1])
    # The largest eigenvalue of noise alone is above this once in a hundred times (by the law of Tracy and Widom).
    kept = np.flatnonzero(values > edge * (1 + n ** (-2 / 3)))[::-1]
    true = without_noise(values[kept], edge)
    return true, 1 - (edge / (2 * true)) ** 2, vectors[:, kept]


@dataclass(frozen=True)
class Directions:
    """The directions along which users' ratings vary.

    Attributes:
        vectors: Orthonormal, (items, k).
        variances: Of a user's coefficient along each, in units of the variance of a single rating.
    """

    vectors: Array
    variances: Array

    @classmethod
    def of(cls, matrix: Array, edge: float, rank: int | None) -> Directions:
        """Those of a second moment D + v I, with noise of this edge: coefficients vary by D, each rating by v.

        By default at most half of the directions are used, so that the others determine v.
        """
        n = len(matrix)
        most = min(MOST if rank is None else rank, n // 2 if rank is None else n)
        if not most:
            return cls(np.zeros((n, 0)), np.zeros(0))
        values, cosines, vectors = standing_out(matrix, edge, most)
        mean = float(np.trace(matrix)) / n
        bulk = (float(np.trace(matrix)) - float(values.sum())) / max(n - len(values), 1)
        bulk = max(bulk, LEAST_BULK * mean, LEAST_BULK * float(values.max(initial=0)) / n)
        return cls(vectors, np.maximum(values / bulk - 1, 0) * cosines**2)

    @property
    def columns(self) -> Array:
        """One vector for each item, for users' ridge regressions with the penalty `PENALTY`."""
        return np.asarray(self.vectors * np.sqrt(self.variances))
