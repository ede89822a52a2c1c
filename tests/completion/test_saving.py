"""Saved models: what comes back, what is refused, and what is never written."""

import base64
import datetime
import decimal
import io
import json
import os
import pickle
import shutil
import struct
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, clone

import discreet
from discreet import Catalogue, Gaussian, Ledger, Statement
from discreet.completion import payload, saving
from discreet.completion.saving import load, save
from discreet.errors import DataError, DiscreetError, ModelError, NotFitted, PrivacyError
from discreet.statement import _digest

NAMES = ["factors.safetensors", "items.parquet", "model.json"]


@cache
def certificate(std: float) -> Statement:
    ledger = Ledger(epsilon=1, delta=1e-6)
    ledger.release(np.array([5, 3]), 1, Gaussian(std), "clicks")
    return ledger.statement(title="A shop", public_inputs={"catalogue": "given"})


class Fake(BaseEstimator):
    """As much of a model as saving needs."""

    _ARRAYS: tuple[str, ...] = ("item_factors_", "item_bias_", "counts_")
    _VALUES: tuple[str, ...] = ("value_range_", "implicit_", "note_", "history_")

    def __init__(
        self, rank: int = 2, solver: str = "exact", weights: Any = (1.0, 0.5), random_state: Any = None
    ) -> None:
        self.rank = rank
        self.solver = solver
        self.weights = weights
        self.random_state = random_state

    def fit(self, ids: Any, columns: pa.Table | None = None, *, seed: int = 0, std: float = 20.0) -> "Fake":
        rng = np.random.default_rng(seed)
        self.catalogue_ = Catalogue(ids, columns)
        self.item_factors_ = rng.standard_normal((len(self.catalogue_), self.rank)).astype(np.float32)
        self.item_bias_ = rng.standard_normal(len(self.catalogue_))
        self.counts_ = rng.integers(0, 1 << 60, len(self.catalogue_))
        self.value_range_ = (0.5, 5.0)
        self.implicit_ = False
        self.note_ = "größer als 1½ \ud800"
        self.history_ = [1, 2.5, None, ["a", True], (3, ())]
        self.user_factors_ = np.full((7, self.rank), 123456789.0)  # which nobody may ever find in a file
        self._certificate = certificate(std)
        self.guarantee_ = self._certificate.guarantee
        return self

    def statement(self) -> Statement:
        return self._certificate

    @classmethod
    def _restored(
        cls, params: dict[str, Any], arrays: dict[str, Any], values: dict[str, Any], catalogue: Any, statement: Any
    ) -> "Fake":
        model = cls(**params)
        for name, value in (*arrays.items(), *values.items()):
            setattr(model, name, value)
        model.catalogue_, model._certificate, model.guarantee_ = catalogue, statement, statement.guarantee
        if model.item_factors_.shape != (len(catalogue), model.rank) or model.item_factors_.dtype != np.float32:
            raise ValueError(f"item_factors_: has the shape {model.item_factors_.shape}")
        if model.item_bias_.shape != (len(catalogue),):
            raise DataError("item_bias_: one for each item is needed")
        return model


class Other(Fake):
    """Another registered class."""


REGISTRY = {"Fake": f"{__name__}:Fake", "Other": f"{__name__}:Other"}


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.completion.MODELS", REGISTRY, raising=False)


TITLES = pa.table({"title": ["Å", "B", None], "genres": [["x", "y"], [], None], "year": [1999, None, 2001]})


def fitted(seed: int = 0, **params: Any) -> Fake:
    return Fake(**params).fit(["a", "b", "c"], TITLES, seed=seed)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    save(fitted(), folder)
    return folder


def same(left: Any, right: Any) -> bool:
    return bool(
        type(left) is type(right)
        and left.get_params() == right.get_params()
        and all(np.array_equal(getattr(left, n), getattr(right, n)) for n in left._ARRAYS)
        and all(getattr(left, n).dtype == getattr(right, n).dtype for n in left._ARRAYS)
        and all(getattr(left, n) == getattr(right, n) for n in left._VALUES)
        and left.catalogue_ == right.catalogue_
        and left.catalogue_.origin == right.catalogue_.origin
        and left.guarantee_ == right.guarantee_
        and left.statement().json() == right.statement().json()
    )


def refused(folder: Path, file: str | None = None, reason: str = ".", kind: type[Exception] = DiscreetError) -> str:
    """The reason, which names the file: any other exception fails the test."""
    with pytest.raises(kind, match=reason) as caught:
        load(folder)
    message = str(caught.value)
    assert isinstance(caught.value, ModelError | PrivacyError)
    assert str(folder / file if file else folder) in message
    assert len(message) > len(str(folder)) + 15
    return message


def loaded_or_refused(folder: Path) -> Any:
    """The model, or None if it is refused by name: any other exception fails the test."""
    try:
        return load(folder)
    except (ModelError, PrivacyError) as error:
        if str(folder) not in str(error):
            raise
    return None


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
    start = f"import discreet.completion as c; c.MODELS = {REGISTRY!r}; import sys; "
    run = subprocess.run(
        [sys.executable, "-c", start + code, *arguments], cwd=root, capture_output=True, text=True, check=True
    )
    return run.stdout.strip()


def test_a_fresh_process_loads_it(saved: Path) -> None:
    code = (
        "from discreet.completion.saving import load; m = load(sys.argv[1]); "
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
        "from discreet.completion.saving import load; from discreet.errors import ModelError\n"
        "try: load(sys.argv[1])\n"
        "except ModelError as e: print(e, 'tests.completion.test_saving' in sys.modules)"
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


# -- what is refused: files


def copies(folder: Path, name: str) -> tuple[bytes, Callable[[bytes], None]]:
    raw = (folder / name).read_bytes()
    return raw, (folder / name).write_bytes


@pytest.mark.parametrize("name", NAMES)
def test_no_byte_can_be_changed(saved: Path, name: str) -> None:
    raw, write = copies(saved, name)
    rng = np.random.default_rng(0)
    for at in np.unique(np.concatenate([np.arange(32), rng.integers(0, len(raw), 150), len(raw) - 1 - np.arange(32)])):
        flipped = bytearray(raw)
        flipped[at] ^= 1 << int(rng.integers(8))
        write(bytes(flipped))
        refused(saved)
        flipped[at] = (raw[at] + int(rng.integers(1, 256))) % 256
        write(bytes(flipped))
        refused(saved)
    write(raw)
    assert same(load(saved), fitted())


def test_not_even_a_blank_in_model_json(saved: Path) -> None:
    raw, write = copies(saved, "model.json")
    for other in (raw + b" ", raw.replace(b"\n", b"\r\n"), raw.replace(b"  ", b" "), b"\xef\xbb\xbf" + raw, raw[:-1]):
        write(other)
        refused(saved, "model.json")
    write(json.dumps(json.loads(raw)).encode())
    refused(saved, "model.json", "changed after it was saved")


@pytest.mark.parametrize("name", NAMES)
def test_no_file_can_be_cut_off_or_grow(saved: Path, name: str) -> None:
    raw, write = copies(saved, name)
    for size in {0, 1, 7, 8, 9, len(raw) // 2, len(raw) - 8, len(raw) - 1}:
        write(raw[:size])
        refused(saved, name)
    for more in (b"\0", b" ", raw):
        write(raw + more)
        refused(saved, name)


@pytest.mark.parametrize("name", NAMES)
def test_no_file_can_be_missing(saved: Path, name: str) -> None:
    (saved / name).unlink()
    refused(saved, name, "it is missing")


def test_folders_that_are_none(tmp_path: Path) -> None:
    refused(tmp_path / "none", None, "there is no such folder")
    (tmp_path / "file").write_text("x")
    refused(tmp_path / "file", None, "there is no such folder")
    refused(tmp_path, "model.json", "it is missing")


@pytest.mark.parametrize("name", NAMES)
def test_files_of_two_models_do_not_mix(saved: Path, name: str) -> None:
    other = Fake().fit(["a", "b", "d"], seed=1, std=30.0)
    save(other, saved.with_name("other"))
    (saved / name).write_bytes((saved.with_name("other") / name).read_bytes())
    refused(saved)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_regular_file_is_not_opened(saved: Path, name: str) -> None:
    moved = saved.with_name("elsewhere")
    (saved / name).rename(moved)
    (saved / name).symlink_to(moved)  # with the right content
    refused(saved, name, "symbolic link")
    (saved / name).unlink()
    (saved / name).symlink_to("/dev/zero")
    refused(saved, name, "symbolic link")
    (saved / name).unlink()
    (saved / name).mkdir()
    refused(saved, name, "not a regular file|cannot be read")
    (saved / name).rmdir()
    os.mkfifo(saved / name)
    started = time.monotonic()
    refused(saved, name, "not a regular file")
    assert time.monotonic() - started < 5


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_what_may_not_be_read(saved: Path) -> None:
    (saved / "model.json").chmod(0)
    refused(saved, "model.json", "cannot be read")


# -- what is refused: model.json by somebody who knows the format


def edit(folder: Path, change: Callable[[dict[str, Any]], object], *, text: Callable[[str], str] = str) -> None:
    """Change model.json, with all digests made right again."""
    document = json.loads((folder / "model.json").read_text())
    change(document)
    document["digest"] = saving._digest(document)
    (folder / "model.json").write_text(text(json.dumps(document, indent=2)) + "\n")


def forged(model: Fake) -> Statement:
    """A certificate of a smaller epsilon, with its own digest made right again."""
    content = json.loads(model.statement().json())
    cheaper(content)
    return Statement(content)


def cheaper(certificate: dict[str, Any]) -> None:
    certificate["guarantee"].update(epsilon=0.01)
    certificate["digest"] = _digest(certificate)


def quieter(certificate: dict[str, Any]) -> None:
    certificate["releases"][0]["noise"]["std"] = 200.0
    certificate["digest"] = _digest(certificate)


def hushed(certificate: dict[str, Any]) -> None:
    certificate["sentence"] = "Perfectly private."
    certificate["digest"] = _digest(certificate)


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


def test_editing_alone_is_harmless(saved: Path) -> None:
    edit(saved, lambda d: None)
    assert same(load(saved), fitted())


@pytest.mark.parametrize("digests_too", [False, True])
@pytest.mark.parametrize("change", [cheaper, quieter, hushed, dict.clear, lambda c: c.pop("releases")])
def test_certificates_cannot_be_edited(saved: Path, change: Callable[[Any], None], digests_too: bool) -> None:
    document = json.loads((saved / "model.json").read_text())
    change(document["certificate"])
    (saved / "model.json").write_text(json.dumps(document, indent=2) + "\n")
    if digests_too:
        edit(saved, lambda d: None)
    refused(saved, "model.json", "certificate|guarantee", PrivacyError)


def test_an_epsilon_edited_by_hand(saved: Path) -> None:
    raw = (saved / "model.json").read_text()
    epsilon = str(fitted().guarantee_.epsilon)
    assert epsilon in raw
    (saved / "model.json").write_text(raw.replace(epsilon, "0.01"))
    refused(saved, "model.json", "states epsilon = 0.01, but its releases give", PrivacyError)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda d: d.update(version=2), "format version is 2, and this discreet reads version 1"),
        (lambda d: d.update(version=True), "format version is True"),
        (lambda d: d.update(version="1" * 1_000_000), "format version is '111"),
        (lambda d: d.pop("version"), "format version is None"),
        (lambda d: d.update(format="pickle"), "does not describe a model"),
        (lambda d: d.update({"class": "Nobody"}), "'Nobody' is not one of the models"),
        (lambda d: d.update({"class": "subprocess:Popen"}), "is not one of the models"),
        (lambda d: d.update({"class": ["Fake"]}), "fields of a model"),
        (lambda d: d.update(extra=1), "fields of a model"),
        (lambda d: d.pop("params"), "fields of a model"),
        (lambda d: d.pop("origin"), "origin"),
        (lambda d: d.update(origin=["given"]), "origin"),
        (lambda d: d["params"].update(rank=[]), "do not make a Fake"),
        (lambda d: d["params"].update(rank=3), "item_factors_: has the shape"),
        (lambda d: d["params"].update(hook="os.system"), "has no parameter 'hook'"),
        (lambda d: d["params"].update({"self": 1}), "has no parameter 'self'"),
        (lambda d: d["values"].update(more=1), "its values are not the"),
        (lambda d: d["values"].pop("note_"), "its values are not the"),
        (lambda d: d["values"].update(_restored=1), "its values are not the"),
        (lambda d: d.update(values=[]), "fields of a model"),
        (lambda d: d["files"].update({"../x": d["files"]["items.parquet"]}), "list of files"),
        (lambda d: d["files"].update({"/etc/passwd": d["files"].pop("items.parquet")}), "list of files"),
        (lambda d: d["files"].pop("items.parquet"), "list of files"),
        (lambda d: d["files"]["items.parquet"].update(path="/etc/passwd"), "list of files"),
        (lambda d: d["files"]["items.parquet"].update(size="1"), "list of files"),
        (lambda d: d["files"]["items.parquet"].update(size=-1), "items.parquet"),
        (lambda d: d["files"]["items.parquet"].update(size=10**30), "items.parquet.*bytes, but"),
        (lambda d: d["files"]["items.parquet"].update(size=0), "items.parquet.*at most 0"),
        (lambda d: d["files"]["items.parquet"].update(sha256="/../../secret"), "items.parquet.*SHA-256"),
        (lambda d: d["files"]["items.parquet"].update(sha256=None), "list of files"),
        (lambda d: d["params"].update(weights=nested(100)), "does not describe a model"),
        (lambda d: d["params"].update(weights="x" * (17 << 20)), "at most"),
    ],
)
def test_documents_that_are_odd(saved: Path, change: Callable[[Any], object], reason: str) -> None:
    edit(saved, change)
    message = refused(saved, None, reason, ModelError)
    assert len(message) < 600


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"rank": 2,', '"rank": 2, "rank": 2,'),
        ('"rank": 2,', '"rank": NaN,'),
        ('"rank": 2,', '"rank": -Infinity,'),
        ('"rank": 2,', '"rank": 1e999,'),
        ('"rank": 2,', '"rank": 2.,'),
        ('"rank": 2,', f'"rank": {"9" * 5000},'),
        ('"rank": 2,', f'"rank": {"[" * 100_000}{"]" * 100_000},'),
        ('"rank": 2,', f'"rank": {"[" * 100_000}'),
        ('"rank": 2,', '"rank": 2e0,'),
        ('"rank": 2,', '"r\\u0061nk": 2,'),
        ('"rank": 2,', "/* two */ 'rank': 2,"),
        ('"format"', '"format": "discreet-model", "format"'),
    ],
)
def test_json_that_is_odd(saved: Path, old: str, new: str) -> None:
    edit(saved, lambda d: None, text=lambda text: text.replace(old, new, 1))
    message = refused(saved, "model.json", "proper JSON|changed after it was saved|describe", ModelError)
    assert len(message) < 600


@pytest.mark.parametrize("content", [b"", b"null", b"[]", b"3", b'"x"', b"{}", b"\xff\xfe{\0}\0", pickle.dumps({})])
def test_json_that_is_none(saved: Path, content: bytes) -> None:
    (saved / "model.json").write_bytes(content)
    refused(saved, "model.json", "proper JSON|describe", ModelError)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_leaf_of_a_document_can_be_anything(tmp_path: Path, data: st.DataObject) -> None:
    """With all outer digests made right: refused by name, or still a model with the guarantee that it had."""
    folder = tmp_path / "m"
    shutil.rmtree(folder, ignore_errors=True)
    save(fitted(), folder)
    document = json.loads((folder / "model.json").read_text())
    at: Any = document
    while True:
        key = data.draw(st.sampled_from(sorted(at))) if isinstance(at, dict) else data.draw(st.integers(0, len(at) - 1))
        if not isinstance(at[key], dict | list) or not at[key] or data.draw(st.integers(0, 3)) == 0:
            break
        at = at[key]
    scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
    at[key] = data.draw(scalars | st.lists(scalars) | st.dictionaries(st.text(), scalars))
    document["certificate"] = document.get("certificate")
    if isinstance(document["certificate"], dict):
        document["certificate"]["digest"] = _digest(document["certificate"])
    document["digest"] = saving._digest(document)
    (folder / "model.json").write_text(json.dumps(document, indent=2) + "\n")
    again = loaded_or_refused(folder)
    if again is not None:
        assert again.guarantee_ == again.statement().guarantee
        assert again.guarantee_.epsilon >= fitted().guarantee_.epsilon * (1 - 1e-9) or not again.guarantee_.holds


# -- what is refused: the other files by somebody who knows the format


def smuggle(folder: Path, name: str, content: bytes) -> None:
    """Put another content in the place of a file, with all digests made right again."""
    (folder / name).write_bytes(content)
    edit(folder, lambda d: d["files"].update({name: {"sha256": saving.digest(content), "size": len(content)}}))


def tensors(**changes: Any) -> bytes:
    model = fitted()
    arrays = {name: getattr(model, name) for name in Fake._ARRAYS}
    return safetensors.numpy.save({k: v for k, v in {**arrays, **changes}.items() if v is not None})


BAD = fitted().item_factors_.copy()
BAD[1, 1] = np.nan


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (tensors(item_factors_=BAD), "item_factors_ has values that are NaN"),
        (tensors(item_bias_=np.array([1.0, -np.inf, 0.0])), "item_bias_ has values that are NaN or infinite"),
        (tensors(item_factors_=np.zeros((4, 2), np.float32)), "has the shape"),
        (tensors(item_factors_=np.zeros((2, 3), np.float32)), "has the shape"),
        (tensors(item_factors_=np.zeros((3, 2))), "has the shape"),
        (tensors(item_factors_=np.zeros((3, 2), np.float16)), "array of float16"),
        (tensors(item_bias_=np.zeros(3, bool)), "array of bool"),
        (tensors(item_bias_=np.zeros(3, np.complex64)), "array of complex64"),
        (tensors(user_factors_=np.zeros(3)), "its arrays are .*user_factors_"),
        (tensors(item_bias_=None), "its arrays are counts_, item_factors_, not"),
        (safetensors.numpy.save({}), "its arrays are none"),
        (pickle.dumps(np.zeros(3)), "not a sound safetensors file"),
        (b"", "not a sound safetensors file"),
        (struct.pack("<Q", 2**63) + b"{}", "not a sound safetensors file"),
        (struct.pack("<Q", 2**40) + b"{}", "not a sound safetensors file"),
    ],
)
def test_arrays_that_are_odd(saved: Path, content: bytes, reason: str) -> None:
    smuggle(saved, "factors.safetensors", content)
    refused(saved, None, reason, ModelError)


@pytest.mark.parametrize("shape", [[2**40, 2**40], [2**62, 4], [0, 2**63], [-1], [1e9], "x", [3, 2, 10**9]])
@pytest.mark.parametrize("end", [24, 2**62])
def test_tensors_that_claim_to_be_huge(saved: Path, shape: Any, end: int) -> None:
    header = json.dumps({"item_factors_": {"dtype": "F32", "shape": shape, "data_offsets": [0, end]}}).encode()
    smuggle(saved, "factors.safetensors", struct.pack("<Q", len(header)) + header + bytes(24))
    refused(saved, "factors.safetensors", kind=ModelError)


def parquet(table: pa.Table, **options: Any) -> bytes:
    content = io.BytesIO()
    pq.write_table(table, content, **{"compression": "none", "use_dictionary": False, **options})
    return content.getvalue()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (parquet(pa.table({"item": ["a", "b"]})), "files do not make a Fake"),
        (parquet(pa.table({"item": ["a", "b", "b"]})), "more than once"),
        (parquet(pa.table({"item": ["a", "b", None]})), "missing"),
        (parquet(pa.table({"item": [["a"], ["b"], ["c"]]})), "single value"),
        (parquet(pa.table({})), "does not hold a catalogue"),
        (parquet(pa.table({"item": ["a", "b", "c"]}), compression="zstd"), "compressed or encoded"),
        (parquet(pa.table({"item": ["a", "b", "c"]}), use_dictionary=True), "compressed or encoded"),
        (parquet(pa.table({"item": ["a", "b", "c"]}), store_schema=False), "does not hold a catalogue"),
        (parquet(pa.table({"item": pa.nulls(10**7, pa.int64())})), "more rows than its size allows"),
        (b"PAR1PAR1", "does not hold a catalogue"),
        (b"", "does not hold a catalogue"),
        (pickle.dumps(["a", "b", "c"]), "does not hold a catalogue"),
    ],
)
def test_catalogues_that_are_odd(saved: Path, content: bytes, reason: str) -> None:
    smuggle(saved, "items.parquet", content)
    refused(saved, None, reason, ModelError)


def test_catalogues_that_grow_in_memory(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the pages are not what the metadata says they are: a dictionary that the metadata conceals."""
    many = pa.table({"item": pa.array(["x" * 10_000] * 30_000)})
    content = parquet(many, use_dictionary=True)
    assert len(content) < 20_000
    monkeypatch.setattr(payload, "_require_plain", lambda *_: None)
    smuggle(saved, "items.parquet", content)
    refused(saved, "items.parquet", "holds more than its size allows", ModelError)


class Bomb:
    def __reduce__(self) -> Any:
        return (os.mkdir, ("exploded",))


def test_pickles_in_metadata_are_never_opened(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    field = pa.field(
        "item",
        pa.large_string(),
        metadata={"ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": pickle.dumps(Bomb())},
    )
    table = pa.table([pa.array(["a", "b", "c"], pa.large_string())], schema=pa.schema([field]))
    bombs = {"pandas": pickle.dumps(Bomb()), "pickle": base64.b64encode(pickle.dumps(Bomb()))}
    smuggle(saved, "items.parquet", parquet(table.replace_schema_metadata(bombs)))
    loaded_or_refused(saved)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("name", ["factors.safetensors", "items.parquet"])
def test_any_byte_of_a_file_can_be_anything(saved: Path, name: str) -> None:
    """With all digests made right: the parsers refuse it, or it is a model."""
    raw = (saved / name).read_bytes()
    rng = np.random.default_rng(1)
    seen = {True: 0, False: 0}
    for _ in range(200):
        changed = bytearray(raw)
        for at in rng.integers(0, len(raw), rng.integers(1, 4)):
            changed[at] = rng.integers(256)
        smuggle(saved, name, bytes(changed))
        seen[loaded_or_refused(saved) is not None] += 1
    assert min(seen.values()) > 5


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
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path / "m")], capture_output=True, text=True, check=True)
    scores = [float(score) for score in found.scores]
    assert run.stdout.strip() == f"{type(real).__name__} {list(found.items)} {scores} False"


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
    refused(tmp_path / "m", "model.json", "promises privacy", PrivacyError)
    nothing_spent = Ledger(epsilon=1, delta=1e-6).statement(title="x", public_inputs={})
    edit(tmp_path / "m", lambda d: d.update(certificate=nothing_spent.certificate))
    refused(tmp_path / "m", "model.json", "promises privacy", PrivacyError)


def test_a_real_model_that_is_not_fitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with pytest.raises(NotFitted):
        discreet.ALS().save(tmp_path / "m")
    assert not os.listdir(tmp_path)
