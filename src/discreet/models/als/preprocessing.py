"""Algorithm 2 of DPALS: noisy counts, frequent items, which items a user trains on, counts of these, the mean."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.engine import Blocks
from discreet.engine.batches import user_batches
from discreet.models.als import sampling
from discreet.models.als.calibration import COUNTS, MEAN, RECOUNTS
from discreet.models.als.sampling import Sample
from discreet.privacy import Releaser, VectorSum
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

if TYPE_CHECKING:
    from discreet.engine.batches import Ratings

Sampling = Literal["uniform", "adaptive", "weights"]

BATCH_USERS, BATCH_ENTRIES = 1 << 14, 1 << 22  # of a batch: enough users for sums by item


@dataclass(frozen=True)
class Prepared:
    """What training works on. All but the samples is public.

    Attributes:
        popularity: Noisy counts of all items (zeros without Algorithm 2).
        frequent: The numbers of the items that are trained on, increasing.
        counts: Their noisy counts in the final sample.
        mean: What was subtracted from every rating.
        bound: No centered rating is larger.
        samples: Each user's items, for the item side and for their own.
        in_batches: The same in batches of so many users.
    """

    popularity: Array
    frequent: Array
    counts: Array
    mean: float
    bound: float
    samples: Blocks[Sample]
    in_batches: Callable[[int], Blocks[Sample]]


@dataclass(frozen=True)
class Preprocessing:
    """The public constants of Algorithm 2; `run` is the algorithm.

    Attributes:
        k: Items of a user.
        fraction: beta, the fraction of items to train on.
        sampling: How the k items are picked: "uniform", "adaptive" (lowest counts), or "weights" (all, with weights).
        counted: Whether there are counts; otherwise it is Algorithm 1 alone, on a uniform sample.
        center: Whether to subtract the mean.
        entry_clip: Gamma_M, or None: the largest that a centered rating can be.
        all_items: Whether users solve their own side with all their items, not only the sampled ones.
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
        if (most := self.entry_clip) is not None:
            low, high = (float(np.clip(bound, -most, most)) for bound in (low, high))

        def users(most_users: int) -> Blocks[UserBatch]:
            found = user_batches(ratings, most_users, BATCH_ENTRIES)
            return found if most is None else found.map(lambda batch: _clipped(batch, most))

        every = users(BATCH_USERS)
        popularity = self._counts(releaser, every, m) if self.counted else np.zeros(m)
        frequent = most_frequent(popularity, self.fraction)
        place = np.full(m, -1, np.int32)
        place[frequent] = np.arange(len(frequent))
        known = popularity[frequent]

        def draw(batch: UserBatch) -> Sample:
            return self._drawn(_renumbered(batch, place), known)

        samples = every.map(draw).keep(releaser.n_jobs)
        counts = self._recounts(releaser, samples, len(frequent)) if self.counted else np.zeros(m)
        mean = 0.0
        if self.center and self.sampling == "weights":
            uniform = every.map(lambda batch: _kept(batch, self._uniform(batch)))
            mean = noisy_mean(releaser, uniform, float(popularity.sum()), self.k, (low, high))
        elif self.center:
            mean = noisy_mean(releaser, samples, float(counts.sum()), self.k, (low, high))
        bound = self._bound(mean, low, high)

        def center(sample: Sample) -> Sample:
            own = None if sample.own is None else _centred(sample.own, mean, bound)
            return replace(_centred(sample, mean, bound), own=own)

        centered = samples.map(center).keep(releaser.n_jobs)
        return Prepared(popularity, frequent, counts, mean, bound, centered, lambda n: users(n).map(draw).map(center))

    def _uniform(self, batch: UserBatch) -> NDArray[np.bool_]:
        return sampling.uniform(batch, self.k, self.seed)

    def _bound(self, mean: float, low: float, high: float) -> float:
        if self.entry_clip is not None:
            return self.entry_clip
        return float(max(high - mean, mean - low)) or 1.0

    def _counts(self, releaser: Releaser, every: Blocks[UserBatch], n_items: int) -> Array:
        """Line 3: each user counts for k items, picked uniformly."""
        return releaser.release(COUNTS, self._count_sum(n_items), every, self._uniform).values

    def _drawn(self, batch: UserBatch, counts: Array) -> Sample:
        """Line 5: what users train the items with, and what they solve their own side with."""
        if self.sampling == "weights":  # which has everything in the sample
            return Sample(batch.indptr, batch.indices, batch.values, sampling.weights(batch, self.k, counts))
        adaptive = self.sampling == "adaptive"
        chosen = _kept(batch, sampling.lowest(batch, self.k, counts) if adaptive else self._uniform(batch))
        return Sample(chosen.indptr, chosen.indices, chosen.values, own=batch if self.all_items else None)

    def _recounts(self, releaser: Releaser, samples: Blocks[Sample], n_items: int) -> Array:
        """Line 6: counts, or sums of weights, of what is trained on."""
        return releaser.release(RECOUNTS, self._count_sum(n_items), samples, Sample.own_weights).values

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
    releaser: Releaser, users: Blocks[Any], n_ratings: float, k: int, value_range: tuple[float, float]
) -> float:
    """Line 7: the mean rating. The number of ratings is the sum of the noisy counts, and costs nothing more.

    Ratings are taken from the middle of their range, so a user's k of them add up to at most k (high - low) / 2. The
    paper charges for sqrt(k) times that, which is too little for a single sum.
    """
    low, high = value_range
    middle, half = (low + high) / 2, (high - low) / 2
    if half == 0:
        half = 1.0  # every rating is the same, publicly: any bound will do

    def sums(batch: UserBatch) -> Array:
        return batch.row_sums(np.clip(batch.values - middle, -half, half))[:, None]

    total = releaser.release(MEAN, VectorSum(1, k * half), users, sums)
    return float(np.clip(middle + total.values[0] / max(n_ratings, 1.0), low, high))


def _clipped(batch: UserBatch, most: float) -> UserBatch:
    return UserBatch(batch.indptr, batch.indices, np.clip(batch.values, -most, most))


def _renumbered(batch: UserBatch, place: Array) -> UserBatch:
    """The entries of items that have a place, with that as their number; others have the place -1."""
    known = _kept(batch, place[batch.indices] >= 0)
    return UserBatch(known.indptr, place[known.indices], known.values)


def _kept(batch: UserBatch, mask: NDArray[np.bool_]) -> UserBatch:
    """Some of a batch's entries."""
    return UserBatch(np.concatenate([[0], np.cumsum(mask)])[batch.indptr], batch.indices[mask], batch.values[mask])


def _centred(table: UserBatch, mean: float, bound: float) -> Sample:
    values = np.clip(table.values - np.float32(mean), -bound, bound)
    return Sample(table.indptr, table.indices, values, getattr(table, "weights", None))
