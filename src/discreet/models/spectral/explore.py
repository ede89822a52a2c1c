"""How items that little is known of come to be seen: a choice of them for each history, by public vectors.

Items outside J have no directions of taste, so nearly all lists would show the same few of them, if any. Here they get
public random vectors beside their popularity, and so do the items of J, which make a user's side of them. The product
of the two is like a draw from a normal law that her history determines: it is the same whenever she comes, another one
for other histories, and adds up over her items like every score. How large it is follows from the share of places that
it is to fill, by simulating users from the released spectrum. All of this is public, and costs no privacy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.models.spectral.estimate import COMMON_TASTE, Chosen, Spectrum
from discreet.typing import Array

COLUMNS = 16
LIST = 20  # places, of which a share is to be filled
USERS = 64  # that are simulated
HALVINGS = 20


@dataclass(frozen=True)
class Exploration:
    """Random vectors of the items, and how strongly those outside J are spread by them.

    Attributes:
        vectors: (items, COLUMNS), or (items, 0) where nothing is to be explored.
        strength: The standard deviation of what is added to scores.
        outside: Which items are outside J.
    """

    vectors: Array
    strength: float
    outside: NDArray[np.bool_]

    @classmethod
    def of(cls, chosen: Chosen, spectrum: Spectrum, share: float) -> Exploration:
        """So strong that about this share of a list of 20 is from outside J."""
        outside = chosen.weights == 0
        if not share or not outside.any():
            return cls(np.zeros((len(outside), 0)), 0.0, outside)
        share = min(share, float(np.count_nonzero(outside)) / (2 * LIST))  # a few items cannot fill many places
        rng = np.random.default_rng(0)  # public: it hides nothing
        vectors = rng.standard_normal((len(outside), COLUMNS)) / COLUMNS**0.25
        inside, tail = _simulated(rng, chosen, spectrum)
        spread = rng.standard_normal((USERS, COLUMNS)) / COLUMNS**0.25 @ vectors[outside].T
        low, high = 0.0, 1.0
        for _ in range(HALVINGS):
            strength = (low + high) / 2
            low, high = (low, strength) if _share(inside, tail + strength * spread) > share else (strength, high)
        return cls(vectors, high, outside)

    def columns(self) -> Array:
        """What is put beside the items' factors: nothing for the items of J."""
        return np.where(self.outside[:, None], self.strength * self.vectors, 0)


def _simulated(rng: np.random.Generator, chosen: Chosen, spectrum: Spectrum) -> tuple[Array, Array]:
    """Scores of simulated users for items of J that they have not seen, and of any of them for the items outside J."""
    items, p = chosen.items, chosen.common[chosen.items]
    a, popularity = chosen.weights[items], chosen.popularity[items]
    # h is about a_j / (root mean square of a) / sqrt(length) on her items; popularity adds up 1 / sqrt(length).
    scale = np.sqrt((popularity * a**2).sum() / popularity.sum())
    along = min(float((p * popularity * a).sum() / scale / spectrum.n_users), 0.95)
    deviations = spectrum.shrinkage * np.sqrt(spectrum.variances * (1 - along**2))
    tastes = rng.standard_normal((USERS, len(deviations))) * deviations
    common = (along + COMMON_TASTE) * chosen.common
    scores = common[items] + tastes @ spectrum.vectors.T
    # What is likely to be liked has often been seen: she has item j with a probability that goes with h_j / a_j.
    covered = min(1.0, float(popularity.sum()) / max(chosen.total, 1.0))
    n_seen = min(round(covered * spectrum.typical_length), max(len(items) - LIST, 0))
    likely = np.log(np.maximum(scores, 1e-9 * scores.max()) / a) + rng.gumbel(size=scores.shape)
    seen = np.argsort(-likely, axis=1)[:, :n_seen]
    np.put_along_axis(scores, seen, -np.inf, axis=1)
    return scores, common[chosen.weights == 0]


def _share(inside: Array, outside: Array) -> float:
    """The mean share of `outside` among the LIST best of each row."""
    scores = np.hstack([inside, outside])
    n = min(LIST, scores.shape[1])
    best = np.argpartition(-scores, n - 1, axis=1)[:, :n]
    return float((best >= inside.shape[1]).mean())
