"""Columns for tastes that are not linear in what a model has learned of the items: they cost no privacy."""

from __future__ import annotations

import numpy as np

from discreet.kernels import single_threaded_blas
from discreet.typing import Array

LANDMARKS, COLUMNS = 250, 30  # more of either change little
LENGTH = 2.0  # two items are alike if they differ by less than so many standard deviations, in all numbers together
BLOCK = 1 << 14  # items at a time


def kernel_columns(vectors: Array, weights: Array) -> Array:
    """Columns (items, 30 at most) whose inner products are about exp(-|z - z'|^2 / 2).

    z are the items' vectors, each column divided by LENGTH standard deviations. Fitting a Gaussian process with this
    kernel to a user's ratings lets them like whatever resembles the items they liked. Its Nystroem approximation is a
    ridge regression on these columns, of which the leading ones over interactions are kept.

    Args:
        vectors: What is known of the items, (items, k).
        weights: How often they occur.
    """
    share = weights / weights.sum()
    centered = vectors - share @ vectors
    z = centered / (LENGTH * np.sqrt(np.maximum(share @ centered**2, 1e-18)))
    n = min(LANDMARKS, int(np.count_nonzero(share)))
    at = np.sort(np.random.default_rng(0).choice(len(z), n, replace=False, p=share))
    with single_threaded_blas():
        values, axes = np.linalg.eigh(_kernel(z[at], z[at]))
        # Below the floor, rounding in single precision is most of an eigenvector.
        root = (axes / np.sqrt(np.maximum(values, 1e-4))).astype(np.float32)
        z = z.astype(np.float32)
        blocks = [slice(first, first + BLOCK) for first in range(0, len(z), BLOCK)]
        columns = np.concatenate([_kernel(z[block], z[at]) @ root for block in blocks])
        moment = sum(columns[block].T @ (share[block, None].astype(np.float32) * columns[block]) for block in blocks)
        axes = np.linalg.eigh(np.asarray(moment, np.float64))[1]
        found: Array = columns @ axes[:, ::-1][:, :COLUMNS].astype(np.float32)
    return found


def _kernel(a: Array, b: Array) -> Array:
    products = a @ b.T
    products -= (a**2).sum(axis=1)[:, None] / 2
    products -= (b**2).sum(axis=1) / 2
    kernel: Array = np.exp(np.minimum(products, 0, out=products), out=products)
    return kernel
