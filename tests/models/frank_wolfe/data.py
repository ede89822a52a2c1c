"""What the tests of Frank-Wolfe share: a small world with two tastes, and models of it."""

from typing import Any

import numpy as np

import discreet
from discreet.data import Interactions
from discreet.testing import InsecureSeededNoise

DELTA = 1e-6
N = 30


def seeded(seed: int = 1, **settings: Any) -> discreet.Ledger:
    return discreet.Ledger(delta=DELTA, noise_source=InsecureSeededNoise(seed), **settings)


def model(epsilon: float = 30.0, **params: Any) -> discreet.DPFrankWolfe:
    return discreet.DPFrankWolfe(epsilon=epsilon, delta=DELTA, **params)


def world(*extra: tuple[str, dict[int, float]], value_range: tuple[float, float] = (-2, 2)) -> Interactions:
    """Some ordinary users with two tastes, and all others that are given."""
    rng = np.random.default_rng(0)
    taste = rng.standard_normal((N, 2))
    rows: list[tuple[str, int, float]] = []
    for i in range(300):
        liked = np.clip(taste @ rng.standard_normal(2) / 2 + rng.standard_normal(N) / 3, -2, 2)
        rows += [(f"user {i:04}", int(j), float(liked[j])) for j in rng.choice(N, 12, replace=False)]
    rows += [(name, item, value) for name, ratings in extra for item, value in ratings.items()]
    return discreet.read(rows, items=list(range(N)), value_range=value_range)


def strong(items: list[int], seed: int) -> dict[int, float]:
    """Ratings of a user whose row is as long as it may be, and remains so: no direction of the others explains it."""
    signs = np.random.default_rng(seed).choice([-2.0, 2.0], len(items))
    return dict(zip(items, signs.tolist(), strict=True))
