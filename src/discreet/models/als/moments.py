"""The public side of DPALS, before item steps: moments of users, how often items occur, directions, kernel columns.

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

CHANGE = 0.15  # how much an item's share of all interactions may change from one release to the next, relatively
SCALES = 4.0 ** np.arange(-2, 6)  # of how often items occur, over the mean
MAGNITUDES = 24  # of the variance of a user's ratings: from the square of half their range down, by factors of 4
STANDS_OUT = 4.0  # noise standard deviations: of as many numbers as MAGNITUDES, noise alone is never that large
LEAST_UNIT = 2.0**-MAGNITUDES  # of half the range of ratings: the unit of ratings that are all the same
MOST_COLUMNS = 64  # of tastes that a second moment of residuals shows
LEAST_NOISE = 0.02  # of residuals, over their variance
SETTLED = 1e-3  # change of that, below which it is final
LEAST_EIGENVALUE = 1.05  # of a direction that is kept, over the largest eigenvalue of the noise


def ratio(sums: float, size: float, error: float, guess: float, spread: float) -> tuple[float, float]:
    """An estimate of r from sums = r * size + an error, if r is about `guess` give or take `spread`; its variance."""
    precision = (size / error) ** 2 + spread**-2
    return (sums * size / error**2 + guess / spread**2) / precision, 1 / precision


@dataclass(frozen=True)
class Pooled:
    """Several releases of the same sums, pooled: as `Noisy`, with a standard deviation for each number."""

    values: Array
    std: Array


@dataclass(frozen=True)
class UserStatistics:
    """What is known of the users, in units of half the range of ratings.

    Where noise hides a number, it is what is usual for ratings: a mean in the middle of the range, a user's ratings
    spreading by .45 about their mean, users' means with .3 of that variance.

    Attributes:
        n_users: About how many there are.
        mean: The mean of their means.
        within: The standard deviation of a user's ratings about their mean.
        offset_penalty: within^2 over the variance of users' means about `mean`.
        n_variance: Of `n_users`.
        mean_variance: Of `mean`, over within^2.
        between_variance: Of the variance of users' means about it, over within^4.
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
        """From the release of `own_moments`."""
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
        """What is lost in predictions by own means as not all of this is known exactly, over within^2.

        With h = 1 / n_i and T = 1 / offset_penalty, a user's shrunken mean is T / (T + h) times their own. That its
        limit `mean` has the error e adds (h / (T + h))^2 e^2 to the mean squared error, and that T is larger by t
        h^2 t^2 / ((T + t + h) (T + h)^2).

        Args:
            popularity: It adds up to the sum over users of the root of n_i.
        """
        # n_i is taken to be as small as it may be, give or take a standard deviation.
        roots = float(popularity.values.sum()) - popularity.std * math.sqrt(len(popularity.values))
        h = min((self.n_users + math.sqrt(self.n_variance)) / max(roots, 1e-9), 1.0) ** 2
        total, variance = 1 / self.offset_penalty + h, self.between_variance
        return (h / total) ** 2 * (self.mean_variance + variance / (total + math.sqrt(variance)))


@dataclass(frozen=True)
class ItemFrequencies:
    """How often items occur, in users' weights.

    Attributes:
        a: What a user weighs an item by, before their weights are scaled to length 1.
        sums: c_j, the sum of all users' weights of item j, estimated.
        variance: Of that estimate.
        n_users: About how many users there are.
        log_popularity: Of items, with mean 0 over interactions, and variance 1 with that of what is not known of it.
    """

    a: Array
    sums: Array
    variance: Array
    n_users: float
    log_popularity: Array

    @classmethod
    def of(cls, a: Array, popularity: Noisy, release: Noisy, n_users: float) -> ItemFrequencies:
        """From the releases of popularity and of weights."""
        return cls._of(a, popularity.values * a, (popularity.std * a) ** 2, release, n_users)

    def updated(self, release: Noisy, n_users: float) -> ItemFrequencies:
        """With another release of the weights, perhaps of other users."""
        # `sums` are expectations: noise would make the sum of what is positive too large, but not this.
        scale = max(float(release.values @ self.sums), 1e-9) / max(float((self.sums**2).sum()), 1e-9)
        other, variance = scale * self.sums, scale**2 * self.variance
        # How much shares have changed, by the moments of the difference.
        noise = release.std**2 + variance
        total = noise + (CHANGE * other) ** 2
        weights = (other / total) ** 2
        excess = float((weights * ((release.values - other) ** 2 - noise)).sum())
        error = math.sqrt(2 * float(((weights * total) ** 2).sum()))
        change, _ = ratio(excess, float((weights * other**2).sum()), max(error, 1e-12), CHANGE**2, CHANGE**2)
        return self._combined(self.a, other, variance + max(change, 0.0) * other**2, release, n_users)

    @classmethod
    def _of(cls, a: Array, other: Array, variance: Array, release: Noisy, n_users: float) -> ItemFrequencies:
        scale = max(float(np.maximum(release.values, 0).sum()), 1e-9) / max(float(np.maximum(other, 0).sum()), 1e-9)
        other = scale * other
        return cls._combined(a, other, scale**2 * variance + (CHANGE * other) ** 2, release, n_users)

    @classmethod
    def _combined(cls, a: Array, other: Array, spread: Array, release: Noisy, n_users: float) -> ItemFrequencies:
        """Combine two estimates of how often items occur, and the fact that none occurs less than never."""
        variance = 1 / (1 / release.std**2 + 1 / spread)
        mean = variance * (release.values / release.std**2 + other / spread)
        sums, variance = _frequency(mean, variance)
        log = np.log(sums / a)
        log = log - np.average(log, weights=sums)
        # What is not known of it counts as variance: where noise hides popularity, the column is small.
        log /= max(float(np.sqrt(np.average(log**2 + variance / sums**2, weights=sums))), 0.5)
        return cls(a, sums, variance, n_users, np.maximum(log, -3))

    @classmethod
    def known(cls, a: Array, sums: Array, variance: Array) -> ItemFrequencies:
        """From what a model keeps of them, which is not the number of users."""
        return cls(a, sums, variance, math.nan, np.zeros(len(a)))

    def weighed(self, exponent: float) -> ItemFrequencies:
        """With the weights that follow from what is known of popularity now."""
        a = np.maximum(self.sums / self.a, 0.7) ** -exponent
        return replace(self, a=a, sums=self.sums * (a / self.a), variance=self.variance * (a / self.a) ** 2)

    def of_items(self, at: Array) -> ItemFrequencies:
        """Those of some items, by number. -1 is an item of which nothing is known; it is taken to be rare."""
        rare, typical = float(self.sums.min(initial=1.0)), float(self.sums.mean()) if len(self.sums) else 1.0
        a, sums, variance, log_popularity = (
            np.append(values, other)[at]
            for values, other in (
                (self.a, self.a.max(initial=1e-9)),
                (self.sums, rare),
                (self.variance, typical**2),
                (self.log_popularity, -3.0),
            )
        )
        return ItemFrequencies(a, sums, variance, self.n_users, log_popularity)

    @cached_property
    def squares(self) -> Array:
        """About the sum of the squares of users' weights of each item; of one user they add up to 1."""
        squares: Array = self.a * self.sums
        squares *= self.n_users / squares.sum()
        return squares


def _frequency(seen: Array, variance: Array) -> tuple[Array, Array]:
    """The mean and the variance of numbers that are not negative and were seen with normal noise.

    A few items are far more frequent than the others: the prior is a mixture of exponential distributions, whose means
    are SCALES and whose weights are those that fit best to what was seen (by expectation maximization).
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
    """The most frequent items, and how often they occur among themselves: users' weights of these have length 1.

    Attributes:
        items: Their numbers, rising.
        frequencies: Theirs alone.
    """

    items: Array
    frequencies: ItemFrequencies

    @property
    def n(self) -> int:
        """How many there are."""
        return len(self.items)

    @classmethod
    def of(cls, frequencies: ItemFrequencies, popularity: Array, std: float, least: float, most: int) -> MostFrequent:
        """As many as a direction with a share of `least` of the residuals would stand out of their second moment in.

        With chances q_j to have item j, independently, a user weighs it by about q_j a_j / sqrt(v), on average, where v
        is what the squares of their weights of items add up to: a_j^2 for itself, and q_k a_k^2 for each other.

        Args:
            frequencies: Of all items.
            popularity: The sum of users' weights of each item, if a user weighs theirs equally; at least 0.
            std: Of the noise in the second moment.
            least: The share.
            most: The most items.
        """
        n = frequencies.n_users
        order = np.argsort(-popularity, kind="stable")[:most]
        # Those of a user with k items add up to the root of k.
        q = np.minimum(popularity[order] * max(float(popularity.sum()) / n, 1.0) / n, 1.0)
        a, sizes = frequencies.a[order], np.arange(1, len(order) + 1)
        lengths = np.cumsum(q * a**2)[:, None] + (1 - q) * a**2
        sums = n * q * a / np.sqrt(lengths)  # of each item, if the first so many are chosen
        clear = clear_of(noise_edge(std, sizes), sizes) < least * np.tril(sums**2).sum(axis=1) / n
        size = int(sizes[clear].max(initial=0))
        rising = np.argsort(order[:size])
        found = replace(frequencies.of_items(order[:size]), sums=sums[size - 1, :size] if size else sums[:0, 0])
        return cls(order[:size][rising], found.of_items(rising))


# -- directions of taste


def _leading(matrix: Array, edge: float, n: int) -> tuple[Array, Array]:
    """Eigenvalues above the noise's edge but the first, with the inflation by noise undone, and their eigenvectors."""
    m = len(matrix)
    with single_threaded_blas():
        values, vectors = eigh(matrix, subset_by_index=[max(m - n - 1, 0), m - 1])
    values, vectors = values[::-1][1:], vectors[:, ::-1][:, 1:]
    kept = values > LEAST_EIGENVALUE * edge
    return without_noise(values[kept], edge), vectors[:, kept]


@dataclass(frozen=True)
class Directions:
    """Directions of taste, from what is chosen together. The first direction is popularity, and left out.

    Attributes:
        loadings: (items, directions): a user's weights times these say where they stand, with variance 1 over users.
        places: (items, directions): other loadings times these say how the two places of a user correlate.
    """

    loadings: Array
    places: Array

    @property
    def n(self) -> int:
        """How many there are."""
        return int(self.loadings.shape[1])

    @classmethod
    def of(cls, moment: Noisy, frequent: Array, frequencies: ItemFrequencies, most: int) -> Directions:
        """From the second moment of users' weights of frequent items."""
        c = frequencies.sums[frequent]
        damped = c / (c + 0.4 * frequencies.sums.mean())  # there is little to see in rarer items
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
        """Where items stand, from the release of `standing`: of variance 1 over interactions."""
        c = frequencies.sums[:, None]
        centered = release.values - c * (release.values.sum(axis=0) / c.sum())
        noise = release.std**2 + frequencies.squares[:, None] / self.n
        weights = (c / noise) ** 2
        spread = np.maximum((weights * (centered**2 - noise)).sum(axis=0) / (weights * c**2).sum(axis=0), 1e-6)
        return standardized(centered * c * spread / (c**2 * spread + noise), frequencies)


def standardized(columns: Array, frequencies: ItemFrequencies) -> Array:
    """With mean 0 and variance 1 over interactions."""
    columns = columns - np.average(columns, axis=0, weights=frequencies.sums)
    return columns / np.maximum(np.sqrt(np.average(columns**2, axis=0, weights=frequencies.sums)), 1e-9)


@dataclass(frozen=True)
class Tastes:
    """What a second moment of residuals shows: a Gaussian model of them, y_j = sizes . (factors_j) . z + columns_j . u.

    Attributes:
        columns: (items, k), for users' u of variance 1: what they rate higher, or lower, together.
        variance: Of each of their numbers.
        sizes: The standard deviations of users' z along the columns that were known before.
        noise: The variance of ratings that is left.
        n_clear: How many columns stand out of the noise.
    """

    columns: Array
    variance: Array
    sizes: Array
    noise: float
    n_clear: int

    @classmethod
    def of(cls, moment: Noisy, frequencies: ItemFrequencies, factors: Array, pairs: Noisy | None = None) -> Tastes:
        """From the sum over n users of x x^T, where x are their residuals times weights, and of length 1.

        With residuals of variance 1 that are V u + noise of variance s, it is v_j . v_k times the same sum of weights,
        `pairs`. That is about w_j w_k with w_j = c_j / sqrt(n), and what it is exactly may be released, too. The
        diagonal has `squares` in place of w_j^2, so it is scaled; and s w_j^2 is subtracted. Around what is left there
        is noise: that of the release, and that of n users, whose products vary by what is not explained of their
        ratings. Eigenvalues that stand out are shrunk by what noise did to them, and s is what they leave. As long as
        it falls, more may stand out. A third of the eigenvalues says how large s is.

        The others are shrunk, too: as if they were noise and a matrix whose entries are as large as the excess says.
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
        # What is not known of a column, over the square of what is: more, if an item is rarer than others.
        doubt, squares, usual = (edge / 2 / values) ** 2, squares[:, None], total / m
        columns = vectors * np.sqrt(values * squares) * (1 + doubt) / (squares + doubt * usual)
        variance = values / total * doubt * usual / (squares + doubt * usual)
        return cls(columns, variance, sizes, max(left - found / total, LEAST_NOISE), k)


def _weights(pairs: Noisy | None, frequencies: ItemFrequencies) -> tuple[Array, Array]:
    """The sums of users' squared weights; and how often two items occur together, over what independent ones would.

    Where that is less, it is 1: dividing by it would raise noise above its edge. What `pairs` differs from expectations
    by is shrunk, and without it they are all there is.
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
    """How far users vary along given columns, one after another, by what a noisy matrix shows; and that, added up."""
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


# -- columns for tastes that are not linear in what is known of the items: they cost no privacy

LANDMARKS, KERNEL_COLUMNS = 250, 30  # more of either change little
KERNEL_LENGTH = 2.0  # items are alike if they differ by less than so many standard deviations, in all numbers together
KERNEL_BLOCK = 1 << 10  # items at a time and thread


def kernel_columns(vectors: Array, weights: Array, n_jobs: int | None = None) -> Array:
    """Columns (items, 30 at most) whose inner products are about exp(-|z - z'|^2 / 2).

    z are the items' vectors, each column divided by KERNEL_LENGTH standard deviations. Fitting a Gaussian process with
    this kernel to a user's ratings lets them like whatever resembles the items they liked. Its Nystroem approximation
    is a ridge regression on these columns, of which the leading ones over interactions are kept.

    Args:
        vectors: What is known of the items, (items, k).
        weights: How often they occur.
        n_jobs: Threads, in scikit-learn's meaning.
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
