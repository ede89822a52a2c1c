"""Some users' rows: what a contribution is computed from."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from discreet.typing import Array


@dataclass(frozen=True)
class UserBatch:
    """Some users' rows: row i has items indices[indptr[i]:indptr[i + 1]] and values aligned with them."""

    indptr: Array
    indices: Array
    values: Array

    @cached_property
    def counts(self) -> Array:
        """How many items each user has."""
        return np.diff(self.indptr)

    @cached_property
    def owners(self) -> Array:
        """The row of each entry."""
        return np.repeat(np.arange(len(self.indptr) - 1), self.counts)

    def row_sums(self, entries: Array) -> Array:
        """The sum of each row's entries, in their order: no row's depends on another's."""
        return np.bincount(self.owners, entries, minlength=len(self.indptr) - 1)
