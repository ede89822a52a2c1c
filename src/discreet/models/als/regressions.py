"""Many private linear regressions with one design matrix (Remark 7 of DPALS): one item step, and nothing else."""

from __future__ import annotations

import numpy as np

from discreet.engine import LocalBlocks
from discreet.errors import DataError
from discreet.kernels import n_threads
from discreet.models.als.calibration import STEP
from discreet.models.als.published_training import a_item, check_size, own_equations
from discreet.models.als.sampling import Sample, uniform
from discreet.privacy import Ledger, NormalEquations, Plan, Releaser
from discreet.privacy.guarantee import AdjacencyName, account
from discreet.privacy.lattice import require_sound_arithmetic
from discreet.typing import Array
from discreet.validation import positive, whole


def private_regressions(
    features: Array,
    targets: Array,
    *,
    epsilon: float,
    delta: float,
    feature_clip: float,
    target_clip: float,
    max_targets: int,
    regularization: float = 1.0,
    noise_ratio: float = 1.0,
    adjacency: AdjacencyName = "add-remove",
    ledger: Ledger | None = None,
    random_state: int = 0,
    n_jobs: int | None = -1,
) -> Array:
    """Coefficients t_j with x_i . t_j close to y_ij, for all columns j at once: DP for a change of one person's row.

    Minimizes, but for the noise, sum_i (y_ij - x_i . t_j)^2 + regularization |t_j|^2, over the people i who have a
    target j. Released, once: for each j the sums of x x^T and of y x. One person moves them, at noise s_G and s_g, by
    sqrt(k feature_clip^4 / s_G^2 + k feature_clip^2 target_clip^2 / s_g^2) deviations, k being `max_targets`.

    Args:
        features: x_i, one row for each person.
        targets: y_ij, one row for each person; NaN where there is none.
        epsilon: The budget.
        delta: Its delta.
        feature_clip: Longer rows of features are scaled down to this length; public.
        target_clip: Larger targets are clipped to this size; public.
        max_targets: The most targets of a person that count; of more, some are picked at random; public.
        regularization: Weight of the squared lengths of the coefficients.
        noise_ratio: sigma_G / sigma_g, the noise of the Gram matrices against that of the right-hand sides.
        adjacency: "add-remove" or "replace".
        ledger: Where the cost is recorded; by default a ledger of its own.
        random_state: Seed of the sample of targets; public.
        n_jobs: Threads, in scikit-learn's meaning.

    Returns:
        One row of coefficients for each column of `targets`.
    """
    x, y = np.asarray(features, np.float64), np.asarray(targets, np.float64)
    if x.ndim != 2 or y.ndim != 2 or len(x) != len(y) or not x.shape[1] or not y.shape[1]:
        raise DataError("features, targets: matrices with a row for each person, and at least one column, are needed")
    for name, value in (("feature_clip", feature_clip), ("target_clip", target_clip), ("noise_ratio", noise_ratio)):
        positive(name, value)
    positive("regularization", regularization, zero=True)
    k = min(whole("max_targets", max_targets, 1), y.shape[1])
    n_threads(n_jobs)
    check_size(y.shape[1], x.shape[1])
    statistic = NormalEquations(y.shape[1], x.shape[1], k, feature_clip, target_clip, noise_ratio)
    statistic.sensitivity(adjacency)  # raises if there is none
    require_sound_arithmetic()
    budget = account(epsilon=epsilon, delta=delta)
    assert budget.mu is not None
    ledger = Ledger(epsilon=epsilon, delta=delta, adjacency=adjacency, notion="dp") if ledger is None else ledger
    ledger.expect(unit="user", adjacency=adjacency)
    with ledger.reserve(Plan.gaussian(budget.mu, {STEP: 1.0})) as reservation:
        releaser = Releaser(reservation, adjacency, n_jobs)
        sample = _sample(x, y, k, random_state)
        stack = releaser.release(STEP, statistic, LocalBlocks(lambda: [sample]), own_equations).values
    return a_item(stack, statistic.target_unit, np.full(y.shape[1], float(regularization)), None, n_jobs)


def _sample(features: Array, targets: Array, k: int, seed: int) -> Sample:
    """Each person's targets, at most k, as sparse rows, and their features."""
    there = ~np.isnan(targets)
    indptr = np.concatenate([[0], np.cumsum(np.count_nonzero(there, axis=1))])
    every = Sample(indptr, np.nonzero(there)[1], targets[there])
    mask = uniform(every, k, seed)
    ends = np.concatenate([[0], np.cumsum(mask)])[indptr]
    return Sample(ends, every.indices[mask], every.values[mask], vectors=features)
