"""The certificate of a solver: how far above the minimum of a convex function a matrix can be."""

import math

import numpy as np

from discreet.typing import Array


def duality_gap(matrix: Array, gradient: Array, dual: Array, radius: float, alpha: float) -> float:
    """No Z whose singular values add up to at most `radius`, with entries up to `alpha`, is better by more than this.

    F is convex, so F(Z) >= F(X) + <G, Z - X> for X = `matrix` and G, F's `gradient` there. For any A, which a solver
    calls `dual`, and B = -G - A, <-G, Z> = <A, Z> + <B, Z> is at most radius |A| + alpha sum |B_ij|, |A| being the
    largest singular value. The gap is this bound less <-G, X>. `Minimizer` and `PerturbedMinimizer` rely on it.
    """
    rest = -gradient - dual
    square = dual @ dual.T if dual.shape[0] <= dual.shape[1] else dual.T @ dual
    norm = math.sqrt(max(float(np.linalg.eigvalsh(square)[-1]), 0.0))
    ball = radius * norm - float((dual * matrix).sum())
    return ball + float((alpha * np.abs(rest) - rest * matrix).sum())
