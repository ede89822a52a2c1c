"""The definition, in NumPy, of the compiled functions of the trust base (docs/proofs/grid.md).

`discreet.kernels` computes the same in C, to the last bit: test_twins.py compares them on hostile input.
"""

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from discreet.typing import Array, Integers

Bound = tuple[float, float, int]  # step, limit and largest, as `truncate` takes them
Bounded = tuple[Array, Bound]


def truncate(values: Array, indptr: Integers, step: float, limit: float, largest: int) -> Integers:
    """Ragged rows as integers, in units of `step`, of L2 norm at most `limit`.

    `largest` is the largest integer that is at most limit^2. Numbers that are not finite count as zero.
    """
    counts = np.diff(indptr)
    owners = np.repeat(np.arange(len(counts)), counts)
    with np.errstate(over="ignore", invalid="ignore"):
        units = np.where(np.isfinite(values), values, 0.0) / step
        length = np.bincount(owners, np.abs(units) ** 2, minlength=len(counts)) ** 0.5
        factor = (limit / np.maximum(length, limit))[owners]
        scaled = units * factor
        integers = np.trunc(np.where(np.isfinite(scaled), scaled, 0.0)).astype(np.int64)
        # The scaling rounds by about 2^-52: a row that is still too long is shortened by 2^-40. (If it were too long
        # even then, which docs/proofs/grid.md excludes, it would count as zero: the bound holds in any case.)
        for shorten in (1 - 2.0**-40, 0.0):
            over = row_sums(integers**2, indptr)[owners] > largest
            integers[over] = np.trunc(units[over] * factor[over] * shorten).astype(np.int64)
    return integers


def row_sums(entries: npt.NDArray[np.int64], indptr: Integers) -> Integers:
    """The sum of each row's integers."""
    ends: Integers = np.concatenate([[0], np.cumsum(entries)])[indptr]
    return np.diff(ends)


def rising(items: Array, indptr: Integers, size: int) -> bool:
    """Whether every row's items rise, from 0 on, and are below `size`."""
    rows = [items[first:last].astype(np.int64) for first, last in pairwise(indptr)]
    return all((np.diff(row) > 0).all() and ((row >= 0) & (row < size)).all() for row in rows)


def scatter(items: Array, units: Integers, total: Integers) -> None:
    """Add integers to the total of their items."""
    np.add.at(total, items, units)


def add_rows(
    total: Integers, items: Array, indptr: Integers, entries: Bounded, vectors: Bounded | None = None, *, least: float
) -> None:
    """Add ragged rows, truncated, to the total of their items; times vectors, truncated too, if there are any."""
    x = truncate(np.maximum(entries[0], least), indptr, *entries[1])
    if vectors is None:
        scatter(items, x, total)
        return
    a, bound = vectors
    ends = np.arange(len(a) + 1) * a.shape[1]
    scatter_outer(items, x, truncate(a.ravel(), ends, *bound).reshape(a.shape), indptr, total)


def scatter_gram(items: Array, x: Integers, indptr: Integers, total: Integers) -> None:
    """Add x x^T of each row, on and above the diagonal."""
    for first, last in pairwise(indptr):
        row = np.zeros(len(total), np.int64)
        np.add.at(row, items[first:last], x[first:last])
        total += np.triu(np.outer(row, row))


def scatter_outer(items: Array, x: Integers, vectors: Integers, indptr: Integers, total: Integers) -> None:
    """Add x a^T to the rows of their items; entry p of a row has vector p modulo the row's number of vectors."""
    counts = np.diff(indptr)
    each = len(vectors) // max(len(counts), 1)
    owners = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(items)) - np.repeat(indptr[:-1], counts)
    np.add.at(total, items, x[:, None] * vectors[each * owners + place % max(each, 1)])


def add_squares(total: Integers, rows: Array, bound: Bound) -> None:
    """Add x x^T, on and above the diagonal: each row has several vectors x, which are truncated together."""
    ends = np.arange(len(rows) + 1) * rows.shape[1]
    x = truncate(rows.ravel(), ends, *bound).reshape(-1, len(total))
    total += np.triu(x.T @ x)


def normal_equations(
    total: Integers, indptr: Integers, users: Array, vectors: Array, targets: Array, *, weights: Array | None = None
) -> None:
    """Add w u u^T, on and above the diagonal, and t u as the last column, by item, in Python's integers."""
    r = vectors.shape[1]
    for item, (first, last) in enumerate(pairwise(indptr)):
        for at in range(first, last):
            u = np.array([int(number) for number in vectors[users[at]]], object)
            w = 1 if weights is None else int(weights[at])
            total[item, :r, :r] += (w * np.triu(np.outer(u, u))).astype(np.int64)
            total[item, :r, r] += (int(targets[at]) * u).astype(np.int64)
