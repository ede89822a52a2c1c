"""A model that answers with scores it was given, and tables to evaluate it on."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import discreet
from discreet import Interactions
from discreet.data.catalogue import Ids


@dataclass
class Lists:
    users: Ids
    indptr: NDArray[np.int64]
    numbers: NDArray[np.int64]
    scores: NDArray[np.float64]


@dataclass
class Scorer:
    """A fixed score for every (user, item): `scores[user id][item number]`."""

    scores: dict[Any, NDArray[np.float64]]
    items_: Ids
    guarantee_: Any = None
    asked: list[int] = field(default_factory=list)

    def predict(self, history: Interactions, targets: Interactions, *, on_unknown: str = "raise") -> Any:
        assert on_unknown == "ignore"
        assert set(targets.users) <= set(history.users)
        number = self.items_.numbers(targets.items.to_arrow())[targets.indices]
        answers = np.empty(len(targets))
        for at, (user, item) in enumerate(zip(targets.user_numbers(), number, strict=True)):
            name = targets.users[int(user)]
            mean = np.mean(list(history.history(name).values()) or [0.0])
            answers[at] = self.scores[name][item] if item >= 0 else mean
        return answers

    def recommend(
        self, history: Interactions, n: int = 10, *, exclude_seen: bool = True, on_unknown: str = "raise"
    ) -> Lists:
        assert on_unknown == "ignore"
        self.asked.append(history.n_users)
        number = self.items_.numbers(history.items.to_arrow())
        lists, scores = [], []
        for at, name in enumerate(history.users):
            score = self.scores[name].astype(float).copy()
            seen = number[history.indices[history.indptr[at] : history.indptr[at + 1]]]
            order = np.argsort(-score, kind="stable")
            if exclude_seen:
                order = order[~np.isin(order, seen)]
            lists.append(order[:n])
            scores.append(score[order[:n]])
        indptr = np.concatenate([[0], np.cumsum([len(part) for part in lists])]).astype(np.int64)
        joined = np.concatenate(lists) if lists else np.zeros(0, np.int64)
        return Lists(history.users, indptr, joined, np.concatenate(scores) if scores else np.zeros(0))


def table(rows: list[tuple[Any, ...]], items: Any, value_range: tuple[float, float] | None = (1, 5)) -> Interactions:
    return discreet.read(rows, items=items, value_range=value_range)


def random_case(
    n_users: int, n_items: int, seed: int, *, n_targets: int = 3, n_history: int = 3
) -> tuple[Scorer, Interactions, Interactions]:
    """A scorer without ties, a test and a history that do not overlap; values 1 to 5."""
    generator = np.random.default_rng(seed)
    test, history = [], []
    for user in range(n_users):
        chosen = generator.permutation(n_items)
        for at, item in enumerate(chosen[: n_history + n_targets]):
            row = (user, int(item), float(generator.integers(1, 6)))
            (history if at < n_history else test).append(row)
    scores = {user: generator.permutation(n_items) * (6 / n_items) for user in range(n_users)}
    items = range(n_items)
    return Scorer(scores, Ids(list(items))), table(test, items), table(history, items)
