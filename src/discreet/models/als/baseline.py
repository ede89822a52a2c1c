"""Alternating least squares without privacy: the model that private ones are measured against."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from discreet import kernels
from discreet.data.interactions import Interactions
from discreet.data.progress import Bar
from discreet.errors import DataError
from discreet.kernels import Table
from discreet.models.base import NotPrivateModel, check_seed
from discreet.models.fold_in import FoldIn, Penalty, RidgeFoldIn, shared_gram
from discreet.typing import Array
from discreet.validation import positive, whole

EXPLICIT, IMPLICIT = (16, 12.0, 0.0), (64, 6.0, 0.2)  # rank, regularization, global penalty: good on MovieLens 1M


@dataclass(eq=False, repr=False)
class ALS(NotPrivateModel):
    """Matrix factorization by alternating least squares, for ratings and for implicit feedback. Not private.

    Minimizes, over user vectors u_i and offsets a_i, item vectors v_j and biases b_j,

        sum over observed (i, j) of (y_ij - m - a_i - b_j - u_i . v_j)^2
        + global_penalty * sum over all (i, j) of (u_i . v_j)^2
        + regularization * (sum_i w_i |u_i|^2 + sum_j w'_j |v_j|^2)
        + bias_regularization * (sum_i a_i^2 + sum_j b_j^2)

    with m the mean rating, w_i = c_i^user_exponent / Z for a user with c_i interactions and w'_j = c_j^item_exponent /
    Z' for an item with c_j, Z and Z' being the means of the numerators. Without biases (biases=False, the default for
    implicit feedback) m = a_i = b_j = 0; then every y_ij is 1, and the second term keeps u_i . v_j from being 1
    everywhere. A step solves for all users and then for all items, each by a ridge regression; a new user is folded in
    by the same one.

    Example:
        >>> import discreet
        >>> ratings = discreet.datasets.movielens_like(300, 50, 6_000, random_state=0)
        >>> model = discreet.ALS(rank=8).fit(ratings)
        >>> model.guarantee_.holds
        False
        >>> len(model.recommend({3: 5.0, 14: 1.5}, n=5))
        5

    Args:
        rank: The length of the vectors; by default 16 for ratings and 64 for implicit feedback.
        regularization: Weight of the vectors' squared lengths; by default 12 for ratings, 6 for implicit feedback.
        bias_regularization: Weight of the squared biases.
        user_exponent: How regularization grows with a user's number of interactions (nu in DPALS, Eq. 24).
        item_exponent: The same for items (mu).
        global_penalty: Weight of the squared scores of all pairs, rated or not (lambda_0); by default 0 for ratings and
            0.2 for implicit feedback.
        biases: Whether there are m, a and b; by default for ratings, not for implicit feedback.
        n_steps: How many steps.
        solver: "exact" (Cholesky), or "cg": some conjugate-gradient steps from the last vectors, faster at high ranks.
        cg_steps: Steps of conjugate gradients.
        dtype: "float32" or "float64".
        random_state: Seed of the vectors that the first step starts from.
        n_jobs: Threads, in scikit-learn's meaning. The result is the same, bit for bit, for any number.
    """

    _ARRAYS: ClassVar[tuple[str, ...]] = (*NotPrivateModel._ARRAYS, "gram_")
    _VALUES: ClassVar[tuple[str, ...]] = (*NotPrivateModel._VALUES, "biases_", "scale_", "user_weight_")

    gram_: Array = field(init=False)
    biases_: bool = field(init=False)
    scale_: float = field(init=False)
    user_weight_: float = field(init=False)

    rank: int | None = None
    _: KW_ONLY
    regularization: float | None = None
    bias_regularization: float = 1.0
    user_exponent: float = 0.5
    item_exponent: float = 0.5
    global_penalty: float | None = None
    biases: bool | None = None
    n_steps: int = 15
    solver: Literal["exact", "cg"] = "exact"
    cg_steps: int = 3
    dtype: Literal["float32", "float64"] = "float32"
    random_state: int | None = 0
    n_jobs: int | None = -1

    def _check_parameters(self) -> None:
        for name in ("n_steps", "cg_steps", *(() if self.rank is None else ("rank",))):
            whole(name, getattr(self, name), 1)
        for name in ("regularization", "bias_regularization"):
            if getattr(self, name) is not None:
                positive(name, getattr(self, name))
        for name in ("user_exponent", "item_exponent", "global_penalty"):
            value = getattr(self, name)
            optional = value is None and name == "global_penalty"
            if not (optional or (isinstance(value, int | float) and 0 <= value < np.inf)):
                raise DataError(f"{name}: a finite number of at least 0 is needed, not {value!r}")
        check_seed("random_state", self.random_state)
        if self.solver not in ("exact", "cg"):
            raise DataError(f"solver: 'exact' or 'cg' is needed, not {self.solver!r}")
        if self.dtype not in ("float32", "float64"):
            raise DataError(f"dtype: 'float32' or 'float64' is needed, not {self.dtype!r}")

    def _learn_exactly(self, ratings: Interactions) -> dict[str, Any]:
        biases = self.biases if self.biases is not None else not ratings.implicit
        if biases and ratings.implicit:
            raise DataError("biases: implicit feedback has no ratings, so it has no biases; leave biases=True out")
        return _Training(self, ratings, biases).run()

    def _make_fold_in(self) -> FoldIn:
        return RidgeFoldIn(
            columns=self.item_factors_,
            base=self.item_bias_ + self.item_bias_.dtype.type(self.global_mean_ if self.biases_ else 0),
            penalty=Penalty(self.scale_, self.user_exponent, self.user_weight_),
            gram=self.gram_ if self.gram_.size else None,
            offset_penalty=self.bias_regularization if self.biases_ else None,
        )


class _Training:
    """The state of one fit: both sides' vectors and biases."""

    def __init__(self, model: ALS, ratings: Interactions, biases: bool) -> None:
        self.model, self.biases = model, biases
        self.kind = np.dtype(model.dtype)
        columns = ratings.by_item
        mean = self.kind.type(ratings.values.mean(dtype=np.float64) if biases else 0)
        self.by_user = (ratings.indptr, ratings.indices, ratings.values.astype(self.kind) - mean)
        self.by_item = (columns.indptr, columns.indices, columns.values.astype(self.kind) - mean)
        usual = IMPLICIT if ratings.implicit else EXPLICIT
        rank = usual[0] if model.rank is None else model.rank
        self.scale = usual[1] if model.regularization is None else model.regularization
        self.global_penalty = usual[2] if model.global_penalty is None else model.global_penalty
        self.user_penalty = _penalty(self.scale, model.user_exponent, np.diff(ratings.indptr))
        self.item_penalty = _penalty(self.scale, model.item_exponent, np.diff(columns.indptr))
        rng = np.random.default_rng(model.random_state)
        self.V = Table.of((rng.standard_normal((ratings.n_items, rank)) / np.sqrt(rank)).astype(self.kind))
        self.U = Table.empty(ratings.n_users, rank, self.kind)
        self.a, self.b = np.zeros(ratings.n_users, self.kind), np.zeros(ratings.n_items, self.kind)

    def run(self) -> dict[str, Any]:
        with Bar("ALS", self.model.n_steps, "steps") as bar:
            for _ in range(self.model.n_steps):
                self.a, self.U = self._side(self.by_user, self.V, self.b, self.user_penalty, (self.a, self.U))
                self.b, self.V = self._side(self.by_item, self.U, self.a, self.item_penalty, (self.b, self.V))
                bar.advance(1)
        gram = self._gram(self.V)
        return {
            "item_factors_": self.V.values.copy(),
            "item_bias_": self.b,
            "gram_": np.zeros((0, 0), self.kind) if gram is None else gram,
            "biases_": self.biases,
            "scale_": float(self.scale),
            "user_weight_": self.user_penalty.normaliser,
        }

    def _gram(self, table: Table) -> Array | None:
        return shared_gram(table.values, self.kind.type(self.global_penalty), self.model.n_jobs)

    def _side(
        self, rows: tuple[Array, Array, Array], table: Table, base: Array, penalty: Penalty, now: tuple[Array, Table]
    ) -> tuple[Array, Table]:
        """One side's biases and vectors, given the other side's; they take the place of those that there are now."""
        model, by_steps = self.model, self.model.solver == "cg"
        return kernels.ridge(
            *rows,
            table,
            penalty(np.diff(rows[0]), self.kind),
            base=base if self.biases else None,
            gram=self._gram(table),
            offset_penalty=model.bias_regularization if self.biases else None,
            steps=model.cg_steps if by_steps else 0,
            start=now,
            n_jobs=model.n_jobs,
        )


def _penalty(scale: float, exponent: float, counts: Array) -> Penalty:
    return Penalty(scale, exponent, float(np.mean(np.maximum(counts, 1).astype(np.float64) ** exponent)))
