"""Does this machine give the same bits wherever operands are in memory, and whatever is beside them?

Our own kernels do by construction (`discreet.kernels`): a row is computed by one thread, in an order of its own. Some
models also multiply a user's row by a public matrix with NumPy. Most BLAS do that in the same way wherever it is in
memory. Some kernels treat the first few numbers separately until they reach an aligned address, and round differently.
Then what is computed of one user would depend, in its last bits, on which users come before them in memory. And
vectorized functions such as tanh may compute the last few numbers of an array in another way. The proofs need that
nothing of the kind happens; so it is tested, once in a process, before the first private fit, and before a private
model serves anyone.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from itertools import product

import numpy as np
import scipy
from scipy.sparse import csr_array
from scipy.special import expit, log_ndtr

from discreet.errors import PrivacyError
from discreet.kernels import Table, instruction_set, ridge
from discreet.kernels.threads import blas_libraries, single_threaded_blas
from discreet.typing import Array
from discreet.version import __version__

PLACES = 8  # numbers of 8 bytes in a cache line
SHAPES = [(c, k) for c in (1, 4, 7, 18, 40, 96) for k in (1, 2, 3, 6, 11, 13, 24, 33, 65)]
LARGE = [(1002, 64)]  # dense rows, and directions of taste
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
    "sparse t X": lambda X, t, z: csr_array((t[0], np.arange(t.size), [0, t.size]), shape=t.shape) @ X[0],
}
FUNCTIONS: dict[str, Callable[[Array], Array]] = {  # entry by entry
    "exp": np.exp,
    "tanh": np.tanh,
    "power": lambda x: np.abs(x) ** 0.3,
    "logistic": expit,
    "log of the normal distribution": log_ndtr,
}


def require_sound_arithmetic() -> None:
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
    words = [platform.machine(), " ".join(platform.libc_ver()), f"discreet {__version__} {instruction_set()}"]
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
            found += [np.tanh(X), np.exp(X), (X**2).sum((1, 2))]
            found.append(ridge(np.array([0, c]), np.arange(c), t[0], Table.of(X[0]), np.ones(1))[1].values)
            for result in found:
                digest.update(np.ascontiguousarray(result).tobytes())
    return digest.hexdigest()


def _depends_on_place(function: Callable[[Array], Array], x: Array) -> bool:
    """Whether an entry's value is another one where it stands alone, or at another place."""
    together, reverse = function(x), function(x[::-1].copy())[::-1]
    alone = [function(x[at : at + 1])[0] for at in range(len(x))]
    return not (np.array_equal(together, alone) and np.array_equal(together, reverse))


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
