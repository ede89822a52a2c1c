"""The best few of each row, in an order that does not depend on anything but the row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

CHUNK = 32


def top_k(scores: Array, k: int) -> tuple[Array, Array]:
    """Columns and scores of each row's k best, best first; of equal scores the earlier column comes first.

    Scores of minus infinity never count: a row with fewer others has -1 in the places that are left.

    A row is cut into short chunks. The k best are in the k chunks with the largest maxima, since each of those holds
    a score that no other chunk beats; so only maxima, and then k chunks, are looked at closely.
    """
    rows, width = scores.shape
    k = min(k, width)
    if width >= 4 * k * CHUNK:
        best = _among_chunks(scores, k)
    elif k < width:
        best = np.argpartition(scores, width - k, axis=1)[:, width - k :]
    else:
        best = np.broadcast_to(np.arange(width), (rows, width))
    values = np.take_along_axis(scores, best, axis=1)
    order = np.lexsort((best, -values), axis=1)
    best, values = np.take_along_axis(best, order, axis=1), np.take_along_axis(values, order, axis=1)
    _settle_ties(scores, best, values)
    return np.where(values > -np.inf, best, -1), values


def _among_chunks(scores: Array, k: int) -> Array:
    rows, width = scores.shape
    whole = width // CHUNK
    chunks = scores[:, : whole * CHUNK].reshape(rows, whole, CHUNK)
    top = np.argpartition(chunks.max(axis=2), whole - k, axis=1)[:, whole - k :]
    columns = (top[:, :, None] * CHUNK + np.arange(CHUNK)).reshape(rows, k * CHUNK)
    rest = np.broadcast_to(np.arange(whole * CHUNK, width), (rows, width - whole * CHUNK))
    columns = np.concatenate([columns, rest], axis=1)
    chosen = np.argpartition(np.take_along_axis(scores, columns, axis=1), columns.shape[1] - k, axis=1)
    return np.take_along_axis(columns, chosen[:, columns.shape[1] - k :], axis=1)


def _settle_ties(scores: Array, best: Array, values: Array) -> None:
    """Where more columns than could be taken have the last score taken, take the earliest of them."""
    last = values[:, -1:] if values.shape[1] else values
    if not last.size:
        return
    tied = (np.count_nonzero(scores >= last, axis=1) > best.shape[1]) & (last[:, 0] > -np.inf)
    for row in np.flatnonzero(tied):
        above = np.flatnonzero(values[row] > last[row])
        equal = np.flatnonzero(scores[row] == last[row])
        best[row, len(above) :] = equal[: best.shape[1] - len(above)]
