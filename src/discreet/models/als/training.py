"""How DPALS learns: what is released, in order, and what is made of it. The private side is in `contributions.py`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from discreet.engine import Blocks
from discreet.engine.batches import DENSE_CELLS, equal_weights, user_batches
from discreet.models.als.contributions import (
    ItemStep,
    Scale,
    on_frequent,
    own_deviations,
    own_moments,
    own_values,
    own_weights,
)
from discreet.models.als.estimate import (
    ItemFrequencies,
    ItemPosterior,
    Observation,
    co_occurrence_columns,
    residual_columns,
    upper_spread,
)
from discreet.models.als.settings import (
    BIAS,
    COLUMN_SPREAD,
    GRAM,
    POPULARITY,
    RESIDUAL_SPREAD,
    SECOND_MOMENT,
    STEP,
    USERS,
    WEIGHTS,
    Settings,
)
from discreet.privacy import GramSum, OuterSum, Releaser, VectorSum
from discreet.privacy.releaser import Noisy
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

if TYPE_CHECKING:
    from discreet.engine.batches import Ratings


TYPICAL_SPREAD = 0.9  # of ratings about their user's mean, in quarters of their range, where constants were set
LEAST_SPREAD = 0.05  # in that
NO_SPREAD = 0.05  # item biases that spread less than this are none


@dataclass
class Training:
    """One fit, or its continuation."""

    releaser: Releaser
    settings: Settings
    ratings: Ratings
    scale: Scale

    @classmethod
    def of(cls, releaser: Releaser, settings: Settings, ratings: Ratings, unit: float | None = None) -> Training:
        """In a unit of a quarter of the range of ratings, unless another is known."""
        assert ratings.value_range is not None
        low, high = ratings.value_range
        return cls(releaser, settings, ratings, Scale((low, high), unit or (high - low) / 4))

    def _users(self, most_users: int | None = None) -> Blocks[UserBatch]:
        users = user_batches(self.ratings, most_users)
        return users.map(self.scale)

    def begin(self, features: Array) -> tuple[float, ItemFrequencies, ItemPosterior]:
        """All releases before the item steps: the mean rating, how often items occur, and what is known of them."""
        mean, frequencies = self._start()
        statistic = VectorSum(self.ratings.n_items, self.settings.bounds[BIAS])
        contribution = partial(own_deviations, a=frequencies.a, mean=mean)
        bias = self.releaser.release(BIAS, statistic, self._users(), contribution)
        if upper_spread(bias, frequencies) < NO_SPREAD:
            self.settings = self.settings.without_biases()
        items = ItemPosterior.from_bias(bias, frequencies, features).with_slopes(frequencies)
        items = items.with_features(features, frequencies)
        if self.settings.looks_for_directions:
            items = self._with_directions(items, frequencies, mean)
        return mean, frequencies, items

    def go_on(
        self, known: tuple[float, ItemFrequencies, ItemPosterior]
    ) -> tuple[float, ItemFrequencies, ItemPosterior]:
        """The same for a model that exists: how often items occur now."""
        mean, before, items = known
        n_users, _, _ = self._count_users()
        return mean, before.updated(self._weights(before.a), n_users), items

    def steps(self, mean: float, frequencies: ItemFrequencies, items: ItemPosterior) -> ItemPosterior:
        """All item steps."""
        s, m, known = self.settings, self.ratings.n_items, items.mean.shape[1]
        items = items.with_probes()
        users = self._users()
        for at in range(s.n_steps):
            step, k = ItemStep(items.means, frequencies, mean, s), items.mean.shape[1]
            statistics = [(GRAM, GramSum(k, s.bounds[GRAM])), (STEP, OuterSum((m, k), s.bounds[STEP]))]
            gram, sums = self.releaser.release_together(statistics, users, step)
            observed = Observation.of(sums, gram, frequencies, s.bias_weight, s.step_clip)
            if at == 0:
                items, observed = items.probed(known, observed, s.clear)
            items = items.updated(observed, self.releaser.n_jobs)
        return items

    def _count_users(self) -> tuple[float, float, float]:
        """About how many users there are, their mean rating, and an upper bound of how far they spread about it."""
        reach = self.scale.reach
        statistic = VectorSum(3, self.settings.bounds[USERS], cone="second-order")
        users = self.releaser.release(USERS, statistic, self._users(), partial(own_moments, reach=reach))
        n_users = max(float(users.values[0]), 10.0)
        spread = reach * math.sqrt(max(float(users.values[2]) + 2 * users.std, 0.0) / n_users)
        return n_users, reach * float(np.clip(users.values[1] / n_users, -1, 1)), spread

    def _weights(self, a: Array) -> Noisy:
        statistic = VectorSum(self.ratings.n_items, self.settings.bounds[WEIGHTS], cone="nonnegative")
        return self.releaser.release(WEIGHTS, statistic, self._users(), partial(own_weights, a=a))

    def _start(self) -> tuple[float, ItemFrequencies]:
        """The mean rating, and how often items occur. From here on the unit is one in which ratings spread by about 1.

        A quarter of the range is such a unit if the range is that of opinions. Declared bounds may be far wider.
        """
        n_users, mean, spread = self._count_users()
        finer = min(max(spread / TYPICAL_SPREAD, LEAST_SPREAD), 1.0)
        self.scale = replace(self.scale, unit=self.scale.unit * finer)
        mean /= finer
        s = self.settings
        statistic = VectorSum(self.ratings.n_items, s.bounds[POPULARITY], cone="nonnegative")
        popularity = self.releaser.release(POPULARITY, statistic, self._users(), equal_weights)
        a = np.maximum(popularity.values, 0.7 + popularity.std) ** -s.exponent
        return mean, ItemFrequencies.of(a, popularity, self._weights(a), n_users)

    def _with_directions(self, items: ItemPosterior, frequencies: ItemFrequencies, mean: float) -> ItemPosterior:
        s = self.settings
        frequent = np.sort(np.argsort(-frequencies.sums, kind="stable")[: s.n_frequent])
        m, place = len(frequent), np.full(self.ratings.n_items, -1)
        place[frequent] = np.arange(m)
        look, spread = co_occurrence_columns, COLUMN_SPREAD
        entries: Callable[[UserBatch], Array] = partial(own_weights, a=frequencies.a)
        if s.residual:
            look, spread = residual_columns, RESIDUAL_SPREAD
            entries = ItemStep(items.means, frequencies, mean, s).residuals
        statistic = GramSum(m, s.bounds[SECOND_MOMENT], zero_diagonal=True)
        rows = self._users(max(1, DENSE_CELLS // m)).map(lambda batch: on_frequent(batch, entries(batch), place))
        moment = self.releaser.release(SECOND_MOMENT, statistic, rows, own_values)
        return items.with_columns(look(moment, frequent, frequencies, s.n_directions), spread**2)
