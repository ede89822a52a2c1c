"""Nearest neighbours among items, by a public covariance: a user's rating is predicted from theirs of similar items."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from discreet.linalg.threads import single_threaded_blas
from discreet.typing import Array

LEAST_VARIANCE = 0.05  # of an item, relative to the largest covariance
MOST_COLUMNS = 128  # that the similarities are kept in: all of them, for up to so many items


def similarities(covariance: Array, neighbours: int) -> Array:
    """Item-item cosines; for each item only those of its nearest neighbours, divided by the sum of their sizes."""
    least = LEAST_VARIANCE * float(np.abs(covariance).max())
    k = min(neighbours, len(covariance) - 1)
    if k < 1 or not least:
        return np.zeros_like(covariance)
    deviations = np.sqrt(np.maximum(np.diag(covariance), least))
    cosines = np.clip(covariance / deviations / deviations[:, None], -1, 1)
    np.fill_diagonal(cosines, 0)
    far = np.argpartition(-np.abs(cosines), k - 1, axis=1)[:, k:]
    np.put_along_axis(cosines, far, 0.0, axis=1)
    sums = np.abs(cosines).sum(axis=1, keepdims=True)
    nearest: Array = np.divide(cosines, sums, out=np.zeros_like(cosines), where=sums > 0)
    return nearest


def factored(matrix: Array) -> tuple[Array, Array]:
    """Vectors x_j and q_l whose inner products are the matrix: exactly, or for many items as nearly as they can."""
    n = len(matrix)
    with single_threaded_blas():
        right = eigh(matrix.T @ matrix, subset_by_index=[max(n - MOST_COLUMNS, 0), n - 1])[1]
        return matrix @ right, right
