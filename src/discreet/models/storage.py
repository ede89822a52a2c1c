"""Models in folders: model.json, factors.safetensors, items.parquet. Nothing in them is ever executed or unpickled.

model.json holds the class of the model (one of `discreet.models.MODELS`, never a name to import), its parameters and
learned values, the SHA-256 and size of the other two files, the certificate, and a digest of all that. The arrays are
in factors.safetensors, the catalog is in items.parquet. No other attribute of a model is written, so nothing about a
user can be. `save` decodes its result and compares before it touches the folder: what it writes, `load` can read.

`discreet.models.model_folder` replaces one model in a folder by another in a single step.
"""

from __future__ import annotations

import base64
import inspect
import io
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from reprlib import repr as brief
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.data.catalogue import Catalogue, Ids
from discreet.errors import DiscreetError, ModelError, NotFitted, PrivacyError
from discreet.models import model_folder, registry
from discreet.models.base import Model, little_endian, plain, rich
from discreet.models.model_folder import FACTORS, FORMAT, HEAD, ITEMS, MAX_HEAD, PARTS, UNFINISHED, digest, refused
from discreet.privacy.statement import Statement
from discreet.privacy.store import canonical

if TYPE_CHECKING:
    import pyarrow as pa

VERSION = 2
TRIES = 100  # attempts of a reader while others save; each failed attempt means that another save came between

_TEXTS, _OBJECTS = ("format", "class", "digest"), ("params", "values", "files", "certificate")
_FIELDS = {"version": int} | dict.fromkeys(_TEXTS, str) | dict.fromkeys(_OBJECTS, dict)  # and origin, a text or null
_ENTRY = {"sha256": str, "size": int}  # describes a file
_DTYPES = ("float32", "float64", "int64")


def save(model: Model, folder: str | os.PathLike[str]) -> None:
    """Write a fitted model to a folder, which may hold another model.

    Whatever happens, the folder holds the old model or the new one. A folder with anything but a model is refused.

    Args:
        model: A fitted model of this library.
        folder: Where to write; created if it does not exist.
    """
    home = Path(folder)
    head, parts = _encoded(model)
    try:
        again = _decoded(home, head, _parsed(home / HEAD, head), parts)
        if again.catalogue_ == model.catalogue_:  # otherwise it has NaN, or is not the same
            again.catalogue_ = model.catalogue_  # equal columns may differ in the names inside nested types
        unchanged = _encoded(again) == (head, parts)
    except DiscreetError as error:
        raise ModelError(f"model: it cannot be saved, because it could not be loaded again: {error}") from error
    if not unchanged:
        raise ModelError("model: it cannot be saved, because it would not come back the same")
    model_folder.replace(home, head, parts)


def load(
    folder: str | os.PathLike[str], *, expect_class: type[Model] | None = None, certificate: Statement | None = None
) -> Model:
    """Read a model that `save` wrote, on any machine; refuse it if anything is missing or was changed.

    Args:
        folder: Where it is.
        expect_class: Refuse a model that is not of this class.
        certificate: Refuse a model that is not the one this statement certifies. Verify its signature first.

    Returns:
        The model, with the guarantee computed again from the releases in its certificate.

    Raises:
        ModelError: The folder does not hold a complete, unchanged model; the message names the file and the reason.
        PrivacyError: The certificate was changed, belongs to another model, or claims more than its releases give.
    """
    home, before = Path(folder), None
    if os.path.lexists(home) and not os.path.isdir(home):
        raise refused(home, "this is a file; a model is a folder, as `save` and `discreet train --out` write it")
    if not os.path.isdir(home):
        raise refused(home, "there is no such folder")
    if not os.path.lexists(home / HEAD):
        if not os.path.isdir(home / UNFINISHED):
            raise refused(home / HEAD, "it is missing, so the folder holds no model")
        raise refused(
            home,
            "it holds no model, only a fit that was not finished. What was paid for is kept: finish it with the same "
            f"`discreet train` and --resume, or the same fit and checkpoint={str(home / UNFINISHED)!r}",
        )
    for attempt in range(TRIES):
        head = model_folder.read_file(home / HEAD, MAX_HEAD)
        document = _parsed(home / HEAD, head)
        try:
            parts = {name: model_folder.read_part(home, name, **about) for name, about in document["files"].items()}
            break
        except ModelError:
            if head == before or attempt == TRIES - 1:  # it did not fail because of a save
                raise
        before = head
    model = _decoded(home, head, document, parts, expect_class)
    if certificate is not None and certificate.digest != model.statement().digest:
        raise PrivacyError(f"{str(home)!r}: it is not the model that was certified; its certificate is another one")
    return model


# -- from a model to bytes


def _encoded(model: Model) -> tuple[bytes, dict[str, bytes]]:
    """The content of model.json and of the other files."""
    cls, about = type(model), described(model)
    if any(not hasattr(model, name) for name in ("catalogue_", *cls._ARRAYS, *cls._VALUES)):
        raise NotFitted(f"model: this {cls.__name__} is not fitted yet; call fit before save")
    arrays = {name: getattr(model, name) for name in cls._ARRAYS}
    parts = {FACTORS: _arrays_to_bytes(arrays), ITEMS: items_to_bytes(model.catalogue_)}
    document = {
        "format": FORMAT,
        "version": VERSION,
        **about,
        "values": {name: plain(name, getattr(model, name)) for name in cls._VALUES},
        "origin": model.catalogue_.origin,
        "files": {name: {"sha256": digest(content), "size": len(content)} for name, content in parts.items()},
        "certificate": model.statement().certificate,
    }
    return _text({**document, "digest": _digest(document)}), parts


def described(model: Model) -> dict[str, Any]:
    """A model's class and parameters, as JSON has them."""
    cls = type(model)
    if _registered(cls.__name__) is not cls:
        raise ModelError(f"model: {cls.__name__} is not one of the models of this library, and only those can be saved")
    given = model.get_params(deep=False).items()
    return {"class": cls.__name__, "params": {name: plain(name, value) for name, value in given}}


def _registered(name: str) -> type[Model] | None:
    """The model class of this name. Nothing else is ever imported."""
    return registry.find(name) if name in registry.MODELS else None


def _digest(document: dict[str, Any]) -> str:
    return digest(canonical({key: value for key, value in document.items() if key != "digest"}).encode())


def _text(document: dict[str, Any]) -> bytes:
    return (json.dumps(document, indent=2, allow_nan=False) + "\n").encode("ascii")


# -- from bytes to a model


def _parsed(path: Path, head: bytes) -> dict[str, Any]:
    """The content of model.json, if it has the form that this version reads."""
    try:
        document = json.loads(head)  # what `_text` does not write, such as repeated keys or NaN, is refused later
    except (ValueError, RecursionError) as error:
        raise refused(path, f"it is not proper JSON, so it was cut off or changed ({error})") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise refused(path, "it does not describe a model of discreet")
    version = document.get("version")
    if type(version) is not int or version != VERSION:
        raise refused(
            path,
            f"its format version is {brief(version)}, and this discreet reads version {VERSION}; save it again with "
            "this version, or load it with the one that saved it",
        )
    fields = _types(document)
    if fields.pop("origin", None) not in (str, type(None)) or "origin" not in document or fields != _FIELDS:
        raise refused(path, "it does not have the fields of a model, so it was changed")
    files = document["files"]
    if set(files) != set(PARTS) or not all(_types(about) == _ENTRY for about in files.values()):
        raise refused(path, f"its list of files must be {' and '.join(PARTS)}, with sizes and digests")
    return document


def _types(content: Any) -> dict[str, type]:
    return {key: type(value) for key, value in content.items()} if isinstance(content, dict) else {}


def _decoded(
    home: Path, head: bytes, document: dict[str, Any], parts: dict[str, bytes], expect: type[Model] | None = None
) -> Model:
    """The model, after all checks."""
    path = home / HEAD
    try:  # before the digest, because its messages are better
        statement = Statement.parse(json.dumps(document["certificate"], allow_nan=False))
    except Exception as error:  # unchecked numbers go through two accountants
        raise PrivacyError(f"{str(path)!r}: {error}") from error
    try:
        unchanged = document["digest"] == _digest(document) and _text(document) == head
    except (ValueError, RecursionError):  # a number that is too large, or lists that are nested too deep
        unchanged = False
    if not unchanged:
        raise refused(path, "its digest does not match, so it was changed after it was saved")
    cls = _registered(document["class"])
    if cls is None:
        raise refused(path, f"its class {brief(document['class'])} is not one of the models of this discreet")
    if expect is not None and not issubclass(cls, expect):
        raise refused(path, f"it is a model of the class {cls.__name__}, not {expect.__name__}")
    if set(document["values"]) != set(cls._VALUES):
        raise refused(path, f"its values are not the {', '.join(cls._VALUES)} of {cls.__name__}")
    if unknown := set(document["params"]) - set(inspect.signature(cls).parameters):
        raise refused(path, f"{cls.__name__} has no parameter {brief(min(unknown))}")
    arrays = _arrays_from_bytes(home / FACTORS, parts[FACTORS], cls._ARRAYS)
    catalogue = items_from_bytes(home / ITEMS, parts[ITEMS], document["origin"], statement.choice())
    try:
        return cls._restored(rich(document["params"]), arrays, rich(document["values"]), catalogue, statement)
    except Exception as error:  # anything that a model may raise for unchecked values
        kind = PrivacyError if isinstance(error, PrivacyError) else ModelError
        raise kind(f"{str(home)!r}: its files do not make a {cls.__name__} ({error})") from error


# -- arrays as safetensors and a catalog as parquet. Both files are plain and uncompressed, so that neither takes much
#    more memory than its size on the disk, and the same content gives the same bytes


def _arrays_to_bytes(arrays: Mapping[str, Any]) -> bytes:
    import safetensors.numpy

    for name, array in arrays.items():
        kind = array.dtype.name if isinstance(array, np.ndarray) else type(array).__name__
        if kind not in _DTYPES:
            raise ModelError(f"{name}: must be an array of {', '.join(_DTYPES)} to be saved, not of {kind}")
    content: bytes = safetensors.numpy.save({name: little_endian(arrays[name]) for name in sorted(arrays)})
    return content


def _arrays_from_bytes(path: Path, content: bytes, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """The arrays in a safetensors file, which must be finite and have these names."""
    import safetensors.numpy

    try:
        arrays: dict[str, NDArray[Any]] = safetensors.numpy.load(content)
    except Exception as error:  # from a parser of untrusted bytes
        raise refused(path, f"it is not a sound safetensors file ({error})") from error
    if set(arrays) != set(names):
        raise refused(path, f"its arrays are {', '.join(sorted(arrays)) or 'none'}, not {', '.join(sorted(names))}")
    for name, array in arrays.items():
        if array.dtype.name not in _DTYPES:
            raise refused(path, f"{name} is an array of {array.dtype}, not of {', '.join(_DTYPES)}")
        if not np.isfinite(array).all():
            raise refused(path, f"{name} has values that are NaN or infinite")
    return arrays


def items_to_bytes(catalogue: Catalogue) -> bytes:
    """A parquet file with the ids as the first column, whatever its name, and the other columns of the catalog."""
    import pyarrow as pa
    from pyarrow import parquet

    name = "item"
    while name in catalogue.names:
        name += "_"
    columns = [catalogue.ids.to_arrow(), *catalogue.columns.columns]
    table = pa.table(columns, names=[name, *catalogue.names]).combine_chunks()  # pages end where chunks do
    content = io.BytesIO()
    # The names of nested fields stay as they are, so that the same catalog gives the same bytes again.
    nested = {"use_compliant_nested_type": False}
    try:
        parquet.write_table(table, content, compression="none", use_dictionary=False, write_statistics=False, **nested)
    except (pa.ArrowException, OverflowError) as error:
        raise ModelError(f"catalogue: it has a column that parquet cannot hold; leave it out ({error})") from None
    return content.getvalue()


def items_from_bytes(path: Path, content: bytes, origin: str | None, selection: Statement | None = None) -> Catalogue:
    """The catalog in a parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(pa.py_buffer(content))
        _require_plain(content)
        table = pa.Table.from_batches(_bounded(file, len(content)), file.schema_arrow)
        wanted = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(file.metadata.metadata[b"ARROW:schema"])))
        # Parquet has no times in seconds, and dates only in days: such columns are converted back.
        columns = [
            column if column.type == kind else column.cast(kind)
            for column, kind in zip(table.columns, wanted.types, strict=True)
        ]
        rest = pa.table(columns[1:], names=table.column_names[1:])
        return Catalogue(Ids(columns[0], "items"), rest, origin=origin, selection=selection)
    except Exception as error:  # from a parser of untrusted bytes
        raise refused(path, f"it does not hold a catalog ({error})") from error


def _bounded(file: Any, size: int) -> Iterator[pa.RecordBatch]:
    """The content of the file, if its size in memory is in proportion to its size on disk."""
    if file.metadata.num_rows > 8 * size:
        raise ValueError("it claims more rows than its size allows")
    total = 0
    for batch in file.iter_batches(batch_size=256, use_threads=False):
        batch.validate(full=True)  # offsets within bounds, valid UTF-8
        total += batch.nbytes
        if total > 256 * size:
            raise ValueError("it holds more than its size allows")
        yield batch


def _require_plain(content: bytes) -> None:
    """Raise if data is compressed, because then a few bytes can stand for gigabytes.

    Parses the file's metadata here, because pyarrow aborts the process when asked about malformed columns.
    """
    length = int.from_bytes(content[-8:-4], "little")
    for group in _thrift(iter(content[-8 - length : -8]))[4]:
        for chunk in group[1]:
            about = chunk[3]
            if about[4] != 0 or set(about[2]) - {0, 3} or 1 in chunk:  # codec, encodings PLAIN and RLE, another file
                raise ValueError("it is compressed or encoded in a way that save does not use")


def _thrift(data: Iterator[int], kind: int = 12) -> Any:
    """A value in Thrift's compact protocol; a struct becomes a dictionary by the numbers of its fields."""
    if kind in (1, 2, 3):
        return next(data)
    if kind in (4, 5, 6):
        return _integer(data)
    if kind in (7, 8):
        return bytes([next(data) for _ in range(8 if kind == 7 else _natural(data))])
    if kind in (9, 10):
        head = next(data)
        return [_thrift(data, head & 15) for _ in range(_natural(data) if head >> 4 == 15 else head >> 4)]
    if kind != 12:
        raise ValueError("its metadata has values of an unknown kind")
    fields: dict[int, Any] = {}
    number = 0
    while head := next(data):
        number = number + (head >> 4) if head >> 4 else _integer(data)
        fields[number] = head & 15 == 1 if head & 15 in (1, 2) else _thrift(data, head & 15)
    return fields


def _natural(data: Iterator[int]) -> int:
    value = 0
    for shift in range(0, 64, 7):
        byte = next(data)
        value |= (byte & 127) << shift
        if byte < 128:
            return value
    raise ValueError("its metadata has a number of more than 64 bits")


def _integer(data: Iterator[int]) -> int:
    value = _natural(data)
    return value >> 1 ^ -(value & 1)
