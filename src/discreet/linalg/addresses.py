"""Does this BLAS give the same bits wherever its operands are in memory?

Most do. Some kernels treat the first few numbers apart until they reach an aligned address, and round differently for
it. Then what is computed of one user would depend, in its last bits, on who comes before her in memory. The proofs of
private models need that it does not; so it is tried out, once in a process, before the first private fit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from discreet.linalg.blas import gram
from discreet.linalg.cholesky import solve_spd
from discreet.linalg.threads import single_threaded_blas

Array = NDArray[Any]

PLACES = 8  # numbers of 8 bytes in a cache line
SHAPES = [(c, k) for c in (1, 4, 7, 18, 40, 96) for k in (1, 2, 3, 6, 11, 13, 24, 33, 65)]
LARGE = [(1001, 64)]  # dense rows, and directions of taste
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


@cache
def address_dependent() -> tuple[str, ...]:
    """The operations, of those that fold users in, whose last bits depend on addresses here."""
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
                found.update(["upper X^T X"] * _varies(partial(gram, dual=dual, upper=True), X, out))
    return tuple(sorted(found))


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
