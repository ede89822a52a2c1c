"""Directions of taste from one noisy second-moment matrix: post-processing."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from discreet.models.als.estimate import Weights
from discreet.models.als.settings import COLUMN, LEAST_EIGENVALUE, NOISE
from discreet.models.directions import noise_edge, without_noise
from discreet.privacy.releaser import Noisy
from discreet.typing import Array


def leading(matrix: Array, edge: float, n: int, skip: int) -> tuple[Array, Array]:
    """Eigenvalues above the noise's edge, shrunk as noise of that edge inflates them, and their eigenvectors."""
    m = len(matrix)
    values, vectors = eigh(matrix, subset_by_index=[max(m - n - skip, 0), m - 1])
    values, vectors = values[::-1][skip:], vectors[:, ::-1][:, skip:]
    kept = values > LEAST_EIGENVALUE * edge
    values = values[kept]
    return without_noise(values, edge), vectors[:, kept]


def of_co_occurrences(release: Noisy, frequent: Array, weights: Weights, n: int) -> Array:
    """Item columns (items, directions): what is liked together. The first direction is popularity, and left out."""
    c = weights.sums[frequent]
    damped = c / (c + 0.4 * weights.sums.mean())
    edge = release.std * float(np.sqrt(2 * (damped**4).sum()))
    values, vectors = leading(damped[:, None] * release.values * damped, edge, n, skip=1)
    expected = damped * c / np.sqrt(max(weights.n_users, 1.0))
    columns = np.zeros((len(weights.sums), len(values)))
    wiener = expected / (expected**2 + 0.05 * np.mean(expected**2))
    columns[frequent] = vectors * np.sqrt(values) * wiener[:, None]
    size = np.sqrt(np.average(columns**2, axis=0, weights=weights.sums))
    # What is liked together says how items are alike, but not how much that matters to ratings.
    scaled: Array = columns / np.maximum(size, 1e-9) * NOISE / np.sqrt(COLUMN)
    return scaled


def of_residuals(release: Noisy, frequent: Array, weights: Weights, n: int) -> Array:
    """Item columns: what users rate higher, or lower, together than their biases say.

    If residuals are u . v with users' u of unit variance, the second moment of w e at (j, k) is v_j . v_k times the
    sum over users of w_j w_k, which is about c_j c_k / (number of users): so much for the scale of v.
    """
    edge = float(noise_edge(release.std, len(frequent)))
    values, vectors = leading(release.values, edge, n, skip=0)
    columns = np.zeros((len(weights.sums), len(values)))
    columns[frequent] = vectors * np.sqrt(values * weights.n_users) / weights.sums[frequent, None]
    return columns
