"""Tables of many batches: order of arrival, numbering, memory on disk, progress."""

import datetime as dt
import io
import sqlite3
import subprocess
import sys
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import discreet
from discreet.data import assembly, progress, sources
from discreet.data.catalogue import Ids

ROWS = 700_000


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Shuffled rows of several batches, a fifth of them repeats."""
    rng = np.random.default_rng(8)
    return pd.DataFrame({
        "user": rng.integers(0, 3000, ROWS), "item": rng.integers(0, 1000, ROWS),
        "rating": rng.integers(1, 11, ROWS) / 2,
    })  # fmt: skip


@pytest.fixture(scope="module")
def expected(frame: pd.DataFrame) -> pd.DataFrame:
    """What pandas makes of it: the last of each pair, sorted."""
    last = frame.drop_duplicates(["user", "item"], keep="last").sort_values(["user", "item"])
    return last.reset_index(drop=True)


def check(ratings: discreet.Interactions, expected: pd.DataFrame) -> None:
    assert ratings.report.repeated == ROWS - len(expected)
    found = ratings.to_frame("pandas").astype({"user": int, "item": int})  # text files have no types
    assert np.array_equal(found["user"], expected["user"])
    assert np.array_equal(found["item"], expected["item"])
    assert np.array_equal(found["rating"], expected["rating"])


@pytest.mark.parametrize("kind", ["csv", "parquet", "parquet parts", "json", "pandas", "cache"])
def test_the_last_of_repeats_wins(frame: pd.DataFrame, expected: pd.DataFrame, kind: str, tmp_path: Path) -> None:
    source: Any = tmp_path / f"r.{kind}"
    options: dict[str, Any] = {}
    if kind == "csv":
        frame.to_csv(source, index=False)
    elif kind == "json":
        frame.to_json(source, orient="records", lines=True)
    elif kind == "parquet parts":
        for part in range(4):
            frame[part * ROWS // 4 : (part + 1) * ROWS // 4].to_parquet(tmp_path / f"part{part}.parquet")
        source = str(tmp_path / "part*.parquet")
    elif kind == "pandas":
        source = frame
    else:
        source = tmp_path / "r.parquet"
        frame.to_parquet(source, row_group_size=100_000)
    if kind == "cache":
        options["cache"] = tmp_path / "cache"
    check(discreet.read(source, **options), expected)


@pytest.mark.parametrize("spread", [1, 1000, 10**15])
def test_ids_close_together_and_far_apart(frame: pd.DataFrame, expected: pd.DataFrame, spread: int) -> None:
    wide = frame.assign(user=frame["user"] * spread - 5)
    if spread > 1000:
        wide = frame.assign(user=np.where(np.arange(ROWS) < 400_000, frame["user"], frame["user"] * spread))
        expected = wide.drop_duplicates(["user", "item"], keep="last").sort_values(["user", "item"])
    else:
        expected = expected.assign(user=expected["user"] * spread - 5)
    check(discreet.read(wide), expected)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint32", "int64", "uint64"])
def test_extreme_integers(kind: str) -> None:
    limits = np.iinfo(kind)
    ids = np.array([limits.max, limits.min, limits.max - 1, limits.min + 1], dtype=kind)
    ratings = discreet.read(pa.table({"user": ids, "item": ids[::-1], "rating": np.arange(4.0)}))
    assert ratings.users.to_list() == sorted(ids.tolist())
    for at, one in enumerate(ids.tolist()):
        assert ratings.history(one) == {ids[::-1].tolist()[at]: float(at)}


def test_large_data_is_built_on_disk(frame: pd.DataFrame, tmp_path: Path) -> None:
    """With cache= the arrays are files from the start, and what comes back is mapped, not held."""
    ratings = discreet.read(frame, cache=tmp_path / "cache")
    assert all(isinstance(getattr(ratings, name).base, np.memmap) for name in ("indices", "values"))
    assert {path.name for path in (tmp_path / "cache").iterdir()} >= {"indptr.npy", "indices.npy", "values.npy"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_long_read_shows_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch, frame: pd.DataFrame) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0)
    monkeypatch.setattr(sources, "BATCH", 50_000)
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    discreet.read(frame)
    assert "reading a pandas DataFrame" in sys.stderr.getvalue()  # type: ignore[attr-defined]
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    discreet.read(frame)
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]


def test_a_short_read_shows_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    discreet.read([(1, 2, 3.0)])
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]


def test_importing_makes_nothing(tmp_path: Path) -> None:
    code = "import discreet; discreet.read, discreet.datasets, discreet.splits; discreet.datasets.CATALOG"
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, env=home)
    assert list(tmp_path.iterdir()) == []


def test_a_set_of_items_has_an_order_of_its_own() -> None:
    ratings = discreet.read([("a", "x", 1.0)], items={"z", "x", "y"})
    assert ratings.items.to_list() == ["x", "y", "z"]


def test_arrays_cannot_be_written_to(frame: pd.DataFrame) -> None:
    ratings = discreet.read(frame)
    for array in (ratings.indptr, ratings.indices, ratings.values):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_arrays_that_do_not_fit_are_refused() -> None:
    good = discreet.read([("a", "x", 1.0)])
    with pytest.raises(discreet.errors.DataError, match=r"make Interactions with discreet\.read"):
        discreet.Interactions(good.users, good.catalogue, good.indptr, good.indices, np.ones(2, np.float32))


def test_a_refused_row_ends_the_read_cleanly(tmp_path: Path, frame: pd.DataFrame) -> None:
    """While the next batch is being fetched in a thread."""
    bad = frame.copy()
    bad.loc[10, "rating"] = np.nan
    pq.write_table(pa.Table.from_pandas(bad), tmp_path / "r.parquet")
    bad.to_csv(tmp_path / "r.csv", index=False)
    for name in ("r.parquet", "r.csv"):
        with pytest.raises(discreet.errors.DataError, match="row 11"):
            discreet.read(tmp_path / name)


@pytest.mark.parametrize(
    ("later", "passes"), [("5", False), (2.5, False), (7, True), (2**63, False), (dt.date(2020, 1, 1), False)]
)
def test_ids_that_change_their_type_midway(later: Any, passes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BATCH", 2)
    rows = [(5, "x", 1.0), (6, "x", 1.0), (later, "x", 1.0)]
    if passes:
        assert len(discreet.read(rows)) == 3
    else:
        with pytest.raises(discreet.errors.DataError, match=r"ids change from int64|64 bits"):
            discreet.read(rows)


def test_values_that_change_their_type_midway(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Arrow would cut 4.5 to 4 to make it fit a column that began with integers."""
    monkeypatch.setattr(sources, "BATCH", 2)
    monkeypatch.setattr("discreet.data.sql.ROWS_AT_A_TIME", 2)
    rows: list[Any] = [
        (1, "x", 4, 1),
        (2, "x", 3, 2),
        (3, "x", 4.5, 3),
        (4, "x", True, 4),
        (5, "x", Decimal("2.25"), 5),
    ]
    assert discreet.read(rows).values.tolist() == [4.0, 3.0, 4.5, 1.0, 2.25]
    connection = sqlite3.connect(tmp_path / "r.db")
    connection.execute("CREATE TABLE r (user, item, rating, time)")
    connection.executemany("INSERT INTO r VALUES (?, ?, ?, ?)", rows[:3])
    connection.commit()
    connection.close()
    ratings = discreet.read("SELECT * FROM r", connection=f"sqlite:///{tmp_path / 'r.db'}")
    assert ratings.values.tolist() == [4.0, 3.0, 4.5]
    late = [(1, "x", 1.0, 1), (2, "x", 1.0, 2), (3, "x", 1.0, 2.5)]
    with pytest.raises(discreet.errors.DataError, match="time: it changes from int64 to double"):
        discreet.read(late)


def test_integers_of_two_widths_midway() -> None:
    batches = [pa.table({"user": pa.array([1, 2], kind), "item": ["x", "y"]}) for kind in (pa.int64(), pa.int16())]
    wide = sources.Table("two", ["user", "item"], lambda wanted: (b for t in batches for b in t.to_batches()))
    assert discreet.read(wide).users.to_list() == [1, 2]


def test_stable_order_with_keys_that_leave_no_room_for_positions() -> None:
    key = np.random.default_rng(0).integers(0, 50, 1000).astype(np.uint64)
    expected = np.argsort(key, kind="stable")
    for bound in (50, 2**62):
        assert np.array_equal(assembly._stable_order(key, bound), expected)


@pytest.mark.parametrize("ids", [[3, 1], ["b", "a"], [uuid.UUID(int=3), uuid.UUID(int=1)], [dt.date(2020, 1, 1)]])
def test_ids_as_arrays_and_lists(ids: list[Any]) -> None:
    kept = Ids(ids)
    assert [str(one) for one in kept.to_numpy()] == [str(one) for one in ids]
    assert kept.to_list() == ids
    assert kept == Ids(ids)
    assert kept != Ids(ids[:-1])
    assert ids[0] in kept
    assert "none" not in kept
    assert "ids of type" in repr(kept)


def test_catalogues_as_a_person_sees_them() -> None:
    catalogue = discreet.Catalogue(["x", "y"], pa.table({"title": ["A", "B"]}))
    assert repr(catalogue) == "Catalogue of 2 items with title (given)"
    assert "x" in catalogue
    assert repr(discreet.read([("a", "x", 1.0)]).catalogue) == "Catalogue of 1 items (not declared public)"
    with pytest.raises(discreet.errors.DataError, match="1 rows of columns for 2 items"):
        discreet.Catalogue(["x", "y"], pa.table({"title": ["A"]}))


def test_a_frame_library_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    ratings = discreet.read([("a", "x", 1.0)])
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(discreet.errors.DataError, match="pip install polars"):
        ratings.to_frame("polars")
