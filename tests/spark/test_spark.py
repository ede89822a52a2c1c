"""Spark itself: a cluster of processes on this machine, one session for all tests."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import discreet
from discreet.audit.neighbors import long_tail
from discreet.engine.batches import equal_weights, user_batches
from discreet.errors import DataError, NotPublic, PrivacyError
from discreet.privacy import VectorSum
from discreet.privacy.determinism import machine_kernels
from discreet.privacy.releaser import Encoded
from discreet.privacy.statistics import UserBatch
from discreet.testing import InsecureSeededNoise
from tests.conftest import missing
from tests.docs.pages import ROOT
from tests.models.models import edit

pytestmark = pytest.mark.filterwarnings("ignore")  # pyspark's own

DATA = discreet.datasets.movielens_like(400, 50, 8000, random_state=0)
BUDGET = {"epsilon": 5.0, "delta": 1e-6}
PUBLIC: dict[str, Any] = {"items": DATA.catalogue, "value_range": DATA.value_range}


QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # so short a life is not worth optimizing


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """A cluster of two machines of one core: Spark never runs a task twice at once on the same host.

    Both are this machine, by other addresses. Where it has only one, they are processes of one host.
    """
    if sys.platform != "linux":
        yield "local-cluster[2,1,1024]"
        return
    import pyspark

    home, said, started = Path(pyspark.__file__).parent, folder / "said", []
    given = {"SPARK_HOME": str(home), "SPARK_WORKER_DIR": str(folder), "SPARK_NO_DAEMONIZE": "1"}
    given |= {"SPARK_DAEMON_JAVA_OPTS": QUICK, "SPARK_DAEMON_MEMORY": "256m"}

    def start(kind: str, host: str, *arguments: str) -> None:
        command = [home / "bin" / "spark-class", f"org.apache.spark.deploy.{kind}", "--host", host, "--webui-port", "0"]
        with said.open("ab") as log:
            environment = {**os.environ, **given, "SPARK_LOCAL_IP": host}
            started.append(subprocess.Popen([*command, *arguments], env=environment, stdout=log, stderr=log))

    def await_words(words: str) -> str:
        until = time.monotonic() + 120
        while not (found := re.search(words, said.read_text(errors="replace"))):
            assert time.monotonic() < until, said.read_text(errors="replace")
            time.sleep(0.1)
        return found[0]

    try:
        start("master.Master", "127.0.0.1", "--port", "0")
        master = await_words(r"spark://127\.0\.0\.1:\d+")
        for host in ("127.0.0.2", "127.0.0.3"):
            start("worker.Worker", host, "--cores", "1", "--memory", "1g", master)
        await_words(r"(?s)Registering worker 127.*Registering worker 127")
        yield master
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    try:
        from pyspark import cloudpickle, sql
    except ImportError:
        missing("Spark", "pyspark is not installed: pip install 'discreet[spark]'")
    if shutil.which("java") is None:
        missing("Spark", "Java is not installed")
    before = dict(os.environ)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": QUICK,
        "spark.executor.extraJavaOptions": QUICK,
        "spark.executor.memory": "1g",
        "spark.default.parallelism": "4",  # so that more tasks add up blocks than run at a time
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.speculation": "true",  # tasks that take longer than others are run twice, at once
        "spark.speculation.interval": "50ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "50ms",
        "spark.speculation.efficiency.enabled": "false",
    }
    with cluster(tmp_path_factory.mktemp("cluster")) as master:
        builder = sql.SparkSession.builder.master(master)
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        cloudpickle.register_pickle_by_value(sys.modules[__name__])  # functions of the tests: executors have none
        home, application = (
            Path(session.sparkContext._jvm.System.getenv("SPARK_HOME") or "."),
            session.sparkContext.applicationId,
        )
        yield session
        session.stop()
    shutil.rmtree(home / "work" / application, ignore_errors=True)
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="module")
def table(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The ratings as a parquet table of the session's own catalog."""
    path = tmp_path_factory.mktemp("tables") / "ratings.parquet"
    DATA.to_frame("pandas").to_parquet(path)
    spark.sql(f"CREATE TABLE ratings USING parquet LOCATION '{path}'")
    return spark.table("ratings")


def seeded() -> discreet.Ledger:
    return discreet.Ledger(delta=1e-6, noise_source=InsecureSeededNoise(3))


def same(model: Any, other: Any) -> bool:
    return all(np.array_equal(getattr(model, name), getattr(other, name)) for name in model._ARRAYS)


def test_a_table_is_read_into_memory_like_any_other(table: Any) -> None:
    assert discreet.read(table, **PUBLIC) == DATA


@pytest.mark.parametrize(("n", "branches"), [(2, 16), (7, 2)])
def test_partitions_change_no_bit(table: Any, n: int, branches: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One item step from a public start: what is released, and the factors. Every model: tests/engine."""
    monkeypatch.setattr("discreet.engine.spark.BRANCHES", branches)  # with 2, a tree of three levels
    alone = {"preprocess": False, "item_fraction": 1.0}
    model, expected = (discreet.DPALS.as_published(**BUDGET, rank=3, n_steps=1, **alone) for _ in range(2))
    model.fit(table, ledger=seeded(), partitions=n, **PUBLIC)
    assert same(model, expected.fit(DATA, ledger=seeded()))
    assert not model.guarantee_.holds  # seeded noise protects nobody


def test_a_table_by_its_name(table: Any) -> None:
    ratings = discreet.read("ratings", engine="spark", **PUBLIC)
    assert repr(ratings) == "SparkInteractions(50 items, users in 4 partitions)"
    assert ratings.report.rows == len(DATA)
    model, expected = (
        discreet.DPFrankWolfe(**BUDGET, n_steps=2).fit(data, ledger=seeded()) for data in (ratings, DATA)
    )
    assert same(model, expected)
    assert ratings.kernels == {machine_kernels()}  # as the tasks of other processes have it, on this machine
    ratings.kernels.clear()
    ratings.kernels.add("those of other machines, before")
    ledger = seeded()
    with pytest.raises(PrivacyError, match="round differently"):
        discreet.DPFrankWolfe(**BUDGET, n_steps=2).fit(ratings, ledger=ledger)
    assert ledger.events == []
    ratings.unpersist()


HEADER, PEOPLE = (
    "user,item,rating,date\n",
    "".join(f"u{n % 90},{n % 50 + 1},{n % 4 + 1},2020-01-02\n" for n in range(900)),
)
TEXTS = {
    "user=zed/r[1].csv": HEADER
    + PEOPLE
    + '007,1,5,3\n7,2,4,3\n"u1",49,5,3\nabc,3,2,3\nevil,"1\n5,1\nx,1,5,01/13/2020\n',
    "r.jsonl": "".join(f'{{"user": {n - 300}, "item": {n % 50 + 1}, "rating": {n % 4 + 1}}}\n' for n in range(600))
    + "{\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_files_are_read_as_anywhere(spark: Any, name: str, tmp_path: Path) -> None:
    """No type is guessed, no folder is a column, a name is that of one file, and a line is a row."""
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(TEXTS[name])
    (path.parent / "r1.csv").write_text(HEADER + "somebody,4,1,1\n" * 100)
    given: dict[str, Any] = {**PUBLIC, "on_invalid": "drop", "on_duplicate": "mean"}  # rows have no order there
    there, here = discreet.read(str(path), engine="spark", **given), discreet.read(path, **given)
    assert (there.report.rows, there.report.dropped) == (here.report.rows, here.report.dropped)
    model = discreet.DPALS.as_published(**BUDGET, rank=3, n_steps=1, preprocess=False, item_fraction=1.0)
    expected = discreet.DPALS.as_published(**BUDGET, rank=3, n_steps=1, preprocess=False, item_fraction=1.0)
    assert same(model.fit(there, ledger=seeded()), expected.fit(here, ledger=seeded()))
    there.unpersist()
    with pytest.raises(DataError, match="rows cannot be read"):
        discreet.read(str(path), engine="spark", **PUBLIC)


def test_what_spark_must_not_be_asked(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Spark cannot read it"):
        discreet.read("DROP TABLE ratings", engine="spark", **PUBLIC)
    with pytest.raises(DataError, match="a single SELECT"):
        discreet.read("FROM ratings INSERT INTO others SELECT *", engine="spark", **PUBLIC)
    with pytest.raises(DataError, match="whose types Spark would guess"):
        discreet.read("SELECT * FROM json.`r.json`", engine="spark", **PUBLIC)
    for name, header in (("a.csv", HEADER), ("b.csv", "item,user,rating,date\n")):
        (tmp_path / name).write_text(header + PEOPLE)
    with pytest.raises(DataError, match="does not have the columns of"):
        discreet.read(str(tmp_path / "*.csv"), engine="spark", **PUBLIC)
    twice = spark.createDataFrame([("a", 1, 2.0, 3.0)], ["user", "item", "rating", "Rating"])
    with pytest.raises(DataError, match="more than one column is called 'rating'"):
        discreet.read(twice, engine="spark", **PUBLIC)


def test_what_the_page_shows_runs(spark: Any, table: Any, tmp_path: Path) -> None:
    """Every block of docs/how-to/spark.md, with paths of this machine in the place of a company's."""
    names = {"user": "userId", "item": "movieId", "rating": "rating"}
    ratings = table.select([table[old].alias(new) for old, new in names.items()])
    movies = DATA.catalogue.to_frame("pandas").rename(columns=names)
    spark.sql(f"CREATE DATABASE shop LOCATION '{tmp_path}/shop'")
    ratings.write.saveAsTable("shop.ratings")
    spark.createDataFrame(movies).write.saveAsTable("shop.movies")
    page = (ROOT / "docs/how-to/spark.md").read_text(encoding="utf-8")
    places = {"s3a://shop/recommendations": f"{tmp_path}/lists", "hdfs:///models/films": f"{tmp_path}/films"}
    for theirs, ours in places.items():
        assert theirs in page
        page = page.replace(theirs, ours)
    namespace: dict[str, Any] = {"ledger": discreet.Ledger(epsilon=10, delta=1e-6)}
    blocks = re.findall(r"^```py\n(.*?)^```", page, flags=re.S | re.M)
    assert len(blocks) == 4
    for block in blocks:
        exec(compile(block, "docs/how-to/spark.md", "exec"), namespace)
    assert spark.read.parquet(f"{tmp_path}/lists").count() == namespace["lists"].count() == DATA.n_users * 10
    (folder,) = (tmp_path / "films" / "stages").glob("0_*")
    assert discreet.load(folder).guarantee_.epsilon <= 1


def _executors(application: str) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        if application.encode() in words and any(b"CoarseGrainedExecutorBackend" in word for word in words):
            found.append(int(process.name))
    return found


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="executors are found in /proc, which is not there")
def test_executors_that_die_during_a_fit_change_nothing(spark: Any, table: Any) -> None:
    """Rows are read again, and sums taken again, in part: every user counts once, and noise is drawn once."""
    killed: list[int] = []

    def kill() -> None:
        tracker = spark.sparkContext.statusTracker()
        while not stop.is_set() and not killed:
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            if passes and any(stage is not None and stage.numActiveTasks for stage in stages):
                killed.append(_executors(spark.sparkContext.applicationId)[0])
                os.kill(killed[0], signal.SIGKILL)
            time.sleep(0.02)

    passes: list[str] = []
    stop, ledger, expected = threading.Event(), seeded(), seeded()
    ratings = discreet.read(table, engine="spark", partitions=4, **PUBLIC)
    local = discreet.DPALS(**BUDGET, n_steps=2).fit(DATA, ledger=expected)
    thread = threading.Thread(target=kill)
    thread.start()
    try:
        passes.append("the first of them begins")
        model = discreet.DPALS(**BUDGET, n_steps=2).fit(ratings, ledger=ledger)
    finally:
        stop.set()
        thread.join()
    assert killed
    assert same(model, local)
    labels = [[event.body["label"] for event in book.events] for book in (ledger, expected)]
    assert labels[0] == labels[1]
    ratings.unpersist()


POPULARITY = Encoded(VectorSum(50, 1.0, nonnegative=True).encoder(0.01), equal_weights)


def some_of(batch: UserBatch, kept: Any) -> UserBatch:
    """A batch with some of its entries."""
    return UserBatch(np.concatenate([[0], np.cumsum(kept)])[batch.indptr], batch.indices[kept], batch.values[kept])


def wait_for(path: Path) -> None:
    """Return when a file exists, or when that takes too long."""
    for _ in range(2000):
        if path.exists():
            return
        time.sleep(0.05)


@pytest.mark.parametrize("trouble", ["raises", "dies", "is slow"])
def test_a_task_that_runs_twice_counts_once(spark: Any, table: Any, tmp_path: Path, trouble: str) -> None:
    """One that fails is run again. Of a slow one a copy is run, here with other results: one of the two counts."""
    if trouble == "is slow" and sys.platform != "linux":
        pytest.skip("all executors are on one host, where Spark runs no copies")
    ratings = discreet.read(table, engine="spark", partitions=4, **PUBLIC)
    runs, copied = tmp_path / "runs", tmp_path / "copied"
    runs.touch()

    def make(batch: UserBatch) -> UserBatch:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        attempt = context.attemptNumber()
        if context.partitionId() != 1:
            return batch
        with runs.open("a") as file:
            file.write(f"{attempt}")
        if attempt and trouble == "is slow":
            copied.touch()
            return some_of(batch, batch.indices % 2 == 0)
        if not attempt and trouble == "is slow":
            wait_for(copied)
        if not attempt and trouble == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if not attempt and trouble == "raises":
            raise RuntimeError("at the first attempt")
        return batch

    def even_in_one(batch: UserBatch) -> UserBatch:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        return batch if context.partitionId() != 1 else some_of(batch, batch.indices % 2 == 0)

    found = user_batches(ratings).map(make).add_up(POPULARITY, 1)
    assert runs.read_text() == "01"
    of_copy = user_batches(ratings).map(even_in_one).add_up(POPULARITY, 1)
    whole = user_batches(DATA).add_up(POPULARITY, 1)
    assert not np.array_equal(of_copy, whole)
    possible = [whole, of_copy] if trouble == "is slow" else [whole]
    assert any(np.array_equal(found, one) for one in possible)
    ratings.unpersist()


def _ancestors(process: int) -> Iterator[int]:
    """A process, the one that started it, and so on."""
    while process > 1:
        yield process
        process = int(Path(f"/proc/{process}/stat").read_text().rsplit(")")[1].split()[1])


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="executors are found in /proc, which is not there")
def test_a_sum_is_taken_again_if_an_executor_dies_when_a_part_of_it_has_arrived(
    spark: Any, table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its partitions would have other rows now: so none of the first results may stay."""
    size, application = 2_000_000, spark.sparkContext.applicationId
    work = Encoded(VectorSum(size, 1.0, nonnegative=True).encoder(0.01), equal_weights)  # of 16 blocks
    ratings = discreet.read(table, engine="spark", partitions=4, **PUBLIC)
    mapped, first, killed = tmp_path / "mapped", tmp_path / "first", tmp_path / "killed"
    place = np.sort(np.random.default_rng(0).choice(size, 50, False)).astype(np.uint32)

    def make(batch: UserBatch) -> UserBatch:
        found = UserBatch(batch.indptr, place[batch.indices], batch.values)
        if killed.exists():
            return some_of(found, batch.indices % 2 == 0)
        mapped.write_text(" ".join(map(str, _ancestors(os.getpid()))))
        return found

    def held_up(batches: Any, layout: Any, branches: int) -> Iterator[Any]:
        from discreet.engine.spark import added_up

        yield from list(added_up(batches, layout, branches))
        with suppress(FileExistsError):
            first.touch(exist_ok=False)
            return
        wait_for(killed)  # the others, until the first one's sums are with the driver

    def kill() -> None:
        tracker = spark.sparkContext.statusTracker()
        while True:
            time.sleep(0.05)
            stages = [tracker.getStageInfo(stage) for stage in sorted(tracker.getActiveStageIds())]
            if first.exists() and stages and stages[-1] and stages[-1].numCompletedTasks:
                break
        (executor,) = {*_executors(application)} & {*map(int, mapped.read_text().split())}
        killed.touch()
        os.kill(executor, signal.SIGKILL)

    monkeypatch.setattr("discreet.engine.spark.added_up", held_up)
    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    found = user_batches(ratings).map(make).add_up(work, 1)
    thread.join()
    assert np.array_equal(found, user_batches(DATA).map(make).add_up(work, 1))
    ratings.unpersist()


def test_choices(spark: Any) -> None:
    data = long_tail(None)
    # With few items in the second moment there is a power step.
    model, local = (discreet.DPSVD(**BUDGET, max_items=4) for _ in range(2))
    table = spark.createDataFrame(data.to_frame("pandas")[["user", "item"]])
    model.fit(table, ledger=seeded(), partitions=3, items=data.catalogue)
    assert same(model, local.fit(data, ledger=seeded()))
    assert model.recommend([0, 5], n=3).items == local.recommend([0, 5], n=3).items


def test_odd_rows(spark: Any) -> None:
    rows = [("a", "x", 1.0, 1), ("a", "x", 3.0, 2), ("a", "y", float("nan"), 1), ("b", "y", 9.0, 1), ("b", "z", 2.0, 1)]
    frame = spark.createDataFrame(rows, "user string, item string, rating double, time int")
    public: dict[str, Any] = {"items": ["x", "y"], "value_range": (1, 5)}
    with pytest.raises(
        DataError, match=r"value: 2 rows cannot be read, have no .* outside value_range=\(1, 5\)"
    ) as refused:
        discreet.read(frame, engine="spark", **public)
    assert "'a'" not in str(refused.value)
    given = {"on_invalid": "clip", "value_range": (1, 5), "items": discreet.observed_items_are_public}
    observed = discreet.read(frame, engine="spark", **given)
    expected, names = discreet.read(frame, **given), ("rows", "dropped", "clipped", "unknown", "repeated")
    assert [getattr(observed.report, name) for name in names] == [getattr(expected.report, name) for name in names]
    assert observed.items == expected.items
    assert "observed" in observed.public_inputs["items"]
    with pytest.raises(NotPublic, match="items"):
        discreet.DPALS(**BUDGET).fit(frame, value_range=(1, 5))
    with pytest.raises(NotPublic, match="value_range"):
        discreet.DPALS(**BUDGET).fit(frame, items=["x", "y"])
    with pytest.raises(DataError, match="value: a single value is needed in each row"):
        discreet.read(frame.selectExpr("user", "item", "array(rating) as rating"), engine="spark", **public)
    written = frame.selectExpr("user", "item", "string(rating) as rating", "time")
    assert discreet.read(written, engine="spark", **given).report == observed.report
    with pytest.raises(DataError, match=r"items: ids of type .*double and of type .*string cannot be compared"):
        discreet.read(frame, engine="spark", items=[1.5, 2.5], value_range=(1, 5))
    with pytest.raises(DataError, match="not in Spark"):
        discreet.DPCleansedSVD(**BUDGET).fit(frame, **public)


def test_a_pipeline(spark: Any, table: Any, tmp_path: Path) -> None:
    from pyspark.ml import Pipeline, PipelineModel
    from pyspark.ml.feature import SQLTransformer

    named = table.selectExpr("concat('u', user) as who", "item as film", "rating as stars")
    columns = {"userCol": "who", "itemCol": "film", "ratingCol": "stars"}
    stage = discreet.spark.Recommender(discreet.DPFrankWolfe(**BUDGET, n_steps=1), reading=PUBLIC, n=3, **columns)
    pipeline = Pipeline(stages=[SQLTransformer(statement="SELECT * FROM __THIS__ WHERE stars IS NOT NULL"), stage])
    with pytest.raises(ValueError, match="not MLWritable"):  # it may have a ledger, which must not be copied
        pipeline.save(str(tmp_path / "refused"))
    fitted = pipeline.fit(named)
    model = fitted.stages[-1].model
    assert model.guarantee_.holds
    histories = named.where("who < 'u2'")
    found = fitted.transform(histories).toPandas().sort_values(["user", "rank"])
    local = model.recommend(
        histories.toPandas().rename(columns={"who": "user", "film": "item", "stars": "rating"}), n=3
    )
    expected = local.to_frame("pandas").sort_values(["user", "rank"])
    names = ["user", "item", "rank"]
    assert found[names].values.tolist() == expected[names].values.tolist()
    assert found["score"].tolist() == expected["score"].tolist()  # to the last bit, whichever partition it was

    fitted.write().overwrite().save(str(tmp_path / "pipeline"))
    again = PipelineModel.load(str(tmp_path / "pipeline")).stages[-1]
    assert again.getOrDefault("n") == 3
    assert same(again.model, model)
    (saved,) = (tmp_path / "pipeline").glob("stages/1_*")
    assert same(discreet.load(saved), model)  # without Spark
    model.save(tmp_path / "local")
    assert same(discreet.spark.RecommenderModel.load(str(tmp_path / "local")).model, model)
    edit(tmp_path / "local", lambda d: d["values"].update(global_mean_=0.0))
    with pytest.raises(PrivacyError, match="belongs to another model, with other values"):
        discreet.spark.RecommenderModel.load(str(tmp_path / "local"))


def test_a_person_is_served_the_same_in_any_company(spark: Any, table: Any) -> None:
    """To the last bit, whichever partition they are in, and whichever users share it."""
    model = discreet.ALS(12, n_steps=2, biases=False).fit(DATA)
    companies = [table, table.where("user < 40"), table.where("user = 7"), table.where("user = 7").repartition(5)]
    found = [
        [(row["rank"], row["item"], row["score"]) for row in discreet.spark.recommend(model, some, 50).collect()
         if row["user"] == 7]
        for some in companies
    ]  # fmt: skip
    assert len(found[0]) > 10
    assert all(sorted(one) == sorted(found[0]) for one in found)
    assert [(item, score) for _, item, score in sorted(found[0])] == list(model.recommend(DATA.history(7), 50))


def test_lists_of_their_own_are_the_same(spark: Any, table: Any) -> None:
    """Of a model with one fold-in for lists and another for ratings: to the last bit."""
    model = discreet.DPALS(**BUDGET, objective="both").fit(DATA)
    assert model.list_factors_.shape[1]
    found = discreet.spark.recommend(model, table, 7).toPandas().sort_values(["user", "rank"])
    local = model.recommend(DATA, 7).to_frame("pandas").sort_values(["user", "rank"])
    assert found[["user", "item", "rank"]].values.tolist() == local[["user", "item", "rank"]].values.tolist()
    assert found["score"].tolist() == local["score"].tolist()


def test_unknown_items_are_told_without_names(spark: Any) -> None:
    model = discreet.DPALS(**BUDGET, n_steps=1).fit(DATA)
    frame = spark.createDataFrame([(1, 10**6, 3.0), (1, 2, 4.0)], "user int, item int, rating double")
    ignored = discreet.spark.recommend(model, frame, 2, on_unknown="ignore").collect()
    assert [row["rank"] for row in ignored] == [1, 2]
    with pytest.raises(DataError, match="a Spark DataFrame is needed"):
        discreet.spark.recommend(model, [(1, 2)])


def test_the_example(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples" / "spark_pipeline.py"), run_name="__main__")
    assert "joint differential privacy" in capsys.readouterr().out
