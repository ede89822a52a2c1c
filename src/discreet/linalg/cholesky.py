"""Many small symmetric positive definite systems.

LAPACK's `posv`, called for each matrix in turn, takes half to a third of the time of NumPy's batched solvers (an LU; a
Cholesky with no triangular solve behind it), and of a panelled or a vectorised Cholesky written in NumPy. SciPy
publishes it as a C function (`scipy.linalg.cython_lapack`); called through ctypes it runs outside the interpreter
lock, which SciPy's own Python wrapper holds, and that nearly halves the time on two threads. For very small matrices a
call for each takes longer than its work: they are factored all at once, entry by entry.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

TOGETHER = 12  # columns up to which that is quicker


def solve_spd(A: Array, b: Array) -> Array:
    """Solve A[i] x[i] = b[i] for each i. A (batch, k, k) is overwritten, and b (batch, k) becomes the solution.

    A matrix that is singular, or so nearly that this precision cannot tell, gets the solution of least norm in place
    of an error, NaN or noise.
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
            x[i] = least_norm(A[i], b[i])
        b[:] = x
        return b
    posv, sides = _posv(A.dtype.char), b.copy()
    status = np.zeros(len(A), np.intc)
    triangle, size, one = ctypes.c_char(b"L"), ctypes.c_int(b.shape[1]), ctypes.c_int(1)
    uplo, n, nrhs = (ctypes.addressof(word) for word in (triangle, size, one))
    addresses = (range(x.ctypes.data, x.ctypes.data + x.nbytes, x.strides[0]) for x in (A, b, status))
    for matrix, vector, info in zip(*addresses, strict=True):
        # In LAPACK's order of memory "lower" is our upper triangle; what is below the diagonal stays as it was.
        posv(uplo, n, nrhs, matrix, n, vector, n, info)
    pivots = np.diagonal(A, axis1=1, axis2=2)
    for i in np.flatnonzero((status != 0) | ~(pivots > least_pivots(diagonals)).all(axis=1)):
        below = np.tril(A[i], -1)
        b[i] = least_norm(below + below.T + np.diag(diagonals[i]), sides[i])
    return b


def _together(A: Array, b: Array) -> tuple[Array, Array]:
    """Solutions and pivots of all systems at once, by operations on whole batches of entries."""
    k = b.shape[1]
    L, x = A.transpose(1, 2, 0).copy(), b.T.copy()  # entry by entry: long stretches of memory
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


@cache
def _posv(kind: str) -> Callable[..., None]:
    """LAPACK's sposv or dposv: (uplo, n, nrhs, a, lda, b, ldb, info), all by address."""
    import scipy.linalg.cython_lapack

    capsule = scipy.linalg.cython_lapack.__pyx_capi__[{"f": "sposv", "d": "dposv"}[kind]]
    python = ctypes.pythonapi
    name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", python))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", python))
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 8)(pointer(capsule, name(capsule)))
