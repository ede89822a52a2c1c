"""The statistics of an item step: for each item a Gram matrix and a right-hand side, summed over users and released.

A user has one vector u, and for each of her items a weight w_j and a rating y_j. She adds, for her items alone,
w_j u u^T to the item's Gram matrix and w_j y_j u to its right-hand side. Both are released together, as one stack of
symmetric matrices that have the right-hand side, suitably scaled, as their last column: then one bound covers both, and
two people's opposite ratings and opposite vectors cannot be counted twice. Proof: docs/proofs/dpals-published.md.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from discreet.errors import DataError
from discreet.models.als.sampling import Sample, vectors_of
from discreet.privacy import NormalEquations, Releaser
from discreet.privacy.releaser import SumWith
from discreet.typing import Array

MOST_USERS = 1 << 14  # at a time, for the memory


@dataclass(frozen=True)
class Moments:
    """The noisy statistics, as they are released: the last columns of symmetric matrices are right-hand sides.

    Attributes:
        stack: (items, r + 1, r + 1).
        unit: What the right-hand sides are to be multiplied by.
    """

    stack: Array
    unit: float


def check_size(n_items: int, rank: int, names: str = "rank, item_fraction") -> None:
    """Raise if so many matrices of this size are too large to be released at once on this machine."""
    size, most = n_items * (rank + 1) ** 2 * 8, most_bytes()
    if size > most:
        raise DataError(
            f"{names}: {n_items:,} x {rank + 1:,} x {rank + 1:,} numbers would be released at once, which is "
            f"{size / 2**30:.1f} GiB, and at most a quarter of the memory can be, here {most / 2**30:.1f}; lower one "
            "of these"
        )


def most_bytes() -> int:
    """Of a stack of matrices: a quarter of the machine's memory, where that is known."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4
    except (AttributeError, ValueError, OSError):  # Windows
        return 1 << 31


def item_moments(
    releaser: Releaser,
    label: str,
    statistic: NormalEquations,
    sample: Any,
    users: Any,
    *,
    sum_with: SumWith | None = None,
) -> Moments:
    """Release the statistics of one item step.

    Args:
        releaser: Releases them.
        label: In the plan.
        statistic: The public constants.
        sample: Users' items, at most k of each without weights, and ratings.
        users: Users' vectors, each computed from their own data and public numbers.
        sum_with: How the statistics are added up, if not here.
    """

    def contribution(part: Sample) -> tuple[Array, Array, Array | None]:
        return vectors_of(users, part), part.values, part.weights

    batches = sample.batches(MOST_USERS)
    released = releaser.release(label, statistic, batches, contribution, sum_with=sum_with).values
    return Moments(released, statistic.target_unit)
