"""What the catalogue publicly says about items, as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from discreet.data.catalogue import Catalogue
from discreet.errors import DataError
from discreet.typing import Array

MOST_CATEGORIES = 100  # of one column; rarer ones are left out


def item_features(catalogue: Catalogue, names: Sequence[str]) -> Array:
    """One column for each category of a text column, and one of unit variance for a column of numbers."""
    if isinstance(names, str):
        raise DataError(f"features: a list of columns is needed, for instance [{names!r}]")
    columns = [column for name in names for column in _columns(catalogue, name)]
    return np.column_stack(columns) if columns else np.zeros((len(catalogue), 0))


def _columns(catalogue: Catalogue, name: str) -> list[Array]:
    if name not in catalogue.names:
        raise DataError(
            f"features: the catalogue has no column {name!r}; it has {', '.join(catalogue.names) or 'none'}"
        )
    cells = catalogue.column(name)
    present = [cell for cell in cells if cell is not None]
    if all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in present):
        numbers = np.array([np.nan if cell is None else float(cell) for cell in cells])
        known = np.isfinite(numbers)
        if not known.any() or np.ptp(numbers[known]) == 0:
            return []
        centred = np.where(known, numbers - numbers[known].mean(), 0.0)
        return [centred / np.sqrt(np.mean(centred[known] ** 2))]
    tags = [set() if cell is None else _tags(cell) for cell in cells]
    counts: dict[str, int] = {}
    for tag in sorted(set().union(*tags)):
        counts[tag] = sum(tag in of_item for of_item in tags)
    common = sorted(counts, key=lambda tag: (-counts[tag], tag))[:MOST_CATEGORIES]
    # Each item's categories have length 1 together, as its numbers do.
    return [np.array([(tag in own) / np.sqrt(max(len(own), 1)) for own in tags]) for tag in common]


def _tags(cell: Any) -> set[str]:
    parts = cell if isinstance(cell, list | tuple) else str(cell).split("|")
    return {str(part).strip() for part in parts if str(part).strip()}
