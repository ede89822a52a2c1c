"""DPALS as published, where users are elsewhere: samples are drawn and vectors solved in the pass that needs them.

In memory, a sample is a table, and users' vectors are an array. In the partitions of a cluster neither is kept: both
follow from a user's own rows and from public numbers, so that a pass over the rows makes them, uses them, and forgets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from discreet.engine import Blocks
from discreet.engine.spark import SparkBlocks
from discreet.models.als.sampling import USERS, Sample
from discreet.models.ridge import Ridge
from discreet.typing import Array


@dataclass(frozen=True)
class Both(Sample):
    """Some users' rows for the item side, and the rows that the same users solve their own side from."""

    own: Sample | None = None  # never None; a field behind others that have defaults


@dataclass(frozen=True)
class Sampled:
    """A sample that is drawn anew in each pass, where the users are."""

    users: SparkBlocks

    def batches(self, users: int = USERS) -> Blocks[Any]:
        """All users, some at a time."""
        return self.users.of(users)

    def map(self, make: Callable[[Any], Any]) -> Sampled:
        """The same users' rows, as `make` has them."""
        return Sampled(self.users.map(make))

    def with_own(self, own: Sampled) -> Sampled:
        """The same with the rows, drawn otherwise from the same users, that these solve their own side from."""
        sampled, solved = self.users.made, own.users.made

        def both(part: Any) -> Both:
            sample = sampled(part)
            return Both(sample.indptr, sample.indices, sample.values, sample.weights, own=solved(part))

        return Sampled(SparkBlocks(self.users.table, None, (both,)))


@dataclass(frozen=True)
class Solved:
    """Users' vectors, each solved from her own rows when they are needed.

    Attributes:
        ridge: The regression, on public item vectors.
        solve: A_user.
        user_clip: Gamma_u.
    """

    ridge: Ridge
    solve: Callable[[Ridge, Any, float | None], Array]
    user_clip: float

    @property
    def rank(self) -> int:
        """The length of a vector."""
        return int(self.ridge.columns.shape[1])

    def __call__(self, part: Both) -> Array:
        """Those of some users."""
        own = part.own if isinstance(part, Both) else part
        return self.solve(self.ridge, own, self.user_clip)
