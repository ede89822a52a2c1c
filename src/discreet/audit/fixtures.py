"""Synthetic data to fit models on: a crowd, and one person who may be extreme, or absent."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from discreet.audit.neighbors import CANARY, Row, entries, ordinary
from discreet.data.interactions import Interactions
from discreet.data.readers import read
from discreet.data.synthetic import one_bit

_ordinary = cache(ordinary)


def crowd(n_items: int, implicit: bool, person: Row | None, *, n_users: int = 100, more: Any = ()) -> Interactions:
    """Ordinary users, and one person who may be extreme, or absent."""
    people = more if person is None else (*more, (CANARY, tuple(entries(person))))
    return _ordinary(n_items, *people, implicit=implicit, n_users=n_users)


def _with(
    person: Row | None, rows: Iterable[tuple[str, int, float]], n_items: int, low: int, high: int
) -> Interactions:
    """The rows of a crowd, and those of one person."""
    rows = [*rows, *((CANARY, item, value) for item, value in entries(person or {}))]
    return read(rows, items=list(range(n_items)), value_range=(low, high), on_invalid="drop")


def common(person: Row | None, k: int = 12) -> Interactions:
    """Users who have rated some of 120 common items, and none of 24 rare ones."""
    rng = np.random.default_rng(0)
    rows = [
        (f"user {user:03}", int(item), float(rng.choice([-1.0, 1.0])))
        for user in range(700)
        for item in 2 * k + rng.choice(120, k, replace=False)
    ]
    return _with(person, rows, 2 * k + 120, -1, 1)


def two_tastes(person: Row | None) -> Interactions:
    """Users who like two items, or two others: these get long vectors, and all other items next to none."""
    rows = [(f"user {user:04}", item, 1.0) for user in range(6000) for item in ((0, 1) if user % 2 else (2, 3))]
    return _with(person, rows, 64, -1, 1)


def tastes(n_items: int, neutral: int, person: Row | None) -> Interactions:
    """Users who like every other item and dislike the rest, or the reverse; the first items are average for all."""
    rng = np.random.default_rng(0)
    rows = [
        (f"user {user:03}", int(item), 2.5 if item < neutral else 5.0 * float((user + item) % 2))
        for user in range(300)
        for item in rng.choice(n_items, 60, replace=False)
    ]
    return _with(person, rows, n_items, 0, 5)


def polar(n_items: int, person: Row | None) -> Interactions:
    """Twenty-five users with ratings from -1 to 1."""
    rng = np.random.default_rng(0)
    rows = [
        (f"user {user:03}", int(item), float(rng.uniform(-1, 1)))
        for user in range(25)
        for item in rng.choice(n_items, 20, replace=False)
    ]
    return _with(person, rows, n_items, -1, 1)


def swaying(person: Row | None) -> Interactions:
    """Two groups whose rows have a length of about 1, and a leading direction that sways if steps are long.

    At first it is (0.03, 1), nearly that of the 2,000 users. Steps as long as rows then leave the 1,000 with more than
    they had, along (0.7, 0.72).
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


@cache
def unanimous(flipped: tuple[int, ...], size: int = 20) -> Interactions:
    """A matrix of bits that are all 1, except for some."""
    values = np.where(np.isin(np.arange(size**2), flipped), -1.0, 1.0)
    rows = [(at // size, at % size, value) for at, value in enumerate(values.tolist())]
    return read(rows, items=list(range(size)), value_range=(-1, 1))


def rows(person: Any, kinds: int = 1) -> Any:
    """Rows of one or several orthogonal kinds, and one more row."""
    crowd = np.zeros((3000, 12))
    crowd[np.arange(3000), 4 + np.arange(3000) % kinds] = 1.0
    return crowd if person is None else np.vstack([crowd, person])
