"""The global side of projected gradient descent: which directions to keep, and how much of each. Public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh

from discreet.kernels.threads import single_threaded_blas
from discreet.models.directions import without_noise
from discreet.models.eigen import simplex
from discreet.typing import Array

MOST = 64  # directions, however many items there are
COMPLETIONS = 8  # of a diagonal
LONGER = 0.3  # of what chance among users adds to the edge: its tails are longer than those of drawn noise


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
    """The projection of rows with this second moment, which has noise whose eigenvalues end at `edge`.

    With a radius, rows are projected on the nuclear-norm ball: their singular values, the roots of the eigenvalues, are
    all lowered by the same amount until they add up to it. Without one, each direction that stands out is kept as far
    as it predicts a row (`predictive`).
    """
    n = len(moment)
    k = min(MOST, max(n // 2, 1))
    if radius is None:
        return predictive(moment, edge, k)
    values, vectors = (found[..., ::-1] for found in eigh(moment, subset_by_index=[n - k, n - 1]))
    sizes = np.sqrt(np.maximum(values, 0))
    left = simplex(sizes, radius)[0]
    kept = np.flatnonzero(left > 0)
    return Step(vectors[:, kept], left[kept] / sizes[kept])


def predictive(moment: Array, edge: float, most: int) -> Step:
    """Directions of what entries have in common; gains are the eigenvalue without what single entries add, over all.

    What varies by single entries, such as which of them are rated, is on the diagonal only. So the diagonal is replaced
    by that of the directions that stand out, several times (Zhang, Cai and Wu 2022). The rest counts as noise: of the
    mechanism, whose eigenvalues end at `edge`, and of which items users happened to rate, which may be larger where
    there is little of the former (`own_edge`). The margin on the latter applies in the second half only: before, the
    rest still contains directions.
    """
    n, common = len(moment), moment.copy()
    limits, kept = np.maximum(np.diag(moment), 0), 1
    np.fill_diagonal(common, 0)
    for margin in [0.0] * (COMPLETIONS // 2) + [LONGER] * (COMPLETIONS // 2):
        with single_threaded_blas():
            values, vectors = (found[..., ::-1] for found in eigh(common))
            rest = common - (vectors[:, :kept] * values[:kept]) @ vectors[:, :kept].T
        np.fill_diagonal(rest, 0)
        own = own_edge(rest)
        level = max(edge, own + margin * (own - edge))
        kept = min(int((values > level * (1 + n ** (-2 / 3))).sum()), most)
        values, vectors = values[:kept], vectors[:, :kept]
        np.fill_diagonal(common, np.minimum((vectors**2 * values).sum(axis=1), limits))
    true = without_noise(values, level)
    believed = true - level**2 / (4 * true)  # of it, times the squared cosine
    along = np.maximum((vectors * (moment @ vectors)).sum(axis=0), true)
    return Step(vectors, believed / along)


def own_edge(rest: Array) -> float:
    """The largest eigenvalue of symmetric independent noise of variances a_i a_j, from the squares of its rows.

    Its resolvent's entries are 1 / (z - a_i c), with c the sum of a_i / (z - a_i c). With u = z / c that is
    z = u sqrt(sum of a_i / (u - a_i)), and the eigenvalues end at the least of it above the largest a_i: at twice the
    root of n where all a_i are 1. Items that many rate, or rate strongly, move it up.
    """
    squares = (rest**2).sum(axis=1)
    total = float(squares.sum())
    if not total:
        return 0.0
    a = squares / total**0.5
    u = a.max() * (1 + np.geomspace(1e-4, 1e4, 300))  # flat about its least value: this is near enough
    return float((u * np.sqrt((a / (u[:, None] - a)).sum(axis=1))).min())


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
