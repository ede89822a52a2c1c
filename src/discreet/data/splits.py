"""Training, validation and test parts of a table. No interaction is ever in two parts.

All parts are over the same catalog. Where interactions are divided, all parts have the same users in the same order, so
that row u of one part and row u of another are the same person. Where users are divided, each part has its own users.
"""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from discreet.data.interactions import Interactions
from discreet.errors import DataError
from discreet.typing import Array
from discreet.validation import whole

__all__ = ["HeldOutUsers", "Parts", "QueryTarget", "by_time", "held_out_users", "holdout", "kfold", "leave_k_out"]

TRAIN, VALID, TEST = 0, 1, 2


class Parts(NamedTuple):
    """Interactions divided in three; a part that was not asked for is empty."""

    train: Interactions
    valid: Interactions
    test: Interactions


class QueryTarget(NamedTuple):
    """What a model sees of held-out users, and what it has to predict; the same users in the same order."""

    query: Interactions
    target: Interactions


class HeldOutUsers(NamedTuple):
    """Users divided in three: those learned from, and two groups of held-out ones."""

    train: Interactions
    valid: QueryTarget
    test: QueryTarget


def holdout(
    ratings: Interactions,
    *,
    by: Literal["random", "time"] = "random",
    valid: float = 0.0,
    test: float = 0.1,
    random_state: int | None = 0,
) -> Parts:
    """Divide the interactions: a fraction `valid`, a fraction `test`, and the rest to train on.

    At random, every division into parts of these sizes is equally likely; a model then learns from a user's future, and
    from what others did later. By time, one moment divides everyone's interactions, as for a model that is used after
    it was trained (`by_time`).

    Example:
        >>> import discreet
        >>> ratings = discreet.datasets.movielens_like(300, 50, 6_000, random_state=0)
        >>> train, valid, test = discreet.splits.holdout(ratings, valid=0.1, test=0.1, random_state=1234)
        >>> len(train), len(valid), len(test)
        (4800, 600, 600)

    Args:
        ratings: The table.
        by: "random", or "time" to test on the latest interactions, and validate on those before.
        valid: The fraction of interactions for validation.
        test: The fraction of interactions for the test.
        random_state: Seed of by="random"; None for a different division each time.

    Returns:
        `(train, valid, test)`; `valid` is empty unless asked for.
    """
    _require_table(ratings)
    if by == "time":
        return by_time(ratings, valid=valid, test=test)
    if by != "random":
        raise DataError(f"by: 'random' or 'time' is needed, not {by!r}")
    n_valid, n_test = _sizes(len(ratings), valid, test)
    labels = np.zeros(len(ratings), dtype=np.uint8)
    labels[:n_valid], labels[n_valid : n_valid + n_test] = VALID, TEST
    np.random.default_rng(random_state).shuffle(labels)
    return _parts(ratings, labels)


def kfold(ratings: Interactions, k: int = 5, *, random_state: int | None = 0) -> Iterator[Parts]:
    """Divide the interactions at random into `k` folds, each of which is the test of one division.

    Args:
        ratings: The table.
        k: How many folds, at least 2.
        random_state: Seed; None for a different division each time.

    Returns:
        `(train, valid, test)`, k times; `valid` is empty. Over all of them, each interaction is in one test.
    """
    _require_table(ratings)
    whole("k", k, 2, max(len(ratings), 2), error=DataError)
    fold = np.arange(len(ratings)) % k
    np.random.default_rng(random_state).shuffle(fold)
    return (_parts(ratings, np.where(fold == one, TEST, TRAIN).astype(np.uint8)) for one in range(k))


def leave_k_out(
    ratings: Interactions, k: int = 1, *, by: str = "time", valid: int = 0, random_state: int | None = 0
) -> Parts:
    """Keep the last `k` interactions of every user for the test (and the `valid` before these to validate).

    A user with too few interactions to keep at least one for training gives all of them to training.

    Args:
        ratings: The table.
        k: How many interactions of each user to test on.
        by: "time" for each user's last ones (among equal times, those with the highest item numbers), or
            "random".
        valid: How many more to validate on.
        random_state: Seed of by="random"; None for a different division each time.

    Returns:
        `(train, valid, test)`.
    """
    _require_table(ratings)
    if whole("k", k, 0, error=DataError) + whole("valid", valid, 0, error=DataError) < 1:
        raise DataError(f"k: at least one interaction must be left out, not k={k} and valid={valid}")
    if by == "time":
        key: Array = _times(ratings)
    elif by == "random":
        key = np.random.default_rng(random_state).random(len(ratings))
    else:
        raise DataError(f"by: 'time' or 'random' is needed, not {by!r}")
    counts = np.diff(ratings.indptr)
    from_end = np.repeat(counts, counts) - 1 - ratings.ranks(key)  # 0: the user's last
    enough = np.repeat(counts > k + valid, counts)
    labels = np.where(from_end < k, TEST, np.where(from_end < k + valid, VALID, TRAIN)) * enough
    return _parts(ratings, labels.astype(np.uint8))


def by_time(ratings: Interactions, *, valid: float = 0.0, test: float = 0.1, at: Any = None) -> Parts:
    """Divide by time: train on the past, test on the future. One moment divides the interactions of all users.

    So nothing that happened after that moment is learned from. A user whose first interaction is later has an empty
    history, and the model knows nothing about an item that is first chosen later, as it would be in use.

    Args:
        ratings: The table, with times.
        valid: The fraction of interactions, before the test, for validation.
        test: The fraction of interactions, the latest, for the test. Equal times are never divided: the
            fractions are met as nearly as possible without testing on more.
        at: Instead of fractions: the time at which the test begins, or a pair (validation begins, test
            begins), in the unit of the table or as date, datetime or ISO text where the table has these.

    Returns:
        `(train, valid, test)`.
    """
    _require_table(ratings)
    times = _times(ratings)
    if at is not None:
        begins = [_moment(ratings, moment) for moment in (at if isinstance(at, tuple | list) else (at, at))]
        if len(begins) != 2 or not begins[0] <= begins[1]:
            raise DataError(f"at: a time, or (validation begins, test begins) in this order is needed, not {at!r}")
    else:
        n_valid, n_test = _sizes(len(ratings), valid, test)
        ordered = np.sort(times)
        begins = [_after(ordered, len(ordered) - n_valid - n_test), _after(ordered, len(ordered) - n_test)]
        if not n_valid:
            begins[0] = begins[1]
    labels = (times >= begins[0]).astype(np.uint8) + (times >= begins[1]).astype(np.uint8)
    return _parts(ratings, labels)


def held_out_users(
    ratings: Interactions,
    *,
    valid: int,
    test: int,
    target: float = 0.2,
    min_interactions: int = 5,
    train_items_only: bool = True,
    random_state: int | None = 0,
) -> HeldOutUsers:
    """Hold out whole users, and divide their interactions into a query and a target (Liang et al. 2018).

    Users with fewer than `min_interactions` are left out. Of the others, `valid` and `test` users are drawn.
    Of each of these, a fraction `target` of the items, rounded down, is the target and the rest the query.

    Args:
        ratings: The table.
        valid: How many users to hold out for validation.
        test: How many users to hold out for the test.
        target: The fraction of a held-out user's items to be predicted.
        min_interactions: The fewest interactions a user must have.
        train_items_only: Leave out held-out users' interactions with items that no training user has, as
            the protocol does. Target and query then shrink, and may become empty.
        random_state: Seed; None for a different division each time.

    Returns:
        `(train, (valid query, valid target), (test query, test target))`.
    """
    _require_table(ratings)
    for name, number in (("valid", valid), ("test", test), ("min_interactions", min_interactions)):
        whole(name, number, 0, error=DataError)
    if not (isinstance(target, Real) and 0 < target < 1):
        raise DataError(f"target: a fraction between 0 and 1 is needed, not {target!r}")
    eligible = np.flatnonzero(np.diff(ratings.indptr) >= max(min_interactions, 1))
    if valid + test >= len(eligible):
        raise DataError(
            f"valid={valid} and test={test} users cannot be held out: only {len(eligible)} users have at least "
            f"{min_interactions} interactions, and some must be left to train on"
        )
    rng = np.random.default_rng(random_state)
    shuffled = rng.permutation(eligible)
    train = ratings.of_users(shuffled[valid + test :])
    seen = np.bincount(train.indices, minlength=ratings.n_items) > 0

    def divided(numbers: Array) -> QueryTarget:
        part = ratings.of_users(numbers)
        if train_items_only:
            part = part.where(seen[part.indices])
        counts = np.diff(part.indptr)
        wanted = part.ranks(rng.random(len(part))) < np.repeat(np.floor(counts * target + 1e-9), counts)
        return QueryTarget(part.where(~wanted), part.where(wanted))

    return HeldOutUsers(train, divided(shuffled[:valid]), divided(shuffled[valid : valid + test]))


def _require_table(ratings: Any) -> None:
    if not isinstance(ratings, Interactions):
        raise DataError(f"ratings: Interactions were expected, not {type(ratings).__name__}; see discreet.read")


def _sizes(n: int, valid: float, test: float) -> tuple[int, int]:
    numbers = isinstance(valid, Real) and isinstance(test, Real)
    if not (numbers and 0 <= valid < 1 and 0 <= test < 1 and 0 < valid + test < 1):
        raise DataError(
            f"valid={valid!r} and test={test!r}: shares are needed, at least 0 and not both 0, that add up to "
            "less than 1"
        )
    n_valid = round(n * valid)
    return n_valid, round(n * (valid + test)) - n_valid


def _parts(ratings: Interactions, labels: NDArray[np.uint8]) -> Parts:
    return Parts(*(ratings.where(labels == label) for label in (TRAIN, VALID, TEST)))


def _times(ratings: Interactions) -> Array:
    if ratings.times is None:
        raise DataError(
            "ratings: the table has no times; name their column (time=) when it is read, or divide it at random"
        )
    return ratings.times


def _after(ordered: Array, position: int) -> Any:
    """The earliest time after which at most the interactions from `position` on lie."""
    if 0 < position < len(ordered) and ordered[position - 1] == ordered[position]:
        position = int(np.searchsorted(ordered, ordered[position], side="right"))
    return ordered[position] if position < len(ordered) else np.inf


def _moment(ratings: Interactions, moment: Any) -> Any:
    """A time given by the caller, in the table's own unit."""
    kind = ratings.time_type
    if isinstance(moment, Real):
        return moment
    if kind is None or not pa.types.is_temporal(kind):
        raise DataError(
            f"at: the times of this table are numbers, so {moment!r} cannot be compared. Give a number; if they are "
            "seconds since 1970, datetime(1998, 1, 1, tzinfo=timezone.utc).timestamp()"
        )
    try:
        scalar = pa.array(np.array([moment]))[0] if isinstance(moment, np.datetime64) else pa.scalar(moment)
        return scalar.cast(kind).value
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise DataError(f"at: {moment!r} is not a time of this table's kind, {kind}: {error}") from None
