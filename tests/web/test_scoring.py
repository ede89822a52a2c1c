"""The arrays of an exported site, and what storing them with less precision costs."""

import numpy as np
import pytest

from discreet.errors import DataError
from discreet.models.base import Model
from discreet.web.scoring import Pack, Scoring, loss, made_up
from discreet.web.site import export


def test_the_loss_is_measured_and_shrinks_with_precision(films: Model) -> None:
    exact, half, byte = (export(films, not_private=True, precision=name) for name in ("float32", "float16", "int8"))
    assert exact.loss["rms"] < 1e-6
    assert 1e-6 < half.loss["rms"] < byte.loss["rms"] < 0.05
    assert exact.loss["top_10_kept"] == 1
    assert byte.loss["top_10_kept"] > 0.9
    assert half.loss["largest"] >= half.loss["rms"]
    assert len(byte.files["model/arrays.bin"]) < len(exact.files["model/arrays.bin"])


def test_the_loss_sees_a_change(films: Model) -> None:
    scoring, people = Scoring.of(films), made_up(films)
    tables = scoring.describe()[1]
    columns = np.roll(tables["columns"], 1, axis=0)
    found = loss(scoring, scoring.with_tables({**tables, "columns": columns}), people)
    assert found["rms"] > 0.1
    assert found["top_10_kept"] < 0.9


def test_a_table_comes_back() -> None:
    rng = np.random.default_rng(0)
    table = rng.standard_normal((50, 6)) * np.array([100, 1, 1e-3, 0, 1, 1]) * 10.0 ** rng.integers(-3, 3, (50, 1))
    table[7] = 0
    for precision, tolerance in (("float32", 1e-6), ("float16", 1e-3), ("int8", 0.02)):
        restored = Pack().add_table("columns", table, precision)
        largest = np.abs(table / np.maximum(np.sqrt((table**2).mean(axis=0)), 1e-30)).max(axis=1, keepdims=True)
        size = np.maximum(np.abs(table), largest * np.sqrt((table**2).mean(axis=0)))
        assert (np.abs(restored - table) <= tolerance * size + 1e-7).all()


def test_arrays_begin_at_multiples_of_eight(films: Model) -> None:
    entries = export(films, not_private=True, precision="int8").manifest["arrays"].values()
    assert all(entry["offset"] % 8 == 0 for entry in entries)


def test_numbers_that_cannot_be_stored_are_refused() -> None:
    with pytest.raises(DataError, match="too large for float16"):
        Pack().add_table("columns", np.array([[1e5]]), "float16")
    with pytest.raises(DataError, match="not finite"):
        Pack().add("base", np.array([np.nan]))
