"""`discreet.read`: any table of interactions, checked, numbered and compressed.

There is one path: every source becomes a stream of Arrow batches (`sources`, `texts`, `sql`). Their cells are
checked (`cleaning`), then ids are numbered and rows compressed (`assembly`).
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv
from pyarrow import json as arrow_json

from discreet.data import on_disk, sources, sql, texts
from discreet.data.assembly import Assembler, in_memory
from discreet.data.catalogue import OBSERVED, PRIVATE, Catalogue, Ids, observed_items_are_public
from discreet.data.cells import typed
from discreet.data.cleaning import Cleaner, Recipe
from discreet.data.interactions import Allocate, Interactions, check_range
from discreet.data.sources import CERTAIN, GUESS, Guess, RefusedRow, Table, Wanted, choose, found_files, guess, shown
from discreet.data.sql import SELECT
from discreet.errors import DataError
from discreet.parallel import Bar

if TYPE_CHECKING:
    from discreet.data.catalogue import ObservedItems
    from discreet.data.spark import SparkInteractions

log = logging.getLogger("discreet")

POLICIES = {
    "on_duplicate": ("last", "first", "mean", "sum", "raise"),
    "on_invalid": ("raise", "drop", "clip"),
    "on_unknown": ("raise", "drop"),
}
FEW = 5  # rows that an error names
NO_HEADER = (
    ". (JSON lines have no header to guess from: by default the keys are user, item and rating; name others with "
    "user=, item= and value=, or pass value=None if there are no ratings)"
)


@overload
def read(
    source: Any, *, user: str | Guess = ..., item: str | Guess = ..., value: str | Guess | None = ...,
    time: str | Guess | None = ..., items: Any = ..., value_range: tuple[float, float] | None = ...,
    connection: Any = ..., on_duplicate: str = ..., on_invalid: str = ..., on_unknown: str = ...,
    separator: str | None = ..., time_format: str | None = ..., cache: str | os.PathLike[str] | None = ...,
    engine: Literal["local"] = ...,
) -> Interactions: ...  # fmt: skip
@overload
def read(
    source: Any, *, user: str | Guess = ..., item: str | Guess = ..., value: str | Guess | None = ...,
    time: str | Guess | None = ..., items: Any = ..., value_range: tuple[float, float] | None = ...,
    on_duplicate: str = ..., on_invalid: str = ..., on_unknown: str = ..., separator: str | None = ...,
    time_format: str | None = ..., engine: Literal["spark"], partitions: int | None = ...,
) -> SparkInteractions: ...  # fmt: skip
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

    Nothing is guessed from rows. How a row is read depends only on that row, the header and the arguments, so one
    person's rows never change another person's record (docs/proofs/reading.md).

    Ids may have any type and come back in that type. Text files (csv, tsv, json lines) have no types, so their ids are
    text as written; if `items` are integers, "7" is the item 7. Users are numbered in sorted order of their ids, items
    in the order of `items` (or sorted, without it). The order of the rows does not matter, except to tell the first
    from the last row of a repeated pair. A user is in the result if at least one of their rows is.

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
            such a column, means implicit feedback: every row counts 1 and `value_range` is (0, 1). To count how often a
            pair occurs, pass on_duplicate="sum" with a `value_range` for the counts.
        time: The column of the time; by default one with a usual name. None: ignore times.
        items: The catalog, a public input: ids, or a data frame, file or SELECT with titles and other columns,
            or `discreet.observed_items_are_public`. Or "private": which items exist is private, and a private model
            spends part of its budget on choosing some (`discreet.select_items`). Without any of these no private model
            can be fitted.
        value_range: The lowest and highest possible value, a public input. Without it no private model can be
            fitted.
        connection: Where a SELECT runs: a SQLAlchemy URL, engine or connection (PostgreSQL, SQLite, ...), a
            DuckDB connection, or the path of a DuckDB database.
        on_duplicate: What to do if a (user, item) pair occurs more than once: "last" (the default) keeps the last row
            by time, or by position if there are no times (by value in a query, whose rows have no order); "first";
            "mean"; "sum"; "raise". A model never sees a pair twice.
        on_invalid: What to do with rows that cannot be read (a line with too many or too few cells, text that is not a
            number or time), and with values that are missing, NaN, infinite or outside `value_range`: "raise";
            "drop" leaves out such rows; "clip" moves infinite and out-of-range values to the nearest bound and
            leaves out the others. With "raise", a single row can make the reading fail, and the failure says something
            about that row; with "drop" or "clip" no row can stop it.
        on_unknown: What to do with rows about items outside `items`: "raise" or "drop".
        separator: The character between the cells of a CSV file, if it is not one of `,` `;` `|` and tab, or if the
            header has several of them.
        time_format: How times are written in text, for `strptime`, such as "%d/%m/%Y %H:%M". By default they are
            numbers or ISO 8601. Dates and times in text become seconds since 1970 in UTC.
        cache: A folder in which to build the result, for tables larger than memory. It is mapped into memory, and
            `Interactions.from_disk` opens it again.
        engine: "local", or "spark": the table (a Spark DataFrame, or a path, SELECT or table name for the session)
            stays in Spark, and models that support it are fitted there (`SparkInteractions`).
        partitions: How many partitions Spark divides the users into; by default at least one for each core.

    Raises:
        DataError: The table cannot be read. The message names the argument or row, and what to do.
    """
    policies: dict[str, Any] = {"on_duplicate": on_duplicate, "on_invalid": on_invalid, "on_unknown": on_unknown}
    for name, known in POLICIES.items():
        if policies[name] not in known:
            raise DataError(f"{name}: one of {', '.join(known)} is needed, not {policies[name]!r}")
    if time_format is not None:
        texts.check_format(time_format)
    bounds = None if value_range is None else check_range(value_range)

    def recipe_for(names: Sequence[str] | None) -> Recipe:
        columns = choose(names, user=user, item=item, value=value, time=time)
        recipe = Recipe(columns, None, bounds, **policies, time_format=time_format, names=tuple(names or ()))
        if columns.guessed:
            level = logging.INFO if set(columns.names) <= CERTAIN else logging.WARNING
            options = ", ".join(f"{name}=" for name in columns.guessed)
            log.log(level, "taking %s; to be sure, pass %s", columns.described(columns.guessed), options)
        return recipe

    if engine == "spark":
        for name, useless in (("connection", connection), ("cache", cache)):
            if useless is not None:
                raise DataError(f"{name}: with engine='spark' the table stays in Spark; leave {name} out")
        from discreet.data import spark

        there = spark.open_table(source, separator)
        return spark.read(there, recipe_for(there.names), items, partitions)
    if engine != "local" or partitions is not None:
        raise DataError("engine: 'local' or 'spark' is needed; partitions= is only for engine='spark'")
    with closing(open_table(source, connection, separator)) as table:
        recipe, declared = recipe_for(table.names), items
        if items is not None and items is not observed_items_are_public and not _is_private(items):
            where = connection if isinstance(items, str) and SELECT.match(items) else None
            declared = Catalogue.read(items, item=recipe.columns.item, connection=where)
            recipe = replace(recipe, items=declared.ids)
        if cache is None:
            return _interactions(table, recipe, declared, in_memory)
        with on_disk.new_folder(cache, "cache") as folder:
            built = _interactions(table, recipe, declared, on_disk.arrays_in(folder))
            on_disk.write(built, folder)
    return on_disk.read(cache)


def _is_private(items: Any) -> bool:
    """Whether this is how a user says that which items exist is private."""
    return isinstance(items, str) and items == PRIVATE


def open_table(source: Any, connection: Any = None, separator: str | None = None) -> Table:
    """Recognize a source."""
    paths = source if isinstance(source, list | tuple) else [source]
    are_paths = bool(paths) and all(isinstance(path, str | os.PathLike) for path in paths)
    is_select = connection is not None or (isinstance(source, str) and SELECT.match(source))
    found, kind = found_files(paths) if are_paths and not is_select else ([], "")
    if kind not in ("", "parquet"):
        return texts.text_files(found, kind, separator)
    if separator is not None:
        raise DataError("separator: only CSV files have one; leave it out")
    if found:
        return sources.from_parquet(found)
    if not is_select:
        return _from_object(source)
    if not isinstance(source, str):
        raise DataError(f"source: with connection= a SELECT statement is needed, not {type(source).__name__}")
    return sql.select(source, connection)


def _from_object(source: Any) -> Table:
    if isinstance(source, Table):  # such as the files of a data set
        return source
    library = type(source).__module__.split(".")[0].lstrip("_")  # some versions of DuckDB say _duckdb
    if library == "scipy":
        return sources.from_sparse(source)
    if library == "duckdb":
        return sql.relation(source, f"a {library} {type(source).__name__}")
    if isinstance(source, np.ndarray):
        raise DataError(
            "source: a NumPy array does not say what its rows are. For a matrix of users by items pass "
            "scipy.sparse.csr_array(array); for rows of (user, item, value) pass array.tolist()"
        )
    if isinstance(source, Iterable) and not hasattr(source, "columns") and library in ("builtins", "itertools"):
        return sources.from_rows(source)
    return sources.from_frame(source, library)


def _interactions(
    table: Table, recipe: Recipe, items: Catalogue | ObservedItems | str | None, allocate: Allocate
) -> Interactions:
    """Stream the table through the cleaner into compressed rows."""
    hint = NO_HEADER if table.names is None else ""
    cleaner, assembler = Cleaner(recipe, hint, file=table.what), Assembler(allocate, is_text=table.is_text)
    wanted = recipe.columns.wanted(lenient=recipe.on_invalid != "raise")
    # If a row is refused, the stream is closed before the connection: a thread may be fetching the next batch.
    try:
        with Bar(f"reading {table.what}", table.rows) as bar, closing(table.stream(wanted)) as batches:
            for batch in batches:
                cells = cleaner(batch)
                if len(cells[0]):
                    assembler.add(*cells)
                bar.advance(batch.num_rows)
    except RefusedRow as error:
        raise DataError(_all_refused(error, table, recipe)) from None
    rows = assembler.finish(recipe.items, recipe.on_duplicate, is_query=table.is_query)
    origin = PRIVATE if _is_private(items) else None if items is None else OBSERVED
    observed = Catalogue(rows.items, origin=origin)
    ratings = cleaner.finish(rows, items if isinstance(items, Catalogue) else observed)
    report = replace(recipe.report(cleaner.counts, table.what), kept=len(rows.indices), library=table.library)
    recipe.require(report, hint, rows)
    return replace(ratings, report=report)


def _all_refused(first: RefusedRow, table: Table, recipe: Recipe) -> str:
    """A message about a row of a file, for the file's owner: where the row stands, and how many others there are."""
    if table.places is None:
        return str(first)
    cleaner = Cleaner(replace(recipe, on_invalid="drop"))
    rows: list[int] = []
    with closing(table.stream(recipe.columns.wanted(lenient=True))) as batches:
        for batch in batches:
            before = cleaner.counts.rows
            cleaner(batch)
            rows += (before + np.flatnonzero(cleaner.bad))[: FEW - len(rows)].tolist()
    unit, said = "line" if table.is_text else "row", str(first)
    if first.row is not None:
        number, path = table.places([first.row])[0]
        said = said.replace(f"row {first.row + 1}", f"{unit} {number} of {path!r}", 1)
    if cleaner.counts.dropped < 2:
        return said
    listed: dict[str, list[str]] = {}
    for number, path in table.places(rows):
        listed.setdefault(path, []).append(f"{number:,}")
    named = "; ".join(
        f"{unit}{'s' * (len(numbers) > 1)} {', '.join(numbers)} of {path!r}" for path, numbers in listed.items()
    )
    begin = "the first are" if cleaner.counts.dropped > len(rows) else "they are"
    return f"{said}. In all, {cleaner.counts.dropped:,} rows cannot be used: {begin} {named}"


# The catalog: public, so types may be guessed from all of it


def read_items(items: Any, item: str | None, connection: Any) -> tuple[Ids, pa.Table]:
    """The ids and the other columns of a data frame, file or SELECT with one row for each item."""
    is_file = isinstance(items, os.PathLike) or (isinstance(items, str) and not SELECT.match(items))
    paths, kind = found_files([items]) if is_file and connection is None else ([], "")
    if kind in ("csv", "tsv", "json"):
        tables = [_json_table(path) if kind == "json" else _csv_table(path, kind, item) for path in paths]
        what = shown(paths)
    else:
        with closing(open_table(items, connection)) as source:
            names, what = list(source.names or ()), source.what
            wanted = Wanted(names, (_item_column(names, item),))
            tables = [pa.Table.from_batches([batch]) for batch in source.stream(wanted)]
    table = pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})
    if not table.num_rows:
        raise DataError(f"items: {what} has no rows; a catalog needs at least one item")
    name = _item_column(table.column_names, item)
    ids = table.column(name).combine_chunks()
    return Ids(typed(ids) if kind in ("csv", "tsv") else ids, "items"), table.drop_columns([name])


def _item_column(names: Sequence[str], item: str | None) -> str:
    found = item if item in names else guess("item", names) or ("id" if "id" in names else None)
    if found is None:
        raise DataError(
            f"items: none of the columns {list(names)} looks like the item; call the one with ids "
            f"{'item' if item is None else item!r}" + ("" if item else ", or name it with item=")
        )
    return found


def _json_table(path: str) -> pa.Table:
    with texts.opened(path) as file:
        try:
            return arrow_json.read_json(file)
        except pa.ArrowInvalid as error:
            raise DataError(f"items: {path!r} cannot be read ({error}). {texts.JSON_ADVICE}") from None


def _csv_table(path: str, kind: str, item: str | None) -> pa.Table:
    """A public table whose ids are text, and whose other columns have the types that Arrow finds."""
    with texts.opened(path) as file:
        reader = texts.Csv.of(path, file.readline(), texts.checked_separator(None, kind))
        ids = {_item_column(reader.names, item): pa.large_string()}
        try:
            return arrow_csv.read_csv(  # in one thread, so that errors have row numbers
                file,
                read_options=arrow_csv.ReadOptions(column_names=list(reader.names), use_threads=False),
                parse_options=arrow_csv.ParseOptions(delimiter=reader.separator, newlines_in_values=True),
                convert_options=arrow_csv.ConvertOptions(column_types=ids),
            )
        except pa.ArrowInvalid as error:
            if "Empty CSV file" in str(error):
                return pa.table({column: pa.array([], pa.large_string()) for column in reader.names})
            uneven = re.search(r"Row #(\d+): Expected \d+ columns, got \d+: (.*)", str(error), flags=re.S)
            if uneven is None:
                advice = "Check that the file is whole, in UTF-8, and that every line has as many cells as the first"
                raise DataError(f"items: {path!r} cannot be read ({error}). {advice}") from None
            fault = reader.fault(uneven[2].encode())
            raise DataError(f"items: line {int(uneven[1]) + 1} of {path!r}, {uneven[2]!r}, {fault}") from None
