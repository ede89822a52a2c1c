"""The public side of DPALS: posteriors of the items. All of it is computed from releases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from discreet.kernels import item_posteriors
from discreet.models.als.moments import ItemFrequencies, Pooled, ratio, standardized
from discreet.parallel import over_blocks
from discreet.privacy.releaser import Noisy, noise_edge
from discreet.typing import Array

# In the unit of `UserStatistics`, about the standard deviation of a user's ratings. These are starting points of
# estimates from releases, or values that hold where noise hides the data. They were fitted to validation errors on
# ML-1M, Jester-1, anime, MovieTweetings and generated data; `benchmarks/regret.py --constants` prints how sensitive the
# errors are to them.
BIAS_SPREAD = 0.35  # standard deviation of item biases about what popularity predicts, before any is released
FEATURE_BIAS = 0.2  # the same for the effect of a public feature on biases
COLUMN_SPREAD = 0.11  # the same for factors about what co-occurrences predict
SLOPE_BIAS, SLOPE_POPULARITY, COLUMN, FEATURE = 1.2, 25.0, 300.0, 10.0  # 1 / variance of users' coefficients
USER_PRIOR = 0.6  # size of the prior mean of a user's vector, from the items they chose, in standard deviations
OVERLAP = 1.5  # about what an item step observes, relative to what the (clipped) shared Gram matrix predicts
GAIN_ERROR, NOISE_ERROR = 0.5, 0.2  # relative errors of that ratio, and of the ratings' own noise
PROBES, PROBE_SIZE, PROBE_SPREAD = 8, 0.07, 0.2  # random probe columns: their number, size, and largest growth
WEIGHTS = tuple(0.2 * 1.25**step for step in range(13))  # candidate weights of biases relative to factors in item steps
GRAM_FREEDOM = 2.0  # degrees of freedom of the prior of the shared Gram matrix: its diagonal's relative variance is 1
GRAM_LEAST = 0.1  # the value of a direction that noise hides in that matrix, relative to the average
GRAM_FILL = 0.5  # the share of its bound that an average user may fill, given earlier steps; above, many are clipped
USER_SQUARE = 0.3  # prior mean square of the numbers of users' vectors
AS_EXPECTED = 10.0  # pseudo-items with the prior variance, when growth is estimated
SCALE_ERROR = 0.5  # relative error of the assumed sizes of columns; with .3 and .8, test errors change by about .1%
POPULARITY = 1  # index of the popularity factor; factor 0 is the slope of biases


def _noise(release: Noisy | Pooled, frequencies: ItemFrequencies) -> Array:
    """The variance of released sums about the true biases: that of the release plus that of the ratings."""
    noise: Array = release.std**2 + frequencies.squares
    return noise


def _prior_mean(release: Noisy | Pooled, frequencies: ItemFrequencies, features: Array) -> Array:
    """The prior mean of item biases: a regression of their sums on popularity and public features."""
    c = frequencies.sums
    noise = _noise(release, frequencies) + 0.09 * frequencies.variance + (BIAS_SPREAD * c) ** 2
    columns = np.column_stack([frequencies.log_popularity, features])  # their mean is 0: so is that of biases
    design = columns * (c / np.sqrt(noise))[:, None]
    penalty = FEATURE_BIAS**-2 * np.eye(columns.shape[1])
    beta = np.linalg.solve(design.T @ design + penalty, design.T @ (release.values / np.sqrt(noise)))
    line: Array = columns @ beta
    return line


def _bias_spread(release: Noisy | Pooled, frequencies: ItemFrequencies, before: Array) -> float:
    """The variance of item biases about their prior mean, by the moments of their sums."""
    c, noise = frequencies.sums, _noise(release, frequencies) + 0.09 * frequencies.variance
    total = noise + (BIAS_SPREAD * c) ** 2
    # Items whose sums are mostly noise get little weight: a small error in its assumed size would mislead.
    weights = (c / total) ** 2 * ((BIAS_SPREAD * c) ** 2 / total) ** 2
    excess = (release.values - c * before) ** 2 - noise
    size = float((weights * c**2).sum())
    error = math.sqrt(2 * float(((weights * total) ** 2).sum()))
    return max(ratio(float((weights * excess).sum()), size, error, BIAS_SPREAD**2, BIAS_SPREAD**2)[0], 1e-4)


def user_priors(factors: Array, frequencies: ItemFrequencies) -> Array:
    """The prior mean of the vectors of users who chose an item: users like what is similar to what they have."""
    return USER_PRIOR * standardized(factors, frequencies)


ByItem = tuple[Array, Array]  # a matrix for each item: a size (items), times the same matrix (k, k) for all


@dataclass(frozen=True)
class ItemPosterior:
    """A Gaussian posterior of each item's bias and factors, theta_j = (b_j, v_j).

    Attributes:
        mean: (items, 1 + columns).
        covariance: (items, 1 + columns, 1 + columns).
    """

    mean: Array
    covariance: Array

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

    @cached_property
    def variance(self) -> Array:
        """The variance of each entry of `mean`."""
        found: Array = np.maximum(np.diagonal(self.covariance, axis1=1, axis2=2), 0)  # rounding may make it negative
        return found

    def taste(self, frequencies: ItemFrequencies) -> float:
        """How far users' tastes spread along the learned factors: the mean of |v_j|^2, without popularity.

        The size of the popularity column is assumed, not learned. Where ratings show no tastes, this is about 0.
        """
        learned = np.delete(self.factors, POPULARITY, axis=1)
        centered = learned - np.average(learned, axis=0, weights=frequencies.sums)
        return float(np.average((centered**2).sum(axis=1), weights=frequencies.sums))

    def priors(self, frequencies: ItemFrequencies) -> Array:
        """The `user_priors` of its factors."""
        return user_priors(self.factors, frequencies)

    @classmethod
    def from_bias(cls, release: Noisy | Pooled, frequencies: ItemFrequencies, features: Array) -> ItemPosterior:
        """Item biases from the noisy sums s_j of weighted, centered ratings: s_j = c_j b_j + noise.

        The prior mean of b_j is linear in log popularity and features, with coefficients fitted to the same sums.
        """
        c = frequencies.sums
        before = _prior_mean(release, frequencies, features)
        noise = _noise(release, frequencies) + 0.09 * frequencies.variance
        spread = _bias_spread(release, frequencies, before)
        gain = c * spread / (c**2 * spread + noise)
        mean = before + gain * (release.values - c * before)
        return cls(mean[:, None], (spread * (1 - gain * c))[:, None, None])

    def with_columns(self, columns: Array, variance: Array | float) -> ItemPosterior:
        """Add factors that are known with some variance."""
        (m, k), n = self.mean.shape, columns.shape[1]
        covariance, new = np.zeros((m, k + n, k + n)), np.arange(k, k + n)
        covariance[:, :k, :k] = self.covariance
        covariance[:, new, new] = variance
        return ItemPosterior(np.column_stack([self.mean, columns]), covariance)

    def with_slopes(self, frequencies: ItemFrequencies) -> ItemPosterior:
        """Add two columns on which users differ: how closely they follow the common taste, and popularity."""
        centered = self.bias - np.average(self.bias, weights=frequencies.sums)
        size, known = SLOPE_BIAS**-0.5, self.covariance[:, 0, 0]
        popular = frequencies.log_popularity * SLOPE_POPULARITY**-0.5
        variance = np.column_stack([0.06**2 + known * size**2, np.full(len(known), 0.1**2)])
        items = self.with_columns(np.column_stack([centered * size, popular]), variance)
        items.covariance[:, 0, 1] = items.covariance[:, 1, 0] = size * known  # the slope is wrong where the bias is
        return items

    def with_features(self, features: Array, frequencies: ItemFrequencies) -> ItemPosterior:
        """Add columns of public features of the items, on which users may differ."""
        if not features.size:
            return self
        centered = features - np.average(features, axis=0, weights=frequencies.sums)
        return self.with_columns(centered / np.sqrt(FEATURE), 0.05**2)

    def bias_weight(self, frequencies: ItemFrequencies, vectors: Array, mu: float, n_jobs: int | None = None) -> float:
        """The weight of biases relative to factors in item steps that leaves the least error, from WEIGHTS.

        A user's contribution has a fixed norm, in the direction (weight, u). So steps with a total of mu observe b_j
        with the precision (mu c_j weight)^2 / (weight^2 + |u|^2), and number a of v_j with u_a^2 in place of `weight`.

        Args:
            frequencies: How often items occur.
            vectors: Mean squares of users' u.
            mu: The mu of all steps together.
            n_jobs: Number of threads, as in scikit-learn.
        """
        c, own, k = frequencies.sums[:, None], frequencies.squares[:, None], len(vectors)
        matters, size = np.append(1.0, vectors), float(vectors.sum())
        known = 1 / np.maximum(self.variance[:, : k + 1], 1e-9)

        def error(weight: float) -> float:
            noise = (weight**2 + size) / mu**2 + own * np.append(weight**2, vectors)
            left = noise / (known * noise + c**2 * np.append(weight, vectors) ** 2)
            return float((c * left).sum(axis=0) @ matters)

        return min(zip(over_blocks(error, WEIGHTS, n_jobs), WEIGHTS, strict=True))[1]

    def with_probes(self, seed: int = 0) -> ItemPosterior:
        """Add random probe columns, with which the first item steps look for tastes that no other column explains."""
        columns = np.random.default_rng(seed).standard_normal((len(self.mean), PROBES))
        return self.with_columns(PROBE_SIZE * columns, PROBE_SPREAD**2)

    def first(self, n: int) -> ItemPosterior:
        """The posterior of the first n columns."""
        return ItemPosterior(self.mean[:, :n].copy(), self.covariance[:, :n, :n].copy())

    def probed(self, n: int, observed: Observation, limits: Sequence[float]) -> list[float]:
        """For each limit, the variance of random probe columns, from the n-th on, after an item step; 0 to drop them.

        If users' coefficients on probes explain nothing, a probe's sums are noise of known variance. Their excess shows
        how far probes have to move, and becomes their variance, unless it could be a fluctuation of the noise, of up to
        `limit` standard deviations, or an error in the assumed size of the ratings' own noise.
        """
        # H_j is shares_j times the gain, whose rows of the probes are (others, among): g^T C_j g is linear in C_j.
        others, among = np.hsplit(observed.gain[n:], [n])
        squares, own = observed.shares[:, None] ** 2, observed.own_noise[:, n:]
        pairs = np.einsum("ab,ac->bca", others, others).reshape(n * n, -1)
        known = self.covariance[:, :n, :n].reshape(-1, n * n) @ pairs
        noise = squares * known + observed.std**2 + own
        gains = squares * (among**2).sum(axis=1)
        weights = gains / noise**2
        excess = float((weights * (observed.sums[:, n:] ** 2 - noise)).sum())
        chance = math.sqrt(2 * float(((weights * noise) ** 2).sum()))
        usual, error = PROBE_SPREAD**2, NOISE_ERROR * float((weights * own).sum())
        variance = max(ratio(excess, float((weights * gains).sum()), chance, usual, usual)[0], 1e-6)
        return [variance if excess > limit * chance + error else 0.0 for limit in limits]


@dataclass(frozen=True)
class ItemEstimate:
    """What item steps have observed of the items, combined with a prior.

    Without fresh noise, steps would converge to phi_j = theta_j + H_j^-1 e_j, the regression on all ratings. The
    ratings' own noise e_j is the same in every step. So all steps together estimate phi_j, each of them by
    B_j + H_j mean_j = H_j phi_j + fresh noise + error. The posterior of theta_j combines the prior with this one
    estimate, whose variance includes that of H_j^-1 e_j.

    The error is that of H_j, which is known only up to a relative error of GAIN_ERROR. It is large as long as phi_j is
    far from the mean, so later steps count more, and a wrong gain slows convergence down without changing its limit.

    Attributes:
        before: The prior: the posterior before the first step.
        precision: The precision of phi_j, (items, k, k).
        information: The precision times the estimate, (items, k).
        gap: The second moment of phi_j about the mean of theta_j, (items, k, k); None before the first step.
        items: The posterior now.
        growth: Factors of the prior variance of the numbers of theta_j, estimated from all items together, (k,).
        scale: Factors of the prior means of factors, estimated in the same way, (k,).
    """

    before: ItemPosterior
    precision: Array
    information: Array
    gap: Array | None
    items: ItemPosterior
    growth: Array
    scale: Array

    @classmethod
    def nothing(cls, items: ItemPosterior) -> ItemEstimate:
        """The estimate before the first step."""
        one = np.ones(items.mean.shape[1])
        return cls(items, np.zeros(items.covariance.shape), np.zeros(items.mean.shape), None, items, one, one)

    @classmethod
    def of(cls, before: ItemPosterior, precision: Array, information: Array, own: ByItem) -> ItemEstimate:
        """The estimate from what earlier steps have observed; `own` is the covariance of the ratings' own noise."""
        one = np.ones(before.mean.shape[1])
        found = cls(before, precision, information, None, before, one, one)
        for _ in range(3):
            found = found._with(own, None, None)
        return found

    def widened(self, columns: Array, variance: Array | float) -> ItemEstimate:
        """Add columns of which nothing has been observed."""
        items, k, n = self.items.with_columns(columns, variance), self.items.mean.shape[1], columns.shape[1]
        if self.gap is None:
            return ItemEstimate.nothing(items)
        before = self.before.with_columns(columns, variance)
        precision, gap = (np.pad(each, ((0, 0), (0, n), (0, n))) for each in (self.precision, self.gap))
        gap[:, np.arange(k, k + n), np.arange(k, k + n)] = variance
        information = np.pad(self.information, ((0, 0), (0, n)))
        growth, scale = (np.append(each, np.ones(n)) for each in (self.growth, self.scale))
        return ItemEstimate(before, precision, information, gap, items, growth, scale)

    def updated(self, observed: Observation, n_jobs: int | None) -> ItemEstimate:
        """Add what another step has observed."""
        step = observed.moves, observed.shares**-2, observed.fresh, self.items.mean, self.gap
        return self._with(observed.own, step, n_jobs)

    def _with(self, own: ByItem, step: Any, n_jobs: int | None) -> ItemEstimate:
        precision, information, gap, mean, covariance = item_posteriors(
            (self.before.mean, self.before.covariance),
            (self.scale, np.sqrt(self.growth)),
            own,
            (self.precision, self.information),
            step,
            error=GAIN_ERROR,
            n_jobs=n_jobs,
        )
        items = ItemPosterior(mean, covariance)
        return ItemEstimate(self.before, precision, information, gap, items, self._growth(items), self._scale(items))

    def _growth(self, items: ItemPosterior) -> Array:
        """MacKay's rule: squared changes over the number of well-determined parameters, plus AS_EXPECTED items."""
        expected = self.before.variance
        changes = ((items.mean - self.before.mean * self.scale) ** 2 / expected).sum(axis=0)
        learned = (1 - items.variance / (expected * self.growth)).sum(axis=0)
        growth: Array = (changes + AS_EXPECTED) / (learned + AS_EXPECTED)
        growth[:2] = 1  # biases and their slopes: their spread is known from the release of biases
        return growth

    def _scale(self, items: ItemPosterior) -> Array:
        """A Newton step toward the scale that maximizes the likelihood of the observations."""
        first, spread = self.before.mean, self.before.variance * self.growth
        learned = 1 - items.variance / spread
        size = (first**2 * learned / spread).sum(axis=0) + SCALE_ERROR**-2
        change = (first * (items.mean - first * self.scale) / spread).sum(axis=0) - (self.scale - 1) / SCALE_ERROR**2
        scale: Array = np.maximum(self.scale + change / size, 0.0)
        # Biases were released themselves. Biases of rare items contain the noise of their few ratings, which looks like
        # a slope, so that column may only shrink.
        scale[0], scale[1] = 1, min(scale[1], 1)
        return scale


def _shrunken(gram: Pooled, usual: Array) -> Array:
    """A users' Gram matrix, shrunk where it may be mostly noise.

    The prior is a Wishart distribution with GRAM_FREEDOM degrees of freedom and a diagonal mean: `usual`, the
    contribution of users whose residuals are all unexplained, times a factor that is estimated.

    Args:
        gram: Symmetric. The variance of its noise off the diagonal is half of that on it.
        usual: The diagonal, (k,).
    """
    variance = np.diagonal(gram.std) ** 2
    size = float((usual**2 / variance).sum())
    factor, _ = ratio(float((usual * np.diagonal(gram.values) / variance).sum()), size, math.sqrt(size), 1.0, 1.0)
    mean = np.diag(usual) * max(factor, 0.5)
    spread = np.outer(np.diagonal(mean), np.diagonal(mean)) / GRAM_FREEDOM
    found: Array = mean + spread / (spread + gram.std**2 / 2) * (gram.values - mean)
    return found


@dataclass(frozen=True)
class Observation:
    """The noisy sums B_j of an item step.

    B_j = sum over users of om w e (bias_weight, u), where om is a user's scaling factor, w the item's weight, and the
    residual e is (1, u) . (theta_j - its mean now) plus the rating's own noise. So B_j = H_j (theta_j - mean) + e_j +
    fresh noise: H_j is about c_j / (sum of c) times the shared Gram matrix of all users' (bias_weight, u), and e_j is
    the sum of the ratings' own noise.

    Attributes:
        sums: B_j, (items, k).
        shares: c_j / (sum of c).
        gain: H_j / shares_j, (k, k).
        noise: The covariance of e_j, divided by squares_j, (k, k).
        squares: `ItemFrequencies.squares`.
        std: The standard deviation of the fresh noise.
        vectors: Mean squares of users' u, (k - 1).
        variance: Lower and upper estimates of the variance of ratings about predictions, up to a factor, since users
            with small residuals count more.
    """

    sums: Array
    shares: Array
    gain: Array
    noise: Array
    squares: Array
    std: float
    vectors: Array
    variance: tuple[float, float]

    @classmethod
    def of(
        cls,
        step: Noisy,
        gram: Pooled,
        pooled: Pooled,
        frequencies: ItemFrequencies,
        vectors: Array,
        *,
        bias_weight: float,
        clip: float,
    ) -> Observation:
        """Make one from the two releases of an item step, and the pooled Gram matrices of all steps so far.

        In those, the weight of biases is 1. `vectors` are the previous mean squares of users' u, for the first columns.
        Uncertain variances are taken at three standard deviations either way.
        """
        vectors = np.append(vectors, np.full(len(pooled.values) - 1 - len(vectors), USER_SQUARE))
        c, sizes = frequencies.sums, np.append(bias_weight, np.ones(len(vectors)))
        usual = clip * c.sum() / math.sqrt(bias_weight**2 + vectors.sum()) * np.append(1.0, vectors)
        values, vectors = np.linalg.eigh(_shrunken(pooled, usual) * np.outer(sizes, sizes))
        # Noise may hide a direction. Assume that users vary along it; otherwise nothing would be learned about it.
        std = np.sqrt(np.mean(np.square(pooled.std * np.outer(sizes, sizes))))
        hidden = min(noise_edge(std, len(sizes)), GRAM_LEAST * values.mean())
        K = (vectors * np.maximum(values, max(hidden, 1e-3 * max(values[-1], 1e-12)))) @ vectors.T
        noise = clip**2 / np.trace(K) * K  # a user's contribution has that norm, and is mostly noise
        vectors = np.diagonal(K)[1:] / K[0, 0] * bias_weight**2
        # Users' scaling factors, clip / (norm of their residuals times that of the vectors), add up to K.
        found = np.array([sizes**2 @ np.diagonal(gram.values), gram.values[0, 0]])
        error = 3 * np.array([np.linalg.norm(sizes**2 * np.diagonal(gram.std)), gram.std[0, 0]])
        least, most = (
            float((clip * c.sum()) ** 2 / np.maximum(each, 1e-9).prod()) for each in (found + error, found - error)
        )
        return cls(
            step.values, c / c.sum(), OVERLAP * K / sizes, noise, frequencies.squares, step.std, vectors, (least, most)
        )

    @cached_property
    def _inverse(self) -> Array:
        return np.linalg.inv(self.gain)

    @property
    def moves(self) -> Array:
        """H_j^-1 B_j: approximately the distance of phi_j from the mean, (items, k)."""
        moves: Array = (self.sums / self.shares[:, None]) @ self._inverse.T
        return moves

    @property
    def fresh(self) -> Array:
        """The covariance of H_j^-1 times fresh noise, times shares_j^2, (k, k)."""
        fresh: Array = self.std**2 * self._inverse @ self._inverse.T
        return fresh

    @property
    def own(self) -> ByItem:
        """The covariance of H_j^-1 e_j."""
        return self.squares / self.shares**2, self._inverse @ self.noise @ self._inverse.T

    @property
    def own_noise(self) -> Array:
        """The variance of e_j, (items, k)."""
        noise: Array = self.squares[:, None] * np.diagonal(self.noise)
        return noise

    def first(self, n: int) -> Observation:
        """The observation of the first n columns."""
        gain, noise = self.gain[:n, :n], self.noise[:n, :n]
        return replace(self, sums=self.sums[:, :n], gain=gain, noise=noise, vectors=self.vectors[: n - 1])


@dataclass
class SharedVectors:
    """What item steps show about users' vectors (kappa, u), carried from one step to the next.

    Attributes:
        bound: The bound on a user's contribution to the shared Gram matrix.
        clip: The norm of a user's contribution to an item step.
        squares: Mean squares of the numbers of u.
        pooled: The shared Gram matrices of all steps, where the weight of biases is 1.
        shrink: The factor of the next contributions to the shared Gram matrix that keeps most of them within the bound.
        n_steps: The number of steps so far.
        first: A lower estimate of what the first step left unexplained.
        unexplained: An upper estimate of what the last one left, relative to that.
    """

    bound: float
    clip: float
    squares: Array
    pooled: Pooled
    shrink: float = 1.0
    n_steps: int = 0
    first: float = math.nan
    unexplained: float = 1.0

    @classmethod
    def nothing(cls, k: int, bound: float, clip: float) -> SharedVectors:
        """The state before the first step, for items with k numbers."""
        return cls(bound, clip, np.full(k - 1, USER_SQUARE), Pooled(np.zeros((0, 0)), np.zeros((0, 0))))

    def first_numbers(self, k: int) -> SharedVectors:
        """The estimates for the first k numbers."""
        values, std = (each[:k, :k] for each in (self.pooled.values, self.pooled.std))
        return replace(self, squares=self.squares[: k - 1], pooled=Pooled(values, std))

    def observed(self, gram: Noisy, sums: Noisy, bias_weight: float, frequencies: ItemFrequencies) -> Observation:
        """Add the two releases of another step. Returns its observation."""
        k = len(gram.values)
        unit = self.shrink * np.square(np.append(max(bias_weight, 1.0), np.ones(k - 1)))
        shared = Pooled(*(each / np.sqrt(np.outer(unit, unit)) for each in (gram.values, gram.std)))
        self.pooled = _pooled(self.pooled, shared, self.n_steps) if self.n_steps else shared
        # A lower estimate, and times `shrink`.
        filled = float(np.diagonal(self.pooled.values) @ unit) - 3 * gram.std * math.sqrt(k)
        self.shrink = min(self.shrink * GRAM_FILL * self.bound * frequencies.n_users / max(filled, 1e-9), 1.0)
        found = Observation.of(
            sums, shared, self.pooled, frequencies, self.squares, bias_weight=bias_weight, clip=self.clip
        )
        least, most = found.variance
        self.first = self.first if self.n_steps else least
        self.unexplained, self.n_steps = most / self.first, self.n_steps + 1
        return found


def _pooled(before: Pooled, now: Pooled, at: int) -> Pooled:
    """The pooled shared Gram matrices of steps 0 to `at`. Later vectors count more.

    Earlier ones are rescaled to the size of the last one: as residuals fall, users' scaling factors grow. New numbers
    come from the last one alone.
    """
    k = min(len(now.values), len(before.values))
    old, new = (max(float(np.trace(each.values[:k, :k])), 1e-9) for each in (before, now))
    error, share = 3 * float(np.linalg.norm(np.diagonal(now.std))), 2 / (at + 2)
    rest = (1 - share) * min(max(old, new - error), new + error) / old
    values, std = now.values.copy(), now.std.copy()
    values[:k, :k] = rest * before.values[:k, :k] + share * now.values[:k, :k]
    std[:k, :k] = np.hypot(rest * before.std[:k, :k], share * now.std[:k, :k])
    return Pooled(values, std)
