"""Half products and Cholesky solves of many small matrices.

NumPy's and SciPy's functions for batches do more than is needed here: a matrix product fills both halves of a symmetric
matrix, and a Cholesky has no solve behind it. So routines of BLAS and LAPACK are called for each matrix in turn,
through ctypes, outside the interpreter lock. The OpenBLAS that NumPy ships is looked for first: it is usually the newer
one, and its names say how wide its integers are. Where there is none, or a slow one, `posv` is the one that SciPy
publishes as a C function; where there is none, a product is NumPy's.

Where OpenBLAS multiplies small matrices as they lie (its AVX-512 kernels do), half of a product is made of a staircase
of small ones, in four fifths to a half of the time of `syrk`; of long sums, in parts.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from discreet.kernels.threads import blas_libraries
from discreet.typing import Array

EACH = 64  # columns from which half of a product takes longer than a call from Python
STAIR, STAIR_DUAL = 64, 8  # bytes of a stair of X^T X, columns of one of X X^T
LEAST = 40  # columns from which they pay
UNPACKED = 10**6  # multiplications in a product that such kernels take
UNPACKED_DUAL = 1200  # and entries, if the transposed matrix is the second one
SLOW = "0.3.31"  # an OpenBLAS that takes a tenth to a fifth longer to factor small matrices than those around it
SMALL_KERNELS = ("SkylakeX", "Cooperlake", "SapphireRapids")  # processors, as OpenBLAS calls those that it has them for
ROW_MAJOR, UPPER, AS_IT_IS, TRANSPOSED = 101, 121, 111, 112  # of CBLAS
REALS: dict[str, Any] = {"f": ctypes.c_float, "d": ctypes.c_double}
PREFIX = {"f": "s", "d": "d"}


@dataclass(frozen=True)
class Routines:
    """For one kind of number: what is called by address, and how wide the integers of `posv` are."""

    integer: Any
    posv: Callable[..., None]
    syrk: Callable[..., None] | None


def cholesky_solve(A: Array, b: Array) -> Array:
    """Solve A[i] x = b[i] in place of b[i], by the upper triangle of A[i], which becomes its factor; LAPACK's verdicts.

    What is below the diagonal is neither read nor written.
    """
    routines = _routines(A.dtype.char)
    status = np.zeros(len(A), np.dtype(routines.integer))
    triangle, size, one = ctypes.c_char(b"L"), routines.integer(b.shape[1]), routines.integer(1)
    uplo, n, nrhs = (ctypes.addressof(word) for word in (triangle, size, one))
    for matrix, vector, info in zip(*map(_addresses, (A, b, status)), strict=True):
        routines.posv(uplo, n, nrhs, matrix, n, vector, n, info)  # LAPACK's "lower", in its order, is our upper
    return status


def gram(X: Array, out: Array, *, dual: bool = False, add: bool = False, upper: bool = False) -> Array:
    """X[i]^T X[i] for each i, or X[i] X[i]^T if `dual`, in `out`, or added to it.

    If `upper`, what is below the diagonal may be anything.
    """
    left, right = (X, X.swapaxes(1, 2)) if dual else (X.swapaxes(1, 2), X)
    stair = STAIR_DUAL if dual else STAIR // X.itemsize
    n_parts = _parts(stair, right.shape[1], out.shape[1], dual) if upper else 0
    if n_parts > 1:
        parts = np.empty((len(X), n_parts, *out.shape[1:]), out.dtype)
        gram(X.reshape(-1, X.shape[1] // n_parts, X.shape[2]), parts.reshape(-1, *out.shape[1:]), upper=True)
        with np.errstate(all="ignore"):  # below the diagonal is whatever was in memory
            for at in range(n_parts):
                np.add(out if add or at else 0, parts[:, at], out=out)
        return out
    if n_parts == 1:
        for at in range(0, out.shape[1], stair):
            step = out[:, at : at + stair, at:]
            product = np.matmul(left[:, at : at + stair], right[:, :, at:], out=None if add else step)
            if add:
                step += product
        return out
    syrk = _routines(X.dtype.char).syrk if upper and out.shape[1] >= EACH else None
    if syrk is None:
        return np.add(out, left @ right, out=out) if add else np.matmul(left, right, out=out)
    size, inner, width = out.shape[1], right.shape[1], X.shape[2]
    how = (ROW_MAJOR, UPPER, AS_IT_IS if dual else TRANSPOSED, size, inner)
    for matrix, product in zip(_addresses(X), _addresses(out), strict=True):
        syrk(*how, 1, matrix, width, add, product, size)
    return out


def _addresses(batch: Array) -> range:
    """Where in memory each matrix of a batch begins; its own numbers are contiguous."""
    return range(batch.ctypes.data, batch.ctypes.data + len(batch) * batch.strides[0], batch.strides[0] or 1)


def _parts(stair: int, inner: int, size: int, dual: bool = False) -> int:
    """How many parts of one length to cut sums into, so that OpenBLAS's kernels take a stair of each; 0: none pays."""
    n_parts = max(1, -(-inner * stair * size // UNPACKED))
    fit = (n_parts == 1 and stair * size <= UNPACKED_DUAL) if dual else inner % n_parts == 0
    return n_parts if fit and size >= LEAST and _has_small_kernels() else 0


@cache
def _has_small_kernels() -> bool:
    """Whether the BLAS here, which has the same kernels for NumPy and SciPy, multiplies small matrices as they lie."""
    return any(
        library.internal_api == "openblas" and library.architecture in SMALL_KERNELS for library in blas_libraries()
    )


@cache
def _routines(kind: str) -> Routines:
    """The routines for numbers of a kind, "f" or "d"."""
    letter = PREFIX[kind]
    for library in blas_libraries():
        found = ctypes.CDLL(library.filepath)
        posv, syrk = (getattr(found, f"scipy_{name}64_", None) for name in (f"{letter}posv_", f"cblas_{letter}syrk"))
        if posv is not None and syrk is not None:
            word, real, place = ctypes.c_int64, REALS[kind], ctypes.c_void_p
            syrk.argtypes = [ctypes.c_int] * 3 + [word, word, real, place, word, real, place, word]
            syrk.restype = None
            if library.version.startswith(SLOW):
                return Routines(ctypes.c_int, _scipy_posv(letter), syrk)
            posv.argtypes, posv.restype = [place] * 8, None
            return Routines(word, posv, syrk)
    return Routines(ctypes.c_int, _scipy_posv(letter), None)


def _scipy_posv(letter: str) -> Callable[..., None]:
    """LAPACK's sposv or dposv: (uplo, n, nrhs, a, lda, b, ldb, info), all by address."""
    import scipy.linalg.cython_lapack

    capsule = scipy.linalg.cython_lapack.__pyx_capi__[f"{letter}posv"]
    python = ctypes.pythonapi
    name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", python))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", python))
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 8)(pointer(capsule, name(capsule)))
