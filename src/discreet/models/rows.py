"""What users compute from their own rows: weights of length 1, and where they stand by their other items.

A user's sums are over their own entries, in their order: no number of theirs depends, to the last bit, on who is in the
batch with them.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

FOLDS = 4


def of_length_one(batch: UserBatch, entries: Array) -> Array:
    """Each user's entries, scaled to an L2 norm of 1; zeros if all of theirs are."""
    lengths = np.sqrt(batch.row_sums(entries**2))
    return np.asarray(entries / np.where(lengths > 0, lengths, 1)[batch.owners])


def by_other_folds(batch: UserBatch, entries: Array, loadings: Array) -> tuple[Array, Array]:
    """Where a user stands by their items of the other folds: an item does not say where it stands itself.

    A user's items are dealt out to folds in turn.

    Args:
        batch: Some users.
        entries: The weight of each of their items.
        loadings: Of all items, (items, k).

    Returns:
        The number of each item's fold, of all users'; and for each fold the sum of entries times loadings over the
        user's other folds, (users times FOLDS, k).
    """
    users, d = len(batch.counts), loadings.shape[1]
    folds = batch.owners * FOLDS + (np.arange(len(batch.indices)) - batch.indptr[:-1][batch.owners]) % FOLDS
    order = np.argsort(folds, kind="stable")
    ends = np.concatenate([[0], np.cumsum(np.bincount(folds, minlength=users * FOLDS))])
    items = batch.indices[order].astype(np.int64)
    table = csr_array((entries[order], items, ends), shape=(len(ends) - 1, len(loadings)))
    # Row by row, entry by entry: no user's sum depends on another's.
    each = np.asarray(table @ loadings).reshape(users, FOLDS, d)
    return folds, (each[:, 0:1] + each[:, 1:2] + each[:, 2:3] + each[:, 3:4] - each).reshape(-1, d)


def directions(standing: Array) -> tuple[Array, Array]:
    """Vectors as lengths and directions of length 1; a vector of zeros has none."""
    lengths = np.sqrt((standing**2).cumsum(axis=1)[:, -1])
    return lengths, standing / np.where(lengths > 0, lengths, 1)[:, None]
