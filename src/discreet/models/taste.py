"""Directions of taste, from what users choose together: the public side, which interprets the releases.

Everything here is computed from releases. The constants were set on validation users of MovieLens 1M (all of it,
thinned out to 40% and 15% of its interactions, and 1,500 of its users); those of the power step on CiteULike, Amazon
sports, and generated check-ins and purchases.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from discreet.engine.batches import FOLDS
from discreet.models.eigen import frequent_items, standing_out, standing_out_of_chance
from discreet.models.shrinkage import regression, shrunk
from discreet.privacy.releaser import Noisy, clear_of, edge_of_rows, noise_edge
from discreet.typing import Array

EXPONENT = 0.3  # users weigh their items by popularity^-EXPONENT
MOST_DIRECTIONS = 512
RIDGE = 3.0  # penalty of users' coefficients, times the mean variance of a history along one item
WIDE_RIDGE = 0.6  # the same after a power step, whose directions are shrunk already
COVERED = 1 / 3  # share of all choices that is in J (see `Chosen`): below it, a power step pays off
SHORT_COVERED = 1 / 2  # the same for short histories, which hardly ever have two items in J
SURE = 5.0  # standard deviations of noise: an item this popular hardly changes rank
CLEAR = 2.0  # standard deviations of noise: the least popularity of an item with directions
SHORT_HISTORY = 25.0  # items; for shorter histories, the second moment's diagonal is left out
COMMON_TASTE = 0.05  # weight of the common taste, in addition to what a history says
COLUMNS = 16  # columns of random vectors
LIST = 20  # length of lists
USERS = 64  # simulated users
MOST_DENSE = 1000  # up to this many items of a second moment, users' rows are dense even if they have few items
HALVINGS = 20  # steps of bisection


@dataclass(frozen=True)
class Chosen:
    """The chosen items J, and their weights.

    The common taste p is popularity times weight, of length 1 over J. It extends to the other items, so that they can
    be compared.
    """

    items: Array  # their numbers, increasing
    weights: Array  # the weights of items, before a user's weights are scaled to length 1; 0 for items outside J
    common: Array  # p
    popularity: Array  # of all items; positive, also where the noise hides it
    total: float  # the sum of all popularities, about the sum over users of sqrt(number of items)

    @classmethod
    def by(cls, popularity: Noisy, std: float, most: int) -> Chosen:
        """The most popular items (`frequent_items`)."""
        return cls.of(popularity, frequent_items(popularity, std, most))

    @classmethod
    def of(cls, popularity: Noisy, items: Array) -> Chosen:
        """The choice of the given items."""
        least = 1 + popularity.std
        # Below that it is mostly noise, but still tells which of two items is more likely to be popular.
        floored = np.maximum(popularity.values, least) * np.exp(np.minimum(popularity.values / least - 1, 0))
        weights = floored**-EXPONENT
        common = floored * weights
        common /= np.sqrt((common[items] ** 2).sum())
        chosen = np.zeros(len(weights))
        chosen[items] = weights[items]
        return cls(items, chosen, common, floored, float(popularity.values.sum()))

    def wider(self, popularity: Noisy, least: float, most: int) -> Chosen:
        """The items of at least this popularity: at most `most`, the most popular first, and no fewer than in J."""
        clear = popularity.values >= max(least, CLEAR * popularity.std)
        n = max(min(int(np.count_nonzero(clear)), most), len(self.items))
        return Chosen.of(popularity, np.sort(np.argsort(-popularity.values, kind="stable")[:n]))

    def expecting(self, popularity: Noisy, features: Array) -> Chosen:
        """The same, with popularity that is lost in the noise predicted from the popularity of items by features.

        On average, the predicted popularity is the level that noise hides.
        """
        lost = (popularity.values < CLEAR * popularity.std) & (self.weights == 0)
        if not (lost.any() and features.shape[1]):
            return self
        least = 1 + popularity.std
        logs = np.log(np.maximum(self.popularity, least))
        centered = features - features.mean(axis=0)
        expected = (centered @ regression(centered, (logs - logs.mean())[:, None]))[:, 0]
        factor = np.where(lost, least / self.popularity * np.exp(expected - expected[lost].mean()), 1.0)
        return replace(self, popularity=self.popularity * factor, common=self.common * factor ** (1 - EXPONENT))

    def tells(self, popularity: Noisy, most: int) -> bool:
        """Whether J, of at most `most` items, has clearly more popular items than lists have places.

        Otherwise tastes could only change the order of the same few items. The number of items that noise alone would
        bring to J is not counted.
        """
        m, least = len(popularity.values), float(popularity.values[self.items].min())
        return len(self.items) - m * float(ndtr(-least / popularity.std)) >= min(2 * LIST, m / 2, most / 2)

    @property
    def energy(self) -> Array:
        """The sum over users of their squared weights of each item, up to a factor; 0 for items outside J."""
        return np.asarray(self.popularity * self.weights**2)

    @property
    def self_counts(self) -> float:
        """About the largest eigenvalue that remains of self-counts when a second moment's diagonal is left out.

        A user whose only item in J is j has the residual P e_j, up to a factor, where P projects out p. The diagonal
        of its square lacks about 2 p_j^2 of the whole.
        """
        return float((2 * self.popularity * self.common**2)[self.items].max())

    @property
    def sparse(self) -> bool:
        """Whether rows of the second moment are weights, not residuals."""
        return not self.dense and len(self.items) > MOST_DENSE

    @property
    def dense(self) -> bool:
        """Whether J has a large share of all choices. Otherwise there is more to learn about the other items."""
        return self.covered >= COVERED

    @property
    def covered(self) -> float:
        """The share of all choices that is in J."""
        return float(self.popularity[self.items].sum()) / max(self.total, 1.0)


def surely_popular(popularity: Noisy, n: int) -> bool:
    """Whether n items, or half of the catalog, have a popularity far above the noise."""
    values = popularity.values
    return float(np.count_nonzero(values > SURE * popularity.std)) >= min(n, len(values) / 2)


@dataclass(frozen=True)
class Directions:
    """Directions of taste in the chosen items, orthogonal to the common one, that stand out of the noise."""

    vectors: Array  # q_k, orthonormal and orthogonal to the common taste, (chosen items, k)
    values: Array  # the eigenvalues without noise
    cosines: Array  # the squared cosines of the angles by which noise has turned the vectors
    squares: Array  # the sum over users of (q_k . r)^2 for their row r, including the diagonal
    n_users: float  # about how many users have any of the items
    typical_length: float  # about how many items a user has

    @classmethod
    def of(cls, release: Noisy, chosen: Chosen) -> Directions:
        """Find directions in the released second moment.

        Since r has length 1 for nearly every user, the trace of the second moment estimates the number of users. Its
        diagonal pairs every item with itself, which says nothing about what is liked together. In short histories the
        diagonal dominates, so it is left out there, and where J has few of a history's items.
        """
        n = len(chosen.items)
        n_users = max(float(np.trace(release.values)), 1.0)
        typical_length = max(chosen.total / n_users, 1.0) ** 2
        left_out = min(1.0, SHORT_HISTORY / typical_length) if chosen.dense else 1.0
        matrix, p = release.values.copy(), chosen.common[chosen.items]
        edge = float(noise_edge(release.std, n))
        own = np.diag(matrix)
        # Below the noise they are left in: they favor directions of popular items, which are more likely to be real.
        if not chosen.sparse and chosen.self_counts > edge:
            own = _self_counts(own, p)
        matrix[np.diag_indices(n)] -= left_out * own
        image = matrix @ p
        matrix += (p @ image) * np.outer(p, p) - np.outer(p, image) - np.outer(image, p)
        # A few rare pairs are far more frequent than others, so sampling variation has no edge there.
        found = standing_out_of_chance if chosen.dense else standing_out
        values, cosines, vectors = found(matrix, edge, MOST_DIRECTIONS)
        if not chosen.dense and not _beyond_chance(release, chosen, values):
            values, cosines, vectors = values[:0], cosines[:0], vectors[:, :0]
        squares = values + left_out * np.maximum(np.diag(release.values) @ vectors**2, 0)
        return cls(vectors, values, cosines, squares, n_users, typical_length)


def _beyond_chance(release: Noisy, chosen: Chosen, values: Array) -> bool:
    """Whether any of these eigenvalues exceeds those of users who choose the items of J independently.

    This edge cannot separate taste from chance, because weaker directions are often taste. But if no eigenvalue is
    above it, all of them are treated as chance. With D_j for the sum of users' squared weights of item j, the variance
    of a pair of items is at most D_j D_l / (sum of D).
    """
    n, energy = len(chosen.items), chosen.energy[chosen.items]
    shares = energy / energy.sum()
    variance = max(float(np.trace(release.values)), 1.0) * shares * (1 - shares)
    edge, noise = edge_of_rows(variance + n * release.std**2 / 2), float(noise_edge(release.std, n))
    return bool((values + noise**2 / (4 * values) > clear_of(edge, n)).any())


def _self_counts(diagonal: Array, p: Array) -> Array:
    """The d for which P diag(d) P has this diagonal, where P is the projection that removes p.

    Users' residuals have no p, which spreads the diagonal terms, items paired with themselves, over the matrix. In
    short histories these would look like a direction of the most popular items.
    """
    squares, rest = p**2, np.maximum(1 - 2 * p**2, 0.1)  # floored, as it is 0 if one item has half of the common taste
    along = float(squares @ (diagonal / rest)) / (1 + float(squares @ (squares / rest)))
    return np.asarray((diagonal - squares * along) / rest)


@dataclass(frozen=True)
class Spectrum:
    """Directions of taste in the chosen items; r is a user's history without the common taste."""

    vectors: Array  # q_k, of length 1 and (nearly) orthogonal, (chosen items, k)
    variances: Array  # d_k, the mean square of q_k . r over users
    ridge: float  # lam, the penalty of a user's coefficients
    n_users: float  # about how many users have any of the items
    typical_length: float  # about how many items a user has

    @classmethod
    def of(cls, release: Noisy, chosen: Chosen) -> Spectrum:
        """Eigenpairs that stand out of the noise, shrunk by how far the noise has rotated them (`standing_out`)."""
        found = Directions.of(release, chosen)
        variances = found.values * found.cosines**2 / found.n_users
        return cls(found.vectors, variances, RIDGE / len(chosen.items), found.n_users, found.typical_length)

    @classmethod
    def nothing(cls, chosen: Chosen) -> Spectrum:
        """No directions. Users add at most 1 to an item's popularity, so there are at least as many users as that."""
        n_users = max(float(chosen.popularity.max()), 1.0)
        length = max(chosen.total / n_users, 1.0) ** 2
        return cls(np.zeros((len(chosen.items), 0)), np.zeros(0), RIDGE / len(chosen.items), n_users, length)

    @property
    def shrinkage(self) -> Array:
        """f_k = d_k / (d_k + lam): the factor by which the ridge penalty shrinks a coefficient."""
        return self.variances / (self.variances + self.ridge)


def by_features(features: Array, common: Array, items: Array, vectors: Array) -> Array:
    """Loadings of all items predicted by their features, (all items, k), from the loadings of some `items`.

    Features predict loadings relative to the common taste: how much more an item is liked along the direction,
    whatever its popularity is.
    """
    if not features.shape[1]:
        return np.zeros((len(common), vectors.shape[1]))
    weighted = features * common[:, None]
    return np.asarray(weighted @ regression(weighted[items], vectors))


def after_power_step(step: Noisy, directions: Directions, chosen: Chosen, wide: Chosen, features: Array) -> Spectrum:
    """The loadings of the items of J2 (`wide`) on the directions that were found in J (`chosen`).

    A row of the step is the sum over users of w_ij u_i, their weight of the item times their direction. Without noise,
    its column k would be a multiple s_k of the loadings v_jk; s_k follows from the items in J, whose loadings are known
    from the eigenvectors. Step and eigenvectors both estimate v_jk: they are averaged by precision, and shrunk to what
    the items' features predict, or to 0 (`shrunk`). Since u_i is computed without item j, s_k also says how much of the
    direction is taste, not single items: it is n_users d_k over the typical norm of u_i before it was scaled to length
    1. Directions whose s_k is not clear of the noise are dropped.
    """
    at, p = np.searchsorted(wide.items, chosen.items), wide.common[wide.items]
    sums = step.values - np.outer(p, p @ step.values)
    scale = (sums[at] * directions.vectors).sum(axis=0) / np.sqrt(directions.cosines)
    clear = scale > step.std / np.sqrt(directions.cosines)
    sums, scale, cosines, vectors = (
        sums[:, clear],
        scale[clear],
        directions.cosines[clear],
        directions.vectors[:, clear],
    )
    precision = np.broadcast_to((scale / step.std) ** 2, sums.shape).copy()
    information = sums * (scale / step.std**2)
    before = len(chosen.items) * cosines / (1 - cosines)
    precision[at] += before
    information[at] += vectors / np.sqrt(cosines) * before
    popularity = wide.popularity[wide.items]
    found = shrunk(information / precision, 1 / precision, popularity)
    if features.shape[1]:
        prior = by_features(features, wide.common, wide.items, found)[wide.items]
        found = prior + shrunk(information / precision - prior, 1 / precision, popularity)
    others, n_users = 1 - 1 / FOLDS, directions.n_users
    length = math.sqrt(others * float(directions.squares.sum()) / n_users)
    # The share of J in J2, by users' squared weights.
    part = float(wide.energy[chosen.items].sum() / wide.energy.sum())
    squares = (found**2).sum(axis=0)
    some = squares > 0
    variances = part * scale * length / (others * n_users) * squares
    ridge = WIDE_RIDGE / len(wide.items)
    units = found[:, some] / np.sqrt(squares[some])
    return Spectrum(units, variances[some], ridge, n_users, directions.typical_length)


def exploration(chosen: Chosen, spectrum: Spectrum, share: float) -> tuple[Array, Array]:
    """How items outside J come to be recommended: public random vectors select some of them for each history.

    These items have no directions of taste, so nearly all lists would show the same few of them, if any. All items get
    public random vectors, and those of a history's items in J add up to the user's vector. The inner product with an
    item's vector is like a normal random number that the history determines: equal for equal histories, and a sum over
    the history's items, like every score. It is scaled so that about this share of a list of 20 is from outside J, for
    users simulated from the released spectrum. All of this is public, and costs no privacy.

    Returns the random vectors, and further columns of the item factors, which are zeros for the items of J.
    """
    outside = chosen.weights == 0
    if not share or not outside.any():
        return np.zeros((len(outside), 0)), np.zeros((len(outside), 0))
    share = min(share, float(np.count_nonzero(outside)) / (2 * LIST))  # a few items cannot fill many places
    rng = np.random.default_rng(0)  # a public seed: nothing is hidden by it
    vectors = rng.standard_normal((len(outside), COLUMNS)) / COLUMNS**0.25
    inside, tail = _simulated(rng, chosen, spectrum)
    spread = rng.standard_normal((USERS, COLUMNS)) / COLUMNS**0.25 @ vectors[outside].T
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        strength = (low + high) / 2
        low, high = (low, strength) if _share(inside, tail + strength * spread) > share else (strength, high)
    return vectors, np.where(outside[:, None], high * vectors, 0)


def _simulated(rng: np.random.Generator, chosen: Chosen, spectrum: Spectrum) -> tuple[Array, Array]:
    """Scores of simulated users for unseen items of J, and scores for the items outside J."""
    items, p = chosen.items, chosen.common[chosen.items]
    a, popularity = chosen.weights[items], chosen.popularity[items]
    # A history h is about a_j / (root mean square of a) / sqrt(length); popularity adds up 1 / sqrt(length).
    scale = np.sqrt((popularity * a**2).sum() / popularity.sum())
    along = min(float((p * popularity * a).sum() / scale / spectrum.n_users), 0.95)
    deviations = spectrum.shrinkage * np.sqrt(spectrum.variances * (1 - along**2))
    tastes = rng.standard_normal((USERS, len(deviations))) * deviations
    common = (along + COMMON_TASTE) * chosen.common
    scores = common[items] + tastes @ spectrum.vectors.T
    # Items that are likely to be liked have often been seen: a user has item j with a probability proportional to h_j /
    # a_j.
    covered = min(1.0, float(popularity.sum()) / max(chosen.total, 1.0))
    n_seen = min(round(covered * spectrum.typical_length), max(len(items) - LIST, 0))
    likely = np.log(np.maximum(scores, 1e-9 * scores.max()) / a) + rng.gumbel(size=scores.shape)
    seen = np.argsort(-likely, axis=1)[:, :n_seen]
    np.put_along_axis(scores, seen, -np.inf, axis=1)
    return scores, common[chosen.weights == 0]


def _share(inside: Array, outside: Array) -> float:
    """The mean share of `outside` among the LIST best scores of each row."""
    scores = np.hstack([inside, outside])
    n = min(LIST, scores.shape[1])
    best = np.argpartition(-scores, n - 1, axis=1)[:, :n]
    return float((best >= inside.shape[1]).mean())
