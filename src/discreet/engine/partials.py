"""Sums on their way from the partitions of a cluster to its driver: cut into blocks, sealed, and added up exactly.

A partition adds up what its users contribute, and emits the total in blocks of cells. Blocks are shuffled to as many
tasks as there are, each of which adds up some of them; the driver puts the results together. All of it is integers.

A cluster may run a task twice, and take one block from the first run and another one from the second. If these runs saw
different rows, a person would be in both halves, and her contribution would be longer than its bound. So a partition
seals what it emits, with its own number and a digest of the whole; and a sum is taken only if every block is made of
the same seals, one of each partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

Array = NDArray[Any]

PARTIAL = "block int, source int, seal binary, touched binary, cells binary"
SUM = "block int, sources int, seal binary, cells binary"
BLOCK_CELLS = 1 << 17  # of a block: a megabyte
SEAL = 16  # bytes


@dataclass(frozen=True)
class Layout:
    """How an array of integers is cut into blocks.

    Attributes:
        shape: Of the array.
        symmetric: Whether of its last two axes the upper triangle is enough.
    """

    shape: tuple[int, ...]
    symmetric: bool = False

    @property
    def width(self) -> int:
        """Cells that are sent or left out together: all those of an item."""
        if not self.symmetric:
            return prod(self.shape[1:])
        side = self.shape[-1]
        return 1 if len(self.shape) == 2 else side * (side + 1) // 2

    @property
    def length(self) -> int:
        """Rows of so many cells."""
        if self.symmetric and len(self.shape) == 2:
            return self.shape[0] * (self.shape[0] + 1) // 2
        return self.shape[0]

    @property
    def rows(self) -> int:
        """Of a block."""
        return max(1, BLOCK_CELLS // max(self.width, 1))

    @property
    def n_blocks(self) -> int:
        """How many."""
        return -(-self.length // self.rows)

    @cached_property
    def _triangle(self) -> tuple[Array, Array]:
        return np.triu_indices(self.shape[-1])

    def packed(self, total: Array) -> Array:
        """The array as rows of cells, (length, width)."""
        if self.symmetric:
            total = total[(..., *self._triangle)]
        return np.ascontiguousarray(total.reshape(self.length, self.width))

    def unpacked(self, rows: Array) -> Array:
        """The array itself; what is below the diagonal of a symmetric one is zero."""
        if not self.symmetric:
            return rows.reshape(self.shape)
        total = np.zeros(self.shape, rows.dtype)
        total[(..., *self._triangle)] = rows.reshape(*self.shape[:-2], -1)
        return total


def emitted(total: Array, layout: Layout, source: int) -> Iterator[pa.RecordBatch]:
    """A partition's total, block by block, without the rows that are zero; every block, so that its seal is there."""
    import pyarrow as pa

    table = layout.packed(total)
    seal = blake2b(table.data, digest_size=SEAL).digest()
    for block in range(layout.n_blocks):
        rows = table[block * layout.rows : (block + 1) * layout.rows]
        touched = rows.any(axis=1)
        yield pa.RecordBatch.from_pydict(
            {
                "block": pa.array([block], pa.int32()),
                "source": pa.array([source], pa.int32()),
                "seal": [seal],
                "touched": [np.packbits(touched).tobytes()],
                "cells": [rows[touched].tobytes()],
            }
        )


def added_up(batches: Iterable[pa.RecordBatch], layout: Layout) -> Iterator[pa.RecordBatch]:
    """The sums of some blocks over all partitions. A partition that comes twice makes the number of them wrong."""
    import pyarrow as pa

    sums: dict[int, Array] = {}
    seals: dict[int, list[tuple[int, bytes]]] = {}
    for batch in batches:
        for row in batch.to_pylist():
            block, size = row["block"], min(layout.rows, layout.length - row["block"] * layout.rows)
            total = sums.setdefault(block, np.zeros((size, layout.width), np.int64))
            touched = np.unpackbits(np.frombuffer(row["touched"], np.uint8), count=size).astype(bool)
            total[touched] += np.frombuffer(row["cells"], np.int64).reshape(-1, layout.width)
            seals.setdefault(block, []).append((row["source"], row["seal"]))
    for block, total in sums.items():
        distinct = len({source for source, _ in seals[block]}) == len(seals[block])
        whole = blake2b(b"".join(b"%d:%s;" % one for one in sorted(seals[block])), digest_size=SEAL)
        yield pa.RecordBatch.from_pydict(
            {
                "block": pa.array([block], pa.int32()),
                "sources": pa.array([len(seals[block]) if distinct else -1], pa.int32()),
                "seal": [whole.digest()],
                "cells": [total.tobytes()],
            }
        )


def put_together(sums: pa.Table, layout: Layout, n_sources: int) -> Array | None:
    """The whole array; None unless each block is the sum of one and the same total of each of all partitions."""
    complete = sorted(sums["block"].to_pylist()) == list(range(layout.n_blocks))
    alike = len(set(sums["seal"].to_pylist())) == 1 and set(sums["sources"].to_pylist()) == {n_sources}
    if not (complete and alike):
        return None
    rows = np.empty((layout.length, layout.width), np.int64)
    for block, cells in zip(sums["block"].to_pylist(), sums["cells"], strict=True):
        own = rows[block * layout.rows : (block + 1) * layout.rows]
        own[:] = np.frombuffer(cells.as_buffer(), np.int64).reshape(own.shape)
    return layout.unpacked(rows)
