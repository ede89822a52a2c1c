"""Does this machine give the same bits wherever operands are in memory, and whatever is beside them?

Most BLAS do. Some kernels treat the first few numbers apart until they reach an aligned address, and round differently
for it. Then what is computed of one user would depend, in its last bits, on which users come before them in memory. The
proofs of private models need that it does not; so it is tested, once in a process, before the first private fit.
Vectorized functions such as tanh may compute the last few numbers of an array in another way; that is tested too.
On a GPU many users are solved for in one call; there it is tested that a user's bits do not depend on the others.
What serving needs is tried out before the first person is served, in `recommend.trial`.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from functools import cache, partial
from hashlib import blake2b
from itertools import product

import numpy as np
import scipy
from scipy.sparse import csr_array
from scipy.special import expit, log_ndtr

from discreet.errors import PrivacyError
from discreet.linalg.arrays import arrays_on
from discreet.linalg.blas import gram
from discreet.linalg.cholesky import solve_spd
from discreet.linalg.folds import Folds, LeaveFoldOutBlocks
from discreet.linalg.rows import Rows, padded, solve_rows
from discreet.kernels.threads import blas_libraries, single_threaded_blas
from discreet.typing import Array
from discreet.version import __version__

PLACES = 8  # numbers of 8 bytes in a cache line
SHAPES = [(c, k) for c in (1, 4, 7, 18, 40, 96) for k in (1, 2, 3, 6, 11, 13, 24, 33, 65)]
LARGE = [(1002, 64)]  # dense rows, and directions of taste
LENGTHS = (*range(1, 33), 40, 48, 63, 64, 65, 100, 127, 200, 256, 300, 500, 900, 1500, 3000, 5000)  # of rows on a GPU
MANY = 1000  # columns to choose from there
ENTRIES = 67  # of an array, whose last ones do not fill a vector register
KINDS = (np.float32, np.float64)  # that users are folded in with

Operation = Callable[[Array, Array, Array], Array]
PRODUCTS: dict[str, Operation] = {  # of a row and a matrix
    "t X": lambda X, t, z: t[:, None, :] @ X,
    "X z": lambda X, t, z: X @ z[:, :, None],
    "z X^T": lambda X, t, z: z[:, None, :] @ X.swapaxes(1, 2),
}
OPERATIONS: dict[str, Operation] = {
    **PRODUCTS,
    "X^T X": lambda X, t, z: X.swapaxes(1, 2) @ X,
    "X X^T": lambda X, t, z: X @ X.swapaxes(1, 2),
    "sparse t X": lambda X, t, z: csr_array((t[0], np.arange(t.size), [0, t.size]), shape=t.shape) @ X[0],
}
FUNCTIONS: dict[str, Callable[[Array], Array]] = {  # entry by entry
    "exp": np.exp,
    "tanh": np.tanh,
    "power": lambda x: np.abs(x) ** 0.3,
    "logistic": expit,
    "log of the normal distribution": log_ndtr,
}


def require_sound_blas() -> None:
    """Raise unless one user's numbers are the same, to the last bit, whatever is computed beside them."""
    if operations := address_dependent():
        raise PrivacyError(
            f"this machine's BLAS gives other bits for other memory addresses ({', '.join(operations)}), so that one "
            "user's numbers would depend on other users; use another BLAS, or with OpenBLAS another kernel "
            "(for instance OPENBLAS_CORETYPE=Haswell)"
        )


@cache
def address_dependent() -> tuple[str, ...]:
    """The operations, of those that fold users in, whose last bits depend on addresses or places here."""
    rng = np.random.default_rng(0)
    found: set[str] = set()
    with single_threaded_blas():
        for (c, k), kind in product(SHAPES + LARGE, KINDS):
            X, t, z = (rng.standard_normal(shape).astype(kind) for shape in ((1, c, k), (1, c), (1, k)))
            operations = PRODUCTS if (c, k) in LARGE else OPERATIONS
            found.update(name for name, operation in operations.items() if _varies(operation, X, t, z))
            found.update(["solve"] * _varies(solve_spd, X.swapaxes(1, 2) @ X + np.eye(k, dtype=kind), z))
            for dual in (False, True):
                out = np.zeros((1, c, c) if dual else (1, k, k), kind)
                found.update(["upper X^T X"] * _varies(partial(_upper, dual=dual), X, out))
        for kind, (name, function) in product(KINDS, FUNCTIONS.items()):
            found.update([name] * _depends_on_place(function, rng.standard_normal(ENTRIES).astype(kind)))
    return tuple(sorted(found))


@cache
def kernels() -> str:
    """What decides the last bits of this process's numbers, in words: equal words, equal bits for one row.

    The machine, the versions of what computes, and the kernels that were chosen for its processor. Not every library
    says what it has chosen, so there is a digest of results, too.
    """
    packages = (np, scipy)
    words = [platform.machine(), " ".join(platform.libc_ver()), f"discreet {__version__}"]
    words += [f"{package.__name__} {package.__version__}" for package in packages]
    try:
        found = np.show_config("dicts")["SIMD Extensions"]["found"]
        words.append("+".join(found) or "baseline")
    except (TypeError, KeyError):  # of NumPy before 1.25, the digest below is all that is known
        pass
    said = ((x.internal_api, x.version, getattr(x, "architecture", None) or "unnamed kernel") for x in blas_libraries())
    return ", ".join([*words, *sorted({" ".join(map(str, one)) for one in said}), f"results {_results()}"])


def _results() -> str:
    """A digest of what the operations that fold users in, and a few of NumPy's own loops, give here."""
    rng, digest = np.random.default_rng(0), blake2b(digest_size=8)
    with single_threaded_blas():
        for (c, k), kind in product(SHAPES, KINDS):
            X, t, z = (rng.random(shape).astype(kind) - kind(0.5) for shape in ((1, c, k), (1, c), (1, k)))
            found = [operation(X, t, z) for operation in OPERATIONS.values()]
            found += [
                solve_spd(X.swapaxes(1, 2) @ X + np.eye(k, dtype=kind), z),
                np.tanh(X),
                np.exp(X),
                (X**2).sum((1, 2)),
                *(_upper(X, np.zeros((1, n, n), kind), dual=dual) for n, dual in ((k, False), (c, True))),
            ]
            for result in found:
                digest.update(np.ascontiguousarray(result).tobytes())
    return digest.hexdigest()


@cache
def neighbour_dependent(device: str, n_columns: int, folds: int = 1) -> bool:
    """Whether rows that a GPU solves for depend, in their last bits, on which other rows there are.

    With several folds: the regressions of `folds.LeaveFoldOutBlocks`, with as many folds for each row.
    """
    rng = np.random.default_rng(0)
    counts = rng.permutation(np.repeat(LENGTHS, 5))
    indptr = np.concatenate([[0], np.cumsum(counts)])
    indices, targets = rng.integers(0, MANY, indptr[-1]), rng.standard_normal(indptr[-1])
    arrays, dtype = arrays_on(device), np.dtype(np.float64 if folds == 1 else np.float32)
    columns = arrays.put(padded(rng.standard_normal((MANY, n_columns)) / n_columns**0.5, dtype))
    shared = arrays.put(np.eye(n_columns) / 2)
    left_out = LeaveFoldOutBlocks(columns, columns, np.ones(n_columns, dtype), arrays)

    def solved(members: Array) -> Array:
        at = np.concatenate([np.arange(indptr[i], indptr[i + 1]) for i in members])
        ends = np.concatenate([[0], np.cumsum(counts[members])])
        if folds > 1:
            split = Folds.of(ends, folds)
            moved = [arrays.put(split.together(each)) for each in (indices[at], targets[at].astype(dtype))]
            return arrays.get(left_out.solve(folds, split.indptr, *moved))
        return solve_rows(
            Rows(ends, indices[at], targets[at], columns, np.full(len(members), 0.1), shared, arrays=arrays)
        )

    every, some = np.arange(len(counts)), rng.permutation(len(counts))[: len(counts) // 3]
    return not np.array_equal(solved(every)[some], solved(some))


def _depends_on_place(function: Callable[[Array], Array], x: Array) -> bool:
    """Whether an entry's value is another one where it stands alone, or at another place."""
    together, reverse = function(x), function(x[::-1].copy())[::-1]
    alone = [function(x[at : at + 1])[0] for at in range(len(x))]
    return not (np.array_equal(together, alone) and np.array_equal(together, reverse))


def _upper(X: Array, out: Array, dual: bool) -> Array:
    """The upper triangles of X^T X, or X X^T; below them is whatever was in memory."""
    return np.triu(gram(X, out, dual=dual, upper=True))


def _placed(array: Array, at: int) -> Array:
    """A copy whose first number is `at` numbers behind the beginning of a cache line."""
    places = _places(array)
    memory = np.zeros(array.size + 2 * places, array.dtype)
    first = (-memory.ctypes.data // memory.itemsize) % places + at
    placed = memory[first : first + array.size].reshape(array.shape)
    placed[...] = array
    return placed


def _places(array: Array) -> int:
    """How many numbers of this kind a cache line has."""
    return PLACES * 8 // array.itemsize


def _varies(operation: Callable[..., Array], *operands: Array) -> bool:
    places = range(_places(operands[0]))
    results = [operation(*(_placed(operand, at) for operand in operands)).copy() for at in places]
    return any(not np.array_equal(results[0], result) for result in results[1:])
