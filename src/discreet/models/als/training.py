"""How DPALS learns: users' contributions, in order, on their way through the door, and what is made of the releases."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.engine import Blocks
from discreet.engine.batches import DENSE_CELLS, LONG_PART, equal_weights, user_batches
from discreet.linalg.folds import Folds, LeaveFoldOut
from discreet.models.als import directions
from discreet.models.als.estimate import Items, Observation, Weights, most_spread
from discreet.models.als.settings import (
    BIAS,
    COLUMN_SPREAD,
    GRAM,
    POPULARITY,
    SECOND_MOMENT,
    STEP,
    USER_BIAS,
    USER_VECTOR,
    USERS,
    WEIGHTS,
    Settings,
)
from discreet.privacy import GramSum, OuterSum, Releaser, VectorSum
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

if TYPE_CHECKING:
    from discreet.engine.batches import Ratings
    from discreet.linalg.torch_arrays import TorchArrays
    from discreet.models.als.gpu_steps import GpuSteps


FOLDS = 4
LIFT = 10.0  # the most that such a contribution is lengthened by
TYPICAL_SPREAD = 0.9  # of ratings about their user's mean, in quarters of their range, where constants were set
LEAST_SPREAD = 0.05  # in that
NO_SPREAD = 0.05  # item biases that spread less than this are none


@dataclass
class Training:
    """One fit. Methods with a `part` are the private side: one user's own data and what is public."""

    releaser: Releaser
    settings: Settings
    ratings: Ratings
    value_range: tuple[float, float]
    unit: float
    most_columns: int
    gpu: TorchArrays | None

    @classmethod
    def of(
        cls,
        releaser: Releaser,
        settings: Settings,
        ratings: Ratings,
        most_columns: int,
        *,
        gpu: TorchArrays | None,
        unit: float | None = None,
    ) -> Training:
        """Ratings are counted from the middle of their range, in a unit of a quarter of it, if not another is known."""
        assert ratings.value_range is not None
        low, high = ratings.value_range
        return cls(releaser, settings, ratings, (low, high), unit or (high - low) / 4, most_columns, gpu)

    @property
    def reach(self) -> float:
        """The ends of the range are so many units from its middle."""
        low, high = self.value_range
        return (high - low) / 2 / self.unit

    def _parts(self, most_users: int | None = None) -> Blocks[UserBatch]:
        middle, unit, reach = sum(self.value_range) / 2, self.unit, self.reach

        def mapped(part: UserBatch) -> UserBatch:
            # Rounding may take the mapped ends of the range beyond themselves; the proof needs that nothing is.
            values = np.clip((part.values.astype(np.float64) - middle) / unit, -reach, reach)
            return UserBatch(part.indptr, part.indices, values)

        return user_batches(self.ratings, most_users, LONG_PART).map(mapped)

    def begin(self, features: Array) -> tuple[float, Weights, Items]:
        """All releases before the item steps: the mean rating, how often items occur, and what is known of them."""
        mean, weights = self._start()
        bias = self._bias(mean, weights)
        if most_spread(bias, weights) < NO_SPREAD:
            self.settings = self.settings.without_biases()
        items = Items.from_bias(bias, weights, features).with_slopes(weights)
        items = items.with_features(features, weights)
        if self.settings.looks_for_directions:
            items = self._with_directions(items, weights, mean)
        return mean, weights, items

    def go_on(self, known: tuple[float, Weights, Items]) -> tuple[float, Weights, Items]:
        """The same for a model that exists: how often items occur now."""
        mean, before, items = known
        n_users, _, _ = self._users()
        return mean, before.again(self._weights(before.a), n_users), items

    def steps(self, mean: float, weights: Weights, items: Items) -> Items:
        """All item steps."""
        s, m, known = self.settings, self.ratings.n_items, items.mean.shape[1]
        items = items.with_probes()
        on_gpu = self._on_gpu(weights)
        for at in range(s.n_steps):
            local, k = Local(items.means, weights, mean, s), items.mean.shape[1]
            statistics = [(GRAM, GramSum(k, s.bounds[GRAM])), (STEP, OuterSum((m, k), s.bounds[STEP]))]
            sum_with = None if on_gpu is None else partial(on_gpu.add_up, local)
            gram, step = self.releaser.release_together(statistics, self._parts(), local.step, sum_with=sum_with)
            seen = Observation.of(step, gram, weights, s.bias_weight, s.step_clip)
            if at == 0:
                items, seen = items.probed(known, seen, s.clear)
            items = items.updated(seen, self.releaser.n_jobs)
        return items

    def _on_gpu(self, weights: Weights) -> GpuSteps | None:
        """What adds item steps up, if that is a card."""
        if self.gpu is None:
            return None
        from discreet.models.als.gpu_steps import GpuSteps

        return GpuSteps.of(self.gpu, self._parts, weights.a, self.most_columns, self.releaser.n_jobs)

    def _gram_on_gpu(self, blocks: Blocks[UserBatch], encoder: Any) -> Array:
        from discreet.models.als.gpu_steps import gram_on_gpu

        assert self.gpu is not None
        return gram_on_gpu(self.gpu, encoder, blocks, self.releaser.n_jobs)

    def _users(self) -> tuple[float, float, float]:
        """Roughly how many users there are, their mean rating, and how far at most they spread about their own."""
        reach = self.reach

        def rows(part: UserBatch) -> Array:
            return _own_moments(part, reach)

        statistic = VectorSum(3, self.settings.bounds[USERS], cone="second-order")
        users = self.releaser.release(USERS, statistic, self._parts(), rows)
        n_users = max(float(users.values[0]), 10.0)
        spread = reach * math.sqrt(max(float(users.values[2]) + 2 * users.std, 0.0) / n_users)
        return n_users, reach * float(np.clip(users.values[1] / n_users, -1, 1)), spread

    def _weights(self, a: Array) -> Any:
        def entries(part: UserBatch) -> Array:
            return own_weights(part, a)

        statistic = VectorSum(self.ratings.n_items, self.settings.bounds[WEIGHTS], cone="nonnegative")
        return self.releaser.release(WEIGHTS, statistic, self._parts(), entries)

    def _start(self) -> tuple[float, Weights]:
        """The mean rating, and how often items occur. From here on the unit is one in which ratings spread by about 1.

        So they do in a quarter of their range, if a range is that of opinions. Bounds that others set may be far away.
        """
        n_users, mean, spread = self._users()
        finer = min(max(spread / TYPICAL_SPREAD, LEAST_SPREAD), 1.0)
        self.unit *= finer
        mean /= finer
        m, s = self.ratings.n_items, self.settings
        statistic = VectorSum(m, s.bounds[POPULARITY], cone="nonnegative")
        popularity = self.releaser.release(POPULARITY, statistic, self._parts(), equal_weights)
        a = np.maximum(popularity.values, 0.7 + popularity.std) ** -s.exponent
        return mean, Weights.of(a, popularity, self._weights(a), n_users)

    def _bias(self, mean: float, weights: Weights) -> Any:
        def entries(part: UserBatch) -> Array:
            own = (part.row_sums(part.values) + USER_BIAS * mean) / (part.counts + USER_BIAS)
            return own_weights(part, weights.a) * (part.values - own[part.owners])

        statistic = VectorSum(self.ratings.n_items, self.settings.bounds[BIAS])
        return self.releaser.release(BIAS, statistic, self._parts(), entries)

    def _with_directions(self, items: Items, weights: Weights, mean: float) -> Items:
        s = self.settings
        frequent = np.sort(np.argsort(-weights.sums, kind="stable")[: s.n_frequent])
        place = np.full(self.ratings.n_items, -1)
        place[frequent] = np.arange(len(frequent))
        local = Local(items.means, weights, mean, s)

        def of_frequent(part: UserBatch) -> UserBatch:
            entries = local.weighted_residuals(part) if s.residual else own_weights(part, weights.a)
            at = place[part.indices]
            return UserBatch(np.concatenate([[0], np.cumsum(at >= 0)])[part.indptr], at[at >= 0], entries[at >= 0])

        m = len(frequent)
        statistic = GramSum(m, s.bounds[SECOND_MOMENT], zero_diagonal=True)
        # Without a card, dense rows of so many users are in memory at a time.
        blocks = self._parts(None if self.gpu else max(1, DENSE_CELLS // m)).map(of_frequent)
        sum_with = None if self.gpu is None else partial(self._gram_on_gpu, blocks)
        release = self.releaser.release(SECOND_MOMENT, statistic, blocks, _values, sum_with=sum_with)
        look, spread = (directions.of_residuals, 0.05) if s.residual else (directions.of_co_occurrences, COLUMN_SPREAD)
        return items.with_columns(look(release, frequent, weights, s.n_directions), spread**2)


def _values(part: UserBatch) -> Array:
    return part.values


def _own_moments(part: UserBatch, reach: float) -> Array:
    """One, the user's mean rating, and the mean squared distance of her ratings from it, as parts of what they can be.

    With x for the mean, the last is at most 1 - x^2: so the whole is never longer than (1, 1, 0) and (1, 0, 1) are.
    """
    counts = np.maximum(part.counts, 1)
    means = part.row_sums(part.values) / counts
    squares = part.row_sums((part.values - means[part.owners]) ** 2) / counts
    return np.column_stack([np.ones(len(means)), means / reach, squares / reach**2])


def own_weights(part: UserBatch, a: Array) -> Array:
    """A user's weights of her items, a_j scaled to length 1."""
    chosen = a[part.indices]
    lengths = np.sqrt(part.row_sums(chosen**2))
    return chosen / lengths[part.owners]


@dataclass(frozen=True)
class Local:
    """The local side of an item step: a user folds herself in, and says what the public model leaves unexplained.

    Her ratings are divided into `FOLDS` by their place in her row. What is said about a rating uses the vector that was
    fitted to the other folds: else the rating's own noise would be in both, and their product would not average out.
    """

    items: Items
    weights: Weights
    mean: float
    settings: Settings

    @property
    def predicted(self) -> Array:
        """What is foretold of each item, whoever rates it."""
        predicted: Array = self.items.bias + self.mean
        return predicted

    @cached_property
    def regressions(self) -> LeaveFoldOut:
        """On a constant and the items' factors. Single precision: half the memory to move, and noise is far larger."""
        factors = self.items.factors.astype(np.float32)
        prior = self.items.priors(self.weights).astype(np.float32)
        return LeaveFoldOut(np.pad(factors, ((0, 0), (1, 0)), constant_values=1), np.pad(prior, ((0, 0), (1, 0))))

    def _solve(self, part: UserBatch, folds: Folds) -> tuple[Array, Array]:
        """Vectors (bias_weight, u) of (users, folds), and the residuals of all ratings."""
        targets = part.values - self.predicted[part.indices]
        ordered = folds.together(part.indices), folds.together(targets)
        penalty = np.tile(self.penalty, (len(part.counts), 1))
        vectors, residuals = self.regressions.solve(folds, *ordered, penalty)
        vectors = vectors.astype(np.float64)
        vectors[:, :, 0] = self.settings.bias_weight  # in place of her offset
        return vectors, residuals[folds.place]

    @property
    def penalty(self) -> Array:
        """Of a user's offset, and of each number of her vector."""
        penalty = np.full(self.items.mean.shape[1], USER_VECTOR, np.float32)
        penalty[0] = USER_BIAS
        return penalty

    def weighted_residuals(self, part: UserBatch) -> Array:
        """w_j e_j |A| for each rating."""
        return self._weighted(part)[0]

    def _weighted(self, part: UserBatch) -> tuple[Array, Array, Array, Array]:
        folds = Folds.of(part.indptr, FOLDS)
        vectors, residuals = self._solve(part, folds)
        weights, lengths = own_weights(part, self.weights.a), np.sqrt((vectors**2).sum(axis=2))
        return weights * residuals * lengths.ravel()[folds.which], vectors, folds.which, weights

    def step(self, part: UserBatch) -> tuple[Array, tuple[Array, Array, Array]]:
        """The b for the shared Gram matrix; and for each rating x_j, directions a of length 1, and which is whose.

        Her x is lengthened to the bound as it is shortened to it: what a user says counts as much if values hardly
        differ, or if most of them are explained. The b of a fold is her vector (bias_weight, u) times the root of what
        the fold weighs in the item step.
        """
        entries, vectors, which, weights = self._weighted(part)
        shares = np.bincount(which, weights, minlength=FOLDS * len(vectors)).reshape(-1, FOLDS)
        entries, directions_, rows = self.lengthened(part, entries, vectors, shares)
        return rows, (entries, directions_, which)

    def lengthened(self, part: UserBatch, entries: Array, vectors: Array, shares: Array) -> tuple[Array, Array, Array]:
        """The x, the a and the b of a part's users, of w_j e_j |A|, their vectors A, and what each fold weighs."""
        lengths = np.sqrt((vectors**2).sum(axis=2))
        size = np.sqrt(part.row_sums(entries**2))
        scale = np.minimum(LIFT, self.settings.step_clip / np.maximum(size, 1e-12))
        directions_ = (vectors / lengths[:, :, None]).reshape(-1, vectors.shape[2])
        rows = (vectors * np.sqrt(shares * scale[:, None])[:, :, None]).reshape(len(vectors), -1)
        return entries * scale[part.owners], directions_, rows
