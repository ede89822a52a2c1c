"""The models' serving methods: fold in histories, score all items, and keep the best that filters allow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet import kernels
from discreet.data.interactions import Interactions
from discreet.data.sources import guess
from discreet.errors import DataError
from discreet.kernels import Panels
from discreet.parallel import Bar, single_threaded_blas
from discreet.recommend.histories import OnUnknown, Reader, is_frame
from discreet.recommend.results import BatchRecommendations, Explanation, Recommendations, titles, whole_file
from discreet.typing import Array
from discreet.validation import whole

if TYPE_CHECKING:
    from discreet.models.base import Model


Variance: TypeAlias = tuple[float, Array] | None  # c, and the variances (items, 1 + k) of base and columns

USERS = 1 << 14  # users folded in at a time
PAIRS = 1 << 12  # pairs predicted at a time, so that vectors and columns stay in the cache


@dataclass(frozen=True)
class Scorer:
    """Scores of users for all items: users' vectors times columns, plus a base.

    A user's list is a function of that user's vector and history alone, to the last bit (`kernels.top_n`).
    """

    panels: Panels  # the columns, as the kernel takes them
    base: Array  # scores without a history; minus infinity for items that may not be recommended
    cold: Array  # scores for a user without a history
    variance: Variance = None  # c and the variances of base and columns: c standard deviations are subtracted

    @classmethod
    def of(cls, columns: Array, base: Array, cold: Array, variance: Variance = None) -> Scorer:
        """A scorer for all items."""
        return cls(Panels.of(columns), base, cold, variance)

    def among(self, allowed: NDArray[np.bool_] | None) -> Scorer:
        """A scorer for the items where `allowed` is true; None means all."""
        if allowed is None:
            return self
        base, cold = (np.where(allowed, scores, -np.inf) for scores in (self.base, self.cold))
        return replace(self, base=base, cold=cold)

    def best(
        self, vectors: Array, histories: Interactions, *, n: int, exclude_seen: bool, n_jobs: int | None
    ) -> tuple[Array, Array]:
        """Item numbers and scores (users, n); number -1 where a list is shorter."""
        panels, variance = self.panels, None
        if self.variance is not None:
            caution, known = self.variance[0], np.maximum(self.variance[1], 0).astype(panels.packed.dtype)
            variance = caution, panels.widened(known[:, 0], 0.0), Panels.of(known[:, 1:])
        seen = histories.indices
        if not kernels.rising(seen, histories.indptr, histories.n_items):  # Interactions made by hand
            seen = seen[np.lexsort((seen, histories.user_numbers()))]
        return kernels.top_n(
            panels,
            panels.widened(self.base),
            vectors,
            n,
            has_history=np.diff(histories.indptr) > 0,
            cold=panels.widened(self.cold),
            seen=(histories.indptr, seen) if exclude_seen else None,
            variance=variance,
            n_jobs=n_jobs,
        )


def deviations(vectors: Array, variances: Array) -> Array:
    """Standard deviations (users, items) of base + vector . column, given the variances of base and columns."""
    found: Array = (variances[:, 0] + vectors**2 @ variances[:, 1:].T) ** 0.5
    return found


@dataclass(frozen=True)
class Options:
    """How many to recommend, and which filters."""

    n: int
    exclude_seen: bool = True
    allow: Any = None
    deny: Any = None
    on_unknown: OnUnknown = "raise"


def library_of(history: Any) -> str | None:
    """The data frame library that a history came from."""
    if isinstance(history, Interactions):
        return history.report.library
    name = type(history).__module__.split(".")[0]
    return name if name in ("pandas", "polars", "pyarrow") else None


def _allowed(model: Model, options: Options) -> NDArray[np.bool_] | None:
    """Which items pass `allow` and `deny`; None if there are no filters."""
    if options.allow is None and options.deny is None:
        return None
    reader, m = model._reader(options.on_unknown), len(model.items_)
    allowed = np.full(m, options.allow is None)
    for items, name, value in ((options.allow, "allow", True), (options.deny, "deny", False)):
        if items is not None:
            numbers = reader.known(items, name)
            allowed[numbers[numbers >= 0]] = value
    return allowed


def blocks(
    model: Model, histories: Interactions, options: Options, library: str | None
) -> Iterator[BatchRecommendations]:
    """Recommendations for some thousand users at a time. Checks the arguments right away."""
    n = whole("n", options.n, 1, error=DataError)
    scorer, note = model._scorer.among(_allowed(model, options)), model._cold()[1]

    def block(start: int) -> BatchRecommendations:
        part = _slice(histories, start, min(start + USERS, histories.n_users))
        offsets, vectors = model._user_vectors(part, model._ranking)
        numbers, scores = scorer.best(vectors, part, n=n, exclude_seen=options.exclude_seen, n_jobs=model.n_jobs)
        scores += offsets[:, None]  # this does not change the order
        kept = numbers >= 0
        indptr = np.concatenate([[0], np.cumsum(np.count_nonzero(kept, axis=1))])
        empty = np.diff(part.indptr) == 0
        return BatchRecommendations(
            part.users, model.catalogue_, indptr, numbers[kept], scores[kept], empty, note, library
        )

    return map(block, range(0, max(histories.n_users, 1), USERS))


def _slice(histories: Interactions, start: int, stop: int) -> Interactions:
    if start == 0 and stop == histories.n_users:
        return histories
    first, last = int(histories.indptr[start]), int(histories.indptr[stop])
    return replace(
        histories,
        users=histories.users[start:stop],
        indptr=histories.indptr[start : stop + 1] - first,
        indices=histories.indices[first:last],
        values=histories.values[first:last],
        times=None,
    )


def recommend(
    model: Model, histories: Interactions, options: Options, library: str | None = None
) -> BatchRecommendations:
    """Recommendations for all users, in memory."""
    with Bar("recommending", histories.n_users, "users") as bar:
        parts = []
        for part in blocks(model, histories, options, library):
            parts.append(part)
            bar.advance(len(part))
    if len(parts) == 1:
        return parts[0]
    lengths = np.concatenate([np.diff(part.indptr) for part in parts])
    numbers, scores, cold = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("numbers", "scores", "cold")
    )
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    return replace(parts[0], users=histories.users, indptr=indptr, numbers=numbers, scores=scores, cold=cold)


def to_file(path: str | PathLike[str], parts: Iterator[BatchRecommendations], *, csv: bool = False) -> None:
    """Write parts to one file, Parquet or CSV, which appears when it is complete."""
    from pyarrow.csv import CSVWriter
    from pyarrow.parquet import ParquetWriter

    with whole_file(path) as temporary, Bar("recommending", None, "users") as bar:
        first = next(parts)  # there is always one, perhaps without users
        with (CSVWriter if csv else ParquetWriter)(temporary, first.to_arrow().schema) as writer:
            for part in chain([first], parts):
                writer.write_table(part.to_arrow())
                bar.advance(len(part))


def predict(model: Model, history: Any, targets: Any, on_unknown: OnUnknown, *, clip: bool = True) -> Array:
    """Predictions aligned with the targets; with `clip`, ratings are clipped to their range."""
    reader = model._reader(on_unknown)
    histories, single = reader.read(history)
    if single:
        listed = _columns(targets, "item")[0] if is_frame(targets) else targets
        if isinstance(listed, str | bytes | Mapping | Interactions) or not isinstance(listed, Iterable):
            raise DataError(f"targets: with one history, give a list of items, not {type(targets).__name__}")
        items = reader.known(listed, "targets")
        return predictions(model, histories, np.zeros(len(items), np.int64), items, clip)
    users, items = _pairs(reader, histories, targets)
    if (users < 0).any():
        if on_unknown == "raise":
            raise DataError(
                "targets: some of their users have no history; give one for each (it may be empty), or pass "
                "on_unknown='ignore' to treat them as users without a history"
            )
        reader.warn("targets: some of their users have no history, and are treated as users with an empty one")
    return predictions(model, histories, users, items, clip)


def _pairs(reader: Reader, histories: Interactions, targets: Any) -> tuple[Array, Array]:
    """User and item numbers of targets, -1 where unknown."""
    if isinstance(targets, Interactions):
        used = np.unique(targets.indices)
        items = np.full(targets.n_items, -1, np.int64)
        items[used] = reader.known(targets.items.take(used), "targets")
        users = histories.users.numbers(targets.users.to_arrow(), "targets")
        return users[targets.user_numbers()], items[targets.indices]
    if is_frame(targets):
        user_ids, item_ids = _columns(targets, "user", "item")
    else:
        pairs = list(targets) if isinstance(targets, Iterable) else [targets]
        if not all(isinstance(pair, tuple | list | np.ndarray) and len(pair) == 2 for pair in pairs):
            raise DataError("targets: with many histories, give pairs (user, item), a data frame or Interactions")
        user_ids, item_ids = [user for user, _ in pairs], [item for _, item in pairs]
    return histories.users.numbers(user_ids, "targets"), reader.known(item_ids, "targets")


def _columns(targets: Any, *roles: str) -> list[Any]:
    """The columns of a data frame for some roles."""
    import narwhals as nw

    frame = nw.from_native(targets)
    table = frame.collect("pyarrow") if isinstance(frame, nw.LazyFrame) else frame
    names = [name for role in roles if (name := guess(role, table.columns)) is not None]
    if len(names) != len(roles):
        raise DataError(f"targets: columns named {' and '.join(roles)} are needed; there are {table.columns}")
    return [table[name].to_arrow() for name in names]


def predictions(model: Model, histories: Interactions, users: Array, items: Array, clip: bool = True) -> Array:
    """Predictions for pairs of a user and an item, by their numbers, -1 where unknown."""
    fold_in = model._fold_in
    asked = np.unique(users[users >= 0])
    needed = histories if len(asked) > histories.n_users // 2 else histories.of_users(asked)
    place = np.full(histories.n_users + 1, -1)
    place[asked] = asked if needed is histories else np.arange(len(asked))
    found = model._user_vectors(needed)
    offsets, vectors = (np.concatenate([own, np.zeros_like(own, shape=(1, *own.shape[1:]))]) for own in found)
    row = place[users]  # -1 selects the last row, for users without a history
    out = np.empty(len(users), fold_in.columns.dtype)
    for start in range(0, len(users), PAIRS):
        part = slice(start, start + PAIRS)
        terms = vectors[row[part]]
        terms *= fold_in.columns[items[part]]
        own = fold_in.base[items[part]] + offsets[row[part]]
        for column in terms.T:  # one by one, since the order of additions along rows may depend on their number
            own += column
        out[part] = own
    unknown = items < 0
    if unknown.any():
        out[unknown] = _means(model, histories)[users[unknown]]
    if clip and model._predicts_ratings:
        np.clip(out, *model.value_range_, out=out)
    return out


def _means(model: Model, histories: Interactions) -> Array:
    """The predictions for unknown items: each user's own mean rating; last, the one for users without a history."""
    if not model._predicts_ratings:
        return np.zeros(histories.n_users + 1)
    counts = np.diff(histories.indptr)
    sums = np.bincount(histories.user_numbers(), histories.values, minlength=histories.n_users)
    means = np.where(counts > 0, sums / np.maximum(counts, 1), model.global_mean_)
    return np.append(means, model.global_mean_)


def _number(model: Model, item: Any) -> int:
    return int(model._reader("raise").known([item], "item")[0])


def similar_items(model: Model, item: Any, n: int, metric: str) -> Recommendations:
    """Items by the similarity of their vectors; without vectors, by popularity, as the note says."""
    if metric not in ("cosine", "dot"):
        raise DataError(f"metric: 'cosine' or 'dot' is needed, not {metric!r}")
    n = whole("n", n, 1, error=DataError)
    at = _number(model, item)
    note, factors = "", model._ranking.columns[:, model._similar_columns()]
    if factors.shape[1] == 0 or not factors[at].any():
        scores = model.popularity_
        note = f"the model has no {'vector for this item' if factors.shape[1] else 'vectors'}: ranked by popularity"
    else:
        with single_threaded_blas():
            scores = factors @ factors[at]
        if factors.shape[1] == 1:  # all cosines are 1 or -1
            note = "the model knows one direction of taste: ranked by the inner product"
        elif metric == "cosine":
            lengths = np.linalg.norm(factors, axis=1)
            scores = np.divide(scores, lengths * lengths[at], out=np.zeros_like(scores), where=lengths > 0)
    scores = np.array(scores)
    scores[at] = -np.inf
    numbers = np.argsort(-scores, kind="stable")[: min(n, len(scores) - 1)]
    return Recommendations.of(model.catalogue_, numbers, scores[numbers], note)


def explain(model: Model, history: Any, item: Any, on_unknown: OnUnknown) -> Explanation:
    """The contributions of a history's items to the score of an item."""
    histories, single = model._reader(on_unknown).read(history)
    if not single:
        raise DataError("history: explain takes the history of one user")
    at = _number(model, item)
    ranking = model._ranking
    baseline = float(model._cold()[0][at] if not len(histories) else ranking.base[at])
    with single_threaded_blas():  # otherwise the last bits would depend on whether others are being served
        if (variance := model._score_variance()) is not None:
            baseline -= variance[0] * float(
                deviations(model._user_vectors(histories, ranking)[1], variance[1][[at]])[0, 0]
            )
        added = ranking.contributions(histories.indices, histories.values, at)
    order = np.argsort(-np.abs(added), kind="stable")
    numbers = histories.indices[order]
    items = model.items_.take(numbers)
    return Explanation(
        item=item,
        score=baseline + float(added.sum()),
        baseline=baseline,
        items=items.to_pylist(),
        ratings=histories.values[order],
        contributions=added[order],
        titles=titles(model.catalogue_, numbers),
        library=library_of(history),
        kind=items.type,
    )
