"""The catalog of items, and ids of any type: kept as the caller gave them, numbered inside.

The rest of the library works with numbers 0..n-1. Only this module and `cells` know what an id is: an integer, a
string, a UUID, a date, anything that Arrow can hold, compare and hash. The catalog is a public input, which the owner
declares and which is never silently read off the data.
"""

from __future__ import annotations

import enum
import hashlib
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from discreet.data.cells import INTEGER, arrow_of, decoded, numpy_of, to_array
from discreet.errors import DataError, NotPublic
from discreet.privacy.store import canonical
from discreet.typing import Array, Integers

if TYPE_CHECKING:
    from discreet.privacy.statement import Statement


def sorted_order(array: pa.Array, *, written: bool = False) -> Integers:
    """The places of ids in increasing order. If ids are `written` in a text file, integers come first, 9 before 10.

    Which of two ids comes first depends on these two alone.
    """
    if written:
        integers = pc.if_else(pc.match_substring_regex(array, INTEGER), array, pa.scalar(None, array.type))
        table = pa.table({"integer": integers.cast(pa.int64()), "text": array})
        order = pc.sort_indices(table, sort_keys=[("integer", "ascending"), ("text", "ascending")])
    else:
        order = pc.array_sort_indices(storage(array))
    return numpy_of(order).astype(np.int64)


def storage(array: pa.Array) -> pa.Array:
    """The array that Arrow can hash and sort: the one behind an extension type such as UUID."""
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def smallest_unsigned(n: int) -> np.dtype[Any]:
    """The smallest unsigned integer type that holds the numbers 0..n-1."""
    return np.min_scalar_type(max(n - 1, 0))


def _common(left: pa.Array, right: pa.Array, what: str) -> tuple[pa.Array, pa.Array]:
    """Convert two arrays of ids to one type without loss, or raise. Only the types decide."""
    if left.type == right.type:
        return left, right
    text = pa.large_string()
    if all(types.is_integer(one.type) or one.type == text for one in (left, right)):
        return left.cast(text), right.cast(text)  # 7 of a table is "7" of a text file
    if types.is_null(left.type):
        return pa.nulls(len(left), right.type), right
    if types.is_null(right.type):
        return left, pa.nulls(len(right), left.type)
    raise cannot_be_compared(left.type, right.type, what)


def cannot_be_compared(left: pa.DataType, right: pa.DataType, what: str) -> DataError:
    """The error for ids of two types."""
    return DataError(
        f"{what}: ids of type {left} and of type {right} cannot be compared; convert one side, for instance both to "
        "strings"
    )


class Ids(Sequence[Any]):
    """Distinct ids in a fixed order. The number of an id is its position; ids come back in their own type."""

    def __init__(self, ids: Any, what: str = "ids") -> None:
        self._array = to_array(ids, what)
        self._distinct = False
        if self._array.null_count:
            raise DataError(f"{what}: {self._array.null_count} ids are missing; remove them")

    def require_distinct(self, what: str) -> Ids:
        """Return self, or raise a DataError that names an id given twice."""
        if not self._distinct:
            counts = pc.value_counts(storage(self._array))
            twice = numpy_of(counts.field("counts")) > 1
            if twice.any():
                shown = counts.field("values")[int(twice.argmax())].as_py()
                more = f", and so do {int(twice.sum()) - 1:,} others" if twice.sum() > 1 else ""
                raise DataError(f"{what}: the id {shown!r} occurs more than once{more}; each needs a row of its own")
            self._distinct = True
        return self

    def some(self, numbers: Array) -> Ids:
        """The ids at the given numbers, which must be distinct."""
        part = Ids(self.take(numbers))
        part._distinct = self._distinct
        return part

    def __len__(self) -> int:
        return len(self._array)

    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> Ids: ...
    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice):  # a copy: a slice of Arrow's is pickled with all other ids
            return self.some(np.arange(len(self))[at])
        return self._array[int(at)].as_py()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._array.to_pylist())

    def __contains__(self, key: object) -> bool:
        return key in self._numbers

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ids) or len(self) != len(other):
            return False
        try:
            left, right = _common(self._array, other._array, "ids")
        except DataError:
            return False
        return bool(left.equals(right))

    __hash__ = None  # type: ignore[assignment]  # compared by content

    def __repr__(self) -> str:
        return f"<{len(self)} ids of type {self._array.type}>"

    @cached_property
    def _numbers(self) -> dict[Any, int]:
        return {key: number for number, key in enumerate(self)}

    def number(self, key: Any) -> int:
        """The number of one id, or KeyError. If ids are text, 7 finds "7"."""
        if key not in self._numbers and isinstance(key, int | np.integer) and not isinstance(key, bool):
            return self._numbers[str(key)]
        return self._numbers[key]

    def numbers(self, ids: Any, what: str = "ids") -> Integers:
        """The numbers of many ids, -1 for unknown ones."""
        asked = to_array(ids, what)
        if not len(asked) or not len(self):
            return np.full(len(asked), -1, dtype=np.int64)
        left, right = _common(self._array, asked, what)
        found = pc.index_in(storage(right), value_set=storage(left), skip_nulls=True)
        return numpy_of(pc.fill_null(found, -1)).astype(np.int64)

    def take(self, numbers: Array) -> pa.Array:
        """The ids at the given numbers, repeated as asked."""
        return self._array.take(arrow_of(numbers))

    def to_arrow(self) -> pa.Array:
        """The ids as an Arrow array."""
        return self._array

    def to_list(self) -> list[Any]:
        """The ids as Python objects."""
        return list(self)

    def to_numpy(self) -> Array:
        """The ids as a NumPy array: numbers and dates in their own type, others as objects."""
        if isinstance(self._array, pa.ExtensionArray):
            objects = np.empty(len(self), dtype=object)
            objects[:] = self.to_list()
            return objects
        return numpy_of(self._array)


class ObservedItems(enum.Enum):
    """The type of `discreet.observed_items_are_public`."""

    PUBLIC = enum.auto()

    def __repr__(self) -> str:
        return "discreet.observed_items_are_public"


observed_items_are_public = ObservedItems.PUBLIC
"""Pass as `items=` to declare that the set of items in the data is public. The statement will say so."""
OBSERVED = "those observed in the data, which the owner declares to be public"
PRIVATE = "private"  # pass as `items=`, and the origin of such a catalog: which items exist is private, too
CHOSEN = "chosen from the data by a private choice of items"


class Catalogue:
    """The items in a fixed order, with whatever is publicly known about them.

    Example:
        >>> import discreet
        >>> films = discreet.datasets.movielens_like(300, 50, 6_000, random_state=0).catalogue
        >>> len(films), films.names
        (50, ['title', 'genres'])
        >>> films.column("title")[:2]
        ['Film 1', 'Film 2']

    Attributes:
        ids: The items; the position of an item is its number.
        columns: What is known about the items, in their order, as an Arrow table.
        origin: How the catalog became public; None if it has not been declared public, "private" if it is not public
            and a model is to choose from it privately.
        selection: The statement of the private choice that these items come from, or None.
    """

    def __init__(
        self,
        ids: Any,
        columns: pa.Table | None = None,
        *,
        origin: str | None = "given",
        selection: Statement | None = None,
    ) -> None:
        self.selection = selection
        self.ids = (ids if isinstance(ids, Ids) else Ids(ids, "items")).require_distinct("items")
        self.origin = origin
        self.columns = pa.table({} if columns is None else {n: _plain_text(columns[n]) for n in columns.column_names})
        if self.columns.num_columns and self.columns.num_rows != len(self.ids):
            raise DataError(f"items: {self.columns.num_rows} rows of columns for {len(self.ids)} items")

    @classmethod
    def read(cls, items: Any, *, item: str | None = None, connection: Any = None) -> Catalogue:
        """Read a catalog from ids, or from a data frame, file or SELECT with one row for each item.

        Args:
            items: A list, array or series of ids; a data frame or Arrow table; the path of a file; a SELECT.
            item: The column of the ids; by default `item`, or one with a usual name such as movieId or id.
            connection: Where a SELECT runs, as in `discreet.read`.

        Returns:
            The items in the order given (a set: sorted), with the other columns (titles, genres, ...) beside them.
        """
        if isinstance(items, Catalogue):
            return items
        if isinstance(items, set | frozenset):  # it has no order
            unordered = Ids(items, "items")
            return cls(unordered.some(sorted_order(unordered.to_arrow())))
        if not (hasattr(items, "columns") or hasattr(items, "column_names") or isinstance(items, str | os.PathLike)):
            return cls(items)
        from discreet.data.readers import read_items  # imports this module

        try:
            ids, columns = read_items(items, item, connection)
        except DataError as error:  # a file or SELECT is opened as that of any table, but this argument named it
            raise DataError(re.sub("^source: ", "items: ", str(error))) from None
        return cls(ids, columns)

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, item: object) -> bool:
        return item in self.ids

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Catalogue):
            return NotImplemented
        return self.ids == other.ids and bool(self.columns.equals(other.columns))

    __hash__ = None  # type: ignore[assignment]  # compared by content

    def __repr__(self) -> str:
        beside = f" with {', '.join(self.names)}" if self.names else ""
        if self.private:
            return f"Catalogue of private items{beside}"
        return f"Catalogue of {len(self)} items{beside} ({self.origin or 'not declared public'})"

    @property
    def private(self) -> bool:
        """Whether these items are all those in the data, and which ones these are is private."""
        return self.origin == PRIVATE

    @property
    def names(self) -> list[str]:
        """The columns beside the ids."""
        names: list[str] = self.columns.column_names
        return names

    @cached_property
    def title_column(self) -> str | None:
        """The column of what people call the items: `title` or `name`, or the first text in which hardly any repeat."""
        usual = [name for name in self.names if name.lower() in ("title", "name")]
        texts = [name for name in self.names if types.is_large_string(self.columns[name].type)]
        telling = [name for name in texts if pc.count_distinct(self.columns[name]).as_py() > 0.9 * len(self)]
        return next(iter(usual + telling), None)

    def titled(self, name: str) -> Catalogue:
        """The same catalog with a column as `title`; if there is another title, it becomes `other title`."""
        self.column(name)  # raises if there is none
        columns = {"other title" if n == "title" != name else n: self.columns[n] for n in self.names if n != name}
        texts = pa.table({"title": self.columns[name].cast(pa.large_string()), **columns})
        return Catalogue(self.ids, texts, origin=self.origin, selection=self.selection)

    @cached_property
    def _searched(self) -> list[str]:
        titles = self.ids if self.title_column is None else self.columns[self.title_column].to_pylist()
        return [_folded(str(item if title is None else title)) for item, title in zip(self.ids, titles, strict=True)]

    def search(self, text: str) -> list[int]:
        """The numbers of the items whose title, or id if there is none, contains every word of a text.

        Case and accents do not count.
        """
        found = list(range(len(self)))
        for word in _folded(text).split():
            found = [number for number in found if word in self._searched[number]]
        return found

    def column(self, name: str) -> list[Any]:
        """One column, in the order of the items."""
        if name not in self.names:
            raise DataError(f"the catalog has no column {name!r}; it has {self.names}")
        cells: list[Any] = self.columns.column(name).to_pylist()
        return cells

    def take(self, numbers: Sequence[int] | Array) -> Catalogue:
        """A catalog of the items at the given numbers, in that order."""
        chosen = np.asarray(numbers, dtype=np.int64)
        columns = self.columns.take(arrow_of(chosen)) if self.names else None
        return Catalogue(Ids(self.ids.take(chosen)), columns, origin=self.origin, selection=self.selection)

    def of_origin(self, origin: str) -> Catalogue:
        """The same items, with another explanation of how they became public."""
        return Catalogue(self.ids, self.columns, origin=origin, selection=self.selection)

    def require_public(self) -> None:
        """Raise NotPublic unless these items are public: declared by the owner, or chosen privately."""
        if self.private:
            raise NotPublic(
                "items: which items exist is private in this table, but has to be known here. Choose items first with "
                "table = discreet.select_items(table, epsilon=..., delta=...), and use that table"
            )
        if self.origin is None:
            raise NotPublic(
                "items: this catalog has not been declared public, and which items exist must not be read off private "
                "data silently. Either give the items, discreet.read(..., items=ids, frame or file), or pass "
                "items=discreet.observed_items_are_public, and the privacy statement will say so; or pass "
                "items='private', and a share of the budget goes to a private choice of items"
            )

    def to_arrow(self) -> pa.Table:
        """The ids (column `item`) and all columns, as an Arrow table."""
        others = {name: self.columns.column(name) for name in self.names if name != "item"}
        return pa.table({"item": self.ids.to_arrow(), **others})

    def to_frame(self, library: str | None = None) -> Any:
        """The same as a data frame of a library: "pandas", "polars" or "pyarrow"."""
        return to_library(self.to_arrow(), library)


# -- columns that describe items, as numbers

MOST_CATEGORIES = 100  # of one column; rarer ones are left out


def item_features(catalogue: Catalogue, names: Sequence[str]) -> Array:
    """Columns of the catalog as numbers: one for each category of a text column, one of unit variance for numbers."""
    if isinstance(names, str):
        raise DataError(f"features: a list of columns is needed, for instance [{names!r}]")
    require_columns(catalogue, names)
    columns = [column for name in names for column in _feature_columns(catalogue, name)]
    return np.column_stack(columns) if columns else np.zeros((len(catalogue), 0))


def require_columns(catalogue: Catalogue, names: Sequence[str]) -> None:
    """Raise unless a catalog has these columns, and each has categories that items share."""
    for name in names:
        telling = [other for other in catalogue.names if other not in (name, catalogue.title_column)]
        others = f"columns that describe items: {', '.join(telling)}"
        if name not in catalogue.names:
            instead = f"; {others}" if telling else ", nor any that describes items"
            raise DataError(f"features: the catalog has no column {name!r}{instead}")
        if _tells_apart(catalogue.columns[name]):
            raise DataError(
                f"features: hardly any two items share a text in {name!r}, so nothing that is learned about one item "
                f"helps with another; leave it out{f' ({others})' if telling else ''}"
            )


def shared_texts(catalogue: Catalogue) -> list[str]:
    """The columns of texts that several items share, such as genres: they may serve as features."""
    texts = {name: catalogue.columns[name] for name in catalogue.names if name != catalogue.title_column}
    return [name for name, column in texts.items() if types.is_large_string(column.type) and not _tells_apart(column)]


def _tells_apart(column: pa.ChunkedArray) -> bool:
    """Whether a column has texts, and hardly any item shares one of its categories with another."""
    if not types.is_large_string(column.type) or pc.count_distinct(column).as_py() <= 0.9 * len(column):
        return False
    tags = [_tags(entry) for entry in column.to_pylist() if entry is not None]
    counts = Counter(tag for own in tags for tag in own)
    return sum(any(counts[tag] > 1 for tag in own) for own in tags) < 0.1 * len(tags)


def _feature_columns(catalogue: Catalogue, name: str) -> list[Array]:
    entries = catalogue.column(name)
    present = [entry for entry in entries if entry is not None]
    if all(isinstance(entry, int | float) and not isinstance(entry, bool) for entry in present):
        numbers = np.array([np.nan if entry is None else float(entry) for entry in entries])
        known = np.isfinite(numbers)
        if not known.any() or np.ptp(numbers[known]) == 0:
            return []
        centered = np.where(known, numbers - numbers[known].mean(), 0.0)
        return [centered / np.sqrt(np.mean(centered[known] ** 2))]
    tags = [set() if entry is None else _tags(entry) for entry in entries]
    counts = Counter(tag for own in tags for tag in own)
    common = sorted(counts, key=lambda tag: (-counts[tag], tag))[:MOST_CATEGORIES]
    # Each item's categories have length 1 together, as its numbers do.
    return [np.array([(tag in own) / np.sqrt(max(len(own), 1)) for own in tags]) for tag in common]


def _tags(entry: Any) -> set[str]:
    tags = entry if isinstance(entry, list | tuple) else str(entry).split("|")
    return {str(tag).strip() for tag in tags if str(tag).strip()}


def _folded(text: str) -> str:
    """Text to compare, without case and accents, as in web/static/search.js."""
    letters = unicodedata.normalize("NFKD", text)
    return (letters if letters.isascii() else "".join(c for c in letters if unicodedata.category(c) != "Mn")).casefold()


def _plain_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """One type for text from any library."""
    if isinstance(column.type, pa.DictionaryType):
        column = pa.chunked_array([decoded(chunk) for chunk in column.chunks] or [pa.array([], pa.large_string())])
    is_text = types.is_string(column.type) or types.is_string_view(column.type)
    return column.cast(pa.large_string()) if is_text else column


LIBRARIES = ("pandas", "polars", "pyarrow")


def to_library(table: pa.Table, library: str | None) -> Any:
    """An Arrow table as a data frame of a library; None leaves it as it is."""
    if library is None or library == "pyarrow":
        return table
    if library not in LIBRARIES:
        raise DataError(f"library: one of {', '.join(LIBRARIES)} is needed, not {library!r}")
    uuids = {field.name: table[field.name].to_pylist() for field in table.schema if isinstance(field.type, pa.UuidType)}
    for name, cells in uuids.items():  # polars has no such type, and text is of more use than bytes
        at = table.column_names.index(name)
        table = table.set_column(at, name, pa.array(map(str, cells), pa.large_string()))
    import narwhals as nw

    frame = nw.from_native(table, eager_only=True)
    try:
        native = frame.to_polars() if library == "polars" else frame.to_pandas()
    except ModuleNotFoundError as error:
        raise DataError(f"library={library!r} is not installed ({error}); pip install {library}") from None
    for name, cells in uuids.items() if library == "pandas" else ():
        native[name] = cells
    return native


# -- hashes of content, not of files: the same on every machine and for every version of a library


def catalogue_sha256(catalogue: Catalogue) -> str:
    """The SHA-256 of the content of a catalog."""
    columns = (catalogue.ids.to_arrow(), *catalogue.columns.columns)
    about = canonical([catalogue.origin, len(catalogue), *catalogue.names]).encode()
    return sha256_of(about, *map(_content, columns))


def sha256_of(*pieces: Any) -> str:
    """The SHA-256 of pieces of bytes, each after its length, so that no two lists of pieces hash the same bytes."""
    sha256 = hashlib.sha256()
    for piece in pieces:
        view = memoryview(piece).cast("B") if len(piece) else b""
        sha256.update(len(view).to_bytes(8, "little"))
        sha256.update(view)
    return sha256.hexdigest()


def _content(column: Any) -> bytes:
    """The content of an Arrow column, independent of its chunks and of the memory behind missing values."""
    array: pa.Array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    name = "" if types.is_nested(array.type) else str(array.type)  # parquet changes the names inside a list
    array = storage(array)
    if types.is_temporal(array.type):  # as numbers: Python has no nanoseconds, and names time zones in several ways
        array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    return f"{name} {array.to_pylist()!r}".encode("utf-8", "backslashreplace")
