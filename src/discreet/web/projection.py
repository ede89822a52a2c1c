"""The map of the catalogue: item vectors in two dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

FARTHEST = 3.0  # standard deviations of an axis, from where on distances are shortened


def projected(vectors: Array, second: Array) -> Array:
    """Places (items, 2) in [-1, 1]: the first two principal components; `second` is the other axis of a single one.

    Axes are scaled alike at their middles and flattened towards the edges, so that a few far items do not push all
    others into one spot.
    """
    centred = np.asarray(vectors, np.float64) - np.mean(vectors, axis=0)
    size, directions = np.linalg.eigh(centred.T @ centred)
    standing = size > 1e-12 * max(float(size.max(initial=0.0)), 1e-300)
    axes = (centred @ directions[:, standing])[:, ::-1][:, :2]
    if axes.shape[1] < 2:
        axes = np.column_stack([axes, np.asarray(second, np.float64) - np.mean(second), np.zeros(len(axes))])[:, :2]
    # An eigenvector has no sign of its own: the larger side is to the right, or above.
    axes = axes * np.where(np.abs(axes.min(axis=0)) > axes.max(axis=0), -1.0, 1.0)
    spread = np.sqrt(np.mean(axes**2, axis=0))
    scaled = axes / np.where(spread > 0, spread, 1.0) / FARTHEST
    flattened: Array = np.tanh(scaled * 1.5) / np.tanh(1.5)
    return np.clip(flattened, -1.0, 1.0)
