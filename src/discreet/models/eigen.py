"""Second moments, sums of x x^T over users, and their leading eigenvectors: exact, or from noisy releases.

A release is the noisy n x n matrix itself, or a product A^T A v for each step of Oja's method (Jain, Thakkar, Thakurta
2018, Algorithm 2), which takes only O(n) memory beside the |Omega| observed entries. Proofs: docs/proofs/oja.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh

from discreet.errors import DataError, PrivacyError
from discreet.parallel import over_blocks, single_threaded_blas
from discreet.privacy import GramSum, Noisy, Plan, ProductSum, Releaser, VectorSum
from discreet.privacy.releaser import Users, clear_of, edge_of_rows, noise_edge, without_noise
from discreet.privacy.statistics import BELOW_ONE, MOST_NUMBERS, UserBatch
from discreet.typing import Array

MEMORY = 0.8  # weight of earlier products in a step of Oja's method
LEAST_MU = 2.0**-14  # the least mu of one release
MOST_ITEMS = 8000  # two dense covariances of this size fit in memory, and take minutes to decompose
MOST_FREQUENT = 4000  # the most items that are chosen, by default
LEAST_POPULARITY = 0.8  # the least of chosen items, in units of the noise's largest eigenvalue
FEWEST_ITEMS = 20  # the fewest that are chosen, however unpopular they are
MOST_DIRECTIONS = 64  # even if more of them stand out of the noise
LEAST_BULK = 0.05  # lower bound of the variance of single ratings, relative to the mean eigenvalue
PENALTY = 2.0  # on users' coefficients, in units of that variance; above 1, as prior variances are optimistic


def require_rank(rank: int | None, n_items: int) -> None:
    """Raise if there are fewer items than directions to look for."""
    if rank is not None and rank > n_items:
        raise DataError(f"rank: {rank} directions are too many for {n_items} items; ask for at most {n_items}")


def check_catalog(n_items: int, rank: int | None = None) -> None:
    """Raise if a dense covariance of all items would not fit, or if there are fewer items than directions."""
    require_rank(rank, n_items)
    if n_items > MOST_ITEMS:
        raise DataError(
            f"ratings: a covariance of {n_items:,} items is too large; take a catalog of at most {MOST_ITEMS:,}, or "
            "use discreet.DPALS"
        )


def frequent_items(popularity: Noisy, std: float, most: int = MOST_FREQUENT) -> Array:
    """The numbers of the most popular items, increasing: as many as a second moment can tell from its noise.

    Each further item raises the largest eigenvalue of the noise, and is less popular than those before it. It is worth
    adding if its popularity exceeds (most of) that eigenvalue. The released popularity adds up users' weights of
    length 1; `std` is the noise of a second moment of rows of that length.
    """
    m = len(popularity.values)
    order = np.argsort(-popularity.values, kind="stable")
    clear = popularity.values[order] >= LEAST_POPULARITY * noise_edge(std, np.arange(1, m + 1))
    return np.sort(order[: min(max(int(np.count_nonzero(clear)), FEWEST_ITEMS), most, m)])


def places(items: Array, n_items: int) -> Array:
    """The position of each item among `items`, or -1 if it is not one of them."""
    place = np.full(n_items, -1)
    place[items] = np.arange(len(items))
    return place


def second_moment(
    blocks: Iterable[UserBatch], n: int, n_jobs: int | None, rows: Callable[[UserBatch], Array] | None = None
) -> Array:
    """The sum over users of x x^T, without noise; `rows` computes the x of some users, by default their values."""
    total = np.zeros((n, n))

    def work(part: UserBatch) -> Array:
        own = np.zeros((len(part.counts), n)) if rows is None else rows(part)
        if rows is None:
            own[part.owners, part.indices] = part.values
        return np.asarray(own.T @ own)

    for product in over_blocks(work, blocks, n_jobs):
        total += product
    return total


# -- directions that stand out of a noisy matrix


def standing_out(matrix: Array, edge: float, most: int) -> tuple[Array, Array, Array]:
    """Eigenvalues, squared cosines and eigenvectors that stand out of noise whose largest eigenvalue is `edge`.

    Noise raises an eigenvalue t, which is undone here, and rotates its vector by an angle with squared cosine
    1 - edge^2 / 4t^2. Eigenvalues are in decreasing order.
    """
    values, vectors = _above(matrix, edge)
    return _turned(values[:most], vectors[:, :most], edge)


def standing_out_of_chance(matrix: Array, edge: float, most: int) -> tuple[Array, Array, Array]:
    """The same for a matrix with few users behind each entry, where sampling variation is noise, too.

    The edge of that noise is estimated from the residual after removing the directions (`edge_of_rows`). Which ones
    these are depends on the edge, so directions are added until no other one exceeds it, the largest first.
    """
    values, vectors = _above(matrix, edge)
    diagonal, squares, chance, k = np.diag(matrix), (matrix**2).sum(axis=1), edge, 0
    while True:
        along = vectors[:, :k] ** 2
        rest = squares - along @ values[:k] ** 2 - (diagonal - along @ values[:k]) ** 2
        chance = max(edge, edge_of_rows(np.maximum(rest, 0)))
        found = int(np.count_nonzero(values > clear_of(chance, len(matrix))))
        if found <= k:
            return _turned(values[: min(k, most)], vectors[:, : min(k, most)], chance)
        k = found


def _above(matrix: Array, edge: float) -> tuple[Array, Array]:
    """Eigenvalues that are clear of an edge, in decreasing order, and their eigenvectors."""
    with single_threaded_blas():
        values, vectors = eigh(matrix, subset_by_value=[clear_of(edge, len(matrix)), np.inf])
    return values[::-1], vectors[:, ::-1]


def _turned(values: Array, vectors: Array, edge: float) -> tuple[Array, Array, Array]:
    true = without_noise(values, edge)
    return true, 1 - (edge / (2 * true)) ** 2, vectors


def rating_directions(matrix: Array, edge: float, rank: int | None) -> Array:
    """A scaled column for each direction that stands out, for users' ridge regressions with the penalty `PENALTY`.

    The matrix is a second moment D + v I with noise of this edge: D is the second moment of users' coefficients, and v
    the variance of single ratings. A column is a unit vector times its coefficient's standard deviation, in units of
    that of a single rating. By default at most half of the directions are used, so that the others determine v.
    """
    n = len(matrix)
    most = min(MOST_DIRECTIONS, n // 2) if rank is None else min(rank, n)
    if not most:
        return np.zeros((n, 0))
    values, cosines, vectors = standing_out(matrix, edge, most)
    mean = float(np.trace(matrix)) / n
    bulk = (float(np.trace(matrix)) - float(values.sum())) / max(n - len(values), 1)
    bulk = max(bulk, LEAST_BULK * mean, LEAST_BULK * float(values.max(initial=0)) / n)
    return np.asarray(vectors * np.sqrt(np.maximum(values / bulk - 1, 0) * cosines**2))


@dataclass(frozen=True)
class Direction:
    """An estimate of the leading eigenvector from a noisy release."""

    vector: Array  # of length 1
    value: float  # the eigenvalue as found; it may be negative
    signal: float  # the eigenvalue corrected for the noise; 0 if it does not stand out
    trust: float  # about the squared cosine of the angle to the true eigenvector
    slack: float  # how much more the true |A v|^2 may be than `value`


def leading(release: Noisy, fill: float | None = None) -> Direction:
    """The leading eigenpair of a noisy matrix, and how far noise of its edge has rotated it (`standing_out`).

    `fill` is given for the covariance of rows of which about this share is filled. Only this share of the diagonal is
    kept, since the rest only counts ratings; and sampling variation of the other entries is treated as noise, too.
    """
    n, matrix, edge = len(release.values), release.values.copy(), float(noise_edge(release.std, len(release.values)))
    if fill is not None:
        np.fill_diagonal(matrix, fill * np.diag(matrix))
    with single_threaded_blas():
        values, vectors = eigh(matrix, subset_by_index=[n - 1, n - 1])
    value, vector = float(values[0]), vectors[:, 0]
    if fill is not None:
        rest = matrix - value * np.outer(vector, vector)
        np.fill_diagonal(rest, 0)
        edge = max(edge, edge_of_rows((rest**2).sum(axis=1)))
    if value <= clear_of(edge, n):
        return Direction(vector, value, 0.0, 0.0, edge)
    signal = float(without_noise(value, edge))
    return Direction(vector, value, signal, 1 - (edge / (2 * signal)) ** 2, edge)


# -- directions from products


@dataclass(frozen=True)
class Products:
    """Releases of A^T A V, |A v|^2 and |A|^2 for public V. A has one sparse row x for each user."""

    releaser: Releaser
    users: Users  # all users
    entries: Callable[[Any], Array]  # x of each user, on their own items
    size: int  # n, the number of items
    bound: float  # of |x|^2

    def moment(self, label: str) -> Noisy:
        """A^T A with noise, (n, n)."""
        return self.releaser.release(label, GramSum(self.size, self.bound), self.users, self.entries)

    def release(self, label: str, vectors: Array) -> Noisy:
        """A^T A V with noise, (n, r); V has r orthonormal columns."""
        return self.releaser.release(label, ProductSum(vectors, self.bound), self.users, self.entries)

    def energy(self, label: str, vector: Array) -> Noisy:
        """|A v|^2 with noise."""
        along = BELOW_ONE * vector
        return self._squares(label, lambda part, x: part.row_sums(x * along[part.indices]) ** 2)

    def length(self, label: str) -> Noisy:
        """|A|^2 with noise."""
        return self._squares(label, lambda part, x: part.row_sums(x**2))

    def _squares(self, label: str, squares: Callable[[UserBatch, Array], Array]) -> Noisy:
        """The sum of a number between 0 and the bound for each user."""
        entries, bound = self.entries, self.bound  # so that the function that is sent to Spark refers to nothing else

        def contribution(part: UserBatch) -> Array:
            x, length = entries(part), math.sqrt(bound)
            x = np.asarray(x * (length / np.maximum(np.sqrt(part.row_sums(x**2)), length))[part.owners])
            return squares(part, x)[:, None]

        return self.releaser.release(label, VectorSum(1, bound, nonnegative=True), self.users, contribution)


def check_budget(plan: Plan, size: int) -> Plan:
    """The plan itself; raises if its noise hides any number of users, or if the size is too large for `Products`."""
    if min(line.cost.mu or 0.0 for line in plan.lines) < LEAST_MU or size > MOST_NUMBERS:
        raise PrivacyError(
            "epsilon: with so little of it, or so many steps or items, the noise would hide any number of users; give "
            "more, or ask for fewer steps"
        )
    return plan


def start(size: int, columns: int, known: Array | None = None) -> Array:
    """Public random orthonormal columns, orthogonal to the `known` ones."""
    rng = np.random.default_rng(0)  # a public seed: nothing is hidden by it
    return orthonormal(rng.standard_normal((size, columns)), known)


def orthonormal(vectors: Array, known: Array | None = None) -> Array:
    """An orthonormal basis of the vectors, orthogonal to the `known` columns, by QR."""
    with single_threaded_blas():
        for _ in range(2):  # the second pass removes rounding errors
            if known is not None and known.shape[1]:
                vectors = vectors - known @ (known.T @ vectors)
            vectors = np.linalg.qr(vectors)[0]
    return vectors


def oja(
    products: Products, labels: tuple[str, str], n_steps: int, *, known: Array | None = None, rate: float | None = None
) -> Direction:
    """The leading eigenpair by Oja's method, from `n_steps` products and one energy, orthogonal to `known` directions.

    w_t = MEMORY w_(t-1) + (A^T A v_(t-1) + noise), v_t = w_t / |w_t|: Oja's update with the step 1 / |MEMORY w_(t-1)|.
    The last products count most, and averaging reduces the variance of their noise to a ninth. The first products, of
    vectors far from the eigenvector, are short and count little. With a `rate`, the step is rate / the noise's standard
    deviation, as published.
    """
    size = products.size
    vector, total = start(size, 1, known), np.zeros((size, 1))
    for _ in range(n_steps):
        product = products.release(labels[0], vector)
        total = MEMORY * total + product.values if rate is None else vector + rate / product.std * product.values
        vector = orthonormal(total, known)
        vector *= np.sign((vector * total).sum()) or 1.0
    energy = products.energy(labels[1], vector[:, 0])
    value = float(energy.values[0])
    error = size * product.std**2 * (1 - MEMORY) / (1 + MEMORY)  # squared, of the averaged product
    trust = 1 / (1 + error / value**2) if value > 0 else 0.0
    return Direction(vector[:, 0], value, max(value, 0.0), trust, 3 * energy.std)


def simplex(values: Array, radius: float) -> tuple[Array, float]:
    """Nonnegative decreasing numbers projected on a sum of at most `radius`, and the threshold that was subtracted.

    For singular values, this is the projection on the nuclear-norm ball.
    """
    if values.sum() <= radius:
        return values, 0.0
    sums = np.cumsum(values) - radius
    thresholds = sums / np.arange(1, len(values) + 1)
    last = np.flatnonzero(values >= thresholds)[-1]  # the first is one, also if a tiny radius is lost to rounding
    return np.maximum(values - thresholds[last], 0.0), float(thresholds[last])
