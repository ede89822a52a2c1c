"""Checks that a row's results do not depend, even in the last bit, on memory addresses or on other rows.

The compiled kernels guarantee that by construction: one thread computes a row, in a fixed order. Models also multiply a
user's row by a public matrix with NumPy. Most BLAS kernels give the same result for any address; some treat the first
few numbers separately until they reach an aligned address, and round differently. Then the last bits of one user's
numbers would depend on which users come before them in memory. Similarly, vectorized functions such as tanh may compute
the last few numbers of an array differently. The proofs require that neither happens, so it is tested once per process,
before the first private fit and before a private model serves anyone.
"""

import platform
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from itertools import product

import numpy as np
import scipy
from scipy.sparse import csr_array
from scipy.special import expit, log_ndtr

from discreet import kernels
from discreet.errors import PrivacyError
from discreet.parallel import blas_libraries, single_threaded_blas
from discreet.typing import Array
from discreet.version import __version__

PLACES = 8  # numbers of 8 bytes in a cache line
SHAPES = [(c, k) for c in (1, 4, 7, 18, 40, 96) for k in (1, 2, 3, 6, 11, 13, 24, 33, 65)]
LARGE = [(1002, 64)]  # dense rows, and directions of taste
ENTRIES = 67  # length of arrays, chosen so that the last entries do not fill a vector register
KINDS = (np.float32, np.float64)  # used to fold in users

Operation = Callable[[Array, Array, Array], Array]
PRODUCTS: dict[str, Operation] = {  # products of a row and a matrix
    "t X": lambda X, t, z: t[:, None, :] @ X,
    "X z": lambda X, t, z: X @ z[:, :, None],
    "z X^T": lambda X, t, z: z[:, None, :] @ X.swapaxes(1, 2),
}
OPERATIONS: dict[str, Operation] = {
    **PRODUCTS,
    "sparse t X": lambda X, t, z: csr_array((t[0], np.arange(t.size), [0, t.size]), shape=t.shape) @ X[0],
}
FUNCTIONS: dict[str, Callable[[Array], Array]] = {  # entry by entry
    "exp": np.exp,
    "tanh": np.tanh,
    "power": lambda x: np.abs(x) ** 0.3,
    "logistic": expit,
    "log of the normal distribution": log_ndtr,
}


@cache  # after an exception it is tried again
def require_sound_arithmetic() -> None:
    """Raise unless one user's numbers are the same, to the last bit, whatever is computed along with them."""
    if operations := address_dependent():
        raise PrivacyError(
            f"this machine's BLAS gives other bits for other memory addresses ({', '.join(operations)}), so that one "
            "user's numbers would depend on other users; use another BLAS, or with OpenBLAS another kernel "
            "(for instance OPENBLAS_CORETYPE=Haswell)"
        )


def address_dependent() -> tuple[str, ...]:
    """The operations for folding in users whose last bits depend on addresses or positions on this machine."""
    rng = np.random.default_rng(0)
    found: set[str] = set()
    with single_threaded_blas():
        for (c, k), kind in product(SHAPES + LARGE, KINDS):
            X, t, z = (rng.standard_normal(shape).astype(kind) for shape in ((1, c, k), (1, c), (1, k)))
            operations = PRODUCTS if (c, k) in LARGE else OPERATIONS
            places = [(_placed(X, at), _placed(t, at), _placed(z, at)) for at in range(_places(X))]
            found.update(name for name, operation in operations.items() if _varies(operation, places))
        for kind, (name, function) in product(KINDS, FUNCTIONS.items()):
            found.update([name] * _depends_on_place(function, rng.standard_normal(ENTRIES).astype(kind)))
    return tuple(sorted(found))


@cache
def machine_kernels() -> str:
    """A description of everything that decides the last bits of results: equal descriptions mean equal bits.

    It names the machine, the versions of libraries, and the kernels that they chose for its processor. Not every
    library says which it chose, so there is also a digest of results.
    """
    words = [platform.machine(), " ".join(platform.libc_ver()), f"discreet {__version__} {kernels.instruction_set()}"]
    words += [f"{package.__name__} {package.__version__}" for package in (np, scipy)]
    with suppress(TypeError, KeyError):  # NumPy before 1.25 does not say; the digest below must do
        words.append("+".join(np.show_config("dicts")["SIMD Extensions"]["found"]) or "baseline")
    blas = blas_libraries()
    said = {f"{x.internal_api} {x.version} {getattr(x, 'architecture', None) or 'unnamed kernel'}" for x in blas}
    return ", ".join([*words, *sorted(said), f"results {_results()}"])


def _results() -> str:
    """A digest of the results, on this machine, of the operations that fold in users and a few of NumPy's loops."""
    rng, digest = np.random.default_rng(0), blake2b(digest_size=8)
    with single_threaded_blas():
        for (c, k), kind in product(SHAPES, KINDS):
            X, t, z = (rng.random(shape).astype(kind) - kind(0.5) for shape in ((1, c, k), (1, c), (1, k)))
            found = [operation(X, t, z) for operation in OPERATIONS.values()]
            found += [np.tanh(X), np.exp(X), (X**2).sum((1, 2))]
            table = kernels.Table.of(X[0])
            found.append(kernels.ridge(np.array([0, c]), np.arange(c), t[0], table, np.ones(1))[1].values)
            for result in found:
                digest.update(np.ascontiguousarray(result).tobytes())
    return digest.hexdigest()


def _depends_on_place(function: Callable[[Array], Array], x: Array) -> bool:
    """Whether an entry's value changes if it is alone, or at another position."""
    together, reverse = function(x), function(x[::-1].copy())[::-1]
    alone = [function(x[at : at + 1])[0] for at in range(len(x))]
    return not (np.array_equal(together, alone) and np.array_equal(together, reverse))


def _placed(array: Array, at: int) -> Array:
    """A copy whose first number is `at` numbers after the start of a cache line."""
    places = _places(array)
    memory = np.zeros(array.size + 2 * places, array.dtype)
    first = (-memory.ctypes.data // memory.itemsize) % places + at
    placed = memory[first : first + array.size].reshape(array.shape)
    placed[...] = array
    return placed


def _places(array: Array) -> int:
    """How many numbers of this type fit a cache line."""
    return PLACES * 8 // array.itemsize


def _varies(operation: Operation, places: list[tuple[Array, Array, Array]]) -> bool:
    """Whether the results for the same operands at several places differ."""
    results = [operation(*operands).copy() for operands in places]
    return any(not np.array_equal(results[0], result) for result in results[1:])
