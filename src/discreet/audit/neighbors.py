"""Synthetic data: ordinary users, and one person who may be extreme, or absent. Every bound must hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from functools import cache, wraps
from typing import Any

import numpy as np

from discreet.data.interactions import Interactions
from discreet.data.readers import read
from discreet.data.synthetic import one_bit
from discreet.typing import Array

Row = Mapping[int, float] | tuple[tuple[int, float], ...]  # item -> rating; or pairs, which may repeat an item
Rating = tuple[str, int, float]  # user, item, rating
CANARY = "x"  # sorted last, so that no other user's number depends on whether the canary is there


def entries(row: Row) -> Iterable[tuple[int, float]]:
    """Items and ratings of a row."""
    return row.items() if isinstance(row, Mapping) else row


def _ratings(n_users: int, each: int, items: Iterable[int], value: Callable[..., float]) -> list[Rating]:
    """Ratings by users with `each` random items; `value` is given a random generator, the user and the item."""
    rng, choices = np.random.default_rng(0), np.array(items)
    return [
        (f"user {user:04}", int(item), value(rng, user, item))
        for user in range(n_users)
        for item in rng.choice(choices, each, replace=False)
    ]


def ordinary(n_items: int, *people: tuple[str, Row], implicit: bool = False, n_users: int = 100) -> Interactions:
    """Ordinary users with twelve ratings each, from 0 to 5, and the given people."""
    rows = _ratings(n_users, 12, range(n_items), lambda rng, *_: float(rng.integers(0, 6)))
    rows += [(name, item, value) for name, row in people for item, value in entries(row)]
    items = list(range(n_items))
    if implicit:
        return read([row[:2] for row in rows], items=items)
    return read(rows, items=items, value_range=(0, 5), on_invalid="drop")


def extremes(crowd: Interactions) -> dict[str, Row]:
    """People to test bounds with, for any model, by what is unusual about them."""
    n_items, (low, high) = crowd.n_items, crowd.value_range or (0.0, 1.0)
    ends, half = (low, high), range(n_items // 2)
    counts = np.bincount(crowd.indices, minlength=n_items)
    rare = np.argsort(counts, kind="stable")[: max(n_items // 10, 2)].tolist()
    return {
        "rates everything alike": dict.fromkeys(range(n_items), high),
        "rates everything, at the extremes": {item: ends[item % 2] for item in range(n_items)},
        "loves half of everything": dict.fromkeys(half, high),
        "hates half of everything": dict.fromkeys(half, low),
        "has mixed feelings about half": {item: ends[item % 2] for item in half},
        "has one item": {n_items // 3: high},
        "has one item, at the bottom": {n_items // 3: low},
        "has two items": {1: high, n_items - 1: low},
        "has rare items only": {item: ends[at % 2] for at, item in enumerate(rare)},
        "rates one item again and again": ((3, high),) * 60,
        "sends NaN, infinities and ratings out of range": {
            0: float("nan"), 1: float("inf"), 2: -float("inf"), 3: 1e300, 4: low - 7.0, 5: high,
        },
    }  # fmt: skip


# Data for the subjects of `subjects.py`: the last positional argument is the person, or None


def _once(make: Callable[..., Interactions]) -> Callable[..., Interactions]:
    """Read the data with each person only once: a subject is fitted to the same data many times."""
    remembered = cache(make)

    @wraps(make)
    def data(*given: Any, **options: Any) -> Interactions:
        return remembered(*(tuple(one.items()) if isinstance(one, Mapping) else one for one in given), **options)

    return data


@_once
def crowd(
    n_items: int, implicit: bool, person: Row | None, *, n_users: int = 100, more: tuple[tuple[str, Row], ...] = ()
) -> Interactions:
    """Ordinary users, some more, and one person."""
    people = more if person is None else (*more, (CANARY, person))
    return ordinary(n_items, *people, implicit=implicit, n_users=n_users)


@cache
def camps(n_items: int, n_users: int = 3000) -> tuple[tuple[str, Row], ...]:
    """People of two camps, each with items of its own half of the catalog and a few others: tastes that stand out."""
    people = []
    for at in range(n_users):
        rng, first = np.random.default_rng(at), at % 2 * (n_items // 2)
        items = {*(first + rng.choice(n_items // 2, 12, False)).tolist(), *rng.choice(n_items, 4, False).tolist()}
        people.append((f"camp {at:04}", tuple((item, 2.0 + 3.0 * ((item + at) % 3 > 0)) for item in sorted(items))))
    return tuple(people)


def _with(person: Row | None, rows: list[Rating], n_items: int, low: int, high: int) -> Interactions:
    """The given ratings, and those of one person."""
    rows = [*rows, *((CANARY, item, value) for item, value in entries(person or {}))]
    return read(rows, items=list(range(n_items)), value_range=(low, high), on_invalid="drop")


@_once
def some_rare(person: Row | None) -> Interactions:
    """Users with items below 40, and twenty others who have one item each, from 60 on, that nobody else has."""
    rows = _ratings(100, 12, range(40), lambda *_: 1.0)
    return _with(person, [*rows, *((f"other {item}", item, 1.0) for item in range(60, 80))], 80, 0, 1)


@_once
def common(person: Row | None) -> Interactions:
    """Users who have rated some of 120 common items, and none of 24 rare ones."""
    rows = _ratings(700, 12, range(24, 144), lambda rng, *_: float(rng.choice([-1.0, 1.0])))
    return _with(person, rows, 144, -1, 1)


@_once
def two_tastes(person: Row | None) -> Interactions:
    """Users who like two items, or two others: these get long vectors, and all other items nearly none."""
    rows = [(f"user {user:04}", item, 1.0) for user in range(6000) for item in ((0, 1) if user % 2 else (2, 3))]
    return _with(person, rows, 64, -1, 1)


@_once
def long_tail(person: Row | None) -> Interactions:
    """Users who have two popular items, or two others, and ten of many that are not popular."""
    rows = _ratings(600, 10, range(4, 64), lambda *_: 1.0)
    rows += [(f"user {u:04}", item, 1.0) for u in range(600) for item in ((0, 1) if u % 2 else (2, 3))]
    rows += [(CANARY, item, 1.0) for item, _ in entries(person or {})]
    return read([row[:2] for row in rows], items=list(range(64)))


@_once
def polar(n_items: int, person: Row | None) -> Interactions:
    """Twenty-five users with ratings from -1 to 1."""
    return _with(person, _ratings(25, 20, range(n_items), lambda rng, *_: float(rng.uniform(-1, 1))), n_items, -1, 1)


@_once
def swaying(person: Row | None) -> Interactions:
    """Two groups whose rows have a length of about 1, and a leading direction that turns if steps are long.

    The first direction is (0.03, 1), nearly that of the 2,000 users. Steps as long as rows overshoot: they make the
    residuals of the other 1,000 users longer. The next direction is then (0.7, 0.72).
    """
    half = 0.5**0.5  # of a row's length: the same on items 0 and 1 as on 2 and 3
    first = [(f"v{user:04}", item, half * (0.1, 0.995)[item % 2]) for user in range(2000) for item in range(4)]
    second = [(f"w{user:04}", item, half * (-0.74, 0.2)[item % 2]) for user in range(1000) for item in range(4)]
    return _with(person, [*first, *second], 20, -1, 1)


@cache
def board(flipped: tuple[int, ...]) -> Interactions:
    """A matrix of bits, some of them flipped."""
    made: Interactions = one_bit(20, 15, alpha=3.0, observed=1.0, random_state=0)
    values = np.array(made.values)
    values[list(flipped)] *= -1
    return dataclasses.replace(made, values=values, value_range=(-1.0, 1.0))


def rows(person: Any, kinds: int = 1) -> Array:
    """Rows of one or several orthogonal kinds, and one more row."""
    crowd = np.zeros((3000, 12))
    crowd[np.arange(3000), 4 + np.arange(3000) % kinds] = 1.0
    return crowd if person is None else np.vstack([crowd, person])
