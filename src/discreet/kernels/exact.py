"""Integers on a grid and their sums, compiled: each function has a twin in `discreet.privacy.twins`."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from discreet.kernels.library import INTEGER, POINTER, address, exported
from discreet.typing import Array

REAL = ctypes.c_double


def truncate(values: Array, indptr: Array, step: float, limit: float, largest: int) -> Array:
    """Ragged rows of float64 as integers, in units of `step`, of L2 norm at most `limit`; `largest` is its square."""
    out = np.empty(len(values), np.int64)
    call = exported("truncate_rows", [POINTER, POINTER, INTEGER, INTEGER, REAL, REAL, INTEGER, POINTER])
    call(address(values), address(indptr), 0, len(indptr) - 1, step, limit, largest, address(out))
    return out


def rising(items: Array, indptr: Array, size: int) -> bool:
    """Whether every row's items rise and are below `size`."""
    call = exported("rising_rows", [POINTER, POINTER, INTEGER, INTEGER, INTEGER], INTEGER)
    return bool(call(address(items), address(indptr), 0, len(indptr) - 1, size))


def scatter(items: Array, units: Array, total: Array) -> None:
    """Add integers to the total of their items."""
    call = exported("scatter_units", [POINTER, POINTER, INTEGER, POINTER])
    call(address(items), address(units), len(units), address(total))


def scatter_outer(items: Array, x: Array, vectors: Array, indptr: Array, total: Array) -> None:
    """Add x a^T to the rows of their items; entry p of a row has vector p modulo how many its row has."""
    rows = len(indptr) - 1
    call = exported("scatter_outer", [POINTER] * 4 + [INTEGER] * 4 + [POINTER])
    places = (address(array) for array in (items, x, vectors, indptr))
    call(*places, 0, rows, len(vectors) // max(rows, 1), vectors.shape[1], address(total))


def row_sums(entries: Array, indptr: Array) -> Array:
    """The sum of each row's entries, in their order."""
    given, ends = np.ascontiguousarray(entries, np.float64), np.ascontiguousarray(indptr, np.int64)
    out = np.empty(len(ends) - 1)
    call: Any = exported("sum_rows", [POINTER, POINTER, INTEGER, POINTER])
    call(address(given), address(ends), len(out), address(out))
    return out
