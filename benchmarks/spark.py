"""How fast DPALS is in Spark, beside MLlib's ALS in the same session; what it shuffles; how it scales.

    python benchmarks/spark.py                                   clusters of one and two workers on this machine
    python benchmarks/spark.py --ratings 10000000 --rank 64 --out docs/results/spark.json

A worker is a process with one core (`local-cluster`). A sweep is one step, all users and then all items: models are
fitted for one step and for four, and a third of the difference is the time of a sweep without preparing the data. What
is compared takes turns, and the smallest time of each counts: on a shared machine the rest measures what others do. For
the same reason the time of the processor, of all processes together, stands beside that of the clock. Bytes are those
that Spark counts as written for its shuffles; beside them stands what they would be if partitions sent nothing but
r (r + 1) / 2 + r integers of eight bytes for each item that they touch. Strong: the same table with one worker and with
two. Weak: half of it with one, all of it with two.

Constants are what docs/guide/scaling.md computes with: millionths of a second of one processor, in this process and
without Spark, that a partition takes for an interaction (of a second moment: for a user), and the driver for an item.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import discreet
from discreet.data.cleaning import Recipe
from discreet.data.sources import choose
from discreet.data.spark import SparkInteractions, chunks, read_partition
from discreet.engine.spark import BRANCHES, Pass, added_up, emitted, partial_sums

CHILD = "--child"
STEPS = (1, 4)
USERS, ITEMS, RATINGS = 69_878, 10_677, 10_000_000  # of MovieLens 10M
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
Figures = dict[str, Any]


def table(folder: Path, ratings: int) -> discreet.Interactions:
    """Generated ratings, with users and items in proportion, in a parquet file."""
    share = ratings / RATINGS
    n_items = max(500, round(ITEMS * share**0.5))
    data = discreet.datasets.movielens_like(max(1000, round(USERS * share)), n_items, ratings, random_state=0)
    data.to_frame("pandas").to_parquet(folder / f"{ratings}.parquet")
    return data


def processor() -> dict[int, float]:
    """Seconds that this process and each of those below it, in Java and in Python, has had of a processor."""
    rows = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = status.read_text().rsplit(")", 1)
        except OSError:  # it has ended
            continue
        words = rest.split()
        rows.append((int(name.split()[0]), int(words[1]), int(words[11]) + int(words[12])))
    family, before = {os.getpid()}, 0
    while len(family) > before:
        before = len(family)
        family |= {own for own, parent, _ in rows if parent in family}
    return {own: ticks / os.sysconf("SC_CLK_TCK") for own, _, ticks in rows if own in family}


def seconds(work: Callable[[], Any]) -> Any:
    """By the clock, and of the processor: of processes that are still there, as those that do the work are."""
    begin, before = time.perf_counter(), processor()
    work()
    clock, after = time.perf_counter() - begin, processor()
    return np.array([clock, sum(had - before.get(own, 0.0) for own, had in after.items())])


def session(workers: int) -> Any:
    """A cluster of so many processes with one core each."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local-cluster[{workers},1,3072]").config("spark.driver.memory", "2g")
    for name, value in {
        "spark.ui.port": "4177",
        "spark.ui.showConsoleProgress": "false",
        "spark.executor.memory": "2g",
    }.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def shuffled(spark: Any) -> int:
    """Bytes that all stages so far have written for shuffles."""
    time.sleep(2)  # until Spark's own books are up to date
    url = f"{spark.sparkContext.uiWebUrl}/api/v1/applications/{spark.sparkContext.applicationId}/stages"
    with urllib.request.urlopen(url) as answer:
        return sum(stage["shuffleWriteBytes"] for stage in json.load(answer))


def touched(ratings: Any) -> int:
    """Over all partitions, how many items each of them has."""
    total = ratings.blocks().add_up(_seen, (ratings.n_items,), 1, add=_either)
    return int(total.sum())


def _seen(part: Any) -> Any:
    return np.unique(part.indices)


def _either(total: Any, seen: Any, n_jobs: int | None) -> Any:
    total[seen] = 1
    return total


def mllib(frame: Any, rank: int, steps: int, blocks: int) -> None:
    """Fit MLlib's ALS, which is not private."""
    from pyspark.ml.recommendation import ALS

    columns = {"userCol": "user", "itemCol": "item", "ratingCol": "rating"}
    als = ALS(rank=rank, maxIter=steps, regParam=0.1, seed=0, checkpointInterval=-1, **columns)
    als.setNumUserBlocks(blocks).setNumItemBlocks(blocks).fit(frame)


@dataclass(frozen=True)
class Alone(SparkInteractions):
    """A partition in this process, and how long it took for each pass."""

    kept: list[Any] = field(default_factory=list)
    times: list[tuple[tuple[int, ...], float]] = field(default_factory=list)


@partial_sums.register
def _alone(table: Alone, task: Pass) -> pa.Table:
    begin = time.process_time()
    total, used = task.total(table.kept)
    table.times.append((task.layout.shape, time.process_time() - begin))
    return pa.Table.from_batches(list(added_up(emitted(total, task.layout, 0, used), task.layout, BRANCHES)))


def constants(ratings: int, rank: int) -> Figures:
    """What a pass costs, in millionths of a second of one processor."""
    n_columns = 20
    data = discreet.datasets.movielens_like(ratings // 100, 3000, ratings, random_state=0)
    numbers = np.random.default_rng(0).standard_normal((n_columns, data.n_items))
    features = {f"f{i}": column for i, column in enumerate(numbers)}
    catalogue = discreet.Catalogue(data.items, pa.table(features))
    columns = choose(["user", "item", "rating"], user="user", item="item", value="rating", time=None)
    recipe = Recipe(columns, data.items, data.value_range, "raise", "raise", "raise")
    batches = data.to_arrow().select(columns.wanted.names).to_batches()
    read_partition(recipe, batches)  # the first time, libraries are loaded
    begin = time.process_time()
    kept = list(chunks(*read_partition(recipe, batches)))
    reading = time.process_time() - begin
    alone = Alone(None, 1, catalogue, data.value_range, kept=kept)
    size = sum(
        len(row[name]) for batch in kept for row in batch.to_pylist() for name in ("indptr", "indices", "values")
    )
    figures: Figures = {"reading": 1e6 * reading / ratings, "bytes kept": size / ratings}

    def fit(model: Any) -> tuple[list[tuple[tuple[int, ...], float]], float]:
        alone.times.clear()
        begin = time.process_time()
        model.fit(alone)
        return alone.times[:], time.process_time() - begin - sum(took for _, took in alone.times)

    given = {**BUDGET, "n_users_hint": 10**8, "features": list(features), "n_jobs": 1}
    fit(discreet.DPALS(**given, n_steps=1))
    (_, once), (passes, thrice) = (fit(discreet.DPALS(**given, n_steps=steps)) for steps in (1, 3))
    moment = next(took for shape, took in passes if len(shape) == 2 and shape[0] == shape[1])
    figures["counts"] = 1e6 * passes[1][1] / ratings
    figures["second moment, a user"] = 1e6 * moment / data.n_users
    figures["step"] = {"columns": passes[-1][0][1], "interaction": 1e6 * passes[-1][1] / ratings}
    figures["step"]["item, on the driver"] = 1e6 * (thrice - once) / 2 / data.n_items
    whole = {"item_fraction": 1.0, "preprocess": False, "max_items": 10**6, "user_items": "all", "n_jobs": 1}
    (_, once), (passes, twice) = (
        fit(discreet.DPALS.as_published(**BUDGET, rank=rank, n_steps=steps, **whole)) for steps in (1, 2)
    )
    figures["as published"] = {"rank": rank, "interaction": 1e6 * passes[-1][1] / ratings}
    figures["as published"]["item, on the driver"] = 1e6 * (twice - once) / data.n_items
    return {name: rounded(value) for name, value in figures.items()}


def rounded(value: Any) -> Any:
    """Three digits behind the point."""
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    return round(value, 3) if isinstance(value, float) else value


def sweeps(makes: dict[str, Callable[[int], Any]], repeats: int) -> Figures:
    """Seconds of a sweep of each, from the smallest times of some fits; they take turns."""
    for make in makes.values():
        make(1)  # the first time, classes are loaded
    found: dict[tuple[str, int], list[Any]] = {(name, steps): [] for name in makes for steps in STEPS}
    for _ in range(repeats):
        for (name, steps), times in found.items():
            took = seconds(lambda name=name, steps=steps: makes[name](steps))
            times.append(took)
            print(f"  {name}, {steps} steps: {took.round(2)} s", flush=True)
    best = {key: np.min(times, axis=0) for key, times in found.items()}
    more = STEPS[1] - STEPS[0]
    return {name: ((best[name, STEPS[1]] - best[name, STEPS[0]]) / more).round(3).tolist() for name in makes}


def measure(path: Path, workers: int, rank: int, repeats: int, compare: bool) -> Figures:
    """All figures of one cluster and one table."""
    spark = session(workers)
    frame = spark.read.parquet(str(path)).select("user", "item", "rating").repartition(workers).cache()
    frame.count()
    items = discreet.Catalogue(sorted(row["item"] for row in frame.select("item").distinct().collect()))
    read: list[Any] = []

    def reading() -> None:
        given: dict[str, Any] = {"items": items, "value_range": (0.5, 5), "time": None, "partitions": workers}
        read.append(discreet.read(frame, engine="spark", **given))

    reading()  # the first time, libraries are loaded
    read.pop().unpersist()
    took = seconds(reading)
    ratings = read[0]
    whole = {"item_fraction": 1.0, "preprocess": False, "max_items": 10**6, "user_items": "all"}

    def published(steps: int) -> Any:
        return discreet.DPALS.as_published(**BUDGET, rank=rank, n_steps=steps, **whole).fit(ratings)

    makes = {"DPALS": lambda steps: discreet.DPALS(**BUDGET, n_steps=steps).fit(ratings), "as published": published}
    if compare:
        makes["MLlib"] = lambda steps: mllib(frame, rank, steps, workers)
    figures: Figures = {"reading": took.round(2).tolist(), "sweep": sweeps(makes, repeats)}
    if compare:
        counts = [shuffled(spark)]
        for steps in (1, 2):
            published(steps)
            counts.append(shuffled(spark))
        sent = (counts[2] - counts[1]) - (counts[1] - counts[0])
        least = touched(ratings) * (rank * (rank + 1) // 2 + rank) * 8
        figures["shuffled"] = {"bytes a sweep": sent, "theory": least, "ratio": round(sent / least, 3)}
        counts = [shuffled(spark)]
        for steps in (1, 2):
            mllib(frame, rank, steps, workers)
            counts.append(shuffled(spark))
        figures["shuffled"]["MLlib, bytes a sweep"] = (counts[2] - counts[1]) - (counts[1] - counts[0])
    home, application = spark.sparkContext._jvm.System.getenv("SPARK_HOME"), spark.sparkContext.applicationId
    spark.stop()
    shutil.rmtree(Path(home or ".") / "work" / application, ignore_errors=True)  # the workers' logs
    return figures


def child(path: str, workers: int, rank: int, repeats: int, compare: bool) -> Figures:
    """The same in a process of its own, with a Java of its own."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "figures.json"
        given = [path, str(workers), str(rank), str(repeats), str(int(compare)), str(out)]
        subprocess.run([sys.executable, __file__, CHILD, *given], check=True)
        found: Figures = json.loads(out.read_text())
    return found


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ratings", type=int, default=1_000_000)
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    figures: Figures = {"constants": constants(1_000_000, given.rank)}
    print(json.dumps(figures), flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = table(folder, given.ratings)
        half = table(folder, given.ratings // 2)
        path = str(folder / f"{given.ratings}.parquet")
        print(f"{data.n_users:,} users, {data.n_items:,} items, {len(data):,} ratings, rank {given.rank}", flush=True)
        print("two workers", flush=True)
        figures["two workers"] = child(path, 2, given.rank, given.repeats, True)
        print("one worker", flush=True)
        figures["one worker"] = child(path, 1, given.rank, given.repeats, False)
        print("one worker, half of the table", flush=True)
        figures["one worker, half"] = child(
            str(folder / f"{given.ratings // 2}.parquet"), 1, given.rank, given.repeats, False
        )
        sizes = {"users": data.n_users, "items": data.n_items, "ratings": len(data), "half": len(half)}
    two, one, part = (figures[name]["sweep"] for name in ("two workers", "one worker", "one worker, half"))
    figures["strong"] = {name: round(one[name][0] / (2 * two[name][0]), 3) for name in one}
    figures["weak"] = {name: round(part[name][0] / two[name][0], 3) for name in part}
    ratios = {name: np.divide(two[name], two["MLlib"]).round(3).tolist() for name in ("DPALS", "as published")}
    figures["against MLlib"] = ratios
    command = " ".join(["python", "benchmarks/spark.py", *(word for word in sys.argv[1:])])
    result = {"version": discreet.__version__, "command": command.split(" --out")[0], "rank": given.rank, **sizes}
    text = json.dumps({**result, "seconds": "[clock, processor], of a sweep", "figures": figures}, indent=1)
    print(text)
    if given.out is not None:
        given.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # pyspark's own
    if sys.argv[1:2] == [CHILD]:
        path, workers, rank, repeats, compare, out = sys.argv[2:]
        found = measure(Path(path), int(workers), int(rank), int(repeats), bool(int(compare)))
        Path(out).write_text(json.dumps(found))
    else:
        main()
