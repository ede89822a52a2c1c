"""What ties a certificate to one model: its class, its parameters, and the SHA-256 of everything that it has learned.

The hashes are of content, not of files: they are the same on every machine, before a model is saved and after it is
loaded, and whichever version of a library wrote its files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.data.catalogue import Catalogue
from discreet.errors import ModelError, PrivacyError
from discreet.models.storage import plain
from discreet.privacy.store import canonical

if TYPE_CHECKING:
    import pyarrow as pa

    from discreet.models.base import Model
    from discreet.privacy.statement import Statement


def binding(model: Model) -> dict[str, Any]:
    """The class, the parameters and the SHA-256 of each part of a fitted model, as its certificate has them."""
    cls, params = type(model), learned_by(model)
    values = {name: _plain(name, getattr(model, name)) for name in cls._VALUES}
    arrays = {name: _sha256(*_numbers(getattr(model, name))) for name in cls._ARRAYS}
    parts = {"values": _sha256(canonical(values).encode()), "catalogue": catalogue_sha256(model.catalogue_)}
    return {"class": cls.__name__, "params": params, "sha256": {**arrays, **parts}}


def learned_by(model: Model) -> dict[str, Any]:
    """The parameters that a model learns by, as JSON has them; not those that only say how it serves."""
    given = model.get_params(deep=False).items()
    return {name: _plain(name, value) for name, value in given if name not in type(model)._NOT_LEARNED}


def catalogue_sha256(catalogue: Catalogue) -> str:
    """The SHA-256 of the content of a catalogue."""
    return _sha256(*_catalogue(catalogue))


def require_certified(model: Model, statement: Statement) -> None:
    """Raise unless the statement is that of this very model."""
    stated, found = statement.certificate["model"], binding(model)
    if stated is None:
        raise PrivacyError("its certificate names no model, so it could be that of any")
    others = [
        *(["class"] if stated["class"] != found["class"] else []),
        *(["parameters"] if canonical(stated["params"]) != canonical(found["params"]) else []),
        *(name for name in found["sha256"] if stated["sha256"].get(name) != found["sha256"][name]),
    ]
    if others or set(stated["sha256"]) != set(found["sha256"]):
        raise PrivacyError(
            f"its certificate is that of another model, with other {', '.join(others) or 'parts'}: do not use it as "
            "what was certified"
        )


def _plain(name: str, value: Any) -> Any:
    """As JSON has it. A model with any other value can be fitted but not saved: then its type has to do."""
    try:
        return plain(name, value)
    except ModelError:
        return f"a {type(value).__name__}"


def _sha256(*pieces: Any) -> str:
    """Of several pieces of bytes, each after its length, so that no two lists of pieces give the same bytes."""
    sha256 = hashlib.sha256()
    for piece in pieces:
        view = memoryview(piece).cast("B") if len(piece) else b""
        sha256.update(len(view).to_bytes(8, "little"))
        sha256.update(view)
    return sha256.hexdigest()


def _numbers(array: NDArray[Any]) -> tuple[bytes, Any]:
    """Type and shape, and the numbers in one piece and little-endian."""
    values = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
    return canonical([array.dtype.name, *array.shape]).encode(), values.reshape(-1)


def _catalogue(catalogue: Catalogue) -> Iterator[Any]:
    yield canonical([catalogue.origin, len(catalogue), *catalogue.names]).encode()
    yield from _cells(catalogue.ids.to_arrow())
    for column in catalogue.columns.columns:
        yield from _cells(column)


def _cells(column: Any) -> Iterator[Any]:
    """The content of an Arrow column, whatever its chunks and whatever lies in memory where a value is missing."""
    import pyarrow as pa
    from pyarrow import compute, types

    array: pa.Array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        yield str(kind).encode()
        yield from _cells(array.storage)
        return
    yield np.packbits(array.is_valid().to_numpy(zero_copy_only=False))
    if types.is_struct(kind):
        yield canonical([field.name for field in kind]).encode()
        for part in array.flatten():
            yield from _cells(part)
    elif types.is_list(kind) or types.is_large_list(kind):
        yield b"list"  # not str(kind): names inside it are not those that parquet has
        yield np.asarray(compute.list_value_length(array.drop_null()), dtype="<i8")
        yield from _cells(array.flatten())
    elif types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        yield str(kind).encode()
        present = array.drop_null().cast(pa.large_binary())
        ends = np.frombuffer(present.buffers()[1] or bytes(8), "<i8")[present.offset :][: len(present) + 1]
        yield np.diff(ends)
        yield (present.buffers()[2] or pa.py_buffer(b""))[int(ends[0]) : int(ends[-1])]
    elif types.is_primitive(kind) and not types.is_boolean(kind):
        yield str(kind).encode()
        present, width = array.drop_null(), kind.bit_width // 8
        start, end = present.offset * width, (present.offset + len(present)) * width
        yield (present.buffers()[1] or pa.py_buffer(b""))[start:end]
    else:
        yield str(kind).encode()
        yield repr(array.to_pylist()).encode("utf-8", "backslashreplace")
