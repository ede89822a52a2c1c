"""Inner products of people's vectors with items' columns, by matrix products of one shape.

A BLAS chooses its kernels by the shapes of its operands, and each kernel rounds in its own way. If all people who
happen to be there were multiplied at once, the last bits of one person's products would depend on how many others there
are. So every product here has the same shape: a fixed number of people, with zeros in the places that are not taken,
times a tile of a fixed number of items. All operands begin with a cache line. What a person's products could still
depend on is their place among the people of one product, and the others' vectors. `recommend.trial` tests that they do
not.

Small tiles are also quick: OpenBLAS multiplies small matrices as they lie where it has kernels for that (AVX-512), and
a tile stays in the cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from discreet.linalg.arrays import NUMPY, Arrays, aligned
from discreet.typing import Array


@dataclass(frozen=True)
class Columns:
    """The columns of some items, laid out in tiles.

    Attributes:
        given: One row for each item, (items, k).
        arrays: Where they are multiplied.
    """

    given: Array
    arrays: Arrays = NUMPY

    @property
    def _inner(self) -> int:
        """k, made even and at least 2: eight vectors of single precision are then a whole number of cache lines."""
        k: int = self.given.shape[1]
        return max(2, k + k % 2)

    @property
    def width(self) -> int:
        """The number of items, rounded up to whole tiles."""
        return -(-len(self.given) // self.arrays.tile[1]) * self.arrays.tile[1]

    def widened(self, scores: Array) -> Array:
        """A score for each item, in the type of the columns, and minus infinity in the places behind the last item."""
        wide = np.full(self.width, -np.inf, self.given.dtype)
        wide[: len(scores)] = scores
        return wide

    @cached_property
    def _tiles(self) -> Any:
        """(tiles, k, items of a tile), with zeros behind the last item."""
        (n, k), width = self.given.shape, self.arrays.tile[1]
        shape = self.width // width, self._inner, width
        tiles = aligned(int(np.prod(shape)), self.given.dtype).reshape(shape)
        tiles[:] = 0
        whole = n // width
        tiles[:whole, :k] = self.given[: whole * width].reshape(whole, width, k).swapaxes(1, 2)
        if n % width:
            tiles[whole, :k, : n % width] = self.given[whole * width :].T
        return self.arrays.put(tiles)

    def some(self, items: Array) -> Columns:
        """Those of some items."""
        return Columns(self.given[items], self.arrays)

    def times(self, vectors: Any, name: str) -> Any:
        """Inner products (people, width) of people's vectors (people, k) with all columns; zeros behind the last item.

        The next call with the same name, in this thread, gets the same memory.
        """
        (n, k), height = vectors.shape, self.arrays.tile[0]
        rows = -(-n // height) * height
        own = self.arrays.empty("vectors", (rows, self._inner), vectors)
        own[:n, :k], own[:n, k:], own[n:] = vectors, 0, 0
        out = self.arrays.empty(name, (rows, self.width), vectors)
        self.arrays.multiply(own, self._tiles, out)
        return out[:n]
