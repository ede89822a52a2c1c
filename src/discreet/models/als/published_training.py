"""Algorithm 1 of DPALS as published: users and items by turns, on prepared data.

In an item step, a user with the vector u adds, for each of their items j with weight w_j and rating y_j, w_j u u^T to
the item's Gram matrix and w_j y_j u to its right-hand side (`NormalEquations`). Proof: docs/proofs/dpals-published.md.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from discreet import kernels
from discreet.engine import Blocks
from discreet.engine.batches import PART
from discreet.errors import DataError
from discreet.kernels import over_blocks, single_threaded_blas
from discreet.models.als.calibration import GRADIENT, GRAM, START, STEP
from discreet.models.als.preprocessing import Prepared
from discreet.models.als.sampling import Sample
from discreet.models.ridge import Penalty, Ridge, shared_gram
from discreet.privacy import GramSum, NormalEquations, OuterSum, Releaser
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

if TYPE_CHECKING:
    from discreet.models.als.published import PublishedDPALS


def check_size(n_items: int, rank: int, names: str = "rank, item_fraction") -> None:
    """Raise if so many matrices of this size are too large to be released at once on this machine."""
    size, most = n_items * (rank + 1) ** 2 * 8, most_bytes()
    if size > most:
        raise DataError(
            f"{names}: {n_items:,} x {rank + 1:,} x {rank + 1:,} numbers would be released at once, which is "
            f"{size / 2**30:.1f} GiB, and at most a quarter of the memory can be, here {most / 2**30:.1f}; lower one "
            "of these"
        )


def most_bytes() -> int:
    """Of a stack of matrices: a quarter of the machine's memory, where that is known."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4
    except (AttributeError, ValueError, OSError):  # Windows
        return 1 << 31


# -- the private side


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


@dataclass(frozen=True)
class UserStep:
    """A_user for all users: samples get the vectors of their users."""

    ridge: Ridge
    user_clip: float

    def __call__(self, sample: Sample) -> Sample:
        """Those of some users."""
        return replace(sample, vectors=a_user(self.ridge, sample if sample.own is None else sample.own, self.user_clip))


def own_vectors(sample: Sample) -> Array:
    """The vectors of some users."""
    assert sample.vectors is not None
    return sample.vectors


def own_equations(sample: Sample) -> tuple[Array, Array, Array | None]:
    """What some users contribute to an item step: their vectors, ratings and weights."""
    return own_vectors(sample), sample.values, sample.weights


def own_gradient(sample: Sample, factors: Array, user_clip: float) -> tuple[Array, Array]:
    """The x and a of each user's gradient x a^T, x on their own items and a no longer than 1."""
    own, owners = own_vectors(sample), sample.owners
    scores = (own[owners] * factors[sample.indices]).sum(axis=1)
    return sample.own_weights() * (scores - sample.values) * user_clip, own / user_clip


# -- the public side

BLOCK_BYTES = 1 << 22  # of matrices that a thread solves at a time


def a_item(
    stack: Array, unit: float, penalty: Array, shared: Array | None, n_jobs: int | None, *, project_first: bool = False
) -> Array:
    """A_item after the noise: v_j = PSD(X_j)^+ b_j with X_j = the noisy Gram + lambda_j I + lambda_0 K, free of charge.

    `stack` has the matrices as they are released: the last columns, times `unit`, are right-hand sides b_j. With
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
    """The nearest positive semidefinite matrix, negative eigenvalues being replaced by 0."""
    values, vectors = np.linalg.eigh(X)
    projected: Array = (vectors * np.maximum(values, 0)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    return projected


def solve_positive_part(X: Array, b: Array) -> Array:
    """The solutions of least norm of PSD(X[i]) z = b[i], eigenvalues that are not positive being replaced by 0.

    A Cholesky factor tells most of those that are positive definite; the others are diagonalized.
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
            users = self.data.samples.map(UserStep(ridge, model.user_clip)).keep(self.releaser.n_jobs)
            shared = self._shared(users)
            factors = (self._descend if model.item_step == "gradient" else self._solve)(factors, users, shared)
            if not np.isfinite(factors).all():  # of public numbers: gradient steps may diverge
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
        """The lambda c_j^mu / Z' of each item, Z' being the mean of the numerators: public, since the counts are."""
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
        rates = model.learning_rate / curvature
        bound = model.gradient_clip or model.max_items**0.5 * model.user_clip * self.data.bound
        for _ in range(model.n_gradients):
            gradient = partial(own_gradient, factors=factors, user_clip=model.user_clip)
            released = self.releaser.release(GRADIENT, OuterSum(factors.shape, bound), users, gradient).values
            pull = penalty[:, None] * factors + (0.0 if shared is None else factors @ shared)
            factors = factors - rates[:, None] * (released + pull)
        return factors
