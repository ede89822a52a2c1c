"""The few array operations that NumPy and torch do not spell alike.

The kernels are written once, with operators, slices and `swapaxes`, which both libraries have; for the rest they ask
one of these.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.errors import MissingExtra
from discreet.linalg.cholesky import least_pivots, solve_spd


class Arrays(Protocol):
    """Where arrays live, and what is done to them there."""

    def put(self, array: NDArray[Any]) -> Any:
        """A NumPy array, as an array of this library."""

    def get(self, array: Any) -> NDArray[Any]:
        """An array of this library, as one of NumPy."""

    def gather(self, columns: Any, index: NDArray[np.intp]) -> Any:
        """Rows of a matrix, picked by an array of numbers of any shape."""

    def gram(self, left: Any, right: Any) -> Any:
        """A batch of matrix products, in memory that the next call may use again."""

    def solve_spd(self, A: Any, b: Any) -> Any:
        """Solve a batch of symmetric positive definite systems; A and b may be overwritten."""

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

    def gram(self, left: Any, right: Any) -> Any:
        out = self._memory.get("gram", (*left.shape[:2], right.shape[2]), left.dtype)
        return np.matmul(left, right, out=out)

    def solve_spd(self, A: Any, b: Any) -> Any:
        return solve_spd(A, np.ascontiguousarray(b))

    def add_to_diagonal(self, A: Any, amount: Any) -> None:
        np.einsum("ikk->ik", A)[:] += amount[:, None]

    def divide(self, a: Any, b: Any) -> Any:
        return np.divide(a, b, out=np.zeros_like(a), where=b > 0)

    def concatenate(self, arrays: Sequence[Any]) -> Any:
        return np.concatenate(arrays)


class TorchArrays(Arrays):
    """torch on one device."""

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

    def gram(self, left: Any, right: Any) -> Any:
        return left @ right

    def solve_spd(self, A: Any, b: Any) -> Any:
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
