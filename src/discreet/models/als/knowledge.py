"""What a DPALS model keeps from one fit to the next: its pooled releases. All of it is computed from releases.

A continuation repeats the releases of a fit on the current ratings, and pools them with the earlier ones, weighted by
precision. Two things differ from one release with more budget. The amount of data may have changed, so sums are
compared per interaction. And the earlier ratings may be of other people: if the released item biases differ by more
than noise explains, earlier releases get less weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from discreet.models.als.estimate import ByItem, _noise
from discreet.models.als.moments import Directions, ItemFrequencies, Pooled
from discreet.models.eigen import places
from discreet.parallel import over_blocks
from discreet.privacy.releaser import Noisy
from discreet.typing import Array

N_BASE = 3  # columns of every model: the bias and two slopes
SAME = 1e-12
SINGULAR = 1e-9  # relative precisions this small are rounding errors
ITEMS = 1 << 9  # that a thread takes at a time
# Standard deviations. A continuation looks again for what may be a fluctuation of the noise, month after month: with 2,
# it would find one within a few years.
FLUCTUATION = 3.0


@dataclass(frozen=True)
class StepInformation:
    """The observations of item steps: `ItemEstimate`'s precision and information, and the ratings' own noise.

    Attributes:
        precision: The precision of phi_j, (items, k, k).
        information: The precision times the estimate, (items, k).
        own: The covariance of the ratings' own noise in phi_j.
    """

    precision: Array
    information: Array
    own: ByItem

    def changed(self, columns: Array, inflation: float, scale: float) -> StepInformation:
        """Transform the observations to other columns.

        Args:
            columns: Correlations of users' coordinates on old and new columns, (k, k').
            inflation: A factor of the variance.
            scale: The earlier unit of ratings, relative to the present one.
        """
        precision = columns.T @ self.precision @ columns / (inflation * scale**2)
        own = self.own[0], columns.T @ self.own[1] @ columns * scale**2
        return StepInformation(precision, self.information @ columns / (inflation * scale), own)

    def first(self, k: int) -> StepInformation:
        """The observations of the first k columns."""
        own = self.own[0], self.own[1][:k, :k]
        return StepInformation(self.precision[:, :k, :k], self.information[:, :k], own)

    def proves(self, k: int, limit: float = FLUCTUATION, n_jobs: int | None = None) -> bool:
        """Whether the observations of the columns from the k-th on exceed noise by `limit` standard deviations."""
        sizes, n = np.trace(self.precision, axis1=1, axis2=2), self.precision.shape[1]
        observed = np.flatnonzero(sizes > SINGULAR * sizes.max())

        def excess(items: Array) -> float:
            size = sizes[items, None, None]
            variance = np.linalg.inv(self.precision[items] / size + SINGULAR * np.eye(n)) / size
            phi = np.einsum("jab,jb->ja", variance, self.information[items])[:, k:]
            own = self.own[0][items, None] * np.diagonal(self.own[1])[k:]
            return float((phi**2 / (np.diagonal(variance, axis1=1, axis2=2)[:, k:] + own) - 1).sum())

        blocks = np.array_split(observed, 1 + len(observed) // ITEMS)
        return sum(over_blocks(excess, blocks, n_jobs)) > limit * math.sqrt(2 * len(observed) * (n - k))


@dataclass(frozen=True)
class KnownPairs:
    """A second moment from earlier releases, as a `Pool`.

    Attributes:
        pairs: Its values.
        place: The position of each item in the second moment, -1 if it is not there.
        precision: The precision of each value.
    """

    pairs: Array
    place: Array
    precision: float

    def std(self, std: float) -> float:
        """The noise after pooling a new release with this standard deviation."""
        return float((std**-2 + self.precision) ** -0.5)

    def __call__(self, release: Noisy, items: Array) -> Noisy:
        """Pool a new release. Entries without earlier values are shrunk, so that none is noisier than the others."""
        old, precision = self.place[items], release.std**-2 + self.precision
        values = release.values / release.std**2
        known = np.flatnonzero(old >= 0)
        values[np.ix_(known, known)] += self.precision * self.pairs[np.ix_(old[known], old[known])]
        return Noisy(values / precision, precision**-0.5)


@dataclass(frozen=True)
class KnownMoment:
    """A second moment that a model keeps.

    Attributes:
        values: Its values.
        items: The numbers of its items.
        scale: The standard deviation of its noise, and the sum of c^2 / n_users over its items.
    """

    values: Array
    items: Array
    scale: Array

    def of_items(self, place: Array) -> KnownMoment:
        """The second moment in another catalog, given each item's position there, or -1."""
        place = place[self.items]
        kept = place >= 0
        return KnownMoment(self.values[np.ix_(kept, kept)], place[kept], self.scale)

    def pool(self, frequencies: ItemFrequencies, inflation: float) -> KnownPairs:
        """The second moment as a `Pool`, rescaled to the present amount of data."""
        std, size = self.scale
        ratio = float(frequencies.sums[self.items].sum() ** 2 / frequencies.n_users / max(size, SAME))
        precision = (std * ratio) ** -2 / inflation if len(self.items) else 0.0
        return KnownPairs(ratio * self.values, places(self.items, len(frequencies.sums)), precision)


@dataclass(frozen=True)
class Knowledge:
    """The releases that a model keeps, for the items of one catalog.

    Attributes:
        unit: The unit of biases and steps, in units of the ratings.
        users: The mean moments of a user, and their standard deviation.
        frequencies: How often items occur.
        bias: Released item biases and their precision, (items, 2).
        items: Means and variances of item biases after all steps, (items, 2).
        chosen: The second moment of the weights of frequent items.
        residuals: The second moment of residuals, of all items, if it was released.
        loadings: Loadings of the frequent items on the directions, (frequent, directions).
        standing: Loadings of all items on the directions, and their precision, (items, directions + 1).
        steps: The observations of item steps of (bias, slopes, features, directions, other columns).
        others: Prior means of the other columns, (items, n).
        others_variance: Their prior variances.
    """

    unit: float
    users: Array
    frequencies: ItemFrequencies
    bias: Array
    items: Array
    chosen: KnownMoment
    residuals: KnownMoment
    loadings: Array
    standing: Array
    steps: StepInformation
    others: Array
    others_variance: Array

    @property
    def n_directions(self) -> int:
        """The number of directions."""
        return int(self.loadings.shape[1])

    def of_items(self, at: Array) -> Knowledge:
        """The knowledge for another catalog, given by its items' numbers in this one, or -1 for new items."""

        def moved(values: Array) -> Array:
            found: Array = np.concatenate([values, np.zeros((1, *values.shape[1:]))])[at]
            return found

        place = np.full(len(self.bias) + 1, -1)
        place[at] = np.arange(len(at))
        place = place[:-1]
        spread = np.append(self.others_variance, self.others_variance.mean(axis=0, keepdims=True), axis=0)[at]
        s = self.steps
        return replace(
            self,
            frequencies=self.frequencies.of_items(at),
            bias=moved(self.bias),
            items=moved(self.items),
            chosen=self.chosen.of_items(place),
            residuals=self.residuals.of_items(place),
            loadings=self.loadings[place[self.chosen.items] >= 0],
            standing=moved(self.standing),
            steps=StepInformation(moved(s.precision), moved(s.information), (moved(s.own[0]), s.own[1])),
            others=moved(self.others),
            others_variance=spread,
        )

    def proven(self) -> Knowledge:
        """Drop the other columns if what several fits have observed of them could be a fluctuation of the noise."""
        n = self.others.shape[1]
        k = self.steps.precision.shape[1] - n
        return self if not n or self.steps.proves(k) else self.without_others()

    def without_others(self) -> Knowledge:
        """Drop the other columns."""
        k = self.steps.precision.shape[1] - self.others.shape[1]
        return replace(
            self, steps=self.steps.first(k), others=self.others[:, :0], others_variance=self.others_variance[:, :0]
        )

    def with_users(self, release: Noisy) -> tuple[Noisy, Array]:
        """The pooled moments of all users, and the part to keep."""
        n = max(float(release.values[0] + release.values[1]) / math.sqrt(2), 10.0)
        now, noise = release.values / n, (release.std / n) ** 2
        before, variance = self.users[:-1], float(self.users[-1]) ** 2
        # Other people have other moments: the part of the difference that noise does not explain shows how far.
        wide = variance + np.maximum((now - before) ** 2 - 4 * (variance + noise), 0.0)
        pooled = (now / noise + before / wide) / (1 / noise + 1 / wide)
        std = math.sqrt(float(np.mean(1 / (1 / noise + 1 / wide))))
        return Noisy(pooled * n, std * n), np.append(pooled, std)

    def inflation(self, release: Noisy, frequencies: ItemFrequencies, scale: float) -> float:
        """The factor of the model's variances that its release of item biases calls for, compared with a new one.

        The part of the difference that noise does not explain shows how far other people's biases differ. Releases are
        compared with releases: both are relative to users' own means, which item steps correct for.
        """
        precision, variance = self.bias[:, 1] / scale**2, self.items[:, 1] * scale**2
        known = (precision > 0) & (variance > 0)
        c, bias = frequencies.sums[known], self.bias[known, 0] * scale
        noise = (_noise(release, frequencies) + 0.09 * frequencies.variance)[known] + c**2 / precision[known]
        claimed = c**2 * variance[known]
        total = noise + claimed
        off = release.values[known] - c * bias
        off = off - c * float((c * off / total).sum() / max(float((c**2 / total).sum()), SAME))
        weights = (c / total) ** 2
        size = float((weights * claimed).sum())
        error = math.sqrt(2 * float(((weights * noise) ** 2).sum()))
        if size <= 0:
            return 1.0
        return 1 + max((float((weights * (off**2 - noise)).sum()) - FLUCTUATION * error) / size, 0.0)

    def with_bias(self, release: Noisy, frequencies: ItemFrequencies, inflation: float, scale: float) -> Pooled:
        """The pooled release of item biases."""
        c, old = frequencies.sums, self.bias[:, 1] / (inflation * scale**2)
        precision = release.std**-2 + old / c**2
        values = (release.values / release.std**2 + old * self.bias[:, 0] * scale / c) / precision
        return Pooled(values, precision**-0.5)

    def between(self, found: Directions, n_items: int) -> Array:
        """Correlations of users' coordinates on old and new directions, (old, new)."""
        loadings = np.zeros((n_items, self.n_directions))
        loadings[self.chosen.items] = self.loadings
        if not (found.n and self.n_directions):
            return np.zeros((self.n_directions, found.n))
        left, values, right = np.linalg.svd(loadings.T @ found.places, full_matrices=False)
        between: Array = (left * np.minimum(values, 1.0)) @ right
        return between

    def with_standing(self, release: Noisy, frequencies: ItemFrequencies, between: Array, inflation: float) -> Pooled:
        """The pooled release of all items' loadings."""
        d, c = release.values.shape[1], frequencies.sums[:, None]
        squares = np.maximum((between**2).sum(axis=0), SAME)
        old = self.standing[:, -1:] * squares / inflation * d / c**2
        before = self.standing[:, :-1] @ between / squares * c / math.sqrt(d)
        precision = release.std**-2 + old
        return Pooled((release.values / release.std**2 + old * before) / precision, precision**-0.5)

    def columns(self, between: Array, n_features: int) -> Array:
        """The argument of `StepInformation.changed`: all columns but the directions stay the same."""
        k, d = self.steps.precision.shape[1], self.n_directions
        first, n_others = N_BASE + n_features, self.others.shape[1]
        new = between.shape[1]
        found = np.zeros((k, first + new + n_others))
        if k == first + d + n_others:  # otherwise the features differ
            found[:first, :first] = np.eye(first)
            found[first : first + d, first : first + new] = between
            found[first + d :, first + new :] = np.eye(n_others)
        else:
            found[:N_BASE, :N_BASE] = np.eye(N_BASE)
        return found


def standing_of(release: Noisy | Pooled, frequencies: ItemFrequencies) -> Array:
    """`Knowledge.standing`, from the release of `standing`."""
    d, c = release.values.shape[1], frequencies.sums[:, None]
    precision = np.broadcast_to(c**2 / (d * np.square(release.std)), release.values.shape).mean(axis=1)
    return np.column_stack([release.values * math.sqrt(d) / c, precision])
