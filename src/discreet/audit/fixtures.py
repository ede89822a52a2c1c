"""Made-up worlds to fit models in: a crowd, and one person who may be extraordinary, or not there."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

import numpy as np

from discreet.audit.neighbors import CANARY, Row, entries, ordinary
from discreet.data.interactions import Interactions
from discreet.data.readers import read
from discreet.data.synthetic import one_bit

Entries = tuple[tuple[int, float], ...]


@cache
def _ordinary(n_items: int, implicit: bool, n_users: int, rows: tuple[Any, ...]) -> Interactions:
    return ordinary(n_items, *rows, implicit=implicit, n_users=n_users)


def crowd(n_items: int, implicit: bool, person: Row | None, *, n_users: int = 100, more: Any = ()) -> Interactions:
    """Ordinary people, and one who may be extraordinary, or not there."""
    rows = [*more, *([] if person is None else [(CANARY, tuple(entries(person)))])]
    return _ordinary(n_items, implicit, n_users, tuple(rows))


@cache
def _common_crowd(row: Entries, k: int = 12) -> Interactions:
    rng = np.random.default_rng(0)
    rows = [
        (f"user {user:03}", int(item), float(rng.choice([-1.0, 1.0])))
        for user in range(700)
        for item in 2 * k + rng.choice(120, k, replace=False)
    ]
    rows += [(CANARY, item, value) for item, value in row]
    return read(rows, items=list(range(2 * k + 120)), value_range=(-1, 1), on_invalid="drop")


def common(person: Row | None) -> Interactions:
    """People who have rated some of 120 common items, and none of 24 rare ones."""
    return _common_crowd(tuple(entries(person or {})))


@cache
def _two_tastes_crowd(row: Entries) -> Interactions:
    rows = [(f"user {user:04}", item, 1.0) for user in range(6000) for item in ((0, 1) if user % 2 else (2, 3))]
    rows += [(CANARY, item, value) for item, value in row]
    return read(rows, items=list(range(64)), value_range=(-1, 1), on_invalid="drop")


def two_tastes(person: Row | None) -> Interactions:
    """People who like two items, or two others: these have long vectors, and all other items have none to speak of."""
    return _two_tastes_crowd(tuple(entries(person or {})))


@cache
def _tastes_crowd(n_items: int, neutral: int, row: Entries) -> Interactions:
    rng = np.random.default_rng(0)
    rows = [
        (f"user {user:03}", int(item), 2.5 if item < neutral else 5.0 * float((user + item) % 2))
        for user in range(300)
        for item in rng.choice(n_items, 60, replace=False)
    ]
    rows += [(CANARY, item, value) for item, value in row]
    return read(rows, items=list(range(n_items)), value_range=(0, 5), on_invalid="drop")


def tastes(n_items: int, neutral: int, person: Row | None) -> Interactions:
    """People who like every other item and dislike the rest, or the other way round; the first ones nobody minds."""
    return _tastes_crowd(n_items, neutral, tuple(entries(person or {})))


@cache
def _polar_crowd(n_items: int, row: Entries) -> Interactions:
    rng = np.random.default_rng(0)
    rows = [
        (f"user {user:03}", int(item), float(rng.uniform(-1, 1)))
        for user in range(25)
        for item in rng.choice(n_items, 20, replace=False)
    ]
    rows += [(CANARY, item, value) for item, value in row]
    return read(rows, items=list(range(n_items)), value_range=(-1, 1), on_invalid="drop")


def polar(n_items: int, person: Row | None) -> Interactions:
    """Twenty-five people with ratings from -1 to 1."""
    return _polar_crowd(n_items, tuple(entries(person or {})))


@cache
def _swaying_crowd(row: Entries) -> Interactions:
    half = 0.5**0.5  # of a row's length: the same on items 0 and 1 as on 2 and 3
    first = [(f"v{user:04}", item, half * (0.1, 0.995)[item % 2]) for user in range(2000) for item in range(4)]
    second = [(f"w{user:04}", item, half * (-0.74, 0.2)[item % 2]) for user in range(1000) for item in range(4)]
    mine = [(CANARY, item, value) for item, value in row]
    return read([*first, *second, *mine], items=list(range(20)), value_range=(-1, 1), on_invalid="drop")


def swaying(person: Row | None) -> Interactions:
    """Two crowds with rows about 1 long, of which the leading direction sways, if steps are long.

    First it is (0.03, 1), nearly that of the 2,000. Steps as long as rows then leave the 1,000 with more than they had,
    and along (0.7, 0.72).
    """
    return _swaying_crowd(tuple(entries(person or {})))


@cache
def board(flipped: tuple[int, ...]) -> Interactions:
    """A matrix of bits, some of which are the opposite."""
    made: Interactions = one_bit(20, 15, alpha=3.0, observed=1.0, random_state=0)
    values = np.array(made.values)
    values[list(flipped)] *= -1
    return dataclasses.replace(made, values=values, value_range=(-1.0, 1.0))


@cache
def unanimous(flipped: tuple[int, ...], size: int = 20) -> Interactions:
    """A matrix of bits that are all 1, but for some."""
    values = np.where(np.isin(np.arange(size**2), flipped), -1.0, 1.0)
    rows = [(at // size, at % size, value) for at, value in enumerate(values.tolist())]
    return read(rows, items=list(range(size)), value_range=(-1, 1))


def rows(person: Any, kinds: int = 1) -> Any:
    """Rows of numbers of one kind, or of some that have nothing in common, and one more."""
    crowd = np.zeros((3000, 12))
    crowd[np.arange(3000), 4 + np.arange(3000) % kinds] = 1.0
    return crowd if person is None else np.vstack([crowd, person])
