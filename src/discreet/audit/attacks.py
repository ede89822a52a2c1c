"""Attacks from the literature on recommenders, for people: against private models and others, on the same data.

These are demonstrations, not tests of the guarantee: that an attack fails proves nothing. What they show is what a
guarantee is for: the success of every attack falls to chance as epsilon falls, and without privacy it is far above.

- **Membership** (Zhang and others 2021, in its simplest form): was she in the training data? Whoever was is explained
  better by the model, beyond her own mean, than whoever was not. Success is the area under the curve, 50% by chance.
- **Reconstruction** (Calandrino and others 2011): somebody adds an item between two releases of a model. Which? The one
  whose published popularity grew most. Success is how often that is right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.data.interactions import Interactions
from discreet.data.movielens_like import movielens_like
from discreet.data.readers import read
from discreet.models.als import ALS, DPALS
from discreet.models.spectral import DPSVD
from discreet.privacy import Ledger
from discreet.privacy.keystream import NoiseSource
from discreet.typing import Array

MEMBERSHIP, RECONSTRUCTION = "membership", "reconstruction"
DELTA = 1e-6
EPSILONS = (0.1, 1.0, 10.0, 100.0)
NOT_PRIVATE = "not private"


@dataclass(frozen=True)
class Success:
    """How well an attack did.

    Attributes:
        attack: Its name.
        model: Against which model.
        epsilon: Of the model; None if it is not private.
        rate: Success, between 0 and 1.
        chance: What guessing would give.
        trials: How many people were attacked.
    """

    attack: str
    model: str
    epsilon: float | None
    rate: float
    chance: float
    trials: int

    @property
    def short(self) -> str:
        """The model in a word, for a plot."""
        return NOT_PRIVATE if self.epsilon is None else f"epsilon {self.epsilon:g}"

    def __str__(self) -> str:
        return (
            f"{self.attack} against {self.model}: {self.rate:.1%} ({self.chance:.1%} by chance, {self.trials} people)"
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        names = ("attack", "model", "epsilon", "rate", "chance", "trials")
        return {name: getattr(self, name) for name in names}


def _fitted(model: Any, data: Interactions, source: NoiseSource | None) -> Any:
    """Fit a model; a private one with noise from `source`, if that is given."""
    if getattr(model, "epsilon", None) is None:
        return model.fit(data)
    return model.fit(data, ledger=Ledger(delta=model.delta, noise_source=source))


def _against(make: Callable[[float], Any], other: Any, epsilons: Sequence[float]) -> list[tuple[float | None, Any]]:
    return [*((epsilon, make(epsilon)) for epsilon in sorted(epsilons)), (None, other)]


def _named(model: Any, epsilon: float | None) -> str:
    return f"{type(model).__name__}, {NOT_PRIVATE if epsilon is None else f'epsilon {epsilon:g}'}"


def membership(
    *, epsilons: Sequence[float] = EPSILONS, n_users: int = 300, source: NoiseSource | None = None, seed: int = 0
) -> list[Success]:
    """Who was in the training data? Half of the people are; the attacker has everybody's ratings.

    Args:
        epsilons: Of the private models.
        n_users: Members and others.
        source: Of noise that can be repeated, for tests.
        seed: Of the data, and of who is a member.
    """
    data = movielens_like(n_users, 120, 25 * n_users, random_state=seed)
    members = np.random.default_rng(seed).permutation(n_users) < n_users // 2
    train = data.of_users(np.flatnonzero(members))
    owners, pairs = data.user_numbers(), data.to_arrow().select(["user", "item"])
    targets = list(zip(*(pairs.column(name).to_pylist() for name in ("user", "item")), strict=True))
    counts = np.bincount(owners)
    spread = np.bincount(owners, (data.values - (np.bincount(owners, data.values) / counts)[owners]) ** 2) / counts
    found = []
    models = _against(lambda e: DPALS(epsilon=e, delta=DELTA), ALS(rank=24, regularization=1.0), epsilons)
    for epsilon, model in models:
        fitted = _fitted(model, train, source)
        squares = (fitted.predict(data, targets) - data.values) ** 2
        errors = np.bincount(owners, squares) / counts / np.maximum(spread, 1e-9)
        area = float(np.mean(errors[members][:, None] < errors[~members]))
        found.append(Success(MEMBERSHIP, _named(model, epsilon), epsilon, area, 0.5, n_users))
    return found


def reconstruction(
    *, epsilons: Sequence[float] = EPSILONS, victims: int = 40, source: NoiseSource | None = None, seed: int = 0
) -> list[Success]:
    """What has somebody added between two releases? The attacker knows what she had before.

    Args:
        epsilons: Of the private models.
        victims: How many people add something, one after another.
        source: Of noise that can be repeated, for tests.
        seed: Of the data, the people and what they add.
    """
    before = movielens_like(150, 60, 2000, random_state=seed).to_implicit()
    rng = np.random.default_rng(seed)
    people = rng.choice(before.n_users, victims, replace=False).tolist()
    hidden = [int(rng.choice(np.setdiff1d(np.arange(before.n_items), _row(before, user)))) for user in people]
    chance = float(np.mean([1 / (before.n_items - len(_row(before, user))) for user in people]))
    found = []
    for epsilon, model in _against(lambda e: DPSVD(epsilon=e, delta=DELTA), ALS(rank=4, n_steps=2), epsilons):
        old, right = _fitted(model, before, source).popularity_, 0
        for user, item in zip(people, hidden, strict=True):
            new = _fitted(model, _and(before, user, item), source).popularity_
            grown = (new - old).astype(np.float64)
            grown[_row(before, user)] = -np.inf  # what she had before, she has not added
            right += int(np.argmax(grown)) == item
        found.append(Success(RECONSTRUCTION, _named(model, epsilon), epsilon, right / victims, chance, victims))
    return found


def _row(table: Interactions, user: int) -> Array:
    return np.asarray(table.indices[table.indptr[user] : table.indptr[user + 1]])


def _and(table: Interactions, user: int, item: int) -> Interactions:
    """The table with one item more for somebody."""
    frame = table.to_arrow()
    rows = list(zip(*(frame.column(name).to_pylist() for name in ("user", "item")), strict=True))
    return read([*rows, (table.users[user], table.items[item])], items=table.catalogue)
