"""What two kernels compute, in NumPy, written to be read: it also solves singular systems. Tests compare the others."""

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
