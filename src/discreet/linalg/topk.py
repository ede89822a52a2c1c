"""The best few of each row, in an order that does not depend on anything but the row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discreet.typing import Array

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
    if np.count_nonzero(candidates) > 2 * k * rows:
        counts = np.count_nonzero(candidates, axis=1)
        for row in np.flatnonzero(counts > CROWD * k):
            candidates[row] = _exactly(scores[row], k)
    owner, column = np.divmod(np.flatnonzero(candidates), width)
    counts = np.bincount(owner, minlength=rows)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = rows, max(k, int(counts.max()))
    best, values = np.full(shape, -1), np.full(shape, -np.inf, scores.dtype)
    best[owner, place], values[owner, place] = column, scores[owner, column]
    order = np.argsort(-values, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(best, order, axis=1), np.take_along_axis(values, order, axis=1)


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
    floor: Array = np.maximum(np.partition(scores, width - k, axis=1)[:, width - k], np.finfo(scores.dtype).min)
    return floor


def _exactly(scores: Array, k: int) -> NDArray[np.bool_]:
    """Where the k best of a row are that has at least k finite scores."""
    last = np.partition(scores, -k)[-k]
    chosen: NDArray[np.bool_] = scores > last
    chosen[np.flatnonzero(scores == last)[: k - np.count_nonzero(chosen)]] = True
    return chosen
