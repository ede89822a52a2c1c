"""Interactions: other forms, parts, and the folder on disk."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import subprocess
import sys
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_matrix

import discreet
from discreet.data.catalogue import Ids
from discreet.data.interactions import Interactions
from discreet.errors import DataError
from tests.data.conftest import check_sound


@pytest.fixture(scope="module")
def ratings() -> Interactions:
    return discreet.datasets.movielens_like(120, 60, 2500, random_state=3)


def test_sizes_and_types(ratings: Interactions) -> None:
    assert (len(ratings), ratings.n_users, ratings.n_items) == (2500, 120, 60)
    assert (ratings.indptr.dtype, ratings.indices.dtype, ratings.values.dtype) == (np.int64, np.uint8, np.float32)
    assert repr(ratings) == "Interactions(2,500 of 120 users and 60 items)"
    check_sound(ratings)


@pytest.mark.parametrize(
    ("n_items", "kind"), [(256, np.uint8), (257, np.uint16), (65536, np.uint16), (65537, np.uint32)]
)
def test_the_smallest_type_that_fits(n_items: int, kind: type) -> None:
    ratings = discreet.read([(0, 0, 1.0), (0, n_items - 1, 2.0)], items=np.arange(n_items))
    assert ratings.indices.dtype == kind
    assert ratings.history(0) == {0: 1.0, n_items - 1: 2.0}


def test_the_transposed_table(ratings: Interactions) -> None:
    by_item = ratings.by_item
    assert ratings.by_item is by_item  # made once
    assert by_item.indptr.dtype == np.int64
    dense = ratings.to_scipy().toarray()
    assert isinstance(ratings.to_scipy(), csr_matrix)  # what implicit takes
    for item in range(ratings.n_items):
        row = slice(by_item.indptr[item], by_item.indptr[item + 1])
        assert (by_item.indices[row] == np.flatnonzero(dense[:, item])).all()
        assert (by_item.values[row] == dense[by_item.indices[row], item]).all()


def test_to_scipy_and_back(ratings: Interactions) -> None:
    again = discreet.read(ratings.to_scipy(), items=np.arange(60), value_range=ratings.value_range)
    assert np.array_equal(again.indices, ratings.indices)
    assert np.array_equal(again.values, ratings.values)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", None])
def test_to_frame_and_back(ratings: Interactions, library: str | None) -> None:
    frame = ratings.to_frame(library)
    again = discreet.read(frame, items=ratings.catalogue, value_range=(0.5, 5))
    assert again == ratings
    assert again.catalogue.column("title")[:2] == ["Film 1", "Film 2"]


def test_an_unknown_library(ratings: Interactions) -> None:
    with pytest.raises(DataError, match="one of pandas, polars, pyarrow"):
        ratings.to_frame("excel")


def test_parts_by_user_and_item(ratings: Interactions) -> None:
    some = ratings.for_users([7, 3, 3])
    assert some.users.to_list() == [3, 7]
    assert some.catalogue == ratings.catalogue
    assert some.history(7) == ratings.history(7)
    check_sound(some)
    few = ratings.for_items([5, 2])
    assert few.items.to_list() == [2, 5]
    assert few.n_users == ratings.n_users
    assert few.history(3) == {item: value for item, value in ratings.history(3).items() if item in (2, 5)}
    check_sound(few)
    for wrong in (lambda: ratings.for_users([999]), lambda: ratings.for_items([999]), lambda: ratings.history(999)):
        with pytest.raises(DataError, match="999"):
            wrong()


def test_where_keeps_users_and_catalogue(ratings: Interactions) -> None:
    high = ratings.where(ratings.values >= 4)
    assert high.users == ratings.users
    assert (high.values >= 4).all()
    check_sound(high)
    with pytest.raises(DataError, match="mask"):
        ratings.where(np.ones(3, dtype=bool))


def test_implicit_and_rescaled(ratings: Interactions) -> None:
    liked = ratings.to_implicit(4)
    assert liked.implicit
    assert set(liked.values.tolist()) == {1.0}
    assert len(liked) == int((ratings.values >= 4).sum())
    assert len(ratings.to_implicit()) == len(ratings)
    scaled = ratings.rescale(0, 1)
    assert scaled.value_range == (0.0, 1.0)
    assert scaled.values == pytest.approx((ratings.values - 0.5) / 4.5, abs=1e-6)
    with pytest.raises(discreet.errors.NotPublic):
        discreet.read([(1, 1, 1.0)]).rescale(0, 1)


def test_describe_is_for_the_owner_and_right(ratings: Interactions) -> None:
    described = ratings.describe()
    assert described["interactions"] == 2500
    assert described["per user"]["mean"] == pytest.approx(2500 / 120)
    assert described["per item"]["max"] == np.bincount(ratings.indices).max()
    assert described["values"]["std"] == pytest.approx(ratings.values.std(), rel=1e-5)
    assert str(described).startswith("For the owner's eyes")
    assert "0.5 to 5" in str(described)
    timed = discreet.read([(1, 1, 1.0, 7), (1, 2, 1.0, 3)])
    assert timed.describe()["times"] == {"from": "3", "to": "7"}


@pytest.mark.parametrize(("scale", "unit"), [(1, "seconds"), (1.0, "seconds"), (1000, "milliseconds")])
def test_times_since_1970_are_described_as_dates(scale: float, unit: str) -> None:
    def described(first: float, last: float) -> Any:
        frame = {"user": ["a", "b"], "item": ["x", "x"], "rating": [1.0, 2.0], "timestamp": [first, last]}
        return discreet.read(pa.table(frame)).describe()

    times = {"from": "1997-09-20", "to": "1998-04-22", "read as": f"{unit} since 1970"}
    found = described(874_724_710 * scale, 893_286_638 * scale)
    assert found["times"] == times
    assert f"from 1997-09-20, to 1998-04-22, read as {unit} since 1970" in str(found)
    assert described(0 * scale, 874_724_710 * scale)["times"]["from"] in ("0", "0.0")  # perhaps not a date


def test_equality_looks_at_everything(ratings: Interactions) -> None:
    rows = [("a", "x", 1.0, 5), ("b", "y", 2.0, 6)]
    base = discreet.read(rows)
    assert base == discreet.read(rows)
    assert base != discreet.read([row[:3] for row in rows])
    assert base != discreet.read([("a", "x", 1.0, 5), ("b", "y", 2.0, 7)])
    assert base != discreet.read([("a", "x", 1.0, 5), ("c", "y", 2.0, 6)])
    assert base != discreet.read(rows, items=["x", "y", "z"])
    assert base != discreet.read(rows, value_range=(1, 5))
    assert base != "something else"


def test_the_folder_on_disk_is_mapped_not_read(ratings: Interactions, tmp_path: Path) -> None:
    ratings.to_disk(tmp_path / "new" / "cache")
    again = Interactions.from_disk(tmp_path / "new" / "cache")
    assert again == ratings
    assert again.public_inputs == ratings.public_inputs
    assert isinstance(again.indices, np.memmap)
    assert isinstance(again.values, np.memmap)
    assert not list((tmp_path / "new").glob(".*"))  # nothing temporary is left


def test_writing_a_mapped_table_elsewhere_leaves_its_own_folder_alone(ratings: Interactions, tmp_path: Path) -> None:
    ratings.to_disk(tmp_path / "one")
    Interactions.from_disk(tmp_path / "one").to_disk(tmp_path / "two")
    assert Interactions.from_disk(tmp_path / "one") == Interactions.from_disk(tmp_path / "two") == ratings


def test_writing_again_replaces_the_folder(ratings: Interactions, tmp_path: Path) -> None:
    ratings.to_disk(tmp_path / "cache")
    part = ratings.for_users([1, 2])
    part.to_disk(tmp_path / "cache")
    assert Interactions.from_disk(tmp_path / "cache") == part
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "precious.txt").touch()
    with pytest.raises(DataError, match="is not one that discreet wrote"):
        part.to_disk(tmp_path / "other")
    assert (tmp_path / "other" / "precious.txt").exists()


def test_ids_and_times_of_any_type_survive(tmp_path: Path) -> None:

    rows = [
        (uuid.uuid5(uuid.NAMESPACE_DNS, str(n)), dt.date(2020, 1, n), float(n), dt.datetime(2021, 1, n)) for n in (1, 2)
    ]
    ratings = discreet.read(rows)
    ratings.to_disk(tmp_path / "cache")
    again = Interactions.from_disk(tmp_path / "cache")
    assert again == ratings
    assert again.to_arrow().equals(ratings.to_arrow())
    with pytest.raises(discreet.errors.NotPublic):
        again.require_public()


def test_reading_into_a_cache_gives_the_same(ratings: Interactions, tmp_path: Path) -> None:
    table = ratings.to_arrow()
    straight = discreet.read(table, value_range=(0.5, 5))
    cached = discreet.read(table, value_range=(0.5, 5), cache=tmp_path / "cache")
    assert cached == straight
    assert isinstance(cached.values, np.memmap)
    assert Interactions.from_disk(tmp_path / "cache") == straight
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache"]
    assert not list((tmp_path / "cache").glob("*.work"))
    (tmp_path / "mine").mkdir()
    with pytest.raises(DataError, match=r"cache: .* give another folder"):
        discreet.read(table, cache=tmp_path / "mine")


def test_an_error_leaves_the_old_cache_and_no_rubbish(tmp_path: Path) -> None:
    good = discreet.read([(1, 1, 1.0)], cache=tmp_path / "cache")
    with pytest.raises(DataError):
        discreet.read([(1, 1, float("nan"))], cache=tmp_path / "cache")
    assert Interactions.from_disk(tmp_path / "cache") == good
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


def test_damaged_folders_are_refused(ratings: Interactions, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    with pytest.raises(DataError, match="not a whole folder"):
        Interactions.from_disk(folder)
    ratings.to_disk(folder)
    about = json.loads((folder / "interactions.json").read_text())
    (folder / "interactions.json").write_text(json.dumps(about | {"format": 99}))
    with pytest.raises(DataError, match="format 99"):
        Interactions.from_disk(folder)
    for name, data in [
        ("values.npy", None),
        ("indices.npy", b"rubbish"),
        ("users.arrow", b""),
        ("interactions.json", b"{"),
    ]:
        ratings.to_disk(folder := tmp_path / f"cache-{name}")
        (folder / name).unlink() if data is None else (folder / name).write_bytes(data)
        with pytest.raises(DataError, match="not a whole folder"):
            Interactions.from_disk(folder)
    ratings.to_disk(folder := tmp_path / "mixed")
    np.save(folder / "values.npy", np.ones(3, np.float32))
    with pytest.raises(DataError, match="do not belong together"):
        Interactions.from_disk(folder)


def test_import_is_quick_and_light() -> None:
    import subprocess
    import sys

    heavy = ["pandas", "polars", "pyarrow", "duckdb", "narwhals", "scipy", "sqlalchemy", "pooch", "rich", "numpy"]
    code = f"import discreet, sys; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_importing_makes_nothing(tmp_path: Path) -> None:
    code = "import discreet; discreet.read, discreet.datasets, discreet.splits; discreet.datasets.CATALOG"
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, env=home)
    assert list(tmp_path.iterdir()) == []


def test_arrays_that_do_not_fit_are_refused() -> None:
    good = discreet.read([("a", "x", 1.0)])
    with pytest.raises(discreet.errors.DataError, match=r"make Interactions with discreet\.read"):
        discreet.Interactions(good.users, good.catalogue, good.indptr, good.indices, np.ones(2, np.float32))


def test_a_table_made_by_hand() -> None:
    """One id on two rows would be one person who counts twice. See also tests/models/als/test_model.py."""
    ratings = discreet.datasets.movielens_like(50, 20, 500, random_state=0)
    twice = np.arange(50)
    twice[7] = 6
    with pytest.raises(DataError, match=r"users: the id .* occurs more than once"):
        replace(ratings, users=Ids(twice))


@pytest.mark.parametrize("bounds", ["15", b"15", "1,5", 5, (1, 2, 3)])
def test_a_value_range_is_two_numbers(bounds: Any) -> None:
    with pytest.raises(DataError, match="value_range: two numbers"):
        discreet.read([(1, 2, 3.0)], value_range=bounds)


def test_a_part_is_pickled_without_the_ids_of_others() -> None:
    """An Arrow array is pickled whole, even if only a slice of it is asked for."""
    ids = [f"person-{n}" for n in range(1000, 2000)]
    table = discreet.read([(user, "x", 1.0) for user in ids], items=["x"], value_range=(0, 1))
    model = discreet.Popularity().fit(table)
    parts = [table.users[3:5], table[3:5], table.for_users(ids[3:5]), model.recommend(table[3:5]), table[3:5].users[:0]]
    assert all(b"person-1500" not in pickle.dumps(part) for part in parts)
    assert list(table.users[998:2:-400]) == ["person-1998", "person-1598", "person-1198"]
