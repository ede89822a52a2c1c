"""Rows of any order and size become the same compressed rows as plain loops make of them."""

from __future__ import annotations

import datetime as dt
import io
import math
import sqlite3
import sys
import uuid
from collections.abc import Hashable
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discreet
from discreet import parallel
from discreet.data import assembly, sources
from discreet.data.assembly import Numbering
from discreet.errors import DataError
from tests.data.conftest import check_sound

REPEATS = [("a", "x", 1.0, 30), ("b", "x", 5.0, 1), ("a", "x", 4.0, 10), ("a", "x", 2.0, 20), ("a", "y", 3.0, 5)]


@pytest.mark.parametrize(
    ("policy", "by_row", "by_time"), [("last", 2.0, 1.0), ("first", 1.0, 4.0), ("mean", 7 / 3, 7 / 3), ("sum", 7, 7)]
)
def test_repeated_pairs(policy: str, by_row: float, by_time: float) -> None:
    timed = discreet.read(REPEATS, on_duplicate=policy)
    plain = discreet.read([row[:3] for row in REPEATS], on_duplicate=policy)
    for ratings, expected in ((timed, by_time), (plain, by_row)):
        assert ratings.history("a") == pytest.approx({"x": expected, "y": 3.0})
        assert ratings.history("b") == {"x": 5.0}
        assert ratings.report.repeated == 2
    assert timed.times is not None
    assert timed.times[0] == (10 if policy == "first" else 30)


def test_the_default_policy_is_last_and_raise_names_the_pair() -> None:
    assert discreet.read(REPEATS) == discreet.read(REPEATS, on_duplicate="last")
    with pytest.raises(DataError, match=r"user 'a' has item 'x' more than once.*on_duplicate='last'"):
        discreet.read(REPEATS, on_duplicate="raise")


def test_users_without_a_row_are_no_users() -> None:
    rows = [("ann", "x", 5.0), ("ann", "x", 5.0), ("bob", "x", 3.0)]
    ratings = discreet.read(rows, on_duplicate="sum", on_invalid="drop", value_range=(0, 5))
    assert ratings.users.to_list() == ["bob"]
    huge = [("ann", "x", 3e38), ("ann", "x", 3e38), ("bob", "x", 3.0)]
    assert discreet.read(huge, on_duplicate="sum", on_invalid="drop").users.to_list() == ["bob"]
    with pytest.raises(DataError, match="sums lie outside"):
        discreet.read(huge, on_duplicate="sum")


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


def test_large_data_is_built_on_disk(frame: pd.DataFrame, tmp_path: Path) -> None:
    """With cache= the arrays are files from the start, and what comes back is mapped, not held."""
    ratings = discreet.read(frame, cache=tmp_path / "cache")
    assert all(isinstance(getattr(ratings, name).base, np.memmap) for name in ("indices", "values"))
    assert {path.name for path in (tmp_path / "cache").iterdir()} >= {"indptr.npy", "indices.npy", "values.npy"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_long_read_shows_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch, frame: pd.DataFrame) -> None:
    monkeypatch.setattr(parallel, "PATIENCE", 0)
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


def test_arrays_cannot_be_written_to(frame: pd.DataFrame) -> None:
    ratings = discreet.read(frame)
    for array in (ratings.indptr, ratings.indices, ratings.values):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_a_refused_row_ends_the_read_cleanly(tmp_path: Path, frame: pd.DataFrame) -> None:
    """While the next batch is being fetched in a thread."""
    bad = frame.copy()
    bad.loc[10, "rating"] = np.nan
    pq.write_table(pa.Table.from_pandas(bad), tmp_path / "r.parquet")
    bad.to_csv(tmp_path / "r.csv", index=False)
    for name, place in {"r.parquet": "row 11 of", "r.csv": "line 12 of"}.items():
        with pytest.raises(discreet.errors.DataError, match=place):
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


INTEGERS = st.integers(-(2**63), 2**63 - 1)
HUGE = st.integers(2**63, 2**64 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ID_KINDS = st.sampled_from([INTEGERS, HUGE, TEXT, st.uuids(), st.dates(), st.datetimes(), st.binary(max_size=6)])
VALUES = st.one_of(
    st.sampled_from([0.5, 1.0, 2.5, 5.0, math.nan, math.inf, -math.inf, None, -3.0, 1e308]), st.floats(0, 6, width=32)
)
LOW, HIGH = 0.5, 5.0


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[tuple[Any, Any, Any, int]], list[Any]]:
    """Rows over a few users and items, and a catalog that has some of the items and some others."""
    users = draw(st.lists(draw(ID_KINDS), min_size=1, max_size=6, unique=True))
    items = draw(st.lists(draw(ID_KINDS), min_size=1, max_size=8, unique=True))
    row = st.tuples(st.sampled_from(users), st.sampled_from(items), VALUES, st.integers(0, 3))
    rows = draw(st.lists(row, min_size=1, max_size=40))
    return rows, draw(st.permutations(items))[: draw(st.integers(1, len(items)))]


def by_hand(rows: list[Any], catalogue: list[Any], policy: str, invalid: str) -> dict[Hashable, dict[Hashable, float]]:
    """The same by plain loops: user -> item -> value."""
    seen: dict[Any, dict[Any, list[tuple[int, float]]]] = {}
    for user, item, value, time in rows:
        if value is None or math.isnan(value) or item not in catalogue:
            continue
        if not LOW <= value <= HIGH:
            if invalid == "drop":
                continue
            value = min(max(value, LOW), HIGH)  # noqa: PLW2901
        seen.setdefault(user, {}).setdefault(item, []).append((time, value))
    settled: dict[Any, dict[Any, float]] = {}
    for user, history in seen.items():
        for item, found in history.items():
            ordered = sorted(found, key=lambda pair: pair[0])  # stable
            values = [value for _, value in ordered]
            settled.setdefault(user, {})[item] = {
                "last": values[-1], "first": values[0], "mean": sum(values) / len(values),
                "sum": min(max(sum(values), LOW), HIGH),
            }[policy]  # fmt: skip
    return settled


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    table=tables(),
    policy=st.sampled_from(["last", "first", "mean", "sum"]),
    invalid=st.sampled_from(["drop", "clip"]),
    batch=st.integers(1, 12),
)
def test_reading_agrees_with_plain_loops(table: Any, policy: str, invalid: str, batch: int) -> None:
    rows, catalogue = table
    if policy == "sum":
        invalid = "clip"  # what a dropped sum means is tested by hand
    expected = by_hand(rows, catalogue, policy, invalid)
    options: dict[str, Any] = {
        "items": catalogue, "value_range": (LOW, HIGH), "on_duplicate": policy, "on_invalid": invalid,
        "on_unknown": "drop",
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("discreet.data.sources.BATCH", batch)
        patch.setattr("discreet.data.assembly.MERGE_AT", 3)
        patch.setattr("discreet.data.assembly.BLOCK", 5)
        patch.setattr("discreet.data.assembly.PAGE", 4)
        if not expected:
            with pytest.raises(DataError, match="is left"):
                discreet.read(rows, **options)
            return
        ratings = discreet.read(rows, **options)
        with TemporaryDirectory() as folder:
            assert discreet.read(rows, cache=Path(folder) / "cache", **options) == ratings
    assert ratings.users.to_list() == sorted(expected)
    assert ratings.items.to_list() == list(catalogue)
    for user, history in expected.items():
        assert ratings.history(user) == pytest.approx(history, rel=1e-6)
    check_sound(ratings)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(table=tables())
def test_any_table_is_read_or_refused_with_a_reason(table: Any) -> None:
    rows, catalogue = table
    try:
        ratings = discreet.read(rows, items=catalogue, value_range=(LOW, HIGH), on_duplicate="raise")
    except DataError as error:
        assert any(word in str(error) for word in ("on_invalid=", "on_duplicate=", "on_unknown=", "items="))  # noqa: PT017
    else:
        check_sound(ratings)
        assert len(ratings) == len(rows)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(table=tables(), data=st.data())
def test_the_order_of_rows_does_not_matter(table: Any, data: st.DataObject) -> None:
    rows = {(user, item): (user, item, 2.0) for user, item, _, _ in table[0]}
    shuffled = data.draw(st.permutations(list(rows.values())))
    assert discreet.read(shuffled) == discreet.read(list(rows.values()))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(table=tables())
def test_a_table_written_and_read_again_is_the_same(table: Any) -> None:
    ratings = discreet.read([(user, item, 1.5) for user, item, _, _ in table[0]])
    assert discreet.read(ratings.to_arrow()) == ratings
    assert discreet.read(ratings.to_frame("pandas")) == ratings
    text = {str(item): value for item, value in ratings.history(ratings.users[0]).items()}
    polars = discreet.read(ratings.to_frame("polars"))
    user = ratings.users[0]
    found = polars.history(str(user) if isinstance(user, uuid.UUID) else user)
    assert {str(item): value for item, value in found.items()} == text


@settings(max_examples=100, deadline=None, derandomize=True)
@given(batches=st.lists(st.lists(TEXT, min_size=1, max_size=5), min_size=1, max_size=8), merge_at=st.integers(1, 10))
def test_numbering_in_batches(batches: list[list[str]], merge_at: int) -> None:
    numbering = Numbering("user")
    local = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("discreet.data.assembly.MERGE_AT", merge_at)
        local = [numbering.add(pa.array(batch, pa.large_string()))[0] for batch in batches]
        ids = numbering.finish()
    assert ids.to_list() == sorted({one for batch in batches for one in batch}, key=lambda text: text.encode())
    for at, batch in enumerate(batches):
        assert [ids[int(n)] for n in numbering[at][local[at]]] == batch
