"""The public side of DPSVD: which items to look at, and what a noisy second moment says about them.

Everything here is computed from releases; nothing here sees a user. The constants were set on validation users of
MovieLens 1M, whole and thinned out to 40% and 15% of its interactions, and on 1,500 of its users.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet.models.directions import noise_edge, standing_out
from discreet.privacy.releaser import Noisy
from discreet.typing import Array

EXPONENT = 0.3  # users weigh their items by popularity^-EXPONENT
LEAST_POPULARITY = 0.8  # of the last item that is looked at, in units of the noise's largest eigenvalue
FEWEST_ITEMS = 20  # that are looked at, however unpopular
MOST_DIRECTIONS = 512
RIDGE = 3.0  # times the mean variance of the history along one item
SHORT_HISTORY = 25.0  # items; the diagonal of shorter histories' second moment says nothing
COMMON_TASTE = 0.05  # how much everybody likes what is popular, beside what her history says


@dataclass(frozen=True)
class Chosen:
    """The items that are looked at, and how.

    Attributes:
        items: Their numbers, increasing.
        weights: What a user weighs an item by, before her weights are scaled to length 1; 0 for items not looked at.
        common: The common taste p, popularity times weight, of length 1 over the items that are looked at. It goes on
            to the others, so that they can be compared.
        popularity: Of all items, and at least what the noise could feign.
        total: The sum of all popularities, about the sum over users of sqrt(number of items).
    """

    items: Array
    weights: Array
    common: Array
    popularity: Array
    total: float

    @classmethod
    def by(cls, popularity: Noisy, std: float, most: int) -> Chosen:
        """The most popular items, as many as a second moment with noise of this standard deviation can tell apart.

        Each more item makes the noise's largest eigenvalue larger, and is itself less popular than those before. It
        is worth it as long as its popularity is above (most of) that eigenvalue.
        """
        m = len(popularity.values)
        order = np.argsort(-popularity.values, kind="stable")
        clear = popularity.values[order] >= LEAST_POPULARITY * noise_edge(std, np.arange(1, m + 1))
        n = min(max(int(np.count_nonzero(clear)), FEWEST_ITEMS), most, m)
        items = np.sort(order[:n])
        floored = np.maximum(popularity.values, 1 + popularity.std)
        weights = floored**-EXPONENT
        common = floored * weights
        common /= np.sqrt((common[items] ** 2).sum())
        chosen = np.zeros(m)
        chosen[items] = weights[items]
        return cls(items, chosen, common, floored, float(popularity.values.sum()))


@dataclass(frozen=True)
class Spectrum:
    """Directions of taste, beside the common one, in the items that are looked at.

    Attributes:
        vectors: q_k, orthonormal and orthogonal to the common taste, (items looked at, k).
        variances: d_k, the mean square of q_k . r over users, r being a user's history without the common taste.
        ridge: lam, the penalty of a user's coefficients.
        n_users: About how many users have any of the items.
        typical_length: About how many items a user has.
    """

    vectors: Array
    variances: Array
    ridge: float
    n_users: float
    typical_length: float

    @classmethod
    def of(cls, release: Noisy, chosen: Chosen) -> Spectrum:
        """Eigenpairs that stand out of the noise, shrunk by what noise of this size does to them (`standing_out`).

        Since r has length 1 for nearly every user, the trace of the second moment tells how many users there are. Its
        diagonal counts every item together with itself. That is the smaller a part of the whole the longer histories
        are, and tells nothing of what is liked together: for short ones it is left out.
        """
        n = len(chosen.items)
        n_users = max(float(np.trace(release.values)), 1.0)
        typical_length = max(chosen.total / n_users, 1.0) ** 2
        matrix = release.values.copy()
        matrix[np.diag_indices(n)] *= 1 - min(1.0, SHORT_HISTORY / typical_length)
        p = chosen.common[chosen.items]
        image = matrix @ p
        matrix += (p @ image) * np.outer(p, p) - np.outer(p, image) - np.outer(image, p)
        edge = float(noise_edge(release.std, n))
        true, cosine2, vectors = standing_out(matrix, edge, MOST_DIRECTIONS)
        return cls(vectors, true * cosine2**2 / n_users, RIDGE / n, n_users, typical_length)

    @property
    def shrinkage(self) -> Array:
        """f_k = d_k / (d_k + lam): what the ridge leaves of a coefficient."""
        return self.variances / (self.variances + self.ridge)


def item_factors(chosen: Chosen, spectrum: Spectrum) -> Array:
    """One vector for each item: the common taste, and sqrt(f_k) q_k for the items that were looked at."""
    factors = np.zeros((len(chosen.weights), 1 + spectrum.vectors.shape[1]))
    factors[:, 0] = chosen.common
    factors[chosen.items, 1:] = spectrum.vectors * np.sqrt(spectrum.shrinkage)
    return factors
