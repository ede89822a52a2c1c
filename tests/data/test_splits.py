"""Splits: no interaction in two parts, none lost, the same catalog, the sizes asked for."""

import datetime as dt
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discreet
from discreet import splits
from discreet.data.interactions import Interactions
from discreet.errors import DataError
from tests.data.conftest import check_sound


def pairs(part: Interactions) -> set[tuple[Any, Any, float]]:
    table = part.to_arrow().to_pydict()
    return set(zip(table["user"], table["item"], table["rating"], strict=True))


def check_partition(whole: Interactions, parts: tuple[Interactions, ...], complete: bool = True) -> None:
    found = [pairs(part) for part in parts]
    for part in parts:
        check_sound(part)
        assert part.catalogue == whole.catalogue
        assert part.value_range == whole.value_range
        assert part.public_inputs == whole.public_inputs
    assert sum(map(len, found)) == len(set().union(*found))  # none in two parts
    assert set().union(*found) <= pairs(whole)
    if complete:
        assert set().union(*found) == pairs(whole)


@st.composite
def tables(draw: st.DrawFn) -> Interactions:
    row = st.tuples(st.integers(0, 8), st.integers(0, 9), st.floats(0, 5, width=16), st.integers(0, 12))
    return discreet.read(draw(st.lists(row, min_size=1, max_size=60)), items=range(10), value_range=(0, 5))


SEEDS = st.integers(0, 2**32 - 1)
many = settings(max_examples=80, deadline=None, derandomize=True)


@many
@given(whole=tables(), valid=st.floats(0, 0.5), test=st.floats(0.01, 0.49), seed=SEEDS)
def test_holdout(whole: Interactions, valid: float, test: float, seed: int) -> None:
    parts = splits.holdout(whole, valid=valid, test=test, random_state=seed)
    check_partition(whole, parts)
    assert len(parts.valid) == round(len(whole) * valid)
    assert abs(len(parts.test) - len(whole) * test) <= 1
    assert all(part.users == whole.users for part in parts)
    assert parts == splits.holdout(whole, valid=valid, test=test, random_state=seed)


@many
@given(whole=tables(), k=st.integers(1, 3), valid=st.integers(0, 2), by=st.sampled_from(["time", "random"]), seed=SEEDS)
def test_leave_k_out(whole: Interactions, k: int, valid: int, by: str, seed: int) -> None:
    parts = splits.leave_k_out(whole, k, by=by, valid=valid, random_state=seed)
    check_partition(whole, parts)
    for user in range(whole.n_users):
        counts = [int(np.diff(part.indptr)[user]) for part in (whole, *parts)]
        enough = counts[0] > k + valid
        assert counts[1:] == ([counts[0] - k - valid, valid, k] if enough else [counts[0], 0, 0])
        if by == "time" and enough:
            times = [part.times[part.indptr[user] : part.indptr[user + 1]] for part in parts]  # type: ignore[index]
            assert times[0].max() <= times[2].min()
            if valid:
                assert times[0].max() <= times[1].min() <= times[1].max() <= times[2].min()


@many
@given(whole=tables(), valid=st.floats(0, 0.5), test=st.floats(0.01, 0.49))
def test_by_time(whole: Interactions, valid: float, test: float) -> None:
    parts = splits.by_time(whole, valid=valid, test=test)
    check_partition(whole, parts)
    times = [part.times for part in parts if part.times is not None and len(part)]
    for earlier, later in pairwise(times):
        assert earlier.max() < later.min()  # equal times stay together
    assert len(parts.test) <= round(len(whole) * (valid + test)) - round(len(whole) * valid)


@many
@given(whole=tables(), seed=SEEDS, only=st.booleans(), data=st.data())
def test_held_out_users(whole: Interactions, seed: int, only: bool, data: st.DataObject) -> None:
    eligible = int((np.diff(whole.indptr) >= 2).sum())
    if eligible < 3:
        with pytest.raises(DataError, match="cannot be held out"):
            splits.held_out_users(whole, valid=1, test=2, min_interactions=2)
        return
    valid = data.draw(st.integers(0, eligible - 2))
    test = data.draw(st.integers(1, eligible - 1 - valid))
    parts = splits.held_out_users(
        whole, valid=valid, test=test, target=0.5, min_interactions=2, train_items_only=only, random_state=seed
    )
    check_partition(whole, (parts.train, *parts.valid, *parts.test), complete=False)
    assert (parts.valid.query.n_users, parts.test.query.n_users) == (valid, test)
    assert parts.train.n_users == eligible - valid - test
    groups = [set(part.users) for part in (parts.train, parts.valid.query, parts.test.query)]
    assert sum(map(len, groups)) == len(set().union(*groups)) == eligible
    for query, target in (parts.valid, parts.test):
        assert query.users == target.users
        both = np.diff(query.indptr) + np.diff(target.indptr)
        assert (np.diff(target.indptr) == both // 2).all()
        if only:
            seen = set(parts.train.indices.tolist())
            assert set(query.indices.tolist()) | set(target.indices.tolist()) <= seen
        else:
            assert both.tolist() == [len(whole.history(user)) for user in query.users]


@pytest.fixture(scope="module")
def whole() -> Interactions:
    return discreet.datasets.movielens_like(300, 100, 8000, random_state=5)


def test_the_split_of_the_experiments(whole: Interactions) -> None:
    train, valid, test = discreet.splits.holdout(whole, valid=0.1, test=0.1, random_state=1234)
    assert (len(train), len(valid), len(test)) == (6400, 800, 800)
    other = splits.holdout(whole, valid=0.1, test=0.1, random_state=1235)
    assert pairs(other.test) != pairs(test)
    assert splits.holdout(whole, test=0.1, random_state=None).valid.n_users == 300


def test_holdout_is_uniform() -> None:
    whole = discreet.read([(user, item, 1.0) for user in range(5) for item in range(8)])
    hits = np.zeros(40)
    for seed in range(2000):
        train = splits.holdout(whole, test=0.25, random_state=seed).train
        hits[train.user_numbers().astype(int) * 8 + train.indices] += 1
    # each of 40 cells is in training 1500 times with standard deviation 19.4
    assert np.abs(hits - 1500).max() < 5 * 19.4


def test_the_protocol_of_liang(whole: Interactions) -> None:
    liked = whole.to_implicit(4)
    parts = splits.held_out_users(liked, valid=40, test=50, random_state=98765)
    enough = int((np.diff(liked.indptr) >= 5).sum())
    assert parts.train.n_users == enough - 90
    query, target = parts.test
    assert len(target) / (len(query) + len(target)) == pytest.approx(0.2, abs=0.06)
    assert parts == splits.held_out_users(liked, valid=40, test=50, random_state=98765)


def test_cuts_at_a_time() -> None:
    days = [dt.date(2020, 1, day) for day in (1, 2, 3, 4)]
    whole = discreet.read([("a", day, 1.0, time) for day, time in enumerate(days)])
    for at in (dt.date(2020, 1, 3), "2020-01-03"):
        parts = splits.by_time(whole, at=at)
        assert [len(part) for part in parts] == [2, 0, 2]
    parts = splits.by_time(whole, at=(dt.date(2020, 1, 2), dt.date(2020, 1, 4)))
    assert [len(part) for part in parts] == [1, 2, 1]
    numbers = discreet.read([("a", n, 1.0, n) for n in range(4)])
    assert [len(part) for part in splits.by_time(numbers, at=1)] == [1, 0, 3]
    with pytest.raises(DataError, match="at:"):
        splits.by_time(numbers, at=(3, 1))
    with pytest.raises(DataError, match="at:"):
        splits.by_time(whole, at="the third")


@pytest.mark.parametrize(("valid", "test"), [(0, 0), (0.5, 0.5), (-0.1, 0.2), (0, 1), (2, 0.1)])
def test_fractions_that_cannot_be(whole: Interactions, valid: float, test: float) -> None:
    with pytest.raises(DataError, match="shares are needed"):
        splits.holdout(whole, valid=valid, test=test)


def test_other_arguments_that_cannot_be(whole: Interactions) -> None:
    with pytest.raises(DataError, match="has no times"):
        splits.by_time(whole)
    with pytest.raises(DataError, match="has no times"):
        splits.leave_k_out(whole)
    with pytest.raises(DataError, match="by: 'time' or 'random'"):
        splits.leave_k_out(whole, by="luck")
    with pytest.raises(DataError, match="at least one"):
        splits.leave_k_out(whole, 0)
    with pytest.raises(DataError, match="target"):
        splits.held_out_users(whole, valid=1, test=1, target=1.5)


ODD = discreet.read([(u, i, 1.0, 10 * u + i) for u in range(8) for i in range(6)])
DATED = discreet.read([(u, u, 1.0, dt.datetime(1998, 1, 1 + u)) for u in range(8)])


@pytest.mark.parametrize(
    "at",
    ["1998-01-01", dt.datetime(1998, 1, 1), np.datetime64("1998-01-01"), ("a", "b"), float("nan"), [1, 2, 3], [2, 1]],
)
def test_a_time_of_another_kind(at: Any) -> None:
    with pytest.raises(DataError, match=r"^at: "):
        splits.by_time(ODD, at=at)


def test_times_in_other_forms() -> None:
    assert splits.by_time(ODD, at=[30, 50]) == splits.by_time(ODD, at=(np.int64(30), 50.0))
    moments: list[Any] = [
        "1998-01-04", dt.date(1998, 1, 4), dt.datetime(1998, 1, 4), np.datetime64("1998-01-04"),
        np.datetime64("1998-01-04T00:00:00"), np.datetime64("1998-01-04T00:00:00.000000000"),
    ]  # fmt: skip
    for moment in moments:
        assert len(splits.by_time(DATED, at=moment).test) == 5
    with pytest.raises(DataError, match=r"^at: "):
        splits.by_time(DATED, at="yesterday")


@pytest.mark.parametrize(
    ("split", "given"),
    [
        (splits.held_out_users, {"valid": 0.1, "test": 1}),
        (splits.held_out_users, {"valid": 1, "test": "1"}),
        (splits.held_out_users, {"valid": 1, "test": 1, "target": "0.2"}),
        (splits.held_out_users, {"valid": 1, "test": 1, "min_interactions": 2.5}),
        (splits.holdout, {"test": "x"}),
        (splits.holdout, {"valid": None}),
        (splits.by_time, {"test": "x"}),
        (splits.leave_k_out, {"k": 1.5}),
        (splits.leave_k_out, {"k": 1, "valid": "1"}),
    ],
)
def test_sizes_of_another_type(split: Any, given: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"whole number|needed, not|shares are needed"):
        split(ODD, **given)


def test_holdout_by_time_is_by_time() -> None:
    assert splits.holdout(ODD, by="time", valid=0.2, test=0.2) == splits.by_time(ODD, valid=0.2, test=0.2)
    with pytest.raises(DataError, match="'random' or 'time' is needed, not 'user'"):
        splits.holdout(ODD, by="user")  # type: ignore[arg-type]


def test_kfold_tests_on_each_interaction_once(whole: Interactions) -> None:
    folds = list(splits.kfold(whole, 3, random_state=1))
    assert len(folds) == 3
    for train, valid, test in folds:
        assert len(train) + len(test) == len(whole)
        assert not len(valid)
        assert abs(len(test) - len(whole) / 3) < 1
    tested = np.concatenate([test.user_numbers() * whole.n_items + test.indices for *_, test in folds])
    assert len(np.unique(tested)) == len(tested) == len(whole)
    for k in (1, len(whole) + 1):
        with pytest.raises(DataError, match="k must be a whole number from 2"):
            splits.kfold(whole, k)


def test_only_a_table_is_divided() -> None:
    frame: Any = discreet.read([(1, 2, 3.0)]).to_frame("pandas")
    for split in (splits.holdout, splits.by_time, splits.leave_k_out, splits.held_out_users):
        with pytest.raises(DataError, match=r"^ratings: Interactions were expected, not DataFrame; see discreet.read"):
            split(frame, valid=1, test=1) if split is splits.held_out_users else split(frame)
    with pytest.raises(DataError, match=r"^ratings: Interactions were expected"):
        next(splits.kfold(frame))
