"""DPPCA: leading principal directions of a matrix with one row for each user, privately."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import validate_data

from discreet.data.interactions import Interactions
from discreet.engine import LocalBlocks
from discreet.engine.batches import DENSE_CELLS, parts
from discreet.errors import DataError, NotFitted
from discreet.models.base import check_parameters
from discreet.models.eigen import Products, check_budget, oja, orthonormal, start
from discreet.models.private import choice_of, require_sound
from discreet.parallel import single_threaded_blas
from discreet.privacy import Ledger, Plan, Releaser
from discreet.privacy.determinism import require_sound_arithmetic
from discreet.privacy.guarantee import Adjacency, AdjacencyName, Guarantee, account, require_adjacency
from discreet.privacy.statement import Statement
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array, Self
from discreet.validation import Count, Positive, Probability, whole

Method = Literal["dense", "oja", "block"]

SECOND_MOMENT, PRODUCT, ENERGY = "second moment", "product", "energy"
ENERGY_SHARE = 0.05  # share of the budget for eigenvalues by Oja's method
LARGEST_DENSE = 1 << 14  # the most columns whose second moment can be released as a matrix: 2 GiB


class PCANotFitted(NotFitted, NotFittedError):  # type: ignore[misc]  # scikit-learn has no types
    """A NotFitted error that scikit-learn recognizes, too."""


@dataclass(eq=False, repr=False)
class DPPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Private principal components: leading eigenvectors of X^T X, where each row of X belongs to one user.

    Rows longer than `row_norm` are scaled down to it. They are not centered: subtract a public mean first, if
    there is one. Three methods, all of them differentially private for the addition, removal or replacement of a whole
    row; r is the number of components, n that of columns, L the row norm:

    - "dense": X^T X is released once, with symmetric noise. One row moves it by at most L^2 (add-remove) or sqrt(2) L^2
      (replace). Memory n^2.
    - "oja": one component after another, each orthogonal to those before it, by `n_steps` releases of X^T X v, moved by
      at most L^2 in both adjacencies, and one of |X v|^2. Memory n r and the data: no n x n matrix is formed.
    - "block": all components at once, by `n_steps` releases of X^T X V, moved by at most L^2 or sqrt(2) L^2.

    `transform` and `low_rank` are computed from the given rows, without noise: what they return belongs to those rows'
    owners. Proofs: docs/proofs/oja.md.

    Example:
        >>> import discreet, numpy as np
        >>> rng = np.random.default_rng(0)
        >>> X = rng.standard_normal((20_000, 2)) @ rng.standard_normal((2, 30)) / 10
        >>> model = discreet.DPPCA(2, epsilon=5, delta=1e-6, row_norm=1.0).fit(X)
        >>> model.components_.shape, model.transform(X).shape
        ((2, 30), (20000, 2))

    Args:
        n_components: r, the number of components.
        epsilon: The privacy budget; all of it is spent.
        delta: The delta of the budget, a constant well below 1 / the number of rows.
        row_norm: L, the length that longer rows are scaled down to: a public constant.
        method: "dense", "oja" or "block".
        n_steps: Releases for each component ("oja") or for all of them ("block").
        adjacency: "add-remove" or "replace".
        n_jobs: Number of threads, as in scikit-learn. The result is the same for any number.

    Attributes:
        components_: (n_components, n), orthonormal rows, the leading one first.
        explained_variance_: The corresponding eigenvalues of X^T X, with noise, at least 0. They are sums over
            rows, not means: the number of rows is private.
        guarantee_: The guarantee for the users in the data.
        n_features_in_: n, the number of columns.
        feature_names_in_: The names of the columns, if X was a data frame.
    """

    n_components: Count
    _: KW_ONLY
    epsilon: Positive
    delta: Probability
    row_norm: Positive
    method: Method = "dense"
    n_steps: Count = 8
    adjacency: AdjacencyName = "add-remove"
    n_jobs: int | None = -1
    components_: Array = field(init=False)
    explained_variance_: Array = field(init=False)
    guarantee_: Guarantee = field(init=False)

    def _check_parameters(self, n_columns: int) -> None:
        check_parameters(self)
        require_adjacency(self.adjacency, Adjacency.ADD_REMOVE, Adjacency.REPLACE)
        if self.n_components > whole("n_columns", n_columns, 1):
            raise DataError(f"n_components: {self.n_components} are too many for {n_columns} columns")
        if self.method == "dense" and n_columns > LARGEST_DENSE:
            raise DataError(f"method: the second moment of {n_columns:,} columns is too large; use 'oja' or 'block'")

    def plan(self, n_columns: int) -> Plan:
        """What a fit would release, and what each release costs; needs no data, only the number of columns."""
        self._check_parameters(n_columns)
        r, steps = self.n_components, self.n_steps
        shares: dict[Method, dict[str, float | tuple[float, int]]] = {
            "dense": {SECOND_MOMENT: 1.0},
            "oja": {PRODUCT: (1 - ENERGY_SHARE, r * steps), ENERGY: (ENERGY_SHARE, r)},
            "block": {PRODUCT: (1.0, steps)},
        }
        plan = Plan.gaussian(account(epsilon=self.epsilon, delta=self.delta).mu or 0.0, shares[self.method])
        return check_budget(plan, n_columns * (r if self.method == "block" else 1))

    def fit(self, X: Any, y: Any = None, *, ledger: Ledger | None = None) -> Self:
        """Learn from one row for each user.

        Args:
            X: An array, a data frame, a SciPy sparse matrix, or Interactions. Numbers that are not finite count as 0.
            y: Ignored, as in scikit-learn.
            ledger: Where the cost is recorded; by default a ledger of its own.
        """
        chosen = None
        if isinstance(X, Interactions):
            require_sound(X)
            chosen = choice_of(X.catalogue, delta=self.delta, unit="user", adjacency=self.adjacency)
        require_sound_arithmetic()
        checked = clone(self)
        rows = checked._rows(X, reset=True)
        plan = self.plan(rows.shape[1])
        given = ledger
        if ledger is None:
            ledger = Ledger(epsilon=self.epsilon, delta=self.delta, adjacency=self.adjacency, notion="dp")
        ledger.expect(unit="user", adjacency=self.adjacency)
        with ledger.reserve(plan) as reservation:
            vectors, values = self._release(Releaser(reservation, self.adjacency, self.n_jobs), rows)
        events = reservation.events
        guarantee = ledger.guarantee(plan.cost, events, delta=self.delta)
        guarantee = guarantee if chosen is None else chosen.guarantee + guarantee
        public = {"columns": f"{rows.shape[1]:,}", "row norm": f"{self.row_norm:g}, given"}
        totals = None if given is None else ledger.totals()
        title = "DPPCA: private principal components"
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        for name in checked.__dict__.keys() & {"n_features_in_", "feature_names_in_"}:  # set with all that is learned
            setattr(self, name, checked.__dict__[name])
        self._statement = Statement.of(title, guarantee, events, public_inputs=public, ledger=totals, after=chosen)
        self.guarantee_ = guarantee
        self.components_ = np.ascontiguousarray(vectors.T)
        self.explained_variance_ = np.maximum(values, 0)
        return self

    def _release(self, releaser: Releaser, rows: csr_array) -> tuple[Array, Array]:
        """Eigenvectors (n, r) and eigenvalues, from releases alone."""
        n, r, bound = rows.shape[1], self.n_components, float(self.row_norm) ** 2
        most = max(DENSE_CELLS // n, 1) if self.method == "dense" else None
        users: LocalBlocks[UserBatch] = LocalBlocks(partial(_blocks, rows, most))
        products = Products(releaser, users, attrgetter("values"), n, bound)
        if self.method == "dense":
            moment = products.moment(SECOND_MOMENT).values
            with single_threaded_blas():
                values, vectors = np.linalg.eigh(moment)
            return vectors[:, ::-1][:, :r], values[::-1][:r]
        if self.method == "block":
            return _block_iteration(products, self.n_steps, r)
        known, found = np.zeros((n, 0)), list[float]()
        for _ in range(r):
            direction = oja(products, (PRODUCT, ENERGY), self.n_steps, known=known)
            known = np.column_stack([known, direction.vector])
            found.append(direction.value)
        return known, np.array(found)

    def _rows(self, X: Any, *, reset: bool = False) -> csr_array:
        """The rows of X. Their columns are remembered (`reset`), or compared with those of the fit."""
        if not isinstance(X, Interactions):
            # Whether there are any rows or numbers that are not finite is private, so neither raises.
            allowed = {"accept_sparse": "csr", "ensure_all_finite": False, "ensure_min_samples": 0}
            try:
                X = validate_data(self, X, dtype=np.float64, reset=reset, **allowed)
            except (TypeError, ValueError) as error:
                raise DataError(f"X: {_without_cells(str(error))}") from None
            if not issparse(X):  # zeros of dense arrays count as numbers
                columns = np.broadcast_to(np.arange(X.shape[1]), X.shape).ravel()
                return csr_array((X.ravel(), columns, np.arange(len(X) + 1) * X.shape[1]), shape=X.shape)
            rows = csr_array(X)
            if not rows.has_canonical_format:
                rows = rows.copy()
                rows.sum_duplicates()
            return rows
        if reset:
            self.n_features_in_ = X.n_items
        if X.n_items != self.n_features_in_:
            raise DataError(f"X: {self.n_features_in_} items are needed, not {X.n_items}")
        return csr_array((X.values, X.indices, X.indptr), shape=(X.n_users, X.n_items))

    def _fitted(self) -> Array:
        if not hasattr(self, "components_"):
            raise PCANotFitted("DPPCA has not been fitted; call fit(X) first")
        return self.components_

    @property
    def _n_features_out(self) -> int:
        return len(self._fitted())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        tags.non_deterministic = True
        return tags

    def statement(self) -> Statement:
        """The privacy statement: print it, or take its `.json()` or `.html()`."""
        self._fitted()
        return self._statement

    def transform(self, X: Any) -> Array:
        """Each row's coordinates along the components."""
        components = self._fitted()
        return np.asarray(self._rows(X) @ components.T)

    def inverse_transform(self, coordinates: Any) -> Array:
        """Rows from their coordinates."""
        return np.asarray(np.asarray(coordinates, np.float64) @ self._fitted())

    def low_rank(self, X: Any) -> Array:
        """The rows of X projected on the components: its low-rank approximation."""
        return self.inverse_transform(self.transform(X))


def _block_iteration(products: Products, n_steps: int, rank: int) -> tuple[Array, Array]:
    """The leading eigenvectors and eigenvalues, largest first, from `n_steps` products with all vectors at once."""
    vectors = start(products.size, rank)
    for _ in range(n_steps):
        product = products.release(PRODUCT, vectors).values
        with single_threaded_blas():
            small = vectors.T @ product
            values, turned = np.linalg.eigh((small + small.T) / 2)
        values, vectors = values[::-1], orthonormal(product @ turned[:, ::-1])
    return vectors, values


def _blocks(rows: csr_array, most_users: int | None) -> Iterator[UserBatch]:
    """Some rows at a time. Numbers that are not finite count as zero."""
    for part in parts(rows, rows.data, most_users=most_users):
        yield replace(part, values=_finite(part.values.astype(np.float64)))


def _without_cells(message: str) -> str:
    """An error message of scikit-learn without the cells that it quotes, which are private."""
    message = re.sub(r"(could not convert string to float): .*", r"\1", message, flags=re.DOTALL)
    return re.sub(r":?\n *(array=)?\[.*\]\.?\n", ". ", message, flags=re.DOTALL).strip()


def _finite(values: Array) -> Array:
    """The same numbers, with zeros for those that are not finite, or too large to be squared."""
    usable = np.isfinite(values) & (np.abs(values) < 1e100)
    return values if usable.all() else np.where(usable, values, 0.0)
