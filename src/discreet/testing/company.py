"""One person served alone, and among others: everything that they are shown must be the same, to the last bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from discreet.data.catalogue import Ids
from discreet.data.interactions import Interactions
from discreet.models.base import Model
from discreet.typing import Array

Row = tuple[Array, Array]  # the items of one history, as numbers, and their values

SIZES = (1, 2, 5, 1025, 1026)  # people who are served together


def rows_of(table: Interactions) -> list[Row]:
    """Every history of a table."""
    return [(table.indices[a:b], table.values[a:b]) for a, b in pairwise(table.indptr.tolist())]


def table_of(like: Interactions, rows: Sequence[Row]) -> Interactions:
    """A table of some histories, which may be the same, or empty; the users are 0, 1, 2, ..."""
    return replace(
        like,
        users=Ids(range(len(rows))),
        indptr=np.concatenate([[0], np.cumsum([len(items) for items, _ in rows])]).astype(np.int64),
        indices=np.concatenate([items for items, _ in rows]),
        values=np.concatenate([values for _, values in rows]),
        times=None,
    )


def subjects(table: Interactions) -> list[Row]:
    """A person without a history, one with a single item, and those with the shortest and the longest history."""
    rows = sorted(rows_of(table), key=lambda row: len(row[0]))
    return [tuple(part[:0] for part in rows[0]), tuple(part[:1] for part in rows[0]), rows[0], rows[-1]]  # type: ignore[list-item]


def companies(table: Interactions) -> Iterator[tuple[Interactions, dict[int, int]]]:
    """Tables of `SIZES` people, with some of the subjects first, in the middle and last: where each of them is."""
    rows, those, rng = rows_of(table), subjects(table), np.random.default_rng(0)
    for turn, size in enumerate(SIZES):
        several = [rows[at] for at in rng.integers(0, len(rows), size)]
        places = {place: (turn + at) % len(those) for at, place in enumerate(sorted({0, size // 2, size - 1}))}
        for place, subject in places.items():
            several[place] = those[subject]
        yield table_of(table, several), places


def shown(model: Model, table: Interactions, places: Sequence[int]) -> list[dict[str, Any]]:
    """All that the people at some places of a table are shown, by name."""
    items = table.items.to_list()
    pairs = [(place, item) for place in places for item in items]
    everyone = pairs + [(user, items[user % len(items)]) for user in range(table.n_users)]
    lists = [
        model.recommend(table, n=len(items), exclude_seen=False),
        model.recommend(table, n=4, deny=items[:3]),
        model.recommend(table, n=4, allow=items[5:9]),
    ]
    predicted = model.predict(table, pairs).reshape(len(places), -1)
    among_all = model.predict(table, everyone)[: len(pairs)].reshape(len(places), -1)
    vectors, queries = model.embed(table), model.query_vector(table)
    return [
        {
            **{f"items of list {at}": found[place].items for at, found in enumerate(lists)},
            **{f"scores of list {at}": found[place].scores.tobytes() for at, found in enumerate(lists)},
            "notes": [found[place].note for found in lists],
            "predictions": predicted[row].tobytes(),
            "predictions among those for everyone": among_all[row].tobytes(),
            "vector": vectors[place].tobytes(),
            "query vector": queries[place].tobytes(),
        }
        for row, place in enumerate(places)
    ]


def differing(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """What is not the same."""
    return [name for name in one if one[name] != other[name]]
