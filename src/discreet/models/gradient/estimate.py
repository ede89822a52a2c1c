"""The global side of projected gradient descent: which directions to keep, and how much of each. Public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh

from discreet.linalg.threads import single_threaded_blas
from discreet.models.directions import without_noise
from discreet.typing import Array

MOST = 64  # directions, however many items there are
COMPLETIONS = 8  # of a diagonal
LONGER = 0.3  # of what users' own chance adds to the edge: its tails are longer than those of noise that is drawn


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
    """The step that makes rows with this second moment simple; it is known up to noise whose eigenvalues end at `edge`.

    With a radius, rows are taken to the nuclear-norm ball: their singular values, the roots of the eigenvalues, are
    lowered, all by the same amount, until they add up to it. Without one, each direction that stands out is kept as far
    as it foretells a row: by its eigenvalue without what single entries add, over that with it (`foretelling`).
    """
    n = len(moment)
    k = min(MOST, max(n // 2, 1))
    if radius is None:
        return foretelling(moment, edge, k)
    values, vectors = eigh(moment, subset_by_index=[n - k, n - 1])
    sizes = np.sqrt(np.maximum(values, 0))
    left = np.maximum(sizes - excess(sizes, radius), 0)
    kept = np.flatnonzero(left > 0)[::-1]
    return Step(vectors[:, kept], left[kept] / sizes[kept])


def foretelling(moment: Array, edge: float, most: int) -> Step:
    """Directions of what entries have in common, and the share of rows along them that is not single entries' own.

    What entries do each by itself, as that most of them are not rated and count as zero, is on the diagonal only. So
    that is taken from the directions that stand out of the rest, again and again (Zhang, Cai and Wu 2022). The rest is
    taken for noise: of the privacy, whose eigenvalues end at `edge`, and of which items users happened to rate, which
    may be more where privacy costs little (`own_edge`). That is looked at strictly in the second half only: as long as
    directions are still to be taken from the rest, it has more in it than noise.
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
    """Where eigenvalues of symmetric noise end that is independent, of variances a_i a_j: found from its rows' squares.

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
