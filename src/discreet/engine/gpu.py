"""Users in this process's memory, with a GPU: encoders make integers on the processor, and the GPU adds them up.

Contributions are clipped and put on their grid by the trusted encoders, on the processor's threads, whatever computed
them. The GPU gets integers and returns integers: the same sums as `LocalBlocks`, bit for bit.

A function that is mapped over users may have a method `on_gpu(users)` besides: it gives what the function makes of each
block, computed for many users at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from discreet.engine.local import Block, Blocks, LocalBlocks, Made
from discreet.linalg.rows import Rows, blocks, padded
from discreet.linalg.torch_arrays import TorchArrays
from discreet.privacy.releaser import Encoded
from discreet.privacy.statistics import EncodedEquations, GramSum, NormalEquations, OuterSum, Statistic, UserBatch
from discreet.typing import Array

NO_SCALE = np.zeros(0)


@dataclass(frozen=True)
class GpuBlocks(Blocks[Block]):
    """Blocks in this process's memory, which a GPU adds up.

    Attributes:
        blocks: The users.
        gpu: The GPU.
        n_jobs: Threads for what the processor does.
        kept: What a mapped function keeps on the GPU of these blocks, by a name of its own.
    """

    blocks: LocalBlocks[Block]
    gpu: TorchArrays
    n_jobs: int | None
    kept: dict[str, Any] = field(default_factory=dict)

    def map(self, make: Callable[[Block], Made]) -> GpuBlocks[Made]:
        """The same users, with each block replaced by `make` of it, by the GPU if `make` knows how."""
        on_gpu = getattr(make, "on_gpu", None)
        made = self.blocks.map(make) if on_gpu is None else LocalBlocks(lambda: on_gpu(self))
        return GpuBlocks(made, self.gpu, self.n_jobs)

    def keep(self, n_jobs: int | None) -> GpuBlocks[Block]:
        """The same blocks, made once."""
        return GpuBlocks(self.blocks.keep(n_jobs), self.gpu, self.n_jobs)

    def add_up(self, work: Encoded, n_jobs: int | None) -> Array:
        """The sum: a block is encoded by a thread, and added up by the GPU."""
        sums = [SUMS.get(type(encoder), ProcessorSum)(encoder, self.gpu, n_jobs) for encoder in work.encoders]

        def encoded(block: Block) -> list[Any]:
            return [own.encode(block, given) for own, given in zip(sums, work.contributions(block), strict=True)]

        for made in self.blocks.map(encoded).each(n_jobs):
            for own, integers in zip(sums, made, strict=True):
                own.add(integers)
        return np.concatenate([own.total() for own in sums])


class ProcessorSum:
    """A sum that the processor adds up."""

    def __init__(self, encoder: Statistic, gpu: TorchArrays, n_jobs: int | None) -> None:
        self.encoder, self.gpu, self.n_jobs = encoder, gpu, n_jobs
        self.integers = np.zeros(encoder.shape, np.int64)

    def encode(self, batch: Any, contribution: Any) -> Any:
        """What the encoder makes of a contribution; called by threads."""
        return self.encoder.encode(batch, contribution)

    def add(self, encoded: Any) -> None:
        """Add that to the sum."""
        self.integers = self.encoder.add(self.integers, encoded, self.n_jobs)

    def total(self) -> Array:
        """The sum."""
        return self.integers


class GpuGram(ProcessorSum):
    """The sum of x x^T for sparse x: products of integers, below 2^53 in sum, as on the processor."""

    encoder: GramSum

    def __init__(self, encoder: GramSum, gpu: TorchArrays, n_jobs: int | None) -> None:
        super().__init__(encoder, gpu, n_jobs)
        self.products = gpu.zeros(encoder.shape, np.int64)

    def encode(self, batch: UserBatch, contribution: Array) -> Any:
        """Sparse rows for the GPU; of dense ones, which have few columns, what the processor adds up."""
        if np.ndim(contribution) == 2:
            return super().encode(batch, contribution)
        items, units = self.encoder.entries(batch, contribution)
        counted = units != 0
        return len(batch.counts), batch.owners[counted], items[counted], units[counted]

    def add(self, encoded: Any) -> None:
        """Add products to the sum."""
        if isinstance(encoded, np.ndarray):
            super().add(encoded)
            return
        users, owners, items, units = encoded
        rows = self.gpu.zeros((users, self.encoder.size), np.float64)
        rows[self.gpu.put(owners), self.gpu.put(items).long()] = self.gpu.put(units).double()
        self.products += (rows.T @ rows).long()

    def total(self) -> Array:
        """The sum."""
        total: Array = self.integers + self.gpu.get(self.products)
        return total


class GpuOuter(ProcessorSum):
    """The sum of x_j a^T by item."""

    encoder: OuterSum

    def __init__(self, encoder: OuterSum, gpu: TorchArrays, n_jobs: int | None) -> None:
        self.encoder, self.gpu, self.products = encoder, gpu, gpu.zeros(encoder.shape, np.int64)

    def encode(self, batch: UserBatch, contribution: tuple[Array, Array, Array]) -> Any:
        """Items, x, a, and which a belongs to each x."""
        return *self.encoder.factors(batch, contribution), contribution[2]

    def add(self, encoded: tuple[Array, Array, Array, Array]) -> None:
        """Add some users' products to the sum."""
        items, x, a, which = encoded
        gpu, (n_items, k) = self.gpu, self.encoder.shape
        indptr, order = gpu.by_column(items, n_items)
        columns = gpu.put(padded(a, np.float64))
        rows = Rows(indptr, gpu.put(which)[order], gpu.put(x)[order], columns, NO_SCALE, arrays=gpu)
        for block in blocks(indptr, k, 8, gpu):
            X, t = rows.gather(block, 0, block.length)
            self.products[gpu.put(block.rows)] += gpu.whole_sums(t, X)

    def total(self) -> Array:
        """The sum."""
        return self.gpu.get(self.products)


class GpuEquations(ProcessorSum):
    """Normal equations by item, of some items at a time if the GPU has no room for all of them."""

    encoder: NormalEquations

    def __init__(self, encoder: NormalEquations, gpu: TorchArrays, n_jobs: int | None) -> None:
        self.encoder, self.gpu, self.parts = encoder, gpu, list[EncodedEquations]()

    def add(self, encoded: EncodedEquations) -> None:
        """Keep it: an item's users are added up together."""
        self.parts.append(encoded)

    def total(self) -> Array:
        """The stack (items, r + 1, r + 1); the last corners are 0."""
        total = self.gpu.host(self.encoder.shape, np.int64)
        total[:] = 0
        if self.parts:
            table, weights = self._by_item()
            most = max(1, self.gpu.most_bytes // total[0].nbytes)
            for first in range(0, len(total), most):
                self._add(total[first : first + most], first, table, weights)
        return total

    def _by_item(self) -> tuple[Rows, Any]:
        """The users of each item, with their targets and weights: on the GPU if it has room for them."""
        parts, n_items = self.parts, self.encoder.n_items
        columns = self.gpu.put(padded(np.concatenate([part.vectors for part in parts]), np.float64))
        counts = np.concatenate([np.diff(part.indptr) for part in parts])
        items = np.concatenate([part.items for part in parts])
        every = [np.concatenate([part.targets for part in parts])]
        if any(part.weights is not None for part in parts):
            ones = [np.ones(len(part.targets)) if part.weights is None else part.weights for part in parts]
            every.append(np.concatenate(ones))
        if len(items) <= self.gpu.most_targets:
            indptr, order = self.gpu.by_column(items, n_items)
            users, *values = (self.gpu.put(each)[order] for each in (self.gpu.owners(counts), *every))
        else:
            order = np.argsort(items, kind="stable")
            indptr = np.concatenate([[0], np.cumsum(np.bincount(items, minlength=n_items))])
            users, *values = (each[order] for each in (np.repeat(np.arange(len(counts)), counts), *every))
        table = Rows(indptr, users, values[0], columns, np.zeros(n_items), arrays=self.gpu)
        return table, values[1] if len(values) > 1 else None

    def _add(self, total: Array, first: int, table: Rows, weights: Any) -> None:
        at, r, gpu = table.indptr[first : first + len(total) + 1], total.shape[1] - 1, self.gpu
        inside = slice(at[0], at[-1])
        own = Rows(at - at[0], table.indices[inside], table.targets[inside], table.columns, table.scale, arrays=gpu)
        heavy = None if weights is None else weights[inside]
        stack = gpu.zeros(total.shape, np.int64)
        for items, rows in own.some():
            begin, end = own.indptr[items.start], own.indptr[items.stop]
            some, matrices = None if heavy is None else gpu.put(heavy[begin:end]), stack[items]
            for block in blocks(rows.indptr, r, 8, gpu):
                X, t = rows.gather(block, 0, block.length)
                left = X
                if some is not None:
                    left = X * gpu.places(rows.indices, some, block, slice(0, block.length), 0)[1][:, :, None]
                gram, sides = gpu.whole_products(left, X, t)  # of integers below 2^53, and so exact
                place = gpu.put(block.rows)
                matrices[place, :r, :r], matrices[place, :r, r], matrices[place, r, :r] = gram, sides, sides
        gpu.fetch(stack, total)


SUMS: dict[type, type[ProcessorSum]] = {GramSum: GpuGram, OuterSum: GpuOuter, NormalEquations: GpuEquations}
