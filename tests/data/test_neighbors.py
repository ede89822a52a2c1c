"""Neighboring files give neighboring tables: what one person adds changes nobody else's record.

Random files, to which one person's rows are added at random places. Then either every other record is identical,
or the reading is refused; and where the owner has said that bad rows are dropped, it is not refused either. See
docs/proofs/reading.md.
"""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

import discreet
from discreet.data.catalogue import Ids
from discreet.data.cleaning import Recipe
from discreet.data.sources import choose
from discreet.data.spark import divided, read_partition
from discreet.data.texts import Csv, Json
from discreet.errors import DataError

Record = dict[Any, dict[Any, tuple[float, Any]]]
PIECES = [
    "7", "007", "-7", "7.0", "1e3", "a", "A", "'a'", '"a"', "a b", " a", "é", "日本", "NA", "null", "true", "x,y",
    "x;y", "x\ty", '""', "#c", "2020-01-13", "01/02/2020", "=1+1", "𝄞", "\\7", "{}", "user", "u=1", "%20",
]  # fmt: skip
CELLS = [
    *PIECES, "", '"', '"""', ",", "\n", "\r", "\r\n", '",\n', "\0", "\ufeff", "nan", "inf", "-inf", "1e999", "9" * 30,
    "01/13/2020", "2020-02-30", "13/01/2020", "\u2028", "[1]", '{"user": 1}', "user,item,rating",
]  # fmt: skip
LINES = [
    b'"', b'""', b'",', b'","', b'evil,"', b'",5', b'evil,"x', b'x",5,6', b'"evil",x",5', b"evil,x,5,6,7,8", b"evil",
    b",", b",,,", b"\xff\xfe", b"evil,\xe9,5", b"\0", b"evil\r,x,5", b"\r", b"", b" ", b"user,item,rating", b"{", b"}",
    b'{"user": "evil"', b'{"user": "evil", "user": "bad", "item": 1, "rating": 2}', b"[" * 2000, b"null", b"1",
    b'{"user": ["evil"], "item": 1, "rating": 2}', b'{"user": "\\ud800", "item": 1, "rating": 2}',
    b'{"user": "evil", "item": -1, "rating": 4.5}', b'{"user": -1, "item": "x", "rating": "01/13/2020"}',
    b"\xef\xbb\xbfevil,x,5", b"evil;x;5", b"evil\tx\t5", b"evil|x|5",
]  # fmt: skip


@dataclass
class Case:
    """People's rows (user, item, rating, time), those of one more person, and how all of it is read."""

    people: list[tuple[Any, ...]]
    added: list[Any]  # rows, or lines as they are
    options: dict[str, Any]
    where: list[int]

    def rows(self, with_added: bool) -> list[Any]:
        rows: list[Any] = list(self.people)
        for row, at in zip(self.added, self.where, strict=True) if with_added else ():
            rows.insert(at, row)
        return rows


def case(rng: random.Random, *, raw: bool) -> Case:
    users = rng.sample(PIECES, rng.randint(2, 6))
    items = [str(n) for n in range(8)] if rng.random() < 0.5 else rng.sample(PIECES, 8)
    kind = rng.choice(["number", "iso", "slashes", "mixed"])
    people = [
        (user, rng.choice(items), rng.choice(["1", "2.5", "4", " 5", "5.0"]), _time(rng, kind))
        for user in users
        for _ in range(rng.randint(1, 5))
    ]
    rng.shuffle(people)
    added: list[Any] = []
    for _ in range(rng.randint(1, 4)):
        if raw and rng.random() < 0.6:
            added.append(rng.choice(LINES))
        else:
            cells = [rng.choice([*items, *CELLS]), rng.choice(["3", *CELLS]), rng.choice([_time(rng, "mixed"), *CELLS])]
            added.append((_name(rng, users), *cells))
    options: dict[str, Any] = {
        "on_invalid": rng.choice(["raise", "drop", "clip"]),
        "on_unknown": rng.choice(["raise", "drop"]),
        "on_duplicate": rng.choice(["last", "first", "mean", "sum"]),
        "value_range": rng.choice([None, (0, 50)]),
        "items": rng.choice(
            [None, items, [int(item) for item in items if item.isdecimal() and item[0] != "0"] or items]
        ),
        "time_format": "%d/%m/%Y" if kind == "slashes" and rng.random() < 0.7 else None,
    }
    if options["on_invalid"] == "clip" and options["value_range"] is None:
        options["on_invalid"] = "drop"
    where = [rng.randint(0, len(people)) for _ in added]
    return Case(people, added, options, where)


def _name(rng: random.Random, users: list[str]) -> str:
    """Rows of one more person, whose id may look like that of another."""
    user = rng.choice(users)
    alike = [
        f"\ufeff{user}",
        f"{user} ",
        f" {user}",
        f"{user}\u0301",
        f"'{user}'",
        f'"{user}"',
        f"{user}\0",
        f"0{user}",
    ]
    name = rng.choice([f"evil{rng.choice(CELLS)}", *alike])
    return f"evil{name}" if name in PIECES else name


def _time(rng: random.Random, kind: str) -> str:
    day = dt.datetime(2020, 1, 1) + dt.timedelta(days=rng.randint(0, 60), seconds=rng.randint(0, 86_399))
    kinds = {"number": str(rng.randint(1, 10**9)), "iso": day.isoformat(), "slashes": day.strftime("%d/%m/%Y")}
    return kinds[rng.choice(list(kinds)) if kind == "mixed" else kind]


# Ways to write rows down


def as_csv(rows: list[Any], rng: random.Random, folder: Path, kind: str = "csv") -> Path:
    separator = "\t" if kind == "tsv" else rng.choice(",;|\t")
    quoting = rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
    end = rng.choice(["\n", "\r\n"])
    out = io.BytesIO()
    out.write(separator.join(["user", "item", "rating", "timestamp"]).encode() + end.encode())
    for row in rows:
        if isinstance(row, bytes):
            out.write(row + end.encode())
        else:
            text = io.StringIO()
            # Without an escape character, the csv of Python 3.10 cannot write NUL.
            style = {"delimiter": separator, "quoting": quoting, "lineterminator": end, "escapechar": "\x01"}
            csv.writer(text, **style).writerow(row)
            out.write(text.getvalue().encode())
    return packed(out.getvalue(), f"r.{kind}", rng, folder)


def as_tsv(rows: list[Any], rng: random.Random, folder: Path) -> Path:
    return as_csv(rows, rng, folder, "tsv")


def as_json(rows: list[Any], rng: random.Random, folder: Path) -> Path:
    numeric = rng.random() < 0.5
    lines = []
    for row in rows:
        if isinstance(row, bytes):
            lines.append(row)
            continue
        cells: dict[str, Any] = dict(zip(("user", "item", "rating", "timestamp"), row, strict=True))
        if numeric and cells["rating"].replace(".", "").isdecimal() and cells["rating"].isascii():
            cells["rating"] = float(cells["rating"])
        lines.append(json.dumps(cells, ensure_ascii=rng.random() < 0.5).encode())
    return packed(b"\n".join([*lines, b""]), "r.jsonl", rng, folder)


def packed(content: bytes, name: str, rng: random.Random, folder: Path) -> Path:
    kind = rng.choice(["", "", ".gz", ".zst"])
    path = folder / (name + kind)
    content = gzip.compress(content) if kind == ".gz" else content
    content = zstandard.ZstdCompressor().compress(content) if kind == ".zst" else content
    path.write_bytes(content)
    return path


def as_parquet(rows: list[Any], rng: random.Random, folder: Path) -> Path:
    pq.write_table(as_arrow(rows, rng, folder), folder / "r.parquet", row_group_size=rng.randint(1, 9))
    return folder / "r.parquet"


def as_arrow(rows: list[Any], rng: random.Random, folder: Path) -> pa.Table:
    return pa.table(dict(zip(("user", "item", "rating", "timestamp"), map(list, zip(*rows, strict=True)), strict=True)))


def as_pandas(rows: list[Any], rng: random.Random, folder: Path) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["user", "item", "rating", "timestamp"], dtype=object)


def as_polars(rows: list[Any], rng: random.Random, folder: Path) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["user", "item", "rating", "timestamp"], orient="row")


def as_tuples(rows: list[Any], rng: random.Random, folder: Path) -> list[Any]:
    return rows


def as_mappings(rows: list[Any], rng: random.Random, folder: Path) -> list[Any]:
    return [dict(zip(("user", "item", "rating", "timestamp"), row, strict=True)) for row in rows]


def as_duckdb(rows: list[Any], rng: random.Random, folder: Path) -> Any:
    connection = duckdb.connect()
    connection.register("rows", as_arrow(rows, rng, folder))
    return connection.table("rows")


TEXT: list[Callable[..., Any]] = [as_csv, as_csv, as_tsv, as_json]
TABLES: list[Callable[..., Any]] = [as_parquet, as_arrow, as_pandas, as_polars, as_tuples, as_mappings, as_duckdb]


# What was read


def records(ratings: discreet.Interactions) -> Record:
    """Each person's items with values and times, whatever the order of people and items."""
    found: Record = {user: {} for user in ratings.users}
    table = ratings.to_arrow()
    times = table["timestamp"].to_pylist() if "timestamp" in table.column_names else [None] * len(table)
    for user, item, value, time in zip(
        table["user"].to_pylist(), table["item"].to_pylist(), table["rating"].to_pylist(), times, strict=True
    ):
        found[user][item] = (value, time)
    return found


def outcome(source: Any, options: dict[str, Any]) -> Record | DataError:
    named = {"time": "timestamp"} if isinstance(source, Path) and ".json" in source.name else {}
    try:
        return records(discreet.read(source, **(options | named)))
    except DataError as error:
        return error


def check(alone: Record | DataError, together: Record | DataError, made: Case, *, typed: bool) -> bool:
    """Whether all records were compared; raises if one has changed."""
    options = made.options
    if isinstance(alone, DataError):
        return False
    if isinstance(together, DataError):
        dropping = options["on_invalid"] != "raise" and (options["items"] is None or options["on_unknown"] == "drop")
        refused_sums = options["on_duplicate"] == "sum" and options["on_invalid"] == "raise"
        assert typed or not dropping or refused_sums, f"stopped by one person: {together}"
        return False
    assert {user: together.get(user) for user in alone} == alone
    added = {row[0] for row in made.added if isinstance(row, tuple)} | {"user", "-1", "1", "evil", "\ufeffevil"}
    assert set(together) - set(alone) <= added
    return True


def run(seed: int, n: int, folder: Path, patch: pytest.MonkeyPatch) -> int:
    """Read n pairs of neighboring files; how many of them were compared."""
    rng, compared = random.Random(seed), 0
    for _ in range(n):
        # Where blocks of lines, and batches of rows, begin and end must not matter.
        patch.setattr("discreet.data.texts.BLOCK", rng.choice([rng.randint(1, 200), 1 << 23]))
        patch.setattr("discreet.data.sources.BATCH", rng.choice([rng.randint(1, 9), 1 << 18]))
        text = rng.random() < 0.7
        write = rng.choice(TEXT if text else TABLES)
        made = case(rng, raw=text)
        if not text:
            made.added = [row for row in made.added if isinstance(row, tuple)] or [("evil", "7", "3", "5")]
            made.where = made.where[: len(made.added)]
        style = rng.randrange(1 << 30)
        alone, together = (
            outcome(write(made.rows(with_added), random.Random(style), folder), made.options)
            for with_added in (False, True)
        )
        compared += check(alone, together, made, typed=not text)
    return compared


@pytest.mark.parametrize("seed", range(2))
def test_neighboring_files_give_neighboring_tables(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(seed, 120, tmp_path, monkeypatch) > 30  # so many were compared; the others were refused


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_thousands_of_neighboring_files(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(seed, 300, tmp_path, monkeypatch) > 75


@pytest.mark.parametrize("seed", range(2))
def test_a_partition_of_spark_reads_lines_as_one_machine_does(seed: int, tmp_path: Path) -> None:
    """What Spark hands over are lines, in any order; they are divided and parsed by the same code."""
    rng, compared = random.Random(seed), 0
    for _ in range(60):
        made = case(rng, raw=True)
        bounds = (0.0, 50.0)
        policies: dict[str, Any] = {"on_duplicate": rng.choice(["mean", "sum"]), "on_invalid": "clip"}
        policies |= {"on_unknown": "drop", "time_format": made.options["time_format"]}
        items = made.options["items"] or [str(n) for n in range(8)]
        write, style = rng.choice(TEXT), rng.randrange(1 << 30)
        path = write(made.rows(True), random.Random(style), tmp_path)
        opened = {".gz": gzip.open, ".zst": zstandard.open}.get(path.suffix, open)
        with opened(path, "rb") as file:
            content = file.read()
        header, lines = content.partition(b"\n")[0], content.split(b"\n")[:-1]
        is_json = ".json" in path.name
        text: Csv | Json = Json() if is_json else Csv.of("r", header, "\t" if ".tsv" in path.name else None)
        names = text.names if isinstance(text, Csv) else None
        columns = choose(names, user="user", item="item", value="rating", time="timestamp")
        rng.shuffle(lines)
        batch = pa.RecordBatch.from_arrays([pa.array(lines, pa.binary()).view(pa.string())], names=["value"])
        rows = divided(batch, text, columns.wanted(lenient=True))
        there, _ = read_partition(Recipe(columns, Ids(items), bounds, **policies), [rows])
        here = outcome(path, policies | {"value_range": bounds, "items": items, "time": "timestamp"})
        if isinstance(here, DataError):  # no row is left
            assert there is None or not len(there)
            continue
        assert there is not None
        assert {user: {item: cell[0] for item, cell in row.items()} for user, row in here.items()} == {
            user: {item: cell[0] for item, cell in row.items()} for user, row in records(there).items() if row
        }
        compared += 1
    assert compared > 20
