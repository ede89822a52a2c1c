"""Tables of Spark, read where they are: the same checks as anywhere, by the partition that keeps a user's rows.

Rows are partitioned by a hash of the user's id, so that all of a user's are in one place, and no other. A partition
puts its rows in an order that does not depend on how they arrived, cleans them (`columns`) and compresses them
(`assembly`), as `discreet.read` does with a whole table. What it tells the driver is how many rows it has met of each
kind; who they are about stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.data.assembly import Assembler, blocks
from discreet.data.catalogue import Catalogue, ObservedItems
from discreet.data.columns import Cleaner, Columns
from discreet.data.ids import Ids, storage, to_array
from discreet.data.interactions import Interactions, Report
from discreet.data.sources import BATCH, SELECT, SUFFIXES, is_spark
from discreet.engine.shipping import Parcel
from discreet.engine.spark import SparkInteractions, settings
from discreet.errors import DataError, MissingExtra, NotPublic
from discreet.linalg.addresses import kernels, require_sound_blas
from discreet.numbers import whole

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK = 5 << 16  # interactions that are kept, and worked on, together
COUNTS = ("rows", "dropped", "clipped", "unknown", "repeated", "outside", "kept")
ROWS = ", ".join(
    [
        *(f"{name} long" for name in COUNTS),
        *(f"{name} binary" for name in ("indptr", "indices", "values")),
        "kernels string",
    ]
)


@dataclass(frozen=True)
class Policies:
    """What becomes of odd rows, as `discreet.read` has it."""

    on_duplicate: str
    on_invalid: str
    on_unknown: str


@dataclass(frozen=True)
class Counts:
    """How many rows of each kind there were. For the owner: exact numbers about private data."""

    rows: int = 0
    dropped: int = 0
    clipped: int = 0
    unknown: int = 0
    repeated: int = 0
    outside: int = 0  # sums that left the range
    kept: int = 0


@dataclass(frozen=True)
class Recipe:
    """What a partition needs to know to read its rows: all of it public."""

    columns: Columns
    items: Ids
    value_range: tuple[float, float] | None
    policies: Policies

    @property
    def implicit(self) -> bool:
        """Whether rows count 1, however often they occur."""
        return self.columns.value is None and self.policies.on_duplicate != "sum"

    def read(self, batches: Iterable[pa.RecordBatch]) -> tuple[Interactions | None, Counts]:
        """A partition's rows, compressed. What a policy refuses is left out, and counted, for the driver to refuse."""
        import pyarrow as pa

        found = [batch for batch in batches if batch.num_rows]
        if not found:
            return None, Counts()
        table, policies = pa.Table.from_batches(found), self.policies
        ties = [name for name in (self.columns.time, self.columns.value) if name is not None]
        if ties:  # of a pair's rows the first and the last are then always the same ones
            table = table.sort_by([(name, "ascending") for name in ties])
        lenient = "clip" if policies.on_invalid == "clip" else "drop"
        cleaner = Cleaner(lenient, self.value_range, self.columns.value is not None, self.columns.time is not None)
        assembler = Assembler()
        for batch in table.combine_chunks().to_batches(BATCH):
            cells = cleaner(batch)
            if len(cells[0]):
                assembler.add(*cells)
        rows = assembler.finish(
            self.items, "drop", "last" if policies.on_duplicate == "raise" else policies.on_duplicate
        )
        ratings = Interactions(rows.users, Catalogue(self.items), rows.indptr, rows.indices, rows.values)
        outside = 0
        if policies.on_duplicate == "sum" and self.value_range is not None:
            ratings, outside = _sums_in_range(ratings, self.value_range, lenient)
        counts = Counts(
            cleaner.rows, cleaner.dropped, cleaner.clipped, rows.unknown, rows.repeated, outside, len(ratings)
        )
        return ratings, counts


def _sums_in_range(ratings: Interactions, value_range: tuple[float, float], policy: str) -> tuple[Interactions, int]:
    low, high = (np.float32(end) for end in value_range)
    outside = (ratings.values < value_range[0]) | (ratings.values > value_range[1])
    if policy == "drop":
        return ratings.where(~outside), int(outside.sum())
    clipped = np.clip(ratings.values, low, high)
    return Interactions(ratings.users, ratings.catalogue, ratings.indptr, ratings.indices, clipped), int(outside.sum())


def chunks(ratings: Interactions | None, counts: Counts) -> Iterator[pa.RecordBatch]:
    """A partition's rows as it keeps them; what was counted is in the first of them, of which there is always one."""
    import pyarrow as pa

    def batch(told: Counts, indptr: Any, indices: Any, values: Any) -> pa.RecordBatch:
        numbers = {name: pa.array([getattr(told, name)], pa.int64()) for name in COUNTS}
        arrays = {"indptr": indptr, "indices": indices, "values": values}
        columns = {**numbers, **{name: [a.tobytes()] for name, a in arrays.items()}, "kernels": [kernels()]}
        return pa.RecordBatch.from_pydict(columns)

    if ratings is None or not ratings.n_users:
        yield batch(counts, np.zeros(1, np.int64), np.zeros(0, np.uint8), np.zeros(0, np.float32))
        return
    for first, last in blocks(ratings.indptr, CHUNK):
        begin, end = int(ratings.indptr[first]), int(ratings.indptr[last])
        own = ratings.indptr[first : last + 1] - begin
        yield batch(counts if first == 0 else Counts(), own, ratings.indices[begin:end], ratings.values[begin:end])


# -- on the driver


def frame_of(source: Any) -> Any:
    """A Spark table from what was given: one already, a SELECT, a path, or the name of a table of the session."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingExtra("engine='spark'", "spark") from None
    if is_spark(source):
        if ".connect." in type(source).__module__:
            raise DataError(
                "source: this is a table of Spark Connect, which cannot broadcast; use a session in this process"
            )
        return source
    if not isinstance(source, str):
        raise DataError(
            "source: with engine='spark' a Spark DataFrame, the name of a table, a path or a SELECT is needed, not "
            f"{type(source).__name__}"
        )
    session = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    if SELECT.match(source):
        return session.sql(source)
    suffix = next((suffix for suffix in SUFFIXES if source.lower().endswith(suffix)), None)
    kind = None if suffix is None else SUFFIXES[suffix]
    if kind == "parquet":
        return session.read.parquet(source)
    if kind == "json":
        return session.read.json(source)
    if kind is not None:
        return session.read.csv(source, header=True, inferSchema=True, sep="\t" if kind == "tsv" else ",")
    return session.table(source)


@dataclass(frozen=True)
class Reading:
    """A Spark table that is to be read where it is.

    Attributes:
        frame: The table.
        columns: Which column is what.
        value_range: As it was declared.
        policies: What becomes of odd rows.
    """

    frame: Any
    columns: Columns
    value_range: tuple[float, float] | None
    policies: Policies

    def read(self, items: Any, partitions: int | None) -> SparkInteractions:
        """Have the partitions read it: one job, after which they keep it."""
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_type

        columns, policies = self.columns, self.policies
        _require_types(self.frame, columns)
        if self.value_range is None and (columns.value is not None or policies.on_duplicate == "sum"):
            raise NotPublic(
                "value_range: the lowest and highest possible value have not been declared, and must not be read off "
                "private data; pass value_range=(lowest, highest)"
            )
        chosen = self.frame.select([self.frame[f"`{name}`"].alias(name) for name in columns.wanted.names])
        catalogue = _catalogue(chosen, columns, items)
        kind = to_arrow_type(chosen.schema[columns.item].dataType)
        catalogue.ids.numbers(pa.nulls(1, kind), "items")  # raises if such ids cannot be among these
        recipe = Recipe(columns, catalogue.ids, self.value_range, policies)
        rows = self._kept(chosen, recipe, partitions)
        with settings(rows.sparkSession, {"spark.sql.adaptive.enabled": "false"}):
            counts, n_partitions = _counted(rows)
        try:
            _require(counts, recipe)
        except BaseException:
            rows.unpersist()
            raise
        report = Report(
            "a Spark table", str(columns), columns.guessed, counts.rows, counts.dropped, counts.clipped, counts.unknown,
            counts.repeated,
        )  # fmt: skip
        bounds = (0.0, 1.0) if recipe.implicit else self.value_range
        return SparkInteractions(rows, n_partitions, catalogue, bounds, recipe.implicit, report)

    def _kept(self, chosen: Any, recipe: Recipe, partitions: int | None) -> Any:
        """The partitions, with what they will keep; not yet computed."""
        context = chosen.sparkSession.sparkContext
        if partitions is None:
            partitions = max(context.defaultParallelism, chosen.rdd.getNumPartitions())
        parcel = Parcel.of(recipe, context)  # which is needed whenever a lost partition is computed again

        def compress(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            require_sound_blas()
            return chunks(*parcel.open().read(batches))

        by_user = chosen.repartition(whole("partitions", partitions, 1), chosen[f"`{self.columns.user}`"])
        return by_user.mapInArrow(compress, ROWS).persist()


def _require_types(frame: Any, columns: Columns) -> None:
    """Raise if a column cannot be what it should be, by its type: no cell is looked at."""
    kinds = dict(frame.dtypes)
    numbers = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "boolean")
    dates = ("date", "timestamp", "timestamp_ntz")
    for role, name in (("value", columns.value), ("time", columns.time)):
        allowed = numbers if role == "value" else (*numbers[:-1], *dates)
        if name is not None and kinds[name].split("(")[0] not in allowed:
            raise DataError(
                f"{role}: numbers{' or times' * (role == 'time')} are needed, but the column {name!r} holds "
                f"{kinds[name]}; cast it, or name another column with {role}="
            )
    for role, name in (("user", columns.user), ("item", columns.item)):
        if kinds[name].startswith(("array", "struct", "map", "void", "variant")):
            raise DataError(f"{role}: an id must be a single value, not {kinds[name]}")


def _catalogue(frame: Any, columns: Columns, items: Any) -> Catalogue:
    """The declared items; or those observed, if the owner says that they are public."""
    if items is None:
        Catalogue([], origin=None).require_public()  # which raises
    if not isinstance(items, ObservedItems):
        return Catalogue.read(items, item=columns.item)
    import pyarrow.compute as pc

    name = columns.item
    found = frame.select(frame[f"`{name}`"]).distinct().toArrow()[name].drop_null()
    ids = to_array(found, "item")
    ordered = ids.take(pc.array_sort_indices(storage(ids)))
    return Catalogue(Ids(ordered), origin="those observed in the data, which the owner declares to be public")


def _counted(rows: Any) -> tuple[Counts, int]:
    """What all partitions have counted, and how many there are. Computes what they keep."""
    from pyspark.sql import functions

    sums = [functions.sum(name).alias(name) for name in COUNTS]
    (found,) = (
        rows.select(*COUNTS, functions.spark_partition_id().alias("partition"))
        .agg(*sums, functions.count_distinct("partition").alias("partitions"))
        .collect()
    )
    return Counts(**{one.name: found[one.name] or 0 for one in fields(Counts)}), found["partitions"]


def _require(counts: Counts, recipe: Recipe) -> None:
    """Raise what the policies refuse. Spark has no order of rows, so they are counted, not named."""
    policies, (low, high) = recipe.policies, recipe.value_range or (0.0, 1.0)
    if not counts.rows:
        raise DataError("source: a Spark table has no rows; check the path, the filter or the WHERE clause")
    if policies.on_invalid == "raise" and counts.dropped:
        raise DataError(
            f"value: {counts.dropped} rows have no user, item, value or time, or a value that is not finite or outside "
            f"value_range=({low:g}, {high:g}). Correct them, or pass on_invalid='drop' to leave such rows out or "
            "'clip' to move them into value_range"
        )
    if policies.on_unknown == "raise" and counts.unknown:
        raise DataError(
            f"items: {counts.unknown} rows are about items outside the catalogue. Add these items to items=, or pass "
            "on_unknown='drop' to leave such rows out"
        )
    if policies.on_duplicate == "raise" and counts.repeated:
        raise DataError(
            f"on_duplicate: {counts.repeated} rows repeat a user and an item; pass on_duplicate='last', 'first', "
            "'mean' or 'sum', or remove the repeats"
        )
    if policies.on_invalid == "raise" and counts.outside:
        raise DataError(
            f"on_duplicate='sum': {counts.outside} sums lie outside value_range=({low:g}, {high:g}); declare a range "
            "for the sums, or pass on_invalid='clip' or 'drop'"
        )
    if not counts.kept:
        raise DataError(
            f"source: none of the {counts.rows} rows is left ({counts.dropped} dropped as invalid, {counts.unknown} "
            f"about unknown items); check value_range=, items= and the columns: {recipe.columns}"
        )
