"""The few array operations that differ between NumPy and torch.

The kernels are written once, with operators, slices and `swapaxes`, which both libraries have; for the rest they ask
one of these.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.errors import DataError
from discreet.linalg.blas import gram
from discreet.linalg.cholesky import solve_spd
from discreet.linalg.indefinite import project_psd, solve_positive_part
from discreet.linalg.topk import top_k

if TYPE_CHECKING:
    from discreet.linalg.rows import Block


LINE = 64  # bytes of a cache's line


class Arrays(Protocol):
    """Where arrays live, and what is done to them there.

    Attributes:
        cache: Bytes of gathered columns, or of Gram matrices, that are better used before there are more.
        block_bytes: Of the same, in a block: enough work to make a call from Python cheap.
        longest: Targets of a row that are gathered at once; longer rows are summed in parts.
        most_rows: In a block, or solved together.
        together: Bytes of Gram matrices that are solved together, whatever the lengths of their rows; 0: each block is
            solved by itself.
        most_targets: Of a table, which are there at a time.
        scores: Bytes of scores that are ranked at a time, and of how many users at most.
        tile: Of how many users, and of how many items, scores are computed by one product: always of so many.
    """

    cache: int
    block_bytes: int
    longest: int
    most_rows: int
    together: int
    most_targets: int
    scores: tuple[int, int]
    tile: tuple[int, int]

    def put(self, array: NDArray[Any]) -> Any:
        """A NumPy array, as an array of this library."""

    def get(self, array: Any) -> NDArray[Any]:
        """An array of this library, as one of NumPy."""

    def copy(self, array: Any) -> Any:
        """A contiguous copy."""

    def places(self, indices: Any, targets: Any, block: Block, places: slice, nothing: int) -> tuple[Any, Any]:
        """The indices and targets (rows, length) at some places of a block's rows; `nothing` and 0 where none is."""

    def gather(self, columns: Any, index: Any) -> Any:
        """Rows of a matrix, picked by an array of numbers of any shape."""

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Zeros of a type of NumPy's."""

    def empty(self, name: str, shape: tuple[int, ...], like: Any) -> Any:
        """Memory for numbers of the kind of `like`, which the next one to ask by this name may use again."""

    def gram(self, X: Any, out: Any, *, dual: bool = False, add: bool = False, upper: bool = False) -> None:
        """X^T X of each matrix, X X^T if `dual`, in `out`, or added to it.

        If `upper`, what is below the diagonal may be anything.
        """

    def sums(self, t: Any, X: Any) -> Any:
        """X^T t of each matrix."""

    def multiply(self, vectors: Any, tiles: Any, out: Any) -> None:
        """Vectors (users, k) times tiles (tiles, k, items of a tile) in `out`, by products of the shape of `tile`."""

    def solve_spd(self, A: Any, b: Any, whole: Callable[[int], Any]) -> Any:
        """Solve a batch of symmetric positive definite systems, by upper triangles; A and b may be overwritten.

        `whole(i)` gives the whole of A[i] anew.
        """

    def solve_positive_part(self, A: Any, b: Any) -> Any:
        """The solutions of least norm with the positive parts of symmetric matrices; A and b may be overwritten."""

    def project_psd(self, A: Any) -> Any:
        """The nearest positive semidefinite matrices."""

    def top_k(self, scores: Any, k: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Columns and scores of each row's k best, as `linalg.topk.top_k` orders them."""

    def add_to_diagonal(self, A: Any, amount: Any) -> None:
        """Add amount[i] to the diagonal of A[i]."""

    def divide(self, a: Any, b: Any) -> Any:
        """The quotient where b is positive, else zero."""

    def concatenate(self, arrays: Sequence[Any]) -> Any:
        """One after the other."""


def aligned(size: int, dtype: Any) -> NDArray[Any]:
    """Memory for so many numbers that begins with a cache line: products of what begins elsewhere take a fifth more."""
    memory = np.empty(size * np.dtype(dtype).itemsize + LINE, np.uint8)
    first = -memory.ctypes.data % LINE
    return memory[first : first + size * np.dtype(dtype).itemsize].view(dtype)


class _Memory(threading.local):
    """Memory that a thread uses again for each block: fresh pages would cost more than the arithmetic."""

    def __init__(self) -> None:
        self.kept: dict[str, NDArray[Any]] = {}

    def get(self, name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        size = int(np.prod(shape))
        kept = self.kept.get(name)
        if kept is None or kept.size < size or kept.dtype != dtype:
            kept = self.kept[name] = aligned(size, dtype)
        return kept[:size].reshape(shape)


class NumpyArrays(Arrays):
    """NumPy, with memory of its own for each thread."""

    cache = 1 << 22
    block_bytes = 1 << 24
    longest = 960  # at 128 columns two parts of a product that `blas.UNPACKED` has room for
    most_rows = 1 << 62
    together = 0
    most_targets = 1 << 62
    scores = (1 << 22, 1 << 10)
    # Few users, because a single one takes as long. And OpenBLAS's kernels for AVX2 treat all of 8 rows alike, but
    # round some of 12 or more in another way than the others.
    tile = (8, 128)

    def __init__(self) -> None:
        self._memory = _Memory()

    def put(self, array: NDArray[Any]) -> Any:
        return array

    def get(self, array: Any) -> NDArray[Any]:
        found: NDArray[Any] = array
        return found

    def copy(self, array: Any) -> Any:
        return np.array(array, order="C")

    def places(self, indices: Any, targets: Any, block: Block, places: slice, nothing: int) -> tuple[Any, Any]:
        place = np.arange(places.start, places.stop)
        at = block.starts[:, None] + place
        padding = None
        if places.stop > block.counts.min():
            padding = place >= block.counts[:, None]
            at[padding] = block.starts[0]  # any place that exists
        index, own = indices[at].astype(np.intp), targets[at]
        if padding is not None:
            index[padding], own[padding] = nothing, 0
        return index, own

    def gather(self, columns: Any, index: Any) -> Any:
        out = self._memory.get("gather", (*index.shape, columns.shape[1]), columns.dtype)
        return np.take(columns, index, axis=0, out=out, mode="clip")  # "raise" would copy once more

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return np.zeros(shape, dtype)

    def empty(self, name: str, shape: tuple[int, ...], like: Any) -> Any:
        return self._memory.get(name, shape, like.dtype)

    def gram(self, X: Any, out: Any, *, dual: bool = False, add: bool = False, upper: bool = False) -> None:
        gram(X, out, dual=dual, add=add, upper=upper)

    def sums(self, t: Any, X: Any) -> Any:
        return (t[:, None, :] @ X)[:, 0]

    def multiply(self, vectors: Any, tiles: Any, out: Any) -> None:
        height, width = self.tile
        users = vectors.reshape(-1, 1, height, vectors.shape[1])
        # One call of BLAS for each eight users and tile: NumPy multiplies stacks of matrices one by one.
        np.matmul(users, tiles, out=out.reshape(len(users), height, len(tiles), width).swapaxes(1, 2))

    def solve_spd(self, A: Any, b: Any, whole: Callable[[int], Any]) -> Any:
        return solve_spd(A, np.ascontiguousarray(b), whole)

    def solve_positive_part(self, A: Any, b: Any) -> Any:
        return solve_positive_part(A, b)

    def project_psd(self, A: Any) -> Any:
        return project_psd(A)

    def top_k(self, scores: Any, k: int) -> tuple[NDArray[Any], NDArray[Any]]:
        return top_k(scores, k)

    def add_to_diagonal(self, A: Any, amount: Any) -> None:
        np.einsum("ikk->ik", A)[:] += amount[:, None]

    def divide(self, a: Any, b: Any) -> Any:
        return np.divide(a, b, out=np.zeros_like(a), where=b > 0)

    def concatenate(self, arrays: Sequence[Any]) -> Any:
        return np.concatenate(arrays)


NUMPY = NumpyArrays()


def arrays_on(device: str) -> Arrays:
    """NumPy for "cpu"; torch for "cuda", or "cuda:1" where there are several GPUs.

    Raises:
        DataError: There is no such device, or it is too small.
        MissingExtra: torch is not installed.
    """
    if device == "cpu":
        return NUMPY
    if not isinstance(device, str) or not re.fullmatch(r"cuda(:\d+)?", device):
        raise DataError(f"device: 'cpu', 'cuda' or, of several GPUs, 'cuda:1' is needed, not {device!r}")
    from discreet.linalg import torch_arrays

    return torch_arrays.gpu(device)
