"""Users' own shrunken means, and rows of deviations from them that are no longer than a public bound.

Users center and scale their rows on their own side, from their own ratings and public numbers, and undo both when
something is predicted for them; so under joint differential privacy it costs nothing. The release step bounds
contributions again: privacy relies only on a row depending on its user alone, to the last bit.

What a mean is shrunk to, and by how much, comes from two small releases (`release_user_means`), which all private
models of ratings have in common. Proof: docs/proofs/own-mean.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from discreet.data.interactions import Interactions
from discreet.engine.batches import Ratings, parts, user_batches
from discreet.errors import Unbounded
from discreet.models.base import require_ratings
from discreet.privacy import MeanSum, Noisy, Releaser
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

MEAN, VARIANCES = "users' mean ratings", "variances of users' ratings"
USER_SHARES = {MEAN: 0.005, VARIANCES: 0.01}  # shares of mu^2

SHRINKAGE = 1.0  # as published: pseudo-ratings at the center that are added for a user's own mean
TYPICAL_SHRINKAGE, LEAST_SHRINKAGE, MOST_SHRINKAGE = 3.0, 0.5, 20.0  # variance of a rating / variance of users' means
RATINGS_PER_USER = 80  # a typical number, if the catalog has that many items
SPREAD = 0.2  # typical deviation of a rating from its user's mean, relative to the value range
SIZE = 0.5  # typical size of an uncentered rating, relative to the largest possible one
MIDDLE_SPREAD = 0.2  # prior deviation of the mean rating from the middle of the range, relative to the range
USER_SPREAD = 0.25  # variation of users' means and variances, as a fraction of the largest possible one
CLAMP = 2 * SPREAD  # the largest distance of a rating from its mean that counts, relative to the value range


@dataclass(frozen=True)
class Prepared(UserBatch):
    """Some users' centered and scaled rows."""

    offsets: Array  # what was subtracted from each user's ratings
    scales: Array  # the factor of each user's centered row: 1, or less if it was too long


@dataclass(frozen=True)
class Centering:
    """How users prepare their rows: x_ij = scale_i (y_ij - offset_i), |x_i| at most `row_norm`.

    With `shrinkage` s and c = `centre`, offset_i = c + sum_j (y_ij - c) / (n_i + s): the user's mean rating with s
    pseudo-ratings of c, the publicly expected value of a rating. Without shrinkage (None) it is c for all users.
    """

    centre: float
    shrinkage: float | None
    row_norm: float

    @classmethod
    def public(cls, name: str, ratings: Interactions, row_norm: float | None, *, centre: bool) -> Centering:
        """The centering of a model, from public inputs; raises if there are no ratings, or no bound follows."""
        value_range = require_ratings(name, ratings)
        norm = row_norm or public_row_norm(value_range, ratings.n_items, centre=centre)
        return cls.of(value_range, float(norm), centre=centre)

    @classmethod
    def of(cls, value_range: tuple[float, float], row_norm: float, *, centre: bool) -> Centering:
        """About users' own means, shrunk to the middle of the range; without `centre`, ratings as they are."""
        low, high = value_range
        return cls((low + high) / 2, SHRINKAGE, row_norm) if centre else cls(0.0, None, row_norm)

    def about(self, users: UserMeans) -> Centering:
        """The centering about users' own means that are shrunk according to these estimates."""
        return replace(self, centre=users.mean, shrinkage=users.shrinkage)

    @classmethod
    def exact(cls, name: str, ratings: Interactions, *, centre: bool) -> Centering:
        """The centering of a model without privacy: rows are never scaled, and users' means are exact."""
        value_range = require_ratings(name, ratings)
        found = cls.of(value_range, 2 * max(map(abs, value_range)) * ratings.n_items**0.5, centre=centre)
        return found.about(exact_user_means(ratings, value_range)) if centre else found

    def prepare(self, part: UserBatch) -> Prepared:
        """Prepare some users' rows. Sums are over one user's ratings, in order, so no row depends on another."""
        about = part.values.astype(np.float64) - self.centre
        offsets = np.zeros(len(part.counts))
        if self.shrinkage is not None:
            offsets = part.row_sums(about) / np.maximum(part.counts + self.shrinkage, 1)
            about -= offsets[part.owners]
        scales = self.row_norm / np.maximum(np.sqrt(part.row_sums(about**2)), self.row_norm)
        return Prepared(part.indptr, part.indices, about * scales[part.owners], self.centre + offsets, scales)

    def entries(self, part: UserBatch) -> Array:
        """The values of some users' rows."""
        return self.prepare(part).values

    def offset_shares(self, values: Array) -> Array:
        """The contribution of each of one user's ratings to their offset: these and `centre` sum to the offset."""
        if self.shrinkage is None:
            return np.zeros(len(values))
        return np.asarray((values.astype(np.float64) - self.centre) / max(len(values) + self.shrinkage, 1))


# -- the mean of all users, and how much to shrink to it

Shares = dict[str, float | tuple[float, int]]
Release = Callable[[str, MeanSum, Callable[[UserBatch], Array]], Noisy]


@dataclass(frozen=True)
class UserMeans:
    """Estimates about users' mean ratings."""

    mean: float  # the mean of users' means
    shrinkage: float  # the variance of a rating about its user's mean / that of users' means about `mean`
    n_users: float  # about how many users have ratings
    spread: float  # the standard deviation of a rating about its user's mean


def with_user_means(shares: Mapping[str, float | tuple[float, int]]) -> Shares:
    """Shares of mu^2, with those of `release_user_means` first."""
    rest = 1 - math.fsum(USER_SHARES.values())
    scaled = {a: (rest * s[0], s[1]) if isinstance(s, tuple) else rest * s for a, s in shares.items()}
    return {**USER_SHARES, **scaled}


def release_user_means(release: Release, value_range: tuple[float, float], adjacency: str) -> UserMeans:
    """Make two releases: the mean of users' means, and then variances, about that mean.

    With so few users that noise hides them, the mean tends to the middle of the range, and the shrinkage to a constant
    below `TYPICAL_SHRINKAGE`: users know more about their own mean than the middle says.

    Args:
        release: Makes a statistic of all users public, given its label and what a batch of users contributes.
        value_range: The range of the ratings.
        adjacency: The adjacency of the guarantee.
    """
    low, high = value_range
    statistic = MeanSum((0,), adjacency)
    released = release(MEAN, statistic, partial(own_mean, value_range=value_range))
    (at,), (variance,) = _means(released, statistic, [0.5], [MIDDLE_SPREAD])
    n_users = max(float(released.values[-1]) / statistic.weights[0], 1.0)
    mean, clamp = low + at * (high - low), CLAMP * (high - low)
    # In units of the clamp. Users' means are further from a center that is itself uncertain.
    within = (SPREAD / CLAMP) ** 2
    between = within / TYPICAL_SHRINKAGE + variance / CLAMP**2
    statistic = MeanSum((0, 0), adjacency)
    released = release(VARIANCES, statistic, partial(own_variances, centre=mean, clamp=clamp))
    halves = _means(released, statistic, [within / 2, (1 + between) / 2], [within / 2, between / 2])[0]
    within, between = max(2 * halves[0], 1e-3), 2 * halves[1] - 1
    shrinkage = within / min(max(between, within / MOST_SHRINKAGE), within / LEAST_SHRINKAGE)
    return UserMeans(mean, shrinkage, n_users, clamp * math.sqrt(within))


def private_user_means(releaser: Releaser, ratings: Ratings) -> UserMeans:
    """Estimates from releases about all users, under a plan `with_user_means`."""
    assert ratings.value_range is not None
    users = user_batches(ratings)

    def release(label: str, statistic: MeanSum, contribution: Callable[[UserBatch], Array]) -> Noisy:
        return releaser.release(label, statistic, users, contribution)

    return release_user_means(release, ratings.value_range, releaser.adjacency)


def exact_user_means(ratings: Interactions, value_range: tuple[float, float]) -> UserMeans:
    """Estimates without noise, for models that are not private."""

    def release(label: str, statistic: MeanSum, contribution: Callable[[UserBatch], Array]) -> Noisy:
        values = np.vstack([contribution(part) for part in parts(ratings, ratings.values)])
        there = values[~np.isnan(values[:, 0])]
        return Noisy(np.append((there - 0.5).sum(axis=0), len(there) * statistic.weights[0]), 0.0)

    return release_user_means(release, value_range, "add-remove")


def own_mean(part: UserBatch, value_range: tuple[float, float]) -> Array:
    """Each user's mean rating, as a fraction of the range (users, 1); NaN if they have no ratings."""
    low, high = value_range
    sums = part.row_sums((part.values.astype(np.float64) - low) / (high - low))
    return np.where(part.counts > 0, sums / np.maximum(part.counts, 1), np.nan)[:, None]


def own_variances(part: UserBatch, centre: float, clamp: float) -> Array:
    """Two means over pairs x, y of each user's ratings, relative to the center and in units of the clamp; or NaN.

    The mean of (x - y)^2 / 4 has half of the variance of a rating about its user's mean as its expectation, and that of
    (1 + x y) / 2 has 1/2 plus half of the variance of users' means about the center. Both are from 0 to 1.
    """
    about = np.clip((part.values.astype(np.float64) - centre) / clamp, -1, 1)
    n, sums, squares = part.counts, part.row_sums(about), part.row_sums(about**2)
    pairs = np.where(n > 1, n * (n - 1.0), np.nan)
    return np.column_stack([(n * squares - sums**2) / (2 * pairs), 0.5 + (sums**2 - squares) / (2 * pairs)])


def _means(
    released: Noisy, statistic: MeanSum, expected: Sequence[float], spreads: Sequence[float]
) -> tuple[list[float], list[float]]:
    """Posterior means, over users, of each value of a statistic with one group, and their variances.

    The prior of a value has the `expected` mean and, as standard deviation, its number in `spreads`.
    """
    weight, found, variances = statistic.weights[0], [], []
    n = max(float(released.values[-1]) / weight, 0.0)
    for total, typical, spread in zip(released.values.tolist(), expected, spreads, strict=False):
        # n times the distance from the prior mean has the noise of the total, of n, and of sampling n users.
        distance, noise = total - n * (typical - 0.5), released.std * math.hypot(1, (typical - 0.5) / weight)
        share = (n * spread) ** 2 / max((n * spread) ** 2 + noise**2 + n * USER_SPREAD**2, 1e-9)
        found.append(min(max(typical + share * distance / max(n, 1e-9), 0.0), 1.0))
        variances.append((1 - share) * spread**2)
    return found, variances


# -- the length of rows


def public_row_norm(
    value_range: tuple[float, float] | None, n_items: int, *, ratings_per_user: int | None = None, centre: bool = True
) -> float:
    """L, the norm of a typical row, from public inputs alone. Longer rows are scaled down.

    It is spread * sqrt(ratings per user), for 80 ratings by default, or as many as there are items if these are fewer.
    The spread of ratings about their user's mean is taken to be a fifth of their range; that of uncentered ratings,
    half of the largest possible one. For Jester, with ratings from 0 to 5, L is 8.9.
    """
    low, high = value_range or (math.nan, math.nan)
    spread = SPREAD * (high - low) if centre else SIZE * max(abs(low), abs(high))
    if not 1e-30 < spread < 1e30:
        raise Unbounded(
            f"row_norm: no bound follows from a value range of {low:g} to {high:g}; give row_norm, the length of a "
            "typical user's row of ratings, as a public constant"
        )
    return spread * math.sqrt(min(ratings_per_user or RATINGS_PER_USER, n_items))
