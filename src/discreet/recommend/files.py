"""Files that appear when they are whole."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from discreet.errors import DataError


@contextmanager
def whole_file(path: str | PathLike[str]) -> Iterator[Path]:
    """Where to write a file; it takes its place in the end, and leaves nothing behind after an error."""
    target = Path(path)
    if target.is_dir() or not target.parent.is_dir():
        raise DataError(f"path: {str(target)!r} cannot be written; give the name of a file in a folder that exists")
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.tmp")
    try:
        yield temporary
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
