"""The one form that every source takes: the names of its columns, and a stream of Arrow batches of some of them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from discreet.data.columns import Wanted
from discreet.data.ids import to_array
from discreet.data.objects import to_values
from discreet.errors import DataError

BATCH = 1 << 18  # rows at a time: large enough for speed, small beside the finished arrays


@dataclass(frozen=True)
class Table:
    """A table that has been found but not read."""

    what: str  # for people
    names: Sequence[str] | None  # None: JSON lines, which have no header
    stream: Callable[[Wanted], Generator[pa.RecordBatch, None, None]]
    rows: int | None = None  # if known beforehand
    is_text: bool = False  # cells are as they are written in a text file
    is_query: bool = False  # the order of the rows means nothing
    library: str | None = None  # the data frame library of the source, if it is one
    close: Callable[[], None] = lambda: None


def sliced(batches: Iterable[pa.RecordBatch]) -> Generator[pa.RecordBatch, None, None]:
    """Cut large batches, so that what follows needs little memory at a time; leave out empty ones."""
    for batch in batches:
        for start in range(0, batch.num_rows, BATCH):
            yield batch.slice(start, BATCH)


def prefetched(batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch, None, None]:
    """Decode the next batch while the last one is being indexed."""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, batches, None)
        while (batch := waiting.result()) is not None:
            waiting = pool.submit(next, batches, None)
            yield batch


def batch_of(columns: dict[str, Sequence[Any]], wanted: Wanted) -> pa.RecordBatch:
    """One batch of Python objects, in their own types."""
    return pa.RecordBatch.from_pydict({
        name: to_values(columns[name], name) if name == wanted.value else to_array(columns[name], name)
        for name in wanted.names
    })  # fmt: skip


def require_names(names: Any) -> None:
    """Raise unless columns have names, all different."""
    listed = list(names) if isinstance(names, Iterable) else []
    for name in listed:
        if not isinstance(name, str):
            raise DataError(
                f"source: the names of columns must be text, not {name!r}; name them: "
                "frame.set_axis(['user', 'item', 'rating'], axis=1)"
            )
        if listed.count(name) > 1:
            raise DataError(f"source: more than one column is called {name!r}; rename or remove the others")


def shown(paths: list[str]) -> str:
    """Some files in words."""
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more files"
