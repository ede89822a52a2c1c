"""Shrinkage of noisy numbers, by an amount that is estimated from how much they vary beyond their noise.

Everything here is computed from releases and public features.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from discreet.parallel import single_threaded_blas
from discreet.privacy.releaser import Noisy
from discreet.typing import Array

FEWEST_ALIKE = 16  # half of the first group of `equally_popular` items
ROUNDS = 20  # iterations, after which the penalties of a regression have converged


def shrunk(estimates: Array, variances: Array, popularity: Array) -> Array:
    """Posterior means of numbers (items, k) with prior mean 0, from estimates and the variances of their errors.

    In each column, items of similar popularity share a prior variance: the mean excess of squared estimates over error
    variances, weighted by inverse squared error variances.
    """
    found = np.zeros_like(estimates)
    for alike in equally_popular(popularity):
        error, trust = variances[alike], variances[alike] ** -2
        spread = np.maximum((trust * (estimates[alike] ** 2 - error)).sum(axis=0) / trust.sum(axis=0), 0)
        found[alike] = estimates[alike] * (spread / (spread + error))
    return found


def equally_popular(popularity: Array) -> Iterator[Array]:
    """Groups of similarly popular items, most popular first, that end after 2, 4, 8, ... times FEWEST_ALIKE items."""
    order = np.argsort(-popularity, kind="stable")
    ends = [0, *(FEWEST_ALIKE << k for k in range(1, 40) if FEWEST_ALIKE << k < len(order)), len(order)]
    for first, last in pairwise(ends):
        yield order[first:last]


def item_offsets(sums: Noisy, counts: Noisy, spread: float, n_users: float) -> Array:
    """The offset b_j of each item's ratings from their users' means, from sums s_j = c_j b_j + noise and counts c_j.

    The noise is that of the release and that of the ratings, whose standard deviation is `spread`. Offsets of items of
    similar popularity share a prior variance V, estimated from the variance of their sums beyond the noise. The
    estimate s_j / c_j is shrunk by the factor V c_j^2 / (V c_j^2 + noise): to about 0 for items with hardly any
    ratings.
    """
    known = np.maximum(counts.values, 1 + counts.std)
    weight = min(n_users / max(float(np.maximum(counts.values, 0).sum()), 1.0), 1.0)  # the weight of a typical rating
    noise = sums.std**2 + spread**2 * weight * known
    excess, offsets = sums.values**2 - noise, np.zeros(len(known))
    for alike in equally_popular(counts.values):
        squares = known[alike] ** 2
        # Weight items by how precisely their sums show the variance.
        trust = squares / noise[alike] ** 2
        variance = max(float((trust * excess[alike]).sum() / max((trust * squares).sum(), 1e-300)), 0.0)
        offsets[alike] = variance * known[alike] * sums.values[alike] / (variance * squares + noise[alike])
    return offsets


def regression(features: Array, values: Array) -> Array:
    """Coefficients (features, k) of values (items, k), by ridge regressions with penalties estimated from the data.

    Coefficients and residuals are modeled as normal; in each column, their variances maximize the likelihood of the
    values (MacKay 1992).
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
