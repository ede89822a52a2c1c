"""Before a private model serves anyone: does this machine give a person the same bits whoever else is served?

The code sees to it that every operation on a person's numbers has a shape that depends on that person and on public
numbers alone. What remains is an assumption about linear algebra: that for a given shape, the bits of a result do not
depend on where in memory its operands are, on a row's place among the rows of a product, or on what the other rows
hold. So it is tried out on made-up people, by the very operations that the model uses, in its own precision and rank.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.data.catalogue import Catalogue, Ids, smallest_unsigned
from discreet.data.interactions import Interactions
from discreet.errors import PrivacyError
from discreet.linalg.arrays import arrays_on
from discreet.linalg.products import Columns
from discreet.linalg.threads import single_threaded_blas
from discreet.typing import Array

if TYPE_CHECKING:
    from discreet.models.fold_in import FoldIn


LENGTHS = (*range(33), 40, 48, 63, 64, 65, 100, 127, 200, 256, 300, 500, 900, 1500)  # of histories
THIRDS = 3
ALONE = 5  # people who are also served by themselves

_sound: set[tuple[Any, ...]] = set()  # what was tried in this process


def require_same_bits_served(fold_in: FoldIn, catalogue: Catalogue, value_range: tuple[float, float]) -> None:
    """Raise unless made-up people get the same vectors and scores alone, and in any company; once for each kind."""
    options = (getattr(fold_in, field.name) for field in fields(fold_in))
    kinds = (option if isinstance(option, bool) else type(option) for option in options)
    tried = type(fold_in), fold_in.device, fold_in.columns.shape, fold_in.columns.dtype, *kinds
    if tried in _sound:
        return
    rng = np.random.default_rng(0)
    with single_threaded_blas():
        if not (_folds_in(fold_in, _made_up(catalogue, value_range, rng), rng) and _multiplies(fold_in, rng)):
            raise PrivacyError(
                "this machine's linear algebra gives a person other bits if other people are served beside them, so "
                "that the promise to those others would not hold; use another BLAS, with OpenBLAS another kernel (for "
                "instance OPENBLAS_CORETYPE=Haswell), or with a GPU device='cpu'"
            )
    _sound.add(tried)


def _made_up(catalogue: Catalogue, value_range: tuple[float, float], rng: np.random.Generator) -> Interactions:
    """Histories that nobody has, two of each length."""
    m, (low, high) = len(catalogue), value_range
    counts = rng.permutation([min(length, m) for length in LENGTHS for _ in range(2)])
    indices = np.concatenate([np.sort(rng.choice(m, count, replace=False)) for count in counts])
    return Interactions(
        users=Ids(range(len(counts))),
        catalogue=catalogue,
        indptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        indices=indices.astype(smallest_unsigned(m)),
        values=rng.uniform(low, high, len(indices)).astype(np.float32),
        value_range=value_range,
    )


def _companies(n: int, rng: np.random.Generator) -> list[Array]:
    """A third of n people, several times; and several of them by themselves."""
    thirds = [np.sort(rng.permutation(n)[: n // 3]) for _ in range(THIRDS)]
    return [*thirds, *rng.permutation(n)[:ALONE, None]]


def _folds_in(fold_in: FoldIn, people: Interactions, rng: np.random.Generator) -> bool:
    """Whether people's offsets and vectors are the same in any company."""
    together = fold_in.fold_in(people, 1)
    return all(
        np.array_equal(one[members], other)
        for members in _companies(people.n_users, rng)
        for one, other in zip(together, fold_in.fold_in(people.of_users(members), 1), strict=True)
    )


def _multiplies(fold_in: FoldIn, rng: np.random.Generator) -> bool:
    """Whether products with items' columns are, at every place among those that are multiplied at once."""
    arrays, k = arrays_on(fold_in.device), fold_in.columns.shape[1]
    height, width = arrays.tile
    vectors, columns = (
        rng.standard_normal((n, k)).astype(fold_in.columns.dtype) for n in (2 * height + 3, 2 * width + 5)
    )
    items = Columns(columns, arrays)

    def products(members: Array) -> Array:
        return np.array(arrays.get(items.times(arrays.put(vectors[members]), "scores")))

    everyone = np.arange(len(vectors))
    together = products(everyone)
    moved = [np.roll(everyone, 1), *_companies(len(vectors), rng)]  # each place has its neighbor's person once
    return all(np.array_equal(together[members], products(members)) for members in moved)
