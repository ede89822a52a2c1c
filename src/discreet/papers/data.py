"""The data of a table or figure: the paper's, another data set instead, or generated; the label always says which."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from discreet.data import datasets, splits
from discreet.data.archives import ENVIRONMENT, cache_folder
from discreet.data.datasets import CATALOG, DataSet
from discreet.data.interactions import Interactions
from discreet.errors import DataError
from discreet.papers.reproduction import Options
from discreet.typing import Array

QUICK_USERS = 400  # of real data
QUICK_SHAPE = (400, 120, 12_000)  # of generated data

Shape = tuple[int, int, int]  # users, items, ratings


class Labeled(NamedTuple):
    """Ratings with a label that says what they are."""

    ratings: Interactions
    label: str


class Division(NamedTuple):
    """Ratings split for training and testing; test users are folded in from `history`."""

    label: str
    train: Interactions
    history: Interactions
    test: Interactions

    def rmse(self, model: Any) -> float:
        """Root mean squared error of a fitted model over all test ratings."""
        return float(np.sqrt(np.mean((model.predict(self.history, self.test) - self.test.values) ** 2)))


def load(name: str, options: Options, shape: Shape | None = None) -> Labeled:
    """A data set of a paper, or its substitute; `shape` of generated ratings."""
    wanted = CATALOG[name]
    if options.generated:
        real = (wanted.users, wanted.items, wanted.interactions)
        users, items, count = QUICK_SHAPE if options.quick else shape or real
        made = datasets.movielens_like(users, items, count, random_state=0)
        if made.value_range != wanted.value_range:
            made = made.rescale(*wanted.value_range)
        size = f"{users:,} x {items:,}, {count:,} ratings"
        return Labeled(made, f"GENERATED (movielens_like, {size}), NOT {wanted.title}")
    data = wanted if options.data is None else datasets.find(options.data)
    if data.where() is None and options.source is None:
        raise DataError(missing(data))
    ratings = datasets.load(data.name, options.source)
    label = data.title if data is wanted else f"{data.title}, INSTEAD OF {wanted.title}"
    if options.quick and ratings.n_users > QUICK_USERS:
        ratings = ratings.of_users(np.arange(QUICK_USERS))
        label += f" (quick: {QUICK_USERS} users only)"
    return Labeled(ratings, label)


def missing(data: DataSet) -> str:
    """What to do about missing data."""
    files = " or ".join(data.files)
    fetch = f"`discreet datasets fetch {data.name}`, or " if data.downloads else ""
    return (
        f"{data.title} is not available: {fetch}put {files} into the folder named by {ENVIRONMENT} (or into "
        f"{str(cache_folder())!r}); --generated runs on made-up data of that size, --data on another data set"
    )


def available(names: tuple[str, ...], options: Options) -> tuple[str, ...]:
    """The data sets that are available. If there are none, the first one, so that `load` says what is missing."""
    some = options.generated or options.data is not None or options.source is not None
    return tuple(name for name in names if some or CATALOG[name].where() is not None) or names[:1]


def most_rated_items(ratings: Interactions, n_items: int) -> Array:
    """The numbers of the items with the most ratings, increasing."""
    counts = np.bincount(ratings.indices, minlength=ratings.n_items)
    return np.sort(np.argsort(-counts, kind="stable")[:n_items])


def most_rated(data: Labeled) -> Labeled:
    """The 400 items with the most ratings, and the users who rated one of them."""
    top = data.ratings.of_items(most_rated_items(data.ratings, 400))
    return Labeled(top.of_users(np.flatnonzero(np.diff(top.indptr))), f"{data.label}, {top.n_items} most rated items")


def at_most(ratings: Interactions, count: int) -> Interactions:
    """At most `count` ratings per user, picked at random."""
    return ratings.where(ratings.ranks(np.random.default_rng(0).random(len(ratings))) < count)


def divided(data: Labeled, valid: float, test: float) -> Division:
    """A random split; test users are folded in from their training and validation ratings."""
    parts = splits.holdout(data.ratings, valid=valid, test=test, random_state=1234)
    whole, tested = (
        part.user_numbers().astype(np.int64) * part.n_items + part.indices for part in (data.ratings, parts.test)
    )
    return Division(data.label, parts.train, data.ratings.where(~np.isin(whole, tested)), parts.test)
