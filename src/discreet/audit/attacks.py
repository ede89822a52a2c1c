"""Attacks on recommenders from the literature, as demonstrations: private and nonprivate models, on the same data.

These are not tests of the guarantee: a failed attack proves nothing. They show what a guarantee is for: the success of
every attack falls to chance as epsilon falls, and without privacy it is far above.

- **Membership** (Zhang and others 2021, in its simplest form): was a person in the training data? A model explains the
  ratings of its training users, beyond their means, better than those of others. Success is the area under the curve,
  50% by chance.
- **Reconstruction** (Calandrino and others 2011): which item did a person add between two releases of a model? The
  attacker guesses the one whose published popularity grew most. Success is how often that is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.data.interactions import Interactions
from discreet.data.readers import read
from discreet.data.synthetic import movielens_like
from discreet.models.als import ALS, DPALS
from discreet.models.base import Model
from discreet.models.private import PrivateModel
from discreet.models.spectral import DPSVD
from discreet.privacy import Ledger
from discreet.privacy.noise import NoiseSource
from discreet.typing import Array

MEMBERSHIP, RECONSTRUCTION = "membership", "reconstruction"
DELTA = 1e-6
USERS = 300  # members and others
EPSILONS = (0.1, 1.0, 10.0, 100.0)


@dataclass(frozen=True)
class Success:
    """How well an attack did."""

    attack: str
    model: str
    epsilon: float | None  # None for a nonprivate model
    rate: float  # of success, between 0 and 1
    chance: float  # the rate of random guesses
    trials: int  # how many people were attacked

    def __str__(self) -> str:
        return (
            f"{self.attack} against {self.model}: {self.rate:.1%} ({self.chance:.1%} by chance, {self.trials} people)"
        )


def _targets(
    private: Callable[..., PrivateModel], other: Model, epsilons: Sequence[float], source: NoiseSource | None
) -> Iterator[tuple[str, float | None, Callable[[Interactions], Model]]]:
    """Models to attack: their names, their epsilons, and functions that fit them."""
    for epsilon in sorted(epsilons):
        model = private(epsilon=epsilon, delta=DELTA)

        def fit(data: Interactions, model: PrivateModel = model) -> Model:
            return model.fit(data, ledger=Ledger(delta=DELTA, noise_source=source))

        yield f"{type(model).__name__}, epsilon {epsilon:g}", epsilon, fit
    yield f"{type(other).__name__}, not private", None, other.fit


def _pairs(table: Interactions) -> list[tuple[Any, Any]]:
    """The users and items of all ratings."""
    frame = table.to_arrow()
    return list(zip(frame["user"].to_pylist(), frame["item"].to_pylist(), strict=True))


def membership(*, epsilons: Sequence[float] = EPSILONS, source: NoiseSource | None = None) -> list[Success]:
    """Who was in the training data? Half of the users were; the attacker has everyone's ratings.

    Args:
        epsilons: Of the private models.
        source: Of reproducible noise, for tests.
    """
    data = movielens_like(USERS, 120, 25 * USERS, random_state=0)
    members = np.random.default_rng(0).permutation(USERS) < USERS // 2
    train = data.of_users(np.flatnonzero(members))
    owners = data.user_numbers()
    counts = np.bincount(owners)
    spread = np.bincount(owners, (data.values - (np.bincount(owners, data.values) / counts)[owners]) ** 2) / counts
    found = []
    for name, epsilon, fit in _targets(DPALS, ALS(rank=24, regularization=1.0), epsilons, source):
        squares = (fit(train).predict(data, _pairs(data)) - data.values) ** 2
        errors = np.bincount(owners, squares) / counts / np.maximum(spread, 1e-9)
        area = float(np.mean(errors[members][:, None] < errors[~members]))
        found.append(Success(MEMBERSHIP, name, epsilon, area, 0.5, USERS))
    return found


def reconstruction(
    *, epsilons: Sequence[float] = EPSILONS, victims: int = 40, source: NoiseSource | None = None
) -> list[Success]:
    """Which item did a person add between two releases? The attacker knows what they had before.

    Args:
        epsilons: Of the private models.
        victims: How many people add an item, one after another.
        source: Of reproducible noise, for tests.
    """
    before = movielens_like(150, 60, 2000, random_state=0).to_implicit()
    rng = np.random.default_rng(0)
    people = rng.choice(before.n_users, victims, replace=False).tolist()
    hidden = [int(rng.choice(np.setdiff1d(np.arange(before.n_items), _row(before, user)))) for user in people]
    chance = float(np.mean([1 / (before.n_items - len(_row(before, user))) for user in people]))
    found = []
    for name, epsilon, fit in _targets(DPSVD, ALS(rank=4, n_steps=2), epsilons, source):
        old, right = fit(before).popularity_, 0
        for user, item in zip(people, hidden, strict=True):
            added = (before.users[user], before.items[item])
            after = read([*_pairs(before), added], items=before.catalogue)
            grown = (fit(after).popularity_ - old).astype(np.float64)
            grown[_row(before, user)] = -np.inf  # known from before
            right += int(np.argmax(grown)) == item
        found.append(Success(RECONSTRUCTION, name, epsilon, right / victims, chance, victims))
    return found


def _row(table: Interactions, user: int) -> Array:
    return np.asarray(table.indices[table.indptr[user] : table.indptr[user + 1]])
