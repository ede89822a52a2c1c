"""Public columns of the catalog that describe items, as numbers; and what they predict of other numbers of items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from discreet.data.catalogue import Catalogue
from discreet.errors import DataError
from discreet.kernels import single_threaded_blas
from discreet.typing import Array

MOST_CATEGORIES = 100  # of one column of the catalog; rarer ones are left out
ROUNDS = 20  # in which the penalties of a regression settle


def item_features(catalogue: Catalogue, names: Sequence[str]) -> Array:
    """One column for each category of a text column, and one of unit variance for a column of numbers."""
    if isinstance(names, str):
        raise DataError(f"features: a list of columns is needed, for instance [{names!r}]")
    require_columns(catalogue, names)
    columns = [column for name in names for column in _feature_columns(catalogue, name)]
    return np.column_stack(columns) if columns else np.zeros((len(catalogue), 0))


def require_columns(catalogue: Catalogue, names: Sequence[str]) -> None:
    """Raise unless a catalog has these columns."""
    for name in names:
        if name not in catalogue.names:
            telling = [other for other in catalogue.names if other != catalogue.title_column]
            instead = f"; columns that describe items: {', '.join(telling)}" if telling else ", nor others that help"
            raise DataError(f"features: the catalog has no column {name!r}{instead}")


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


def regression(features: Array, values: Array) -> Array:
    """Coefficients (features, k) of values (items, k), by ridge regressions whose penalties follow from the data.

    Coefficients and what they do not explain are taken to have normal distributions, whose variances are found by
    maximizing the likelihood of the values (MacKay 1992), for each column.
    """
    n, size = features.shape[0], np.maximum((values**2).mean(axis=0), 1e-300)
    with single_threaded_blas():
        squares, basis = np.linalg.eigh(features.T @ features)
        squares, along = np.maximum(squares, 0)[:, None], basis.T @ (features.T @ values)
        spread, error = size / max(float(squares.mean()) / max(n, 1), 1e-300), size
        for _ in range(ROUNDS):
            shares = squares * spread / (squares * spread + error)
            found = along * spread / (squares * spread + error)
            free = shares.sum(axis=0)
            left = (values**2).sum(axis=0) - (found * (2 * along - squares * found)).sum(axis=0)
            spread = np.maximum((found**2).sum(axis=0) / np.maximum(free, 1e-9), 1e-12 * spread)
            error = np.maximum(left / np.maximum(n - free, 1), 1e-12 * size)
        return np.asarray(basis @ found)
