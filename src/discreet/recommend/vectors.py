"""Item vectors for other search engines, and a ready-made approximate index."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from discreet.data.catalogue import Catalogue
from discreet.errors import DataError, MissingExtra
from discreet.recommend.files import whole_file
from discreet.typing import Array
from discreet.validation import whole

FORMATS = ("numpy", "arrow", "parquet", "npz")


def export(catalogue: Catalogue, vectors: Array, format: str, path: str | PathLike[str] | None) -> Any:
    """Vectors and ids, in memory ("numpy", "arrow") or as a file ("parquet", "npz")."""
    import pyarrow as pa
    from pyarrow import parquet

    if format not in FORMATS:
        raise DataError(f"format: one of {', '.join(FORMATS)} is needed, not {format!r}")
    if (path is None) != (format in ("numpy", "arrow")):
        raise DataError(
            f"path: format={format!r} " + ("writes a file, so say where" if path is None else "writes none")
        )
    if format == "numpy":
        return catalogue.ids.to_numpy(), vectors
    cells = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])
    table = pa.table({"item": catalogue.ids.to_arrow(), "vector": cells})
    if path is None:
        return table
    with whole_file(path) as temporary:
        if format == "parquet":
            parquet.write_table(table, temporary)
        else:
            ids = catalogue.ids.to_numpy()
            with temporary.open("wb") as file:  # by its name, the file would get a suffix
                np.savez(file, item=ids.astype(str) if ids.dtype == object else ids, vector=vectors)
    return None


@dataclass(frozen=True)
class AnnIndex:
    """An approximate nearest-neighbour index (usearch, HNSW) over item vectors; largest inner product first."""

    catalogue: Catalogue
    index: Any

    @classmethod
    def build(cls, catalogue: Catalogue, vectors: Array, connectivity: int, expansion: int) -> AnnIndex:
        """Index all items."""
        try:
            from usearch.index import Index
        except ModuleNotFoundError:
            raise MissingExtra("An approximate index", "ann") from None
        # Inner products are searched as they are. To make vectors equally long by one more number, so that the largest
        # product becomes the nearest direction, points nearly all of them in that direction, and halves the recall.
        index = Index(
            ndim=vectors.shape[1], metric="ip", dtype="f32", connectivity=connectivity, expansion_search=expansion
        )
        index.add(np.arange(len(vectors)), vectors.astype(np.float32))
        return cls(catalogue, index)

    def search(self, queries: Array, n: int = 10) -> Array:
        """Item numbers (queries, n) of about the largest inner products with each query vector; -1 where none is."""
        queries = np.atleast_2d(queries)
        if queries.ndim != 2 or queries.shape[1] != self.index.ndim:
            raise DataError(f"queries: vectors of length {self.index.ndim} are needed, as query_vector gives them")
        n = min(whole("n", n, 1), len(self.catalogue))
        numbers = np.full((len(queries), n), -1)
        if not len(queries):
            return numbers
        found = self.index.search(queries.astype(np.float32), n)
        keys = np.atleast_2d(found.keys)
        counts = getattr(found, "counts", [keys.shape[1]])  # a single query's keys are those that were found
        for row, count in enumerate(counts):  # a graph may have places that no search reaches
            numbers[row, :count] = keys[row, :count]
        return numbers
