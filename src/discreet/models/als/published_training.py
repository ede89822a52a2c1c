"""DPALS as published: the releases, in order, and how they are used.

Algorithm 2 prepares: noisy counts, frequent items, which items a user trains on, counts of these, the mean. Algorithm 1
alternates between users and items: in an item step, a user with the vector u adds, for each of their items j with
weight w_j and rating y_j, w_j u u^T to the item's Gram matrix and w_j y_j u to its right-hand side (`NormalEquations`).
The private side is in `published_contributions.py`. Proof: docs/proofs/dpals-published.md.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet import kernels
from discreet.engine import Blocks, LocalBlocks
from discreet.engine.batches import PART, Ratings, kept, uniform, user_batches
from discreet.errors import DataError
from discreet.models.als.published_contributions import (
    Sample,
    centered,
    clipped,
    own_equations,
    own_gradient,
    own_vectors,
    renumbered,
    user_ridge,
    user_step,
)
from discreet.parallel import n_threads, over_blocks, single_threaded_blas
from discreet.privacy import GramSum, Ledger, NormalEquations, OuterSum, Plan, Releaser, VectorSum
from discreet.privacy.determinism import require_sound_arithmetic
from discreet.privacy.guarantee import AdjacencyName, account
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array
from discreet.validation import positive, whole

if TYPE_CHECKING:
    from discreet.models.als.published import PublishedDPALS

COUNTS, RECOUNTS = "item counts of a uniform sample", "item counts of the final sample"
MEAN, START = "sum of ratings", "second moment for the start"
STEP, GRAM, GRADIENT = "item step", "global Gram", "item gradient"

BATCH_USERS, BATCH_ENTRIES = 1 << 14, 1 << 22  # limits of a batch, with enough users for sums by item
BLOCK_BYTES = 1 << 22  # bytes of matrices that a thread solves at a time


def check_size(n_items: int, rank: int, names: str = "rank, item_fraction") -> None:
    """Raise if matrices of this number and size are too large to be released at once on this machine."""
    size, most = n_items * (rank + 1) ** 2 * 8, most_bytes()
    if size > most:
        raise DataError(
            f"{names}: {n_items:,} x {rank + 1:,} x {rank + 1:,} numbers would be released at once, which is "
            f"{size / 2**30:.1f} GiB, and at most a quarter of the memory can be, here {most / 2**30:.1f}; lower one "
            "of these"
        )


def most_bytes() -> int:
    """The limit for a stack of matrices: a quarter of the machine's memory, if that is known."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4
    except (AttributeError, ValueError, OSError):  # Windows
        return 1 << 31


# -- Algorithm 2


@dataclass(frozen=True)
class Prepared:
    """The input of training. All but the samples is public."""

    popularity: Array  # noisy counts of all items (zeros without Algorithm 2)
    frequent: Array  # the numbers of the items that are trained on, increasing
    counts: Array  # their noisy counts in the final sample
    mean: float  # what was subtracted from every rating
    bound: float  # no centered rating is larger
    samples: Blocks[Sample]  # each user's items, for the item side and for their own side
    in_batches: Callable[[int], Blocks[Sample]]  # the same in batches of at most this many users


def prepared(model: PublishedDPALS, releaser: Releaser, ratings: Ratings) -> Prepared:
    """Lines 1 to 7 of Algorithm 2."""
    m, (low, high) = ratings.n_items, ratings.value_range or (1.0, 1.0)
    choice, most = model._choice(), model.entry_clip
    if most is not None:
        low, high = (float(np.clip(bound, -most, most)) for bound in (low, high))

    def users(most_users: int) -> Blocks[UserBatch]:
        found = user_batches(ratings, most_users, BATCH_ENTRIES)
        return found if most is None else found.map(lambda batch: clipped(batch, most))

    every = users(BATCH_USERS)
    popularity = counts = np.zeros(m)
    if model.preprocess:  # line 3: each user counts for k random items
        popularity = noisy_counts(releaser, COUNTS, every, m, k=choice.k, own=choice.uniform)
    frequent = most_frequent(popularity, model.item_fraction)
    place = np.full(m, -1, np.int32)
    place[frequent] = np.arange(len(frequent))
    known = popularity[frequent]

    def draw(batch: UserBatch) -> Sample:
        return choice(renumbered(batch, place), known)

    samples = every.map(draw).keep(releaser.n_jobs)
    if model.preprocess:  # line 6: counts, or sums of weights, of what is trained on
        counts = noisy_counts(releaser, RECOUNTS, samples, len(frequent), k=choice.k, own=Sample.own_weights)
    mean = 0.0
    if model._center and choice.sampling == "weights":
        drawn = every.map(lambda batch: kept(batch, choice.uniform(batch)))
        mean = noisy_mean(releaser, drawn, float(popularity.sum()), choice.k, (low, high))
    elif model._center:
        mean = noisy_mean(releaser, samples, float(counts.sum()), choice.k, (low, high))
    bound = entry_bound(most, mean, low, high)
    center = partial(centered, mean=mean, bound=bound)
    samples = samples.map(center).keep(releaser.n_jobs)
    return Prepared(
        popularity, frequent, counts, mean, bound, samples, lambda n_users: users(n_users).map(draw).map(center)
    )


def noisy_counts(
    releaser: Releaser, label: str, users: Blocks[Any], n_items: int, *, k: int, own: Callable[[Any], Array]
) -> Array:
    """Sums over users of `own`, a number for each of a user's items; their squares add up to k at most."""
    bound = math.nextafter(math.sqrt(k), math.inf)
    return releaser.release(label, VectorSum(n_items, bound, nonnegative=True), users, own).values


def entry_bound(given: float | None, mean: float, low: float, high: float) -> float:
    """Gamma_M, or the largest that a centered rating can be."""
    return float(max(high - mean, mean - low)) or 1.0 if given is None else given


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


# -- Algorithm 1: the public side of its steps


def a_item(
    stack: Array, unit: float, penalty: Array, shared: Array | None, n_jobs: int | None, *, project_first: bool = False
) -> Array:
    """A_item after the noise: v_j = PSD(X_j)^+ b_j, where X_j = noisy Gram + lambda_j I + lambda_0 K. Post-processing.

    `stack` has the matrices as they are released: their last columns, times `unit`, are the right-hand sides b_j. With
    `project_first`, v_j = (PSD(Gram) + lambda_j I + PSD(lambda_0 K))^-1 b_j.
    """
    m, r = len(stack), stack.shape[1] - 1
    size = max(1, BLOCK_BYTES // (r * r * 8))
    added = np.zeros((r, r)) if shared is None else project_psd(shared) if project_first else shared

    def work(start: int) -> Array:
        own = stack[start : start + size]
        X = (project_psd(own[:, :r, :r]) if project_first else own[:, :r, :r]) + added
        np.einsum("ikk->ik", X)[:] += penalty[start : start + size, None]
        return solve_positive_part(X, own[:, :r, r] * unit)

    return np.concatenate(list(over_blocks(work, range(0, m, size), n_jobs)))


def project_psd(X: Array) -> Array:
    """The nearest positive semidefinite matrix: negative eigenvalues become 0."""
    values, vectors = np.linalg.eigh(X)
    projected: Array = (vectors * np.maximum(values, 0)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    return projected


def solve_positive_part(X: Array, b: Array) -> Array:
    """The least-norm solutions of PSD(X[i]) z = b[i], with eigenvalues that are not positive set to 0.

    Matrices without a Cholesky factor are diagonalized.
    """
    z, failed = kernels.solve(X, b)
    if failed.any():
        values, vectors = np.linalg.eigh(X[failed])
        kept = values > np.maximum(values[:, -1:], 0) * X.shape[1] * np.finfo(X.dtype).eps
        inner = np.divide((b[failed][:, None, :] @ vectors)[:, 0], values, out=np.zeros(values.shape), where=kept)
        z[failed] = (vectors @ inner[:, :, None])[:, :, 0]
    return z


def random_start(n_items: int, rank: int, scale: float, seed: int) -> Array:
    """Item vectors of length about `scale`, from the public seed."""
    return np.random.default_rng(seed).standard_normal((n_items, rank)) * (scale / math.sqrt(rank))


def noisy_svd_start(releaser: Releaser, data: Prepared, rank: int, k: int) -> Array:
    """Remark 2: the leading eigenvectors of the noisy second moment of users' rows.

    A row of k entries of size Gamma_M moves it by k Gamma_M^2, not by Gamma_M^2 as the paper has it.
    """
    n_items, bound = len(data.frequent), data.bound

    def entries(sample: Sample) -> Array:
        return np.clip(sample.values, -bound, bound)

    samples = data.in_batches(max(1, PART // n_items))
    noisy = releaser.release(START, GramSum(n_items, k * bound**2), samples, entries)
    with single_threaded_blas():
        vectors = np.linalg.eigh(noisy.values)[1][:, ::-1][:, :rank]
    start = np.zeros((n_items, rank))
    start[:, : vectors.shape[1]] = vectors
    return start


def normalized(factors: Array) -> Array:
    """Line 13 of Algorithm 1: V (V^T V)^(-1/2), on the row space of V."""
    with single_threaded_blas():
        values, vectors = np.linalg.eigh(factors.T @ factors)
        keep = values > values[-1] * len(values) * np.finfo(np.float64).eps
        root = np.where(keep, 1 / np.sqrt(np.where(keep, values, 1.0)), 0.0)
        result: Array = factors @ ((vectors * root) @ vectors.T)
    return result


@dataclass(frozen=True)
class Training:
    """Algorithm 1, on prepared data."""

    model: PublishedDPALS
    releaser: Releaser
    data: Prepared

    def run(self) -> Array:
        """The vectors of the frequent items."""
        model = self.model
        factors = normalized(self._start()) if model.normalise else self._start()
        for _ in range(model.n_steps):
            ridge = user_ridge(factors, model._user_penalty(), model.global_penalty)
            step = partial(user_step, ridge=ridge, user_clip=model.user_clip)
            users = self.data.samples.map(step).keep(self.releaser.n_jobs)
            shared = self._shared(users)
            factors = (self._descend if model.item_step == "gradient" else self._solve)(factors, users, shared)
            # Gradient steps may diverge. These are public numbers.
            factors = np.nan_to_num(factors, nan=0.0, posinf=0.0, neginf=0.0)
            if model.normalise:
                factors = normalized(factors)
        return factors

    def _start(self) -> Array:
        model = self.model
        if model.start == "random":
            return random_start(len(self.data.frequent), model.rank, model.start_scale, model.random_state)
        start = noisy_svd_start(self.releaser, self.data, model.rank, model.max_items)
        longest = float(np.linalg.norm(start, axis=1).max())
        return start * (model.start_scale / longest)

    def _shared(self, users: Blocks[Sample]) -> Array | None:
        """The noisy lambda_0 K."""
        model = self.model
        if not model.global_penalty:
            return None
        noisy = self.releaser.release(GRAM, GramSum(model.rank, model.user_clip**2), users, own_vectors)
        return model.global_penalty * noisy.values

    def _penalty(self) -> Array:
        """The penalty lambda c_j^mu / Z' of each item; Z' is the mean of the numerators. Public, like the counts."""
        weights = np.maximum(self.data.counts, 1.0) ** self.model.item_exponent
        penalty: Array = self.model.regularization * weights / weights.mean()
        return penalty

    def _solve(self, factors: Array, users: Blocks[Sample], shared: Array | None) -> Array:
        """A_item: the solutions of noisy normal equations."""
        model = self.model
        statistic = NormalEquations(
            n_items=len(factors),
            rank=model.rank,
            k=model.max_items,
            user_norm=model.user_clip,
            target_bound=self.data.bound,
            ratio=model.gram_noise / model.rhs_noise,
            weighted=model._sampling == "weights",
        )
        stack, unit = self.releaser.release(STEP, statistic, users, own_equations).values, statistic.target_unit
        return a_item(stack, unit, self._penalty(), shared, model.n_jobs, project_first=model.project_first)

    def _descend(self, factors: Array, users: Blocks[Sample], shared: Array | None) -> Array:
        """Remark 8: noisy gradient descent on the items' least squares problems, for fixed vectors of users.

        A user's gradient, w_j (u . v_j - y_j) u for each of their items j, is clipped as a whole.
        """
        model, penalty = self.model, self._penalty()
        top = 0.0 if shared is None else max(float(np.linalg.eigvalsh(shared)[-1]), 0.0)
        curvature = penalty + top + np.maximum(self.data.counts, 1.0) * model.user_clip**2
        bound = model.max_items**0.5 * model.user_clip * self.data.bound  # the most that k items can give
        for _ in range(model.n_gradients):
            gradient = partial(own_gradient, factors=factors, user_clip=model.user_clip)
            released = self.releaser.release(GRADIENT, OuterSum(factors.shape, bound), users, gradient).values
            pull = penalty[:, None] * factors + (0.0 if shared is None else factors @ shared)
            factors = factors - (released + pull) / curvature[:, None]
        return factors


# -- one item step by itself


def private_regressions(
    features: Array,
    targets: Array,
    *,
    epsilon: float,
    delta: float,
    feature_clip: float,
    target_clip: float,
    max_targets: int,
    regularization: float = 1.0,
    noise_ratio: float = 1.0,
    adjacency: AdjacencyName = "add-remove",
    ledger: Ledger | None = None,
    random_state: int = 0,
    n_jobs: int | None = -1,
) -> Array:
    """Coefficients t_j with x_i . t_j close to y_ij, for all columns j at once: DP for a change of one person's row.

    Up to the noise, they minimize sum_i (y_ij - x_i . t_j)^2 + regularization |t_j|^2 over the people i with a target
    j. One release has the sums of x x^T and of y x for each j. One person moves them, at noise s_G and s_g, by
    sqrt(k feature_clip^4 / s_G^2 + k feature_clip^2 target_clip^2 / s_g^2) deviations, where k is `max_targets`.

    Args:
        features: x_i, one row for each person.
        targets: y_ij, one row for each person; NaN where there is none.
        epsilon: The budget.
        delta: The delta of the budget.
        feature_clip: Longer rows of features are scaled down to this length; public.
        target_clip: Larger targets are clipped to this size; public.
        max_targets: How many targets of a person count, chosen at random if there are more; public.
        regularization: Weight of the squared lengths of the coefficients.
        noise_ratio: sigma_G / sigma_g, the noise of the Gram matrices over the noise of the right-hand sides.
        adjacency: "add-remove" or "replace".
        ledger: Where the cost is recorded; by default a ledger of its own.
        random_state: Seed of the sample of targets; public.
        n_jobs: Number of threads, as in scikit-learn.

    Returns:
        One row of coefficients for each column of `targets`.
    """
    x, y = np.asarray(features, np.float64), np.asarray(targets, np.float64)
    if x.ndim != 2 or y.ndim != 2 or len(x) != len(y) or not x.shape[1] or not y.shape[1]:
        raise DataError("features, targets: matrices with a row for each person, and at least one column, are needed")
    for name, value in (("feature_clip", feature_clip), ("target_clip", target_clip), ("noise_ratio", noise_ratio)):
        positive(name, value)
    positive("regularization", regularization, zero=True)
    k = min(whole("max_targets", max_targets, 1), y.shape[1])
    n_threads(n_jobs)
    check_size(y.shape[1], x.shape[1])
    statistic = NormalEquations(y.shape[1], x.shape[1], k, feature_clip, target_clip, noise_ratio)
    statistic.sensitivity(adjacency)  # raises if there is none
    require_sound_arithmetic()
    budget = account(epsilon=epsilon, delta=delta)
    assert budget.mu is not None
    ledger = Ledger(epsilon=epsilon, delta=delta, adjacency=adjacency, notion="dp") if ledger is None else ledger
    ledger.expect(unit="user", adjacency=adjacency)
    with ledger.reserve(Plan.gaussian(budget.mu, {STEP: 1.0})) as reservation:
        releaser = Releaser(reservation, adjacency, n_jobs)
        sample = _sample(x, y, k, random_state)
        stack = releaser.release(STEP, statistic, LocalBlocks(lambda: [sample]), own_equations).values
    return a_item(stack, statistic.target_unit, np.full(y.shape[1], float(regularization)), None, n_jobs)


def _sample(features: Array, targets: Array, k: int, seed: int) -> Sample:
    """Each person's targets, at most k, as sparse rows, and their features."""
    there = ~np.isnan(targets)
    indptr = np.concatenate([[0], np.cumsum(np.count_nonzero(there, axis=1))])
    every = UserBatch(indptr, np.nonzero(there)[1], targets[there])
    chosen = kept(every, uniform(every, k, seed))
    return Sample(chosen.indptr, chosen.indices, chosen.values, vectors=features)
