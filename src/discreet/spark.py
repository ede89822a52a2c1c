"""Apache Spark: recommendations as tables, and a stage for pipelines. `pip install 'discreet[spark]'`.

To fit a model in Spark, pass a Spark table to `fit`, or read it with `discreet.read(..., engine="spark")` first.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from discreet.data.interactions import is_spark
from discreet.data.sources import GUESS, choose
from discreet.data.spark import Broadcast, SparkInteractions
from discreet.errors import DataError, MissingExtra, UnknownItem
from discreet.models.model_folder import HEAD, PARTS
from discreet.models.storage import load
from discreet.validation import whole

try:
    from pyspark.ml import Estimator
    from pyspark.ml import Model as SparkModel
    from pyspark.ml.param import Param, Params, TypeConverters
    from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter, MLReadable, MLReader, MLWritable, MLWriter
except ImportError:
    raise MissingExtra("discreet.spark", "spark") from None

if TYPE_CHECKING:
    import pyarrow as pa

    from discreet.models.base import Model

__all__ = ["Recommender", "RecommenderModel", "SparkInteractions", "recommend"]

FILES = (HEAD, *PARTS)


def recommend(
    model: Model,
    histories: Any,
    n: int = 10,
    *,
    user: Any = GUESS,
    item: Any = GUESS,
    value: Any = GUESS,
    exclude_seen: bool = True,
    allow: Any = None,
    deny: Any = None,
    on_unknown: str = "raise",
) -> Any:
    """The n best items for each user of a Spark table of histories: a Spark table (user, item, score, rank).

    Each partition folds in its users, each from their own rows alone, and the result is for that user alone. Nothing is
    computed before it is needed, and nothing is collected.

    Args:
        model: A fitted model.
        histories: A Spark DataFrame with a row for each user and item, as `fit` takes.
        n: How many items.
        user: The column of the user; by default one with a usual name.
        item: The column of the item; by default one with a usual name.
        value: The column of the rating; by default one with a usual name. None: every item counts as liked.
        exclude_seen: Leave out items of the history.
        allow: Recommend only these items.
        deny: Never recommend these items.
        on_unknown: What to do with items that the model does not know: "raise", or "ignore" them.
    """
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import DoubleType, IntegerType, StructField, StructType

    if not is_spark(histories):
        raise DataError(f"histories: a Spark DataFrame is needed, not {type(histories).__name__}; see model.recommend")
    whole("n", n, 1)
    columns = choose(histories.columns, user=user, item=item, value=value, time=GUESS)
    names = columns.names
    roles = ["user", "item", *(["rating"] if columns.value else []), *(["timestamp"] if columns.time else [])]
    table = histories.select([histories[f"`{name}`"].alias(role) for name, role in zip(names, roles, strict=True)])
    single = copy.copy(model)
    single.n_jobs = 1  # a task has one core
    options = {"exclude_seen": exclude_seen, "allow": allow, "deny": deny, "on_unknown": on_unknown}
    broadcast = Broadcast.of((single, n, options), histories.sparkSession.sparkContext)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _recommended(batches, *broadcast.open())

    schema = StructType(
        [
            StructField("user", table.schema["user"].dataType),
            StructField("item", from_arrow_type(model.items_.to_arrow().type)),
            StructField("score", DoubleType()),
            StructField("rank", IntegerType()),
        ]
    )
    return table.repartition(table["user"]).mapInArrow(run, schema)


def _recommended(
    batches: Iterator[pa.RecordBatch], model: Model, n: int, options: dict[str, Any]
) -> Iterator[pa.RecordBatch]:
    """Recommendations of a partition for its users. Errors do not say whose history is wrong."""
    import pyarrow as pa

    found = [batch for batch in batches if batch.num_rows]
    if not found:
        return
    table = pa.Table.from_batches(found)
    ties = [(name, "ascending") for name in ("timestamp", "rating") if name in table.column_names]
    try:
        for block in model.recommend_blocks(table.sort_by(ties) if ties else table, n, **options):
            part = block.to_arrow().select(["user", "item", "score", "rank"])
            part = part.set_column(2, "score", part["score"].cast(pa.float64()))
            plain = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
            fields = [pa.field(field.name, plain.get(field.type, field.type)) for field in part.schema]
            fields[0] = pa.field("user", table.schema.field("user").type)  # reading makes it wider
            yield from part.cast(pa.schema(fields)).to_batches()
    except (UnknownItem, DataError):
        raise DataError(
            "histories: there are rows with items that the model does not know (pass on_unknown='ignore' to leave them "
            "out), without a user, item or rating, or with ratings outside the model's range"
        ) from None


class _Stage(Params):
    """The parameters of both stages."""

    userCol: Param[str] = Param(Params._dummy(), "userCol", "the column of the user", TypeConverters.toString)  # noqa: N815
    itemCol: Param[str] = Param(Params._dummy(), "itemCol", "the column of the item", TypeConverters.toString)  # noqa: N815
    ratingCol: Param[str] = Param(  # noqa: N815
        Params._dummy(), "ratingCol", "the column of the rating; empty: implicit feedback", TypeConverters.toString
    )
    n: Param[int] = Param(Params._dummy(), "n", "how many items to recommend to each user", TypeConverters.toInt)
    excludeSeen: Param[bool] = Param(  # noqa: N815
        Params._dummy(), "excludeSeen", "whether to leave out items of the history", TypeConverters.toBoolean
    )
    onUnknown: Param[str] = Param(  # noqa: N815
        Params._dummy(), "onUnknown", "items that the model does not know: raise or ignore", TypeConverters.toString
    )

    def __init__(self, **given: Any) -> None:
        super().__init__()
        self._setDefault(userCol="user", itemCol="item", ratingCol="rating", n=10, excludeSeen=True, onUnknown="raise")
        self._set(**given)

    def _roles(self) -> dict[str, Any]:
        value = self.getOrDefault(self.ratingCol) or None
        return {"user": self.getOrDefault(self.userCol), "item": self.getOrDefault(self.itemCol), "value": value}


class Recommender(_Stage, Estimator[Any]):
    """A stage of a Spark ML pipeline that fits a private model to the table that reaches it.

    What it fits can be saved. The stage itself cannot: it has a ledger, which must not be copied.

    Args:
        model: The model to fit: `DPALS`, `DPALS.as_published` or `DPFrankWolfe` where the table is, in Spark.
        ledger: The ledger that records the cost; by default a new one.
        reading: Other arguments of `discreet.read`: `items`, `value_range`, `on_duplicate`, ...
        columns: `userCol`, `itemCol`, `ratingCol` ("": implicit feedback), and for recommendations `n`, `excludeSeen`
            and `onUnknown`.
    """

    def __init__(
        self, model: Any, *, ledger: Any = None, reading: dict[str, Any] | None = None, **columns: Any
    ) -> None:
        super().__init__(**columns)
        self.model, self.ledger, self.reading = model, ledger, reading or {}

    def _fit(self, dataset: Any) -> RecommenderModel:
        from sklearn.base import clone

        fitted = clone(self.model).fit(dataset, ledger=self.ledger, **{**self._roles(), **self.reading})
        return self._copyValues(RecommenderModel(fitted))


class RecommenderModel(_Stage, SparkModel, MLWritable, MLReadable[Any]):
    """A fitted private model as a stage: it turns histories into recommendations (user, item, score, rank).

    `save` writes the same files as `model.save`, and Spark's own beside them. So `discreet.load` opens a saved stage,
    and `load` opens a saved model.

    Args:
        model: A fitted model; it stays in the attribute `model`.
        columns: As for `Recommender`.
    """

    def __init__(self, model: Any, **columns: Any) -> None:
        super().__init__(**columns)
        self.model = model

    def _transform(self, dataset: Any) -> Any:
        exclude_seen, on_unknown = self.getOrDefault(self.excludeSeen), self.getOrDefault(self.onUnknown)
        filters: dict[str, Any] = {**self._roles(), "exclude_seen": exclude_seen, "on_unknown": on_unknown}
        return recommend(self.model, dataset, self.getOrDefault(self.n), **filters)

    def write(self) -> MLWriter:
        """The writer that saves the stage."""
        return _Writer(self)

    @classmethod
    def read(cls) -> MLReader[Any]:
        """The reader that loads a stage."""
        return _Reader()


class _Writer(MLWriter):
    def __init__(self, stage: RecommenderModel) -> None:
        super().__init__()
        self.stage = stage

    def saveImpl(self, path: str) -> None:  # noqa: N802
        home = _Home(self.sparkSession, path)
        DefaultParamsWriter.saveMetadata(self.stage, path, home.session)
        with tempfile.TemporaryDirectory() as folder:
            self.stage.model.save(folder)
            home.put(folder, FILES)


class _Reader(MLReader[Any]):
    def load(self, path: str) -> RecommenderModel:
        home = _Home(self.sparkSession, path)
        with tempfile.TemporaryDirectory() as folder:
            home.get(folder, FILES)
            stage = RecommenderModel(load(folder))
        if home.has("metadata"):  # otherwise it was saved without Spark
            metadata = DefaultParamsReader.loadMetadata(path, home.session)
            stage._resetUid(metadata["uid"])
            DefaultParamsReader.getAndSetParams(stage, metadata)
        return stage


class _Home:
    """A folder in any file system of Spark: HDFS, an object store, this machine."""

    def __init__(self, session: Any, path: str) -> None:
        context = session.sparkContext
        self.session, self.path = session, path
        self._path = context._jvm.org.apache.hadoop.fs.Path
        self._files = self._path(path).getFileSystem(context._jsc.hadoopConfiguration())

    def has(self, name: str) -> bool:
        return bool(self._files.exists(self._path(self.path, name)))

    def put(self, folder: str, names: Iterable[str]) -> None:
        """Copy files from a folder of this machine."""
        for name in names:
            source = self._path(f"file://{folder}/{name}")
            self._files.copyFromLocalFile(False, True, source, self._path(self.path, name))

    def get(self, folder: str, names: Iterable[str]) -> None:
        """Copy files to a folder of this machine."""
        for name in names:
            target = self._path(f"file://{folder}/{name}")
            self._files.copyToLocalFile(False, self._path(self.path, name), target, True)
