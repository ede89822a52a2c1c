"""Tables of many batches: order of arrival, both kinds of numbering, memory on disk, progress."""

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import discreet
from discreet.data import numbering, progress, sources

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
    found = ratings.to_frame("pandas")
    assert np.array_equal(found["user"], expected["user"])
    assert np.array_equal(found["item"], expected["item"])
    assert np.array_equal(found["rating"], expected["rating"])


@pytest.mark.parametrize("kind", ["csv", "parquet", "parquet parts", "json", "pandas", "select", "cache"])
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
    if kind == "select":
        source = f"SELECT * FROM '{source}'"
    if kind == "cache":
        options["cache"] = tmp_path / "cache"
    check(discreet.read(source, **options), expected)


@pytest.mark.parametrize("spread", [1, 1000, 10**15])
def test_both_kinds_of_numbering(frame: pd.DataFrame, expected: pd.DataFrame, spread: int) -> None:
    """Close integers are looked up, others hashed; the third goes over from one to the other midway."""
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


def test_the_table_of_close_integers_grows_both_ways() -> None:
    close = numbering.Close()
    batches = [np.array([50, 52]), np.array([10, 11, 10]), np.array([90]), np.array([51, 10])]
    local = [close.add(batch) for batch in batches]
    seen, maps = close.known()
    assert seen.tolist() == [10, 11, 50, 51, 52, 90]
    for batch, numbered, positions in zip(batches, local, maps, strict=True):
        assert numbered is not None
        assert seen[positions[numbered[0]]].tolist() == batch.tolist()
    assert close.add(np.array([2**40])) is None


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
