"""Interactions in a folder: arrays that are mapped into memory, ids, the catalog, and what is public about them."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.lib.format import open_memmap
from pyarrow import feather

from discreet.data.catalogue import Catalogue, Ids
from discreet.data.interactions import ARRAYS, Allocate, Interactions, Report
from discreet.errors import DataError
from discreet.privacy.statement import Statement
from discreet.typing import Array

FORMAT = 1
ABOUT = "interactions.json"


@contextmanager
def new_folder(folder: str | os.PathLike[str], argument: str) -> Iterator[Path]:
    """Yield a temporary folder that replaces the target if all goes well: the target is never half written.

    A crash between the two moves leaves the old folder beside its place, under a name that begins with a dot.
    """
    target = Path(folder)
    if target.exists() and not (target / ABOUT).is_file():
        raise DataError(f"{argument}: {str(target)!r} exists and is not one that discreet wrote; give another folder")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        yield temporary
        if target.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.parent))
            target.rename(old / "old")
            temporary.rename(target)
            shutil.rmtree(old)
        else:
            temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def arrays_in(folder: Path) -> Allocate:
    """Allocate arrays in working files of a folder instead of memory."""
    numbers = count()

    def allocate(name: str, length: int, dtype: Any) -> Array:
        if not length:
            return np.empty(0, dtype)
        array: Array = open_memmap(folder / f"{name}-{next(numbers)}.work", mode="w+", dtype=dtype, shape=(length,))
        return array

    return allocate


def write(ratings: Interactions, folder: Path) -> None:
    """Write arrays, ids, catalog and their description. Arrays in working files of the folder stay there."""
    for name in ARRAYS:
        array = getattr(ratings, name)
        if isinstance(array, np.memmap) and array.filename is not None and Path(array.filename).parent == folder:
            array.flush()
            Path(array.filename).rename(folder / f"{name}.npy")
        elif array is not None:
            np.save(folder / f"{name}.npy", array)
    for file in folder.glob("*.work"):
        file.unlink()
    time_type = pa.schema([("timestamp", ratings.time_type or pa.int64())]).empty_table()
    feather.write_feather(pa.table({"user": ratings.users.to_arrow()}), str(folder / "users.arrow"))
    feather.write_feather(ratings.catalogue.to_arrow(), str(folder / "items.arrow"))
    feather.write_feather(time_type, str(folder / "time.arrow"))
    about = {
        "format": FORMAT,
        "value_range": ratings.value_range,
        "implicit": ratings.implicit,
        "origin": ratings.catalogue.origin,
        "selection": None if ratings.catalogue.selection is None else ratings.catalogue.selection.json(),
        "report": asdict(ratings.report),
    }
    (folder / ABOUT).write_text(json.dumps(about, indent=2), encoding="utf-8")


def read(folder: str | os.PathLike[str]) -> Interactions:
    """What `write` has written. Arrays stay on disk and are paged in as they are used."""
    home = Path(folder)
    try:
        about = json.loads((home / ABOUT).read_text(encoding="utf-8"))
        found = _loaded(home, about) if about["format"] == FORMAT else None
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowInvalid) as error:
        raise DataError(f"folder: {str(home)!r} is not a whole folder written by to_disk ({error!r})") from None
    if found is None:
        raise DataError(f"folder: {str(home)!r} has format {about['format']}, this version reads {FORMAT}")
    try:
        return Interactions(**found)
    except DataError:
        raise DataError(f"folder: the files in {str(home)!r} do not belong together; write it again") from None


def _loaded(home: Path, about: dict[str, Any]) -> dict[str, Any]:
    """The arguments of Interactions, as written by `write`. Arrays are mapped, except empty ones."""
    selection = None if about.get("selection") is None else Statement.parse(about["selection"])
    files = {name: home / f"{name}.npy" for name in ARRAYS if name != "times" or (home / "times.npy").exists()}
    users, items, time = (feather.read_table(str(home / f"{name}.arrow")) for name in ("users", "items", "time"))
    return {
        "users": Ids(users["user"]),
        "catalogue": Catalogue(
            items["item"], items.drop_columns(["item"]), origin=about["origin"], selection=selection
        ),
        "value_range": None if about["value_range"] is None else tuple(about["value_range"]),
        "implicit": about["implicit"],
        "report": Report(**{**about["report"], "guessed": tuple(about["report"]["guessed"])}),
        "time_type": time.schema.field("timestamp").type if "times" in files else None,
        **{name: np.load(file, mmap_mode="r" if file.stat().st_size > 256 else None) for name, file in files.items()},
    }
