"""A table with the habits of MovieLens, made from nothing: few films are seen by many, few people see many."""

from __future__ import annotations

from typing import Literal, overload

import numpy as np
import pyarrow as pa

from discreet.data.catalogue import Catalogue
from discreet.data.ids import Ids
from discreet.data.interactions import Interactions
from discreet.data.synthetic import Truth, made_table
from discreet.errors import DataError
from discreet.typing import Array, Floats, Integers

FEWEST = 20  # ratings of a user; MovieLens keeps no user with fewer
ACTIVITY_SPREAD = 1.34  # of the log of a user's ratings beyond the fewest: median 70 at mean 143
STEEPNESS, HEAD = 2.5, 0.04  # weight of the item of rank x n_items: (x + HEAD)^-STEEPNESS, a Zipf-Mandelbrot law
FLATTENING = 0.01  # how much an e-fold in activity lowers the exponent of popularity
TASTES, LEVELS = 24, 8  # groups of users by taste and by activity, who choose alike
CHOICE = 0.9  # how strongly taste decides what is watched
MEAN, USER_SPREAD, ITEM_SPREAD, SIGNAL, NOISE = 3.05, 0.43, 0.5, 0.55, 0.75  # of ratings, in stars
LIKED_IF_POPULAR = 0.16  # stars that an item gains for one deviation of log popularity
LARGEST_SHARE = 0.7  # of the catalogue that one user can have rated
GENRES = ("Action", "Comedy", "Drama", "Documentary", "Fantasy", "Horror", "Mystery", "Romance", "Western")


@overload
def movielens_like(
    n_users: int, n_items: int, n_ratings: int, random_state: int = ..., *, rank: int = ...,
    return_truth: Literal[False] = ...,
) -> Interactions: ...  # fmt: skip
@overload
def movielens_like(
    n_users: int, n_items: int, n_ratings: int, random_state: int = ..., *, rank: int = ...,
    return_truth: Literal[True],
) -> tuple[Interactions, Truth]: ...  # fmt: skip
def movielens_like(
    n_users: int, n_items: int, n_ratings: int, random_state: int = 0, *, rank: int = 10, return_truth: bool = False
) -> Interactions | tuple[Interactions, Truth]:
    """Half-star ratings with the skew of MovieLens 10M, whose size is 69878, 10677, 10_000_000.

    Every user has at least 20 ratings (fewer where n_ratings does not suffice) and, at MovieLens' mean of 143,
    a median near 70. At the size of MovieLens 10M the most popular fifth of the items holds over 85% of the
    ratings; where users rate a larger part of the catalogue, it holds less. People who rate more reach further
    into the tail, so user and item counts are negatively correlated over the ratings. People choose what suits
    their taste, and rate by user bias, item bias, a low-rank taste and noise.

    Args:
        n_users: Users, with ids 1..n_users.
        n_items: Items, with ids 1..n_items; not all of them need be rated.
        n_ratings: Ratings, exactly.
        random_state: Seed.
        rank: Rank of the taste, at least 1.
        return_truth: Return `(interactions, Truth)`.

    Returns:
        The ratings, with a catalogue of (invented) titles and of genres that follow from the items' factors.
    """
    if n_users < 1 or n_items < 1 or not 1 <= n_ratings <= n_users * n_items:
        raise DataError(f"n_ratings: 1 to n_users x n_items = {n_users * n_items} are possible, not {n_ratings}")
    if n_ratings < n_users:
        raise DataError(f"n_ratings: every user has at least one rating, so {n_ratings} are too few for {n_users}")
    if rank < 1:
        raise DataError(f"rank: at least 1 is needed, not {rank}")
    rng = np.random.default_rng(random_state)
    truth, popularity, taste, centers = _opinions(n_users, n_items, rank, rng)
    counts = _activity(n_users, n_items, n_ratings, rng)
    suits = centers @ truth.item_factors.T
    chosen = _choices(counts, popularity, taste, suits / max(float(suits.std()), 1e-12), rng)
    users = np.repeat(np.arange(n_users), counts)
    ratings = np.empty(n_ratings, dtype=np.float32)
    for start in range(0, n_ratings, 1 << 20):  # a block at a time: the factors of all pairs are large
        part = slice(start, start + (1 << 20))
        opinion = truth.predict(users[part], chosen[part])
        noisy = opinion + NOISE * rng.standard_normal(len(opinion))
        ratings[part] = np.clip(np.round(2 * noisy), 1, 10) / 2
    made = made_table(_catalogue(truth), np.arange(1, n_users + 1), (users, chosen, ratings), (0.5, 5.0))
    return (made, truth) if return_truth else made


def _opinions(
    n_users: int, n_items: int, rank: int, rng: np.random.Generator
) -> tuple[Truth, Floats, Integers, Floats]:
    """Biases and factors; log popularity of items; the taste group of each user and each group's center."""
    popularity = -STEEPNESS * np.log(rng.permutation((np.arange(n_items) + 0.5) / n_items) + HEAD)
    centers = rng.standard_normal((TASTES, rank))
    taste = rng.integers(TASTES, size=n_users)
    user_factors = 0.8 * centers[taste] + 0.6 * rng.standard_normal((n_users, rank))
    item_factors = rng.standard_normal((n_items, rank)) * (SIGNAL / np.sqrt(rank))
    liked = LIKED_IF_POPULAR * (popularity - popularity.mean()) / max(float(popularity.std()), 1e-12)
    own = np.sqrt(ITEM_SPREAD**2 - LIKED_IF_POPULAR**2) * rng.standard_normal(n_items)
    truth = Truth(user_factors, item_factors, USER_SPREAD * rng.standard_normal(n_users), liked + own, MEAN)
    return truth, popularity, taste, centers


def _stratified_normal(n: int, rng: np.random.Generator) -> Floats:
    """Normal quantiles in random order: the shape of the sample does not depend on luck."""
    from scipy.special import ndtri

    quantiles: Floats = ndtri((np.arange(n) + 0.5) / n)
    return rng.permutation(quantiles)


def _activity(n_users: int, n_items: int, n_ratings: int, rng: np.random.Generator) -> Integers:
    """How many items each user rates: log-normal beyond the fewest, and n_ratings in all."""
    fewest = min(FEWEST, n_ratings // n_users)
    most = min(n_items, max(int(LARGEST_SHARE * n_items), -(-n_ratings // n_users)))
    shape = np.exp(ACTIVITY_SPREAD * _stratified_normal(n_users, rng))
    low, high = 0.0, float(n_ratings)
    for _ in range(200):  # bisection: the cap makes the sum fall short of what scale x shape would give
        scale = (low + high) / 2
        total = np.minimum(fewest + scale * shape, most).sum()
        low, high = (scale, high) if total < n_ratings else (low, scale)
    exact = np.minimum(fewest + high * shape, most)
    # Rounding the running sum keeps the total; what it adds beyond the cap goes to those with room.
    counts = np.diff(np.floor(np.concatenate([[0], np.cumsum(exact)]) + 1e-6)).astype(np.int64)
    counts = np.clip(counts, fewest, most)
    while (missing := n_ratings - int(counts.sum())) != 0:
        room = np.flatnonzero(counts < most) if missing > 0 else np.flatnonzero(counts > fewest)
        moved = rng.choice(room, size=min(abs(missing), len(room)), replace=False)
        counts[moved] += np.sign(missing)
    return counts


def _choices(
    counts: Integers, popularity: Floats, taste: Integers, suits: Floats, rng: np.random.Generator
) -> Integers:
    """The items that each user rates, increasing, one user after the other. `suits`: tastes by items."""
    n_items = len(popularity)
    ends = np.cumsum(counts)
    chosen = np.empty(int(ends[-1]), dtype=np.int64)
    activity = np.log(counts)
    edges = np.quantile(activity, np.linspace(0, 1, LEVELS + 1)[1:-1])
    level = np.searchsorted(edges, activity)
    centered = activity - activity.mean()
    for group in np.unique(taste * LEVELS + level):
        who = np.flatnonzero(taste * LEVELS + level == group)
        exponent = np.clip(1 - FLATTENING * centered[who].mean(), 0.5, 1.5)
        log_weight = exponent * popularity + CHOICE * suits[group // LEVELS]
        drawn = _draw(counts[who], log_weight, rng)
        places = np.repeat(ends[who] - np.cumsum(counts[who]), counts[who]) + np.arange(len(drawn))
        chosen[places] = drawn % n_items
    return chosen


def _draw(counts: Integers, log_weight: Floats, rng: np.random.Generator) -> Integers:
    """For each user of a group `counts` different items, drawn one after the other by weight.

    Returns user x n_items + item, sorted. Drawing again what came up twice is drawing without replacement; the
    few users who want much of the catalogue, for whom this would take long, get it in one go from exponential
    clocks, which has the same distribution.
    """
    n_items = len(log_weight)
    greedy = counts > 0.03 * n_items
    done = [_clocks(int(user), int(counts[user]), log_weight, rng) for user in np.flatnonzero(greedy)]
    cumulative = np.cumsum(np.exp(log_weight - log_weight.max()))
    cumulative /= cumulative[-1]
    wanted = np.where(greedy, 0, counts)
    found = np.empty(0, dtype=np.int64)
    while wanted.any():
        users = np.repeat(np.arange(len(counts)), wanted)
        items = np.searchsorted(cumulative, rng.random(len(users)), side="right")
        found = np.unique(np.concatenate([found, users * n_items + np.minimum(items, n_items - 1)]))
        owners = found // n_items
        wanted = np.where(wanted > 0, counts - np.bincount(owners, minlength=len(counts)), 0)
        finished = wanted[owners] == 0
        done.append(found[finished])
        found = found[~finished]
    return np.sort(np.concatenate(done))


def _clocks(user: int, count: int, log_weight: Floats, rng: np.random.Generator) -> Array:
    times = np.log(rng.standard_exponential(len(log_weight))) - log_weight
    first = np.argpartition(times, count - 1)[:count]
    return user * len(log_weight) + np.sort(first)


def _catalogue(truth: Truth) -> Catalogue:
    """Titles by number, and as genres the directions of taste in which an item is strong."""
    n_items, rank = truth.item_factors.shape
    named = [GENRES[k % len(GENRES)] + ("" if k < len(GENRES) else f" {k // len(GENRES) + 1}") for k in range(rank)]
    strong = truth.item_factors > truth.item_factors.std()
    strong[np.arange(n_items), truth.item_factors.argmax(axis=1)] = True
    genres = ["|".join(named[k] for k in np.flatnonzero(row)) for row in strong]
    titles = [f"Film {number}" for number in range(1, n_items + 1)]
    columns = pa.table({"title": pa.array(titles, pa.large_string()), "genres": pa.array(genres, pa.large_string())})
    return Catalogue(Ids(np.arange(1, n_items + 1)), columns, origin="all those generated")
