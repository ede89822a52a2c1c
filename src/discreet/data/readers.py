"""`discreet.read`: any table of who liked what, checked, numbered and compressed.

There is one path. Every source becomes a stream of Arrow batches (`sources`), whose cells are checked
(`columns`), whose ids are numbered and whose rows are compressed (`assembly`).
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.lib.format import open_memmap

from discreet.data import sources, storage
from discreet.data.assembly import Allocate, Assembler, Rows, in_memory
from discreet.data.catalogue import Catalogue, ObservedItems, observed_items_are_public
from discreet.data.columns import GUESS, MOST, NO_HEADER, Cleaner, Columns, Guess, check_range, choose, inner_range
from discreet.data.interactions import Interactions, Report
from discreet.data.parsing import check_format
from discreet.data.progress import Bar
from discreet.errors import DataError
from discreet.typing import Array

if TYPE_CHECKING:
    from discreet.data.spark_interactions import SparkInteractions

log = logging.getLogger("discreet")

POLICIES = {
    "on_duplicate": ("last", "first", "mean", "sum", "raise"),
    "on_invalid": ("raise", "drop", "clip"),
    "on_unknown": ("raise", "drop"),
}


@overload
def read(
    source: Any,
    *,
    user: str | Guess = GUESS,
    item: str | Guess = GUESS,
    value: str | Guess | None = GUESS,
    time: str | Guess | None = GUESS,
    items: Any = None,
    value_range: tuple[float, float] | None = None,
    connection: Any = None,
    on_duplicate: str = "last",
    on_invalid: str = "raise",
    on_unknown: str = "raise",
    separator: str | None = None,
    time_format: str | None = None,
    cache: str | os.PathLike[str] | None = None,
    engine: Literal["local"] = "local",
) -> Interactions: ...
@overload
def read(
    source: Any,
    *,
    user: str | Guess = GUESS,
    item: str | Guess = GUESS,
    value: str | Guess | None = GUESS,
    time: str | Guess | None = GUESS,
    items: Any = None,
    value_range: tuple[float, float] | None = None,
    on_duplicate: str = "last",
    on_invalid: str = "raise",
    on_unknown: str = "raise",
    separator: str | None = None,
    time_format: str | None = None,
    engine: Literal["spark"],
    partitions: int | None = None,
) -> SparkInteractions: ...
def read(
    source: Any,
    *,
    user: str | Guess = GUESS,
    item: str | Guess = GUESS,
    value: str | Guess | None = GUESS,
    time: str | Guess | None = GUESS,
    items: Any = None,
    value_range: tuple[float, float] | None = None,
    connection: Any = None,
    on_duplicate: str = "last",
    on_invalid: str = "raise",
    on_unknown: str = "raise",
    separator: str | None = None,
    time_format: str | None = None,
    cache: str | os.PathLike[str] | None = None,
    engine: Literal["local", "spark"] = "local",
    partitions: int | None = None,
) -> Any:
    """Read a table with one row for each time a user rated, bought, played or looked at an item.

    Nothing is guessed from rows: how a row is read depends on that row, on the header and on the arguments, so that
    what one person writes changes nobody else's record (docs/proofs/reading.md).

    Ids may be of any type and come back in that type. In text files (csv, tsv, json lines), which have no types, ids
    are text as it is written; where `items` are integers, "7" is the item 7. Users are numbered in sorted order of
    their ids, items in the order of `items` (or sorted, without it): the order of the rows does not matter, except
    to tell the first from the last of repeated pairs. A user is in the result if at least one of their rows is.

    Example:
        >>> import discreet
        >>> rows = [("ann", "tea", 5), ("bob", "tea", 2), ("bob", "milk", 4)]
        >>> discreet.read(rows, items=["milk", "tea", "water"], value_range=(1, 5))
        Interactions(3 of 2 users and 3 items)

    Args:
        source: A path or glob, or a list of them (csv, tsv, parquet, json lines; also .gz and .zst); a SELECT,
            run by DuckDB, over files ("SELECT ... FROM 'ratings/*.parquet'") or over `connection`; a pandas,
            polars, Arrow, DuckDB or Spark table; a scipy sparse matrix or array of users by items; a list of
            tuples (user, item), (user, item, value) or (user, item, value, time).
        user: The column of the user; by default one with a usual name. A guess is logged and is in `.report`.
            JSON lines have no header to guess from: by default their keys are "user", "item" and "rating".
        item: The column of the item; by default one with a usual name.
        value: The column of the value (rating, plays, ...); by default one with a usual name. None, or a table without
            such a column: implicit feedback, every row counts 1 and `value_range` is (0, 1). To count how often a pair
            occurs, pass on_duplicate="sum" with a `value_range` for the counts.
        time: The column of the time; by default one with a usual name. None: do without.
        items: The catalogue, a public input: ids, or a data frame, file or SELECT with titles and other columns,
            or `discreet.observed_items_are_public`. Without it no private model can be fitted.
        value_range: The lowest and highest possible value, a public input. Without it no private model can be
            fitted.
        connection: Where a SELECT runs: a SQLAlchemy URL, engine or connection (PostgreSQL, SQLite, ...), a
            DuckDB connection, or the path of a DuckDB database.
        on_duplicate: What becomes of a (user, item) pair that occurs again: "last" (the default) keeps the
            last one by time, or by row without times (by value in a query, whose rows have no order); "first"; "mean";
            "sum"; "raise". A model never sees a pair twice.
        on_invalid: What becomes of rows that cannot be read (a line of text with too many or too few cells, a value or
            time that is none), and of values that are missing, NaN, infinite or outside `value_range`: "raise";
            "drop" leaves such rows out; "clip" moves infinite and out-of-range values to the nearest bound and
            leaves out the others. With "raise", whether the reading succeeds depends on single rows, and whoever
            sees that it failed learns of one; with "drop" or "clip" nothing in a row can stop it.
        on_unknown: What becomes of rows about items outside `items`: "raise" or "drop".
        separator: Between the cells of a CSV file, if it is none of `,` `;` `|` and tab, or the header has several.
        time_format: How times are written in text, for `strptime`, such as "%d/%m/%Y %H:%M". By default they are
            numbers, or ISO 8601; dates and times of text become seconds since 1970 in UTC.
        cache: A folder in which to build the result, for tables larger than memory: it is mapped into memory,
            and can be opened again by `Interactions.from_disk`.
        engine: "local", or "spark": the table, a Spark DataFrame, or a path, SELECT or table name for the session,
            stays in Spark, and models that can are fitted there (`SparkInteractions`).
        partitions: Into how many partitions Spark divides the users; by default as many as it has cores, or more.

    Raises:
        DataError: The table cannot be read as it is; says which argument or row, and what to do.
    """
    for name, policy in (("on_duplicate", on_duplicate), ("on_invalid", on_invalid), ("on_unknown", on_unknown)):
        if policy not in POLICIES[name]:
            raise DataError(f"{name}: one of {', '.join(POLICIES[name])} is needed, not {policy!r}")
    bounds = None if value_range is None else check_range(value_range)
    if time_format is not None:
        check_format(time_format)
    if engine == "spark":
        for name, useless in (("connection", connection), ("cache", cache)):
            if useless is not None:
                raise DataError(f"{name}: with engine='spark' the table stays in Spark; leave {name} out")
        from discreet.data import spark

        there = spark.open_table(source, separator)
        columns = choose(there.names, user=user, item=item, value=value, time=time)
        _settle_columns(columns, on_duplicate, on_invalid, bounds)
        policies = spark.Policies(on_duplicate, on_invalid, on_unknown, time_format)
        return spark.Reading(there, columns, bounds, policies).read(items, partitions)
    if engine != "local" or partitions is not None:
        raise DataError("engine: 'local' or 'spark' is needed; partitions= are those of Spark, with engine='spark'")
    table = sources.open_table(source, connection, separator)
    try:
        columns = choose(table.names, user=user, item=item, value=value, time=time)
        _settle_columns(columns, on_duplicate, on_invalid, bounds)
        observed = items is None or isinstance(items, ObservedItems)
        is_select = isinstance(items, str) and sources.SELECT.match(items)
        where = connection if is_select else None
        catalogue = None if observed else Catalogue.read(items, item=columns.item, connection=where)
        cleaner = Cleaner(on_invalid, bounds, columns.value is not None, columns.time is not None, time_format)
        cleaner.hint = NO_HEADER if table.names is None else ""
        with _workspace(cache) as (allocate, folder):
            assembler = Assembler(allocate, is_text=table.is_text)
            known = None if catalogue is None else catalogue.ids
            finish = partial(assembler.finish, known, on_unknown, on_duplicate, is_query=table.is_query)
            rows = _rows(table, columns, cleaner, assembler, finish)
            report = Report(
                table.what, str(columns), columns.guessed, cleaner.rows, cleaner.dropped, cleaner.clipped,
                rows.unknown, rows.repeated, table.library,
            )  # fmt: skip
            # Counted rows are values; rows that count 1 however often they occur are not.
            implicit = columns.value is None and on_duplicate != "sum"
            ratings = _interactions(rows, catalogue, cleaner, report, implicit)
            if items is observed_items_are_public:
                ratings = ratings.with_public(items=items)
            if on_duplicate == "sum":
                ratings = _sums_in_range(ratings, on_invalid)
            if folder is not None:
                _write(ratings, folder)
    finally:
        table.close()
    return ratings if cache is None else storage.load(cache)


def _settle_columns(columns: Columns, on_duplicate: str, on_invalid: str, bounds: tuple[float, float] | None) -> None:
    """Raise if columns and range do not fit together; say which columns were guessed."""
    if on_invalid == "clip" and bounds is None and (columns.value is not None or on_duplicate == "sum"):
        raise DataError("on_invalid='clip' has nothing to clip to without value_range=; give it, or 'drop' such rows")
    if columns.value is None and on_duplicate != "sum" and bounds not in (None, (0.0, 1.0)):
        raise DataError(
            f"value_range={bounds}: there is no column of values, so every row counts 1 and the range is "
            "(0, 1). Name the column with value=, leave out value_range=, or count with on_duplicate='sum'"
        )
    if columns.guessed:
        level = logging.INFO if columns.plainly_named else logging.WARNING
        log.log(level, "discreet.read: taking %s; name the columns to be sure", columns.said(columns.guessed))


def _rows(
    table: sources.Table, columns: Columns, cleaner: Cleaner, assembler: Assembler, finish: Callable[[], Rows]
) -> Rows:
    """Stream the table through the cleaner into compressed rows."""
    # Closed before the connection is, if a row is refused: the next batch may be on its way in a thread.
    wanted = columns.wanted(lenient=cleaner.on_invalid != "raise")
    with Bar(f"reading {table.what}", table.rows) as bar, closing(table.stream(wanted)) as batches:
        for batch in batches:
            cells = cleaner(batch)
            if len(cells[0]):
                assembler.add(*cells)
            bar.advance(batch.num_rows)
    if not cleaner.rows:
        raise DataError(f"source: {table.what} has no rows; check the path, the filter or the WHERE clause")
    rows = finish()
    if not len(rows.indices):
        raise DataError(
            f"source: none of the {cleaner.rows} rows is left ({cleaner.dropped} dropped as invalid, "
            f"{rows.unknown} about unknown items); check value_range=, items= and the columns: {columns}{cleaner.hint}"
        )
    return rows


def _interactions(
    rows: Rows, catalogue: Catalogue | None, cleaner: Cleaner, report: Report, implicit: bool
) -> Interactions:
    return Interactions(
        users=rows.users,
        catalogue=Catalogue(rows.items, origin=None) if catalogue is None else catalogue,
        indptr=rows.indptr,
        indices=rows.indices,
        values=rows.values,
        times=rows.times,
        value_range=(0.0, 1.0) if implicit else cleaner.value_range,
        implicit=implicit,
        report=report,
        time_type=cleaner.time_type,
    )


def _sums_in_range(ratings: Interactions, on_invalid: str) -> Interactions:
    """Sums may leave the range that each value was in, or that of 32 bits."""
    low, high = ratings.value_range or (-MOST, MOST)
    outside = (ratings.values < low) | (ratings.values > high)
    if not outside.any():
        return ratings
    if on_invalid == "raise":
        raise DataError(
            f"on_duplicate='sum': {int(outside.sum())} sums lie outside value_range=({low:g}, {high:g}); declare "
            "a range for the sums, or pass on_invalid='clip' or 'drop'"
        )
    if on_invalid == "drop":
        part = ratings.where(~outside)
        return part.of_users(np.flatnonzero(np.diff(part.indptr)))
    return replace(ratings, values=np.clip(ratings.values, *inner_range((low, high))))


@contextmanager
def _workspace(cache: str | os.PathLike[str] | None) -> Iterator[tuple[Allocate, Path | None]]:
    """Where large arrays live: in memory, or in files beside the cache folder that then become it."""
    if cache is None:
        yield in_memory, None
        return
    target = Path(cache)
    if target.exists() and not (target / "interactions.json").is_file():
        raise DataError(f"cache: {str(target)!r} exists and is not one that discreet wrote; give another folder")
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    count = 0

    def allocate(name: str, length: int, dtype: Any) -> Array:
        nonlocal count
        count += 1
        if not length:
            return np.empty(0, dtype)
        array: Array = open_memmap(folder / f"{name}-{count}.work", mode="w+", dtype=dtype, shape=(length,))
        return array

    try:
        yield allocate, folder
        storage.replace_folder(folder, target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write(ratings: Interactions, folder: Path) -> None:
    """Make the folder of working files one that `from_disk` opens."""
    for name in storage.ARRAYS:
        array = getattr(ratings, name)
        if isinstance(array, np.memmap) and array.filename is not None:
            array.flush()
            Path(array.filename).rename(folder / f"{name}.npy")
        elif array is not None:
            np.save(folder / f"{name}.npy", array)
    for file in folder.glob("*.work"):
        file.unlink()
    storage.write_rest(ratings, folder)
