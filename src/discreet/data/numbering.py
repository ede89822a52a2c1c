"""Numbering ids while they stream by in batches.

Each batch gets local numbers at once; at the end comes the map from each batch's local numbers to the final
ones, which follow sorted order, so that they do not depend on the order of the rows. Integers that lie close
together, which most ids do, are their own local numbers less the smallest; others are hashed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from discreet.data.ids import Ids, sorted_order, storage
from discreet.errors import DataError
from discreet.typing import Array, Integers

MERGE_AT = 1 << 17  # hashed ids waiting to be merged into the numbering before it is worth a pass over all
WIDEST = 1 << 22  # the span of integers up to which they are looked up rather than hashed,
SPARSEST = 4  # if within a batch it is at most this many times as wide as the batch is long


class Numbers:
    """The final number of each local number of each batch; -1 for ids outside the catalogue.

    A local number that occurs nowhere in its batch may have any final number.
    """

    def __init__(self, final: Integers, maps: list[NDArray[np.int32]], example: Any = None) -> None:
        self.final, self._maps = final, maps
        self.example = example  # an id outside the catalogue, if there is one

    def __getitem__(self, batch: int) -> Integers:
        return self.final[self._maps[batch]]

    def renumbered(self, numbers: Integers) -> Numbers:
        """The same after one more step: number n becomes numbers[n]."""
        return Numbers(numbers[self.final], self._maps)


class Close:
    """Integers within a span small enough for a table: which have been seen."""

    def __init__(self) -> None:
        self._low, self._seen = 0, np.zeros(0, dtype=bool)
        self._spans: list[tuple[int, int]] = []  # lowest and one above the highest of each batch

    def add(self, ids: Array) -> tuple[NDArray[np.int32], int] | None:
        """Number one batch; None if that would make the span too wide."""
        low, stop = int(ids.min()), int(ids.max()) + 1
        start = min(low, self._low) if len(self._seen) else low
        end = max(stop, self._low + len(self._seen)) if len(self._seen) else stop
        if end - start > WIDEST or stop - low > SPARSEST * len(ids) + 1000 or end > np.iinfo(np.int64).max:
            return None
        if end - start > len(self._seen):
            wider = np.zeros(min(max(end - start, 2 * len(self._seen)), WIDEST), dtype=bool)
            wider[self._low - start : self._low - start + len(self._seen)] = self._seen
            self._low, self._seen = start, wider
        # In 64 bits, where nothing overflows: the difference of two 8-bit integers may have 9.
        wide = np.uint64 if ids.dtype == np.uint64 else np.int64
        local = np.subtract(ids, wide(low), dtype=wide).astype(np.int32)
        self._seen[low - self._low : stop - self._low][local] = True
        self._spans.append((low, stop))
        return local, stop - low

    def known(self) -> tuple[Integers, list[NDArray[np.int32]]]:
        """The integers seen, increasing, and for each batch the position of its local numbers among them."""
        position = np.cumsum(self._seen, dtype=np.int32)
        position -= 1
        np.maximum(position, 0, out=position)
        maps = [position[low - self._low : stop - self._low] for low, stop in self._spans]
        return np.flatnonzero(self._seen) + self._low, maps


class Numbering:
    """Takes the ids of one column in batches; `finish` numbers them for good."""

    def __init__(self, what: str, *, written: bool = False) -> None:
        self._what = what
        self._written = written  # the ids come from a text file, which has no types
        self._type: pa.DataType | None = None
        self._close: Close | None = None
        self._known: pa.Array | None = None  # distinct ids in order of appearance
        self._waiting: list[pa.Array] = []
        self._maps: list[NDArray[np.int32]] = []

    def add(self, ids: pa.Array) -> tuple[NDArray[np.int32], int]:
        """Number one batch, which has at least one id and none missing.

        Returns:
            The local number of each id, and a number above all of these.
        """
        if self._type is None:
            self._type = ids.type
            self._close = Close() if pa.types.is_integer(ids.type) else None
        elif ids.type != self._type:  # 5 and "5" are two ids, in one batch or in two; a date is not its midnight
            raise DataError(
                f"{self._what}: ids change from {self._type} to {ids.type} within the table; "
                "convert the column to one type, for instance string"
            )
        if self._close is not None:
            numbered = self._close.add(ids.to_numpy())
            if numbered is not None:
                return numbered
            self._leave_table()
        encoded = storage(ids).dictionary_encode()
        self._waiting.append(encoded.dictionary)
        if sum(map(len, self._waiting)) >= max(MERGE_AT, 0 if self._known is None else len(self._known)):
            self._merge()
        return encoded.indices.to_numpy(), len(encoded.dictionary)

    def _leave_table(self) -> None:
        """Go over from the table of close integers to hashing."""
        if self._close is not None:
            seen, maps = self._close.known()
            if maps:
                self._known, self._maps = pa.array(seen).cast(self._type), maps
            self._close = None

    def _merge(self) -> None:
        """Take the waiting ids into the known ones. Known ids keep their numbers: they come first."""
        known = [] if self._known is None else [self._known]
        start = sum(map(len, known))
        lengths = [len(part) for part in self._waiting]
        merged = pa.concat_arrays(known + self._waiting).dictionary_encode()
        numbers = merged.indices.to_numpy()[start:]
        # Copies, so that the large array behind the slices can go.
        self._maps += [part.copy() for part in np.split(numbers, np.cumsum(lengths)[:-1])]
        self._known = merged.dictionary
        self._waiting = []

    def finish(self, catalogue: Ids | None = None) -> tuple[Ids, Numbers]:
        """Return the ids (those of the catalogue, if there is one) and the final numbers of each batch."""
        self._leave_table()
        if self._waiting:
            self._merge()
        if self._known is None:
            empty = Ids(pa.array([], pa.int64())) if catalogue is None else catalogue
            return empty, Numbers(np.empty(0, np.int64), [])
        known = self._known
        if isinstance(self._type, pa.BaseExtensionType):
            known = self._type.wrap_array(known)
        if catalogue is not None:
            final = catalogue.numbers(known, self._what)
            return catalogue, Numbers(final, self._maps, known[int(final.argmin())].as_py())
        order = sorted_order(known, written=self._written)
        final = np.empty(len(order), dtype=np.int64)
        final[order] = np.arange(len(order))
        return Ids(known.take(pa.array(order))), Numbers(final, self._maps)
