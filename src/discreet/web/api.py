"""The server's API: it checks requests field by field, computes many at once, and describes itself in OpenAPI."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from discreet.privacy.statement import distinct
from discreet.recommend import serving
from discreet.typing import Array
from discreet.version import __version__
from discreet.web.scoring import table_of
from discreet.web.site import as_json, ids_and_titles

if TYPE_CHECKING:
    from discreet.models.base import Model


N_DEFAULT, N_MOST = 10, 1000  # recommendations in a list
HISTORY_MOST = 10_000  # items of a history, or of a filter
PAGE_DEFAULT, PAGE_MOST = 20, 500  # items listed
SEARCH_LONGEST = 200
SEARCH_SIZE = FILTER_SIZE = 10  # their approximate cost, in histories
ROWS = 100  # recommendations that cost as much as a history
READ = 1000  # bytes that cost as much to read
FIELDS = ("history", "histories", "n", "exclude_seen", "allow", "deny", "on_unknown")


@dataclass(frozen=True)
class Limits:
    """What the server accepts from one client, and from all of them together; each limit with its reason.

    A client that exceeds one is told which.
    """

    # limits for one request
    head: int = 16 * 1024  # bytes of the request line and headers; browsers send about one thousand
    fields: int = 100  # headers: many tiny ones take far more memory than they have bytes
    body: int = 256 * 1024  # bytes: some thousands of ratings
    histories: int = 100  # in one request
    answer: int = 10_000  # recommendations in one answer, about a megabyte

    # seconds that one client may keep the server waiting: for a whole head, from its first byte or from the connection;
    # for a whole body, from the head; without reading, when an answer does not fit in the connection's buffer; and
    # between two requests
    patience: float = 10.0

    # limits for all clients together
    connections: int = 512  # beyond that, the client that has kept the server waiting longest is disconnected
    waiting: int = 4096  # work that may wait (see `Query.size`): less than a second of it
    memory: int = 32 * 1024 * 1024  # bytes of bodies and answers in memory, apart from small ones


DEFAULTS = Limits()


class Refused(Exception):
    """A request that cannot be answered: the status, and the reason, which only the client sees."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


@dataclass(frozen=True)
class Query:
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
        """Its approximate cost, in histories with a short list of recommendations."""
        return len(self.histories) * (1 + self.n // ROWS) + (0 if self.plain else FILTER_SIZE)


Job = Query | bytes | Mapping[str, str]  # a request for recommendations, a body, the parameters of a search


@dataclass(frozen=True)
class Api:
    """The answers of one model, within `limits`."""

    model: Model
    limits: Limits = DEFAULTS

    @cached_property
    def _items(self) -> tuple[list[Any], list[Any]]:
        ids, titles = ids_and_titles(self.model.catalogue_)
        return ids, titles or [None] * len(ids)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """The number of each item, by the text of its id."""
        return {str(item): number for number, item in enumerate(self._items[0])}

    # -- requests

    def parse(self, body: bytes) -> Query:
        """A request for recommendations."""
        try:
            content = json.loads(body, object_pairs_hook=distinct, parse_constant=_no_number)
        except (ValueError, RecursionError):
            raise Refused(400, "the body is not valid JSON") from None
        if not isinstance(content, dict):
            raise Refused(422, 'the body must be an object, such as {"history": {"1": 5}}')
        if unknown := [name for name in content if name not in FIELDS]:
            raise Refused(422, f"{unknown[0][:40]!r} is not a field; the fields are {', '.join(FIELDS)}")
        many = "histories" in content
        if ("history" in content) == many:
            raise Refused(422, "give either history (of one person) or histories (a list of them)")
        on_unknown, exclude_seen = content.get("on_unknown", "raise"), content.get("exclude_seen", True)
        if on_unknown not in ("raise", "ignore"):
            raise Refused(422, "on_unknown: must be 'raise' or 'ignore'")
        if not isinstance(exclude_seen, bool):
            raise Refused(422, "exclude_seen: must be true or false")
        given = content["histories"] if many else [content["history"]]
        if not isinstance(given, list) or not given:
            raise Refused(422, "histories: must be a list of at least one history")
        if len(given) > self.limits.histories:
            raise Refused(422, f"histories: at most {self.limits.histories:,} are answered at once")
        n = _whole("n", content.get("n", N_DEFAULT), 1, N_MOST)
        if n * len(given) > self.limits.answer:
            most = f"one answer has at most {self.limits.answer:,} recommendations"
            raise Refused(422, f"n: {most}, and {len(given):,} histories with n = {n:,} ask for {n * len(given):,}")
        strict = on_unknown == "raise"
        allow, deny = (self._filter(name, content.get(name), strict) for name in ("allow", "deny"))
        return Query(tuple(self._history(one, strict) for one in given), n, many, exclude_seen, allow, deny)

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
            raise Refused(422, "history: must be an object of ratings by item, or a list of liked items")
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
            raise Refused(422, f"{name}: must be a list of items")
        return np.array([number for number in self._known(name, items, strict) if number >= 0], np.int64)

    def _known(self, name: str, items: list[Any], strict: bool) -> list[int]:
        """Item numbers, -1 for unknown ones where they may be left out."""
        if len(items) > HISTORY_MOST:
            raise Refused(422, f"{name}: at most {HISTORY_MOST:,} items are accepted")
        if not all(type(item) in (str, int) for item in items):  # unlike isinstance, this excludes bool
            raise Refused(422, f"{name}: items must be strings or whole numbers")
        try:
            numbers = [self._numbers.get(str(item), -1) for item in items]
        except ValueError:  # a number of thousands of digits
            raise Refused(422, f"{name}: an item is far too long") from None
        if strict and -1 in numbers:
            unknown = str(items[numbers.index(-1)])[:60]
            hint = "'on_unknown': 'ignore' leaves such items out"
            raise Refused(422, f"{name}: the model does not know {unknown!r}; {hint}")
        return numbers

    # -- answers

    def compute(self, jobs: Sequence[Job]) -> list[Any]:
        """Do what takes time: parse bodies, answer searches and requests for recommendations.

        Large answers are returned as JSON; the caller renders small ones while others are computed.
        """
        found = iter(self.recommend([job for job in jobs if isinstance(job, Query)]))
        results: list[Any] = []
        for job in jobs:
            if isinstance(job, Query):
                answers = next(found)
                answer = {"results": answers} if job.many else answers[0]
                results.append(as_json(answer) if job.n * len(answers) > ROWS else answer)
                continue
            try:
                results.append(self.parse(job) if isinstance(job, bytes) else as_json(self.items(job)))
            except Refused as refused:
                results.append(refused)
        return results

    def recommend(self, requests: Sequence[Query]) -> list[list[dict[str, Any]]]:
        """For each request, an answer to each of its histories. Requests without filters are computed together.

        Requests for many items are kept apart from requests for few, which would otherwise cost as much.
        """
        answers: dict[int, list[dict[str, Any]]] = {}
        together: dict[Any, list[int]] = {}
        for at, query in enumerate(requests):
            together.setdefault((query.exclude_seen, query.n >= ROWS) if query.plain else at, []).append(at)
        for places in together.values():
            answers.update(zip(places, self._answers([requests[at] for at in places]), strict=True))
        return [answers[at] for at in range(len(requests))]

    def _answers(self, requests: Sequence[Query]) -> list[list[dict[str, Any]]]:
        """The answers to requests with the same filters."""
        first = requests[0]
        allow, deny = (None if part is None else self.model.items_.take(part) for part in (first.allow, first.deny))
        n = max(query.n for query in requests)  # the best 10 are the first 10 of the best 20
        table = table_of(self.model, [row for query in requests for row in query.histories])
        found = serving.recommend(self.model, table, serving.Options(n, first.exclude_seen, allow, deny))
        users = np.repeat(np.arange(table.n_users), np.diff(found.indptr))
        ratings: list[float | None] = [None] * len(users)
        if self.model._predicts_ratings:
            ratings = serving.predictions(self.model, table, users, found.numbers).tolist()
        ids, titles = self._items

        def listed(row: int, most: int) -> dict[str, Any]:
            own = slice(int(found.indptr[row]), min(int(found.indptr[row + 1]), int(found.indptr[row]) + most))
            best = zip(found.numbers[own].tolist(), found.scores[own].tolist(), ratings[own], strict=True)
            rows = [
                {"rank": rank, "item": ids[number], "title": titles[number], "score": score, "rating": rating}
                for rank, (number, score, rating) in enumerate(best, 1)
            ]
            return {"recommendations": rows, "note": found.note if found.cold[row] else ""}

        rows = iter(range(table.n_users))
        return [[listed(next(rows), query.n) for _ in query.histories] for query in requests]

    def items(self, asked: Mapping[str, str]) -> dict[str, Any]:
        """Items of the catalog whose title, or id, has every word of a text."""
        if unknown := [name for name in asked if name not in ("search", "offset", "limit")]:
            raise Refused(422, f"{unknown[0][:40]!r} is not a parameter; the parameters are search, offset, limit")
        search = asked.get("search", "")
        if len(search) > SEARCH_LONGEST:
            raise Refused(422, f"search: at most {SEARCH_LONGEST} characters are accepted")
        offset = _whole("offset", _digits(asked.get("offset", "0")), 0, 1 << 40)
        limit = _whole("limit", _digits(asked.get("limit", str(PAGE_DEFAULT))), 1, PAGE_MOST)
        found, (ids, titles) = self.model.catalogue_.search(search), self._items
        rows = [{"item": ids[at], "title": titles[at]} for at in found[offset : offset + limit]]
        return {"items": rows, "total": len(found)}

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI description, with the range, the limits and the items of this model."""
        found: dict[str, Any] = json.loads(Path(__file__).with_name("openapi.json").read_text(encoding="utf-8"))
        about = (
            f"Recommendations of a {type(self.model).__name__}. {self.model.guarantee_} The server stores no requests "
            "and logs no ratings. To send no ratings at all, compute the same in the browser, as the page at / does."
        )
        found["info"] |= {"version": __version__, "description": about}
        (low, high), limits, schemas = self.model.value_range_, self.limits, found["components"]["schemas"]
        schemas["Rating"] |= {"minimum": low, "maximum": high}
        schemas["Histories"]["maxItems"] = limits.histories
        schemas["Number"]["description"] += (
            f" One answer has at most {limits.answer:,} recommendations: the number of histories times n."
        )
        body = found["paths"]["/v1/recommend"]["post"]["requestBody"]
        body["description"] = f"At most {limits.body:,} bytes."
        example = {"history": {str(item): high for item in self._items[0][:2]}, "n": 5}
        body["content"]["application/json"]["example"] = example
        return found


def _no_number(_: str) -> NoReturn:
    raise ValueError


def _whole(name: str, value: Any, least: int, most: int) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # in JSON, 10 and 10.0 are the same
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise Refused(422, f"{name}: must be a whole number from {least} to {most}")
    return value


def _digits(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None
