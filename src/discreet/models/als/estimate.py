"""The public side of DPALS: what is known of the items, and how surely. All of it is computed from releases."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import eigh
from scipy.special import log_ndtr

from discreet.kernels import each_block
from discreet.privacy.releaser import Noisy, noise_edge, without_noise
from discreet.typing import Array

# In a unit in which ratings spread by about 1. These constants, and those of `contributions` and `model`, were set on
# MovieLens 1M, Jester and generated data; benchmarks/dpals.py measures the result.
NOISE = 1.0  # standard deviation of a rating about a good prediction
BIAS_SPREAD = 0.35  # standard deviation of item biases about what popularity predicts
FEATURE_BIAS = 0.2  # and of what a public feature adds to them
COLUMN_SPREAD, RESIDUAL_SPREAD = 0.11, 0.05  # and of factors about what co-occurrences, or residuals, predict
SLOPE_BIAS, SLOPE_POPULARITY, COLUMN, FEATURE = 1.2, 25.0, 300.0, 10.0  # NOISE^2 / variance of users' coefficients
USER_PRIOR = 0.45  # size of the prior mean of a user's vector, from the items they chose, in standard deviations
OVERLAP = 1.5  # about how much more an item step observes than the shared Gram matrix says
PROBES, PROBE_SIZE, PROBE_SPREAD = 8, 0.05, 0.2  # random probe columns: how many, their size, how far they may grow
CHANGE = 0.15  # how much an item's share of all interactions may change from one release to the next, relatively
LEAST_EIGENVALUE = 1.05  # of a direction that is kept, over the largest eigenvalue of the noise

BLOCK_BYTES = 1 << 20  # of items' covariances that are updated at a time and thread


@dataclass(frozen=True)
class ItemFrequencies:
    """How often items occur, in users' weights.

    Attributes:
        a: What a user weighs an item by, before their weights are scaled to length 1.
        sums: c_j, the sum of all users' weights of item j, estimated.
        variance: Of that estimate.
        n_users: About how many users there are.
        log_popularity: Of items, with mean 0 and variance 1 over interactions.
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
        return self._of(self.a, self.sums, self.variance, release, n_users)

    @classmethod
    def _of(cls, a: Array, other: Array, variance: Array, release: Noisy, n_users: float) -> ItemFrequencies:
        """Combine two estimates of how often items occur, and the fact that none occurs less than never."""
        scale = max(float(np.maximum(release.values, 0).sum()), 1e-9) / max(float(np.maximum(other, 0).sum()), 1e-9)
        other = scale * other
        spread = scale**2 * variance + (CHANGE * other) ** 2
        variance = 1 / (1 / release.std**2 + 1 / spread)
        mean = variance * (release.values / release.std**2 + other / spread)
        typical = max(float(np.abs(mean).mean()), 1e-9)
        sums = _positive_part(mean - variance / (2 * typical), variance)  # most items are rarer than the mean
        log = np.log(sums / a)
        log = log - np.average(log, weights=sums)
        log /= max(float(np.sqrt(np.average(log**2, weights=sums))), 0.5)  # in less, noise is most of it
        return cls(a, sums, variance, n_users, np.maximum(log, -3))

    @classmethod
    def known(cls, a: Array, sums: Array, variance: Array) -> ItemFrequencies:
        """From what a model keeps of them, which is not the number of users."""
        return cls(a, sums, variance, math.nan, np.zeros(len(a)))

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

    @property
    def mean_weight(self) -> float:
        """A typical weight: the sum of squares is 1 for each user."""
        return self.n_users / float(self.sums.sum())


def _positive_part(mean: Array, variance: Array) -> Array:
    """The mean of a normal distribution, given that it is positive."""
    std = np.sqrt(variance)
    at = mean / std
    ratio = np.exp(-(at**2) / 2 - 0.5 * np.log(2 * np.pi) - log_ndtr(at))
    return np.asarray(np.maximum(mean + std * ratio, 1e-3 * std))


def _noise(release: Noisy, frequencies: ItemFrequencies) -> Array:
    """The variance of released sums about the true biases: that of the release, and that of the ratings."""
    noise: Array = release.std**2 + NOISE**2 * frequencies.mean_weight * frequencies.sums
    return noise


def _prior_mean(release: Noisy, frequencies: ItemFrequencies, features: Array) -> Array:
    """The prior mean of item biases: a regression of their sums on popularity and public features."""
    c = frequencies.sums
    noise = _noise(release, frequencies) + 0.09 * frequencies.variance + (BIAS_SPREAD * c) ** 2
    columns = np.column_stack([np.ones(len(c)), frequencies.log_popularity, features])
    design = columns * (c / np.sqrt(noise))[:, None]
    penalty = np.diag(np.append([1e-9, 1e-9], np.full(features.shape[1], FEATURE_BIAS**-2)))
    beta = np.linalg.solve(design.T @ design + penalty, design.T @ (release.values / np.sqrt(noise)))
    line: Array = columns @ beta
    return line


def upper_spread(release: Noisy, frequencies: ItemFrequencies) -> float:
    """An upper estimate of how far item biases spread: large where noise could hide a spread."""
    c, noise = frequencies.sums, _noise(release, frequencies)
    precision = c**2 / noise**2
    excess = float((precision * (release.values**2 - noise)).sum())
    error = float(np.sqrt(2 * ((precision * noise) ** 2).sum()))
    return float(np.sqrt(max(excess + 2 * error, 0.0) / (precision * c**2).sum()))


@dataclass(frozen=True)
class ItemPosterior:
    """A Gaussian posterior of each item's bias and factors, theta_j = (b_j, v_j).

    Attributes:
        mean: (items, 1 + columns).
        covariance: (items, 1 + columns, 1 + columns); with `noise`, of theta_j and the ratings' noise together.
        noise: The mean of what the ratings' own noise adds to every item step; None before the first step.
    """

    mean: Array
    covariance: Array
    noise: Array | None = None

    @property
    def bias(self) -> Array:
        """b_j."""
        return self.mean[:, 0]

    @property
    def factors(self) -> Array:
        """v_j."""
        return self.mean[:, 1:]

    @property
    def means(self) -> ItemPosterior:
        """The means alone: all that users need, and far smaller."""
        return ItemPosterior(self.mean, np.zeros((len(self.mean), 0, 0)))

    @property
    def variance(self) -> Array:
        """Of each entry of `mean`."""
        return np.diagonal(self.covariance, axis1=1, axis2=2)[:, : self.mean.shape[1]]

    @classmethod
    def known(cls, mean: Array, variance: Array) -> ItemPosterior:
        """From what a model keeps, which are variances."""
        return cls(mean, variance[:, :, None] * np.eye(mean.shape[1]))

    def of_items(self, at: Array, frequencies: ItemFrequencies) -> ItemPosterior:
        """Those of some items, by number. -1 is an item of which nothing is known; it is taken to be average."""
        k = self.mean.shape[1]
        average = np.average(self.mean, axis=0, weights=frequencies.sums)
        unknown = np.diag(np.append(BIAS_SPREAD**2, np.full(k - 1, COLUMN_SPREAD**2)))
        return ItemPosterior(np.vstack([self.mean, average])[at], np.concatenate([self.covariance, unknown[None]])[at])

    def priors(self, frequencies: ItemFrequencies) -> Array:
        """The prior mean of the vectors of users who chose an item: users like what is similar to what they have."""
        centered = self.factors - np.average(self.factors, axis=0, weights=frequencies.sums)
        size = np.sqrt(np.average(centered**2, axis=0, weights=frequencies.sums))
        predicted: Array = USER_PRIOR * centered / np.maximum(size, 1e-9)
        return predicted

    @classmethod
    def from_bias(cls, release: Noisy, frequencies: ItemFrequencies, features: Array) -> ItemPosterior:
        """Item biases from the noisy sums s_j of weighted, centered ratings: s_j = c_j b_j + noise.

        The prior mean of b_j is linear in log popularity and features, with coefficients fitted to the same sums.
        """
        c = frequencies.sums
        before = _prior_mean(release, frequencies, features)
        noise = _noise(release, frequencies) + 0.09 * frequencies.variance
        gain = c * BIAS_SPREAD**2 / (c**2 * BIAS_SPREAD**2 + noise)
        mean = before + gain * (release.values - c * before)
        return cls(mean[:, None], (BIAS_SPREAD**2 * (1 - gain * c))[:, None, None])

    def with_columns(self, columns: Array, variance: Array | float) -> ItemPosterior:
        """More factors, known with some variance."""
        (m, k), n = self.mean.shape, columns.shape[1]
        covariance, new = np.zeros((m, k + n, k + n)), np.arange(k, k + n)
        covariance[:, :k, :k] = self.covariance
        covariance[:, new, new] = variance
        return ItemPosterior(np.column_stack([self.mean, columns]), covariance)

    def with_slopes(self, frequencies: ItemFrequencies) -> ItemPosterior:
        """Two columns on which users differ: how much they follow the common taste, and what is popular."""
        centered = self.bias - np.average(self.bias, weights=frequencies.sums)
        size = NOISE / np.sqrt(SLOPE_BIAS)
        spread = 0.06**2 + self.covariance[:, 0, 0] * size**2
        popular = frequencies.log_popularity * NOISE / np.sqrt(SLOPE_POPULARITY)
        variance = np.column_stack([spread, np.full(len(spread), 0.1**2)])
        return self.with_columns(np.column_stack([centered * size, popular]), variance)

    def with_features(self, features: Array, frequencies: ItemFrequencies) -> ItemPosterior:
        """Columns of public features of the items, on which users may differ."""
        if not features.size:
            return self
        centered = features - np.average(features, axis=0, weights=frequencies.sums)
        return self.with_columns(centered * NOISE / np.sqrt(FEATURE), 0.05**2)

    def with_probes(self) -> ItemPosterior:
        """Random probe columns, by which the first item step looks for tastes that no other column explains."""
        columns = np.random.default_rng(0).standard_normal((len(self.mean), PROBES))
        return self.with_columns(PROBE_SIZE * columns, PROBE_SPREAD**2)

    def probed(self, n: int, observed: Observation, clear: float) -> tuple[ItemPosterior, Observation]:
        """What to keep after the first item step, whose columns from the n-th on were random probes: all, or none.

        If users' coefficients on probes explain nothing, a probe's sums are noise of a known size. Their excess says
        how far probes have to move: beyond `clear` standard deviations of the noise, it becomes their variance.
        """
        if self.mean.shape[1] == n:
            return self, observed
        rows = observed.shares[:, None, None] * observed.gain[n:]  # of the probes, in H_j
        others = rows[:, :, :n]
        noise = np.einsum("jab,jab->ja", others @ self.covariance[:, :n, :n], others) + observed.variance[:, n:]
        gains = (rows[:, :, n:] ** 2).sum(axis=2)
        weights = gains / noise**2
        excess = float((weights * (observed.sums[:, n:] ** 2 - noise)).sum())
        if excess <= clear * float(np.sqrt(2 * ((weights * noise) ** 2).sum())):
            return ItemPosterior(self.mean[:, :n], self.covariance[:, :n, :n]), observed.first(n)
        covariance, moving = self.covariance.copy(), np.arange(n, self.mean.shape[1])
        covariance[:, moving, moving] = excess / float((weights * gains).sum())
        return ItemPosterior(self.mean, covariance), observed

    def updated(self, observed: Observation, n_jobs: int | None = 1) -> ItemPosterior:
        """With what an item step has observed: a Kalman update, of some items at a time."""
        items, k = self.mean.shape
        mean, covariance, noise = np.empty((items, k)), np.empty((items, 2 * k, 2 * k)), np.empty((items, k))

        def work(rows: slice) -> None:
            mean[rows], covariance[rows], noise[rows] = self._some(rows)._updated(observed.some(rows))

        size = max(1, BLOCK_BYTES // (32 * k**2))
        each_block(work, (slice(at, at + size) for at in range(0, items, size)), n_jobs)
        return ItemPosterior(mean, covariance, noise)

    def _some(self, rows: slice) -> ItemPosterior:
        return ItemPosterior(self.mean[rows], self.covariance[rows], None if self.noise is None else self.noise[rows])

    def _updated(self, observed: Observation) -> tuple[Array, Array, Array]:
        """Mean, covariance and noise.

        The sum of the ratings' own noise is the same in every step, so it is estimated with the items: the same ratings
        seen twice do not count as two ratings.
        """
        k, known = self.mean.shape[1], self
        if self.noise is None:
            joint = np.zeros((len(self.mean), 2 * k, 2 * k))
            joint[:, :k, :k] = self.covariance
            joint[:, k:, k:] = observed.own_noise
            known = replace(self, covariance=joint, noise=np.zeros_like(self.mean))
        assert known.noise is not None
        gains = observed.gains
        reach = gains @ known.covariance[:, :k] + known.covariance[:, k:]  # (H, I) times the covariance
        spread = reach[:, :, :k] @ gains.swapaxes(1, 2) + reach[:, :, k:] + observed.std**2 * np.eye(k)
        gain = np.linalg.solve(spread, reach).swapaxes(1, 2)
        change = (gain @ (observed.sums - known.noise)[:, :, None])[:, :, 0]
        covariance = known.covariance - gain @ reach
        covariance = (covariance + covariance.swapaxes(1, 2)) / 2
        return known.mean + change[:, :k], covariance, known.noise + change[:, k:]


@dataclass(frozen=True)
class Observation:
    """The noisy sums B_j of an item step.

    B_j = sum over users of om w e (bias_weight, u), where the residual e is (1, u) . (theta_j - its mean now) plus the
    rating's own noise. So B_j = H_j (theta_j - mean) + e_j + fresh noise: H_j is about c_j / (sum of c) times the
    shared Gram matrix of all users' (bias_weight, u), and e_j is the sum of the ratings' own noise.

    Attributes:
        sums: B_j, (items, k).
        shares: c_j / (sum of c).
        gain: H_j / shares_j, (k, k).
        noise: The covariance of e_j, divided by shares_j, (k, k).
        std: Of the fresh noise.
    """

    sums: Array
    shares: Array
    gain: Array
    noise: Array
    std: float

    @classmethod
    def of(cls, step: Noisy, gram: Noisy, frequencies: ItemFrequencies, bias_weight: float, clip: float) -> Observation:
        """From the two releases of an item step."""
        values, vectors = np.linalg.eigh(gram.values)
        K = (vectors * np.maximum(values, 1e-3 * max(values[-1], 1e-12))) @ vectors.T
        undo = np.ones(len(K))
        undo[0] = 1 / bias_weight
        noise = NOISE**2 * frequencies.mean_weight * clip * K
        return cls(step.values, frequencies.sums / frequencies.sums.sum(), OVERLAP * K * undo, noise, step.std)

    @property
    def gains(self) -> Array:
        """H_j, (items, k, k)."""
        return self.shares[:, None, None] * self.gain

    @property
    def own_noise(self) -> Array:
        """The covariance of e_j, (items, k, k)."""
        return self.shares[:, None, None] * self.noise

    @property
    def variance(self) -> Array:
        """Of the noise of all kinds in each sum."""
        noise: Array = self.std**2 + self.shares[:, None] * np.diagonal(self.noise)
        return noise

    def some(self, rows: slice) -> Observation:
        """Of some items."""
        return replace(self, sums=self.sums[rows], shares=self.shares[rows])

    def first(self, n: int) -> Observation:
        """Of the first n columns alone."""
        return Observation(self.sums[:, :n], self.shares, self.gain[:n, :n], self.noise[:n, :n], self.std)


# -- directions of taste


def _leading(matrix: Array, edge: float, n: int, skip: int) -> tuple[Array, Array]:
    """Eigenvalues above the noise's edge, with the inflation by noise undone, and their eigenvectors."""
    m = len(matrix)
    values, vectors = eigh(matrix, subset_by_index=[max(m - n - skip, 0), m - 1])
    values, vectors = values[::-1][skip:], vectors[:, ::-1][:, skip:]
    kept = values > LEAST_EIGENVALUE * edge
    return without_noise(values[kept], edge), vectors[:, kept]


def co_occurrence_columns(moment: Noisy, frequent: Array, frequencies: ItemFrequencies, n: int) -> Array:
    """Item columns (items, directions): what is chosen together. The first direction is popularity, and left out."""
    c = frequencies.sums[frequent]
    damped = c / (c + 0.4 * frequencies.sums.mean())
    edge = moment.std * float(np.sqrt(2 * (damped**4).sum()))
    values, vectors = _leading(damped[:, None] * moment.values * damped, edge, n, skip=1)
    expected = damped * c / np.sqrt(max(frequencies.n_users, 1.0))
    columns = np.zeros((len(frequencies.sums), len(values)))
    wiener = expected / (expected**2 + 0.05 * np.mean(expected**2))
    columns[frequent] = vectors * np.sqrt(values) * wiener[:, None]
    size = np.sqrt(np.average(columns**2, axis=0, weights=frequencies.sums))
    # Co-occurrences say which items are similar, but not how much that matters to ratings.
    scaled: Array = columns / np.maximum(size, 1e-9) * NOISE / np.sqrt(COLUMN)
    return scaled


def residual_columns(moment: Noisy, frequent: Array, frequencies: ItemFrequencies, n: int) -> Array:
    """Item columns: what users rate higher, or lower, together than their biases say.

    If residuals are u . v with users' u of unit variance, the second moment of w e at (j, k) is v_j . v_k times the
    sum over users of w_j w_k, which is about c_j c_k / (number of users). This gives the scale of v.
    """
    edge = float(noise_edge(moment.std, len(frequent)))
    values, vectors = _leading(moment.values, edge, n, skip=0)
    columns = np.zeros((len(frequencies.sums), len(values)))
    columns[frequent] = vectors * np.sqrt(values * frequencies.n_users) / frequencies.sums[frequent, None]
    return columns
