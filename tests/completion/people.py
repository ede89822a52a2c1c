"""Made-up people, for replays with and without one more of them."""

import numpy as np

import discreet
from discreet.data import Interactions


def ordinary(n_items: int, *people: tuple[str, dict[int, float]]) -> Interactions:
    """A hundred ordinary users with twelve ratings each, 0 to 5, and whoever else is given."""
    rng = np.random.default_rng(0)
    rows = [
        (f"user {i:04}", int(j), float(rng.integers(0, 6)))
        for i in range(100)
        for j in rng.choice(n_items, 12, replace=False)
    ]
    rows += [(name, item, value) for name, row in people for item, value in row.items()]
    return discreet.read(rows, items=list(range(n_items)), value_range=(0, 5))
