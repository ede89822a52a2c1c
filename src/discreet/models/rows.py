"""What users compute from their own rows: weights of length 1, and where they stand by their other items.

A user's sums are over their own entries, in their order: no number of theirs depends, to the last bit, on who is in the
batch with them.
"""

from __future__ import annotations

import numpy as np

from discreet import kernels
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

FOLDS = 4


def of_length_one(batch: UserBatch, entries: Array) -> Array:
    """Each user's entries, scaled to an L2 norm of 1; zeros if all of theirs are."""
    return kernels.unit_rows(entries, batch.indptr)


def by_other_folds(batch: UserBatch, entries: Array, loadings: Array) -> Array:
    """Where a user stands by their items of the other folds: an item does not say where it stands itself.

    A user's items are dealt out to folds in turn.

    Args:
        batch: Some users.
        entries: The weight of each of their items.
        loadings: Of all items, (items, k).

    Returns:
        For each fold the sum of entries times loadings over the user's other folds, (users times FOLDS, k).
    """
    return kernels.other_folds(batch.indptr, batch.indices, entries, loadings, folds=FOLDS)


def directions(standing: Array) -> tuple[Array, Array]:
    """Vectors as lengths and directions of length 1; a vector of zeros has none."""
    lengths = np.sqrt((standing**2).cumsum(axis=1)[:, -1])
    return lengths, standing / np.where(lengths > 0, lengths, 1)[:, None]
