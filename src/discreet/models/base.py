"""The interface that all models share.

A model learns public things: a vector and a bias for each item, and how a user is folded in. What it needs to know
about a user is computed from their own history on every call, and then discarded: no model stores anything about users.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from inspect import get_annotations, signature
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np

from discreet.data.catalogue import Catalogue, Ids, catalogue_sha256, sha256_of
from discreet.data.interactions import Interactions, is_spark
from discreet.data.readers import read
from discreet.data.spark import SparkInteractions
from discreet.errors import DataError, ModelError, NotFitted, PrivacyError
from discreet.models.fold_in import FoldIn
from discreet.parallel import n_threads, single_threaded_blas
from discreet.privacy.guarantee import Cost, Guarantee, Unit
from discreet.privacy.statement import Statement
from discreet.privacy.store import Checkpoint, canonical
from discreet.recommend import serving
from discreet.recommend.histories import OnUnknown, Reader
from discreet.recommend.results import AnnIndex, BatchRecommendations, Explanation, Recommendations, export_vectors
from discreet.recommend.serving import Scorer, Variance
from discreet.typing import Array, Self
from discreet.validation import check_fields

if TYPE_CHECKING:
    from discreet.privacy.ledger import Ledger


_TUPLE = "tuple"  # JSON has no tuples: {"tuple": [1, 5]} stands for (1, 5)
Learned: TypeAlias = tuple[dict[str, Any], Statement]  # attributes by name, and the statement that certifies them
DERIVED = ("_fold_in", "_ranking", "_scorer_now")  # computed from learned attributes when first needed
HERE = (*DERIVED, "_checkpoint")  # stays with this object until it learns again, and is not copied
NOT_PRIVATE = "it was trained without noise, so anyone who has it may learn what individual people did"


class Estimator:
    """The estimator interface of scikit-learn's `clone` and searches, without importing scikit-learn.

    Importing it takes longer than a recommendation from a saved model. Parameters are the arguments of the
    constructor, which stores them under their names.
    """

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted(name for name in signature(cls).parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # scikit-learn passes it
        """The parameters by name. No parameter is an estimator, so `deep` makes no difference."""
        del deep
        return {name: getattr(self, name) for name in self._get_param_names()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, and return the model itself."""
        known = self._get_param_names()
        if unknown := [name for name in params if name not in known]:
            raise DataError(f"{unknown[0]}: {type(self).__name__} has no such parameter; it has {', '.join(known)}")
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = signature(type(self)).parameters
        given = {name: getattr(self, name) for name in defaults}
        changed = (f"{name}={value!r}" for name, value in given.items() if value is not defaults[name].default)
        return f"{type(self).__name__}({', '.join(changed)})"

    def score(self, X: Any, y: Any = None) -> float:
        """The score of the fitted model for the users of a table; higher is better. See `discreet.evaluate` for more.

        Minus the RMSE if the model predicts ratings and the table has them; otherwise recall@20. These are exact: no
        guarantee covers a choice made by them, as in `GridSearchCV`. `discreet.tune.search` chooses privately.

        Args:
            X: Interactions of users whom the model need not have seen.
            y: What to predict from X, Interactions of the same users; by default a fifth of X, which is then held out.
        """
        from discreet.models.scoring import score

        return score(self, X, y)

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator

        tags = BaseEstimator.__sklearn_tags__(self)
        tags.input_tags.two_d_array = False  # Interactions have empty cells and public metadata
        tags.non_deterministic = "epsilon" in self._get_param_names()  # because of noise
        return tags


class Model(Estimator):
    """The interface of fitted models, which know items, and fold in any user from their own history.

    A history is a mapping {item: rating}, a list of liked items, or a table of many histories. The model stores none.

    Example:
        >>> import discreet
        >>> ratings = discreet.datasets.movielens_like(300, 50, 6_000, random_state=0)
        >>> model = discreet.DPALS(epsilon=5, delta=1e-6).fit(ratings)
        >>> history = {3: 5.0, 14: 4.5, 15: 1.0}
        >>> found = model.recommend(history, n=5)
        >>> found.to_frame("pandas").columns.tolist()
        ['item', 'score', 'rank', 'title']
        >>> bool(0.5 <= model.predict(history, [found.items[0]])[0] <= 5)
        True
        >>> why = model.explain(history, found.items[0])
        >>> bool(abs(why.baseline + why.contributions.sum() - why.score) < 1e-4)
        True
        >>> len(model.similar_items(3, n=4))
        4
        >>> len(model.recommend(ratings, n=5).to_frame("pandas"))  # for everyone in a table
        1500

    Attributes:
        guarantee_: The guarantee for the people in the data.
        items_: The item ids.
        catalogue_: The items, with their public columns.
        item_factors_: One vector for each item, (items, rank).
        item_bias_: One number for each item, in the unit of the ratings.
        popularity_: Scores that order items if there is neither a history nor a bias.
        value_range_: The lowest and the highest value.
        implicit_: Whether interactions had no values, so that each counts as 1.
    """

    # What is learned and saved: attributes with a trailing underscore. Subclasses add those whose types they declare.
    _ARRAYS: ClassVar[tuple[str, ...]] = ("item_factors_", "item_bias_", "popularity_")
    _VALUES: ClassVar[tuple[str, ...]] = ("value_range_", "implicit_", "global_mean_")

    # Parameters for serving only: they may change after a fit, and the certificate leaves them out.
    _NOT_LEARNED: ClassVar[tuple[str, ...]] = ("n_jobs",)

    _in_spark: ClassVar[bool] = False  # whether it can be fitted in Spark

    n_jobs: int | None = -1
    unit: Unit = "user"
    catalogue_: Catalogue
    item_factors_: Array
    item_bias_: Array
    popularity_: Array
    value_range_: tuple[float, float]
    implicit_: bool
    global_mean_: float
    guarantee_: Guarantee
    _checkpoint: Checkpoint
    _scorer_now: tuple[float | None, Scorer]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        learned = {name: kind for name, kind in get_annotations(cls).items() if name[-1] == "_" != name[0]}
        for group, arrays in (("_ARRAYS", True), ("_VALUES", False)):
            inherited = [name for base in reversed(cls.__mro__) for name in vars(base).get(group, ())]
            own = [name for name, kind in learned.items() if (kind in ("Array", Array)) == arrays]
            setattr(cls, group, tuple(dict.fromkeys([*inherited, *own])))

    # To be defined by each model

    def _learn(self, ratings: Interactions, ledger: Ledger | None, checkpoint: Path | None = None) -> Learned:
        """Learn from checked data. Returns all attributes to set, by name, and the statement."""
        raise NotImplementedError

    def _not_resumable(self) -> str:
        """Why a fit cannot be resumed after a crash; empty if it can."""
        return "it spends nothing that could be lost"

    def _make_fold_in(self) -> FoldIn:
        """How a user is folded in, from the learned attributes."""
        raise NotImplementedError

    def _make_ranking(self) -> FoldIn:
        """How a user is folded in for lists of items; by default as for predictions."""
        return self._fold_in

    def _check_parameters(self) -> None:
        """Raise if a parameter is wrong. Called before any data is touched."""
        check_parameters(self)

    # Learning

    def fit(
        self,
        ratings: Any,
        y: Any = None,
        *,
        ledger: Ledger | None = None,
        checkpoint: str | PathLike[str] | None = None,
        **reading: Any,
    ) -> Self:
        """Learn from a table of who liked what.

        Args:
            ratings: Interactions, or anything that `discreet.read` takes. A Spark DataFrame stays in Spark.
            y: Ignored, as in scikit-learn.
            ledger: Where a private model records what it spends; by default a ledger of its own.
            checkpoint: A folder for the releases of a private fit. If the process dies, the same call finishes the fit
                that was paid for, at no further cost; until the model has been saved, it gives the same model again.
                `save` removes the folder.
            reading: Other arguments of `discreet.read` (`items`, `value_range`, ...), if the table is not read yet.

        Returns:
            The model itself. If anything fails, it stays as it was.

        Raises:
            DataError: A parameter is wrong, or the model cannot learn from this kind of data.
            NotPublic: A public input is missing, such as the items or the range of values. Nothing was spent.
            BudgetExceeded: The ledger has too little left. Nothing was spent, no data was touched.
        """
        del y
        if isinstance(ledger, str | PathLike):
            raise PrivacyError(
                f"ledger: a Ledger is needed, not {ledger!r}; discreet.Ledger(url, create=False) opens one"
            )
        folder = None if checkpoint is None else Path(checkpoint)
        if folder is not None and self._not_resumable():
            raise DataError(f"checkpoint: {type(self).__name__} takes none: {self._not_resumable()}; leave it out")
        with self._readied(ratings, reading) as table:
            learned, statement = self._learn(table, ledger, folder) if folder else self._learn(table, ledger)
            self._set(learned, table.catalogue, statement)
        return self

    @contextmanager
    def _readied(self, ratings: Any, reading: dict[str, Any] | None = None) -> Iterator[Interactions]:
        """Check all parameters, then read the table if needed. A table read in Spark is released at the end."""
        self._check_parameters()
        with readied(ratings, reading or {}, self._in_spark, type(self).__name__) as table:
            if not table.n_items:
                raise DataError("ratings: the catalog has no items")
            yield table

    def _set(self, learned: dict[str, Any], catalogue: Catalogue, statement: Statement) -> None:
        """Set all learned attributes, and forget earlier ones."""
        for name in [name for name in vars(self) if name.endswith("_") or name in HERE]:
            delattr(self, name)
        for name, value in {"catalogue_": catalogue, **learned}.items():
            if isinstance(value, np.ndarray):  # the memory layout after loading, which decides the last bit of sums
                setattr(self, name, np.ascontiguousarray(value))
                getattr(self, name).flags.writeable = False
            else:
                setattr(self, name, value)
        self._certify(statement)

    def _certify(self, statement: Statement) -> None:
        """Set the statement, bound to this model and no other."""
        self._statement = statement.of_model(binding(self))
        self.guarantee_ = statement.guarantee

    def _require_certified(self, statement: Statement) -> None:
        """Raise unless the statement belongs to this model."""
        stated, found = statement.certificate["model"], binding(self)
        if stated is None:
            raise PrivacyError("its certificate names no model, so it could belong to any")
        others = [
            *(["class"] if stated["class"] != found["class"] else []),
            *(["parameters"] if canonical(stated["params"]) != canonical(found["params"]) else []),
            *(name for name in found["sha256"] if stated["sha256"].get(name) != found["sha256"][name]),
        ]
        if others or set(stated["sha256"]) != set(found["sha256"]):
            raise PrivacyError(
                f"its certificate belongs to another model, with other {', '.join(others) or 'parts'}; do not use it "
                "as the certified model"
            )

    def __getattr__(self, name: str) -> Any:
        if name in (*self._ARRAYS, *self._VALUES, "catalogue_", "guarantee_", "n_features_in_", "_statement"):
            raise NotFitted(f"{type(self).__name__} has not been fitted, so it has no {name}; call fit(ratings) first")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __getstate__(self) -> dict[str, Any]:
        """The state of a copy, perhaps in another process, which computes and checks derived attributes again."""
        return {name: value for name, value in vars(self).items() if name not in HERE}

    @property
    def items_(self) -> Ids:
        """The item ids, in their own type."""
        return self.catalogue_.ids

    @property
    def n_features_in_(self) -> int:
        """The number of items, which to scikit-learn are the columns of the table."""
        return len(self.catalogue_)

    @property
    def _base(self) -> Array:
        """The predicted value of each item without a history, if biases are relative to the mean rating."""
        return self.item_bias_ + np.float32(self.global_mean_)

    @cached_property
    def _fold_in(self) -> FoldIn:
        self._require_sound()
        return self._make_fold_in()

    @cached_property
    def _ranking(self) -> FoldIn:
        self._require_sound()
        return self._make_ranking()

    @property
    def _scorer(self) -> Scorer:
        """Computes scores for lists from a user's vector."""
        fold_in, variance = self._ranking, self._score_variance()
        caution = None if variance is None else variance[0]
        known: tuple[float | None, Scorer] | None = vars(self).get("_scorer_now")
        if known is None or known[0] != caution:
            scorer = Scorer.of(fold_in.columns, fold_in.base, self._cold()[0], variance)
            known = self._scorer_now = caution, scorer
        return known[1]

    @property
    def _predicts_ratings(self) -> bool:
        """Whether predictions are ratings, not scores."""
        return not self.implicit_

    def _require_sound(self) -> None:
        """Raise if on this machine one user's results would depend on other users, and the model promises otherwise."""

    # Serving

    def _reader(self, on_unknown: OnUnknown) -> Reader:
        return Reader(self.catalogue_, self.value_range_, self.implicit_, on_unknown)

    def _user_vectors(self, histories: Interactions, fold_in: FoldIn | None = None) -> tuple[Array, Array]:
        """Users' offsets and vectors, for the columns of `fold_in`, by default the one for predictions."""
        with single_threaded_blas():  # otherwise the last bits would depend on whether others are being served
            return (fold_in or self._fold_in).fold_in(histories, self.n_jobs)

    def _cold(self) -> tuple[Array, str]:
        """Scores for users without a history, and a note about them."""
        base = self._ranking.base
        if np.ptp(base) > 0 or not np.ptp(self.popularity_) > 0:
            ratings = self._ranking is self._fold_in and self._predicts_ratings
            return base, "no history: ranked by " + ("average rating" if ratings else "popularity")
        return self.popularity_.astype(base.dtype), "no history: ranked by popularity"

    def _score_variance(self) -> Variance:
        """Parameters of cautious ranking: a factor, and variances (items, 1 + rank) of base and columns; or None."""
        return None

    def recommend(
        self,
        history: Any,
        n: int = 10,
        *,
        exclude_seen: bool = True,
        allow: Any = None,
        deny: Any = None,
        on_unknown: OnUnknown = "raise",
    ) -> Any:
        """The n best items for one history, or for each of many.

        Args:
            history: One history: a mapping {item: rating}, a list of liked items, a data frame without users. Or
                many: Interactions, a data frame with users, a list of mappings.
            n: The number of items. If there are fewer candidates, the list is shorter.
            exclude_seen: Leave out the items of the history.
            allow: Recommend only these items.
            deny: Never recommend these items. Filters can be combined.
            on_unknown: For items that the model does not know: "raise" an error, "warn" and skip them, or "ignore".

        Returns:
            `Recommendations` for one history, `BatchRecommendations` for many.

        Raises:
            UnknownItem: An item is not in the model's catalog, and `on_unknown` is "raise".
            DataError: A rating is out of range, or this is not a history.
        """
        histories, single = self._reader(on_unknown).read(history)
        options = serving.Options(n, exclude_seen, allow, deny, on_unknown)
        batch = serving.recommend(self, histories, options, serving.library_of(history))
        return batch._at(0) if single else batch

    def recommend_blocks(
        self, history: Any, n: int = 10, *, on_unknown: OnUnknown = "raise", **filters: Any
    ) -> Iterator[BatchRecommendations]:
        """Like `recommend` for many, some thousand users at a time, if not all results fit in memory.

        The `filters` are `exclude_seen`, `allow` and `deny`, as for `recommend`.
        """
        histories, _ = self._reader(on_unknown).read(history)
        options = serving.Options(n, on_unknown=on_unknown, **filters)
        return serving.blocks(self, histories, options, serving.library_of(history))

    def recommend_to_parquet(self, path: str | PathLike[str], history: Any, n: int = 10, **options: Any) -> None:
        """Like `recommend` for many, with the same options, to a parquet file (user, item, score, rank, title)."""
        serving.to_file(path, self.recommend_blocks(history, n, **options))

    def predict(self, history: Any, targets: Any, *, on_unknown: OnUnknown = "raise") -> Array:
        """The predicted value of each target: a rating within the value range, or a score of a model for lists alone.

        Args:
            history: As for `recommend`.
            targets: For one history a list of items; for many, pairs (user, item): a list of tuples, a data frame
                with users and items, or Interactions.
            on_unknown: For unknown items and users: "raise"; or "warn", "ignore": an unknown item gets the user's own
                mean (0 for implicit feedback), an unknown user counts as a user without a history.

        Returns:
            An array aligned with the targets (for Interactions: with their `values`).
        """
        return serving.predict(self, history, targets, on_unknown)

    def embed(self, history: Any, *, on_unknown: OnUnknown = "raise") -> Array:
        """The user's vector, to multiply `item_factors_` with; for many users one row each. It is private to that user.

        Args:
            history: As for `recommend`.
            on_unknown: As for `recommend`.

        Returns:
            An array (rank,), or (users, rank) for many.
        """
        histories, single = self._reader(on_unknown).read(history)
        vectors = self._user_vectors(histories)[1]
        return vectors[0] if single else vectors

    def similar_items(self, item: Any, n: int = 10, *, metric: Literal["cosine", "dot"] = "cosine") -> Recommendations:
        """The items whose vectors are most similar to an item's vector.

        Args:
            item: The item's id.
            n: The number of items.
            metric: The "cosine" of vectors, or their inner product, "dot", which prefers popular items. Vectors of one
                number are always compared by the latter.
        """
        return serving.similar_items(self, item, n, metric)

    def explain(self, history: Any, item: Any, *, on_unknown: OnUnknown = "raise") -> Explanation:
        """Why an item gets its score: what each item of one history adds to it.

        Args:
            history: The history of one person, as for `recommend`.
            item: The id of the item to explain.
            on_unknown: As for `recommend`.

        Returns:
            An `Explanation`; its baseline and its contributions add up to the score.
        """
        return serving.explain(self, history, item, on_unknown)

    def export_vectors(self, format: str = "numpy", path: str | PathLike[str] | None = None) -> Any:
        """Item vectors for another search engine: inner products with `query_vector` give the order of scores.

        Args:
            format: "numpy" (ids, vectors), "arrow", or, written to `path`, "parquet" or "npz".
            path: Where to write.
        """
        return export_vectors(self.catalogue_, self._search_vectors(), format, path)

    def query_vector(self, history: Any, *, on_unknown: OnUnknown = "raise") -> Array:
        """The vector, or vectors, to search `export_vectors` with. It is private to that user."""
        histories, single = self._reader(on_unknown).read(history)
        found = self._user_vectors(histories, self._ranking)[1]
        vectors = found[0] if single else found
        return np.concatenate([vectors, np.ones_like(vectors, shape=(*vectors.shape[:-1], 1))], axis=-1)

    def ann_index(self, *, connectivity: int = 32, expansion: int = 128) -> AnnIndex:
        """An approximate index of the items (extra `ann`), to search with `query_vector`.

        Args:
            connectivity: Neighbors of each item in the index; more is slower and finds more.
            expansion: Candidates to examine; more is slower and finds more.
        """
        return AnnIndex.build(self.catalogue_, self._search_vectors(), connectivity, expansion)

    def _similar_columns(self) -> slice:
        """The columns of `_ranking` that `similar_items` compares."""
        return slice(0, self.item_factors_.shape[1])

    def _search_vectors(self) -> Array:
        return np.column_stack([self.item_factors_, self.item_bias_.astype(self.item_factors_.dtype)])

    # The guarantee, and saving

    def statement(self) -> Statement:
        """The privacy statement: print it, or take its `.json()` or `.html()`."""
        return self._statement

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the model to a folder: model.json, factors.safetensors, items.parquet. `discreet.load` reads it."""
        from discreet.models.storage import save

        save(self, folder)

    @classmethod
    def _restored(
        cls,
        params: dict[str, Any],
        arrays: dict[str, Array],
        values: dict[str, Any],
        catalogue: Catalogue,
        statement: Statement,
    ) -> Self:
        """A model from saved parts; raises if they do not fit together, or are not what was certified."""
        model = cls(**params)
        model._check_parameters()
        model._set({**arrays, **values}, catalogue, statement)
        model._check_learned()
        model._require_certified(statement)
        model._statement = statement  # with its signature
        return model

    def _check_learned(self) -> None:
        """Raise unless the learned attributes fit together."""
        m = len(self.catalogue_)
        factors, bias, popularity = self.item_factors_, self.item_bias_, self.popularity_
        if factors.ndim != 2 or len(factors) != m or bias.shape != (m,) or popularity.shape != (m,):
            raise DataError(f"arrays of shapes {factors.shape}, {bias.shape}, {popularity.shape} do not fit {m} items")
        low, high = self.value_range_
        if not (math.isfinite(low) and math.isfinite(high) and low <= high and math.isfinite(self.global_mean_)):
            raise DataError("value_range_, global_mean_: finite numbers are needed")


@contextmanager
def readied(ratings: Any, reading: dict[str, Any], in_spark: bool, name: str) -> Iterator[Interactions]:
    """A table to learn from, read if needed; it stays in Spark if the model can be fitted there.

    A table in Spark offers what such a model uses of `Interactions`: public metadata, and sums over users.
    """
    there = isinstance(ratings, SparkInteractions) or is_spark(ratings) or reading.get("engine") == "spark"
    if there and not in_spark:
        raise DataError(
            f"ratings: {name} is fitted in the memory of one machine, not in Spark (DPALS, DPALS.as_published, "
            "DPSVD and DPFrankWolfe are); collect the table first: discreet.read(dataframe, items=..., value_range=...)"
        )
    if isinstance(ratings, Interactions | SparkInteractions):
        if reading:
            raise DataError(f"{min(reading)}: the table has been read already; give this to discreet.read")
        yield ratings  # type: ignore[misc]
    elif there:
        table: Any = read(ratings, **{**reading, "engine": "spark"})
        try:
            yield table
        finally:
            table.unpersist()
    else:
        yield read(ratings, **reading)


class NotPrivateModel(Model):
    """A model without a privacy guarantee, and labeled so: a baseline for private models."""

    def _learn(self, ratings: Interactions, ledger: Ledger | None, checkpoint: Path | None = None) -> Learned:
        if ledger is not None:
            raise PrivacyError(f"ledger: {type(self).__name__} is not private and records nothing; leave it out")
        if not len(ratings):
            raise DataError("ratings: there are no interactions to learn from")
        low, high = ratings.value_range or (float(ratings.values.min()), float(ratings.values.max()))
        learned = {
            "value_range_": (low, high),
            "implicit_": ratings.implicit,
            "global_mean_": float(ratings.values.mean(dtype=np.float64)),
            "popularity_": np.bincount(ratings.indices, minlength=ratings.n_items).astype(np.float32),
            **self._learn_exactly(ratings),
        }
        return learned, no_guarantee(self, ratings)

    def _learn_exactly(self, ratings: Interactions) -> dict[str, Any]:
        """Factors, bias and the other learned attributes."""
        raise NotImplementedError

    def _require_certified(self, statement: Statement) -> None:
        if statement.guarantee.holds:  # a certificate can be valid and belong to another model
            raise PrivacyError(f"its certificate promises privacy, which a {type(self).__name__} never has")
        super()._require_certified(statement)


def no_guarantee(model: Model, ratings: Interactions) -> Statement:
    """The statement of a model that is not private."""
    guarantee = Guarantee(Cost(), 0.0, holds=False, why_not=NOT_PRIVATE)
    title = f"{type(model).__name__}: a recommender without a privacy guarantee"
    return Statement.of(title, guarantee, [], public_inputs=ratings.public_inputs)


def check_parameters(model: Any) -> None:
    """Raise unless parameters have their declared types (`validation.check_fields`)."""
    n_threads(getattr(model, "n_jobs", None))
    check_fields(model)


def require_ratings(name: str, ratings: Interactions) -> tuple[float, float]:
    """The range of the ratings; raises if there are none, or if the range is too narrow or too wide."""
    if ratings.implicit:
        raise DataError(f"ratings: {name} learns from ratings; for implicit feedback use discreet.DPSVD")
    low, high = ratings.value_range or (math.nan, math.nan)
    if not 1e-30 < high - low < 1e30:
        raise DataError(f"value_range: from {low:g} to {high:g} is too narrow or too wide to compute with; rescale")
    return low, high


# -- what binds a certificate to one model, before it is saved and after it is loaded


def binding(model: Model) -> dict[str, Any]:
    """The class, the parameters and the SHA-256 of each part of a fitted model, for its certificate."""
    cls = type(model)
    values = {name: _plain_or_type(name, getattr(model, name)) for name in cls._VALUES}
    arrays = {name: sha256_of(*_numbers(getattr(model, name))) for name in cls._ARRAYS}
    parts = {"values": sha256_of(canonical(values).encode()), "catalogue": catalogue_sha256(model.catalogue_)}
    return {"class": cls.__name__, "params": learned_by(model), "sha256": {**arrays, **parts}}


def learned_by(model: Model) -> dict[str, Any]:
    """The parameters for learning, in JSON form, without the ones for serving."""
    given = model.get_params(deep=False).items()
    return {name: _plain_or_type(name, value) for name, value in given if name not in type(model)._NOT_LEARNED}


def _plain_or_type(name: str, value: Any) -> Any:
    """A value in JSON form, or its type. A model with a value of another type can be fitted, but not saved."""
    try:
        return plain(name, value)
    except ModelError:
        return f"a {type(value).__name__}"


def plain(name: str, value: Any) -> Any:
    """A parameter or learned value in JSON form; `rich` is the inverse."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        raise ModelError(f"{name}: {value} cannot be saved; only finite numbers can")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        return {_TUPLE: [plain(name, part) for part in value]}
    if isinstance(value, list):
        return [plain(name, part) for part in value]
    if isinstance(value, dict) and all(type(key) is str and key != _TUPLE for key in value):
        return {key: plain(name, part) for key, part in value.items()}
    raise ModelError(f"{name}: a {type(value).__name__} cannot be saved; only numbers, text and lists of them can")


def rich(value: Any) -> Any:
    """The inverse of `plain`."""
    if isinstance(value, dict):
        parts = {key: rich(part) for key, part in value.items()}
        return tuple(parts[_TUPLE]) if list(parts) == [_TUPLE] and isinstance(parts[_TUPLE], list) else parts
    return [rich(part) for part in value] if isinstance(value, list) else value


def _numbers(array: Array) -> tuple[bytes, Any]:
    """The type and shape, as bytes, and the numbers."""
    return canonical([array.dtype.name, *array.shape]).encode(), little_endian(array).reshape(-1)


def little_endian(array: Array) -> Array:
    """A contiguous little-endian array."""
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
