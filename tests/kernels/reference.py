"""What the kernels compute, in NumPy, written to be read."""

from __future__ import annotations

import numpy as np

from discreet.typing import Array


def ridge_row(
    X: Array,
    y: Array,
    scale: float,
    prior: Array | None = None,
    *,
    prior_count: float = 0.0,
    gram: Array | None = None,
    offset_penalty: float | None = None,
) -> tuple[float, Array]:
    """Offset and vector of one row, in double precision; of all solutions, the one of least norm.

    X has the vectors of the row's items, y what is to be explained of their values, and `prior` a vector for each.
    """
    k, center = X.shape[1], np.zeros(X.shape[1]) if prior is None else prior.sum(axis=0) / (len(y) + prior_count)
    Z = np.column_stack([np.full(len(y), offset_penalty is not None), X]).astype(np.float64)
    A = Z.T @ Z
    A[1:, 1:] += scale * np.eye(k) + (0 if gram is None else gram)
    A[0, 0] += offset_penalty or 0
    b = Z.T @ (y - X @ center)
    values, vectors = np.linalg.eigh(A)
    known = values > max(values[-1], 0) * len(A) * np.finfo(np.float64).eps * 8
    solution = vectors[:, known] @ ((vectors[:, known].T @ b) / values[known])
    return float(solution[0]), solution[1:] + center


def top_n(scores: Array, n: int) -> tuple[Array, Array]:
    """Columns and scores of each row's n best, of equal ones the first first; -1 where no finite score is left."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :n]
    best = np.take_along_axis(scores, order, axis=1)
    return np.where(best > -np.inf, order, -1), best


def conjugate_gradients(A: Array, b: Array, z: Array, steps: int) -> Array:
    """Some steps toward the solution of A z = b."""
    left = b - A @ z
    direction = left
    for _ in range(steps):
        if not left.any():
            break
        step = (left @ left) / (direction @ A @ direction)
        z, before, left = z + step * direction, left, left - step * (A @ direction)
        direction = left + (left @ left) / (before @ before) * direction
    return z


def leave_fold_out_row(
    X: Array, y: Array, prior: Array, penalty: Array, folds: int, *, prior_count: float = 0.0
) -> tuple[Array, Array]:
    """The vector (folds, k) that is fitted to all entries but those of a fold; residuals by the vector of its own fold.

    Entry p is in fold p % folds. The vector minimizes |y - X z|^2 + (z - c)^T diag(penalty) (z - c), c being the mean
    of the priors of the other folds and of `prior_count` zeros.
    """
    fold = np.arange(len(y)) % folds
    vectors = np.empty((folds, X.shape[1]))
    for f in range(folds):
        own, t, chosen = X[fold != f], y[fold != f], prior[fold != f]
        center = chosen.sum(axis=0) / ((len(chosen) + prior_count) or 1)
        vectors[f] = np.linalg.solve(own.T @ own + np.diag(penalty), own.T @ t + penalty * center)
    return vectors, y - np.einsum("ij,ij->i", X, vectors[fold])


def item_posterior(
    first: Array,
    spread: Array,
    own: Array,
    precision: Array,
    information: Array,
    *,
    step: tuple[Array, Array, Array] | None = None,
) -> tuple[Array, Array, Array, Array, Array]:
    """What is known of an item: theta, of which phi = theta + its ratings' own noise is observed.

    theta has the prior mean `first` and covariance `spread`, and the noise the covariance `own`. A step estimates phi
    to be at a target, give or take fresh noise and an error that is as large as its gap, the second moment of phi
    about the mean of theta, says.

    Args:
        first: (k,).
        spread: (k, k).
        own: (k, k).
        precision: Of phi, by earlier steps, (k, k).
        information: The precision times the estimate.
        step: Target, covariance of fresh noise and of the error.

    Returns:
        Precision, information, gap, mean and covariance of theta.
    """
    if step is not None:
        target, fresh, error = step
        found = np.linalg.inv(fresh + error)
        precision, information = precision + found, information + found @ target
    wide, eye = spread + own, np.eye(len(first))
    phi = first + np.linalg.solve(eye + wide @ precision, wide @ (information - precision @ first))
    variance = np.linalg.solve(eye + wide @ precision, wide)
    slope = np.linalg.solve(wide, spread).T  # the regression of theta on phi
    mean = first + slope @ (phi - first)
    return precision, information, variance + np.outer(phi - mean, phi - mean), mean, slope @ (own + variance @ slope.T)


def unit_row(entries: Array) -> Array:
    """Entries scaled to a length of 1, unless all are 0."""
    return entries / (np.linalg.norm(entries) or 1)


def other_folds_row(loadings: Array, entries: Array, folds: int) -> Array:
    """The sums of entries times loadings over all folds but one, (folds, d)."""
    fold = np.arange(len(entries)) % folds
    return np.array([entries[fold != f] @ loadings[fold != f] for f in range(folds)])
