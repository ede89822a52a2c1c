"""The global side of projected gradient descent: which directions to keep, and how much of each. Public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

Array = NDArray[Any]

MOST = 64  # directions, however many items there are


@dataclass(frozen=True)
class Step:
    """A projection on the nuclear-norm ball, for rows: z -> z V diag(gains) V^T.

    Attributes:
        vectors: V, orthonormal columns.
        gains: What is left of each singular value, relative to it: between 0 and 1.
    """

    vectors: Array
    gains: Array


def nothing(n_items: int) -> Step:
    """Where descent starts: at zero."""
    return Step(np.zeros((n_items, 0)), np.zeros(0))


def project(moment: Array, edge: float, radius: float | None) -> Step:
    """The step that takes rows with this second moment, known up to noise of this edge, to the nuclear-norm ball.

    The singular values of the rows are the roots of the eigenvalues of their second moment, which are taken to be at
    least 0. They are lowered, all by the same amount, until they add up to `radius`; without one, by as much as noise
    feigns, or as directions have that are not among the first, if that is more. Half of all, or 64, count as the first.
    """
    n = len(moment)
    k = min(MOST, max(n // 2, 1))
    values, vectors = eigh(moment, subset_by_index=[n - k, n - 1])
    sizes = np.sqrt(np.maximum(values, 0))
    rest = (float(np.trace(moment)) - float(values.sum())) / max(n - k, 1)
    by = np.sqrt(max(edge, rest, 0.0)) if radius is None else excess(sizes, radius)
    left = np.maximum(sizes - by, 0)
    kept = np.flatnonzero(left > 0)[::-1]
    return Step(vectors[:, kept], left[kept] / sizes[kept])


def excess(sizes: Array, radius: float) -> float:
    """By how much to lower nonnegative numbers, none below 0, so that they add up to at most `radius`."""
    if sizes.sum() <= radius:
        return 0.0
    falling = np.sort(sizes)[::-1]
    over = (np.cumsum(falling) - radius) / np.arange(1, len(falling) + 1)
    return float(over[np.flatnonzero(falling > over)[-1]])


def packed(steps: Sequence[Step]) -> dict[str, Any]:
    """Steps as a model keeps them."""
    return {
        "steps_": np.hstack([step.vectors for step in steps]),
        "gains_": np.concatenate([step.gains for step in steps]),
        "ranks_": [len(step.gains) for step in steps],
    }


def unpacked(vectors: Array, gains: Array, ranks: Sequence[int]) -> list[Step]:
    """The inverse of `packed`."""
    ends = np.cumsum(ranks)[:-1]
    return [Step(V, g) for V, g in zip(np.split(vectors, ends, axis=1), np.split(gains, ends), strict=True)]
