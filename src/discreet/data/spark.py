"""Tables that stay in Spark: the same checks as anywhere, made by the partition that holds a user's rows.

Text files are read as lines, which are split and parsed by the code that reads them on one machine (`texts`,
`cleaning`): Spark guesses no types, and makes no columns of folder names. Rows are partitioned by a hash of the user's
id, so that all rows of a user are in one partition. A partition cleans its rows (`cleaning`) and compresses them
(`assembly`) as `discreet.read` does with a whole table, in whatever order they arrive. It tells the driver how many
rows of each kind it has met, and nothing about whose they are.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from discreet.data.assembly import Assembler, blocks
from discreet.data.catalogue import OBSERVED, PRIVATE, Catalogue, Ids, ObservedItems, sorted_order
from discreet.data.cleaning import Cleaner, Recipe
from discreet.data.interactions import COUNTS, Declared, Interactions, Report, is_spark
from discreet.data.sources import Columns, Wanted, format_of, require_names, sliced
from discreet.data.sql import SELECT, reads_text_files, require_select
from discreet.data.texts import MARK, Csv, Json, as_missing, checked_separator
from discreet.errors import DataError, MissingExtra, NotPublic, PrivacyError
from discreet.privacy.determinism import machine_kernels, require_sound_arithmetic
from discreet.validation import whole

INLINE = 1 << 16  # bytes that are sent along with each task, without a broadcast
CHUNK = 5 << 16  # interactions that are kept, and worked on, together
ARRAYS = ("indptr", "indices", "values")
ROWS = ", ".join([*(f"{name} long" for name in COUNTS), *(f"{name} binary" for name in ARRAYS), "kernels string"])

_here: dict[str, Any] = {}  # what this worker unpacked last


@contextmanager
def settings(session: Any, wanted: dict[str, str]) -> Iterator[None]:
    """Change settings of a session temporarily."""
    before = {name: session.conf.get(name) for name in wanted}
    try:
        for name, value in wanted.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            session.conf.set(name, value)


@dataclass(frozen=True, eq=False, repr=False)
class SparkInteractions(Declared):
    """A table of users, items and values that stays in Spark: checked, numbered and compressed there.

    Made by `discreet.read(..., engine="spark")`. Users are partitioned by their ids; a partition keeps its users' rows
    as `Interactions` does, 6 to 8 bytes each, cached in memory and on disk. The driver knows what is public about them,
    and `report`, which is for the owner. `DPALS`, `DPALS.as_published` and `DPFrankWolfe` can be fitted to it.

    Attributes:
        rows: The cached partitions.
        n_partitions: How many there are.
        catalogue: The items, and what is publicly known about them.
        value_range: The public range of values.
        implicit: Whether every interaction counts 1, because there are no values.
        report: What happened when the table was read.
        kernels: The kernels that its users' numbers were computed with so far; a second kind is refused.
    """

    rows: Any
    n_partitions: int
    catalogue: Catalogue
    value_range: tuple[float, float] | None = None
    implicit: bool = False
    report: Report = field(default_factory=Report)
    kernels: set[str] = field(default_factory=set)

    def __repr__(self) -> str:
        return f"SparkInteractions({self.n_items:,} items, users in {self.n_partitions} partitions)"

    def unpersist(self) -> None:
        """Remove the rows that Spark has cached in memory and on disk."""
        self.rows.unpersist()

    def require_equal_kernels(self, used: set[str]) -> None:
        """Raise unless everything computed from this table, on whichever machine, used the same kernels."""
        self.kernels.update(used)
        if len(self.kernels) > 1:
            raise PrivacyError(
                "ratings: the machines of this cluster round differently, so one person's numbers would depend on "
                "where Spark computes them, and the declared sensitivity would not hold. Nothing that was computed in "
                "this way was released; what was released before it stays spent. Use machines of one kind with the "
                "same packages, or the same kernels on all of them (for instance "
                "spark.executorEnv.OPENBLAS_CORETYPE=Haswell). The kernels are: " + "; or ".join(sorted(self.kernels))
            )


@dataclass(frozen=True)
class Broadcast:
    """A function or public arrays, on the way from the driver to the partitions, which call `open`.

    Spark's own pickler takes functions. Arrays are kept out of the pickle, so that a worker does not copy them.
    """

    name: str  # never used again
    content: Any  # the pickle and the arrays, or Spark's broadcast of both

    @classmethod
    def of(cls, thing: Any, context: Any) -> Broadcast:
        """Pack something for the workers of a Spark context."""
        from pyspark import cloudpickle

        pickler: Any = cloudpickle
        buffers: list[pickle.PickleBuffer] = []
        head = pickler.dumps(thing, protocol=5, buffer_callback=buffers.append)
        content = head, [buffer.raw().tobytes() for buffer in buffers]
        small = len(head) + sum(map(len, content[1])) <= INLINE
        return cls(uuid.uuid4().hex, content if small else context.broadcast(content))

    def open(self) -> Any:
        """The object, unpacked once in each worker."""
        if self.name not in _here:
            head, arrays = self.content if isinstance(self.content, tuple) else self.content.value
            _here.clear()
            _here[self.name] = pickle.loads(head, buffers=arrays)
        return _here[self.name]

    def discard(self) -> None:
        """Remove it from all workers."""
        if not isinstance(self.content, tuple):
            self.content.destroy()


# In a partition


def read_partition(recipe: Recipe, batches: Iterable[pa.RecordBatch]) -> tuple[Interactions, Report]:
    """A partition's rows, compressed. Rows that a policy refuses are left out and counted, for the driver to refuse."""
    if recipe.on_invalid == "raise":
        recipe = replace(recipe, on_invalid="drop")
    cleaner, assembler = Cleaner(recipe), Assembler()
    for batch in sliced(batches):
        cells = cleaner(batch)
        if len(cells[0]):
            assembler.add(*cells)
    # As in a query, the first and the last row of a pair do not depend on the order of arrival.
    rows = assembler.finish(recipe.items, recipe.on_duplicate, is_query=True)
    ratings = cleaner.finish(rows, Catalogue(rows.items))
    return ratings, replace(cleaner.counts, kept=len(ratings))


def chunks(ratings: Interactions, counts: Report) -> Iterator[pa.RecordBatch]:
    """A partition's rows as it keeps them. There is at least one chunk; the first one has the counts."""

    def batch(told: Report, indptr: Any, indices: Any, values: Any) -> pa.RecordBatch:
        numbers = {name: pa.array([getattr(told, name)], pa.int64()) for name in COUNTS}
        arrays = {name: [one.tobytes()] for name, one in zip(ARRAYS, (indptr, indices, values), strict=True)}
        return pa.RecordBatch.from_pydict({**numbers, **arrays, "kernels": [machine_kernels()]})

    if not ratings.n_users:
        yield batch(counts, np.zeros(1, np.int64), np.zeros(0, np.uint8), np.zeros(0, np.float32))
        return
    for first, last in blocks(ratings.indptr, CHUNK):
        begin, end = int(ratings.indptr[first]), int(ratings.indptr[last])
        own = ratings.indptr[first : last + 1] - begin
        yield batch(counts if first == 0 else Report(), own, ratings.indices[begin:end], ratings.values[begin:end])


# On the driver


@dataclass(frozen=True)
class SparkTable:
    """A table that Spark has found and not read."""

    frame: Any  # its columns; its lines, if it is text
    names: Sequence[str] | None  # None: JSON lines, which have no header
    text: Csv | Json | None = None  # how lines are split, if it is text

    def select(self, columns: Columns) -> Any:
        """Some columns; of text, as they are written. A line that cannot be read is a row of nulls."""
        names = columns.names
        if self.text is None:
            case_sensitive = self.frame.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
            for name in names if not case_sensitive else ():
                if sum(other.lower() == name.lower() for other in self.frame.columns) > 1:
                    raise DataError(f"source: more than one column is called {name!r}; rename or remove the others")
            return self.frame.select([self.frame[f"`{name}`"].alias(name) for name in names])
        from pyspark.sql.types import StringType, StructField, StructType

        text, wanted = self.text, columns.wanted(lenient=True)

        def split(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return (divided(batch, text, wanted) for batch in batches if batch.num_rows)

        return self.frame.mapInArrow(split, StructType([StructField(name, StringType()) for name in names]))


def divided(lines: pa.RecordBatch, text: Csv | Json, wanted: Wanted) -> pa.RecordBatch:
    """The columns of lines."""
    some = [line.removesuffix(b"\r") for line in lines.column(0).cast(pa.binary()).to_pylist()]
    batch, _ = text.rows(b"\n".join([*some, b""]), wanted.names)
    batch = as_missing(batch, wanted)
    return pa.RecordBatch.from_arrays([column.cast(pa.string()) for column in batch.columns], names=wanted.names)


def open_table(source: Any, separator: str | None) -> SparkTable:
    """A Spark table from a DataFrame, a SELECT, a path, or the name of a table of the session."""
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
        raise DataError("separator: only CSV files have one; leave it out")
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
        if reads_text_files(require_select(source, "spark")):
            raise DataError(
                "source: the SELECT reads a text file, whose types Spark would guess from people's rows; give the path "
                "itself to discreet.read"
            )
        return session.sql(source)
    return _reader(session, source).parquet(source) if kind == "parquet" else session.table(source)


def _reader(session: Any, path: str) -> Any:
    """A reader that takes a path literally if it exists, and makes no columns of folder names."""
    place = session._jvm.org.apache.hadoop.fs.Path(path)
    is_there = place.getFileSystem(session._jsc.hadoopConfiguration()).exists(place)
    reader = session.read.option("recursiveFileLookup", "true").option("parquet.page.verify-checksum.enabled", "true")
    return reader.option("__globPaths__", "false") if is_there else reader


def _text(session: Any, path: str, kind: str, separator: str | None) -> SparkTable:
    """Lines, and how they are split: by the header, which all files must have in common."""
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
    """Have the partitions read a table where it is, in one job, and keep it."""
    from pyspark.sql.pandas.types import to_arrow_type

    columns = recipe.columns
    if recipe.bounds is None:
        raise NotPublic(
            "value_range: the lowest and highest possible value have not been declared, and must not be read off "
            "private data; pass value_range=(lowest, highest)"
        )
    chosen = table.select(columns)
    kinds = {field.name: to_arrow_type(field.dataType) for field in chosen.schema}
    Cleaner(recipe)(pa.RecordBatch.from_pydict({name: pa.nulls(0, kind) for name, kind in kinds.items()}))  # by type
    catalogue = _catalogue(chosen, columns, items, written=table.text is not None)
    catalogue.ids.numbers(pa.nulls(1, kinds[columns.item]), "items")  # raises if such ids cannot be among these
    rows = _kept(chosen, replace(recipe, items=catalogue.ids), partitions)
    try:
        with settings(rows.sparkSession, {"spark.sql.adaptive.enabled": "false"}):
            counts, n_partitions = _counted(rows)
        report = recipe.report(counts, "a Spark table")
        recipe.require(report)  # Spark has no order of rows, so they are counted, not named
    except BaseException:
        rows.unpersist()
        raise
    return SparkInteractions(rows, n_partitions, catalogue, recipe.bounds, recipe.implicit, report)


def _kept(chosen: Any, recipe: Recipe, partitions: int | None) -> Any:
    """The partitions and what they will keep, not computed yet."""
    context = chosen.sparkSession.sparkContext
    if partitions is None:
        partitions = max(context.defaultParallelism, chosen.rdd.getNumPartitions())
    broadcast = Broadcast.of(recipe, context)  # needed again whenever a lost partition is recomputed

    def compress(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        require_sound_arithmetic()
        return chunks(*read_partition(broadcast.open(), batches))

    by_user = chosen.repartition(whole("partitions", partitions, 1), chosen[f"`{recipe.columns.user}`"])
    return by_user.mapInArrow(compress, ROWS).persist()


def _catalogue(frame: Any, columns: Columns, items: Any, written: bool) -> Catalogue:
    """The declared items; or those observed, if the owner says that they are public."""
    if items is None:
        Catalogue([], origin=None).require_public()  # which raises
    if isinstance(items, str) and items == PRIVATE:
        raise DataError(
            "items: a private choice of items is made in the memory of one machine; give a catalog, or choose items "
            "there first (discreet.select_items) and give the catalog of the result"
        )
    if not isinstance(items, ObservedItems):
        return Catalogue.read(items, item=columns.item)
    name = columns.item
    ids = Ids(frame.select(frame[f"`{name}`"]).distinct().toArrow()[name].drop_null(), "item")
    return Catalogue(ids.some(sorted_order(ids.to_arrow(), written=written)), origin=OBSERVED)


def _counted(rows: Any) -> tuple[Report, int]:
    """The counts of all partitions, and how many partitions there are. Computes what they keep."""
    from pyspark.sql import functions

    sums = [functions.sum(name).alias(name) for name in COUNTS]
    (found,) = (
        rows.select(*COUNTS, functions.spark_partition_id().alias("partition"))
        .agg(*sums, functions.count_distinct("partition").alias("partitions"))
        .collect()
    )
    counts: Any = {name: found[name] or 0 for name in COUNTS}
    return Report(**counts), found["partitions"]
