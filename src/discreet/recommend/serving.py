"""What the models' serving methods do, once a history has been read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.data.columns import guess
from discreet.data.interactions import Interactions
from discreet.data.progress import Bar
from discreet.errors import DataError
from discreet.linalg.threads import single_threaded_blas
from discreet.linalg.topk import top_k
from discreet.numbers import whole
from discreet.recommend.histories import OnUnknown
from discreet.recommend.results import BatchRecommendations, Explanation, Recommendations, _titles
from discreet.recommend.topn import Scorer, best

if TYPE_CHECKING:
    from discreet.completion.base import Model

Array = NDArray[Any]

USERS = 1 << 14  # folded in at a time
PAIRS = 1 << 16  # predicted at a time


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
    """Which items pass `allow` and `deny`; None if all do."""
    if options.allow is None and options.deny is None:
        return None
    reader, m = model._reader(options.on_unknown), len(model.items_)
    allowed = np.full(m, options.allow is None)
    for items, name, value in ((options.allow, "allow", True), (options.deny, "deny", False)):
        if items is not None:
            numbers = reader.known(list(items) if isinstance(items, set | frozenset) else items, name)
            allowed[numbers[numbers >= 0]] = value
    return allowed


def blocks(
    model: Model, histories: Interactions, options: Options, library: str | None
) -> Iterator[BatchRecommendations]:
    """Recommendations for some thousand users at a time."""
    n = whole("n", options.n, 1)
    cold, note = model._cold()
    folding = model._folding
    scorer = Scorer.of(folding.columns, folding.base, cold, _allowed(model, options))
    for start in range(0, max(histories.n_users, 1), USERS):
        part = _slice(histories, start, min(start + USERS, histories.n_users))
        offsets, vectors = model._fold_in(part)
        parts = list(best(scorer, vectors, part, n=n, exclude_seen=options.exclude_seen, n_jobs=model.n_jobs))
        numbers, scores = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        scores = scores + offsets[:, None]  # which do not change the order
        kept = numbers >= 0
        indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))]).astype(np.int64)
        yield BatchRecommendations(
            part.users, model.catalogue_, indptr, numbers[kept], scores[kept], np.diff(part.indptr) == 0, note, library
        )


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
    """Recommendations for all, in memory."""
    with Bar("recommending", histories.n_users, "users") as bar:
        parts = []
        for part in blocks(model, histories, options, library):
            parts.append(part)
            bar.advance(len(part))
    if len(parts) == 1:
        return parts[0]
    ends = np.cumsum([0, *(int(part.indptr[-1]) for part in parts)])
    indptr = [part.indptr[:-1] + end for part, end in zip(parts, ends, strict=False)]
    return BatchRecommendations(
        histories.users,
        model.catalogue_,
        np.concatenate([*indptr, ends[-1:]]).astype(np.int64),
        np.concatenate([part.numbers for part in parts] or [np.zeros(0, np.int64)]),
        np.concatenate([part.scores for part in parts] or [np.zeros(0, np.float32)]),
        np.concatenate([part.cold for part in parts] or [np.zeros(0, bool)]),
        parts[0].note if parts else "",
        library,
    )


def to_parquet(path: str | PathLike[str], parts: Iterator[BatchRecommendations]) -> None:
    """Write parts to one file, which appears when it is whole."""
    from pyarrow import parquet

    target = Path(path)
    if target.is_dir() or not target.parent.is_dir():
        raise DataError(f"path: {str(target)!r} is not a file that can be written")
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
    os.close(handle)
    writer = None
    try:
        with Bar("recommending", None, "users") as bar:
            for part in parts:
                table = part.to_arrow()
                writer = writer or parquet.ParquetWriter(temporary, table.schema)
                writer.write_table(table)
                bar.advance(len(part))
        assert writer is not None  # there is at least one part, perhaps of no users
        writer.close()
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # a temporary file is its owner's alone
        os.replace(temporary, target)
    except BaseException:
        if writer is not None:
            writer.close()
        Path(temporary).unlink(missing_ok=True)
        raise


def predict(model: Model, history: Any, targets: Any, on_unknown: OnUnknown) -> Array:
    """Predictions aligned with the targets."""
    reader = model._reader(on_unknown)
    histories, single = reader.read(history)
    if single:
        if isinstance(targets, str | bytes | Mapping | Interactions):
            raise DataError("targets: with one history, give a list of items")
        items = reader.known(targets if hasattr(targets, "__getitem__") else list(targets), "targets")
        users = np.zeros(len(items), np.int64)
    else:
        users, items = _pairs(model, histories, targets, on_unknown)
    return _predictions(model, histories, users, items)


def _pairs(model: Model, histories: Interactions, targets: Any, on_unknown: OnUnknown) -> tuple[Array, Array]:
    """User and item numbers of targets, -1 where unknown."""
    reader = model._reader(on_unknown)
    if isinstance(targets, Interactions):
        user_ids, item_ids = targets.users.to_arrow(), targets.items.to_arrow()
        used = np.unique(targets.indices)
        items = np.full(targets.n_items, -1, np.int64)
        items[used] = reader.known(item_ids.take(used), "targets")
        users = histories.users.numbers(user_ids, "targets")
        users, items = users[targets.user_numbers()], items[targets.indices]
    else:
        user_ids, item_ids = _columns(targets)
        users, items = histories.users.numbers(user_ids, "targets"), reader.known(item_ids, "targets")
    if (users < 0).any() and on_unknown == "raise":
        raise DataError(
            "targets: some of their users have no history; give one for each (it may be empty), or pass "
            "on_unknown='ignore' to treat them as users without a history"
        )
    return users, items


def _columns(targets: Any) -> tuple[Any, Any]:
    """Users and items of a data frame or of a list of pairs."""
    if hasattr(targets, "columns") or hasattr(targets, "column_names"):
        import narwhals as nw

        frame = nw.from_native(targets, eager_only=True)
        user, item = guess("user", frame.columns), guess("item", frame.columns)
        if user is None or item is None:
            raise DataError(f"targets: columns of users and items are needed, not {frame.columns}")
        return frame[user].to_arrow(), frame[item].to_arrow()
    try:
        pairs = [(user, item) for user, item in targets]
    except (TypeError, ValueError):
        raise DataError("targets: with many histories, give pairs (user, item), a data frame or Interactions") from None
    return [user for user, _ in pairs], [item for _, item in pairs]


def _predictions(model: Model, histories: Interactions, users: Array, items: Array) -> Array:
    folding = model._folding
    asked = np.unique(users[users >= 0])
    needed = histories if len(asked) > histories.n_users // 2 else histories.of_users(asked)
    place = np.full(histories.n_users + 1, -1)
    place[asked] = asked if needed is histories else np.arange(len(asked))
    offsets, vectors = (
        np.concatenate([known, np.zeros_like(known, shape=(1, *known.shape[1:]))]) for known in model._fold_in(needed)
    )
    row = place[users]  # -1: the last row, that of nobody
    out = np.empty(len(users), folding.columns.dtype)
    for start in range(0, len(users), PAIRS):
        part = slice(start, start + PAIRS)
        out[part] = np.einsum("ik,ik->i", vectors[row[part]], folding.columns[items[part]])
        out[part] += folding.base[items[part]] + offsets[row[part]]
    unknown = items < 0
    if unknown.any():
        out[unknown] = _means(model, histories)[users[unknown]]
    if not model.implicit_:
        np.clip(out, *model.value_range_, out=out)
    return out


def _means(model: Model, histories: Interactions) -> Array:
    """Each user's own mean rating, and that of nobody behind them: the prediction for an item nothing is known of."""
    if model.implicit_:
        return np.zeros(histories.n_users + 1)
    counts = np.diff(histories.indptr)
    sums = np.bincount(histories.user_numbers(), histories.values, minlength=histories.n_users)
    means = np.where(counts > 0, sums / np.maximum(counts, 1), model.global_mean_)
    return np.append(means, model.global_mean_)


def similar_items(model: Model, item: Any, n: int, metric: str) -> Recommendations:
    """Items by the likeness of their vectors; of a model without vectors, by popularity, which the note says."""
    if metric not in ("cosine", "dot"):
        raise DataError(f"metric: 'cosine' or 'dot' is needed, not {metric!r}")
    n = whole("n", n, 1)
    at = int(model._reader("raise").known([item], "item")[0])
    note, factors = "", model.item_factors_
    if factors.shape[1] == 0 or not factors[at].any():
        scores = model.popularity_.astype(np.float32)
        why = "this item was" if factors.shape[1] else "items are"
        note = f"{why} given no vector by the model: ranked by popularity"
    else:
        with single_threaded_blas():
            scores = factors @ factors[at]
        if metric == "cosine":
            lengths = np.linalg.norm(factors, axis=1)
            scores = np.divide(scores, lengths * lengths[at], out=np.zeros_like(scores), where=lengths > 0)
    scores = np.array(scores, np.float32)
    scores[at] = -np.inf
    numbers, values = (array[0] for array in top_k(scores[None], n))
    numbers, values = numbers[numbers >= 0], values[numbers >= 0]
    items = model.items_.take(numbers).to_pylist()
    return Recommendations(items, values, _titles(model.catalogue_, numbers), note)


def explain(model: Model, history: Any, item: Any, on_unknown: OnUnknown) -> Explanation:
    """Contributions of one history's items to the score of an item."""
    histories, single = model._reader(on_unknown).read(history)
    if not single:
        raise DataError("history: explain takes the history of one user")
    at = int(model._reader("raise").known([item], "item")[0])
    baseline = float(model._cold()[0][at] if not len(histories) else model._folding.base[at])
    added = model._folding.contributions(histories.indices, histories.values, at)
    order = np.argsort(-np.abs(added), kind="stable")
    numbers = histories.indices[order]
    return Explanation(
        item=item,
        score=baseline + float(added.sum()),
        baseline=baseline,
        items=model.items_.take(numbers).to_pylist(),
        ratings=histories.values[order],
        contributions=added[order],
        titles=_titles(model.catalogue_, numbers),
    )
