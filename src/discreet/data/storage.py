"""Interactions in a folder, mapped into memory: for data larger than memory, or read only once."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.data.catalogue import Catalogue
from discreet.data.ids import Ids
from discreet.data.interactions import Interactions, Report
from discreet.errors import DataError

FORMAT = 1
ARRAYS = ("indptr", "indices", "values", "times")
REQUIRED = ("indptr", "indices", "values")


def save(ratings: Interactions, folder: str | os.PathLike[str]) -> None:
    """Write beside the folder, then move into place: a folder is never half written.

    A crash between the two moves leaves the old folder beside its place, under a name that begins with a dot.
    """
    target = Path(folder)
    if target.exists() and not (target / "interactions.json").is_file():
        raise DataError(f"folder: {str(target)!r} exists and is not one that to_disk wrote; give another")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        for name in ARRAYS:
            array = getattr(ratings, name)
            if array is not None:
                np.save(temporary / f"{name}.npy", array)
        write_rest(ratings, temporary)
        replace_folder(temporary, target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def write_rest(ratings: Interactions, folder: Path) -> None:
    """Write all but the arrays: ids, catalogue, and what is said about them."""
    import pyarrow as pa
    from pyarrow import feather

    columns = ratings.catalogue.to_arrow()
    time_type = pa.schema([("timestamp", ratings.time_type or pa.int64())]).empty_table()
    feather.write_feather(pa.table({"user": ratings.users.to_arrow()}), str(folder / "users.arrow"))
    feather.write_feather(columns, str(folder / "items.arrow"))
    feather.write_feather(time_type, str(folder / "time.arrow"))
    about = {
        "format": FORMAT,
        "interactions": len(ratings),
        "value_range": ratings.value_range,
        "implicit": ratings.implicit,
        "origin": ratings.catalogue.origin,
        "report": asdict(ratings.report),
    }
    (folder / "interactions.json").write_text(json.dumps(about, indent=2), encoding="utf-8")


def replace_folder(temporary: Path, target: Path) -> None:
    """Put a finished folder in the place of another."""
    if target.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.parent))
        target.rename(old / "old")
        temporary.rename(target)
        shutil.rmtree(old)
    else:
        temporary.rename(target)


def load(folder: str | os.PathLike[str]) -> Interactions:
    """Open a folder; nothing but ids and catalogue is read."""
    import pyarrow as pa
    from pyarrow import feather

    home = Path(folder)
    try:
        about = json.loads((home / "interactions.json").read_text(encoding="utf-8"))
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


def _mapped(path: Path) -> NDArray[Any]:
    # What is empty cannot be mapped.
    small = path.stat().st_size <= 256
    array: NDArray[Any] = np.load(path, mmap_mode=None if small else "r")
    return array
