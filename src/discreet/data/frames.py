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

    frame = nw.from_native(table, eager_only=True)
    try:
        return frame.to_pandas() if library == "pandas" else frame.to_polars()
    except ModuleNotFoundError as error:
        raise DataError(f"library={library!r} is not installed ({error}); pip install {library}") from None
