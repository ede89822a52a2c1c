"""`discreet.read`: any table of who liked what, checked, numbered and compressed.

There is one path. Every source becomes a stream of Arrow batches (`sources`), whose cells are checked
(`columns`), whose ids are numbered and whose rows are compressed (`assembly`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, overload

from discreet.data import sources, storage
from discreet.data.assembly import Allocate, Assembler, in_memory
from discreet.data.catalogue import Catalogue, ObservedItems, observed_items_are_public
from discreet.data.columns import GUESS, NO_HEADER, Guess, check_range, choose
from discreet.data.interactions import Interactions
from discreet.data.progress import Bar
from discreet.data.recipe import Counts, Policies, Recipe
from discreet.data.tables import Table
from discreet.errors import DataError

if TYPE_CHECKING:
    from discreet.data.spark_interactions import SparkInteractions

log = logging.getLogger("discreet")


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

    Nothing is guessed from rows: how a row is read depends on that row, on the header and on the arguments, so that
    what one person writes changes no other person's record (docs/proofs/reading.md).

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
            leaves out the others. With "raise", whether the reading succeeds depends on single rows, and
            a failure says something about one; with "drop" or "clip" nothing in a row can stop it.
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
    policies = Policies(on_duplicate, on_invalid, on_unknown, time_format)
    bounds = None if value_range is None else check_range(value_range)
    roles = {"user": user, "item": item, "value": value, "time": time}
    if engine == "spark":
        for name, useless in (("connection", connection), ("cache", cache)):
            if useless is not None:
                raise DataError(f"{name}: with engine='spark' the table stays in Spark; leave {name} out")
        from discreet.data import spark

        there = spark.open_table(source, separator)
        return spark.read(there, _recipe(there.names, roles, bounds, policies), items, partitions)
    if engine != "local" or partitions is not None:
        raise DataError("engine: 'local' or 'spark' is needed; partitions= are those of Spark, with engine='spark'")
    table = sources.open_table(source, connection, separator)
    try:
        recipe, catalogue = _recipe(table.names, roles, bounds, policies), None
        if items is not None and not isinstance(items, ObservedItems):
            where = connection if isinstance(items, str) and sources.SELECT.match(items) else None
            catalogue = Catalogue.read(items, item=recipe.columns.item, connection=where)
            recipe = replace(recipe, items=catalogue.ids)

        def interactions(allocate: Allocate) -> Interactions:
            ratings = _interactions(table, recipe, catalogue, allocate)
            return ratings.with_public(items=items) if items is observed_items_are_public else ratings

        if cache is None:
            return interactions(in_memory)
        with storage.new_folder(cache, "cache") as folder:
            storage.write(interactions(storage.arrays_in(folder)), folder)
        return storage.load(cache)
    finally:
        table.close()


def _recipe(
    names: Sequence[str] | None, roles: dict[str, Any], bounds: tuple[float, float] | None, policies: Policies
) -> Recipe:
    """Settle which column is what, and say which were guessed."""
    columns = choose(names, **roles)
    recipe = Recipe(columns, None, bounds, policies)
    if columns.guessed:
        level = logging.INFO if columns.plainly_named else logging.WARNING
        log.log(level, "discreet.read: taking %s; name the columns to be sure", columns.said(columns.guessed))
    return recipe


def _interactions(table: Table, recipe: Recipe, catalogue: Catalogue | None, allocate: Allocate) -> Interactions:
    """Stream the table through the cleaner into compressed rows."""
    policies, hint = recipe.policies, NO_HEADER if table.names is None else ""
    cleaner, assembler = recipe.cleaner(hint), Assembler(allocate, is_text=table.is_text)
    wanted = recipe.columns.wanted(lenient=policies.on_invalid != "raise")
    # Closed before the connection is, if a row is refused: the next batch may be on its way in a thread.
    with Bar(f"reading {table.what}", table.rows) as bar, closing(table.stream(wanted)) as batches:
        for batch in batches:
            cells = cleaner(batch)
            if len(cells[0]):
                assembler.add(*cells)
            bar.advance(batch.num_rows)
    rows = assembler.finish(recipe.items, policies.on_duplicate, is_query=table.is_query)
    ratings = Interactions(
        users=rows.users,
        catalogue=Catalogue(rows.items, origin=None) if catalogue is None else catalogue,
        indptr=rows.indptr,
        indices=rows.indices,
        values=rows.values,
        times=rows.times,
        value_range=recipe.bounds,
        implicit=recipe.implicit,
        time_type=cleaner.time_type,
    )
    ratings, outside = recipe.sums_in_range(ratings)
    counts = Counts(
        cleaner.rows, cleaner.dropped, cleaner.clipped, rows.unknown, rows.repeated, outside, len(rows.indices)
    )
    recipe.require(counts, table.what, hint, f", for instance {rows.example!r}")
    return replace(ratings, report=counts.report(table.what, recipe.columns, table.library))
