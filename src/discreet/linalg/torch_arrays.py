"""torch on one device: the array operations of `arrays.py` on a GPU.

A GPU has thousands of units, and is fast where few calls have much work each. So blocks are larger than on a
processor, long rows are cut into pieces that are multiplied side by side, and matrices are solved together whatever the
lengths of their rows. There are no eigenvalues: a GPU takes longer for those of 20,000 matrices than for all the rest.

Sums that are released are of integers in float64, exact in any order. What is solved for each user is not: so every
call has a shape that depends on a row's own length and on public numbers, never on how many rows there are, and
`determinism.neighbour_dependent` tests that the bits of a row do not depend on its place in the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import DataError, MissingExtra
from discreet.linalg.arrays import Arrays
from discreet.linalg.cholesky import least_norm, least_pivots
from discreet.linalg.topk import top_k

if TYPE_CHECKING:
    from discreet.linalg.rows import Block

LARGE = 1 << 22  # bytes that are brought here faster by way of memory that stays where it is
PIECE = 256  # targets of a long row that are multiplied at once
LEAST_MEMORY = 1 << 32  # bytes of a GPU
FAST, FAST_STEPS = (3.4445, -4.7750, 2.0315), 16  # x <- a x + b x^3 + c x^5: 3.4^16 is 4e8
SIGN_STEPS = 60


class TorchArrays(Arrays):
    """torch on one device."""

    cache = 1 << 62  # no gathering in small portions
    longest = 1 << 62
    scores = (1 << 30, 1 << 14)

    def __init__(self, device: str) -> None:
        try:
            import torch
        except ModuleNotFoundError:
            raise MissingExtra(f"device={device!r}", "gpu") from None
        self._torch = torch
        self.device = torch.device(device)
        memory, few, self.tile = 1 << 34, 1 << 10, (8, 128)  # without a GPU, for tests
        if self.device.type == "cuda":
            memory, few, self.tile = self._memory(device), 1, (1 << 11, 1 << 12)
        self.block_bytes, self.together, self.most_rows = (1 << 27) // few, (1 << 29) // few, (1 << 14) // few
        self.most_targets = memory // 64  # a quarter of the memory, at up to 16 bytes of a table for each
        self.most_bytes = memory // 8  # of what is computed

    def _memory(self, device: str) -> int:
        cuda = self._torch.cuda
        if not cuda.is_available():
            raise DataError(f"device: {device!r} was asked for, but torch sees no GPU on this machine; use 'cpu'")
        if (self.device.index or 0) >= cuda.device_count():
            raise DataError(f"device: there is no {device!r}; this machine has {cuda.device_count()}, from 'cuda:0'")
        memory = int(cuda.get_device_properties(self.device).total_memory)
        if memory < LEAST_MEMORY:
            raise DataError(f"device: {device!r} has {memory >> 20:,} MiB of memory, and 4,096 are needed; use 'cpu'")
        return memory

    def put(self, array: NDArray[Any]) -> Any:
        if not isinstance(array, np.ndarray):
            return array  # it is there
        if array.dtype.kind == "u" and array.dtype.itemsize > 1:  # torch has few unsigned types
            array = array.astype(np.int64 if array.itemsize > 2 else np.int32)
        if not array.flags.writeable or any(stride < 0 for stride in array.strides):
            array = np.array(array)
        return self._torch.as_tensor(array, device=self.device)

    def get(self, array: Any) -> NDArray[Any]:
        found: NDArray[Any]
        if array.nbytes >= LARGE and array.device.type == "cuda":
            found = self._torch.empty(array.shape, dtype=array.dtype, pin_memory=True).copy_(array).numpy()
        else:
            found = array.cpu().numpy()
        return found

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return self._torch.zeros(shape, dtype=getattr(self._torch, np.dtype(dtype).name), device=self.device)

    def host(self, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """Memory of the processor that `fetch` and `put` are quick with; what it holds is undefined."""
        pinned, kind = self.device.type == "cuda", getattr(self._torch, np.dtype(dtype).name)
        found: NDArray[Any] = self._torch.empty(shape, dtype=kind, pin_memory=pinned).numpy()
        return found

    def fetch(self, array: Any, out: NDArray[Any]) -> None:
        """Copy an array from the device to the processor's memory."""
        self._torch.from_numpy(out).copy_(array)

    def copy(self, array: Any) -> Any:
        return array.clone(memory_format=self._torch.contiguous_format)

    def places(self, indices: Any, targets: Any, block: Block, places: slice, nothing: int) -> tuple[Any, Any]:
        where, place = self._torch.where, self._torch.arange(places.start, places.stop, device=self.device)
        there = place < self.put(block.counts)[:, None]
        at = where(there, self.put(block.starts)[:, None] + place, 0)
        return where(there, indices[at].long(), nothing), where(there, targets[at], 0)

    def gather(self, columns: Any, index: Any) -> Any:
        return columns[self._torch.as_tensor(index, device=self.device)]

    def empty(self, name: str, shape: tuple[int, ...], like: Any) -> Any:
        return self._torch.empty(shape, dtype=like.dtype, device=self.device)

    def gram(self, X: Any, out: Any, *, dual: bool = False, add: bool = False, upper: bool = False) -> None:
        Y = X.swapaxes(1, 2) if dual else X
        pieces = _pieces(Y)
        if len(pieces) > len(Y):
            product = (pieces.swapaxes(1, 2) @ pieces).reshape(len(Y), -1, *out.shape[1:]).sum(1)
            out.copy_(out + product if add else product)
        else:
            self._torch.baddbmm(out, Y.swapaxes(1, 2), Y, beta=int(add), out=out)

    def sums(self, t: Any, X: Any) -> Any:
        pieces = _pieces(X)
        return (t.reshape(len(pieces), 1, -1) @ pieces).reshape(len(X), -1, X.shape[2]).sum(1)

    def multiply(self, vectors: Any, tiles: Any, out: Any) -> None:
        height, width = self.tile
        for first in range(0, len(vectors), height):  # one by one: a product of many at once has other kernels
            rows = slice(first, first + height)
            for at, tile in enumerate(tiles):
                self._torch.mm(vectors[rows], tile, out=out[rows, at * width : (at + 1) * width])

    def by_column(self, indices: Any, n_columns: int) -> tuple[NDArray[Any], Any]:
        """A table by its columns: where each begins, and which entry comes next."""
        indices = self.put(indices).long()
        ends = self._torch.bincount(indices, minlength=n_columns).cumsum(0)
        return np.concatenate([[0], self.get(ends)]), self._torch.argsort(indices, stable=True)

    def owners(self, counts: NDArray[Any]) -> Any:
        """The row of each entry, for rows of so many."""
        rows = self._torch.arange(len(counts), device=self.device, dtype=self._torch.int32)
        return self._torch.repeat_interleave(rows, self.put(counts))

    def whole_products(self, left: Any, X: Any, t: Any) -> tuple[Any, Any]:
        """left^T X and X^T t of each matrix, for integers in float64, added up as int64 where rows are long."""
        first, second = _pieces(left), _pieces(X)
        gram = (first.swapaxes(1, 2) @ second).long()
        return gram.reshape(len(X), -1, *gram.shape[1:]).sum(1), self.whole_sums(t, X)

    def whole_sums(self, t: Any, X: Any) -> Any:
        """X^T t alone."""
        pieces = _pieces(X)
        return (t.reshape(len(pieces), 1, -1) @ pieces).long().reshape(len(X), -1, X.shape[2]).sum(1)

    def solve_spd(self, A: Any, b: Any, whole: Callable[[int], Any]) -> Any:
        factor, definite = self._factored(A)
        x = self._torch.cholesky_solve(b[..., None], factor)[..., 0]
        for i in (~definite).nonzero()[:, 0].tolist():  # rare: singular in this precision; each by itself
            x[i] = self.put(least_norm(self.get(A[i]), self.get(b[i])))
        return x

    def _factored(self, A: Any) -> tuple[Any, Any]:
        """Cholesky factors, and of which matrices they are: those without a pivot that may be rounding alone."""
        factor, info = self._torch.linalg.cholesky_ex(A)
        pivots, diagonals = (self._torch.diagonal(M, dim1=1, dim2=2) for M in (factor, A))
        return factor, (info == 0) & (pivots > least_pivots(diagonals)).all(dim=1)

    def solve_positive_part(self, A: Any, b: Any) -> Any:
        """By Cholesky; where that fails, with P the projection on the positive part, z = P (A P + I - P)^-1 P b."""
        factor, definite = self._factored(A)
        z = self._torch.cholesky_solve(b[..., None], factor)[..., 0]
        failed = (~definite).nonzero()[:, 0]
        if len(failed):
            X, projection = A[failed], self._positive(A[failed])
            rest = self._torch.eye(X.shape[1], dtype=X.dtype, device=self.device) - projection
            scale = self._torch.linalg.matrix_norm(X, float("inf"))[:, None, None]  # else rounding would decide
            inside = projection @ X @ projection + scale * rest
            inside = (inside + inside.swapaxes(1, 2)) / 2
            known = projection @ b[failed][..., None]
            solved = self.solve_spd(inside, known[..., 0], lambda i: inside[i])
            z[failed] = (projection @ solved[..., None])[..., 0]
        return z

    def project_psd(self, A: Any) -> Any:
        matrices = A.reshape(-1, *A.shape[-2:])
        product = self._positive(matrices) @ matrices
        return ((product + product.swapaxes(1, 2)) / 2).reshape(A.shape)

    def _positive(self, A: Any) -> Any:
        """The projections on the eigenvectors of positive eigenvalues: (I + sign A) / 2.

        Newton and Schulz, S <- S (3 I - S^2) / 2, take every eigenvalue between -sqrt 3 and sqrt 3 to its sign. One
        that is small beside the others grows by half in a step; before that, by 3.4 in a step that leaves the large
        ones between .68 and 1.21. Zero stays zero, and counts half: there is nothing there to divide.
        """
        identity = self._torch.eye(A.shape[1], dtype=A.dtype, device=self.device)
        norms = self._torch.linalg.matrix_norm(A, "fro")
        S = A / self._torch.where(norms > 0, norms, 1)[:, None, None]
        for _ in range(FAST_STEPS):
            square = S @ S
            inner = self._torch.baddbmm(square, square, square, beta=FAST[1], alpha=FAST[2])
            S = self._torch.baddbmm(S, S, inner, beta=FAST[0])
        for step in range(SIGN_STEPS):
            square = S @ S
            if step % 4 == 3 and float((square - identity).abs().amax()) < 1e-12:
                break
            S = self._torch.baddbmm(S, S, square, beta=1.5, alpha=-0.5)
        return (identity + (S + S.swapaxes(1, 2)) / 2) / 2

    def top_k(self, scores: Any, k: int) -> tuple[NDArray[Any], NDArray[Any]]:
        values, places = self._torch.topk(scores, min(k, scores.shape[1]))
        places, order = places.sort()  # of equal scores the earlier column comes first
        values, order = values.gather(1, order).sort(descending=True, stable=True)
        places = places.gather(1, order).masked_fill(values == -float("inf"), -1)
        found, best = self.get(places), self.get(values)
        if values.shape[1]:
            last = values[:, -1:]
            crowded = ((scores >= last).sum(1) > k) & (last[:, 0] > -float("inf"))
            for row in crowded.nonzero()[:, 0].tolist():  # rare: others score as much as the last, perhaps earlier ones
                (found[row],), (best[row],) = top_k(self.get(scores[row : row + 1]), k)
        return found, best

    def add_to_diagonal(self, A: Any, amount: Any) -> None:
        self._torch.diagonal(A, dim1=1, dim2=2).add_(amount[:, None])

    def divide(self, a: Any, b: Any) -> Any:
        return self._torch.where(b > 0, a / b, self._torch.zeros_like(a))

    def concatenate(self, arrays: Sequence[Any]) -> Any:
        return self._torch.cat(list(arrays))


def _pieces(X: Any) -> Any:
    """Long rows, cut into pieces; others as they are."""
    return X.reshape(-1, PIECE, X.shape[2]) if X.shape[1] > PIECE and X.shape[1] % PIECE == 0 else X


@cache
def gpu(device: str) -> TorchArrays:
    """The one that is asked for by this name."""
    return TorchArrays(device)
