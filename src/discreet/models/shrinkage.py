"""How much of noisy numbers to believe, learned from these numbers: shrinkage by what they vary beyond their noise.

Everything here is computed from releases and public features.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from discreet.parallel import single_threaded_blas
from discreet.privacy.releaser import Noisy
from discreet.typing import Array

FEWEST_ALIKE = 16  # half of the most popular items whose offsets are taken to vary alike; the others double
ROUNDS = 20  # in which the penalties of a regression settle


def shrunk(estimates: Array, variances: Array, popularity: Array) -> Array:
    """Posterior means of numbers about 0, (items, k), from estimates and the variances of their errors.

    The numbers of about equally popular items have a variance in common, for each column: what the estimates vary by
    beyond their errors, weighted by how well each shows it.
    """
    found = np.zeros_like(estimates)
    for alike in equally_popular(popularity):
        error, trust = variances[alike], variances[alike] ** -2
        spread = np.maximum((trust * (estimates[alike] ** 2 - error)).sum(axis=0) / trust.sum(axis=0), 0)
        found[alike] = estimates[alike] * (spread / (spread + error))
    return found


def equally_popular(popularity: Array) -> Iterator[Array]:
    """Items in groups of about equal popularity: the first, of the most popular, are 2 * FEWEST_ALIKE; they double."""
    order = np.argsort(-popularity, kind="stable")
    ends = [0, *(FEWEST_ALIKE << k for k in range(1, 40) if FEWEST_ALIKE << k < len(order)), len(order)]
    for first, last in pairwise(ends):
        yield order[first:last]


def item_offsets(sums: Noisy, counts: Noisy, spread: float, n_users: float) -> Array:
    """How far ratings of each item are from their users' means, from sums s_j = c_j b_j + noise and counts c_j.

    The noise is that of the release and of the ratings, each of which varies by `spread`. Offsets of about equally
    popular items have a variance V in common, which is what their sums vary by beyond the noise; b_j is shrunk as
    V c_j^2 / (V c_j^2 + noise) says. Among items that hardly anybody has rated that is 0, give or take.
    """
    known = np.maximum(counts.values, 1 + counts.std)
    weight = min(n_users / max(float(np.maximum(counts.values, 0).sum()), 1.0), 1.0)  # of a typical rating
    noise = sums.std**2 + spread**2 * weight * known
    excess, offsets = sums.values**2 - noise, np.zeros(len(known))
    for alike in equally_popular(counts.values):
        squares = known[alike] ** 2
        # Weighted by how well each sum shows the variance.
        trust = squares / noise[alike] ** 2
        variance = max(float((trust * excess[alike]).sum() / max((trust * squares).sum(), 1e-300)), 0.0)
        offsets[alike] = variance * known[alike] * sums.values[alike] / (variance * squares + noise[alike])
    return offsets


def regression(features: Array, values: Array) -> Array:
    """Coefficients (features, k) of values (items, k), by ridge regressions whose penalties follow from the data.

    Coefficients and what they do not explain are taken to have normal distributions, whose variances are found by
    maximizing the likelihood of the values (MacKay 1992), for each column.
    """
    n, size = features.shape[0], np.maximum((values**2).mean(axis=0), 1e-300)
    with single_threaded_blas():
        squares, basis = np.linalg.eigh(features.T @ features)
        squares, along = np.maximum(squares, 0)[:, None], basis.T @ (features.T @ values)
        spread, error = size / max(float(squares.mean()) / max(n, 1), 1e-300), size
        for _ in range(ROUNDS):
            shares = squares * spread / (squares * spread + error)
            found = along * spread / (squares * spread + error)
            free = shares.sum(axis=0)
            left = (values**2).sum(axis=0) - (found * (2 * along - squares * found)).sum(axis=0)
            spread = np.maximum((found**2).sum(axis=0) / np.maximum(free, 1e-9), 1e-12 * spread)
            error = np.maximum(left / np.maximum(n - free, 1), 1e-12 * size)
        return np.asarray(basis @ found)
