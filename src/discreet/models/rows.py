"""What users compute from their own rows: weights of length 1, and where they stand by their other items.

A user's sums are over their own entries, in their order: no number of theirs depends, to the last bit, on who is in the
batch with them.
"""

from __future__ import annotations

from discreet import kernels
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

FOLDS = 4


def of_length_one(batch: UserBatch, entries: Array) -> Array:
    """Each user's entries, scaled to an L2 norm of 1; zeros if all of theirs are."""
    return kernels.unit_rows(batch.indptr, batch.indices, entries)


def by_other_folds(batch: UserBatch, entries: Array, loadings: Array) -> tuple[Array, Array]:
    """Where a user stands by their items of the other folds: an item does not say where it stands itself.

    A user's items are dealt out to folds in turn.

    Args:
        batch: Some users.
        entries: The weight of each of their items.
        loadings: Of all items, (items, k).

    Returns:
        For each fold the sum of entries times loadings over the user's other folds, as lengths (users times FOLDS) and
        directions of length 1, (users times FOLDS, k); a vector of zeros has none.
    """
    return kernels.other_folds(batch.indptr, batch.indices, entries, loadings, folds=FOLDS)
