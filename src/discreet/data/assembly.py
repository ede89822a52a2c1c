"""From batches of rows to compressed rows (CSR): user by user, with items in order and none twice.

A batch is grouped by user as soon as it arrives, so its users shrink to a list of counts. What is kept for each row is
then no more than the finished arrays need, and a read peaks at about twice the memory of the finished arrays.

Ids are numbered as they stream by. Each batch gets local numbers at once. At the end, a map takes each batch's local
numbers to the final ones, which follow sorted order and so do not depend on the order of the rows.
"""

from __future__ import annotations

import mmap
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from discreet.data.catalogue import Ids, smallest_unsigned, sorted_order, storage
from discreet.data.interactions import Allocate
from discreet.errors import DataError
from discreet.typing import Array, Integers

BLOCK = 1 << 18  # interactions sorted at a time
PAGE = 1 << 16  # arrays of more bytes than this get pages of their own
MERGE_AT = 1 << 17  # ids waiting to be merged into the numbering before it is worth a pass over all
WORKERS = min(4, os.cpu_count() or 1)


def in_memory(name: str, length: int, dtype: Any) -> Array:
    """Allocate an array on pages of its own, which go back to the system as soon as the array is freed.

    Memory freed on the ordinary heap mostly stays with the process, which would double the peak of a read.
    """
    size = length * np.dtype(dtype).itemsize
    if size < PAGE:
        return np.empty(length, dtype=dtype)
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}  # else Windows
    return np.frombuffer(mmap.mmap(-1, size, **private), dtype=dtype)


def blocks(indptr: Integers, size: int) -> Iterator[tuple[int, int]]:
    """Cut the users into runs of about `size` interactions, at least one user each."""
    start, n = 0, len(indptr) - 1
    while start < n:
        stop = int(np.searchsorted(indptr, indptr[start] + size, side="right")) - 1
        stop = min(max(stop, start + 1), n)
        yield start, stop
        start = stop


class Numbering:
    """Takes the ids of one column in batches; `finish` gives them their final numbers."""

    def __init__(self, what: str, *, written: bool = False) -> None:
        self.final: Integers = np.empty(0, np.int64)  # once finished: the number of each known id, or -1
        self.example: Any = None  # an id outside the catalog, if there is one
        self._what = what
        self._written = written  # whether the ids come from a text file, which has no types
        self._type: pa.DataType | None = None
        self._known: pa.Array | None = None  # distinct ids in order of appearance
        self._waiting: list[pa.Array] = []
        self._maps: list[NDArray[np.int32]] = []

    def add(self, ids: pa.Array) -> tuple[NDArray[np.int32], int]:
        """Return the local number of each id of a batch, and how many there are. No id may be missing."""
        self._type = ids.type if self._type is None else self._type
        if ids.type != self._type:  # 5 and "5" are different ids; a date is not its midnight
            raise DataError(
                f"{self._what}: ids change from {self._type} to {ids.type} within the table; "
                "convert the column to one type, for instance string"
            )
        encoded = storage(ids).dictionary_encode()
        self._waiting.append(encoded.dictionary)
        if sum(map(len, self._waiting)) >= max(MERGE_AT, 0 if self._known is None else len(self._known)):
            self._merge()
        return encoded.indices.to_numpy(), len(encoded.dictionary)

    def _merge(self) -> None:
        """Merge the waiting ids into the known ones, which come first and keep their numbers."""
        known = [] if self._known is None else [self._known]
        start = sum(map(len, known))
        lengths = [len(part) for part in self._waiting]
        merged = pa.concat_arrays(known + self._waiting).dictionary_encode()
        numbers = merged.indices.to_numpy()[start:]
        # Copies, so that the large array behind the slices can be freed.
        self._maps += [part.copy() for part in np.split(numbers, np.cumsum(lengths)[:-1])]
        self._known = merged.dictionary
        self._waiting = []

    def finish(self, catalogue: Ids | None = None) -> Ids:
        """Return the ids; the catalog's, if there is one."""
        if self._waiting:
            self._merge()
        if self._known is None:
            return Ids(pa.array([], pa.int64())) if catalogue is None else catalogue
        known = self._known
        if isinstance(self._type, pa.BaseExtensionType):
            known = self._type.wrap_array(known)
        if catalogue is not None:
            self.final = catalogue.numbers(known, self._what)
            self.example = known[int(self.final.argmin())].as_py()
            return catalogue
        order = sorted_order(known, written=self._written)
        self.final = np.empty(len(order), dtype=np.int64)
        self.final[order] = np.arange(len(order))
        return Ids(known.take(pa.array(order)))

    def __getitem__(self, batch: int) -> Integers:
        """The final number of each local number of a batch; -1 for ids outside the catalog."""
        return self.final[self._maps[batch]]


@dataclass
class Rows:
    """Compressed rows: user u's items are indices[indptr[u]:indptr[u + 1]], increasing."""

    users: Ids
    items: Ids
    indptr: Integers
    indices: Array
    values: NDArray[np.float32]
    times: Array | None
    unknown: int = 0  # rows dropped because their item is not in the catalog
    example: Any = None  # one such item
    repeated: int = 0  # rows merged into another row of the same user and item
    pair: tuple[Any, Any] | None = None  # one such user and item


@dataclass
class _Chunk:
    counts: Array  # rows of each local user, in order; some have none
    columns: dict[str, Array]  # items, and values and times if there are any

    def owners(self, numbers: Integers) -> tuple[Integers, Integers]:
        """The users who have rows here, by their final numbers, and how many."""
        busy = slice(None) if self.counts.all() else np.flatnonzero(self.counts)
        return numbers[busy], self.counts[busy].astype(np.int64)


class Assembler:
    """Takes batches of rows; `finish` gives the compressed rows."""

    def __init__(self, allocate: Allocate = in_memory, *, is_text: bool = False) -> None:
        self._users = Numbering("user", written=is_text)
        self._items = Numbering("item", written=is_text)
        self._chunks: list[_Chunk] = []
        self._allocate = allocate

    def add(self, users: pa.Array, items: pa.Array, values: Array | None, times: Array | None) -> None:
        """Add one batch of rows: no missing id, values finite."""
        local_users, n_users = self._users.add(users)
        local_items, n_items = self._items.add(items)
        order = None
        if bool((local_users[1:] >= local_users[:-1]).all()):
            counts = np.bincount(local_users, minlength=n_users)
        else:
            order, counts = _counting_argsort(local_users, n_users)
        given = {"items": local_items.astype(smallest_unsigned(n_items)), "values": values, "times": times}
        columns = {name: self._keep(column, order) for name, column in given.items() if column is not None}
        self._chunks.append(_Chunk(counts.astype(smallest_unsigned(int(counts.max()) + 1)), columns))
        if len(self._chunks) % 8 == 0:
            pa.default_memory_pool().release_unused()

    def _keep(self, column: Array, order: Array | None) -> Array:
        stored = self._allocate("chunk", len(column), column.dtype)
        if order is None:
            stored[:] = column
        else:
            np.take(column, order, out=stored, mode="clip")  # "clip" avoids a second copy, and clips nothing
        return stored

    def finish(self, catalogue: Ids | None, on_duplicate: str, *, is_query: bool = False) -> Rows:
        """Give users and items their final numbers, put every row in its place, and merge repeated pairs.

        The rows of a query have no order, so rows of the same pair are ordered by time and value alone.
        """
        pa.default_memory_pool().release_unused()
        users, items = self._users.finish(), self._items.finish(catalogue)
        unknown = self._drop_unknown() if (self._items.final < 0).any() else 0
        totals = np.zeros(len(users), dtype=np.int64)
        for at, chunk in enumerate(self._chunks):
            who, counts = chunk.owners(self._users[at])
            totals[who] += counts
        present = totals > 0
        if not present.all():  # leave out users without rows
            self._users.final = (np.cumsum(present) - 1)[self._users.final]
            users, totals = users.some(np.flatnonzero(present)), totals[present]
        indptr = np.concatenate([[0], np.cumsum(totals)]).astype(np.int64)
        rows = Rows(users, items, indptr, *self._scatter(indptr, len(items)), unknown, self._items.example)
        if _sort_rows(rows):
            _merge_repeated(rows, on_duplicate, self._allocate, is_query)
        return rows

    def _drop_unknown(self) -> int:
        """Remove the rows whose item has no number."""
        dropped = 0
        for at, chunk in enumerate(self._chunks):
            known = self._items[at][chunk.columns["items"]] >= 0
            dropped += int((~known).sum())
            owner = np.repeat(np.arange(len(chunk.counts)), chunk.counts)[known]
            columns = {name: column[known] for name, column in chunk.columns.items()}
            self._chunks[at] = _Chunk(np.bincount(owner, minlength=len(chunk.counts)), columns)
        return dropped

    def _scatter(self, indptr: Integers, n_items: int) -> tuple[Array, NDArray[np.float32], Array | None]:
        """Copy every row to its user, a column at a time, and free what has been copied."""
        length = int(indptr[-1])
        kinds = {name: column.dtype for name, column in self._chunks[0].columns.items()} if self._chunks else {}
        indices = self._allocate("indices", length, smallest_unsigned(n_items))
        values, times = self._allocate("values", length, np.float32), None
        self._fill("items", indices, indptr)
        if "values" in kinds:
            self._fill("values", values, indptr)
        else:
            values[:] = 1.0
        if "times" in kinds:
            times = self._allocate("times", length, kinds["times"])
            self._fill("times", times, indptr)
        return indices, values, times

    def _fill(self, name: str, target: Array, indptr: Integers) -> None:
        """Copy one column of all chunks, which lose it; the rows of a user stay in order of arrival."""

        def put(at: int, chunk: _Chunk, counts: Integers, shift: Integers) -> None:
            column = chunk.columns.pop(name)
            column = self._items[at].astype(target.dtype)[column] if name == "items" else column
            if (shift == shift[0]).all():
                target[int(shift[0]) : int(shift[0] + counts.sum())] = column
            else:
                place = np.repeat(shift, counts)
                place += np.arange(len(place))
                target[place] = column

        free = indptr[:-1].copy()  # the next free place of each user
        # Places are assigned in order of arrival; copying to them, all different, runs in threads.
        with ThreadPoolExecutor(WORKERS) as pool:
            running: deque[Future[None]] = deque()
            for at, chunk in enumerate(self._chunks):
                who, counts = chunk.owners(self._users[at])
                if not len(who):
                    continue
                shift = free[who] - (np.cumsum(counts) - counts)
                free[who] += counts
                running.append(pool.submit(put, at, chunk, counts, shift))
                if len(running) > WORKERS:
                    running.popleft().result()
            for job in running:
                job.result()


def _counting_argsort(codes: NDArray[np.int32], n: int) -> tuple[Array, Array]:
    """Stable argsort of small integers in linear time, with the number of rows of each."""
    from scipy.sparse import csr_array

    # Row i of this matrix has its single entry in column codes[i]; its transpose lists rows by column.
    length = len(codes)
    pointers = np.arange(length + 1, dtype=np.int32)
    columns = csr_array((np.empty(length, np.int8), codes, pointers), shape=(length, n)).tocsc()
    return columns.indices, np.diff(columns.indptr)


def _sort_rows(rows: Rows) -> bool:
    """Put each user's items in order, equal ones in order of arrival; return whether any are equal."""
    with ThreadPoolExecutor(WORKERS) as pool:
        return any(list(pool.map(lambda run: _sort_block(rows, *run), blocks(rows.indptr, BLOCK))))


def _sort_block(rows: Rows, first: int, last: int) -> bool:
    start, stop = int(rows.indptr[first]), int(rows.indptr[last])
    items = rows.indices[start:stop]
    increasing = items[1:] > items[:-1]
    ends = rows.indptr[first + 1 : last] - start - 1  # the step from one user to the next is always fine
    increasing[ends] = True
    if increasing.all():
        return False
    counts = np.diff(rows.indptr[first : last + 1])
    key = np.repeat(np.arange(last - first, dtype=np.uint64), counts) * np.uint64(len(rows.items))
    key += items
    order = _stable_order(key, (last - first) * len(rows.items))
    for column in (rows.indices, rows.values, rows.times):
        if column is not None:
            column[start:stop] = column[start:stop][order]
    key = key[order]
    return bool((key[1:] == key[:-1]).any())


def _stable_order(key: NDArray[np.uint64], bound: int) -> Integers:
    """Stable argsort. Sorting key and position packed into one word is several times faster than argsort."""
    bits = max(len(key) - 1, 1).bit_length()
    if bound.bit_length() + bits > 64:
        return np.argsort(key, kind="stable")
    packed = key << np.uint64(bits)
    packed |= np.arange(len(key), dtype=np.uint64)
    packed.sort()
    packed &= np.uint64((1 << bits) - 1)
    return packed.astype(np.int64)


def _merge_repeated(rows: Rows, policy: str, allocate: Allocate, is_query: bool) -> None:
    """Leave one row for each (user, item), as the policy says. The rows are sorted."""
    end, counts = 0, np.diff(rows.indptr)
    for first, last in list(blocks(rows.indptr, BLOCK)):
        start, stop = int(rows.indptr[first]), int(rows.indptr[last])
        owner = np.repeat(np.arange(first, last), np.diff(rows.indptr[first : last + 1]))
        items, values = rows.indices[start:stop].copy(), rows.values[start:stop].copy()
        times = None if rows.times is None else rows.times[start:stop].copy()
        new = np.ones(len(items), dtype=bool)
        new[1:] = (items[1:] != items[:-1]) | (owner[1:] != owner[:-1])
        heads = np.flatnonzero(new)
        if rows.pair is None and len(heads) < len(items):
            at = int(new.argmin())
            rows.pair = rows.users[int(owner[at])], rows.items[int(items[at])]
        keys = [key for key in (values if is_query else None, times) if key is not None]
        order = np.lexsort((*keys, np.cumsum(new)))  # stable: equal rows stay in order of arrival
        values, times = values[order], None if times is None else times[order]
        tails = np.append(heads[1:], len(items)) - 1
        chosen = heads if policy == "first" else tails
        size = len(heads)
        settled = values[chosen]
        if policy in ("mean", "sum") and size:
            sums = np.add.reduceat(values.astype(np.float64), heads)
            settled = sums / (tails - heads + 1) if policy == "mean" else sums
        rows.indices[end : end + size] = items[heads]
        with np.errstate(over="ignore"):  # a sum may be infinite in 32 bits; the reader handles that
            rows.values[end : end + size] = settled
        if rows.times is not None and times is not None:
            rows.times[end : end + size] = times[chosen]
        counts[first:last] = np.bincount(owner[heads] - first, minlength=last - first)
        end += size
    rows.repeated = len(rows.indices) - end
    rows.indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    for name in ("indices", "values", "times"):
        column = getattr(rows, name)
        if column is not None:
            shorter = allocate(name, end, column.dtype)
            shorter[:] = column[:end]
            setattr(rows, name, shorter)
