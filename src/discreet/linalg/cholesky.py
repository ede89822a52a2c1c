"""Many small symmetric positive definite systems.

LAPACK's `posv`, called for each matrix in turn (`blas.py`), takes half to a third of the time of NumPy's batched
solvers (an LU; a Cholesky with no triangular solve behind it), and of a panelled or a vectorised Cholesky written in
NumPy. For very small matrices a call for each takes longer than its work: they are factored all at once, entry by
entry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from discreet.linalg.blas import cholesky_solve
from discreet.typing import Array

TOGETHER = 24  # columns up to which that is quicker, if there are thousands; and threads do not wait for each other


def solve_spd(A: Array, b: Array, whole: Callable[[int], Array] | None = None) -> Array:
    """Solve A[i] x[i] = b[i] for each i. A (batch, k, k) is overwritten, and b (batch, k) becomes the solution.

    A matrix that is singular, or so nearly that this precision cannot tell, gets the solution of least norm in place
    of an error, NaN or noise. Where A has nothing but upper triangles, `whole(i)` is asked for such a matrix anew.
    """
    if not (
        A.flags.c_contiguous and b.flags.c_contiguous and A.dtype == b.dtype and A.shape == (*b.shape, b.shape[-1])
    ):
        raise ValueError(f"A, b: contiguous arrays (batch, k, k) and (batch, k) are needed, not {A.shape}, {b.shape}")
    if not b.size:
        return b
    diagonals = np.diagonal(A, axis1=1, axis2=2).copy()
    if b.shape[1] <= TOGETHER:
        x, pivots = _together(A, b)
        failed = ~(pivots > least_pivots(diagonals)).all(axis=1)
        for i in np.flatnonzero(failed):
            x[i] = least_norm(A[i] if whole is None else whole(int(i)), b[i])
        b[:] = x
        return b
    sides = b.copy()
    status = cholesky_solve(A, b)
    pivots = np.diagonal(A, axis1=1, axis2=2)
    for i in np.flatnonzero((status != 0) | ~(pivots > least_pivots(diagonals)).all(axis=1)):
        b[i] = least_norm(whole(int(i)) if whole is not None else _mirrored(A[i], diagonals[i]), sides[i])
    return b


def _mirrored(A: Array, diagonal: Array) -> Array:
    """The symmetric matrix whose lower triangle is A's."""
    below = np.tril(A, -1)
    matrix: Array = below + below.T + np.diag(diagonal)
    return matrix


def _together(A: Array, b: Array) -> tuple[Array, Array]:
    """Solutions and pivots of all systems at once, by operations on whole batches of entries: of upper triangles."""
    k = b.shape[1]
    L, x = A.transpose(2, 1, 0).copy(), b.T.copy()  # entry by entry: long stretches of memory
    with np.errstate(all="ignore"):  # what is singular is found by its pivots
        for j in range(k):
            L[j, j] = np.sqrt(L[j, j])
            L[j + 1 :, j] /= L[j, j]
            x[j] /= L[j, j]
            x[j + 1 :] -= L[j + 1 :, j] * x[j]
            for i in range(j + 1, k):
                L[i:, i] -= L[i:, j] * L[i, j]
        for j in reversed(range(k)):
            x[j] /= L[j, j]
            x[:j] -= L[j, :j] * x[j]
    return x.T, np.diagonal(L).copy()


def least_pivots(diagonals: Any) -> Any:
    """The least pivots (batch, k) that are more than rounding: a pivot's square is what earlier columns leave of it."""
    k = diagonals.shape[1]
    return (abs(diagonals) * (k * float(np.finfo(str(diagonals.dtype).removeprefix("torch.")).eps))) ** 0.5


def least_norm(A: Array, b: Array) -> Array:
    """The solution of least norm of a symmetric system that may be singular."""
    values, vectors = np.linalg.eigh(A)
    floor = max(values[-1], 0) * len(A) * np.finfo(A.dtype).eps
    kept = values > floor
    solution: Array = vectors[:, kept] @ ((b @ vectors[:, kept]) / values[kept])
    return solution
