"""The public side of DPALS, columns beside those that item steps learn: directions of taste, and kernel columns.

All of it is computed from releases.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from discreet.kernels import over_blocks, single_threaded_blas
from discreet.models.als.frequencies import ItemFrequencies, Pooled
from discreet.models.taste import Spectrum
from discreet.privacy.releaser import Noisy, noise_edge, without_noise
from discreet.typing import Array

LEAST_EIGENVALUE = 1.05  # of a direction that is kept, over the largest eigenvalue of the noise


def _leading(matrix: Array, edge: float, n: int, skip: int) -> tuple[Array, Array]:
    """Eigenvalues above the noise's edge, with the inflation by noise undone, and their eigenvectors."""
    m = len(matrix)
    with single_threaded_blas():
        values, vectors = eigh(matrix, subset_by_index=[max(m - n - skip, 0), m - 1])
    values, vectors = values[::-1][skip:], vectors[:, ::-1][:, skip:]
    kept = values > LEAST_EIGENVALUE * edge
    return without_noise(values[kept], edge), vectors[:, kept]


@dataclass(frozen=True)
class Directions:
    """Directions of taste, from what is chosen together. The first direction is popularity, and left out.

    Attributes:
        loadings: (items, directions): a user's weights times these say where they stand, with variance 1 over users.
        places: (items, directions): other loadings times these say how the two places of a user correlate.
    """

    loadings: Array
    places: Array

    @property
    def n(self) -> int:
        """How many there are."""
        return int(self.loadings.shape[1])

    @classmethod
    def of(cls, moment: Noisy, frequent: Array, frequencies: ItemFrequencies, most: int) -> Directions:
        """From the second moment of users' weights of frequent items."""
        c = frequencies.sums[frequent]
        damped = c / (c + 0.4 * frequencies.sums.mean())  # there is little to see in rarer items
        edge = moment.std * float(np.sqrt(2 * (damped**4).sum()))
        values, vectors = _leading(damped[:, None] * moment.values * damped, edge, most, skip=1)
        loadings, places = np.zeros((2, len(frequencies.sums), len(values)))
        sizes = np.sqrt(values / frequencies.n_users)
        loadings[frequent] = vectors * damped[:, None] / sizes
        places[frequent] = vectors / damped[:, None] * sizes
        return cls(loadings, places)

    @classmethod
    def along(cls, spectrum: Spectrum, frequent: Array, n_items: int, most: int, least: float) -> Directions:
        """Along the directions of choices of frequent items in which users vary most, and by more than `least`."""
        n = min(int(np.count_nonzero(spectrum.variances > least)), most)
        order = np.argsort(-spectrum.variances, kind="stable")[:n]
        loadings, places = np.zeros((2, n_items, n))
        sizes = np.sqrt(spectrum.variances[order])
        loadings[frequent] = spectrum.vectors[:, order] / sizes
        places[frequent] = spectrum.vectors[:, order] * sizes
        return cls(loadings, places)

    def columns(self, release: Noisy | Pooled, frequencies: ItemFrequencies) -> Array:
        """Where items stand, from the release of `Extension`: of variance 1 over interactions."""
        c = frequencies.sums[:, None]
        centered = release.values - c * (release.values.sum(axis=0) / c.sum())
        noise = release.std**2 + frequencies.squares[:, None] / self.n
        weights = (c / noise) ** 2
        spread = np.maximum((weights * (centered**2 - noise)).sum(axis=0) / (weights * c**2).sum(axis=0), 1e-6)
        return standardized(centered * c * spread / (c**2 * spread + noise), frequencies)


def standardized(columns: Array, frequencies: ItemFrequencies) -> Array:
    """With mean 0 and variance 1 over interactions."""
    columns = columns - np.average(columns, axis=0, weights=frequencies.sums)
    return columns / np.maximum(np.sqrt(np.average(columns**2, axis=0, weights=frequencies.sums)), 1e-9)


def residual_columns(moment: Noisy, frequent: Array, frequencies: ItemFrequencies, n: int) -> Array:
    """Item columns: what users rate higher, or lower, together than their biases say.

    If residuals are u . v with users' u of unit variance, the second moment of w e at (j, k) is v_j . v_k times the
    sum over users of w_j w_k, which is about c_j c_k / (number of users). This gives the scale of v.
    """
    edge = float(noise_edge(moment.std, len(frequent)))
    values, vectors = _leading(moment.values, edge, n, skip=0)
    columns = np.zeros((len(frequencies.sums), len(values)))
    columns[frequent] = vectors * np.sqrt(values * frequencies.n_users) / frequencies.sums[frequent, None]
    return columns


# -- columns for tastes that are not linear in what is known of the items: they cost no privacy

LANDMARKS, KERNEL_COLUMNS = 250, 30  # more of either change little
KERNEL_LENGTH = 2.0  # items are alike if they differ by less than so many standard deviations, in all numbers together
KERNEL_BLOCK = 1 << 10  # items at a time and thread


def kernel_columns(vectors: Array, weights: Array, n_jobs: int | None = None) -> Array:
    """Columns (items, 30 at most) whose inner products are about exp(-|z - z'|^2 / 2).

    z are the items' vectors, each column divided by KERNEL_LENGTH standard deviations. Fitting a Gaussian process with
    this kernel to a user's ratings lets them like whatever resembles the items they liked. Its Nystroem approximation
    is a ridge regression on these columns, of which the leading ones over interactions are kept.

    Args:
        vectors: What is known of the items, (items, k).
        weights: How often they occur.
        n_jobs: Threads, in scikit-learn's meaning.
    """
    share = weights / weights.sum()
    centered = vectors - share @ vectors
    z = centered / (KERNEL_LENGTH * np.sqrt(np.maximum(share @ centered**2, 1e-18)))
    n = min(LANDMARKS, int(np.count_nonzero(share)))
    at = np.sort(np.random.default_rng(0).choice(len(z), n, replace=False, p=share))
    with single_threaded_blas():
        values, axes = np.linalg.eigh(_kernel(z[at], z[at]))
    # Below the floor, rounding in single precision is most of an eigenvector.
    root = (axes / np.sqrt(np.maximum(values, 1e-4))).astype(np.float32)
    z, share = z.astype(np.float32), share.astype(np.float32)

    def columns_of(block: slice) -> tuple[Array, Array]:
        columns = _kernel(z[block], z[at]) @ root
        return columns, columns.T @ (share[block, None] * columns)

    blocks = [slice(first, first + KERNEL_BLOCK) for first in range(0, len(z), KERNEL_BLOCK)]
    columns, moments = zip(*over_blocks(columns_of, blocks, n_jobs), strict=True)
    with single_threaded_blas():
        axes = np.linalg.eigh(np.sum(moments, axis=0, dtype=np.float64))[1]
    leading = axes[:, ::-1][:, :KERNEL_COLUMNS].astype(np.float32)
    found: Array = np.concatenate(list(over_blocks(lambda some: some @ leading, columns, n_jobs)))
    return found


def _kernel(a: Array, b: Array) -> Array:
    products = a @ b.T
    products -= (a**2).sum(axis=1)[:, None] / 2
    products -= (b**2).sum(axis=1) / 2
    kernel: Array = np.exp(np.minimum(products, 0, out=products), out=products)
    return kernel
