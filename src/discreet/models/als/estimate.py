"""The public side of DPALS: what is known of the items, and how surely, from releases alone.

Everything here is computed from noisy sums; nothing here sees a user.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_ndtr

from discreet.linalg.threads import over_blocks
from discreet.models.als.settings import (
    BIAS_SPREAD,
    CHANGE,
    COLUMN_SPREAD,
    FEATURE,
    FEATURE_BIAS,
    NOISE,
    OVERLAP,
    PROBE_SIZE,
    PROBE_SPREAD,
    PROBES,
    SLOPE_BIAS,
    SLOPE_POPULARITY,
    USER_PRIOR,
)
from discreet.privacy.releaser import Noisy
from discreet.typing import Array

BLOCK_BYTES = 1 << 22  # of items' covariances that are updated at a time and thread


@dataclass(frozen=True)
class Weights:
    """How often items occur, in users' weights.

    Attributes:
        a: What a user weighs an item by, before her weights are scaled to length 1.
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
    def of(cls, a: Array, popularity: Noisy, release: Noisy, n_users: float) -> Weights:
        """From the releases of popularity and of weights."""
        return cls._of(a, popularity.values * a, (popularity.std * a) ** 2, release, n_users)

    def again(self, release: Noisy, n_users: float) -> Weights:
        """With another release of the weights, perhaps of other users."""
        return self._of(self.a, self.sums, self.variance, release, n_users)

    @classmethod
    def _of(cls, a: Array, other: Array, variance: Array, release: Noisy, n_users: float) -> Weights:
        """Combine what two releases say about how often an item occurs, and that it cannot be less than never."""
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
    def known(cls, a: Array, sums: Array, variance: Array) -> Weights:
        """From what a model keeps of them; how many users there are is not known."""
        return cls(a, sums, variance, math.nan, np.zeros(len(a)))

    def of_items(self, at: Array) -> Weights:
        """Those of some items, by number; -1: an item of which nothing is known, and that is taken to be rare."""
        rare, typical = float(self.sums.min(initial=1.0)), float(self.sums.mean()) if len(self.sums) else 1.0
        known = (
            np.append(values, other)[at]
            for values, other in (
                (self.a, self.a.max(initial=1e-9)),
                (self.sums, rare),
                (self.variance, typical**2),
                (self.log_popularity, -3.0),
            )
        )
        a, sums, variance, log_popularity = known
        return Weights(a, sums, variance, self.n_users, log_popularity)

    @property
    def mean_weight(self) -> float:
        """A typical weight: the sum of squares is 1 for each user."""
        return self.n_users / float(self.sums.sum())


def _positive_part(mean: Array, variance: Array) -> Array:
    """The mean of a normal law, given that it is positive."""
    std = np.sqrt(variance)
    at = mean / std
    ratio = np.exp(-(at**2) / 2 - 0.5 * np.log(2 * np.pi) - log_ndtr(at))
    return np.asarray(np.maximum(mean + std * ratio, 1e-3 * std))


def _noise(release: Noisy, weights: Weights) -> Array:
    """The variance of the sums of item biases, once these are known: that of the release and of the ratings."""
    noise: Array = release.std**2 + NOISE**2 * weights.mean_weight * weights.sums
    return noise


def _foretold(release: Noisy, weights: Weights, features: Array) -> Array:
    """What popularity and public features foretell of item biases: a regression on them, fitted to their sums."""
    c, noise = weights.sums, _noise(release, weights) + 0.09 * weights.variance + (BIAS_SPREAD * weights.sums) ** 2
    columns = np.column_stack([np.ones(len(c)), weights.log_popularity, features])
    design = columns * (c / np.sqrt(noise))[:, None]
    penalty = np.diag(np.append([1e-9, 1e-9], np.full(features.shape[1], FEATURE_BIAS**-2)))
    beta = np.linalg.solve(design.T @ design + penalty, design.T @ (release.values / np.sqrt(noise)))
    line: Array = columns @ beta
    return line


def most_spread(release: Noisy, weights: Weights) -> float:
    """How far item biases spread at most, about, by their noisy sums: far, where the noise would hide it."""
    c, noise = weights.sums, _noise(release, weights)
    precision = c**2 / noise**2
    excess = float((precision * (release.values**2 - noise)).sum())
    error = float(np.sqrt(2 * ((precision * noise) ** 2).sum()))
    return float(np.sqrt(max(excess + 2 * error, 0.0) / (precision * c**2).sum()))


@dataclass(frozen=True)
class Items:
    """A Gaussian law for each item's bias and factors: theta_j = (b_j, v_j), its mean and its covariance.

    Attributes:
        mean: (items, 1 + columns).
        covariance: (items, 1 + columns, 1 + columns); with `noise`, of theta_j and the ratings' noise together.
        noise: What the ratings' own noise adds to every item step, estimated; None before the first.
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
    def means(self) -> Items:
        """The means alone: all that users need to know, and far smaller."""
        return Items(self.mean, np.zeros((len(self.mean), 0, 0)))

    @property
    def variance(self) -> Array:
        """Of each entry of `mean`."""
        return np.diagonal(self.covariance, axis1=1, axis2=2)[:, : self.mean.shape[1]]

    @classmethod
    def known(cls, mean: Array, variance: Array) -> Items:
        """From what a model keeps: without the covariances."""
        return cls(mean, variance[:, :, None] * np.eye(mean.shape[1]))

    def of_items(self, at: Array, weights: Weights) -> Items:
        """Those of some items, by number; -1: an item of which nothing is known, and that is taken to be average."""
        k = self.mean.shape[1]
        average = np.average(self.mean, axis=0, weights=weights.sums)
        unknown = np.diag(np.append(BIAS_SPREAD**2, np.full(k - 1, COLUMN_SPREAD**2)))
        return Items(np.vstack([self.mean, average])[at], np.concatenate([self.covariance, unknown[None]])[at])

    def priors(self, weights: Weights) -> Array:
        """What each item says of those who chose it: users like what is like what they have."""
        centred = self.factors - np.average(self.factors, axis=0, weights=weights.sums)
        size = np.sqrt(np.average(centred**2, axis=0, weights=weights.sums))
        predicted: Array = USER_PRIOR * centred / np.maximum(size, 1e-9)
        return predicted

    @classmethod
    def from_bias(cls, release: Noisy, weights: Weights, features: Array) -> Items:
        """Item biases from the noisy sums s_j of weighted, centred ratings: s_j = c_j b_j + noise.

        Before, b_j is about beta_0 + beta_1 log popularity, and likewise for features, with betas fitted to the same
        sums.
        """
        c = weights.sums
        before = _foretold(release, weights, features)
        noise = _noise(release, weights) + 0.09 * weights.variance
        gain = c * BIAS_SPREAD**2 / (c**2 * BIAS_SPREAD**2 + noise)
        mean = before + gain * (release.values - c * before)
        return cls(mean[:, None], (BIAS_SPREAD**2 * (1 - gain * c))[:, None, None])

    def with_column(self, column: Array, variance: Array | float) -> Items:
        """One more factor, known with some variance."""
        m, k = self.mean.shape
        covariance = np.zeros((m, k + 1, k + 1))
        covariance[:, :k, :k] = self.covariance
        covariance[:, k, k] = variance
        return Items(np.column_stack([self.mean, column]), covariance)

    def with_slopes(self, weights: Weights) -> Items:
        """Two columns on which users differ: how much they follow the common taste, and how much the popular."""
        centred = self.bias - np.average(self.bias, weights=weights.sums)
        size = NOISE / np.sqrt(SLOPE_BIAS)
        spread = 0.06**2 + self.covariance[:, 0, 0] * size**2
        sloped = self.with_column(centred * size, spread)
        return sloped.with_column(weights.log_popularity * NOISE / np.sqrt(SLOPE_POPULARITY), 0.1**2)

    def with_features(self, features: Array, weights: Weights) -> Items:
        """Columns of what is publicly known of the items, on which users may differ."""
        if not features.size:
            return self
        centred = features - np.average(features, axis=0, weights=weights.sums)
        return self.with_columns(centred * NOISE / np.sqrt(FEATURE), 0.05**2)

    def with_columns(self, columns: Array, variance: float) -> Items:
        """More factors, each known with the same variance."""
        items = self
        for column in columns.T:
            items = items.with_column(column, variance)
        return items

    def with_probes(self) -> Items:
        """Random columns, by which a first item step looks for tastes that nothing has foretold."""
        columns = np.random.default_rng(0).standard_normal((len(self.mean), PROBES))
        return self.with_columns(PROBE_SIZE * columns, PROBE_SPREAD**2)

    def probed(self, n: int, seen: Observation, clear: float) -> tuple[Items, Observation]:
        """What to keep after the first item step, whose columns from the n-th on were explorers: all of them, or none.

        If users' coefficients on random columns explain nothing, an explorer's sums are noise of a known size. What
        they are more than that is how far explorers have to move: if it is so many standard deviations clear of the
        noise, that is their variance from now on.
        """
        if self.mean.shape[1] == n:
            return self, seen
        known = self.covariance.copy()
        known[:, n:, :] = known[:, :, n:] = 0
        noise = np.einsum("jab,jbc,jac->ja", seen.gains, known, seen.gains) + seen.variance
        noise, gains = noise[:, n:], (seen.gains[:, n:, n:] ** 2).sum(axis=2)
        weights = gains / noise**2
        excess = float((weights * (seen.sums[:, n:] ** 2 - noise)).sum())
        if excess <= clear * float(np.sqrt(2 * ((weights * noise) ** 2).sum())):
            return Items(self.mean[:, :n], self.covariance[:, :n, :n]), seen.first(n)
        covariance, moving = self.covariance.copy(), np.arange(n, self.mean.shape[1])
        covariance[:, moving, moving] = excess / float((weights * gains).sum())
        return Items(self.mean, covariance), seen

    def updated(self, seen: Observation, n_jobs: int | None = 1) -> Items:
        """What an item step adds to what is known: a Kalman update, of some items at a time."""
        items, k = self.mean.shape
        mean, covariance, noise = np.empty((items, k)), np.empty((items, 2 * k, 2 * k)), np.empty((items, k))

        def work(rows: slice) -> None:
            mean[rows], covariance[rows], noise[rows] = self._some(rows)._updated(seen.some(rows))

        size = max(1, BLOCK_BYTES // (32 * k**2))
        for _ in over_blocks(work, (slice(at, at + size) for at in range(0, items, size)), n_jobs):
            pass
        return Items(mean, covariance, noise)

    def _some(self, rows: slice) -> Items:
        return Items(self.mean[rows], self.covariance[rows], None if self.noise is None else self.noise[rows])

    def _updated(self, seen: Observation) -> tuple[Array, Array, Array]:
        """Mean, covariance and noise.

        The sum of the ratings' own noise is the same in every step, so that it is part of what is estimated: the same
        ratings looked at twice are not twice as many.
        """
        k, known = self.mean.shape[1], self
        if self.noise is None:
            joint = np.zeros((len(self.mean), 2 * k, 2 * k))
            joint[:, :k, :k] = self.covariance
            joint[:, k:, k:] = seen.own_noise
            known = replace(self, covariance=joint, noise=np.zeros_like(self.mean))
        assert known.noise is not None
        gains = seen.gains
        reach = gains @ known.covariance[:, :k] + known.covariance[:, k:]  # (H, I) times the covariance
        spread = reach[:, :, :k] @ gains.swapaxes(1, 2) + reach[:, :, k:] + seen.std**2 * np.eye(k)
        gain = np.linalg.solve(spread, reach).swapaxes(1, 2)
        change = (gain @ (seen.sums - known.noise)[:, :, None])[:, :, 0]
        covariance = known.covariance - gain @ reach
        covariance = (covariance + covariance.swapaxes(1, 2)) / 2
        return known.mean + change[:, :k], covariance, known.noise + change[:, k:]


@dataclass(frozen=True)
class Observation:
    """What an item step's noisy sums B_j say of the items.

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
    def of(cls, step: Noisy, gram: Noisy, weights: Weights, bias_weight: float, clip: float) -> Observation:
        """From the two releases of an item step."""
        values, vectors = np.linalg.eigh(gram.values)
        K = (vectors * np.maximum(values, 1e-3 * max(values[-1], 1e-12))) @ vectors.T
        undo = np.ones(len(K))
        undo[0] = 1 / bias_weight
        noise = NOISE**2 * weights.mean_weight * clip * K
        return cls(step.values, weights.sums / weights.sums.sum(), OVERLAP * K * undo, noise, step.std)

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
