"""What happened when a table was read, and what is in it: exact numbers, for its owner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.typing import Array

if TYPE_CHECKING:
    from discreet.data.interactions import Interactions


@dataclass(frozen=True)
class Report:
    """What happened when a table was read. For the owner: these are exact numbers about private data."""

    source: str = "made in memory"
    columns: str = ""
    guessed: tuple[str, ...] = ()
    rows: int = 0
    dropped: int = 0
    clipped: int = 0
    unknown: int = 0
    repeated: int = 0
    library: str | None = None


class Description(dict[str, Any]):
    """Exact numbers about private data, for the owner's eyes. Prints as a table."""

    def __str__(self) -> str:
        width = max(map(len, self), default=0)
        lines = [f"{name:<{width}}  {_shown(value)}" for name, value in self.items()]
        return "\n".join(["For the owner's eyes: exact numbers about private data.", *lines])

    __repr__ = __str__


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(part)}" for name, part in value.items())
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def describe(ratings: Interactions) -> Description:
    """Counts and distributions of a table."""
    per_item = np.bincount(ratings.indices, minlength=ratings.n_items)
    pairs = ratings.n_users * ratings.n_items
    deviation = float(ratings.values.std(dtype=np.float64)) if len(ratings) else 0.0
    described: dict[str, Any] = {
        "interactions": len(ratings),
        "users": ratings.n_users,
        "items": ratings.n_items,
        "items with interactions": int((per_item > 0).sum()),
        "density": len(ratings) / pairs if pairs else 0.0,
        "per user": _spread(np.diff(ratings.indptr)),
        "per item": _spread(per_item),
        "values": _spread(ratings.values) | {"std": deviation},
    }
    if ratings.times is not None and len(ratings):
        at = np.array([ratings.times.argmin(), ratings.times.argmax()])
        first, last = ratings.moments(at).to_pylist()
        described["times"] = {"from": str(first), "to": str(last)}
    described |= {f"public {name}": text for name, text in ratings.public_inputs.items()}
    report = ratings.report
    described["source"] = report.source
    if report.columns:
        described["columns"] = report.columns + (" (guessed)" if report.guessed else "")
    for name in ("rows", "dropped", "clipped", "unknown", "repeated"):
        if getattr(report, name):
            described[f"{name} when read"] = getattr(report, name)
    return Description(described)


def _spread(numbers: Array) -> dict[str, float]:
    if not len(numbers):
        return {}
    low, high = float(numbers.min()), float(numbers.max())
    mean, median = float(numbers.mean(dtype=np.float64)), float(np.median(numbers))
    return {"min": low, "median": median, "mean": mean, "max": high}
