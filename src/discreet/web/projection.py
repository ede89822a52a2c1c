"""The map of the catalogue: item vectors in two dimensions."""

from __future__ import annotations

import numpy as np

from discreet.typing import Array

LEAST = 1e-300  # to divide by, where all is zero


def projected(vectors: Array, second: Array) -> Array:
    """Places (items, 2) in [-1, 1]: the first two principal components; `second` is the other axis of a single one.

    Distances from the middle are shortened to their logarithms, so that a few far items do not push all others into one
    spot; directions stay. Items without a vector are in the middle.
    """
    axes = _axes(np.asarray(vectors, np.float64), np.asarray(second, np.float64))
    # An eigenvector has no sign of its own: the larger side is to the right, or above.
    axes = axes * np.where(np.abs(axes.min(axis=0)) > axes.max(axis=0), -1.0, 1.0)
    sizes = np.abs(axes[axes.any(axis=1)])
    typical = np.maximum(np.median(sizes, axis=0), 1e-6 * sizes.max(axis=0)) if len(sizes) else np.ones(2)
    scaled = axes / np.maximum(typical, LEAST)
    distances = np.maximum(np.hypot(*scaled.T), LEAST)
    shortened = scaled * (np.log1p(distances) / distances)[:, None]
    places: Array = shortened / np.maximum(np.abs(shortened).max(axis=0), LEAST)
    return places


def _axes(vectors: Array, second: Array) -> Array:
    """Where items are along the two directions in which vectors differ most."""
    known = np.asarray(vectors.any(axis=1))
    centred = np.where(known[:, None], vectors - vectors[known].mean(axis=0) if known.any() else vectors, 0.0)
    size, directions = np.linalg.eigh(centred.T @ centred)
    standing = size > 1e-12 * max(float(size.max(initial=0.0)), LEAST)
    axes: Array = (centred @ directions[:, standing])[:, ::-1][:, :2]
    if axes.shape[1] < 2:
        axes = np.column_stack([axes, second - second.mean(), np.zeros(len(axes))])[:, :2]
    return axes
