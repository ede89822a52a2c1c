"""The few array operations that NumPy and torch do not spell alike.

The kernels are written once, with operators, slices and `swapaxes`, which both libraries have; for the rest they ask
one of these.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.errors import MissingExtra
from discreet.linalg.blas import gram
from discreet.linalg.cholesky import least_pivots, solve_spd


class Arrays(Protocol):
    """Where arrays live, and what is done to them there.

    Attributes:
        cache: Bytes of gathered columns that are better used before more are gathered.
    """

    cache: int

    def put(self, array: NDArray[Any]) -> Any:
        """A NumPy array, as an array of this library."""

    def get(self, array: Any) -> NDArray[Any]:
        """An array of this library, as one of NumPy."""

    def gather(self, columns: Any, index: NDArray[np.intp]) -> Any:
        """Rows of a matrix, picked by an array of numbers of any shape."""

    def empty(self, name: str, shape: tuple[int, ...], like: Any) -> Any:
        """Memory for numbers of the kind of `like`, which the next one to ask by this name may use again."""

    def gram(self, X: Any, out: Any, *, dual: bool = False, add: bool = False, upper: bool = False) -> None:
        """X^T X of each matrix, X X^T if `dual`, in `out`, or added to it.

        If `upper`, what is below the diagonal may be anything.
        """

    def solve_spd(self, A: Any, b: Any, whole: Callable[[int], Any]) -> Any:
        """Solve a batch of symmetric positive definite systems, by upper triangles; A and b may be overwritten.

        `whole(i)` gives the whole of A[i] anew.
        """

    def add_to_diagonal(self, A: Any, amount: Any) -> None:
        """Add amount[i] to the diagonal of A[i]."""

    def divide(self, a: Any, b: Any) -> Any:
        """The quotient where b is positive, else zero."""

    def concatenate(self, arrays: Sequence[Any]) -> Any:
        """One after the other."""


class _Memory(threading.local):
    """Memory that a thread uses again for each block: fresh pages would cost more than the arithmetic."""

    def __init__(self) -> None:
        self.kept: dict[str, NDArray[Any]] = {}

    def get(self, name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        size = int(np.prod(shape))
        kept = self.kept.get(name)
        if kept is None or kept.size < size or kept.dtype != dtype:
            kept = self.kept[name] = np.empty(size, dtype)
        return kept[:size].reshape(shape)


class NumpyArrays(Arrays):
    """NumPy, with memory of its own for each thread."""

    cache = 1 << 20

    def __init__(self) -> None:
        self._memory = _Memory()

    def put(self, array: NDArray[Any]) -> Any:
        return array

    def get(self, array: Any) -> NDArray[Any]:
        found: NDArray[Any] = array
        return found

    def gather(self, columns: Any, index: NDArray[np.intp]) -> Any:
        out = self._memory.get("gather", (*index.shape, columns.shape[1]), columns.dtype)
        return np.take(columns, index, axis=0, out=out, mode="clip")  # "raise" would copy once more

    def empty(self, name: str, shape: tuple[int, ...], like: Any) -> Any:
        return self._memory.get(name, shape, like.dtype)

    def gram(self, X: Any, out: Any, *, dual: bool = False, add: bool = False, upper: bool = False) -> None:
        gram(X, out, dual=dual, add=add, upper=upper)

    def solve_spd(self, A: Any, b: Any, whole: Callable[[int], Any]) -> Any:
        return solve_spd(A, np.ascontiguousarray(b), whole)

    def add_to_diagonal(self, A: Any, amount: Any) -> None:
        np.einsum("ikk->ik", A)[:] += amount[:, None]

    def divide(self, a: Any, b: Any) -> Any:
        return np.divide(a, b, out=np.zeros_like(a), where=b > 0)

    def concatenate(self, arrays: Sequence[Any]) -> Any:
        return np.concatenate(arrays)


class TorchArrays(Arrays):
    """torch on one device."""

    cache = 1 << 40  # a card is quicker the more there is to do

    def __init__(self, device: str = "cpu") -> None:
        try:
            import torch
        except ModuleNotFoundError:
            raise MissingExtra(f"device={device!r}", "gpu") from None
        self._torch = torch
        self.device = torch.device(device)

    def put(self, array: NDArray[Any]) -> Any:
        if array.dtype.kind == "u" and array.dtype.itemsize > 1:  # torch has few unsigned types
            array = array.astype(np.int64)
        return self._torch.as_tensor(np.array(array), device=self.device)

    def get(self, array: Any) -> NDArray[Any]:
        found: NDArray[Any] = array.cpu().numpy()
        return found

    def gather(self, columns: Any, index: NDArray[np.intp]) -> Any:
        return columns[self._torch.as_tensor(index, device=self.device)]

    def empty(self, name: str, shape: tuple[int, ...], like: Any) -> Any:
        return self._torch.empty(shape, dtype=like.dtype, device=self.device)

    def gram(self, X: Any, out: Any, *, dual: bool = False, add: bool = False, upper: bool = False) -> None:
        Y = X.swapaxes(1, 2) if dual else X
        self._torch.baddbmm(out, Y.swapaxes(1, 2), Y, beta=int(add), out=out)

    def solve_spd(self, A: Any, b: Any, whole: Callable[[int], Any]) -> Any:
        factor, info = self._torch.linalg.cholesky_ex(A)
        x = self._torch.cholesky_solve(b[..., None], factor)[..., 0]
        pivots, diagonals = (self._torch.diagonal(M, dim1=1, dim2=2) for M in (factor, A))
        failed = ((info != 0) | ~(pivots > least_pivots(diagonals)).all(dim=1)).nonzero()[:, 0]
        if len(failed):  # rare: singular in this precision
            x[failed] = (self._torch.linalg.pinv(A[failed], hermitian=True) @ b[failed][..., None])[..., 0]
        return x

    def add_to_diagonal(self, A: Any, amount: Any) -> None:
        self._torch.diagonal(A, dim1=1, dim2=2).add_(amount[:, None])

    def divide(self, a: Any, b: Any) -> Any:
        return self._torch.where(b > 0, a / b, self._torch.zeros_like(a))

    def concatenate(self, arrays: Sequence[Any]) -> Any:
        return self._torch.cat(list(arrays))


NUMPY = NumpyArrays()
