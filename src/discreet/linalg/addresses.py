"""Does this BLAS give the same bits wherever its operands are in memory?

Most do. Some kernels treat the first few numbers apart until they reach an aligned address, and round differently for
it. Then what is computed of one user would depend, in its last bits, on who comes before her in memory. The proofs of
private models need that it does not; so it is tried out, once in a process, before the first private fit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.linalg.cholesky import solve_spd
from discreet.linalg.threads import single_threaded_blas

Array = NDArray[Any]

PLACES = 8  # numbers of 8 bytes in a cache line
SHAPES = [(c, k) for c in (1, 4, 7, 18, 40, 96) for k in (1, 2, 3, 6, 11, 13, 24, 33)]

OPERATIONS: dict[str, Callable[[Array, Array, Array], Array]] = {
    "X^T X": lambda X, t, z: X.swapaxes(1, 2) @ X,
    "X X^T": lambda X, t, z: X @ X.swapaxes(1, 2),
    "t X": lambda X, t, z: t[:, None, :] @ X,
    "X z": lambda X, t, z: X @ z[:, :, None],
    "X^T X of a fold": lambda X, t, z: X[:, 1::3].swapaxes(1, 2) @ X[:, 1::3],
    "t X of a fold": lambda X, t, z: t[:, None, 1::3] @ X[:, 1::3],
    "X z of a fold": lambda X, t, z: X[:, 1::3] @ z[:, :, None],
}


@cache
def address_dependent() -> tuple[str, ...]:
    """The operations, of those that fold users in, whose last bits depend on addresses here."""
    rng = np.random.default_rng(0)
    found: set[str] = set()
    with single_threaded_blas():
        for c, k in SHAPES:
            X, t, z = (rng.standard_normal(shape) for shape in ((1, c, k), (1, c), (1, k)))
            found.update(name for name, operation in OPERATIONS.items() if _varies(operation, X, t, z))
            found.update(["solve"] * _varies(solve_spd, X.swapaxes(1, 2) @ X + np.eye(k), z))
    return tuple(sorted(found))


def _placed(array: Array, at: int) -> Array:
    """A copy whose first number is `at` numbers behind the beginning of a cache line."""
    memory = np.zeros(array.size + 2 * PLACES, array.dtype)
    first = (-memory.ctypes.data // memory.itemsize) % PLACES + at
    placed = memory[first : first + array.size].reshape(array.shape)
    placed[...] = array
    return placed


def _varies(operation: Callable[..., Array], *operands: Array) -> bool:
    results = [operation(*(_placed(operand, at) for operand in operands)).copy() for at in range(PLACES)]
    return any(not np.array_equal(results[0], result) for result in results[1:])
