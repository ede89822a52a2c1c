"""The public side of DPALS, before item steps: moments of users, frequencies of items, directions, kernel columns.

All of it is computed from releases.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import eigh
from scipy.special import log_ndtr

from discreet.models.taste import Spectrum
from discreet.parallel import over_blocks, single_threaded_blas
from discreet.privacy.releaser import Noisy, clear_of, edge_of_rows, noise_edge, without_noise
from discreet.typing import Array

CHANGE = 0.15  # prior relative change of an item's share of all interactions from one release to the next
SCALES = 4.0 ** np.arange(-2, 6)  # prior means of items' frequencies, relative to the overall mean
MAGNITUDES = 24  # of the variance of a user's ratings: from the square of half their range down, by factors of 4
STANDS_OUT = 4.0  # noise standard deviations: of as many numbers as MAGNITUDES, noise alone is never that large
LEAST_UNIT = 2.0**-MAGNITUDES  # of half the range of ratings: the unit of ratings that are all the same
MOST_COLUMNS = 64  # the most columns of tastes from a second moment of residuals
LEAST_NOISE = 0.02  # the least noise variance of residuals, relative to their variance
SETTLED = 1e-3  # change of that variance below which iterations end
LEAST_EIGENVALUE = 1.05  # of a kept direction, relative to the largest eigenvalue of the noise


def ratio(sums: float, size: float, error: float, guess: float, spread: float) -> tuple[float, float]:
    """Posterior mean and variance of r, from sums = r * size + error and a prior of mean `guess` and sd `spread`."""
    precision = (size / error) ** 2 + spread**-2
    return (sums * size / error**2 + guess / spread**2) / precision, 1 / precision


@dataclass(frozen=True)
class Pooled:
    """Several releases of the same sums, pooled: like `Noisy`, with a standard deviation for each number."""

    values: Array
    std: Array


@dataclass(frozen=True)
class UserStatistics:
    """Estimates about the users, in units of half the range of ratings.

    A number that noise hides has a typical value: the mean is the middle of the range, a user's ratings have a standard
    deviation of .45 about their mean, and users' means .3 of that variance.

    Attributes:
        n_users: The approximate number of users.
        mean: The mean of their means.
        within: The standard deviation of a user's ratings about their mean.
        offset_penalty: within^2 over the variance of users' means about `mean`.
        n_variance: The variance of `n_users`.
        mean_variance: The variance of `mean`, over within^2.
        between_variance: The variance of the estimated variance of users' means, over within^4.
    """

    n_users: float
    mean: float
    within: float
    offset_penalty: float
    n_variance: float
    mean_variance: float
    between_variance: float

    @classmethod
    def of(cls, release: Noisy) -> UserStatistics:
        """Estimate from the release of `own_moments`."""
        (first, second, squares, degrees, means), std = release.values[:5], release.std
        n_users, total = (first + second) / math.sqrt(2), (first - second) / math.sqrt(2)
        n = max(float(n_users), 10.0)
        mean, error = ratio(total, n, std, 0.0, 0.4)
        degrees = min(max(degrees, 0.0), n)
        users = np.where(release.values[5:] > STANDS_OUT * std, release.values[5:], 0)
        usual = float(np.average(4.0 ** -(np.arange(MAGNITUDES) + 0.5), weights=users)) if users.any() else 0.2
        variance, _ = ratio(squares, degrees, std, usual, usual)
        variance = min(max(variance, usual / 16, LEAST_UNIT**2), 1.0)
        about = means - n * mean**2 - variance * (n - degrees)  # n - degrees is the sum of 1 / how many ratings
        between, unsure = ratio(about, n, 2 * std, 0.3 * variance, 0.3 * variance)
        between = max(between, 0.01 * variance) + error
        errors = error / variance, unsure / variance**2
        return cls(n, mean, math.sqrt(variance), variance / between, std**2, *errors)

    def loss(self, popularity: Noisy) -> float:
        """The loss in predictions by own means that is due to the uncertainty of these estimates, over within^2.

        With h = 1 / n_i and T = 1 / offset_penalty, a user's shrunken mean is T / (T + h) times their own. An error e
        of its limit `mean` adds (h / (T + h))^2 e^2 to the mean squared error, and an error t of T adds
        h^2 t^2 / ((T + t + h) (T + h)^2).

        Args:
            popularity: Its sum is that over users of the root of n_i.
        """
        # n_i is taken as small as it may be, within a standard deviation.
        roots = float(popularity.values.sum()) - popularity.std * math.sqrt(len(popularity.values))
        h = min((self.n_users + math.sqrt(self.n_variance)) / max(roots, 1e-9), 1.0) ** 2
        total, variance = 1 / self.offset_penalty + h, self.between_variance
        return (h / total) ** 2 * (self.mean_variance + variance / (total + math.sqrt(variance)))


@dataclass(frozen=True)
class ItemFrequencies:
    """How often items occur, in users' weights.

    Attributes:
        a: Users' weights of items, before they are scaled to length 1.
        sums: c_j, the sum of all users' weights of item j, estimated.
        variance: The variance of that estimate.
        n_users: The approximate number of users.
        log_popularity: Log popularity, with mean 0 over interactions, and variance 1 including its uncertainty.
        released: The pooled releases of these sums, without a prior: some may be negative.
        noise: The variance of their noise.
    """

    a: Array
    sums: Array
    variance: Array
    n_users: float
    log_popularity: Array
    released: Array
    noise: Array

    @classmethod
    def of(cls, a: Array, popularity: Noisy, release: Noisy, n_users: float) -> ItemFrequencies:
        """Estimate from the releases of popularity and of weights."""
        return cls._of(a, popularity.values * a, (popularity.std * a) ** 2, release, n_users)

    def updated(self, release: Noisy, n_users: float) -> ItemFrequencies:
        """Update with another release of the weights, perhaps of other users."""
        # `sums` are posterior means, whose sum is unbiased; noise would bias a sum of positive parts upward.
        scale = max(float(release.values @ self.sums), 1e-9) / max(float((self.sums**2).sum()), 1e-9)
        usual, other, variance = scale * self.sums, scale * self.released, scale**2 * self.noise
        # The variance of changes in shares, by the moments of the difference.
        noise = release.std**2 + variance
        total = noise + (CHANGE * usual) ** 2
        weights = (usual / total) ** 2
        excess = float((weights * ((release.values - other) ** 2 - noise)).sum())
        error = math.sqrt(2 * float(((weights * total) ** 2).sum()))
        change, _ = ratio(excess, float((weights * usual**2).sum()), max(error, 1e-12), CHANGE**2, CHANGE**2)
        return self._combined(self.a, other, variance + max(change, 0.0) * usual**2, release, n_users)

    @classmethod
    def _of(cls, a: Array, other: Array, variance: Array, release: Noisy, n_users: float) -> ItemFrequencies:
        scale = max(float(np.maximum(release.values, 0).sum()), 1e-9) / max(float(np.maximum(other, 0).sum()), 1e-9)
        other = scale * other
        return cls._combined(a, other, scale**2 * variance + (CHANGE * other) ** 2, release, n_users)

    @classmethod
    def _combined(cls, a: Array, other: Array, spread: Array, release: Noisy, n_users: float) -> ItemFrequencies:
        """Combine two estimates of how often items occur, given that no frequency is negative."""
        noise = 1 / (1 / release.std**2 + 1 / spread)
        released = noise * (release.values / release.std**2 + other / spread)
        sums, variance = _frequency(released, noise)
        log = np.log(sums / a)
        log = log - np.average(log, weights=sums)
        # Its uncertainty counts as variance: where noise hides popularity, the column is small.
        log /= max(float(np.sqrt(np.average(log**2 + variance / sums**2, weights=sums))), 0.5)
        return cls(a, sums, variance, n_users, np.maximum(log, -3), released, noise)

    @classmethod
    def known(cls, a: Array, sums: Array, released: Array, noise: Array) -> ItemFrequencies:
        """Restore from the parts that a model keeps, which do not include the number of users."""
        return cls(a, sums, noise, math.nan, np.zeros(len(a)), released, noise)

    def weighed(self, exponent: float) -> ItemFrequencies:
        """Replace the weights by those that follow from the present estimate of popularity."""
        a = weights_by(self.sums / self.a, np.sqrt(self.noise) / self.a, exponent)
        by = a / self.a
        sums, released = self.sums * by, self.released * by
        return replace(
            self, a=a, sums=sums, variance=self.variance * by**2, released=released, noise=self.noise * by**2
        )

    def of_items(self, at: Array) -> ItemFrequencies:
        """The frequencies of some items, by number. New items, with -1, are assumed to be rare."""
        rare, typical = float(self.sums.min(initial=1.0)), float(self.sums.mean()) if len(self.sums) else 1.0
        a, sums, variance, log_popularity, released, noise = (
            np.append(values, other)[at]
            for values, other in (
                (self.a, self.a.max(initial=1e-9)),
                (self.sums, rare),
                (self.variance, typical**2),
                (self.log_popularity, -3.0),
                (self.released, rare),
                (self.noise, typical**2),
            )
        )
        return ItemFrequencies(a, sums, variance, self.n_users, log_popularity, released, noise)

    @cached_property
    def squares(self) -> Array:
        """The approximate sum of users' squared weights of each item; those of one user add up to 1."""
        squares: Array = self.a * self.sums
        squares *= self.n_users / squares.sum()
        return squares


def weights_by(popularity: Array, std: Array | float, exponent: float) -> Array:
    """Users' weights of items: larger for rarer items, down to where noise hides them."""
    a: Array = np.maximum(popularity, 0.7 + std) ** -exponent
    return a


def _frequency(seen: Array, variance: Array) -> tuple[Array, Array]:
    """The posterior mean and variance of nonnegative numbers that were observed with normal noise.

    A few items are far more frequent than others: the prior is a mixture of exponential distributions with means
    SCALES, whose weights are fitted by expectation maximization.
    """
    std = np.sqrt(variance)[:, None]
    typical = max(float(seen.mean()), float(np.sqrt(variance.mean() / len(seen))))
    scales = typical * SCALES
    center = seen[:, None] - std**2 / scales
    at = center / std
    tail = log_ndtr(at)
    log = std**2 / (2 * scales**2) - seen[:, None] / scales - np.log(scales) + tail
    likelihood = np.exp(log - log.max(axis=1, keepdims=True))
    weights = np.full(len(scales), 1 / len(scales))
    for _ in range(50):
        weights = weights * (1 / (likelihood @ weights) @ likelihood) / len(seen) + 1e-3 / len(scales)
    shares = likelihood * weights / (likelihood @ weights)[:, None]
    ratio = std * np.exp(-(at**2) / 2 - 0.5 * np.log(2 * np.pi) - tail)
    first = np.maximum(center + ratio, 1e-3 * std)  # the moments of a normal distribution's positive part
    second = np.maximum(center * (center + ratio) + std**2, first**2)
    mean = (shares * first).sum(axis=1)
    return mean, np.maximum((shares * second).sum(axis=1) - mean**2, 1e-6 * variance)


@dataclass(frozen=True)
class MostFrequent:
    """The most frequent items, and their frequencies among themselves, for users' weights scaled to length 1 over them.

    Attributes:
        items: Their numbers, increasing.
        frequencies: Their frequencies.
    """

    items: Array
    frequencies: ItemFrequencies

    @property
    def n(self) -> int:
        """The number of items."""
        return len(self.items)

    @classmethod
    def of(cls, frequencies: ItemFrequencies, popularity: Array, std: float, least: float, most: int) -> MostFrequent:
        """As many items as possible, given that a direction with a share `least` of residuals must stand out.

        If users have item j with probability q_j, independently, its mean weight is about q_j a_j / sqrt(v), where v is
        the mean sum of the user's squared weights: a_j^2 for the item itself, and q_k a_k^2 for each other item.

        Args:
            frequencies: The frequencies of all items.
            popularity: The sum of users' weights of each item, if a user weighs theirs equally; at least 0.
            std: The standard deviation of the noise in the second moment.
            least: The share of the residuals' variance.
            most: The most items.
        """
        n = frequencies.n_users
        order = np.argsort(-popularity, kind="stable")[:most]
        # The popularities of a user with k items add up to the root of k.
        q = np.minimum(popularity[order] * max(float(popularity.sum()) / n, 1.0) / n, 1.0)
        a, sizes = frequencies.a[order], np.arange(1, len(order) + 1)
        lengths = np.cumsum(q * a**2)[:, None] + (1 - q) * a**2
        sums = n * q * a / np.sqrt(lengths)  # of each item, for every number of chosen items
        clear = clear_of(noise_edge(std, sizes), sizes) < least * np.tril(sums**2).sum(axis=1) / n
        size = int(sizes[clear].max(initial=0))
        rising = np.argsort(order[:size])
        found = replace(frequencies.of_items(order[:size]), sums=sums[size - 1, :size] if size else sums[:0, 0])
        return cls(order[:size][rising], found.of_items(rising))


# -- directions of taste


def _leading(matrix: Array, edge: float, n: int) -> tuple[Array, Array]:
    """Eigenvalues above the noise's edge except the first, corrected for noise, and their eigenvectors."""
    m = len(matrix)
    with single_threaded_blas():
        values, vectors = eigh(matrix, subset_by_index=[max(m - n - 1, 0), m - 1])
    values, vectors = values[::-1][1:], vectors[:, ::-1][:, 1:]
    kept = values > LEAST_EIGENVALUE * edge
    return without_noise(values[kept], edge), vectors[:, kept]


@dataclass(frozen=True)
class Directions:
    """Directions of taste, from what is chosen together, without the first one, which is popularity.

    Attributes:
        loadings: (items, directions): a user's weights times these are their coordinates, with variance 1 over users.
        places: (items, directions): other loadings times these are correlations of users' coordinates on both.
    """

    loadings: Array
    places: Array

    @property
    def n(self) -> int:
        """The number of directions."""
        return int(self.loadings.shape[1])

    @classmethod
    def of(cls, moment: Noisy, frequent: Array, frequencies: ItemFrequencies, most: int) -> Directions:
        """Find them in the second moment of users' weights of frequent items."""
        c = frequencies.sums[frequent]
        damped = c / (c + 0.4 * frequencies.sums.mean())  # rarer items carry little information
        edge = moment.std * float(np.sqrt(2 * (damped**4).sum()))
        values, vectors = _leading(damped[:, None] * moment.values * damped, edge, most)
        loadings, places = np.zeros((2, len(frequencies.sums), len(values)))
        sizes = np.sqrt(values / frequencies.n_users)
        loadings[frequent] = vectors * damped[:, None] / sizes
        places[frequent] = vectors / damped[:, None] * sizes
        return cls(loadings, places)

    @classmethod
    def along(cls, spectrum: Spectrum, frequent: Array, n_items: int, most: int, least: float) -> Directions:
        """Along the directions of choices of frequent items in which users vary most, and by more than `least`."""
        n = min(int(np.count_nonzero(spectrum.variances > least)), most)
        order = np.argsort(-spectrum.variances, kind="stable")[:n]
        loadings, places = np.zeros((2, n_items, n))
        sizes = np.sqrt(spectrum.variances[order])
        loadings[frequent] = spectrum.vectors[:, order] / sizes
        places[frequent] = spectrum.vectors[:, order] * sizes
        return cls(loadings, places)

    def columns(self, release: Noisy | Pooled, frequencies: ItemFrequencies) -> Array:
        """All items' loadings, from the release of `standing`, with variance 1 over interactions."""
        c = frequencies.sums[:, None]
        centered = release.values - c * (release.values.sum(axis=0) / c.sum())
        noise = release.std**2 + frequencies.squares[:, None] / self.n
        weights = (c / noise) ** 2
        spread = np.maximum((weights * (centered**2 - noise)).sum(axis=0) / (weights * c**2).sum(axis=0), 1e-6)
        return standardized(centered * c * spread / (c**2 * spread + noise), frequencies)


def standardized(columns: Array, frequencies: ItemFrequencies) -> Array:
    """Columns rescaled to mean 0 and variance 1 over interactions."""
    columns = columns - np.average(columns, axis=0, weights=frequencies.sums)
    return columns / np.maximum(np.sqrt(np.average(columns**2, axis=0, weights=frequencies.sums)), 1e-9)


@dataclass(frozen=True)
class Tastes:
    """A Gaussian model of residuals, from their second moment: y_j = sizes . (factors_j) . z + columns_j . u.

    Attributes:
        columns: (items, k), for users' u of variance 1: what they rate higher, or lower, together.
        variance: The variance of each of their numbers.
        sizes: The standard deviations of users' z along the columns that were known before.
        noise: The remaining variance of ratings.
        n_clear: The number of columns that stand out of the noise.
    """

    columns: Array
    variance: Array
    sizes: Array
    noise: float
    n_clear: int

    @classmethod
    def of(cls, moment: Noisy, frequencies: ItemFrequencies, factors: Array, pairs: Noisy | None = None) -> Tastes:
        """Estimate from the sum over n users of x x^T, where x are their residuals times weights, scaled to length 1.

        With residuals V u + noise of variance s, entry jk is v_j . v_k times the same sum of weights, `pairs`, which
        may be released, too; otherwise it is taken to be w_j w_k, with w_j = c_j / sqrt(n). The diagonal has `squares`
        in place of w_j^2, so it is rescaled, and s w_j^2 is subtracted. The rest has the noise of the release, and the
        sampling noise of n users, whose products vary by the unexplained part of their ratings. Eigenvalues that stand
        out are shrunk by how far the noise has rotated their vectors, and s is what they leave; as long as s falls,
        more may stand out. A third of the eigenvalues determines s.

        The other eigenvalues are shrunk, too, as for noise plus a matrix with entries as large as the excess.
        """
        m, n, std = len(moment.values), frequencies.n_users, moment.std
        most, (own, together) = min(MOST_COLUMNS, 2 * m // 3), _weights(pairs, frequencies)
        squares, chance = frequencies.sums**2 / n, edge_of_rows(own)
        total = float(squares.sum())
        # Without `pairs`, `own` is too rough: users with one item may be most of what a popular one has.
        variances = np.ones(m) if pairs is None else np.diagonal(moment.values) / own
        variances = variances - np.average(variances, weights=squares) + 1
        matrix, left, before = moment.values / together, 1.0, math.inf
        while before - left > SETTLED:
            np.fill_diagonal(matrix, squares * (variances - left))
            edge = math.hypot(noise_edge(std, m), chance * (1 - min(total / n, 1.0) * (1 - left)))
            with single_threaded_blas():
                values, vectors = eigh(matrix)
            values, vectors = values[::-1], vectors[:, ::-1]
            k = min(int(np.count_nonzero(values > clear_of(edge, m))), most)
            clear, before = np.sqrt(values[:k] ** 2 - edge**2), left
            left = min(max(1 - float(clear.sum()) / total, LEAST_NOISE), before)
        rest = matrix - (vectors[:, :k] * clear) @ vectors[:, :k].T
        sizes, found = _sizes(rest, np.sqrt(squares)[:, None] * factors, edge / math.sqrt(2 * m))
        excess = min(max(float(np.var(values[k:])) - edge**2 / 4, 0.0), (before * total / m) ** 2 / 4)
        values = np.append(clear, excess / (excess + edge**2 / 4) * np.maximum(values[k:most], 0))
        vectors, values = vectors[:, :most][:, values > 0], values[values > 0]
        # The variance of a column relative to its square: larger for rarer items.
        doubt, squares, usual = (edge / 2 / values) ** 2, squares[:, None], total / m
        columns = vectors * np.sqrt(values * squares) * (1 + doubt) / (squares + doubt * usual)
        variance = values / total * doubt * usual / (squares + doubt * usual)
        return cls(columns, variance, sizes, max(left - found / total, LEAST_NOISE), k)


def _weights(pairs: Noisy | None, frequencies: ItemFrequencies) -> tuple[Array, Array]:
    """The sums of users' squared weights, and how often two items occur together, relative to independent ones.

    Ratios below 1 are set to 1: dividing by them would raise noise above its edge. Deviations of `pairs` from
    expectations are shrunk; without `pairs`, the expectations are used.
    """
    squares = frequencies.sums**2 / frequencies.n_users
    expected = np.sqrt(np.outer(squares, squares))
    if pairs is None or len(squares) < 2:
        return frequencies.squares, np.ones_like(expected)
    np.fill_diagonal(expected, frequencies.squares)
    own, excess = np.eye(len(squares), dtype=bool), pairs.values - expected
    for which, noise in ((own, pairs.std**2), (~own, pairs.std**2 / 2)):
        excess[which] *= max(1 - noise / float(np.mean(excess[which] ** 2)), 0.0)
    found = np.maximum(excess / expected, 0)
    np.fill_diagonal(found, 0)
    return np.maximum(frequencies.squares + np.diagonal(excess), squares), 1 + found


def _sizes(matrix: Array, columns: Array, error: float) -> tuple[Array, float]:
    """How far users vary along given columns, one after another, estimated from a noisy matrix; and the total."""
    sizes, total, matrix = np.zeros(columns.shape[1]), 0.0, matrix.copy()
    for at, column in enumerate(columns.T):
        square = float(column @ column)
        if not square:
            continue
        along = float(column @ matrix @ column) / square
        variance = max(ratio(along, square, error, 0.0, 1.0)[0], 0.0)
        matrix -= variance * np.outer(column, column)
        sizes[at], total = math.sqrt(variance), total + variance * square
    return sizes, total


# -- kernel columns, for tastes that are not linear in items' vectors: they cost no privacy

LANDMARKS, KERNEL_COLUMNS = 250, 30  # larger numbers change little
KERNEL_LENGTH = 2.0  # items within about this many standard deviations of each other are similar
KERNEL_BLOCK = 1 << 10  # items that a thread takes at a time


def kernel_columns(vectors: Array, weights: Array, n_jobs: int | None = None) -> Array:
    """Columns (items, 30 at most) whose inner products are about exp(-|z - z'|^2 / 2).

    z are the items' vectors, each column divided by KERNEL_LENGTH standard deviations. Fitting a Gaussian process with
    this kernel to a user's ratings lets them like whatever resembles the items they liked. Its Nystroem approximation
    is a ridge regression on these columns, of which the leading ones over interactions are kept.

    Args:
        vectors: The items' estimated vectors, (items, k).
        weights: How often items occur.
        n_jobs: Number of threads, as in scikit-learn.
    """
    share = weights / weights.sum()
    centered = vectors - share @ vectors
    z = centered / (KERNEL_LENGTH * np.sqrt(np.maximum(share @ centered**2, 1e-18)))
    n = min(LANDMARKS, int(np.count_nonzero(share)))
    at = np.sort(np.random.default_rng(0).choice(len(z), n, replace=False, p=share))
    with single_threaded_blas():
        values, axes = np.linalg.eigh(_kernel(z[at], z[at]))
    # Below the floor, rounding in single precision is most of an eigenvector.
    root = (axes / np.sqrt(np.maximum(values, 1e-4))).astype(np.float32)
    z, share = z.astype(np.float32), share.astype(np.float32)

    def columns_of(block: slice) -> tuple[Array, Array]:
        columns = _kernel(z[block], z[at]) @ root
        return columns, columns.T @ (share[block, None] * columns)

    blocks = [slice(first, first + KERNEL_BLOCK) for first in range(0, len(z), KERNEL_BLOCK)]
    columns, moments = zip(*over_blocks(columns_of, blocks, n_jobs), strict=True)
    with single_threaded_blas():
        axes = np.linalg.eigh(np.sum(moments, axis=0, dtype=np.float64))[1]
    leading = axes[:, ::-1][:, :KERNEL_COLUMNS].astype(np.float32)
    found: Array = np.concatenate(list(over_blocks(lambda some: some @ leading, columns, n_jobs)))
    return found


def _kernel(a: Array, b: Array) -> Array:
    products = a @ b.T
    products -= (a**2).sum(axis=1)[:, None] / 2
    products -= (b**2).sum(axis=1) / 2
    kernel: Array = np.exp(np.minimum(products, 0, out=products), out=products)
    return kernel
