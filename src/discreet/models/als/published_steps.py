"""The two sides of Algorithm 1 of DPALS, the start, and noisy gradients in the place of the item side (Remark 8)."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from discreet.engine.batches import PART
from discreet.linalg.arrays import NUMPY, Arrays
from discreet.linalg.indefinite import project_psd
from discreet.linalg.threads import over_blocks, single_threaded_blas
from discreet.models.als.calibration import GRADIENT, START
from discreet.models.als.moments import Moments
from discreet.models.als.sampling import Sample, vectors_of
from discreet.models.ridge import Penalty, Ridge
from discreet.privacy import GramSum, OuterSum, Releaser
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array


def clip(vectors: Array, bound: float) -> Array:
    """Vectors scaled down to a length of at most `bound`: u min(1, bound / |u|). The paper's max is a misprint."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    clipped: Array = vectors * (bound / np.maximum(lengths, bound))
    return clipped


def user_ridge(factors: Array, penalty: Penalty, global_penalty: float, device: str = "cpu") -> Ridge:
    """The regression of A_user: sum_j (y_j - u . v_j)^2 + lambda_0 sum over all j of (u . v_j)^2 + lambda_i |u|^2."""
    return Ridge(factors, np.zeros(len(factors)), penalty, shared_gram(factors, global_penalty), device=device)


def shared_gram(factors: Array, global_penalty: float) -> Array | None:
    """lambda_0 sum over all j of v_j v_j^T; None without a lambda_0."""
    if not global_penalty:
        return None
    with single_threaded_blas():
        gram: Array = global_penalty * (factors.T @ factors)
    return gram


def a_user(ridge: Ridge, rows: UserBatch, user_clip: float | None) -> Array:
    """A_user, for some users: each solves her own ridge regression exactly, from her own row; clipped for training."""
    vectors = ridge.solve(rows.indptr, rows.indices, rows.values)[1]
    return vectors if user_clip is None else clip(vectors, user_clip)


def a_item(
    moments: Moments,
    penalty: Array,
    shared: Array | None,
    n_jobs: int | None,
    *,
    project_first: bool = False,
    arrays: Arrays = NUMPY,
) -> Array:
    """A_item after the noise: v_j = PSD(X_j)^+ b_j with X_j = the noisy Gram + lambda_j I + lambda_0 K, free of charge.

    With `project_first`, v_j = (PSD(Gram) + lambda_j I + PSD(lambda_0 K))^-1 b_j.
    """
    m, r = len(moments.stack), moments.stack.shape[1] - 1
    size = max(1, arrays.block_bytes // (4 * r * r * 8))
    added = np.zeros((r, r)) if shared is None else project_psd(shared) if project_first else shared

    def work(start: int) -> Array:
        block = slice(start, start + size)
        stack = arrays.put(moments.stack[block])
        X, b = arrays.copy(stack[:, :r, :r]), stack[:, :r, r] * moments.unit
        X = arrays.project_psd(X) if project_first else X
        X += arrays.put(added)
        arrays.add_to_diagonal(X, arrays.put(penalty[block]))
        return arrays.get(arrays.solve_positive_part(X, b))

    return np.concatenate(list(over_blocks(work, range(0, m, size), n_jobs)))


def a_item_by_gradients(
    releaser: Releaser,
    factors: Array,
    sample: Any,
    users: Any,
    *,
    penalty: Array,
    shared: Array | None,
    rates: Array,
    n_gradients: int,
    user_clip: float,
    gradient_clip: float,
) -> Array:
    """Remark 8: noisy gradient descent on the items' least squares problems, users' vectors held where they are.

    A user's gradient, w_j (u . v_j - y_j) u for each of her items j, is clipped as a whole to `gradient_clip`.

    Args:
        releaser: Releases the gradients.
        factors: Item vectors to start from.
        sample: Users' items, ratings and weights.
        users: Users' vectors, no longer than `user_clip`.
        penalty: lambda_j.
        shared: lambda_0 K, noisy, or None.
        rates: The step size of each item: public, from earlier releases.
        n_gradients: How many steps.
        user_clip: Gamma_u.
        gradient_clip: The bound of a user's whole gradient.
    """
    for _ in range(n_gradients):
        gradient = partial(own_gradient, factors, users, user_clip)
        released = releaser.release(GRADIENT, OuterSum(factors.shape, gradient_clip), sample.batches(), gradient).values
        pull = penalty[:, None] * factors + (0.0 if shared is None else factors @ shared)
        factors = factors - rates[:, None] * (released + pull)
    return factors


def own_gradient(factors: Array, users: Any, user_clip: float, part: Sample) -> tuple[Array, Array, Array]:
    """The x and a of each user's gradient x a^T, x on her own items and a no longer than 1; and whose each x is."""
    own, owners = vectors_of(users, part), part.owners
    scores = (own[owners] * factors[part.indices]).sum(axis=1)
    return part.own_weights() * (scores - part.values) * user_clip, own / user_clip, owners


def random_start(n_items: int, rank: int, scale: float, seed: int) -> Array:
    """Item vectors of length about `scale`, from the public seed."""
    return np.random.default_rng(seed).standard_normal((n_items, rank)) * (scale / math.sqrt(rank))


def noisy_svd_start(releaser: Releaser, sample: Any, shape: tuple[int, int], *, k: int, entry_clip: float) -> Array:
    """Remark 2: the leading eigenvectors of the noisy second moment of users' rows.

    A row of k entries of size Gamma_M moves it by k Gamma_M^2, not by Gamma_M^2 as the paper has it.
    """
    n_items, rank = shape

    def entries(part: Sample) -> Array:
        return np.clip(part.values, -entry_clip, entry_clip)

    batches = sample.batches(max(1, PART // n_items))
    noisy = releaser.release(START, GramSum(n_items, k * entry_clip**2), batches, entries)
    with single_threaded_blas():
        vectors = np.linalg.eigh(noisy.values)[1][:, ::-1][:, :rank]
    start = np.zeros(shape)
    start[:, : vectors.shape[1]] = vectors
    return start


def normalised(factors: Array) -> Array:
    """Line 13 of Algorithm 1: V (V^T V)^(-1/2), as far as V has full rank."""
    with single_threaded_blas():
        values, vectors = np.linalg.eigh(factors.T @ factors)
        keep = values > values[-1] * len(values) * np.finfo(np.float64).eps
        root = np.where(keep, 1 / np.sqrt(np.where(keep, values, 1.0)), 0.0)
        result: Array = factors @ ((vectors * root) @ vectors.T)
    return result
