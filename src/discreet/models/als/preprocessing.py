"""Algorithm 2 of DPALS: noisy counts, frequent items, which items a user trains on, counting again, centring."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.engine import Blocks, LocalBlocks
from discreet.engine.batches import LONG_PART, user_batches
from discreet.engine.spark import SparkBlocks
from discreet.models.als import sampling
from discreet.models.als.calibration import COUNTS, MEAN, RECOUNTS
from discreet.models.als.distributed import Sampled
from discreet.models.als.sampling import Sample
from discreet.privacy import Releaser, VectorSum
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

if TYPE_CHECKING:
    from discreet.engine.batches import Ratings

Sampling = Literal["uniform", "adaptive", "weights"]
AnySample: TypeAlias = "Sample | Sampled"  # in memory, or drawn where the users are


@dataclass(frozen=True)
class Prepared:
    """What training works on. Public: counts, frequent, mean, bound. Private: the two tables.

    Attributes:
        popularity: Noisy counts of all items (zeros without Algorithm 2).
        frequent: The numbers of the items that are trained on, increasing.
        counts: Their noisy counts in the final sample.
        mean: What was subtracted from every rating.
        bound: No centred rating is larger.
        sample: Each user's items for the item side.
        own: Each user's items for her own side.
    """

    popularity: Array
    frequent: Array
    counts: Array
    mean: float
    bound: float
    sample: AnySample
    own: AnySample


@dataclass(frozen=True)
class Preprocessing:
    """The public constants of Algorithm 2; `run` is the algorithm.

    Attributes:
        k: Items of a user.
        fraction: beta, the fraction of items to train on.
        sampling: How the k items are picked: "uniform", "adaptive" (lowest counts), or "weights" (all, with weights).
        counted: Whether there are counts at all; else Algorithm 1 alone, on a uniform sample.
        center: Whether to subtract the mean.
        entry_clip: Gamma_M, or None: the largest that a centred rating can be.
        all_items: Whether a user folds herself in with all her items, not only the sampled ones.
        seed: Of the samples; public.
    """

    k: int
    fraction: float
    sampling: Sampling
    counted: bool
    center: bool
    entry_clip: float | None
    all_items: bool
    seed: int

    def run(self, releaser: Releaser, ratings: Ratings) -> Prepared:
        """Lines 1 to 7."""
        m, (low, high) = ratings.n_items, ratings.value_range or (1.0, 1.0)
        every = user_batches(ratings, most=LONG_PART)
        if (most := self.entry_clip) is not None:
            every = every.map(lambda part: UserBatch(part.indptr, part.indices, np.clip(part.values, -most, most)))
            low, high = (float(np.clip(bound, -most, most)) for bound in (low, high))
        popularity = self._counts(releaser, every, m) if self.counted else np.zeros(m)
        frequent = most_frequent(popularity, self.fraction)
        place = np.full(m, -1, np.int32)
        place[frequent] = np.arange(len(frequent))
        sample = self._final(every, place, popularity[frequent], releaser.n_jobs)
        counts = self._recounts(releaser, sample, len(frequent)) if self.counted else np.zeros(m)
        mean = 0.0
        if self.center:
            whole, total = sample, counts
            if self.sampling == "weights":
                whole = chosen(every, self._uniform, np.arange(m, dtype=np.int32), releaser.n_jobs)
                total = popularity
            mean = noisy_mean(releaser, whole, float(total.sum()), self.k, (low, high))
        bound = self._bound(mean, low, high)

        def centre(table: Sample) -> Sample:
            return _centred(table, mean, bound)

        sample, own = sample.map(centre), None
        if self.all_items and self.sampling != "weights":  # which has everything in the sample
            own = chosen(every, _all, place, releaser.n_jobs).map(centre)
        if isinstance(own, Sampled) and isinstance(sample, Sampled):
            sample = sample.with_own(own)
        return Prepared(popularity, frequent, counts, mean, bound, sample, sample if own is None else own)

    def _uniform(self, part: UserBatch) -> NDArray[np.bool_]:
        return sampling.uniform(part, self.k, self.seed)

    def _bound(self, mean: float, low: float, high: float) -> float:
        if self.entry_clip is not None:
            return self.entry_clip
        return float(max(high - mean, mean - low)) or 1.0

    def _counts(self, releaser: Releaser, every: Blocks[UserBatch], n_items: int) -> Array:
        """Line 3: each user counts for k items, picked uniformly."""
        return releaser.release(COUNTS, self._count_sum(n_items), every, self._uniform).values

    def _final(self, every: Blocks[UserBatch], place: Array, counts: Array, n_jobs: int | None) -> AnySample:
        """Line 5: what a user trains the items with."""
        if self.sampling == "weights":
            return chosen(every, _all, place, n_jobs, lambda part: sampling.weights(part, self.k, counts))
        if self.sampling == "adaptive":
            return chosen(every, lambda part: sampling.lowest(part, self.k, counts), place, n_jobs)
        return chosen(every, self._uniform, place, n_jobs)

    def _recounts(self, releaser: Releaser, sample: AnySample, n_items: int) -> Array:
        """Line 6: counts, or sums of weights, of what is trained on."""
        return releaser.release(RECOUNTS, self._count_sum(n_items), sample.batches(), Sample.own_weights).values

    def _count_sum(self, n_items: int) -> VectorSum:
        return VectorSum(n_items, math.nextafter(math.sqrt(self.k), math.inf), cone="nonnegative")


def most_frequent(counts: Array, fraction: float) -> Array:
    """Line 4: the numbers of the ceil(beta m) items with the largest noisy counts, increasing."""
    n = n_frequent(len(counts), fraction)
    return np.sort(np.argsort(-counts, kind="stable")[:n])


def n_frequent(n_items: int, fraction: float) -> int:
    """ceil(beta m), and at least one."""
    return max(1, min(n_items, math.ceil(fraction * n_items - 1e-9)))


def noisy_mean(
    releaser: Releaser, sample: AnySample, n_ratings: float, k: int, value_range: tuple[float, float]
) -> float:
    """Line 7: the mean rating. The number of ratings is the sum of the noisy counts, and costs nothing more.

    Ratings are taken from the middle of their range, so a user's k of them add up to at most k (high - low) / 2. The
    paper charges for sqrt(k) times that, which is too little for a single sum.
    """
    low, high = value_range
    middle, half = (low + high) / 2, (high - low) / 2
    if half == 0:
        half = 1.0  # every rating is the same, publicly: any bound will do

    def sums(part: Sample) -> Array:
        return part.row_sums(np.clip(part.values - middle, -half, half))[:, None]

    total = releaser.release(MEAN, VectorSum(1, k * half), sample.batches(), sums)
    return float(np.clip(middle + total.values[0] / max(n_ratings, 1.0), low, high))


def chosen(
    every: Blocks[UserBatch],
    choose: Callable[[UserBatch], NDArray[np.bool_]],
    place: Array,
    n_jobs: int | None,
    weigh: Callable[[UserBatch], Array] | None = None,
) -> AnySample:
    """The entries that `choose` picks of each user's row, with items renumbered by `place`, and weights by `weigh`.

    Items with the place -1 are not there: `choose` does not see them. Where users are in memory, one table of all.
    """

    def work(part: UserBatch) -> Sample:
        known = _kept(part, place[part.indices] >= 0)
        known = UserBatch(known.indptr, place[known.indices], known.values)
        picked = _kept(known, choose(known))
        return Sample(picked.indptr, picked.indices, picked.values, None if weigh is None else weigh(picked))

    drawn = every.map(work)
    if isinstance(drawn, SparkBlocks):
        return Sampled(drawn)
    assert isinstance(drawn, LocalBlocks)
    return together(list(drawn.each(n_jobs)), weighted=weigh is not None)


def together(samples: list[Sample], weighted: bool) -> Sample:
    """One table of all users, of the parts of one."""
    empty = Sample(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))
    every = [empty, *samples]
    indptr = np.concatenate([[0], np.cumsum(np.concatenate([part.counts for part in every]))])
    items, values = (
        np.concatenate(arrays) for arrays in zip(*((part.indices, part.values) for part in every), strict=True)
    )
    weights = np.concatenate([part.own_weights() for part in every]) if weighted else None
    return Sample(indptr, items, values, weights)


def _kept(part: UserBatch, mask: NDArray[np.bool_]) -> UserBatch:
    """Some of a part's entries."""
    return UserBatch(np.concatenate([[0], np.cumsum(mask)])[part.indptr], part.indices[mask], part.values[mask])


def _all(part: UserBatch) -> NDArray[np.bool_]:
    return np.ones(len(part.indices), bool)


def _centred(table: Sample, mean: float, bound: float) -> Sample:
    values = np.clip(table.values - np.float32(mean), -bound, bound)
    return Sample(table.indptr, table.indices, values, table.weights)
