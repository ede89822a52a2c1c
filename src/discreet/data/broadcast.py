"""Functions and public arrays on their way from the driver of a cluster to its partitions, in pieces.

Functions are pickled by the pickler that Spark brings. Large arrays, such as the items' factors, are taken out of the
pickle and cut: no piece is larger than `PIECE`, so that there is no limit to what is sent, and nothing is copied twice.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

PIECE = 1 << 26  # bytes of one broadcast
INLINE = 1 << 16  # bytes that are sent along with each task, without a broadcast

_here: dict[str, Any] = {}  # what this worker has unpacked last


@dataclass(frozen=True)
class Broadcast:
    """An object on its way. On the other side, `open` gives it.

    Attributes:
        name: Of this object, never used again.
        sizes: Bytes of the pickle, and of each array that was taken out of it.
        pieces: All of these, one behind the other, cut: bytes, or broadcasts of bytes.
    """

    name: str
    sizes: tuple[int, ...]
    pieces: Sequence[Any]

    @classmethod
    def of(cls, thing: Any, context: Any) -> Broadcast:
        """Pack something, for the workers of a Spark context."""
        from pyspark.cloudpickle import CloudPickler

        arrays: list[pickle.PickleBuffer] = []
        head = BytesIO()
        pickler: Any = CloudPickler
        pickler(head, protocol=5, buffer_callback=arrays.append).dump(thing)
        parts = [head.getbuffer(), *(array.raw() for array in arrays)]
        sizes = tuple(part.nbytes for part in parts)
        if sum(sizes) <= INLINE:
            return cls(uuid.uuid4().hex, sizes, [bytes(part) for part in parts])
        cut = [part[at : at + PIECE] for part in parts for at in range(0, part.nbytes, PIECE)]
        return cls(uuid.uuid4().hex, sizes, [context.broadcast(bytes(piece)) for piece in cut])

    def open(self) -> Any:
        """The object, made once in each worker."""
        if self.name not in _here:
            content = bytearray(sum(self.sizes))
            at = 0
            for piece in self.pieces:
                some = piece if isinstance(piece, bytes) else piece.value
                content[at : at + len(some)] = some
                at += len(some)
            ends = [sum(self.sizes[: i + 1]) for i in range(len(self.sizes))]
            whole = memoryview(content).toreadonly()
            head, *arrays = (whole[end - size : end] for end, size in zip(ends, self.sizes, strict=True))
            _here.clear()
            _here[self.name] = pickle.loads(head, buffers=arrays)
        return _here[self.name]

    def discard(self) -> None:
        """Remove it from all workers."""
        for piece in self.pieces:
            if not isinstance(piece, bytes):
                piece.destroy()
