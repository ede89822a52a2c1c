"""What the server answers: requests checked field by field, and recommendations for many of them at once."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.data.catalogue import Ids, smallest_unsigned
from discreet.data.interactions import Interactions
from discreet.recommend import serving
from discreet.recommend.results import titles
from discreet.typing import Array
from discreet.web.limits import DEFAULTS, Limits
from discreet.web.site import json_id

if TYPE_CHECKING:
    from discreet.models.base import Model


N_DEFAULT, N_MOST = 10, 1000  # recommendations
HISTORY_MOST = 10_000  # items of a history, or of a filter
PAGE_DEFAULT, PAGE_MOST = 20, 500  # items listed
SEARCH_LONGEST = 200
SEARCH_SIZE = FILTER_SIZE = 10  # what these cost, in histories: about
ROWS = 100  # recommendations that cost as much as a history
READ = 1000  # bytes that cost as much to read
FIELDS = ("history", "histories", "n", "exclude_seen", "allow", "deny", "on_unknown")


class Refused(Exception):
    """A request that cannot be answered: the status, and the reason for the caller's eyes alone."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclass(frozen=True)
class Asked:
    """One request for recommendations; items are numbers."""

    histories: tuple[tuple[Array, Array], ...]
    n: int
    many: bool = False
    exclude_seen: bool = True
    allow: Array | None = None
    deny: Array | None = None

    @property
    def plain(self) -> bool:
        """Whether it can be computed together with others."""
        return self.allow is None and self.deny is None

    @property
    def size(self) -> int:
        """What it costs, in histories of which a few items are asked for: about."""
        return len(self.histories) * (1 + self.n // ROWS) + (0 if self.plain else FILTER_SIZE)


Job = Asked | bytes | Mapping[str, str]  # a request for recommendations, a body, the parameters of a search


@dataclass(frozen=True)
class Api:
    """The answers of one model.

    Attributes:
        model: The model.
        limits: How many histories one request may have, and how many recommendations one answer.
    """

    model: Model
    limits: Limits = DEFAULTS

    @cached_property
    def ids(self) -> list[Any]:
        """Item ids as JSON has them."""
        return [json_id(item) for item in self.model.items_]

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each item, by the text of its id."""
        return {str(item): number for number, item in enumerate(self.ids)}

    @cached_property
    def titles(self) -> list[Any]:
        """What people call the items, or None for each."""
        found = titles(self.model.catalogue_, np.arange(len(self.ids)))
        return [None] * len(self.ids) if found is None else [None if name is None else str(name) for name in found]

    @cached_property
    def _folded(self) -> list[str]:
        return [
            str(name if name is not None else item).casefold() for item, name in zip(self.ids, self.titles, strict=True)
        ]

    # -- what is asked

    def parse(self, body: bytes) -> Asked:
        """A request for recommendations."""
        try:
            content = json.loads(body, object_pairs_hook=_distinct, parse_constant=_no_number)
        except (ValueError, RecursionError):
            raise Refused(400, "the body is not proper JSON") from None
        if not isinstance(content, dict):
            raise Refused(422, 'an object is needed, such as {"history": {"1": 5}}')
        if unknown := [name for name in content if name not in FIELDS]:
            raise Refused(422, f"{unknown[0][:40]!r} is no field; there are {', '.join(FIELDS)}")
        if ("history" in content) == ("histories" in content):
            raise Refused(422, "give one of history (of one person) and histories (a list of them)")
        on_unknown = content.get("on_unknown", "raise")
        if on_unknown not in ("raise", "ignore"):
            raise Refused(422, "on_unknown: 'raise' or 'ignore' is needed")
        many = "histories" in content
        given = content["histories"] if many else [content["history"]]
        if not isinstance(given, list) or not given:
            raise Refused(422, "histories: a list of at least one history is needed")
        if len(given) > self.limits.histories:
            raise Refused(422, f"histories: at most {self.limits.histories:,} are answered at once")
        n = _whole("n", content.get("n", N_DEFAULT), 1, N_MOST)
        if n * len(given) > self.limits.answer:
            most = f"one answer has at most {self.limits.answer:,} recommendations"
            raise Refused(422, f"n: {most}, and {len(given):,} histories with n = {n:,} ask for {n * len(given):,}")
        strict = on_unknown == "raise"
        return Asked(
            tuple(self._history(one, strict) for one in given),
            n,
            many,
            _flag("exclude_seen", content.get("exclude_seen", True)),
            self._filter("allow", content.get("allow"), strict),
            self._filter("deny", content.get("deny"), strict),
        )

    def _history(self, given: Any, strict: bool) -> tuple[Array, Array]:
        """Item numbers, increasing, and ratings."""
        low, high = self.model.value_range_
        if isinstance(given, dict):
            items, ratings = list(given), list(given.values())
            if not all(type(value) in (int, float) and low <= value <= high for value in ratings):
                raise Refused(422, f"history: ratings must be numbers from {low:g} to {high:g}")
        elif isinstance(given, list):
            items, ratings = given, [high] * len(given)
        else:
            raise Refused(422, "history: an object of ratings by item is needed, or a list of liked items")
        rated: dict[int, float] = {}
        for number, rating in zip(self._known("history", items, strict), ratings, strict=True):
            rated.setdefault(number, rating)
        rated.pop(-1, None)
        numbers = sorted(rated)
        values = np.ones(len(numbers)) if self.model.implicit_ else [rated[number] for number in numbers]
        return np.array(numbers, np.int64), np.array(values, np.float32)

    def _filter(self, name: str, items: Any, strict: bool) -> Array | None:
        if items is None:
            return None
        if not isinstance(items, list):
            raise Refused(422, f"{name}: a list of items is needed")
        return np.array([number for number in self._known(name, items, strict) if number >= 0], np.int64)

    def _known(self, name: str, items: list[Any], strict: bool) -> list[int]:
        """Item numbers, -1 for unknown ones where they may be left out."""
        if len(items) > HISTORY_MOST:
            raise Refused(422, f"{name}: at most {HISTORY_MOST:,} items are taken")
        if not all(type(item) in (str, int) for item in items):  # a bool is no int here
            raise Refused(422, f"{name}: items are texts or whole numbers")
        try:
            numbers = [self.numbers.get(str(item), -1) for item in items]
        except ValueError:  # a number of thousands of digits
            raise Refused(422, f"{name}: there is an item that is far too long") from None
        if strict and -1 in numbers:
            item = str(items[numbers.index(-1)])[:60]
            raise Refused(
                422, f"{name}: the model does not know {item!r}; 'on_unknown': 'ignore' leaves such items out"
            )
        return numbers

    # -- what is answered

    def compute(self, jobs: Sequence[Job]) -> list[Any]:
        """What takes time, done: bodies parsed, searches and requests for recommendations answered.

        Large answers are JSON already. Small ones are left to the caller, who renders them while others are computed.
        """
        found = iter(self.recommend([job for job in jobs if isinstance(job, Asked)]))
        results: list[Any] = []
        for job in jobs:
            if isinstance(job, Asked):
                answers = next(found)
                answer = {"results": answers} if job.many else answers[0]
                results.append(rendered(answer) if job.n * len(answers) > ROWS else answer)
                continue
            try:
                results.append(self.parse(job) if isinstance(job, bytes) else rendered(self.items(job)))
            except Refused as refused:
                results.append(refused)
        return results

    def recommend(self, requests: Sequence[Asked]) -> list[list[dict[str, Any]]]:
        """For each request the answer to each of its histories; requests without filters are computed together.

        Those who ask for many items are apart from those who ask for few, who would be computed as many.
        """
        answers: dict[int, list[dict[str, Any]]] = {}
        together: dict[Any, list[int]] = {}
        for at, asked in enumerate(requests):
            together.setdefault((asked.exclude_seen, asked.n >= ROWS) if asked.plain else at, []).append(at)
        for places in together.values():
            self._answer([requests[at] for at in places], places, answers)
        return [answers[at] for at in range(len(requests))]

    def _answer(
        self, requests: Sequence[Asked], places: Sequence[int], answers: dict[int, list[dict[str, Any]]]
    ) -> None:
        first = requests[0]
        allow, deny = (None if part is None else self.model.items_.take(part) for part in (first.allow, first.deny))
        n = max(asked.n for asked in requests)  # the best 10 are the first 10 of the best 20
        options = serving.Options(n, first.exclude_seen, allow, deny)
        found = serving.recommend(self.model, self._table(requests), options)
        row = 0
        for place, asked in zip(places, requests, strict=True):
            answers[place] = []
            for _ in asked.histories:
                part = slice(int(found.indptr[row]), min(int(found.indptr[row + 1]), int(found.indptr[row]) + asked.n))
                note = found.note if found.cold[row] else ""
                answers[place].append(self._listed(found.numbers[part], found.scores[part], note))
                row += 1

    def _table(self, requests: Sequence[Asked]) -> Interactions:
        rows = [row for asked in requests for row in asked.histories]
        counts = [len(numbers) for numbers, _ in rows]
        return Interactions(
            users=Ids(range(len(rows))),
            catalogue=self.model.catalogue_,
            indptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            indices=np.concatenate([numbers for numbers, _ in rows]).astype(smallest_unsigned(len(self.ids))),
            values=np.concatenate([values for _, values in rows]),
            value_range=self.model.value_range_,
            implicit=self.model.implicit_,
        )

    def _listed(self, numbers: Array, scores: Array, note: str) -> dict[str, Any]:
        rows = [
            {"rank": rank, "item": self.ids[number], "title": self.titles[number], "score": score}
            for rank, (number, score) in enumerate(zip(numbers.tolist(), scores.tolist(), strict=True), 1)
        ]
        return {"recommendations": rows, "note": note}

    def items(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Some items of the catalogue: those whose title, or id, has a text in it."""
        if unknown := [name for name in query if name not in ("search", "offset", "limit")]:
            raise Refused(422, f"{unknown[0][:40]!r} is no parameter; there are search, offset, limit")
        search = query.get("search", "")
        if len(search) > SEARCH_LONGEST:
            raise Refused(422, f"search: at most {SEARCH_LONGEST} characters are taken")
        offset = _digits("offset", query.get("offset", "0"), 0, 1 << 40)
        limit = _digits("limit", query.get("limit", str(PAGE_DEFAULT)), 1, PAGE_MOST)
        wanted = search.casefold()
        found = [at for at, text in enumerate(self._folded) if wanted in text]
        rows = [{"item": self.ids[at], "title": self.titles[at]} for at in found[offset : offset + limit]]
        return {"items": rows, "total": len(found)}


def rendered(content: Any) -> bytes:
    """JSON."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """What is read must not depend on which of two values a reader happens to take."""
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError
    return dict(pairs)


def _no_number(_: str) -> float:
    raise ValueError


def _whole(name: str, value: Any, least: int, most: int) -> int:
    if isinstance(value, float) and value.is_integer() and math.isfinite(value):
        value = int(value)  # JSON knows no difference between 10 and 10.0
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise Refused(422, f"{name}: a whole number from {least} to {most} is needed")
    return value


def _digits(name: str, text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
        raise Refused(422, f"{name}: a whole number from {least} to {most} is needed")
    return int(text)


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise Refused(422, f"{name}: true or false is needed")
    return value
