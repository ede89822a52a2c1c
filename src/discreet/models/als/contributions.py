"""The private side of DPALS: what a user contributes to each release, from their own ratings and public arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from threading import Lock

import numpy as np

from discreet import kernels
from discreet.engine.batches import FOLDS, by_other_folds
from discreet.kernels import Table
from discreet.models.als.estimate import MAGNITUDES, ItemFrequencies, ItemPosterior
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

USER_VECTOR = 1.8  # weight of a user's vector, squared, about its prior mean
USER_CHOICES = 7.0  # zeros that are averaged with the priors of a user's items
ONCE = Lock()  # of threads that need the tables of a step, the first makes them
LIFT = 10.0  # the most that a contribution to an item step is lengthened by, where predictions explain nothing


@dataclass(frozen=True)
class Scale:
    """Counts ratings from the middle of their range, in a unit."""

    value_range: tuple[float, float]
    unit: float

    @property
    def reach(self) -> float:
        """How many units the ends of the range are from its middle."""
        low, high = self.value_range
        return (high - low) / 2 / self.unit

    def __call__(self, batch: UserBatch) -> UserBatch:
        """Some users' ratings in the unit."""
        # Rounding may take the ends of the range beyond the reach; the proof needs that nothing is.
        values = kernels.scaled(batch.values, sum(self.value_range) / 2, self.unit, self.reach)
        return UserBatch(batch.indptr, batch.indices, values)


def own_moments(batch: UserBatch, reach: float) -> Array:
    """The moments of a user's n ratings y, as fractions of the largest possible values: nonnegative numbers.

    With x for their mean and d for their variance these are (1 + x) / sqrt 2, (1 - x) / sqrt 2, d, 1 - 1 / n and x^2.
    Behind them is a 1 at the place of the order of magnitude of d: place k is for d from 4^-(k + 1) to 4^-k. It says
    how far ratings spread where the declared range is so wide that noise would hide d. As d is at most 1 - x^2, the
    squares add up to at most 3 - x^2 + 2 x^4 and this 1, and so to at most 5.
    """
    counts, half = np.maximum(batch.counts, 1), np.sqrt(0.5)
    x = batch.row_sums(batch.values) / counts / reach
    d = batch.row_sums(kernels.deviations(batch.values, batch.indptr, 0.0, 0.0) ** 2) / counts / reach**2
    # By the exponent of d, which is exact: a logarithm's last bit may depend on who else is in the batch.
    place = np.clip(-np.frexp(d)[1] // 2, 0, MAGNITUDES - 1)
    magnitude = (place[:, None] == np.arange(MAGNITUDES)) & (d > 0)[:, None]
    return np.column_stack([(1 + x) * half, (1 - x) * half, d, 1 - 1 / counts, x**2, magnitude])


def own_weights(batch: UserBatch, a: Array) -> Array:
    """A user's weights of their items: a_j scaled to an L2 norm of 1."""
    return kernels.unit_rows(batch.indptr, batch.indices, by_item=a)


def own_deviations(batch: UserBatch, a: Array, mean: float, offset_penalty: float) -> Array:
    """A user's ratings about their own mean, shrunk to the public one, times the weights of their items."""
    return own_weights(batch, a) * kernels.deviations(batch.values, batch.indptr, offset_penalty, mean)


@dataclass(frozen=True)
class Extension:
    """Where users stand on the directions of taste, for each of their items: an observation of all items.

    A user stands at h = the sum of their weights times the items' loadings. For an item, that is over the items of the
    other folds: an item does not say where it stands itself.

    Attributes:
        loadings: Of the frequent items, (items, directions); other rows are 0.
        chosen: What users weigh their frequent items by; 0: not frequent.
        a: What they weigh all their items by.
    """

    loadings: Array
    chosen: Array
    a: Array

    def __call__(self, batch: UserBatch) -> tuple[Array, Array]:
        """The x of each item, of length 1 together; and a user's directions, one for each fold."""
        lengths, vectors = by_other_folds(batch, own_weights(batch, self.chosen), self.loadings)
        weights = own_weights(batch, self.a)
        return kernels.unit_rows(batch.indptr, batch.indices, weights, by_fold=lengths), vectors


@dataclass(frozen=True)
class ItemStep:
    """An item step: a user's regressions on the public items, and what these leave unexplained.

    The residual of a rating is that of the vector which was fitted to the other folds: with a vector that was fitted to
    the rating, its noise would be in both, and their product would not average out.

    Attributes:
        items: What is known of the items.
        frequencies: How often they occur.
        mean: The mean rating.
        offset_penalty: Of a user's offset, squared.
        vector_penalty: Of a user's vector about its prior mean, squared.
        bias_weight: The weight of biases against factors.
        clip: The length of a user's contribution.
        shrink: A public factor of users' contributions to the shared Gram matrix.
        lift: The most that a contribution is lengthened by.
    """

    items: ItemPosterior
    frequencies: ItemFrequencies
    mean: float
    offset_penalty: float
    vector_penalty: float
    bias_weight: float
    clip: float
    shrink: float = 1.0
    lift: float = LIFT

    @cached_property
    def base(self) -> Array:
        """The prediction for each item before anything is known of the user."""
        base: Array = (self.items.bias + self.mean).astype(np.float32)
        return base

    @cached_property
    def tables(self) -> tuple[Table, Table]:
        """A constant and the items' factors, and their priors. In single precision: noise is far larger."""
        factors, prior = self.items.factors, self.items.priors(self.frequencies)
        columns = np.pad(factors, ((0, 0), (1, 0)), constant_values=1), np.pad(prior, ((0, 0), (1, 0)))
        return Table.of(columns[0], np.float32), Table.of(columns[1], np.float32)

    @cached_property
    def penalty(self) -> Array:
        """Of a user's offset, and of each number of their vector."""
        penalty = np.full(self.items.mean.shape[1], self.vector_penalty, np.float32)
        penalty[0] = self.offset_penalty
        return penalty

    def _contribution(self, batch: UserBatch, clip: float) -> tuple[Array, Array, Array]:
        with ONCE:
            (table, prior), base = self.tables, self.base
        return kernels.item_step(
            batch.indptr,
            batch.indices,
            batch.values,
            table,
            prior=prior,
            prior_count=USER_CHOICES,
            penalty=self.penalty,
            base=base,
            folds=FOLDS,
            a=self.frequencies.a,
            bias_weight=self.bias_weight,
            clip=clip,
            lift=self.lift,
        )

    def residuals(self, batch: UserBatch) -> Array:
        """For each rating w_j e_j |A|: weight, residual, and length of its fold's vector A = (bias_weight, u)."""
        return self._contribution(batch, 0.0)[0]

    def __call__(self, batch: UserBatch) -> tuple[Array, tuple[Array, Array]]:
        """The b for the shared Gram matrix; and for each rating x_j, and the directions a of each user.

        A user's x is scaled to the bound from above and from below: users count equally if their ratings hardly differ,
        or if most of them are explained. The b of a fold is its vector, in which biases
        weigh at least 1, times the root of `shrink`, and of the fold's share of the x.
        """
        x, directions, rows = self._contribution(batch, self.clip)
        rows *= math.sqrt(self.shrink)
        rows[:, :: directions.shape[1]] *= max(1 / self.bias_weight, 1.0)
        return rows, (x, directions)
