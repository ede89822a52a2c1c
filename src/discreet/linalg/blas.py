"""Half products and Cholesky solves of many small matrices.

NumPy's and SciPy's functions for batches do more than is needed here: a matrix product fills both halves of a symmetric
matrix, and a Cholesky has no solve behind it. So routines of LAPACK and BLAS are called for each matrix in turn,
through ctypes, outside the interpreter lock: `posv`, which SciPy publishes as a C function, and `syrk` of the OpenBLAS
that NumPy ships. Where there is none, a product is NumPy's.

Where OpenBLAS multiplies small matrices as they lie (its AVX-512 kernels do), half of a product is made of a staircase
of small ones, in four fifths to a half of the time of `syrk`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.linalg.threads import blas_libraries

Array = NDArray[Any]

EACH = 64  # columns from which half of a product takes longer than a call from Python
STAIR, STAIR_DUAL = 64, 8  # bytes of a stair of X^T X, columns of one of X X^T
LEAST = 40  # columns from which they pay
UNPACKED = 10**6  # multiplications in a product that such kernels take
UNPACKED_DUAL = 1200  # and entries, if the transposed matrix is the second one
SMALL_KERNELS = ("SkylakeX", "Cooperlake", "SapphireRapids")  # processors, as OpenBLAS calls those that it has them for
ROW_MAJOR, UPPER, AS_IT_IS, TRANSPOSED = 101, 121, 111, 112  # of CBLAS
REALS: dict[str, Any] = {"f": ctypes.c_float, "d": ctypes.c_double}
PREFIX = {"f": "s", "d": "d"}


def cholesky_solve(A: Array, b: Array) -> Array:
    """Solve A[i] x = b[i] in place of b[i], by the upper triangle of A[i], which becomes its factor; LAPACK's verdicts.

    What is below the diagonal is neither read nor written.
    """
    posv, status = _posv(A.dtype.char), np.zeros(len(A), np.intc)
    triangle, size, one = ctypes.c_char(b"L"), ctypes.c_int(b.shape[1]), ctypes.c_int(1)
    uplo, n, nrhs = (ctypes.addressof(word) for word in (triangle, size, one))
    for matrix, vector, info in zip(*map(_addresses, (A, b, status)), strict=True):
        posv(uplo, n, nrhs, matrix, n, vector, n, info)  # LAPACK's "lower", in its order, is our upper
    return status


def gram(X: Array, out: Array, *, dual: bool = False, add: bool = False, upper: bool = False) -> Array:
    """X[i]^T X[i] for each i, or X[i] X[i]^T if `dual`, in `out`, or added to it.

    If `upper`, what is below the diagonal may be anything.
    """
    left, right = (X, X.swapaxes(1, 2)) if dual else (X.swapaxes(1, 2), X)
    size, inner, width = out.shape[1], right.shape[1], X.shape[2]
    stair = STAIR_DUAL if dual else STAIR // X.itemsize
    if upper and _stairs_pay(stair, size, inner, dual):
        return _by_stairs(left, right, out, stair, add)
    syrk = _syrk(X.dtype.char) if upper and size >= EACH else None
    if syrk is None:
        return np.add(out, left @ right, out=out) if add else np.matmul(left, right, out=out)
    how = (ROW_MAJOR, UPPER, AS_IT_IS if dual else TRANSPOSED, size, inner)
    for matrix, product in zip(_addresses(X), _addresses(out), strict=True):
        syrk(*how, 1, matrix, width, add, product, size)
    return out


def _addresses(batch: Array) -> range:
    """Where in memory each matrix of a batch begins; its own numbers are contiguous."""
    return range(batch.ctypes.data, batch.ctypes.data + len(batch) * batch.strides[0], batch.strides[0] or 1)


def _stairs_pay(stair: int, size: int, inner: int, dual: bool) -> bool:
    """Whether stairs of a product of this size, of sums of so many, are small enough for OpenBLAS's kernels."""
    fit = not dual or (stair * size <= UNPACKED_DUAL and stair * size * inner <= UNPACKED)
    return fit and size >= LEAST and _has_small_kernels()


def _by_stairs(left: Array, right: Array, out: Array, stair: int, add: bool) -> Array:
    """The upper triangles of left[i] right[i]; long sums in parts that are small enough."""
    size, inner = out.shape[1], right.shape[1]
    n_parts = -(-inner * stair * size // UNPACKED)
    part = -(-inner // n_parts)
    for first in range(0, inner, part):
        some, adds = slice(first, first + part), add or first > 0
        product = np.empty_like(out) if adds else out
        for at in range(0, size, stair):
            np.matmul(left[:, at : at + stair, some], right[:, some, at:], out=product[:, at : at + stair, at:])
        if adds:
            with np.errstate(all="ignore"):  # below the diagonal is whatever was in memory
                out += product
    return out


@cache
def _has_small_kernels() -> bool:
    """Whether the BLAS here, which has the same kernels for NumPy and SciPy, multiplies small matrices as they lie."""
    return any(
        library.internal_api == "openblas" and library.architecture in SMALL_KERNELS for library in blas_libraries()
    )


@cache
def _syrk(kind: str) -> Callable[..., None] | None:
    """BLAS's ssyrk or dsyrk, of an OpenBLAS whose name for it says how wide its integers are; None: there is none."""
    for library in blas_libraries():
        syrk: Any = getattr(ctypes.CDLL(library.filepath), f"scipy_cblas_{PREFIX[kind]}syrk64_", None)
        if syrk is not None:
            word, real, place = ctypes.c_int64, REALS[kind], ctypes.c_void_p
            syrk.argtypes = [ctypes.c_int] * 3 + [word, word, real, place, word, real, place, word]
            syrk.restype = None
            found: Callable[..., None] = syrk
            return found
    return None


@cache
def _posv(kind: str) -> Callable[..., None]:
    """LAPACK's sposv or dposv: (uplo, n, nrhs, a, lda, b, ldb, info), all by address."""
    import scipy.linalg.cython_lapack

    capsule = scipy.linalg.cython_lapack.__pyx_capi__[f"{PREFIX[kind]}posv"]
    python = ctypes.pythonapi
    name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", python))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", python))
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 8)(pointer(capsule, name(capsule)))
