"""Synthetic users: ordinary ones for a crowd, and extreme ones, for whom every bound must hold too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from discreet.data.interactions import Interactions
from discreet.data.readers import read

Row = Mapping[int, float] | tuple[tuple[int, float], ...]  # item -> rating; or pairs, which may repeat an item
CANARY = "x"  # sorted last, so that no other user gets another number when the canary comes or goes


def entries(row: Row) -> Iterable[tuple[int, float]]:
    """Items and ratings of a row."""
    return row.items() if isinstance(row, Mapping) else row


def ordinary(n_items: int, *people: tuple[str, Row], implicit: bool = False, n_users: int = 100) -> Interactions:
    """Ordinary users with twelve ratings each, from 0 to 5, and the given people."""
    rng = np.random.default_rng(0)
    rows: list[tuple[Any, ...]] = [
        (f"user {i:04}", int(j), float(rng.integers(0, 6)))
        for i in range(n_users)
        for j in rng.choice(n_items, 12, replace=False)
    ]
    rows += [(name, item, value) for name, row in people for item, value in entries(row)]
    items = list(range(n_items))
    if implicit:
        return read([row[:2] for row in rows], items=items)
    return read(rows, items=items, value_range=(0, 5), on_invalid="drop")


def extremes(crowd: Interactions) -> dict[str, Row]:
    """People to try bounds on, for any model: each name says what is unusual about them."""
    n_items, (low, high) = crowd.n_items, crowd.value_range or (0.0, 1.0)
    ends, half = (low, high), range(n_items // 2)
    counts = np.bincount(crowd.indices, minlength=n_items)
    rare = np.argsort(counts, kind="stable")[: max(n_items // 10, 2)].tolist()
    return {
        "rates everything alike": dict.fromkeys(range(n_items), high),
        "rates everything, at the extremes": {item: ends[item % 2] for item in range(n_items)},
        "loves half of everything": dict.fromkeys(half, high),
        "hates half of everything": dict.fromkeys(half, low),
        "is divided about half": {item: ends[item % 2] for item in half},
        "has one item": {n_items // 3: high},
        "has one item, at the bottom": {n_items // 3: low},
        "has two items": {1: high, n_items - 1: low},
        "has rare items only": {item: ends[at % 2] for at, item in enumerate(rare)},
        "rates one item again and again": ((3, high),) * 60,
        "sends NaN, infinities and ratings out of range": {
            0: float("nan"), 1: float("inf"), 2: -float("inf"), 3: 1e300, 4: low - 7.0, 5: high,
        },
    }  # fmt: skip
