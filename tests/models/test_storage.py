"""Saved models: what comes back, what cannot be saved, and what is never written."""

import datetime
import decimal
import json
import os
import struct
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import discreet
from discreet import Catalogue, Ledger
from discreet.errors import ModelError, NotFitted, PrivacyError
from discreet.models.storage import load, save
from tests import fresh
from tests.models.models import (
    NAMES,
    REGISTRY,
    TITLES,
    Fake,
    Other,
    certificate,
    edit,
    fitted,
    forged,
    refused,
    same,
    smuggle,
    tensors,
)

pytestmark = pytest.mark.usefixtures("fake_registry")


# -- what comes back


def test_a_model_comes_back_as_it_was(saved: Path) -> None:
    assert sorted(os.listdir(saved)) == NAMES
    again = load(saved)
    assert same(again, fitted())
    assert again.value_range_ == (0.5, 5.0)
    assert again.history_ == [1, 2.5, None, ["a", True], (3, ())]
    assert isinstance(again.weights, tuple)
    assert clone(again).get_params() == fitted().get_params()


@pytest.mark.parametrize("path", ["m", "m/", "deep/er/m"])
def test_paths_of_any_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.chdir(tmp_path)
    save(fitted(), path)
    save(fitted(1), path)
    assert same(load(path), fitted(1))
    assert sorted(os.listdir(path)) == NAMES


def test_a_link_to_a_folder_is_as_good_as_the_folder(saved: Path) -> None:
    link = saved.with_name("current")
    link.symlink_to("model")
    save(fitted(3), link)
    assert link.is_symlink()
    assert same(load(link), load(saved))
    assert same(load(link), fitted(3))


IDS: list[Any] = [
    [3, 1, 2],
    [2**63, 2**64 - 1],
    ["b", "", "ü\n"],
    [uuid.UUID(int=5), uuid.UUID(int=2**127)],
    [datetime.date(2024, 2, 29), datetime.date(1, 1, 1)],
    [datetime.datetime(2024, 1, 1, 5, 6, 7, 8), datetime.datetime(1969, 1, 1)],
    [b"\xff\x00", b""],
    [decimal.Decimal("1.50"), decimal.Decimal("-2")],
    [True, False],
    [0.5, -1.25],
    np.array([1, 2], np.int8),
    np.array(["2024-01-01", "2025-01-01"], "datetime64[s]"),
    pa.array([datetime.date(2024, 1, 1)], pa.date64()),
    pa.array([1, 2], pa.timestamp("s", "Europe/Oslo")),
    pa.array([1, 2], pa.time32("s")),
    pa.array([1, 2], pa.duration("ms")),
    pa.array([b"ab", b"cd"], pa.binary(2)),
    pa.array(["a", "b"]).dictionary_encode(),
    [uuid.UUID(int=i) for i in range(10_000)],
    [f"item {i}" for i in range(10_000)],
]


@pytest.mark.parametrize("ids", IDS, ids=lambda ids: str(Catalogue(ids).ids))
def test_ids_of_any_type_come_back(tmp_path: Path, ids: Any) -> None:
    model = Fake().fit(ids)
    save(model, tmp_path / "m")
    again = load(tmp_path / "m")
    assert same(again, model)
    assert again.catalogue_.ids.to_arrow().type == model.catalogue_.ids.to_arrow().type
    assert list(again.catalogue_.ids) == list(model.catalogue_.ids)


def test_columns_of_any_type_and_name_come_back(tmp_path: Path) -> None:
    moments = pa.array([1, None], pa.timestamp("s"))
    columns = {"item": ["x", "y"], "item_": [1, 2], "": [1.5, float("nan")], "a.b": [{"c": 1}, None], "when": moments}
    model = Fake().fit(
        [1, 2], pa.table({**columns, "nothing": pa.nulls(2), "view": pa.array(["x"] * 2, pa.string_view())})
    )
    save(model, tmp_path / "m")
    again = load(tmp_path / "m").catalogue_
    assert again.names == model.catalogue_.names
    assert again.columns.schema.types[4] == moments.type
    assert repr(again.columns.to_pylist()) == repr(model.catalogue_.columns.to_pylist())


@pytest.mark.parametrize("origin", ["given", "observed", None])
def test_the_origin_of_the_catalogue_comes_back(tmp_path: Path, origin: str | None) -> None:
    model = fitted()
    model.catalogue_ = Catalogue(["a", "b", "c"], origin=origin)
    save(model, tmp_path / "m")
    assert load(tmp_path / "m").catalogue_.origin == origin


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rank=st.integers(0, 5),
    ids=st.one_of(
        st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, max_size=6),
        st.lists(st.text(st.characters(codec="utf-8")), unique=True, max_size=6),
        st.lists(st.dates(), unique=True, max_size=6),
    ),
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.lists(inner).map(tuple)
            | st.dictionaries(st.text().filter(lambda key: key != "tuple"), inner)
        ),
        max_leaves=8,
    ),
)
def test_whatever_there_is_comes_back(tmp_path: Path, rank: int, ids: list[Any], value: Any) -> None:
    model = Fake(rank=rank, weights=value).fit(ids)
    save(model, tmp_path / "m")
    again = load(tmp_path / "m")
    assert same(again, model)
    assert repr(again.weights) == repr(value)


def test_arrays_of_other_layouts_are_stored_right(tmp_path: Path) -> None:
    model, plain = fitted(), fitted()
    model.item_factors_ = np.asfortranarray(plain.item_factors_).astype(">f4")
    model.item_bias_ = np.repeat(plain.item_bias_, 2)[::2]
    model.counts_ = plain.counts_.astype(">i8")[::-1][::-1]
    assert not model.item_factors_.flags.c_contiguous
    save(model, tmp_path / "m")
    save(plain, tmp_path / "plain")
    assert (tmp_path / "m/factors.safetensors").read_bytes() == (tmp_path / "plain/factors.safetensors").read_bytes()
    assert same(load(tmp_path / "m"), plain)


def test_the_bytes_are_little_endian(saved: Path) -> None:
    raw = (saved / "factors.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    start, end = json.loads(raw[8 : 8 + length])["counts_"]["data_offsets"]
    stored = raw[8 + length + start : 8 + length + end]
    assert struct.unpack("<3q", stored) == tuple(fitted().counts_.tolist())


def test_the_same_model_gives_the_same_bytes(saved: Path) -> None:
    chunked = pa.concat_tables([TITLES.slice(0, 1), TITLES.slice(1)])
    model = load(saved)
    model.catalogue_ = Catalogue(pa.chunked_array([["a"], ["b", "c"]]), chunked)
    save(model, saved.with_name("again"))
    for name in NAMES:
        assert (saved / name).read_bytes() == (saved.with_name("again") / name).read_bytes()


def in_a_fresh_process(code: str, *arguments: str) -> str:
    root = Path(__file__).parents[2]
    start = f"import discreet.models.registry as c; c.MODELS = {REGISTRY!r}; import sys; "
    run = subprocess.run(
        [sys.executable, "-c", start + code, *arguments], cwd=root, capture_output=True, text=True, check=True
    )
    return run.stdout.strip()


def test_a_fresh_process_loads_it(saved: Path) -> None:
    code = (
        "from discreet.models.storage import load; m = load(sys.argv[1]); "
        "print(m.item_factors_.tobytes().hex(), list(m.catalogue_.ids), m.catalogue_.column('title')[1:], "
        "m.guarantee_.epsilon, m.get_params())"
    )
    model = fitted()
    expected = f"{model.item_factors_.tobytes().hex()} ['a', 'b', 'c'] ['B', None] {model.guarantee_.epsilon} "
    expected += str(model.get_params())
    assert in_a_fresh_process(code, str(saved)) == expected


def test_only_the_module_of_the_class_is_imported(saved: Path) -> None:
    edit(saved, lambda d: d.update({"class": "os:system"}))
    code = (
        "from discreet.models.storage import load; from discreet.errors import ModelError\n"
        "try: load(sys.argv[1])\n"
        "except ModelError as e: print(e, 'tests.models.models' in sys.modules)"
    )
    said = in_a_fresh_process(code, str(saved))
    assert "'os:system' is not one of the models" in said
    assert said.endswith("False")


def test_files_have_the_permissions_that_the_umask_leaves(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        save(fitted(), tmp_path / "m")
        save(fitted(1), tmp_path / "m")
    finally:
        os.umask(old)
    assert (tmp_path / "m").stat().st_mode & 0o777 == 0o750
    assert {(tmp_path / "m" / name).stat().st_mode & 0o777 for name in NAMES} == {0o640}


def test_no_user_is_ever_written(tmp_path: Path) -> None:
    model = fitted()
    model._secret = "secret-of-ann"
    model.user_ids_ = ["ann"]
    save(model, tmp_path / "m")
    written = b"".join((tmp_path / "m" / name).read_bytes() for name in NAMES)
    for secret in (b"ann", b"user_factors_", np.float64(123456789.0).tobytes(), np.float32(123456789.0).tobytes()):
        assert secret not in written
    assert not hasattr(load(tmp_path / "m"), "user_factors_")


# -- what cannot be saved


def test_a_model_that_is_not_fitted(tmp_path: Path) -> None:
    with pytest.raises(NotFitted, match="call fit"):
        save(Fake(), tmp_path / "m")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m: m.item_factors_.__setitem__((0, 0), np.nan), "item_factors_ has values that are NaN"),
        (lambda m: m.item_bias_.__setitem__(0, np.inf), "item_bias_ has values that are NaN or infinite"),
        (lambda m: setattr(m, "item_bias_", [1.0, 2.0, 3.0]), "item_bias_: must be an array.*not of list"),
        (lambda m: setattr(m, "counts_", np.array([object()] * 3)), "counts_: must be an array.*not of object"),
        (lambda m: setattr(m, "item_bias_", np.zeros(2)), "item_bias_: one for each"),
        (lambda m: setattr(m, "note_", float("nan")), "note_: nan cannot be saved"),
        (lambda m: setattr(m, "note_", {1: 2}), "note_: a dict cannot be saved"),
        (lambda m: m.set_params(random_state=np.random.RandomState(1)), "random_state: a RandomState cannot"),
        (lambda m: m.set_params(solver=lambda x: x), "solver: a function cannot"),
        (lambda m: m.set_params(weights=np.ones(2)), "weights: a ndarray cannot"),
        (lambda m: setattr(m, "_certificate", forged(m)), "releases give"),
        (
            lambda m: setattr(m, "catalogue_", Catalogue([1], pa.table({"x": pa.array([{}])}))),
            "column that parquet cannot hold",
        ),
    ],
)
def test_what_could_not_be_loaded_is_not_saved(saved: Path, change: Callable[[Any], None], reason: str) -> None:
    model = fitted(1)
    change(model)
    with pytest.raises(ModelError, match=reason):
        save(model, saved)
    with pytest.raises(ModelError, match=reason):
        save(model, saved.with_name("new"))
    assert same(load(saved), fitted())
    assert os.listdir(saved.parent) == ["model"]


def test_what_does_not_come_back_the_same_is_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    restored = Fake._restored

    def careless(*args: Any) -> Fake:
        model = restored(*args)
        model.item_bias_ = model.item_bias_ + 1
        return model

    monkeypatch.setattr(Fake, "_restored", careless)
    with pytest.raises(ModelError, match="would not come back the same"):
        save(fitted(), tmp_path / "m")
    assert not os.listdir(tmp_path)


def test_classes_of_others_are_not_saved(tmp_path: Path) -> None:
    class Mine(Fake):
        pass

    impostor = type("Fake", (Fake,), {})
    for model in (Mine().fit(["a"]), impostor().fit(["a"]), "a string"):
        with pytest.raises(ModelError, match="is not one of the models of this library"):
            save(model, tmp_path / "m")
    assert not os.listdir(tmp_path)


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    save(fitted(rank=np.int64(2), weights=[np.float32(0.5), np.bool_(True)]), tmp_path / "m")
    assert load(tmp_path / "m").get_params()["weights"] == [0.5, True]


def test_classes_that_are_expected(saved: Path) -> None:
    assert isinstance(load(saved, expect_class=Fake), Fake)
    with pytest.raises(ModelError, match="a model of the class Fake, not Other"):
        load(saved, expect_class=Other)


# -- the models there are

RATINGS = discreet.datasets.movielens_like(200, 50, 4000, random_state=0)
REAL = {
    "ALS": lambda: discreet.ALS(rank=4, n_steps=2),
    "implicit ALS": lambda: discreet.ALS(rank=4, n_steps=2),
    "Popularity": discreet.Popularity,
    "MeanRating": lambda: discreet.MeanRating("both", shrinkage=2),
}


@pytest.fixture(params=REAL)
def real(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.undo()  # the registry of the library itself
    ratings = RATINGS.to_implicit() if request.param.startswith("implicit") else RATINGS
    return REAL[request.param]().fit(ratings)


def test_real_models_come_back_in_a_fresh_process(real: Any, tmp_path: Path) -> None:
    real.save(tmp_path / "m")
    assert sorted(os.listdir(tmp_path / "m")) == NAMES
    assert same(discreet.load(tmp_path / "m"), real)
    history = list(RATINGS.items)[:3]
    code = (
        "import sys, discreet; m = discreet.load(sys.argv[1]); h = list(m.items_)[:3]; r = m.recommend(h, n=5); "
        "print(type(m).__name__, list(r.items), [float(s) for s in r.scores], m.guarantee_.holds)"
    )
    found = real.recommend(history, n=5)
    scores = [float(score) for score in found.scores]
    assert (
        fresh.printed(code, str(tmp_path / "m")).strip() == f"{type(real).__name__} {list(found.items)} {scores} False"
    )


def test_real_models_are_refused_when_changed(real: Any, tmp_path: Path) -> None:
    folder = tmp_path / "m"
    real.save(folder)
    rng = np.random.default_rng(2)
    for name in NAMES:
        raw = (folder / name).read_bytes()
        for at in rng.integers(0, len(raw), 20):
            (folder / name).write_bytes(raw[:at] + bytes([raw[at] ^ 1 << int(rng.integers(8))]) + raw[at + 1 :])
            refused(folder)
        (folder / name).write_bytes(raw)
    smuggle(folder, "factors.safetensors", tensors())
    refused(folder, "factors.safetensors", "its arrays are", ModelError)


def test_a_baseline_cannot_claim_to_be_private(real: Any, tmp_path: Path) -> None:
    """A certificate that agrees with itself, put in the place of the one that says that nothing is promised."""
    real.save(tmp_path / "m")
    edit(tmp_path / "m", lambda d: d.update(certificate=certificate(20.0).certificate))
    refused(tmp_path / "m", None, "promises privacy", PrivacyError)
    nothing_spent = Ledger(epsilon=1, delta=1e-6).statement(title="x", public_inputs={})
    edit(tmp_path / "m", lambda d: d.update(certificate=nothing_spent.certificate))
    refused(tmp_path / "m", None, "promises privacy", PrivacyError)


def test_a_real_model_that_is_not_fitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with pytest.raises(NotFitted):
        discreet.ALS().save(tmp_path / "m")
    assert not os.listdir(tmp_path)
