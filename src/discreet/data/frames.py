"""Arrow tables out, in the caller's data frame library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discreet.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

LIBRARIES = ("pandas", "polars", "pyarrow")


def to_library(table: pa.Table, library: str | None) -> Any:
    """Convert an Arrow table; None leaves it as it is."""
    if library is None or library == "pyarrow":
        return table
    if library not in LIBRARIES:
        raise DataError(f"library: one of {', '.join(LIBRARIES)} is needed, not {library!r}")
    import narwhals as nw
    import pyarrow as pa

    uuids = {
        name: table.column(name).to_pylist()
        for name, kind in zip(table.column_names, table.schema.types, strict=True)
        if isinstance(kind, pa.UuidType)
    }
    for name, cells in uuids.items():  # polars has no such type, and text is of more use than bytes
        at = table.column_names.index(name)
        table = table.set_column(at, name, pa.array(map(str, cells), pa.large_string()))
    frame = nw.from_native(table, eager_only=True)
    try:
        if library == "polars":
            return frame.to_polars()
        native = frame.to_pandas()
        for name, cells in uuids.items():
            native[name] = cells
        return native  # noqa: TRY300
    except ModuleNotFoundError as error:
        raise DataError(f"library={library!r} is not installed ({error}); pip install {library}") from None
