"""How fast DPALS is and how much memory it takes, beside cmfrec's exact ALS, which is not private, in one run.

    python benchmarks/dpals_speed.py                              all but the largest tables: some twenty minutes
    python benchmarks/dpals_speed.py --parts reading memory       some of it
    python benchmarks/dpals_speed.py --out docs/results/dpals-speed.json

Generated data of MovieLens-10M's size, two threads. A sweep is one step: all users, then all items. Each model is
fitted for one step and for two; the difference is the time of a sweep without preparing the data (at high ranks, where
that is little, whole fits of one step are compared). What is compared takes turns, and the smallest time of each
counts: on a shared machine the rest measures what others do. For the same reason the time of the processor, of all
threads together, stands in brackets beside that of the clock. cmfrec computes in float32, without biases. The parts:

    sweep      DPALS at epsilon 1, as it is and with 32 columns, against cmfrec at rank 32
    published  DPALS as published, with k = 50 items of a user and with all of them, against cmfrec at the same rank
    noise      the share of releases (noise, and the ledger's books) in a fit
    reading    a default fit against reading and indexing the same ratings from a file
    memory     the highest resident memory of a fit, in a process of its own, above that with the data loaded
    linear     a default fit on more and more ratings: the exponent of its time (--full: up to 100 million)
    ml-1m      a default fit of three steps on MovieLens 1M
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the libraries have threads of their own

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import discreet
from discreet.data.catalogue import Catalogue
from discreet.errors import DiscreetError
from discreet.privacy.ledger import Reservation
from read import Peak

THREADS = 2
CHILD = "--child"
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
USERS, ITEMS, RATINGS = 69_878, 10_677, 10_000_000  # of MovieLens 10M
COLUMNS = 32
SIZES = (1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000)
HIGH = 64  # rank from which whole fits are compared
PUBLISHED: dict[str, dict[str, Any]] = {
    "k = 50": {"max_items": 50},
    "all items": {"max_items": ITEMS, "user_items": "all"},
}
Figures = dict[str, Any]


def table(ratings: int = RATINGS) -> discreet.Interactions:
    """Generated ratings, with users in proportion."""
    return discreet.datasets.movielens_like(USERS * ratings // RATINGS, ITEMS, ratings, random_state=0)


def with_features(data: discreet.Interactions, n: int) -> discreet.Interactions:
    """The same ratings, of items of which so many numbers are publicly known: as many more columns for DPALS."""
    import pyarrow as pa

    numbers = np.random.default_rng(0).standard_normal((n, data.n_items))
    columns = pa.table({f"f{i}": column for i, column in enumerate(numbers)})
    return replace(data, catalogue=Catalogue(data.items, columns))


def dpals(data: discreet.Interactions, steps: int | None, features: Sequence[str] = ()) -> None:
    """Fit the default model."""
    discreet.DPALS(**BUDGET, n_steps=steps, features=list(features) or None, n_jobs=THREADS).fit(data)


def published(data: discreet.Interactions, rank: int, settings: dict[str, Any], steps: int) -> None:
    """Fit the model as published, to all items."""
    settings = {**BUDGET, "item_fraction": 1.0, **settings}
    discreet.DPALS.as_published(**settings, rank=rank, n_steps=steps, n_jobs=THREADS).fit(data)


def cmfrec_exact(matrix: Any, rank: int, steps: int) -> None:
    """Fit cmfrec's exact ALS."""
    import cmfrec

    settings: dict[str, Any] = {"user_bias": False, "item_bias": False, "use_float": True, "nthreads": THREADS}
    model = cmfrec.CMF(
        k=rank,
        niter=steps,
        use_cg=False,
        finalize_chol=False,
        lambda_=5.0,
        verbose=False,
        precompute_for_predictions=False,
        **settings,
    )
    model.fit(matrix)


@dataclass(frozen=True)
class Time:
    """Seconds by the clock, and of the processor."""

    clock: float
    processor: float

    def __sub__(self, other: "Time") -> "Time":
        return Time(self.clock - other.clock, self.processor - other.processor)

    def __truediv__(self, other: "Time") -> "Time":
        return Time(self.clock / other.clock, self.processor / other.processor)

    def __str__(self) -> str:
        return f"{self.clock:.2f} ({self.processor:.2f})"


def seconds(work: Callable[[], object]) -> Time:
    """How long it takes."""
    start, cpu = time.perf_counter(), time.process_time()
    work()
    return Time(time.perf_counter() - start, time.process_time() - cpu)


def best(works: Sequence[Callable[[], object]], rounds: int) -> list[Time]:
    """The smallest time of each; they take turns."""
    turns = [[seconds(work) for work in works] for _ in range(rounds)]
    return [Time(min(t.clock for t in own), min(t.processor for t in own)) for own in zip(*turns, strict=True)]


def sweeps(fits: Mapping[str, Callable[[int], None]], rounds: int, *, whole: bool = False) -> dict[str, Time]:
    """Seconds per step of each: of fits of one step and of two, which take turns; or of whole fits of one step."""
    works = [partial(fit, steps) for fit in fits.values() for steps in ((1,) if whole else (1, 2))]
    times = best(works, rounds)
    return dict(
        zip(
            fits, times if whole else [two - one for one, two in zip(times[::2], times[1::2], strict=True)], strict=True
        )
    )


def beside(found: dict[str, Time], base: str, limit: float) -> None:
    """Print times and their ratios to one of them."""
    for name, taken in found.items():
        print(f"  {name:<28}{taken!s:>18} s", end="" if name != base else "\n")
        if name != base:
            print(f", / {base}: {taken / found[base]} (at most {limit:g})", flush=True)


class Releases:
    """The time spent in releases while a block runs: noise, and the ledger's books."""

    def __enter__(self) -> "Releases":
        self.seconds, self._release = 0.0, Reservation.release

        def release(*arguments: Any, **named: Any) -> Any:
            start = time.perf_counter()
            try:
                return self._release(*arguments, **named)
            finally:
                self.seconds += time.perf_counter() - start

        Reservation.release = release  # type: ignore[method-assign]
        return self

    def __exit__(self, *error: object) -> None:
        Reservation.release = self._release  # type: ignore[method-assign]


# The parts


def sweep(options: argparse.Namespace) -> Figures:
    """One private sweep against cmfrec's."""
    data = table()
    names = [f"f{i}" for i in range(COLUMNS - 2)]  # two columns are there anyway
    fits = {
        "DPALS, 2 columns": partial(dpals, data),
        f"DPALS, {COLUMNS} columns": partial(dpals, with_features(data, COLUMNS - 2), features=names),
        "cmfrec": partial(cmfrec_exact, sp.coo_matrix(data.to_scipy()), COLUMNS),
    }
    found = sweeps(fits, options.rounds)
    beside(found, "cmfrec", 1)
    return found


def as_published(options: argparse.Namespace) -> Figures:
    """A sweep of the model as published against cmfrec's."""
    data, results = table(), {}
    matrix = sp.coo_matrix(data.to_scipy())
    for rank in options.ranks:
        fits = {name: partial(published, data, rank, settings) for name, settings in PUBLISHED.items()}
        fits["cmfrec"] = partial(cmfrec_exact, matrix, rank)
        high = rank >= HIGH
        print(f"  rank {rank}{', whole fits of one step' if high else ''}")
        results[f"rank {rank}"] = sweeps(fits, 1 if high else options.rounds, whole=high)
        beside(results[f"rank {rank}"], "cmfrec", 1.5)
    return results


def noise(options: argparse.Namespace) -> Figures:
    """The share of releases in a fit."""
    from discreet.papers.dpals import TABLE_4

    data = table()
    models = {
        "DPALS": discreet.DPALS(**BUDGET, n_jobs=THREADS),
        "as published, rank 32": discreet.DPALS.as_published(**TABLE_4["ml-10m", 1], n_jobs=THREADS),
        "as published, rank 128": discreet.DPALS.as_published(**TABLE_4["ml-10m", 10], n_jobs=THREADS),
    }
    results = {}
    for name, model in models.items():
        with Releases() as releases:
            whole = seconds(partial(model.fit, data))
        share = releases.seconds / whole.clock
        print(f"  {name:<28}{releases.seconds:8.2f} of {whole} s: {share:.1%} (at most 20%)", flush=True)
        results[name] = {"releases": releases.seconds, "fit": whole}
    return results


def reading(options: argparse.Namespace) -> Figures:
    """A default fit against reading the file."""
    import pyarrow.csv
    import pyarrow.parquet

    data = table()
    columns: dict[str, Any] = {"user": "user", "item": "item", "value": "rating", "time": None}
    with tempfile.TemporaryDirectory() as name:
        files = {kind: Path(name) / f"ratings.{kind}" for kind in ("csv", "parquet")}
        pyarrow.csv.write_csv(data.to_arrow(), files["csv"])
        pyarrow.parquet.write_table(data.to_arrow(), files["parquet"])
        reads = [partial(discreet.read, str(path), **columns) for path in files.values()]
        *read, fit = best([*reads, partial(dpals, data, None)], options.rounds)
    for kind, taken in zip(files, read, strict=True):
        print(f"  a fit, {fit} s, / reading {kind}, {taken} s: {fit / taken} (under 4)")
    return {**dict(zip(files, read, strict=True)), "fit": fit}


def memory(options: argparse.Namespace) -> Figures:
    """The highest resident memory of fits."""
    results = {}
    for name in MEMORY:
        command = [sys.executable, __file__, CHILD, name]
        found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        print(
            f"  {name:<28}peak {found['peak']:.0f} MB; data {found['data']:.0f}, an item block {found['block']:.0f}: ",
            end="",
        )
        print(f"(peak - block) / data = {(found['peak'] - found['block']) / found['data']:.2f} (at most 3)", flush=True)
        results[name] = found
    return results


MEMORY: dict[str, tuple[int, Callable[[discreet.Interactions], None]]] = {
    "DPALS": (3, partial(dpals, steps=None)),
    "as published, rank 32": (33, partial(published, rank=32, settings=PUBLISHED["k = 50"], steps=2)),
}


def child(name: str) -> None:
    """One measurement of memory, printed as JSON; a small fit comes first, so that imports do not count."""
    width, fit = MEMORY[name]
    fit(discreet.datasets.movielens_like(200, 100, 4000))
    data = table()
    with Peak() as peak:
        fit(data)
    size = sum(array.nbytes for array in (data.indptr, data.indices, data.values)) / 1e6
    print(json.dumps({"peak": peak.megabytes, "data": size, "block": data.n_items * width**2 * 8 / 1e6}))


def linear(options: argparse.Namespace) -> Figures:
    """The exponent of time in the number of ratings."""
    sizes = [size for size in SIZES if size <= (SIZES[-1] if options.full else options.largest)]
    dpals(table(10_000), None)  # tables of the noise, and the check of this machine's BLAS, are made once
    taken = []
    for size in sizes:
        data = table(size)
        taken.append(best([partial(dpals, data, None)], options.rounds if size <= RATINGS else 1)[0])
        print(f"  {size:>12,} ratings{taken[-1]!s:>18} s", flush=True)
        del data
    slopes = [np.polyfit(np.log(sizes), np.log(times), 1)[0] for times in zip(*map(astuple, taken), strict=True)]
    exponent = Time(*map(float, slopes))
    print(f"  time grows as the number of ratings to the power {exponent} (about 1)")
    return {"ratings": sizes, "seconds": taken, "exponent": exponent}


def small(options: argparse.Namespace) -> Figures:
    """MovieLens 1M."""
    try:
        data = discreet.datasets.movielens("1m")
    except DiscreetError as error:
        print(f"  skipped: {error}")
        return {"skipped": "MovieLens 1M is not here"}
    taken = best([partial(dpals, data, 3)], options.rounds)[0]
    print(f"  three steps on {len(data):,} ratings: {taken} s (the code of 2023: about 5 s)")
    return {"seconds": taken}


PARTS: dict[str, Callable[[argparse.Namespace], Figures]] = {
    "sweep": sweep,
    "published": as_published,
    "noise": noise,
    "reading": reading,
    "memory": memory,
    "linear": linear,
    "ml-1m": small,
}


def plain(figures: Any) -> Any:
    """For JSON: times as [clock, processor], with three decimals."""
    if isinstance(figures, dict):
        return {name: plain(value) for name, value in figures.items()}
    if isinstance(figures, Time):
        return plain(list(astuple(figures)))
    if isinstance(figures, list):
        return [plain(value) for value in figures]
    return round(figures, 3) if isinstance(figures, float) else figures


def main() -> None:
    """Measure, print, and write what was measured over what an earlier run wrote of these parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--ranks", type=int, nargs="+", default=[32, 128], help="of the part 'published'")
    parser.add_argument("--largest", type=int, default=30_000_000, help="ratings, of the part 'linear'")
    parser.add_argument("--full", action="store_true", help="up to 100 million ratings, which takes 20 GB to make")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    written = json.loads(options.out.read_text("utf-8")) if options.out and options.out.exists() else {}
    figures = written.get("figures", {})
    for name in options.parts:
        print(f"{name}", flush=True)
        figures[name] = figures.get(name, {}) | plain(PARTS[name](options))
    if options.out:
        about = {"version": discreet.__version__, "command": "python benchmarks/dpals_speed.py", "threads": THREADS}
        document = {**about, "seconds": "[clock, processor]", "figures": figures}
        options.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == [CHILD]:
        child(*sys.argv[2:])
    else:
        main()
