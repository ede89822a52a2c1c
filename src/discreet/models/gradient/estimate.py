"""The public side of gradient methods: which directions to keep and how to scale them; steps along noisy gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh

from discreet.models.eigen import MOST_DIRECTIONS, simplex
from discreet.parallel import single_threaded_blas
from discreet.privacy.releaser import clear_of, edge_of_rows, without_noise
from discreet.typing import Array

FORGET, FORGET_SQUARES = 0.9, 0.99  # decay rates of averages of gradients and of squared gradients in Adam
DECAY = 1.5  # weight decay of vectors, relative to the learning rate
COMPLETIONS = 8  # iterations that complete a diagonal
LONGER = 0.3  # extra share of what sampling variation adds to the edge: its tails are heavier than the noise's


@dataclass(frozen=True)
class Step:
    """A projection on the nuclear-norm ball, for rows: z -> z V diag(gains) V^T."""

    vectors: Array  # V, orthonormal columns
    gains: Array  # the factor of each singular value, between 0 and 1


def nothing(n_items: int) -> Step:
    """The start of descent: zero."""
    return Step(np.zeros((n_items, 0)), np.zeros(0))


def project(moment: Array, edge: float, radius: float | None, chance: Array) -> Step:
    """The projection of rows with this second moment, whose noise has eigenvalues up to `edge`.

    With a radius, rows are projected on the nuclear-norm ball: their singular values, the roots of the eigenvalues, are
    all lowered by the same amount until they add up to it. Without one, each direction that stands out is scaled by how
    well it predicts a row (`predictive`).
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
    """Directions of what entries have in common. A gain is the eigenvalue without single entries' variation, over all.

    Variation of single entries, such as which of them are rated, is on the diagonal only. So the diagonal is replaced
    by that of the directions that stand out, several times (Zhang, Cai and Wu 2022). The residual counts as noise: that
    of the mechanism, whose eigenvalues end at `edge`, and sampling variation of which items users happened to rate,
    which may be larger if the former is small (`edge_of_rows`). The margin on the latter applies only in the second
    half of iterations, since before, the residual still contains directions.

    With few items that many users have rated, the residual exceeds sampling variation: the variance of entry jk is at
    most the sum of z_j^2 z_k^2 over users. `chance` has the sum over k of this, or a bound: C^2 times the diagonal, as
    no row z is longer than C.
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
    believed = true - level**2 / (4 * true)  # the eigenvalue times the squared cosine
    along = np.maximum((vectors * (moment @ vectors)).sum(axis=0), true)
    return Step(vectors, believed / along)


@dataclass
class Adam:
    """The Adam optimizer (Kingma and Ba 2015), with decoupled weight decay of vectors (Loshchilov and Hutter 2019).

    Without a persistent gradient, because it is noise or sampling variation among few users, a vector decays to zero.
    The first column, of biases, does not decay.
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
