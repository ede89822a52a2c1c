"""Generated tables: the synthetic data of the papers, and ratings that look like MovieLens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np
import pyarrow as pa

from discreet.data.catalogue import Catalogue, Ids, smallest_unsigned
from discreet.data.interactions import Interactions, Report, inner_range
from discreet.errors import DataError
from discreet.typing import Array, Floats, Integers

FEWEST = 20  # ratings of a user; MovieLens has no user with fewer
ACTIVITY_SPREAD = 1.34  # of the log of a user's ratings beyond the fewest: median 70 at mean 143
STEEPNESS, HEAD = 2.5, 0.04  # weight of the item of rank x n_items: (x + HEAD)^-STEEPNESS, a Zipf-Mandelbrot law
FLATTENING = 0.01  # how much an e-fold in activity lowers the exponent of popularity
TASTES, LEVELS = 24, 8  # groups of users by taste and by activity, who choose alike
CHOICE = 0.9  # how strongly taste decides what is watched
MEAN, USER_SPREAD, ITEM_SPREAD, SIGNAL, NOISE = 3.05, 0.43, 0.5, 0.55, 0.75  # of ratings, in stars
LIKED_IF_POPULAR = 0.16  # stars that an item gains for one deviation of log popularity
LARGEST_SHARE = 0.7  # of the catalog that one user can have rated
ORIGIN = "all those generated"  # of a catalog
GENRES = ("Action", "Comedy", "Drama", "Documentary", "Fantasy", "Horror", "Mystery", "Romance", "Western")


@dataclass(frozen=True)
class Truth:
    """What a generator knows: every user's opinion of every item, before noise and rounding.

    The opinion of user u on item i is
    `mean + user_bias[u] + item_bias[i] + user_factors[u] @ item_factors[i]`.
    """

    user_factors: Floats
    item_factors: Floats
    user_bias: Floats
    item_bias: Floats
    mean: float = 0.0

    def predict(self, users: Array, items: Array) -> Floats:
        """Opinions of users on items, given by number, pair by pair."""
        affinity = np.einsum("nr,nr->n", self.user_factors[users], self.item_factors[items])
        opinion: Floats = self.mean + self.user_bias[users] + self.item_bias[items] + affinity
        return opinion

    def matrix(self) -> Floats:
        """All opinions, users by items: large."""
        opinions: Floats = self.user_factors @ self.item_factors.T
        return self.mean + self.user_bias[:, None] + self.item_bias[None, :] + opinions


def synthetic_low_rank(
    n_users: int,
    n_items: int = 1000,
    rank: int = 5,
    *,
    p: float | None = None,
    random_state: int = 0,
    return_truth: bool = False,
) -> Any:
    """The synthetic data of DPALS (2021), Figure 4: a low-rank matrix, seen entry by entry with probability p.

    The matrix is the product of two random matrices with orthonormal columns, scaled so that the observed
    entries have standard deviation 1. There is no noise.

    Args:
        n_users: Users (rows).
        n_items: Items (columns).
        rank: Rank of the matrix.
        p: The probability that an entry is observed, independently of the others; by default 20 ln(n_users) / n_items.
        random_state: Seed.
        return_truth: Return `(interactions, Truth)`.

    Returns:
        The observed entries. The declared `value_range` is the range of the whole matrix, observed or not.
    """
    _require_sizes(n_users, n_items)
    if not 1 <= rank <= min(n_users, n_items):
        raise DataError(f"rank: between 1 and {min(n_users, n_items)} is needed, not {rank}")
    rng = np.random.default_rng(random_state)
    left = np.linalg.qr(rng.standard_normal((n_users, rank)))[0]
    right = np.linalg.qr(rng.standard_normal((n_items, rank)))[0]
    chance = min(1.0, 20 * np.log(n_users) / n_items) if p is None else p
    users, items = _bernoulli(n_users, n_items, chance, rng)
    spread = _factors_only(left, right).predict(users, items).std()
    truth = _factors_only(left / spread if spread > 0 else left, right)
    bound = _largest(truth)
    return _generated(truth, (users, items, truth.predict(users, items)), (-bound, bound), return_truth)


def rank_one(
    n_users: int = 500_000, n_items: int = 400, *, per_user: int = 80, random_state: int = 0, return_truth: bool = False
) -> Any:
    """The synthetic data of Frank-Wolfe (2018): Y = u v^T with largest absolute entry 1.

    u and v have independent entries, uniform on [-1, 1], each scaled to largest absolute entry 1. Each user
    has `per_user` random items, which is the paper's bound on ratings per user.

    Args:
        n_users: Users (rows).
        n_items: Items (columns).
        per_user: Items observed of each user.
        random_state: Seed.
        return_truth: Return `(interactions, Truth)`.
    """
    _require_sizes(n_users, n_items)
    if not 1 <= per_user <= n_items:
        raise DataError(f"per_user: between 1 and n_items={n_items} is needed, not {per_user}")
    rng = np.random.default_rng(random_state)
    left, right = (rng.uniform(-1, 1, (n, 1)) for n in (n_users, n_items))
    truth = _factors_only(left / np.abs(left).max(), right / np.abs(right).max())
    items = np.empty((n_users, per_user), dtype=smallest_unsigned(n_items))
    step = max(1, 4_000_000 // n_items)
    for start in range(0, n_users, step):
        keys = rng.random((min(step, n_users - start), n_items), dtype=np.float32)
        items[start : start + step] = np.argpartition(keys, per_user - 1, axis=1)[:, :per_user]
    items.sort(axis=1)
    users = np.repeat(np.arange(n_users), per_user)
    flat = items.ravel()
    values = truth.user_factors[users, 0] * truth.item_factors[flat, 0]
    return _generated(truth, (users, flat, values), (-1.0, 1.0), return_truth)


def one_bit(
    n_users: int = 100,
    n_items: int = 100,
    *,
    rank: int = 1,
    alpha: float = 1.0,
    link: str = "logistic",
    sigma: float = 1.0,
    observed: float = 0.15,
    random_state: int = 0,
    return_truth: bool = False,
) -> Any:
    """The synthetic data of one-bit completion (2021): signs of a low-rank matrix plus noise, +1 or -1.

    M = M1 M2^T with entries of M1 and M2 uniform on [-1/2, 1/2], scaled to infinity norm alpha; an entry is
    +1 if M_ij + Z_ij >= 0, else -1. The noise Z is standard logistic, or normal with deviation `sigma`.

    Args:
        n_users: Users (rows).
        n_items: Items (columns).
        rank: Rank of M.
        alpha: Largest absolute entry of M.
        link: "logistic" or "probit".
        sigma: Standard deviation of the noise of link="probit".
        observed: The probability that an entry is observed, independently of the others.
        random_state: Seed.
        return_truth: Return `(interactions, Truth)`; the truth is M.
    """
    _require_sizes(n_users, n_items)
    if rank < 1 or not alpha > 0 or not sigma > 0:
        raise DataError(f"rank, alpha and sigma must be positive, not {rank}, {alpha}, {sigma}")
    if link not in ("logistic", "probit"):
        raise DataError(f"link: 'logistic' or 'probit' is needed, not {link!r}")
    rng = np.random.default_rng(random_state)
    left, right = (rng.uniform(-0.5, 0.5, (n, rank)) for n in (n_users, n_items))
    truth = _factors_only(left * (alpha / _largest(_factors_only(left, right))), right)
    users, items = _bernoulli(n_users, n_items, observed, rng)
    noise = rng.logistic(size=len(users)) if link == "logistic" else sigma * rng.standard_normal(len(users))
    signs = np.where(truth.predict(users, items) + noise >= 0, 1.0, -1.0)
    return _generated(truth, (users, items, signs), (-1.0, 1.0), return_truth)


def _require_sizes(n_users: int, n_items: int) -> None:
    if n_users < 1 or n_items < 1:
        raise DataError(f"n_users and n_items must be at least 1, not {n_users} and {n_items}")


def _factors_only(left: Floats, right: Floats) -> Truth:
    return Truth(left, right, np.zeros(len(left)), np.zeros(len(right)))


def _bernoulli(n_users: int, n_items: int, p: float, rng: np.random.Generator) -> tuple[Array, ...]:
    """Entries of a matrix, each observed with probability p: the gaps between them are geometric."""
    if not 0 < p <= 1:
        raise DataError(f"the probability to observe an entry must be in (0, 1], not {p}")
    entries = n_users * n_items
    places: list[Integers] = []
    last = -1
    while last < entries:
        expected = int((entries - last) * p)
        gaps = rng.geometric(p, size=expected + int(5 * np.sqrt(expected)) + 10)
        places.append(last + np.cumsum(gaps))
        last = int(places[-1][-1])
    flat = np.concatenate(places)
    flat = flat[flat < entries]
    if not len(flat):
        raise DataError(f"p={p} leaves nothing observed of {entries} entries; make it larger")
    return flat // n_items, flat % n_items


def _largest(truth: Truth) -> float:
    """The largest absolute entry of the whole matrix, found block by block."""
    step = max(1, 4_000_000 // len(truth.item_factors))
    return max(
        float(np.abs(truth.user_factors[start : start + step] @ truth.item_factors.T).max())
        for start in range(0, len(truth.user_factors), step)
    )


def _generated(truth: Truth, rows: tuple[Array, Array, Array], bounds: tuple[float, float], return_truth: bool) -> Any:
    """Entries in order of user and item, as Interactions. Ids are the numbers; no user is left out."""
    catalogue = Catalogue(np.arange(len(truth.item_factors)), origin=ORIGIN)
    made = made_table(catalogue, np.arange(len(truth.user_factors)), rows, bounds)
    return (made, truth) if return_truth else made


def made_table(
    catalogue: Catalogue, user_ids: Array, rows: tuple[Array, Array, Array], bounds: tuple[float, float]
) -> Interactions:
    """Interactions from (user numbers, item numbers, values), sorted by user and item."""
    users, items, values = rows
    counts = np.bincount(users, minlength=len(user_ids))
    return Interactions(
        users=Ids(user_ids),
        catalogue=catalogue,
        indptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        indices=items.astype(smallest_unsigned(len(catalogue))),
        values=np.clip(values.astype(np.float32), *inner_range(bounds)),
        value_range=bounds,
        report=Report(source="generated", rows=len(items)),
    )


# Ratings that look like MovieLens


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
    ratings; where users rate a larger part of the catalog, it holds less. People who rate more reach further
    into the tail, so user and item counts are negatively correlated over the ratings. People choose what suits
    their taste, and rate by user bias, item bias, a low-rank taste and noise.

    Args:
        n_users: Users, with ids 1..n_users.
        n_items: Items, with ids 1..n_items; some may have no ratings.
        n_ratings: The exact number of ratings.
        random_state: Seed.
        rank: Rank of the taste, at least 1.
        return_truth: Return `(interactions, Truth)`.

    Returns:
        The ratings, with a catalog of (invented) titles and of genres that follow from the items' factors.
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


def _activity(n_users: int, n_items: int, n_ratings: int, rng: np.random.Generator) -> Integers:
    """How many items each user rates: log-normal beyond the fewest, and n_ratings in all."""
    from scipy.special import ndtri

    fewest = min(FEWEST, n_ratings // n_users)
    most = min(n_items, max(int(LARGEST_SHARE * n_items), -(-n_ratings // n_users)))
    # Quantiles in random order: the shape of the sample does not depend on luck.
    shape = np.exp(ACTIVITY_SPREAD * rng.permutation(ndtri((np.arange(n_users) + 0.5) / n_users)))
    low, high = 0.0, float(n_ratings)
    for _ in range(200):  # bisection, because of the cap
        scale = (low + high) / 2
        total = np.minimum(fewest + scale * shape, most).sum()
        low, high = (scale, high) if total < n_ratings else (low, scale)
    exact = np.minimum(fewest + high * shape, most)
    # Rounding the running sum keeps the total; what exceeds the cap goes to users with room.
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

    Returns user x n_items + item, sorted. Redrawing repeated items is drawing without replacement. For the few
    users who rate much of the catalog this would take long: they draw all items at once by exponential clocks,
    which has the same distribution.
    """
    n_items = len(log_weight)
    greedy = counts > 0.03 * n_items
    done = []
    for user in np.flatnonzero(greedy):
        clocks = np.log(rng.standard_exponential(n_items)) - log_weight
        done.append(user * n_items + np.sort(np.argpartition(clocks, counts[user] - 1)[: counts[user]]))
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


def _catalogue(truth: Truth) -> Catalogue:
    """Numbered titles; an item's genres are the directions of taste in which it is strong."""
    n_items, rank = truth.item_factors.shape
    named = [GENRES[k % len(GENRES)] + ("" if k < len(GENRES) else f" {k // len(GENRES) + 1}") for k in range(rank)]
    strong = truth.item_factors > truth.item_factors.std()
    strong[np.arange(n_items), truth.item_factors.argmax(axis=1)] = True
    genres = ["|".join(named[k] for k in np.flatnonzero(row)) for row in strong]
    titles = [f"Film {number}" for number in range(1, n_items + 1)]
    columns = pa.table({"title": pa.array(titles, pa.large_string()), "genres": pa.array(genres, pa.large_string())})
    return Catalogue(Ids(np.arange(1, n_items + 1)), columns, origin=ORIGIN)
