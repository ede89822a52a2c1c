"""Interactions in a folder, mapped into memory: for data larger than memory, or read only once."""

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

from discreet.data.assembly import Allocate
from discreet.data.catalogue import Catalogue
from discreet.data.ids import Ids
from discreet.data.interactions import ARRAYS, Interactions
from discreet.data.report import Report
from discreet.errors import DataError
from discreet.typing import Array

FORMAT = 1
ABOUT = "interactions.json"
REQUIRED = ("indptr", "indices", "values")


def save(ratings: Interactions, folder: str | os.PathLike[str]) -> None:
    """Write a folder that `load` opens."""
    with new_folder(folder, "folder") as home:
        write(ratings, home)


@contextmanager
def new_folder(folder: str | os.PathLike[str], argument: str) -> Iterator[Path]:
    """A folder beside the one asked for, which takes its place if all goes well: a folder is never half written.

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
    """Allocate arrays in working files of a folder, in place of memory."""
    numbers = count()

    def allocate(name: str, length: int, dtype: Any) -> Array:
        if not length:
            return np.empty(0, dtype)
        array: Array = open_memmap(folder / f"{name}-{next(numbers)}.work", mode="w+", dtype=dtype, shape=(length,))
        return array

    return allocate


def write(ratings: Interactions, folder: Path) -> None:
    """Write arrays, ids, catalogue, and what is said about them. Arrays in working files of the folder stay there."""
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
        "interactions": len(ratings),
        "value_range": ratings.value_range,
        "implicit": ratings.implicit,
        "origin": ratings.catalogue.origin,
        "report": asdict(ratings.report),
    }
    (folder / ABOUT).write_text(json.dumps(about, indent=2), encoding="utf-8")


def load(folder: str | os.PathLike[str]) -> Interactions:
    """Open a folder; nothing but ids and catalogue is read."""
    home = Path(folder)
    try:
        about = json.loads((home / ABOUT).read_text(encoding="utf-8"))
        if about["format"] != FORMAT:
            raise DataError(f"folder: {str(home)!r} has format {about['format']}, this version reads {FORMAT}")
        arrays = {name: _mapped(home / f"{name}.npy") for name in ARRAYS if (home / f"{name}.npy").exists()}
        items = feather.read_table(str(home / "items.arrow"))
        users = feather.read_table(str(home / "users.arrow")).column("user").combine_chunks()
        time_type = feather.read_table(str(home / "time.arrow")).schema.field("timestamp").type
        found = {name: len(arrays[name]) for name in REQUIRED}
        report = Report(**{**about["report"], "guessed": tuple(about["report"]["guessed"])})
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowInvalid) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"folder: {str(home)!r} is not a whole folder written by to_disk ({error!r})") from None
    n = about["interactions"]
    consistent = found == {"indptr": len(users) + 1, "indices": n, "values": n}
    if not consistent or arrays["indptr"][-1] != n or len(arrays.get("times", arrays["values"])) != n:
        raise DataError(f"folder: the files in {str(home)!r} do not belong together; write it again")
    ids = Ids(items.column("item").combine_chunks())
    others = items.drop_columns(["item"])
    value_range = about["value_range"]
    return Interactions(
        users=Ids(users),
        catalogue=Catalogue(ids, others if others.num_columns else None, origin=about["origin"]),
        value_range=None if value_range is None else (value_range[0], value_range[1]),
        implicit=about["implicit"],
        report=report,
        time_type=time_type if "times" in arrays else None,
        **arrays,
    )


def _mapped(path: Path) -> Array:
    # What is empty cannot be mapped.
    small = path.stat().st_size <= 256
    array: Array = np.load(path, mmap_mode=None if small else "r")
    return array
