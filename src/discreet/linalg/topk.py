"""The best few of each row, in an order that does not depend on anything but the row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

CHUNK = 16  # scores whose largest stands for them all
CROWD = 4  # times k candidates: more than that are thinned out before they are sorted


def top_k(scores: Array, k: int) -> tuple[Array, Array]:
    """Columns and scores of each row's k best, best first; of equal scores the earlier column comes first.

    Scores of minus infinity never count: a row with fewer others has -1 in the places that are left. There must be no
    NaN. The best k are the first k of the best k + 1, whatever k is.

    All scores from a floor upwards are candidates, equal ones included, and they are few: so one comparison of every
    score, and a sort of few of them, is all there is to do.
    """
    rows, width = scores.shape
    k = min(k, width)
    if not rows or not k:
        return np.zeros((rows, k), np.int64), np.zeros((rows, k), scores.dtype)
    candidates = scores >= _floor(scores, k)[:, None]
    owner, column, counts = _listed(candidates)
    crowded = np.flatnonzero(counts > CROWD * k)
    if len(crowded):
        candidates[crowded] = _exactly(scores[crowded], k)
        owner, column, counts = _listed(candidates)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = rows, max(k, int(counts.max()))
    best, values = np.full(shape, -1), np.full(shape, -np.inf, scores.dtype)
    best[owner, place], values[owner, place] = column, scores[owner, column]
    order = np.argsort(-values, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(best, order, axis=1), np.take_along_axis(values, order, axis=1)


def _listed(chosen: NDArray[np.bool_]) -> tuple[Array, Array, Array]:
    """Rows and columns of what is chosen, row by row, and how much that is in each row."""
    row, column = np.divmod(np.flatnonzero(chosen), chosen.shape[1])
    return row, column, np.bincount(row, minlength=len(chosen))


def _floor(scores: Array, k: int) -> Array:
    """A finite score for each row that at least k scores reach, if as many are finite, and that few others do.

    A row is cut into many short chunks: the k-th largest of their maxima is one. Chunk c has the columns c, c + n, c +
    2 n, ... for n chunks, so that maxima are taken of long stretches of memory.
    """
    rows, width = scores.shape
    chunks = width // CHUNK
    if chunks >= max(2 * k, CHUNK):
        maxima = scores[:, : chunks * CHUNK].reshape(rows, CHUNK, chunks).max(axis=1)
        rest = scores[:, chunks * CHUNK :]
        np.maximum(maxima[:, : rest.shape[1]], rest, out=maxima[:, : rest.shape[1]])
        scores, width = maxima, chunks
    floor: Array = np.partition(scores, width - k, axis=1)[:, width - k]
    return np.maximum(floor, np.finfo(scores.dtype).min)


def _exactly(scores: Array, k: int) -> NDArray[np.bool_]:
    """Where the k best of each row are, for rows with at least k finite scores."""
    last = np.partition(scores, -k, axis=1)[:, -k, None]
    above, equal = scores > last, scores == last
    wanted = k - np.count_nonzero(above, axis=1)
    chosen: NDArray[np.bool_] = above | (equal & (np.cumsum(equal, axis=1, dtype=np.int32) <= wanted[:, None]))
    return chosen
