"""Tables of Spark, read where they are: the same checks as anywhere, by the partition that keeps a user's rows.

Files of text are read as lines, which are divided and parsed by the code that reads them on one machine (`texts`,
`columns`): Spark guesses no types, and makes no columns of the names of folders. Rows are partitioned by a hash of the
user's id, so that all of a user's are in one place, and no other. A partition puts its rows in an order that does not
depend on how they arrived, cleans them (`columns`) and compresses them (`assembly`), as `discreet.read` does with a
whole table. What it tells the driver is how many rows it has met of each kind; who they are about stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa

from discreet.data.assembly import Assembler, blocks
from discreet.data.broadcast import Broadcast
from discreet.data.catalogue import OBSERVED, Catalogue, ObservedItems
from discreet.data.columns import Columns, Wanted
from discreet.data.ids import Ids, sorted_order
from discreet.data.interactions import Interactions
from discreet.data.recipe import Counts, Recipe
from discreet.data.sources import SELECT, format_of, is_spark
from discreet.data.spark_interactions import SparkInteractions, settings
from discreet.data.statements import reads_text_files, require_select
from discreet.data.tables import BATCH, require_names, sliced
from discreet.data.texts import MARK, Csv, Json, as_missing, checked_separator
from discreet.errors import DataError, MissingExtra, NotPublic
from discreet.privacy.determinism import kernels, require_sound_arithmetic
from discreet.validation import whole

CHUNK = 5 << 16  # interactions that are kept, and worked on, together
COUNTS = tuple(field.name for field in fields(Counts))
ARRAYS = ("indptr", "indices", "values")
ROWS = ", ".join([*(f"{name} long" for name in COUNTS), *(f"{name} binary" for name in ARRAYS), "kernels string"])


def read_partition(recipe: Recipe, batches: Iterable[pa.RecordBatch]) -> tuple[Interactions | None, Counts]:
    """A partition's rows, compressed. What a policy refuses is left out, and counted, for the driver to refuse."""
    policies = recipe.policies
    if policies.on_invalid == "raise":
        recipe = replace(recipe, policies=replace(policies, on_invalid="drop"))
    cleaner = recipe.cleaner()
    found = [cleaner(part) for part in sliced(batches)]
    if not found:
        return None, Counts()
    users, items, values, times = zip(*found, strict=True)
    known = [pa.concat_arrays(ids) for ids in (users, items)]
    numbers = [None if cells[0] is None else np.concatenate(cells) for cells in (values, times)]
    # Of a pair's rows the first and the last are then always the same ones, in whatever order they have arrived.
    keys = [column for column in numbers if column is not None]
    order = np.lexsort(keys) if keys else np.arange(len(known[0]))
    assembler = Assembler()
    for start in range(0, len(order), BATCH):
        some = order[start : start + BATCH]
        assembler.add(
            *(ids.take(pa.array(some)) for ids in known),
            *(None if column is None else column[some] for column in numbers),
        )
    rows = assembler.finish(recipe.items, "last" if policies.on_duplicate == "raise" else policies.on_duplicate)
    ratings = Interactions(rows.users, Catalogue(rows.items), rows.indptr, rows.indices, rows.values)
    ratings, outside = recipe.sums_in_range(ratings)
    counts = Counts(cleaner.rows, cleaner.dropped, cleaner.clipped, rows.unknown, rows.repeated, outside, len(ratings))
    return ratings, counts


def chunks(ratings: Interactions | None, counts: Counts) -> Iterator[pa.RecordBatch]:
    """A partition's rows as it keeps them; what was counted is in the first of them, of which there is always one."""

    def batch(told: Counts, indptr: Any, indices: Any, values: Any) -> pa.RecordBatch:
        numbers = {name: pa.array([getattr(told, name)], pa.int64()) for name in COUNTS}
        arrays = {name: [one.tobytes()] for name, one in zip(ARRAYS, (indptr, indices, values), strict=True)}
        return pa.RecordBatch.from_pydict({**numbers, **arrays, "kernels": [kernels()]})

    if ratings is None or not ratings.n_users:
        yield batch(counts, np.zeros(1, np.int64), np.zeros(0, np.uint8), np.zeros(0, np.float32))
        return
    for first, last in blocks(ratings.indptr, CHUNK):
        begin, end = int(ratings.indptr[first]), int(ratings.indptr[last])
        own = ratings.indptr[first : last + 1] - begin
        yield batch(counts if first == 0 else Counts(), own, ratings.indices[begin:end], ratings.values[begin:end])


# -- on the driver


@dataclass(frozen=True)
class SparkTable:
    """A table that Spark has found and not read.

    Attributes:
        frame: Of its columns; of lines, if it is text.
        names: Of its columns; None: JSON lines, which have no header.
        text: How lines are divided, if it is text.
    """

    frame: Any
    names: Sequence[str] | None
    text: Csv | Json | None = None

    def select(self, columns: Columns) -> Any:
        """Some columns, those of text as they are written. A line that cannot be read is a row of nulls."""
        names = columns.names
        if self.text is None:
            case_sensitive = self.frame.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
            for name in names if not case_sensitive else ():
                if sum(other.lower() == name.lower() for other in self.frame.columns) > 1:
                    raise DataError(f"source: more than one column is called {name!r}; rename or remove the others")
            return self.frame.select([self.frame[f"`{name}`"].alias(name) for name in names])
        from pyspark.sql.types import StringType, StructField, StructType

        text, wanted = self.text, columns.wanted(lenient=True)

        def divide(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return (divided(batch, text, wanted) for batch in batches if batch.num_rows)

        return self.frame.mapInArrow(divide, StructType([StructField(name, StringType()) for name in names]))


def divided(lines: pa.RecordBatch, text: Csv | Json, wanted: Wanted) -> pa.RecordBatch:
    """The columns of lines."""
    some = [line.removesuffix(b"\r") for line in lines.column(0).cast(pa.binary()).to_pylist()]
    batch, _ = text.rows(b"\n".join([*some, b""]), wanted.names)
    batch = as_missing(batch, wanted)
    return pa.RecordBatch.from_arrays([column.cast(pa.string()) for column in batch.columns], names=wanted.names)


def open_table(source: Any, separator: str | None) -> SparkTable:
    """A Spark table from what was given: one already, a SELECT, a path, or the name of a table of the session."""
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingExtra("engine='spark'", "spark") from None
    if not is_spark(source) and not isinstance(source, str):
        raise DataError(
            "source: with engine='spark' a Spark DataFrame, the name of a table, a path or a SELECT is needed, not "
            f"{type(source).__name__}"
        )
    if is_spark(source) and ".connect." in type(source).__module__:
        raise DataError(
            "source: this is a table of Spark Connect, which cannot broadcast; use a session in this process"
        )
    session = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    kind = None if is_spark(source) or SELECT.match(source) else format_of(source)
    if separator is not None and kind not in ("csv", "tsv"):
        raise DataError("separator: it is that of a CSV file; leave it out")
    try:
        if kind in ("csv", "tsv", "json"):
            return _text(session, source, kind, separator)
        frame = source if is_spark(source) else _frame(session, source, kind)
        require_names(frame.columns)
    except PySparkException as error:
        raise DataError(f"source: Spark cannot read it: {str(error).strip().splitlines()[0]}. Correct it") from None
    return SparkTable(frame, frame.columns)


def _frame(session: Any, source: str, kind: str | None) -> Any:
    if SELECT.match(source):
        require_select(source, "spark")
        if reads_text_files(source):
            raise DataError(
                "source: the SELECT reads a text file, whose types Spark would guess from people's rows; give the path "
                "itself to discreet.read"
            )
        return session.sql(source)
    return _reader(session, source).parquet(source) if kind == "parquet" else session.table(source)


def _reader(session: Any, path: str) -> Any:
    """A reader of files by their literal name where there is one, with no columns from the names of folders."""
    place = session._jvm.org.apache.hadoop.fs.Path(path)
    is_there = place.getFileSystem(session._jsc.hadoopConfiguration()).exists(place)
    reader = session.read.option("recursiveFileLookup", "true").option("parquet.page.verify-checksum.enabled", "true")
    return reader.option("__globPaths__", "false") if is_there else reader


def _text(session: Any, path: str, kind: str, separator: str | None) -> SparkTable:
    """Lines, and how they are divided: by the first line, which all files must have in common."""
    lines = _reader(session, path).option("lineSep", "\n").text(path)
    if kind == "json":
        return SparkTable(lines, None, Json())
    files = sorted(lines.inputFiles())
    if not files:
        raise DataError(f"source: no file matches {path!r}")
    first, *others = [(file, _first_line(session, file)) for file in files]
    for file, line in others:
        if line != first[1]:
            raise DataError(f"source: {file!r} does not have the columns of {first[0]!r}, in the same order")
    text = Csv.of(first[0], first[1], checked_separator(separator, kind))
    return SparkTable(lines, text.names, text)


def _first_line(session: Any, file: str) -> bytes:
    jvm, settings_ = session._jvm, session._jsc.hadoopConfiguration()
    place = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(file))
    stream = place.getFileSystem(settings_).open(place)
    codec = jvm.org.apache.hadoop.io.compress.CompressionCodecFactory(settings_).getCodec(place)
    stream = stream if codec is None else codec.createInputStream(stream)
    reader = jvm.java.io.BufferedReader(jvm.java.io.InputStreamReader(stream, "UTF-8"))
    try:
        return str(reader.readLine() or "").encode().removeprefix(MARK)
    finally:
        reader.close()


def read(table: SparkTable, recipe: Recipe, items: Any, partitions: int | None) -> SparkInteractions:
    """Have the partitions read a table where it is: one job, after which they keep it."""
    from pyspark.sql.pandas.types import to_arrow_type

    columns = recipe.columns
    if recipe.bounds is None:
        raise NotPublic(
            "value_range: the lowest and highest possible value have not been declared, and must not be read off "
            "private data; pass value_range=(lowest, highest)"
        )
    chosen = table.select(columns)
    if table.text is None:
        _require_types(chosen, columns)
    catalogue = _catalogue(chosen, columns, items, written=table.text is not None)
    kind = to_arrow_type(chosen.schema[columns.item].dataType)
    catalogue.ids.numbers(pa.nulls(1, kind), "items")  # raises if such ids cannot be among these
    rows = _kept(chosen, replace(recipe, items=catalogue.ids), partitions)
    try:
        with settings(rows.sparkSession, {"spark.sql.adaptive.enabled": "false"}):
            counts, n_partitions = _counted(rows)
        recipe.require(counts, "a Spark table")  # Spark has no order of rows, so they are counted, not named
    except BaseException:
        rows.unpersist()
        raise
    report = counts.report("a Spark table", columns)
    return SparkInteractions(rows, n_partitions, catalogue, recipe.bounds, recipe.implicit, report)


def _kept(chosen: Any, recipe: Recipe, partitions: int | None) -> Any:
    """The partitions, with what they will keep; not yet computed."""
    context = chosen.sparkSession.sparkContext
    if partitions is None:
        partitions = max(context.defaultParallelism, chosen.rdd.getNumPartitions())
    broadcast = Broadcast.of(recipe, context)  # which is needed whenever a lost partition is computed again

    def compress(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        require_sound_arithmetic()
        return chunks(*read_partition(broadcast.open(), batches))

    by_user = chosen.repartition(whole("partitions", partitions, 1), chosen[f"`{recipe.columns.user}`"])
    return by_user.mapInArrow(compress, ROWS).persist()


def _require_types(frame: Any, columns: Columns) -> None:
    """Raise if a column cannot be what it should be, by its type: no cell is looked at."""
    kinds = dict(frame.dtypes)
    numbers = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
    for role, name in (("value", columns.value), ("time", columns.time)):
        allowed = (*numbers, "boolean") if role == "value" else (*numbers, "date", "timestamp", "timestamp_ntz")
        if name is not None and kinds[name].split("(")[0] not in allowed:
            raise DataError(
                f"{role}: numbers{' or times' * (role == 'time')} are needed, but the column {name!r} holds "
                f"{kinds[name]}; cast it, or name another column with {role}="
            )
    for role, name in (("user", columns.user), ("item", columns.item)):
        if kinds[name].startswith(("array", "struct", "map", "void", "variant")):
            raise DataError(f"{role}: an id must be a single value, not {kinds[name]}")


def _catalogue(frame: Any, columns: Columns, items: Any, written: bool) -> Catalogue:
    """The declared items; or those observed, if the owner says that they are public."""
    if items is None:
        Catalogue([], origin=None).require_public()  # which raises
    if not isinstance(items, ObservedItems):
        return Catalogue.read(items, item=columns.item)
    name = columns.item
    found = frame.select(frame[f"`{name}`"]).distinct().toArrow()[name].drop_null()
    ids = Ids(found, "item")
    ordered = ids.some(sorted_order(ids.to_arrow(), written=written))
    return Catalogue(ordered, origin=OBSERVED)


def _counted(rows: Any) -> tuple[Counts, int]:
    """What all partitions have counted, and how many there are. Computes what they keep."""
    from pyspark.sql import functions

    sums = [functions.sum(name).alias(name) for name in COUNTS]
    (found,) = (
        rows.select(*COUNTS, functions.spark_partition_id().alias("partition"))
        .agg(*sums, functions.count_distinct("partition").alias("partitions"))
        .collect()
    )
    return Counts(**{name: found[name] or 0 for name in COUNTS}), found["partitions"]
