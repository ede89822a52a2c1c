"""Arrays as safetensors and a catalogue as parquet: bytes from anywhere are refused or mean what they say.

Both files are plain and uncompressed, so that neither grows in memory to much more than its size on the disk, and the
same content gives the same bytes.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from discreet.data.catalogue import Catalogue, Ids
from discreet.errors import ModelError

if TYPE_CHECKING:
    import pyarrow as pa

# The names of nested fields stay as they are, so that the same catalogue gives the same bytes again.
PLAIN = {"compression": "none", "use_dictionary": False, "write_statistics": False, "use_compliant_nested_type": False}
DTYPES = ("float32", "float64", "int64")

Arrays = dict[str, NDArray[Any]]


def refuse(path: Path, reason: str) -> NoReturn:
    """Raise the error that a file of a model is refused with."""
    raise ModelError(f"{str(path)!r}: {reason}")


def arrays_to_bytes(arrays: Mapping[str, Any]) -> bytes:
    """A safetensors file."""
    import safetensors.numpy

    content: bytes = safetensors.numpy.save({name: _little_endian(name, arrays[name]) for name in sorted(arrays)})
    return content


def _little_endian(name: str, array: Any) -> NDArray[Any]:
    """The array in one piece and little-endian: safetensors writes memory as it lies."""
    if not isinstance(array, np.ndarray) or array.dtype.name not in DTYPES:
        kind = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        raise ModelError(f"{name}: must be an array of {', '.join(DTYPES)} to be saved, not of {kind}")
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def arrays_from_bytes(path: Path, content: bytes, names: tuple[str, ...]) -> Arrays:
    """The arrays in a safetensors file: those of the class, and finite."""
    import safetensors.numpy

    try:
        arrays: Arrays = safetensors.numpy.load(content)
    except Exception as error:  # of a parser in another language, on bytes from anywhere
        refuse(path, f"it is not a sound safetensors file ({error})")
    if set(arrays) != set(names):
        refuse(path, f"its arrays are {', '.join(sorted(arrays)) or 'none'}, not {', '.join(sorted(names))}")
    for name, array in arrays.items():
        if array.dtype.name not in DTYPES:
            refuse(path, f"{name} is an array of {array.dtype}, not of {', '.join(DTYPES)}")
        if not np.isfinite(array).all():
            refuse(path, f"{name} has values that are NaN or infinite")
    return arrays


def items_to_bytes(catalogue: Catalogue) -> bytes:
    """The ids as the first column, whatever its name, and what is known about the items as the others."""
    import pyarrow as pa
    from pyarrow import parquet

    name = "item"
    while name in catalogue.names:
        name += "_"
    columns = [catalogue.ids.to_arrow(), *catalogue.columns.columns]
    table = pa.table(columns, names=[name, *catalogue.names]).combine_chunks()  # pages end where chunks do
    content = io.BytesIO()
    try:
        parquet.write_table(table, content, **PLAIN)
    except (pa.ArrowException, OverflowError) as error:
        raise ModelError(f"catalogue: it has a column that parquet cannot hold; leave it out ({error})") from None
    return content.getvalue()


def items_from_bytes(path: Path, content: bytes, origin: str | None) -> Catalogue:
    """The catalogue in a parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(pa.py_buffer(content))
        _require_plain(content)
        table = pa.Table.from_batches(_bounded(file, len(content)), file.schema_arrow)
        wanted = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(file.metadata.metadata[b"ARROW:schema"])))
        # Parquet knows no seconds, and dates in days only: such columns become others, and again what they were.
        columns = [
            column if column.type == kind else column.cast(kind)
            for column, kind in zip(table.columns, wanted.types, strict=True)
        ]
        beside = pa.table(columns[1:], names=table.column_names[1:])
        return Catalogue(Ids(columns[0], "items"), beside, origin=origin)
    except Exception as error:  # of a parser in another language, on bytes from anywhere
        refuse(path, f"it does not hold a catalogue ({error})")


def _bounded(file: Any, size: int) -> Iterator[pa.RecordBatch]:
    """What is in the file, as long as that has to do with its size, whatever its pages say."""
    if file.metadata.num_rows > 8 * size:
        raise ValueError("it claims more rows than its size allows")
    total = 0
    for batch in file.iter_batches(batch_size=256, use_threads=False):
        batch.validate(full=True)  # offsets within bounds, text that is text
        total += batch.nbytes
        if total > 256 * size:
            raise ValueError("it holds more than its size allows")
        yield batch


def _require_plain(content: bytes) -> None:
    """Only what does not grow in memory: a few bytes can stand for gigabytes otherwise.

    Reads the file's metadata by itself, since pyarrow ends the process where it is asked about columns that are
    malformed.
    """
    length = int.from_bytes(content[-8:-4], "little")
    metadata = _Compact(content[-8 - length : -8]).struct()
    for group in metadata[4]:
        for chunk in group[1]:
            about = chunk[3]
            if about[4] != 0 or set(about[2]) - {0, 3} or 1 in chunk:  # codec, encodings PLAIN and RLE, another file
                raise ValueError("it is compressed or encoded in a way that save does not use")


class _Compact:
    """Reads Thrift's compact protocol: a struct becomes a dictionary by the numbers of its fields."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _natural(self) -> int:
        value = 0
        for shift in range(0, 64, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError("its metadata has a number of more than 64 bits")

    def _integer(self) -> int:
        value = self._natural()
        return value >> 1 ^ -(value & 1)

    def struct(self) -> dict[int, Any]:
        """The fields up to the end of this struct."""
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            fields[number] = head & 15 == 1 if head & 15 in (1, 2) else self._value(head & 15)
        return fields

    def _value(self, kind: int) -> Any:
        if kind in (1, 2, 3):
            return self._byte()
        if kind in (4, 5, 6):
            return self._integer()
        if kind in (7, 8):
            length = 8 if kind == 7 else self._natural()
            self._at += length
            return self._data[self._at - length : self._at]
        if kind in (9, 10):
            head = self._byte()
            return [self._value(head & 15) for _ in range(self._natural() if head >> 4 == 15 else head >> 4)]
        if kind == 12:
            return self.struct()
        raise ValueError("its metadata has values of an unknown kind")
