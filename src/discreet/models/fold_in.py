"""Fold-in: a user's vector, from their own history and the public part of a fitted model. There are three kinds.

The score of item j is always base_j + a + columns_j . z. A fold-in computes the offset a and the vector z of a user
from their ratings y_l of some items l, and describes itself to browsers: the JavaScript client has the same three kinds
(`web/static/client`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from discreet import kernels
from discreet.data.interactions import Interactions
from discreet.engine.batches import parts
from discreet.errors import ModelError
from discreet.kernels import Table
from discreet.parallel import over_blocks, single_threaded_blas
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array, Self

if TYPE_CHECKING:
    from discreet.models.centering import Centering, Prepared
    from discreet.models.grading import Grading


# What goes into JSON; tables with a row for each item, which may be stored with less precision; other arrays.
Description: TypeAlias = tuple[dict[str, Any], dict[str, Array], dict[str, Array]]

Work: TypeAlias = Callable[[UserBatch], tuple[Array, Array]]  # offsets and vectors of some users

GRAM_ROWS = 1 << 12  # rows whose outer products one thread adds up at a time
LINEAR_PART = 1 << 19  # interactions that one thread adds up at a time


# -- ridge regressions of users, or of items, on the other side's vectors: in training, too


@dataclass(frozen=True)
class Penalty:
    """s = constant + scale * count^exponent / normaliser for a row of `count` targets."""

    scale: float
    exponent: float = 0.0
    normaliser: float = 1.0
    constant: float = 0.0

    def __call__(self, counts: Array, dtype: Any = np.float32) -> Array:
        """The s of each row."""
        weights = np.maximum(counts, 1).astype(np.float64) ** self.exponent
        return (self.constant + self.scale * weights / self.normaliser).astype(dtype)


def shared_gram(columns: Array, weight: Any, n_jobs: int | None = 1) -> Array | None:
    """The G of a penalty on the squared scores of all items, weight * X^T X; None without a weight.

    Blocks of rows are added up in order, so it is the same for any number of threads.
    """
    if not weight:
        return None

    def product(at: int) -> Array:
        some = columns[at : at + GRAM_ROWS]
        return np.asarray(some.T @ some)

    gram: Array = weight * sum(over_blocks(product, range(0, max(len(columns), 1), GRAM_ROWS), n_jobs))
    return gram


@dataclass(frozen=True)
class Ridge:
    """A ridge regression of each row, a user or an item, on the other side's vectors.

    The offset a_i and the vector z_i of row i minimize

        sum over j in row i of (y_ij - base_j - a_i - x_j . z_i)^2 + z_i^T G z_i + s_i |z_i|^2 + offset_penalty a_i^2

    Attributes:
        columns: x_j, one row for each item.
        base: The predicted value of each item without a history.
        penalty: s_i, a function of the number of ratings.
        gram: G, or None.
        offset_penalty: The penalty on the squared offset a_i; None for no offset.
        prior: One vector p_j for each item: z_i is shrunk to the mean of p_j over row i and `prior_count` zeros; or
            None.
        prior_count: The number of zeros in that mean.
    """

    columns: Array
    base: Array
    penalty: Penalty
    gram: Array | None = None
    offset_penalty: float | None = None
    prior: Array | None = None
    prior_count: float = 0.0

    @cached_property
    def _tables(self) -> tuple[Table, Table | None]:
        kind = self.columns.dtype
        return Table.of(self.columns), None if self.prior is None else Table.of(self.prior, kind)

    def solve(
        self, indptr: Array, indices: Array, values: Array, *, residuals: Array | None = None, n_jobs: int | None = 1
    ) -> tuple[Array, Array]:
        """The offsets (rows,) and vectors (rows, k) of a table's rows; residuals are written to `residuals`."""
        table, prior = self._tables
        offsets, vectors = kernels.ridge(
            indptr,
            indices,
            values,
            table,
            self.penalty(np.diff(indptr), self.columns.dtype),
            base=self.base if self.base.any() else None,
            prior=prior,
            prior_count=self.prior_count,
            gram=self.gram,
            offset_penalty=self.offset_penalty,
            residuals=residuals,
            n_jobs=n_jobs,
        )
        return offsets, vectors.values

    def contributions(self, indices: Array, values: Array, item: int) -> Array:
        """Each rating's contribution to the score of an item: these and `base` sum to the score.

        With the offset as a column of ones in front, the score is base_j + x_j . A^-1 X^T t, a sum over the ratings t.
        """
        has_offset = self.offset_penalty is not None
        columns = self.columns[[*indices, item]].astype(np.float64)
        columns = np.pad(columns, ((0, 0), (int(has_offset), 0)), constant_values=1)
        X, aimed = columns[:-1], columns[-1]
        scale = np.full(X.shape[1], self.penalty(np.array([len(indices)]), np.float64)[0])
        if has_offset:
            scale[0] = self.offset_penalty
        A = X.T @ X + np.diag(scale)
        if self.gram is not None:
            A += np.pad(self.gram, (int(has_offset), 0))
        with single_threaded_blas():
            weights = X @ np.linalg.lstsq(A, aimed, rcond=None)[0]
        added: Array = weights * (values.astype(np.float64) - self.base[indices])
        if self.prior is not None and len(indices):
            left = aimed - X.T @ weights  # the part of the item's own vector that the ratings do not explain
            added += self.prior[indices] @ left[-self.prior.shape[1] :] / (len(indices) + self.prior_count)
        return added


# -- the kinds of fold-in


@dataclass(frozen=True, kw_only=True)
class FoldIn(ABC):
    """How a fitted model computes a user's vector. It does not depend on the other users, to the last bit.

    Attributes:
        columns: One vector for each item, (items, rank).
        base: The score of each item without a history.
    """

    columns: Array
    base: Array

    def __init_subclass__(cls) -> None:
        if cls.__base__ is not FoldIn:  # its computation would differ from its description
            raise TypeError(f"{cls.__name__}: a fold-in is derived from FoldIn alone; compose it of others")

    @abstractmethod
    def fold_in(self, histories: Interactions, n_jobs: int | None) -> tuple[Array, Array]:
        """Offsets (users,) and vectors (users, rank), each from that user's own history."""

    @abstractmethod
    def contributions(self, indices: Array, values: Array, item: int) -> Array:
        """Each rating's contribution to the score of an item: these and `base` sum to the score."""

    def describe(self) -> Description:
        """Settings, tables and other arrays for the JavaScript client; raises if it cannot do the same."""
        raise ModelError(
            f"model: it cannot be exported, because browsers do not know how {type(self).__name__} folds users in; "
            "every model of discreet can be"
        )

    def with_tables(self, tables: dict[str, Array]) -> Self:
        """A copy with other tables, such as those of `describe` stored with less precision."""
        changes: dict[str, Any] = tables
        return replace(self, **changes)

    def _over(self, users: Iterable[UserBatch], n_users: int, work: Work, n_jobs: int | None) -> tuple[Array, Array]:
        """Offsets and vectors of all users, some at a time."""
        (_, k), kind, end = self.columns.shape, self.columns.dtype, 0
        offsets, vectors = np.zeros(n_users, kind), np.zeros((n_users, k), kind)
        for own in over_blocks(work, users, n_jobs):
            begin, end = end, end + len(own[0])
            offsets[begin:end], vectors[begin:end] = own
        return offsets, vectors


class Targets(Protocol):
    """The targets of regressions in place of ratings, for losses that are not squared."""

    def __call__(self, ridge: Ridge, indptr: Array, indices: Array, values: Array, n_jobs: int | None) -> Array:
        """The targets of the last regression, which follow from the earlier ones."""

    def describe(self, rank: int) -> dict[str, Any]:
        """The "loss", and the "rounds": (k, factor) for a regression on the first k columns times the factor."""


@dataclass(frozen=True, kw_only=True)
class RidgeFoldIn(FoldIn):
    """Each user runs a ridge regression (`Ridge`) of their ratings on the columns.

    Attributes:
        penalty: The penalty on the vector, a function of the number of ratings; by default none.
        gram: A quadratic penalty on the vector, or None.
        offset_penalty: The penalty on the squared offset; None if the offset is 0.
        prior: One vector for each item: z is shrunk to the mean of the history's ones and `prior_count` zeros; or None.
        prior_count: The number of zeros in that mean.
        frequent: A mask of the items that the model knows; others are left out, and score 0. None if it knows all.
        own_mean: Whether those others are scored by the user's own mean of y_l - base_l instead of 0. It is the last
            number of the vector. Its column, 1 for these items, is not part of the regression.
        targets: Targets in place of ratings, found by successive regressions; or None.
        double: Whether regressions are in double precision, which tiny penalties need.
    """

    penalty: Penalty = Penalty(0.0)
    gram: Array | None = None
    offset_penalty: float | None = None
    prior: Array | None = None
    prior_count: float = 0.0
    frequent: Array | None = None
    own_mean: bool = False
    targets: Targets | None = None
    double: bool = False

    @cached_property
    def _ridge(self) -> Ridge:
        columns = self.columns[:, :-1] if self.own_mean else self.columns
        columns = np.ascontiguousarray(columns, np.float64 if self.double else None)
        return Ridge(columns, self.base, self.penalty, self.gram, self.offset_penalty, self.prior, self.prior_count)

    def _fitted(self, indptr: Array, indices: Array, values: Array, n_jobs: int | None) -> Array:
        """The targets of the regression."""
        return values if self.targets is None else self.targets(self._ridge, indptr, indices, values, n_jobs)

    def fold_in(self, histories: Interactions, n_jobs: int | None) -> tuple[Array, Array]:
        """Offsets and vectors, each from that user's own history."""
        indptr, indices, values = histories.indptr, histories.indices, histories.values
        if self.frequent is not None:
            known = self.frequent[indices].astype(bool)
            indptr = np.concatenate([[0], np.cumsum(known)])[indptr]
            indices, values = indices[known], values[known]
        fitted = self._fitted(indptr, indices, values, n_jobs)
        offsets, vectors = self._ridge.solve(indptr, indices, fitted, n_jobs=n_jobs)
        if self.own_mean:
            about = histories.values.astype(np.float64) - self.base[histories.indices]
            counts = np.diff(histories.indptr)
            sums = np.bincount(histories.user_numbers(), about, minlength=len(counts))
            vectors = np.column_stack([vectors, (sums / np.maximum(counts, 1)).astype(vectors.dtype)])
        kind = self.columns.dtype
        return offsets.astype(kind, copy=False), vectors.astype(kind, copy=False)

    def contributions(self, indices: Array, values: Array, item: int) -> Array:
        """Each rating's contribution to the score of an item, given the targets of the whole history."""
        added = np.zeros(len(indices))
        if self.frequent is not None and not self.frequent[item]:
            return (values.astype(np.float64) - self.base[indices]) / max(len(indices), 1) if self.own_mean else added
        known = np.full(len(indices), True) if self.frequent is None else self.frequent[indices].astype(bool)
        indices, values = indices[known], values[known]
        fitted = self._fitted(np.array([0, len(indices)]), indices, values, 1)
        added[known] = self._ridge.contributions(indices, fitted, item)
        return added

    def describe(self) -> Description:
        """The description for the JavaScript client, in which `targets` is a loss and rounds."""
        penalty = {name: float(getattr(self.penalty, name)) for name in ("scale", "exponent", "normaliser", "constant")}
        settings = {"kind": "ridge", "penalty": penalty, "offset_penalty": self.offset_penalty}
        k = self._ridge.columns.shape[1]
        refits = {"loss": None, "rounds": [[k, 1.0]]} if self.targets is None else self.targets.describe(k)
        tables = _given(columns=self.columns, prior=self.prior)
        arrays = _given(base=self.base, gram=self.gram, frequent=self.frequent)
        settings |= {"prior_count": self.prior_count, "own_mean": self.own_mean}
        return {**settings, **refits}, tables, arrays


@dataclass(frozen=True, kw_only=True)
class LinearFoldIn(FoldIn):
    """A user's vector is a sum over their history: z = scale * sum over l of (h_l - a) loadings_l.

    With c ratings and n = max(c + damping, 1), the offset is a = (sum over l of h_l) / n, a damped mean, and
    scale = spread / n. Without a damping a is 0, without a spread scale is 1.

    h_l is y_l - base_l; with weights it is weights_l divided by the norm of the history's weights. Then z projects the
    history on directions, whatever its ratings are. With a grading, weights_l is also multiplied by the rating's grade.

    Attributes:
        loadings: The direction in which each item of a history moves the vector, (items, rank).
        weights: The weight of each item in a history, 0 if it does not count; None if h_l comes from ratings.
        grading: The grades of ratings; None if weights do not depend on ratings.
        damping: The number of pseudo-ratings at `base` in the user's own mean; None for no offset.
        spread: The number of items that the ratings stand for; None if only for themselves.
    """

    loadings: Array
    weights: Array | None = None
    grading: Grading | None = None
    damping: float | None = None
    spread: float | None = None

    def _amounts(self, part: UserBatch) -> Array:
        """The h_l of each user. Sums are in the order of their items: none depends on other users."""
        if self.weights is None:
            return np.asarray(part.values.astype(np.float64) - self.base[part.indices])
        own = self.weights[part.indices].astype(np.float64)
        if self.grading is not None:
            own *= self.grading(part)
        lengths = np.sqrt(part.row_sums(own**2))
        return np.asarray(own / np.where(lengths > 0, lengths, 1)[part.owners])

    def _shares(self, counts: Array) -> tuple[Array, Array]:
        """The factor of h_l in its user's offset, and the factor of a user's vector."""
        n, one = np.maximum(counts + (self.damping or 0), 1), np.ones(len(counts))
        return 0 * one if self.damping is None else 1 / n, one if self.spread is None else self.spread / n

    def fold_in(self, histories: Interactions, n_jobs: int | None) -> tuple[Array, Array]:
        """Offsets and vectors, each from that user's own history."""
        from scipy.sparse import csr_array

        def work(part: UserBatch) -> tuple[Array, Array]:
            amounts, (share, scale) = self._amounts(part), self._shares(part.counts)
            offsets = part.row_sums(amounts) * share
            entries = ((amounts - offsets[part.owners]) * scale[part.owners]).astype(self.columns.dtype)
            shape = len(part.counts), len(self.loadings)
            table = csr_array((entries, part.indices.astype(np.int64), part.indptr), shape=shape)
            return offsets, table @ self.loadings  # row by row, entry by entry: no row's sum depends on another's

        users = parts(histories, histories.values, most=LINEAR_PART)
        return self._over(users, histories.n_users, work, n_jobs)

    def contributions(self, indices: Array, values: Array, item: int) -> Array:
        """Each rating's contribution to the score of an item, directly and through the offset."""
        part = UserBatch(np.array([0, len(indices)]), indices, values)
        share, scale = self._shares(part.counts)
        loads = self.loadings[indices].astype(np.float64) @ self.columns[item].astype(np.float64) * scale
        return np.asarray(self._amounts(part) * (loads + share * (1 - loads.sum())))

    def describe(self) -> Description:
        """The description for the JavaScript client."""
        grading = None if self.grading is None else self.grading.describe()
        settings = {"kind": "linear", "grading": grading, "damping": self.damping, "spread": self.spread}
        tables = {"columns": self.columns, "loadings": self.loadings}
        return settings, tables, _given(base=self.base, weights=self.weights)


class Steps(Protocol):
    """Public steps of training, each of which moves a user's coefficients by their own ratings."""

    @property
    def centering(self) -> Centering:
        """How users center and scale their ratings."""

    @property
    def most_users(self) -> int | None:
        """The number of users to replay at a time; None for the default."""

    def coefficients(self, row: Prepared) -> Array:
        """Some users' coefficients (users, rank) after all steps."""

    def contributions(self, part: UserBatch, aim: Array) -> Array:
        """The contribution of each of one user's ratings to the offset plus coefficients . aim."""

    def describe(self) -> Description:
        """The steps' part of a fold-in's description."""

    def with_tables(self, tables: dict[str, Array]) -> Steps:
        """A copy with other tables, one of which is `columns`."""


@dataclass(frozen=True, kw_only=True)
class ReplayFoldIn(FoldIn):
    """Each user replays the public `steps` of training on their own ratings x_l = c (y_l - centre - a).

    a is their damped mean, and c is at most 1, so that |x| is at most a bound (`Centering`); z are the coefficients
    after all steps, divided by c.
    """

    steps: Steps

    def fold_in(self, histories: Interactions, n_jobs: int | None) -> tuple[Array, Array]:
        """Offsets and vectors, each from that user's own history."""
        centering = self.steps.centering

        def work(part: UserBatch) -> tuple[Array, Array]:
            row = centering.prepare(replace(part, indices=part.indices.astype(np.int64)))
            return row.offsets - centering.centre, self.steps.coefficients(row) / row.scales[:, None]

        users = parts(histories, histories.values, most_users=self.steps.most_users)
        return self._over(users, histories.n_users, work, n_jobs)

    def contributions(self, indices: Array, values: Array, item: int) -> Array:
        """Each rating's contribution to the score of an item: these and `base` sum to the score."""
        part = UserBatch(np.array([0, len(indices)]), indices.astype(np.int64), values)
        return self.steps.contributions(part, self.columns[item].astype(np.float64))

    def describe(self) -> Description:
        """The description for the JavaScript client, which has two kinds of steps."""
        settings, tables, arrays = self.steps.describe()
        centering = {name: getattr(self.steps.centering, name) for name in ("centre", "shrinkage", "row_norm")}
        own = {"kind": "replay", **centering, "steps": settings}
        return own, {"columns": self.columns, **tables}, {"base": self.base, **arrays}

    def with_tables(self, tables: dict[str, Array]) -> Self:
        """A copy with other tables."""
        return replace(self, columns=tables["columns"], steps=self.steps.with_tables(tables))


def _given(**arrays: Array | None) -> dict[str, Array]:
    """The arrays that are not None."""
    return {name: array for name, array in arrays.items() if array is not None}
