"""Sums on their way from the partitions of a cluster to its driver: in blocks, with checksums, added up exactly.

A partition adds up what its users contribute, and emits the total in blocks of grid units. A tree of tasks adds up the
blocks of a few partitions at a time, until there is one sum of each block. The driver puts these together. All of it is
integers.

A cluster may run a task twice, and take one block from the first run and another one from the second. If these runs saw
different rows, a user could be in both halves, and their contribution would be longer than its bound. So a partition
marks what it emits with its own number and a digest of the whole; sums keep the checksums of all that is in them; and
the driver accepts them only if every block has the same checksums, one of each partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.typing import Array

if TYPE_CHECKING:
    import pyarrow as pa


PARTIAL = "block int, branch int, checksums binary, kernels array<string>, touched binary, units binary"
BLOCK_UNITS = 1 << 17  # of a block: a megabyte
BRANCHES = 16  # whose sums one task adds up
DIGEST = 16  # bytes
CHECKSUM = np.dtype([("source", "<i4"), ("digest", f"V{DIGEST}")])


@dataclass(frozen=True)
class Layout:
    """How an array of integers is cut into blocks.

    Attributes:
        shape: Of the array.
        symmetric: Whether only the upper triangles of its last two axes are sent.
    """

    shape: tuple[int, ...]
    symmetric: bool = False

    @property
    def width(self) -> int:
        """How many numbers are sent or left out together: all those of an item."""
        if not self.symmetric:
            return prod(self.shape[1:])
        side = self.shape[-1]
        return 1 if len(self.shape) == 2 else side * (side + 1) // 2

    @property
    def length(self) -> int:
        """How many rows of `width` numbers there are."""
        if self.symmetric and len(self.shape) == 2:
            return self.shape[0] * (self.shape[0] + 1) // 2
        return self.shape[0]

    @property
    def rows(self) -> int:
        """Rows of a block."""
        return max(1, BLOCK_UNITS // max(self.width, 1))

    @property
    def n_blocks(self) -> int:
        """How many blocks there are."""
        return -(-self.length // self.rows)

    def nothing(self, block: int) -> Array:
        """A block of zeros."""
        return np.zeros((min(self.rows, self.length - block * self.rows), self.width), np.int64)

    @cached_property
    def _triangle(self) -> tuple[Array, Array]:
        return np.triu_indices(self.shape[-1])

    def packed(self, total: Array) -> Array:
        """The array as rows, (length, width)."""
        if self.symmetric:
            total = total[(..., *self._triangle)]
        return np.ascontiguousarray(total.reshape(self.length, self.width))

    def unpacked(self, rows: Array) -> Array:
        """The array; what is below the diagonal of a symmetric one is zero."""
        if not self.symmetric:
            return rows.reshape(self.shape)
        total = np.zeros(self.shape, rows.dtype)
        total[(..., *self._triangle)] = rows.reshape(*self.shape[:-2], -1)
        return total


def emitted(total: Array, layout: Layout, source: int, kernels: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """A partition's total, block by block: also blocks of zeros, for their checksums and kernels."""
    table = layout.packed(total)
    checksum = np.array([(source, blake2b(table.data, digest_size=DIGEST).digest())], CHECKSUM)
    for block in range(layout.n_blocks):
        rows = table[block * layout.rows : (block + 1) * layout.rows]
        yield _batch(block, source, checksum, kernels, rows)


def _batch(block: int, branch: int, checksums: Array, kernels: Iterable[str], rows: Array) -> pa.RecordBatch:
    """A block, without the rows that are zero."""
    import pyarrow as pa

    touched = rows.any(axis=1)
    return pa.RecordBatch.from_pydict(
        {
            "block": pa.array([block], pa.int32()),
            "branch": pa.array([branch], pa.int32()),
            "checksums": [np.sort(checksums, order="source").tobytes()],
            "kernels": pa.array([sorted(kernels)], pa.list_(pa.string())),
            "touched": [np.packbits(touched).tobytes()],
            "units": [rows[touched].tobytes()],
        }
    )


def added_up(batches: Iterable[pa.RecordBatch], layout: Layout, branches: int) -> Iterator[pa.RecordBatch]:
    """The sums of some blocks over the branches that meet here, with the checksums and the kernels of all."""
    sums: dict[tuple[int, int], tuple[Array, list[Array], set[str]]] = {}
    for batch in batches:
        for row in batch.to_pylist():
            zero = layout.nothing(row["block"]), list[Array](), set[str]()
            total, checksums, kernels = sums.setdefault((row["block"], row["branch"] // branches), zero)
            total[_touched(row, total)] += np.frombuffer(row["units"], np.int64).reshape(-1, layout.width)
            checksums.append(np.frombuffer(row["checksums"], CHECKSUM))
            kernels.update(row["kernels"])
    for (block, branch), (total, checksums, kernels) in sums.items():
        yield _batch(block, branch, np.concatenate(checksums), kernels, total)


def _touched(row: dict[str, Any], rows: Array) -> Array:
    return np.unpackbits(np.frombuffer(row["touched"], np.uint8), count=len(rows)).astype(bool)


def kernels_of(sums: pa.Table) -> set[str]:
    """All kernels that these sums were computed with."""
    return {kernel for row in sums["kernels"].to_pylist() for kernel in row}


def put_together(sums: pa.Table, layout: Layout, n_sources: int) -> Array | None:
    """The whole array; None unless each block is the sum of the same totals, one of each partition."""
    found = sums.to_pylist()
    complete = sorted(row["block"] for row in found) == list(range(layout.n_blocks))
    alike = {row["checksums"] for row in found}
    if not (complete and len(alike) == 1):
        return None
    if not np.array_equal(np.frombuffer(alike.pop(), CHECKSUM)["source"], np.arange(n_sources)):
        return None
    rows = np.zeros((layout.length, layout.width), np.int64)
    for row in found:
        own = rows[row["block"] * layout.rows : (row["block"] + 1) * layout.rows]
        own[_touched(row, own)] = np.frombuffer(row["units"], np.int64).reshape(-1, layout.width)
    return layout.unpacked(rows)
