"""The public side of spectral models of ratings: users' directions, and item-item covariances after cleansing.

Everything here is computed from releases. Directions for lists, from histories, are in `models/taste.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from discreet.models.centering import RATINGS_PER_USER
from discreet.models.eigen import PENALTY, rating_directions
from discreet.models.fold_in import Penalty, RidgeFoldIn
from discreet.parallel import single_threaded_blas
from discreet.privacy.releaser import Noisy, noise_edge
from discreet.typing import Array

TRUST = 4.0  # times a rating's variance: how much dividing by weights may amplify the noise of eigenvalues
LEAST_VARIANCE = 0.05  # the least variance of an item, relative to the largest covariance
MOST_COLUMNS = 128  # rank of factored similarities; they are exact for up to this many items


def rating_factors(moment: Noisy, items: Array, n_items: int, rank: int | None) -> Array:
    """One vector for each item, for users' ridge regressions; 0 for items that are not chosen.

    Rows have zeros for unrated items, and so vary less along a direction than ratings do, by about the share of items
    that a typical user has rated, a public number. The smaller this share, the more the diagonal reflects how often
    items are rated, not how ratings vary, and the more of it is replaced by its mean.
    """
    n, matrix = len(items), moment.values.copy()
    fill = min(RATINGS_PER_USER, n) / n
    diagonal = np.diag(matrix)
    np.fill_diagonal(matrix, fill * diagonal + (1 - fill) * diagonal.mean())
    columns = rating_directions(matrix, float(noise_edge(moment.std, n)), rank) / math.sqrt(fill)
    factors = np.zeros((n_items, columns.shape[1]))
    factors[items] = columns
    return factors


def rating_fold_in(factors: Array, base: Array, shrinkage: float | None) -> RidgeFoldIn:
    """How a user is folded in: an offset, if rows are centered, and a coefficient for each direction."""
    return RidgeFoldIn(columns=factors, base=base, penalty=Penalty(PENALTY), offset_penalty=shrinkage)


# -- cleansing


@dataclass(frozen=True)
class Cleansed:
    """The public results of cleansing."""

    averages: Array  # mean ratings of all items
    counts: Array
    items: Array  # the numbers of the items that have a covariance
    covariance: Array  # noisy covariance of users' centered ratings of these items
    edge: float  # about the largest eigenvalue of that noise


def over_weights(covariance: Noisy, weights: Noisy, variance: float) -> tuple[Array, float]:
    """The covariance divided by its weights, and the edge of the noise that it has then.

    Weights have a lower bound that limits this edge to a few ratings' variance, so that the covariance of pairs that
    few users have rated shrinks to 0. Noise whose standard deviations differ by entry has an edge of about twice the
    largest norm of a row of these.
    """
    least = weights.std + float(noise_edge(covariance.std, len(weights.values))) / (TRUST * variance)
    divisors = np.maximum(weights.values, least)
    lengths = np.sqrt(((covariance.std / divisors) ** 2).sum(axis=1) / 2)
    return covariance.values / divisors, 2 * float(lengths.max())


def similarities(covariance: Array, neighbours: int) -> Array:
    """Item-item cosines of each item's nearest neighbors, divided by the sum of their absolute values."""
    least = LEAST_VARIANCE * float(np.abs(covariance).max())
    k = min(neighbours, len(covariance) - 1)
    if k < 1 or not least:
        return np.zeros_like(covariance)
    deviations = np.sqrt(np.maximum(np.diag(covariance), least))
    cosines = np.clip(covariance / deviations / deviations[:, None], -1, 1)
    np.fill_diagonal(cosines, 0)
    far = np.argpartition(-np.abs(cosines), k - 1, axis=1)[:, k:]
    np.put_along_axis(cosines, far, 0.0, axis=1)
    sums = np.abs(cosines).sum(axis=1, keepdims=True)
    return np.asarray(np.divide(cosines, sums, out=np.zeros_like(cosines), where=sums > 0))


def factored(matrix: Array) -> tuple[Array, Array]:
    """Vectors x_j and q_l whose inner products give the matrix: exactly, or for many items approximately."""
    n = len(matrix)
    with single_threaded_blas():
        right = eigh(matrix.T @ matrix, subset_by_index=[max(n - MOST_COLUMNS, 0), n - 1])[1]
        return matrix @ right, right
