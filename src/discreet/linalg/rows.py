"""Ridge regressions of many users, or many items, at once.

Row i of a sparse table has a few targets t, each with a vector x of known columns (the factors of the other side). Its
own vector is z_i = (X_i^T X_i + G + s_i I)^-1 X_i^T t_i. Rows of about the same length are solved together, as one
padded block: gather, Gram matrices, solve. A row with fewer targets than columns is solved in the dual, by a system
of the size of its targets. Blocks are the same for any number of threads, and so is every bit of the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from discreet.linalg.arrays import NUMPY, Arrays
from discreet.linalg.cholesky import TOGETHER
from discreet.kernels.threads import over_blocks
from discreet.typing import Array

Solver = Literal["exact", "cg"]

FEW_COLUMNS = 16
PLACE = 16  # bytes, about, of a target and of where its column is
GRAM_PAYS = 48  # columns up to which conjugate gradients are quicker on Gram matrices than on gathered columns
KEPT = 4096  # targets of a row up to which gathered columns are kept for them otherwise


@dataclass(frozen=True)
class Block:
    """Rows that are solved together: their numbers and where their targets are, padded to one length."""

    rows: Array
    starts: Array
    counts: Array
    length: int

    def some(self, own: slice) -> Block:
        """Some of the rows, padded to the same length."""
        return Block(self.rows[own], self.starts[own], self.counts[own], self.length)

    def cuts(self, most: int) -> Iterator[Block]:
        """All rows, at most so many at a time."""
        return (self.some(slice(at, at + most)) for at in range(0, len(self.rows), most))

    def filled(self, n_rows: int) -> Block:
        """With rows behind that have no targets, so that there are `n_rows`."""
        more = (0, n_rows - len(self.rows))
        return Block(np.pad(self.rows, more, "edge"), np.pad(self.starts, more), np.pad(self.counts, more), self.length)


def padded_lengths(counts: Array, steps: int = 16) -> Array:
    """The length that a row of some number of targets is padded to: `steps` of them from a power of two to the next.

    It depends only on the row's own count. So a row is solved by the same operations on the same numbers, and to the
    same bits, whatever is solved beside it.
    """
    step = 1 << np.maximum(np.frexp(np.maximum(counts, 1))[1] - steps.bit_length(), 0).astype(np.int64)
    lengths: Array = -(-counts // step) * step
    return lengths


def most_rows(length: int, n_columns: int, itemsize: int, arrays: Arrays) -> int:
    """How many rows of a padded length are in a block, at most.

    Of long rows a part is gathered at a time, and several of them share what that brings into the cache: rows' columns
    are in ascending order, so that the same part of each has about the same columns.
    """
    gathered = max(min(length, arrays.longest), n_columns) * max(n_columns, 1) * itemsize
    fit = arrays.block_bytes // max(gathered, length * PLACE)
    return max(1, min(fit, arrays.most_rows))


def blocks(indptr: Array, n_columns: int, itemsize: int, arrays: Arrays = NUMPY) -> Iterator[Block]:
    """Cut rows into blocks of one padded length, of some bytes of columns each; rows without targets are in none.

    The longest come first: when threads run out of blocks, what the others still work on is short.
    """
    counts = np.diff(indptr)
    # With few columns, or on a GPU, a call from Python costs more than some padding.
    lengths = padded_lengths(counts, 4 if n_columns <= FEW_COLUMNS or arrays.together else 16)
    order = np.argsort(-lengths, kind="stable")
    ordered = -lengths[order]
    at, filled = 0, int(np.searchsorted(ordered, 0))
    while at < filled:
        length = -int(ordered[at])
        end = at + most_rows(length, n_columns, itemsize, arrays)
        end = min(end, int(np.searchsorted(ordered, -length, side="right")))
        rows = order[at:end]
        yield Block(rows, indptr[rows], counts[rows], length)
        at = end


def padded(columns: Array, dtype: Any) -> Array:
    """Columns with the row of zeros behind them that `Rows` pads with."""
    out = np.zeros((len(columns) + 1, columns.shape[1]), dtype)
    out[:-1] = columns
    return out


@dataclass(frozen=True)
class Rows:
    """The regressions of one half-step: a sparse table of targets, the columns of the other side, and the penalty.

    Attributes:
        indptr: Row i's targets are at indptr[i]:indptr[i + 1].
        indices: Which column vector belongs to each target.
        targets: Aligned with `indices`, of the type of `columns`.
        columns: The other side's vectors, with a row of zeros behind them (`padded`); where `arrays` keeps them.
        scale: The s_i of each row, not negative.
        gram: The G of all rows, where `arrays` keeps it, or None.
        first: What each row multiplies the first column by, or None: so a constant column can be penalised by a weight
            of its own.
        centre: What each row's vector is pulled to by the penalty, in place of zero; or None.
        arrays: NumPy or torch.
    """

    indptr: Array
    indices: Array
    targets: Array
    columns: Any
    scale: Array
    gram: Any = None
    first: Array | None = None
    centre: Array | None = None
    arrays: Arrays = NUMPY

    def places(self, block: Block, first: int, last: int) -> tuple[Any, Any]:
        """Which columns (rows, length), and targets of this shape, are at places first..last; zeros where none is."""
        return self.arrays.places(self.indices, self.targets, block, slice(first, last), len(self.columns) - 1)

    def some(self) -> Iterator[tuple[slice, Rows]]:
        """Some rows at a time, with as many of their targets as `arrays` has room for, where it keeps them."""
        first, n = 0, len(self.indptr) - 1
        if self.arrays is NUMPY:
            yield slice(0, n), self
            return
        while first < n:
            most = self.indptr[first] + self.arrays.most_targets
            last = max(first + 1, int(np.searchsorted(self.indptr, most, side="right")) - 1)
            own, at = slice(first, last), slice(self.indptr[first], self.indptr[last])
            indices, targets = self.arrays.put(self.indices[at]), self.arrays.put(self.targets[at])
            one, centre = (None if values is None else values[own] for values in (self.first, self.centre))
            indptr, scale = self.indptr[first : last + 1] - at.start, self.scale[own]
            yield (
                own,
                replace(self, indptr=indptr, indices=indices, targets=targets, scale=scale, first=one, centre=centre),
            )
            first = last

    def gathered(self, rows: Array, index: Any, targets: Any) -> tuple[Any, Any]:
        """Columns (rows, length, k) and targets of some rows at some places."""
        X, t = self.arrays.gather(self.columns, index), targets
        if self.first is not None:
            X[:, :, 0] *= self.arrays.put(self.first[rows, None])
        if self.centre is not None:  # what is left to explain, and to solve for
            t = t - (X @ self.arrays.put(self.centre[rows])[:, :, None])[:, :, 0]
        return X, t

    def gather(self, block: Block, first: int, last: int) -> tuple[Any, Any]:
        """Columns and targets of all rows of a block at places first..last."""
        return self.gathered(block.rows, *self.places(block, first, last))

    def normal_equations(self, block: Block, *, upper: bool = False, start: Any = None) -> tuple[Any, Any]:
        """X^T X (rows, k, k), of which the upper triangle may be enough, and X^T t (rows, k); without the penalty.

        Products are added to `start`, if it is given. Of long rows a part of the columns is gathered at a time.
        """
        k, length = self.columns.shape[1], min(block.length, self.arrays.longest)
        index, targets = self.places(block, 0, block.length)
        A = self.arrays.empty("gram", (len(index), k, k), self.columns)
        if start is not None:
            A[:] = start
        b = 0
        for first in range(0, block.length, length):
            some = slice(first, first + length)
            X, t = self.gathered(block.rows, index[:, some], targets[:, some])
            self.arrays.gram(X, A, add=first > 0 or start is not None, upper=upper)
            b = b + self.arrays.sums(t, X)
        return A, b

    def penalised(self, block: Block, *, upper: bool = False) -> tuple[Any, Any]:
        """The normal equations with the penalty."""
        A, b = self.normal_equations(block, upper=upper, start=self.gram)
        self.arrays.add_to_diagonal(A, self.arrays.put(self.scale[block.rows]))
        return A, b


def solve_rows(
    rows: Rows,
    *,
    solver: Solver = "exact",
    start: Array | None = None,
    cg_steps: int = 3,
    residuals: Array | None = None,
    n_jobs: int | None = 1,
) -> Array:
    """Solve every row's regression; a row without targets gets its centre, zeros by default.

    Args:
        rows: The regressions.
        solver: "exact" (Cholesky), or "cg": `cg_steps` steps of conjugate gradients from `start`.
        start: Vectors for conjugate gradients to start from; by default zeros.
        cg_steps: How many steps.
        residuals: Where to put t - X z, aligned with the targets, if it is wanted.
        n_jobs: Threads, in scikit-learn's meaning.
    """
    k = rows.columns.shape[1]
    z = np.zeros((len(rows.indptr) - 1, k), str(rows.targets.dtype).removeprefix("torch."))
    if k == 0:
        if residuals is not None:
            residuals[:] = rows.targets
        return z
    if start is not None:
        known = np.diff(rows.indptr) > 0
        z[known] = start[known] - (0 if rows.centre is None else rows.centre[known])
    for own, some in rows.some():
        left = None if residuals is None else residuals[rows.indptr[own.start] : rows.indptr[own.stop]]
        if solver == "exact" and rows.arrays.together:
            _solve_together(some, z[own], left)
        else:
            _solve_blocks(some, z[own], left, solver=solver, cg_steps=cg_steps, n_jobs=n_jobs)
    return z if rows.centre is None else z + rows.centre


def _solve_blocks(
    rows: Rows, z: Array, residuals: Array | None, *, solver: Solver, cg_steps: int, n_jobs: int | None
) -> None:
    """Solve each block by itself, in threads; z has what to start from, and gets the solutions."""
    k = z.shape[1]

    def solve(block: Block) -> None:
        if solver == "cg":
            solved = _conjugate_gradients(rows, block, rows.arrays.put(z[block.rows]), cg_steps)
        elif _has_small_dual(rows, block):
            solved = _dual(rows, block)
        else:
            solved = _primal(rows, block)
        z[block.rows] = rows.arrays.get(solved)
        if residuals is not None:
            _put_residuals(rows, block, solved, residuals)

    def work(block: Block) -> None:
        for part in block.cuts(_at_a_time(rows, block, solver)):
            solve(part)

    for _ in over_blocks(work, blocks(rows.indptr, k, z.itemsize, rows.arrays), n_jobs):
        pass


def _at_a_time(rows: Rows, block: Block, solver: Solver) -> int:
    """How many rows of a block to solve at a time, so that what is gathered and multiplied stays in a cache till then.

    Very small systems are solved all at once: that takes as many calls for few as for many.
    """
    k = rows.columns.shape[1]
    dual = solver == "exact" and _has_small_dual(rows, block)
    if solver == "exact" and (block.length if dual else k) <= TOGETHER:
        return len(block.rows)
    has_gram = not dual and (solver == "exact" or _by_gram(rows, block))
    largest = max(min(block.length, rows.arrays.longest), k) if has_gram else block.length
    row_bytes: int = largest * k * rows.targets.itemsize
    return max(1, rows.arrays.cache // row_bytes)


def _has_small_dual(rows: Rows, block: Block) -> bool:
    """Whether rows have a dual system that is smaller than their own; a shared G has none."""
    smaller: bool = block.length < rows.columns.shape[1]
    return smaller and rows.gram is None


def _solve_together(rows: Rows, z: Array, residuals: Array | None) -> None:
    """Solve many rows of whatever lengths at once.

    Products of rows of one length are always taken of the same number of rows, and systems always solved by the same
    number, with rows of nothing where there are not so many. Which kernel a library chooses for a shape is then the
    same whatever other rows there are.
    """
    k, arrays = z.shape[1], rows.arrays
    size = max(1, min(arrays.together // (k * k * z.itemsize), arrays.most_rows))
    for group in _groups(blocks(rows.indptr, k, z.itemsize, arrays), size):
        A, b = arrays.empty("systems", (size, k, k), rows.columns), arrays.empty("sides", (size, k), rows.columns)
        A[:], b[:], end = 0, 0, 0
        for block in group:
            begin, end = end, end + len(block.rows)
            filled = block.filled(most_rows(block.length, k, z.itemsize, arrays))
            products, sides = rows.normal_equations(filled)
            A[begin:end], b[begin:end] = products[: end - begin], sides[: end - begin]
        if rows.gram is not None:
            A += rows.gram
        members = np.concatenate([block.rows for block in group])
        arrays.add_to_diagonal(A, arrays.put(np.pad(rows.scale[members], (0, size - end), constant_values=1)))
        solved = arrays.solve_spd(A, b, lambda i, A=A: A[i])  # type: ignore[misc]
        z[members] = arrays.get(solved[:end])
        if residuals is not None:
            begin = 0
            for block in group:
                own = solved[begin : begin + len(block.rows)]
                begin += len(block.rows)
                _put_residuals(rows, block, own, residuals)


def _groups(several: Iterator[Block], size: int) -> Iterator[list[Block]]:
    """Blocks of at most `size` rows together, cut where that is needed."""
    group: list[Block] = []
    room = size
    for block in several:
        at = 0
        while at < len(block.rows):
            group.append(block.some(slice(at, at + room)))
            taken = len(group[-1].rows)
            at, room = at + taken, room - taken
            if not room:
                yield group
                group, room = [], size
    if group:
        yield group


def row_means(indptr: Array, indices: Array, columns: Array, *, n_jobs: int | None = 1) -> Array:
    """The mean of each row's column vectors, zeros for a row without any; `columns` as `padded` gives them."""
    counts = np.diff(indptr)
    shares = np.repeat(1 / np.maximum(counts, 1), counts).astype(columns.dtype)
    rows = Rows(indptr, indices, shares, columns, counts)
    means = np.zeros((len(counts), columns.shape[1]), columns.dtype)

    def work(block: Block) -> None:
        for first in range(0, block.length, NUMPY.longest):
            X, t = rows.gather(block, first, min(block.length, first + NUMPY.longest))
            means[block.rows] += NUMPY.sums(t, X)

    for _ in over_blocks(work, blocks(indptr, columns.shape[1], columns.itemsize), n_jobs):
        pass
    return means


def _put_residuals(rows: Rows, block: Block, z: Any, out: Array) -> None:
    for first in range(0, block.length, rows.arrays.longest):
        last = min(block.length, first + rows.arrays.longest)
        X, t = rows.gather(block, first, last)
        _put(rows.arrays.get(t - (X @ z[:, :, None])[:, :, 0]), block, first, last, out)


def _put(padded_values: Array, block: Block, first: int, last: int, out: Array) -> None:
    """Put what was computed for places first..last of padded rows where the targets are."""
    place = np.arange(first, last)
    there = place < block.counts[:, None]
    out[(block.starts[:, None] + place)[there]] = padded_values[there]


def _primal(rows: Rows, block: Block) -> Any:
    A, b = rows.penalised(block, upper=True)
    return rows.arrays.solve_spd(A, b, lambda i: rows.penalised(block.some(slice(i, i + 1)))[0][0])


def _dual(rows: Rows, block: Block) -> Any:
    """Solve by z = X^T (X X^T + s I)^-1 t. What is padded has a system of its own, s alone, and the solution zero."""
    X, t = rows.gather(block, 0, block.length)
    scale = rows.arrays.put(rows.scale[block.rows])

    def system(own: slice, upper: bool) -> Any:
        K = rows.arrays.empty("gram", (len(X[own]), block.length, block.length), X)
        rows.arrays.gram(X[own], K, dual=True, upper=upper)
        rows.arrays.add_to_diagonal(K, scale[own])
        return K

    solved = rows.arrays.solve_spd(system(slice(None), True), t, lambda i: system(slice(i, i + 1), False)[0])
    return rows.arrays.sums(solved, X)


def _conjugate_gradients(rows: Rows, block: Block, z: Any, steps: int) -> Any:
    """Some steps of conjugate gradients on the normal equations, from z."""
    times, b = _system(rows, block)
    residual = b - times(z)
    direction, squared = residual, _dots(residual, residual)
    for _ in range(steps):  # a row that is solved has no direction left, and stays where it is
        image = times(direction)
        step = rows.arrays.divide(squared, _dots(direction, image))
        z = z + step * direction
        residual = residual - step * image
        before, squared = squared, _dots(residual, residual)
        direction = residual + rows.arrays.divide(squared, before) * direction
    return z


def _system(rows: Rows, block: Block) -> tuple[Any, Any]:
    """How to multiply by a block's matrices, penalty included, and their right-hand sides."""
    scale = rows.arrays.put(rows.scale[block.rows])[:, None]
    by_gram = _by_gram(rows, block)
    X, b = rows.normal_equations(block) if by_gram else rows.gather(block, 0, block.length)
    if not by_gram:
        b = rows.arrays.sums(b, X)

    def times(p: Any) -> Any:
        inner = p[:, :, None] if by_gram else X.swapaxes(1, 2) @ (X @ p[:, :, None])
        product = (X @ inner if by_gram else inner)[:, :, 0] + scale * p
        return product if rows.gram is None else product + p @ rows.gram

    return times, b


def _by_gram(rows: Rows, block: Block) -> bool:
    """Whether conjugate gradients multiply by Gram matrices, in place of gathered columns."""
    few: bool = rows.columns.shape[1] <= GRAM_PAYS
    return few or block.length > KEPT


def _dots(a: Any, b: Any) -> Any:
    """Inner products, row by row, as a column."""
    return (a[:, None, :] @ b[:, :, None])[:, 0]
