"""Reading files: time and memory of `discreet.read`, beside pandas, in one run.

    python benchmarks/read.py                       10 million rows of parquet, in the order of users and shuffled
    python benchmarks/read.py --text --rows 2000000 the same rows as CSV, as CSV with quoted ids, and as JSON lines
    python benchmarks/read.py --rows 100000000      100 million rows, by discreet alone unless --pandas

Each measurement is a process of its own, that first reads a small file of the same kind, so that neither
imports nor first calls count. The two readers take turns, and the smallest time of each counts: what another
program on the machine takes is not theirs. Memory is the highest resident memory during the read less that
before it; "finished" is the size of the finished arrays, and ids.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

CHILD = "--child"
COLUMNS = {"user": "user", "item": "item", "value": "rating", "time": None}


def resident() -> float:
    """Megabytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


class Peak:
    """The highest resident memory while a block runs, above that before it."""

    def __enter__(self) -> "Peak":
        self._base, self.megabytes, self._running = resident(), 0.0, True
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while self._running:
            self.megabytes = max(self.megabytes, resident() - self._base)
            time.sleep(0.002)

    def __exit__(self, *error: object) -> None:
        self._running = False
        self._thread.join()


def with_pandas(path: str) -> float:
    """Read a file and factorize both columns of ids; the size of what that gives, in megabytes."""
    import pandas as pd

    readers = {".parquet": pd.read_parquet, ".csv": pd.read_csv, ".jsonl": lambda file: pd.read_json(file, lines=True)}
    frame = readers[Path(path).suffix](path)
    numbers = [pd.factorize(frame[name])[0] for name in ("user", "item")]
    return float(sum(column.nbytes for column in numbers) + frame["rating"].nbytes) / 1e6


def with_discreet(path: str) -> float:
    """Read and index a file; the size of what that gives, in megabytes."""
    import discreet

    ratings = discreet.read(path, **COLUMNS)  # type: ignore[arg-type]
    ids = ratings.users.to_arrow().nbytes + ratings.items.to_arrow().nbytes
    return float(ratings.indptr.nbytes + ratings.indices.nbytes + ratings.values.nbytes + ids) / 1e6


READERS = {"pandas": with_pandas, "discreet": with_discreet}


def child(reader: str, small: str, path: str) -> None:
    """One measurement, printed as JSON."""
    READERS[reader](small)
    with Peak() as peak:
        start = time.perf_counter()
        finished = READERS[reader](path)
        seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "peak": peak.megabytes, "finished": finished}))


def measure(reader: str, small: Path, path: Path) -> dict[str, float]:
    """One measurement in a process of its own."""
    command = [sys.executable, __file__, CHILD, reader, str(small), str(path)]
    result: dict[str, float] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return result


def write(folder: Path, rows: int) -> tuple[Path, dict[str, Path]]:
    """Make the files with the generator: a small one, and a large one in two orders."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from discreet.data.datasets import movielens_like

    def table(part: object, first_user: int = 0) -> pa.Table:
        whole = part.to_arrow()  # type: ignore[attr-defined]
        return whole.set_column(0, "user", pa.array(whole["user"].to_numpy() + first_user))

    pq.write_table(table(movielens_like(200, 100, 4000)), folder / "small.parquet")
    users, piece = 69_878, 10_000_000
    files = {"by user": folder / "by-user.parquet"}
    with pq.ParquetWriter(files["by user"], table(movielens_like(20, 30, 400)).schema) as writer:
        for at in range(-(-rows // piece)):  # like people again, with other ids
            size = min(piece, rows - at * piece)
            share = max(1, users * size // piece)
            writer.write_table(table(movielens_like(share, 10_677, size, random_state=at), at * users))
    if rows <= piece:
        files["shuffled"] = folder / "shuffled.parquet"
        whole = pq.read_table(files["by user"])
        pq.write_table(whole.take(pa.array(np.random.default_rng(0).permutation(rows))), files["shuffled"])
    return folder / "small.parquet", files


def as_text(folder: Path, parquet: Path, name: str) -> dict[str, Path]:
    """A file of parquet as text, in three ways."""
    import pandas as pd

    frame = pd.read_parquet(parquet)[["user", "item", "rating"]]
    files = {kind: folder / f"{name}{end}" for kind, end in (("CSV", ".csv"), ("JSON lines", ".jsonl"))}
    frame.to_csv(files["CSV"], index=False)
    frame.to_json(files["JSON lines"], orient="records", lines=True)
    files["CSV with quoted ids"] = folder / f"{name}-quoted.csv"
    frame.astype({"user": str, "item": str}).to_csv(files["CSV with quoted ids"], index=False, quoting=2)
    return files


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--pandas", action="store_true", help="beside pandas even above 10 million rows")
    parser.add_argument("--text", action="store_true", help="files of text in the place of parquet")
    arguments = parser.parse_args()
    beside = arguments.pandas or arguments.rows <= 10_000_000
    with tempfile.TemporaryDirectory() as name:
        start = time.perf_counter()
        small, files = write(Path(name), arguments.rows)
        print(f"{arguments.rows:,} rows generated and written in {time.perf_counter() - start:.0f} s", end="")
        print(" (at most 60)" if beside else "")
        if arguments.text:
            small = as_text(Path(name), small, "small")["CSV"]
            files = as_text(Path(name), files["by user"], "large")
        for order, path in files.items():
            runs: dict[str, list[dict[str, float]]] = {"pandas": [], "discreet": []}
            for _ in range(arguments.repeats):
                for reader in runs if beside else ("discreet",):
                    runs[reader].append(measure(reader, small, path))
            best = {reader: min(found, key=lambda run: run["seconds"]) for reader, found in runs.items() if found}
            ours = best["discreet"]
            peak = max(run["peak"] for run in runs["discreet"])
            print(
                f"{arguments.rows:,} rows, {order}"
                if arguments.text
                else f"{arguments.rows:,} rows of parquet, {order}"
            )
            for reader, run in best.items():
                print(f"  {reader:<9} {run['seconds']:6.2f} s   peak {run['peak']:7.0f} MB")
            if beside:
                ratio = ours["seconds"] / best["pandas"]["seconds"]
                print(
                    f"  time, discreet / pandas read + factorize: {ratio:.2f}{'' if arguments.text else ' (at most 1)'}"
                )
            print(f"  memory, highest peak / finished arrays of {ours['finished']:.0f} MB: ", end="")
            print(f"{peak / ours['finished']:.2f}{'' if arguments.text else ' (at most 2.5)'}")


if __name__ == "__main__":
    if sys.argv[1:2] == [CHILD]:
        child(*sys.argv[2:])
    else:
        main()
