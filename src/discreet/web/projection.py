"""The map of the catalogue: item vectors in two dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

TYPICAL = 1e-12  # of the largest distance on an axis: no axis is blown up further


def projected(vectors: Array, second: Array) -> Array:
    """Places (items, 2) in [-1, 1]: the first two principal components; `second` is the other axis of a single one.

    Distances from the middle are shortened to their logarithms, so that a few far items do not push all others into one
    spot; directions stay.
    """
    centred = np.asarray(vectors, np.float64) - np.mean(vectors, axis=0)
    size, directions = np.linalg.eigh(centred.T @ centred)
    standing = size > 1e-12 * max(float(size.max(initial=0.0)), 1e-300)
    axes = (centred @ directions[:, standing])[:, ::-1][:, :2]
    if axes.shape[1] < 2:
        axes = np.column_stack([axes, np.asarray(second, np.float64) - np.mean(second), np.zeros(len(axes))])[:, :2]
    # An eigenvector has no sign of its own: the larger side is to the right, or above.
    axes = axes * np.where(np.abs(axes.min(axis=0)) > axes.max(axis=0), -1.0, 1.0)
    largest = np.maximum(np.abs(axes).max(axis=0), 1e-300)
    scaled = axes / np.maximum(np.median(np.abs(axes), axis=0), TYPICAL * largest)
    distances = np.hypot(*scaled.T)[:, None]
    places: Array = scaled * np.where(distances > 0, np.log1p(distances) / np.maximum(distances, 1e-300), 1.0)
    return places / np.maximum(np.abs(places).max(axis=0), 1e-300)
