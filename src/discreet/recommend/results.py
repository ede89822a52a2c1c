"""The results of models: recommendations, explanations, and item vectors for other search engines."""

from __future__ import annotations

import html
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.data.catalogue import Catalogue, Ids, to_library
from discreet.data.cells import arrow_of
from discreet.errors import DataError, MissingExtra
from discreet.typing import Array
from discreet.validation import whole

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN = 5  # users of a batch whose lists a notebook shows


def titles(catalogue: Catalogue, numbers: Array) -> list[Any] | None:
    """The titles of items, if the catalog has them."""
    if (name := catalogue.title_column) is None:
        return None
    cells: list[Any] = catalogue.columns.column(name).take(arrow_of(numbers)).to_pylist()
    return cells


def brief(title: Any, most: int = 60) -> str:
    """A title, shortened for a table on a screen: titles may be whole texts."""
    text = "" if title is None else " ".join(str(title).split())
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def as_texts(names: Sequence[Any]) -> pa.Array:
    """Titles as a column of text."""
    import pyarrow as pa

    return pa.array([None if name is None else str(name) for name in names], pa.large_string())


def paragraphs(sentences: Sequence[str]) -> str:
    """Sentences as HTML."""
    return "".join(f"<p>{html.escape(sentence)}</p>" for sentence in sentences)


def html_table(rows: Sequence[Sequence[str]]) -> str:
    """A table as HTML; the first row is its head."""
    head, *body = rows
    cells = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in body)
    heads = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{cells}</tbody></table>"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """A table as lines of text."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


@dataclass(frozen=True, eq=False, repr=False)
class Recommendations:
    """Items and scores for one history, best first. Iterating gives (item, score) pairs.

    Attributes:
        items: Ids, in the caller's type.
        scores: Aligned with `items`.
        titles: The items' titles, if the catalog has them.
        note: A note for the reader, for instance that there was no history; empty if there is none.
        library: The data frame library of the caller.
        kind: The Arrow type of the ids, also of an empty list; None to let Arrow infer it.
    """

    items: list[Any]
    scores: NDArray[np.floating[Any]]
    titles: list[Any] | None = None
    note: str = ""
    library: str | None = None
    kind: Any = None

    @classmethod
    def of(
        cls, catalogue: Catalogue, numbers: Array, scores: Array, note: str, library: str | None = None
    ) -> Recommendations:
        """Look up item numbers."""
        items = catalogue.ids.take(numbers)
        return cls(items.to_pylist(), scores, titles(catalogue, numbers), note, library, items.type)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[tuple[Any, float]]:
        return iter(zip(self.items, self.scores.tolist(), strict=True))

    def to_frame(self, library: str | None = None) -> Any:
        """A table for "pandas", "polars" or "pyarrow"; by default the caller's.

        Its columns are item, score, rank, and title if the catalog has titles.
        """
        import pyarrow as pa

        ranks = np.arange(1, len(self) + 1, dtype=np.int32)
        columns = {"item": pa.array(self.items, self.kind), "score": self.scores, "rank": ranks}
        titled = {} if self.titles is None else {"title": as_texts(self.titles)}
        return to_library(pa.table({**columns, **titled}), library or self.library)

    def _rows(self) -> list[tuple[str, ...]]:
        names = self.titles if self.titles is not None else [""] * len(self)
        rows = [
            (str(rank), str(item), f"{score:.4g}", brief(title))
            for rank, (item, score, title) in enumerate(zip(self.items, self.scores, names, strict=True), 1)
        ]
        return [("rank", "item", "score", "title" if self.titles is not None else ""), *rows]

    def __repr__(self) -> str:
        return "\n".join([*aligned(self._rows()), *([f"({self.note})"] if self.note else [])])

    def _repr_html_(self) -> str:
        rows = self._rows() if self.titles is not None else [row[:-1] for row in self._rows()]
        return html_table(rows) + paragraphs([self.note] if self.note else [])


@dataclass(frozen=True, eq=False, repr=False)
class BatchRecommendations:
    """Items and scores for many users: user u's are at indptr[u]:indptr[u + 1], best first.

    Attributes:
        users: The users, in the order of the histories.
        catalogue: The model's items.
        indptr: Offsets; a user with fewer than n candidates has a shorter list.
        numbers: Item numbers, positions in the model's `items_`.
        scores: Aligned with `numbers`.
        cold: Which users had no history.
        note: How items are ranked for users without a history.
        library: The data frame library of the caller.
    """

    users: Ids
    catalogue: Catalogue
    indptr: NDArray[np.int64]
    numbers: Array
    scores: NDArray[np.floating[Any]]
    cold: NDArray[np.bool_]
    note: str = ""
    library: str | None = None

    def __len__(self) -> int:
        return len(self.users)

    def __iter__(self) -> Iterator[tuple[Any, Recommendations]]:
        return ((user, self._at(at)) for at, user in enumerate(self.users))

    def __getitem__(self, user: Any) -> Recommendations:
        """One user's recommendations, by their id."""
        try:
            return self._at(self.users.number(user))
        except (KeyError, TypeError):
            raise DataError(f"user: {user!r} is not among those recommended to") from None

    def _at(self, at: int) -> Recommendations:
        row = slice(int(self.indptr[at]), int(self.indptr[at + 1]))
        note = self.note if self.cold[at] else ""
        return Recommendations.of(self.catalogue, self.numbers[row], self.scores[row], note, self.library)

    @property
    def items(self) -> pa.Array:
        """Item ids, aligned with `numbers`."""
        return self.catalogue.ids.take(self.numbers)

    def to_arrow(self) -> pa.Table:
        """A long table with the columns user, item, score, rank, and title if the catalog has titles."""
        import pyarrow as pa

        counts = np.diff(self.indptr)
        ranks = np.arange(len(self.numbers)) - np.repeat(self.indptr[:-1], counts) + 1
        columns = {
            "user": self.users.take(np.repeat(np.arange(len(self.users)), counts)),
            "item": self.items,
            "score": self.scores,
            "rank": ranks.astype(np.int32),
        }
        if (names := titles(self.catalogue, np.arange(len(self.catalogue)))) is not None:
            columns["title"] = as_texts(names).take(pa.array(self.numbers))
        return pa.table(columns)

    def to_frame(self, library: str | None = None) -> Any:
        """The long table for "pandas", "polars" or "pyarrow"; by default the library of the histories."""
        return to_library(self.to_arrow(), library or self.library)

    def __repr__(self) -> str:
        cold = int(self.cold.sum())
        beside = f"; {cold:,} without a history: {self.note}" if cold else ""
        return f"BatchRecommendations({len(self.numbers):,} for {len(self):,} users{beside})"

    def _repr_html_(self) -> str:
        few = [(user, self._at(at)) for at, user in enumerate(self.users[:SHOWN])]
        rows = [(str(user), *row) for user, found in few for row in found._rows()[1:]]
        more = [f"The lists of the first {len(few)} users are shown."] if len(few) < len(self) else []
        return html_table([("user", "rank", "item", "score", "title"), *rows]) + paragraphs([repr(self), *more])


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Why an item was recommended: what each item of the history adds to its score.

    Attributes:
        item: The item that is explained.
        score: baseline + the sum of the contributions.
        baseline: The score without any history.
        items: The items of the history, the ones that move the score most first.
        ratings: Aligned with `items`.
        contributions: Aligned with `items`.
        titles: The items' titles, if the catalog has them.
        library: The data frame library of the caller.
        kind: The Arrow type of the ids.
    """

    item: Any
    score: float
    baseline: float
    items: list[Any]
    ratings: NDArray[np.floating[Any]]
    contributions: NDArray[np.floating[Any]]
    titles: list[Any] | None = None
    library: str | None = None
    kind: Any = None

    def to_frame(self, library: str | None = None) -> Any:
        """A table with the columns item, rating, contribution, and title if there are any; as the caller's history."""
        import pyarrow as pa

        items = pa.array(self.items, self.kind)
        columns = {"item": items, "rating": self.ratings, "contribution": self.contributions}
        titled = {} if self.titles is None else {"title": as_texts(self.titles)}
        return to_library(pa.table({**columns, **titled}), library or self.library)

    def _rows(self) -> list[tuple[str, ...]]:
        names = self.titles if self.titles is not None else [""] * len(self.items)
        rows = [
            (str(item), f"{rating:g}", f"{part:+.4f}", brief(title))
            for item, rating, part, title in zip(self.items, self.ratings, self.contributions, names, strict=True)
        ]
        return [("item", "rating", "adds", ""), ("", "", f"{self.baseline:+.4f}", "without any history"), *rows]

    def __repr__(self) -> str:
        return "\n".join([*aligned(self._rows()), f"(score of {self.item!r}: {self.score:.4f})"])

    def _repr_html_(self) -> str:
        return html_table(self._rows()) + paragraphs([f"Score of {self.item!r}: {self.score:.4f}"])


# -- item vectors

FORMATS = ("numpy", "arrow", "parquet", "npz")


def export_vectors(catalogue: Catalogue, vectors: Array, format: str, path: str | PathLike[str] | None) -> Any:
    """Vectors and ids, in memory ("numpy", "arrow") or as a file ("parquet", "npz")."""
    import pyarrow as pa
    from pyarrow import parquet

    if format not in FORMATS:
        raise DataError(f"format: one of {', '.join(FORMATS)} is needed, not {format!r}")
    if (path is None) != (format in ("numpy", "arrow")):
        needed = "writes a file, so say where" if path is None else "writes none"
        raise DataError(f"path: format={format!r} {needed}")
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
            with temporary.open("wb") as file:  # given a name, NumPy would append a suffix
                np.savez(file, item=ids.astype(str) if ids.dtype == object else ids, vector=vectors)
    return None


@dataclass(frozen=True)
class AnnIndex:
    """An approximate nearest-neighbor index (usearch, HNSW) over item vectors; largest inner product first."""

    catalogue: Catalogue
    index: Any

    @classmethod
    def build(cls, catalogue: Catalogue, vectors: Array, connectivity: int, expansion: int) -> AnnIndex:
        """Index all items."""
        try:
            from usearch.index import Index
        except ModuleNotFoundError:
            raise MissingExtra("An approximate index", "ann") from None
        # Search inner products directly. One more coordinate could make all vectors equally long, and turn this into a
        # search by angle; but then nearly all vectors point the same way, which halves the recall.
        index = Index(
            ndim=vectors.shape[1], metric="ip", dtype="f32", connectivity=connectivity, expansion_search=expansion
        )
        index.add(np.arange(len(vectors)), vectors.astype(np.float32))
        return cls(catalogue, index)

    def search(self, queries: Array, n: int = 10) -> Array:
        """Item numbers (queries, n) with approximately the largest inner products; -1 if fewer were found."""
        queries = np.atleast_2d(queries)
        if queries.ndim != 2 or queries.shape[1] != self.index.ndim:
            raise DataError(f"queries: vectors of length {self.index.ndim} are needed, as query_vector gives them")
        n = min(whole("n", n, 1, error=DataError), len(self.catalogue))
        numbers = np.full((len(queries), n), -1)
        if not len(queries):
            return numbers
        found = self.index.search(queries.astype(np.float32), n)
        keys = np.atleast_2d(found.keys)
        counts = getattr(found, "counts", [keys.shape[1]])  # a single query has no counts
        for row, count in enumerate(counts):  # some nodes of the graph may be unreachable
            numbers[row, :count] = keys[row, :count]
        return numbers


# -- files


@contextmanager
def whole_file(path: str | PathLike[str]) -> Iterator[Path]:
    """A temporary path to write to. The file is moved to `path` at the end, and removed after an error."""
    target = Path(path)
    if target.is_dir() or not target.parent.is_dir():
        raise DataError(f"path: {str(target)!r} cannot be written; give the name of a file in a folder that exists")
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.tmp")
    try:
        yield temporary
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
