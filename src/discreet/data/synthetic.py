"""Tables made by a formula: the synthetic data of the papers. `movielens_like` is in a module of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, overload

import numpy as np

from discreet.data.catalogue import Catalogue
from discreet.data.columns import inner_range
from discreet.data.ids import Ids, smallest_unsigned
from discreet.data.interactions import Interactions
from discreet.data.report import Report
from discreet.errors import DataError
from discreet.typing import Array, Floats, Integers


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


@overload
def synthetic_low_rank(
    n_users: int, n_items: int = ..., rank: int = ..., *, p: float | None = ..., random_state: int = ...,
    return_truth: Literal[False] = ...,
) -> Interactions: ...  # fmt: skip
@overload
def synthetic_low_rank(
    n_users: int, n_items: int = ..., rank: int = ..., *, p: float | None = ..., random_state: int = ...,
    return_truth: Literal[True],
) -> tuple[Interactions, Truth]: ...  # fmt: skip
def synthetic_low_rank(
    n_users: int,
    n_items: int = 1000,
    rank: int = 5,
    *,
    p: float | None = None,
    random_state: int = 0,
    return_truth: bool = False,
) -> Interactions | tuple[Interactions, Truth]:
    """The synthetic data of DPALS (2021), Figure 4: a low-rank matrix, seen entry by entry with probability p.

    The matrix is the product of two random matrices with orthonormal columns, scaled so that the observed
    entries have standard deviation 1. There is no noise.

    Args:
        n_users: Users (rows).
        n_items: Items (columns).
        rank: Rank of the matrix.
        p: Probability of each entry, independently, to be observed; by default 20 ln(n_users) / n_items.
        random_state: Seed.
        return_truth: Return `(interactions, Truth)`.

    Returns:
        The observed entries. The declared `value_range` is that of the whole matrix, seen or not.
    """
    _check_sizes(n_users, n_items)
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
    made = _table(truth, users, items, truth.predict(users, items), (-bound, bound))
    return (made, truth) if return_truth else made


@overload
def rank_one(
    n_users: int = ..., n_items: int = ..., *, per_user: int = ..., random_state: int = ...,
    return_truth: Literal[False] = ...,
) -> Interactions: ...  # fmt: skip
@overload
def rank_one(
    n_users: int = ..., n_items: int = ..., *, per_user: int = ..., random_state: int = ...,
    return_truth: Literal[True],
) -> tuple[Interactions, Truth]: ...  # fmt: skip
def rank_one(
    n_users: int = 500_000, n_items: int = 400, *, per_user: int = 80, random_state: int = 0, return_truth: bool = False
) -> Interactions | tuple[Interactions, Truth]:
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
    _check_sizes(n_users, n_items)
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
    made = _table(truth, users, flat, values, (-1.0, 1.0))
    return (made, truth) if return_truth else made


@overload
def one_bit(
    n_users: int = ..., n_items: int = ..., *, rank: int = ..., alpha: float = ..., link: str = ...,
    sigma: float = ..., observed: float = ..., random_state: int = ..., return_truth: Literal[False] = ...,
) -> Interactions: ...  # fmt: skip
@overload
def one_bit(
    n_users: int = ..., n_items: int = ..., *, rank: int = ..., alpha: float = ..., link: str = ...,
    sigma: float = ..., observed: float = ..., random_state: int = ..., return_truth: Literal[True],
) -> tuple[Interactions, Truth]: ...  # fmt: skip
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
) -> Interactions | tuple[Interactions, Truth]:
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
        observed: Probability of each entry, independently, to be observed.
        random_state: Seed.
        return_truth: Return `(interactions, Truth)`; the truth is M.
    """
    _check_sizes(n_users, n_items)
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
    made = _table(truth, users, items, signs, (-1.0, 1.0))
    return (made, truth) if return_truth else made


def _check_sizes(n_users: int, n_items: int) -> None:
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


def _table(truth: Truth, users: Array, items: Array, values: Floats, bounds: tuple[float, float]) -> Interactions:
    """Entries in order of user and item, as Interactions. Ids are the numbers; no user is left out."""
    n_users, n_items = len(truth.user_factors), len(truth.item_factors)
    catalogue = Catalogue(Ids(np.arange(n_items)), origin="all those generated")
    return made_table(catalogue, np.arange(n_users), (users, items, values), bounds)


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
