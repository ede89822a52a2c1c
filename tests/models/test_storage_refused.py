"""Saved models that were changed, by chance or by somebody who knows the format: always refused, with a reason."""

import base64
import io
import json
import os
import pickle
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from discreet.errors import ModelError, PrivacyError
from discreet.models import storage
from discreet.models.storage import load, save
from discreet.privacy.statement import _digest
from tests.models.models import (
    NAMES,
    Fake,
    cheaper,
    edit,
    fitted,
    hushed,
    loaded_or_refused,
    quieter,
    refused,
    same,
    smuggle,
    tensors,
)

pytestmark = pytest.mark.usefixtures("fake_registry")


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
    refused(tmp_path / "file", None, "this is a file; a model is a folder")
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
    refused(saved, name, "not a regular file")  # opened to be read, it would wait forever


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_what_may_not_be_read(saved: Path) -> None:
    (saved / "model.json").chmod(0)
    refused(saved, "model.json", "cannot be read")


# -- what is refused: model.json by somebody who knows the format


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
        (lambda d: d.update(version=1), "format version is 1, and this discreet reads version 2"),
        (lambda d: d.update(version=True), "format version is True"),
        (lambda d: d.update(version="1" * 1_000_000), "format version is '111"),
        (lambda d: d.pop("version"), "format version is None"),
        (lambda d: d.update(format="pickle"), "does not describe a model"),
        (lambda d: d.update({"class": "Nobody"}), "'Nobody' is not one of the models"),
        (lambda d: d.update({"class": "subprocess:Popen"}), "is not one of the models"),
        (lambda d: d.update({"class": ["Fake"]}), "fields of a model"),
        (lambda d: d.update(extra=1), "fields of a model"),
        (lambda d: d.pop("params"), "fields of a model"),
        (lambda d: d.pop("origin"), "fields of a model"),
        (lambda d: d.update(origin=["given"]), "fields of a model"),
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
        ('"rank": 2,', f'"rank": {"[" * 900}{"]" * 900},'),
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
    document["digest"] = storage._digest(document)
    (folder / "model.json").write_text(json.dumps(document, indent=2) + "\n")
    again = loaded_or_refused(folder)
    if again is not None:
        assert again.guarantee_ == again.statement().guarantee
        assert again.guarantee_.epsilon >= fitted().guarantee_.epsilon * (1 - 1e-9) or not again.guarantee_.holds


# -- what is refused: the other files by somebody who knows the format


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
        (parquet(pa.table({})), "does not hold a catalog"),
        (parquet(pa.table({"item": ["a", "b", "c"]}), compression="zstd"), "compressed or encoded"),
        (parquet(pa.table({"item": ["a", "b", "c"]}), use_dictionary=True), "compressed or encoded"),
        (parquet(pa.table({"item": ["a", "b", "c"]}), store_schema=False), "does not hold a catalog"),
        (parquet(pa.table({"item": pa.nulls(10**7, pa.int64())})), "more rows than its size allows"),
        (b"PAR1PAR1", "does not hold a catalog"),
        (b"", "does not hold a catalog"),
        (pickle.dumps(["a", "b", "c"]), "does not hold a catalog"),
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
    monkeypatch.setattr(storage, "_require_plain", lambda *_: None)
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
