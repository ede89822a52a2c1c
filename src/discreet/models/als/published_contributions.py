"""The private side of DPALS as published: which items a user takes part with, and what they contribute.

Everything is computed from the user's own row and public numbers. Row numbers, user ids, other users' rows and the
division of a table into batches do not matter: adding, removing or renumbering a user leaves the choices of all others
unchanged, bit for bit. Choices are random by hashing the public seed with the content of the row. Two users with the
same row make the same choice, which does no harm: the bound on what a row can contribute protects them, not the
randomness of the choice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.data.interactions import ranks
from discreet.engine.batches import kept, uniform
from discreet.models.fold_in import Penalty, Ridge, shared_gram
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

Sampling: TypeAlias = Literal["uniform", "adaptive", "weights"]


@dataclass(frozen=True)
class Sample(UserBatch):
    """Some users' rows for an item step."""

    weights: Array | None = None  # of each entry; None: all 1
    own: UserBatch | None = None  # the rows that the same users solve their own side from; None: the same rows
    vectors: Array | None = None  # the users' solutions, one row each; None before that

    def own_weights(self) -> Array:
        """The weight of each entry."""
        return np.ones(len(self.indices)) if self.weights is None else self.weights


@dataclass(frozen=True)
class ItemChoice:
    """Line 5 of Algorithm 2, with its public constants: the items that users train, and solve their own side with."""

    k: int  # items per user
    sampling: Sampling  # "uniform", "adaptive" (lowest counts), or "weights" (all items, with weights)
    all_items: bool  # whether users solve their own side with all their items, not only the sampled ones
    seed: int  # public

    def uniform(self, batch: UserBatch) -> NDArray[np.bool_]:
        """Line 2 of Algorithm 2: k random items of each user."""
        return uniform(batch, self.k, self.seed)

    def __call__(self, batch: UserBatch, counts: Array) -> Sample:
        """The samples of some users, given the noisy counts."""
        if self.sampling == "weights":  # everything is in the sample
            return Sample(batch.indptr, batch.indices, batch.values, weights(batch, self.k, counts))
        adaptive = self.sampling == "adaptive"
        chosen = kept(batch, lowest(batch, self.k, counts) if adaptive else self.uniform(batch))
        return Sample(chosen.indptr, chosen.indices, chosen.values, own=batch if self.all_items else None)


def lowest(batch: UserBatch, k: int, counts: Array) -> NDArray[np.bool_]:
    """Line 5 of Algorithm 2: the k items of each user with the lowest noisy counts, ties by item number."""
    return ranks(batch.indptr, batch.indices, counts[batch.indices]) < k


def weights(batch: UserBatch, k: int, counts: Array) -> Array:
    """Adaptive weights (2023): count^-1/4, scaled so that the squares of each user's weights add up to k.

    There is no sampling: heavy users keep all their items, with small weights.
    """
    raw = (np.maximum(counts, 1.0) ** -0.25)[batch.indices]  # powers of public numbers, the same for all users
    sums = batch.row_sums(raw**2).astype(np.float64)  # row sums of no entries are integers
    scale = np.sqrt(np.divide(float(k), sums, out=np.zeros_like(sums), where=sums > 0))
    scaled: Array = raw * scale[batch.owners]
    return scaled


def clipped(batch: UserBatch, most: float) -> UserBatch:
    """Entries clipped to `most`."""
    return UserBatch(batch.indptr, batch.indices, np.clip(batch.values, -most, most))


def renumbered(batch: UserBatch, place: Array) -> UserBatch:
    """The entries of items with a place, which becomes their number. Items without one have the place -1."""
    known = kept(batch, place[batch.indices] >= 0)
    return UserBatch(known.indptr, place[known.indices], known.values)


def _centered(table: UserBatch, mean: float, bound: float) -> Sample:
    values = np.clip(table.values - np.float32(mean), -bound, bound)
    return Sample(table.indptr, table.indices, values, getattr(table, "weights", None))


def centered(sample: Sample, mean: float, bound: float) -> Sample:
    """Samples minus the mean, with entries clipped to `bound`."""
    own = None if sample.own is None else _centered(sample.own, mean, bound)
    return replace(_centered(sample, mean, bound), own=own)


# -- Algorithm 1


def clip(vectors: Array, bound: float) -> Array:
    """Vectors scaled down to a length of at most `bound`: u min(1, bound / |u|). The paper's max is a misprint."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    clipped: Array = vectors * (bound / np.maximum(lengths, bound))
    return clipped


def user_ridge(factors: Array, penalty: Penalty, global_penalty: float) -> Ridge:
    """The regression of A_user: sum_j (y_j - u . v_j)^2 + lambda_0 sum over all j of (u . v_j)^2 + lambda_i |u|^2."""
    return Ridge(factors, np.zeros(len(factors)), penalty, shared_gram(factors, global_penalty))


def a_user(ridge: Ridge, rows: UserBatch, user_clip: float) -> Array:
    """A_user: each user solves their own ridge regression exactly, from their own row; clipped for training."""
    return clip(ridge.solve(rows.indptr, rows.indices, rows.values)[1], user_clip)


def user_step(sample: Sample, ridge: Ridge, user_clip: float) -> Sample:
    """A sample with the vectors of its users, by A_user."""
    return replace(sample, vectors=a_user(ridge, sample if sample.own is None else sample.own, user_clip))


def own_vectors(sample: Sample) -> Array:
    """The vectors of some users."""
    assert sample.vectors is not None
    return sample.vectors


def own_equations(sample: Sample) -> tuple[Array, Array, Array | None]:
    """Some users' contributions to an item step: their vectors, ratings and weights."""
    return own_vectors(sample), sample.values, sample.weights


def own_gradient(sample: Sample, factors: Array, user_clip: float) -> tuple[Array, Array]:
    """The x and a of each user's gradient x a^T, x on their own items and a no longer than 1."""
    own, owners = own_vectors(sample), sample.owners
    scores = (own[owners] * factors[sample.indices]).sum(axis=1)
    return sample.own_weights() * (scores - sample.values) * user_clip, own / user_clip
