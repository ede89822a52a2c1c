"""Symmetric matrices that noise has made indefinite: their positive parts, and systems with these."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discreet.linalg.cholesky import solve_spd
from discreet.typing import Array


def solve_positive_part(X: Array, b: Array) -> Array:
    """The solutions of least norm of PSD(X[i]) z = b[i], eigenvalues that are not positive being replaced by 0.

    X and b are overwritten. Cholesky is tried first, unless a glance tells that it would fail. Where it does, X is not
    positive definite, and the solution of least norm, which `solve_spd` returns too, is that of the positive part.
    """
    indefinite = clearly_indefinite(X)
    if not indefinite.any():
        return solve_spd(X, b)
    b[indefinite] = _least_norm(X[indefinite], b[indefinite])
    b[~indefinite] = solve_spd(X[~indefinite], b[~indefinite])
    return b


def clearly_indefinite(X: Array) -> NDArray[np.bool_]:
    """Which matrices have a principal minor of size 1 or 2 that is negative, so that no Cholesky factor exists."""
    diagonals = np.diagonal(X, axis1=1, axis2=2)
    most = np.maximum(diagonals, 0)[:, :, None] * diagonals[:, None, :] * (1 + 1e-12)  # rounding does not decide
    indefinite: NDArray[np.bool_] = (diagonals < 0).any(axis=1) | (most < X**2).any(axis=(1, 2))
    return indefinite


def _least_norm(X: Array, b: Array) -> Array:
    """The solutions of least norm with the positive parts of symmetric matrices."""
    values, vectors = np.linalg.eigh(X)
    kept = values > np.maximum(values[:, -1:], 0) * X.shape[1] * np.finfo(X.dtype).eps
    inner = np.divide((b[:, None, :] @ vectors)[:, 0], values, out=np.zeros_like(b), where=kept)
    solution: Array = (vectors @ inner[:, :, None])[:, :, 0]
    return solution


def project_psd(X: Array) -> Array:
    """The nearest positive semidefinite matrix, negative eigenvalues being replaced by 0."""
    values, vectors = np.linalg.eigh(X)
    projected: Array = (vectors * np.maximum(values, 0)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    return projected
