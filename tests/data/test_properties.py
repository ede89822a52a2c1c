"""Random tables: with repeats, NaN, unknown items, users without a row left, unicode and huge ids."""

import math
import uuid
from collections.abc import Hashable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discreet
from discreet.data.assembly import Numbering
from discreet.data.catalogue import Ids
from discreet.errors import DataError

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


def check_sound(ratings: discreet.Interactions) -> None:
    """What every model may rely on."""
    assert ratings.indptr[0] == 0
    assert ratings.indptr[-1] == len(ratings) == len(ratings.values)
    assert (np.diff(ratings.indptr) >= 0).all()
    assert np.isfinite(ratings.values).all()
    if ratings.value_range is not None:
        assert (ratings.values >= ratings.value_range[0]).all()
        assert (ratings.values <= ratings.value_range[1]).all()
    for user in range(ratings.n_users):
        items = ratings.indices[ratings.indptr[user] : ratings.indptr[user + 1]]
        assert (np.diff(items.astype(np.int64)) > 0).all()  # increasing, none twice
    assert ratings.n_items == 0 or not len(ratings) or ratings.indices.max() < ratings.n_items


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


@settings(max_examples=60, deadline=None, derandomize=True)
@given(ids=st.lists(st.one_of(TEXT), unique=True, max_size=20), others=st.lists(TEXT, max_size=20))
def test_ids_and_numbers(ids: list[str], others: list[str]) -> None:
    kept = Ids(pa.array(ids, pa.large_string()))
    assert kept.numbers(pa.array(others, pa.large_string())).tolist() == [
        ids.index(other) if other in ids else -1 for other in others
    ]
    assert [kept.number(one) for one in ids] == list(range(len(ids)))
    assert list(kept) == ids
    assert kept[: len(ids) // 2].to_list() == ids[: len(ids) // 2]
