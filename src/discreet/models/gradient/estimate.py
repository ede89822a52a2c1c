"""The public side of gradient methods: which directions to keep, and how much of each; steps along noisy gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh

from discreet.models.eigen import MOST_DIRECTIONS, simplex
from discreet.parallel import single_threaded_blas
from discreet.privacy.releaser import clear_of, edge_of_rows, without_noise
from discreet.typing import Array

FORGET, FORGET_SQUARES = 0.9, 0.99  # of earlier gradients and of their squares, in each step of Adam
DECAY = 1.5  # of vectors, relative to the learning rate
COMPLETIONS = 8  # of a diagonal
LONGER = 0.3  # of what chance among users adds to the edge: its tails are longer than those of drawn noise


@dataclass(frozen=True)
class Step:
    """A projection on the nuclear-norm ball, for rows: z -> z V diag(gains) V^T."""

    vectors: Array  # V, orthonormal columns
    gains: Array  # what is left of each singular value, relative to it: between 0 and 1


def nothing(n_items: int) -> Step:
    """Where descent starts: at zero."""
    return Step(np.zeros((n_items, 0)), np.zeros(0))


def project(moment: Array, edge: float, radius: float | None, chance: Array) -> Step:
    """The projection of rows with this second moment, which has noise whose eigenvalues end at `edge`.

    With a radius, rows are projected on the nuclear-norm ball: their singular values, the roots of the eigenvalues, are
    all lowered by the same amount until they add up to it. Without one, each direction that stands out is kept as far
    as it predicts a row (`predictive`).
    """
    n = len(moment)
    k = min(MOST_DIRECTIONS, max(n // 2, 1))
    if radius is None:
        return predictive(moment, edge, k, chance)
    values, vectors = (found[..., ::-1] for found in eigh(moment, subset_by_index=[n - k, n - 1]))
    sizes = np.sqrt(np.maximum(values, 0))
    left = simplex(sizes, radius)[0]
    kept = np.flatnonzero(left > 0)
    return Step(vectors[:, kept], left[kept] / sizes[kept])


def predictive(moment: Array, edge: float, most: int, chance: Array) -> Step:
    """Directions of what entries have in common; gains are the eigenvalue without what single entries add, over all.

    What varies by single entries, such as which of them are rated, is on the diagonal only. So the diagonal is replaced
    by that of the directions that stand out, several times (Zhang, Cai and Wu 2022). The rest counts as noise: of the
    mechanism, whose eigenvalues end at `edge`, and of which items users happened to rate, which may be larger where
    there is little of the former (`edge_of_rows`). The margin on the latter applies in the second half only: before,
    the rest still contains directions.

    Of few items that many users have rated, the rest is more than chance. By chance, entry jk varies by at most the sum
    of z_j^2 z_k^2 over users, in variance. `chance` has the sum over k of that, or a bound: as no row z is longer than
    C, C^2 times the diagonal.
    """
    n, common = len(moment), moment.copy()
    limits, kept = np.maximum(np.diag(moment), 0), 1
    by_chance = edge_of_rows(chance)
    np.fill_diagonal(common, 0)
    for margin in [0.0] * (COMPLETIONS // 2) + [LONGER] * (COMPLETIONS // 2):
        with single_threaded_blas():
            values, vectors = (found[..., ::-1] for found in eigh(common))
            rest = common - (vectors[:, :kept] * values[:kept]) @ vectors[:, :kept].T
        np.fill_diagonal(rest, 0)
        own = edge_of_rows((rest**2).sum(axis=1))
        level = max(edge, min(own + margin * (own - edge), by_chance))
        kept = min(int((values > clear_of(level, n)).sum()), most)
        values, vectors = values[:kept], vectors[:, :kept]
        np.fill_diagonal(common, np.minimum((vectors**2 * values).sum(axis=1), limits))
    true = without_noise(values, level)
    believed = true - level**2 / (4 * true)  # of it, times the squared cosine
    along = np.maximum((vectors * (moment @ vectors)).sum(axis=0), true)
    return Step(vectors, believed / along)


@dataclass
class Adam:
    """Steps along gradients, each number in units of its own recent size (Kingma and Ba 2015).

    Vectors decay beside that (Loshchilov and Hutter 2019): what gradients do not keep up, because it is noise or chance
    among few users, goes to zero. The first column, of biases, does not decay.
    """

    rate: float
    n_steps: int
    taken: int = 0
    mean: Any = 0.0
    square: Any = 0.0

    def step(self, factors: Array, gradient: Array) -> Array:
        """The factors after one more step."""
        self.mean = FORGET * self.mean + (1 - FORGET) * gradient
        self.square = FORGET_SQUARES * self.square + (1 - FORGET_SQUARES) * gradient**2
        rate = self.rate * (1 - 0.9 * self.taken / self.n_steps)
        self.taken += 1
        mean = self.mean / (1 - FORGET**self.taken)
        size = np.sqrt(self.square / (1 - FORGET_SQUARES**self.taken))
        kept = factors * np.where(np.arange(factors.shape[1]) > 0, 1 - rate * DECAY, 1)
        return np.asarray(kept + np.divide(rate * mean, size, out=np.zeros_like(gradient), where=size > 0))
