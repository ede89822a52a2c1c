"""One table or figure of a paper: which data it needs, what was published, and how it is measured here.

A `Reproduction` makes points. A point is measured by some runs and becomes a row, a flat dictionary: what tells it from
the others (data, method, epsilon, ...), the mean and the standard deviation of what is measured, how many runs that
were, the epsilon that holds in truth, and seconds of a run. Methods whose names end in ", as published" have the noise
that the paper printed, or that its rule asks for; all other noise is exactly what epsilon takes. Numbers about test
ratings are exact, and so not covered by any epsilon: research only.
"""

from __future__ import annotations

import inspect
import math
import statistics
import textwrap
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Row = dict[str, Any]
Ours = Callable[[Sequence[Row]], float | None]
Points = Callable[["Options"], Iterable["Point"]]
Declaration = Callable[[Points], "Reproduction"]  # a decorator

AS_PUBLISHED = ", as published"
NOT_KEYS = frozenset({"sd", "runs", "true_epsilon", "seconds"})  # of a row, beside what was measured


@dataclass(frozen=True)
class Options:
    """What the caller may choose."""

    runs: int | None = None  # how often each point is measured; by default as often as in the paper
    quick: bool = False  # few runs and points on little data: does it work at all?
    generated: bool = False  # made-up data of the same size in the place of data that nobody may hand out
    data: str | None = None  # another data set in the place of the one that the paper has, by its name
    source: str | None = None  # the file of the data set, if it is not where it is looked for
    calibration: Literal["published", "exact"] | None = None  # only methods with the published noise, or the others

    @property
    def flags(self) -> list[str]:
        """As on the command line."""
        calibration = {"published": ["--as-published"], "exact": ["--exact"], None: []}[self.calibration]
        given = {"--runs": self.runs, "--data": self.data, "--source": self.source}
        words = [word for flag, value in given.items() if value is not None for word in (flag, str(value))]
        return [*calibration, *words, *["--generated"] * self.generated, *["--quick"] * self.quick]

    def wants(self, method: str) -> bool:
        """Whether a private method has the calibration that was asked for."""
        return self.calibration is None or method.endswith(AS_PUBLISHED) == (self.calibration == "published")

    def few(self, values: Sequence[Any], n: int = 1) -> Sequence[Any]:
        """The values of an axis: all of them, or the last `n` if it is to be quick."""
        return values[-n:] if self.quick else values


@dataclass(frozen=True)
class Point:
    """One point of a figure, or one number of a table."""

    keys: Mapping[str, Any]  # what tells it from the others: data, method, epsilon, and whatever else is on an axis
    run: Callable[[int], Mapping[str, float | None]]  # by a seed: measures and, if private, true_epsilon
    runs: int | None = None  # unless the caller says otherwise; None: as many as for the others. 1 stays 1

    def measured(self, runs: int, first: int = 0) -> Row:
        """The row of this point: means over runs, and the standard deviation of what was measured first."""
        start = time.perf_counter()
        found = [self.run(seed) for seed in range(first, first + runs)]
        seconds = (time.perf_counter() - start) / runs
        measures = {
            name: [math.nan if (value := one[name]) is None else float(value) for one in found]
            for name in found[0]
            if name != "true_epsilon"
        }
        true = found[-1].get("true_epsilon")
        return {
            **self.keys,
            **{name: _rounded(statistics.mean(values)) for name, values in measures.items()},
            "sd": _rounded(statistics.stdev(next(iter(measures.values())))) if runs > 1 else None,
            "runs": runs,
            "true_epsilon": None if true is None or not math.isfinite(true) else _rounded(true),
            "seconds": round(seconds, 1),
        }


@dataclass(frozen=True)
class Published:
    """A number that a paper prints, and how the same is found in our rows."""

    what: str  # it is the number of
    value: float
    ours: Ours  # None if the rows, which are all of the same data, do not have it
    where: str  # the paper prints it
    says: str = ""  # how it does: "", "about", "above", "below", "at least" or "at most"
    at: Mapping[str, Any] | None = None  # the keys of the point that it is the value of, if it is; for the plot


@dataclass(frozen=True)
class Plot:
    """How rows are drawn."""

    x: str = "epsilon"  # the key on the horizontal axis
    label: str = "epsilon, as claimed"  # of that axis
    panels: str | None = None  # the key that panels differ in
    log: str = "x"  # which axes are logarithmic: some of "x" and "y"
    lines: tuple[str, ...] = ()  # keys, beside the method, that tell curves apart


@dataclass(frozen=True)
class Reproduction:
    """A table or figure."""

    name: str  # as in `discreet reproduce NAME`
    paper: str
    title: str  # what it shows
    protocol: str  # how it was measured, and what differs here
    measure: str  # what is measured: a key of the rows
    points: Points  # makes them, in the order in which they are worth having
    published: tuple[Published, ...] = ()
    needs: tuple[str, ...] = ()  # the data sets it is about; none: they are made by a formula
    runs: int = 10  # at each point in the paper
    plot: Plot | None = Plot()  # None: it is a table
    by_run: bool = False  # each run has data of its own: all points are measured once before any is measured again

    def rows(self, options: Options, done: Sequence[Row] = ()) -> Iterator[Row]:
        """Measure the points that are not among `done` with as many runs."""
        usual = options.runs or (1 if options.quick else self.runs)
        known = {self.identity(row): row for row in done}
        if self.by_run:
            yield from self._run_by_run(list(self.points(options)), usual, known)
            return
        for point in self.points(options):
            runs = usual if point.runs is None else min(usual, point.runs)
            if known.get(self.identity(point.keys), {"runs": 0})["runs"] < runs:
                yield point.measured(runs)

    def _run_by_run(self, points: Sequence[Point], runs: int, known: dict[Any, Row]) -> Iterator[Row]:
        """Measure all points with one seed after the other: rows as they grow, from those that are known."""
        for seed in range(runs):
            for point in points:
                key = self.identity(point.keys)
                if key not in known:
                    known[key] = point.measured(1, seed)
                elif known[key]["runs"] <= seed < (point.runs or runs):
                    known[key] = pooled(known[key], point.measured(1, seed), self.measure)
                else:
                    continue
                yield known[key]

    def identity(self, row: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
        """What tells a row from the others."""
        return tuple(sorted((key, value) for key, value in row.items() if self.is_key(key, value)))

    def is_key(self, key: str, value: Any) -> bool:
        """Whether a cell tells rows apart: words, epsilon, and what is on an axis do."""
        axes = () if self.plot is None else (self.plot.x, self.plot.panels, *self.plot.lines)
        return key not in NOT_KEYS and (key in ("epsilon", *axes) or isinstance(value, str))

    def comparison(self, rows: Sequence[Row]) -> list[Row]:
        """What was published beside ours and the ratio, for all data that there are rows of."""
        lines = []
        for data in dict.fromkeys(row["data"] for row in rows):
            mine = [row for row in rows if row["data"] == data]
            for one in self.published:
                ours = one.ours(mine)
                if ours is not None:
                    ratio = _rounded(ours / one.value) if one.value else None
                    line = {"what": one.what, "where": one.where, "says": one.says, "published": one.value}
                    lines.append({**line, "ours": _rounded(ours), "ratio": ratio, "data": data})
        return lines


@dataclass(frozen=True)
class Paper:
    """A paper; each of its tables and figures is a function that makes points, decorated by `shows`."""

    prefix: str  # of the names of tables and figures
    title: str  # authors and year
    runs: int  # at each point, unless a figure says otherwise

    def shows(
        self, title: str, measure: str, *published: Published, runs: int | None = None, **other: Any
    ) -> Declaration:
        """A `Reproduction` named as the function, whose docstring, filled, is the protocol; `other` are attributes."""

        def declared(points: Points) -> Reproduction:
            paragraphs = inspect.cleandoc(points.__doc__ or "").split("\n\n")
            protocol = "\n\n".join(textwrap.fill(text, 120, break_on_hyphens=False) for text in paragraphs)
            name = f"{self.prefix}-{points.__name__}"
            times = self.runs if runs is None else runs
            return Reproduction(name, self.title, title, protocol, measure, points, published, runs=times, **other)

        return declared


def pooled(row: Row, more: Row, measure: str) -> Row:
    """The row of some runs and one of a single run more: means, and the standard deviation of what is measured."""
    n, change = row["runs"], more[measure] - row[measure]
    squares = (row["sd"] or 0.0) ** 2 * (n - 1) + change**2 * n / (n + 1)
    means = {
        key: _rounded(value + (more[key] - value) / (n + 1))
        for key, value in row.items()
        if isinstance(value, float) and isinstance(more.get(key), float) and key not in ("epsilon", "sd")
    }
    spread = _rounded(math.sqrt(squares / n))
    return {**row, **means, "sd": spread, "runs": n + 1, "seconds": round(means["seconds"], 1)}


# Where published numbers are in our rows


def _having(rows: Sequence[Row], keys: Mapping[str, Any]) -> list[Row]:
    return [row for row in rows if all(row.get(key) == value for key, value in keys.items())]


def value_of(measure: str, **keys: Any) -> Ours:
    """What was measured at the first row that has these keys."""
    return lambda rows: next((row[measure] for row in _having(rows, keys)), None)


def ratio_of(measure: str, above: Row, below: Row, **keys: Any) -> Ours:
    """The ratio of what was measured at two rows, where both are there, by their own keys and those of both."""

    def found(rows: Sequence[Row]) -> float | None:
        first, second = (value_of(measure, **own, **keys)(rows) for own in (above, below))
        return None if first is None or not second else first / second

    return found


def best_of(axis: str, measure: str, pick: Callable[..., Any] = min, **keys: Any) -> Ours:
    """Where on an axis the best value is, among the rows that have these keys; None if there is nothing to choose."""

    def found(rows: Sequence[Row]) -> float | None:
        mine = _having(rows, keys)
        return float(pick(mine, key=lambda row: row[measure])[axis]) if len(mine) > 1 else None

    return found


def printed(
    values: Mapping[float, float], measure: str, methods: Sequence[str], where: str, says: str = "", **keys: Any
) -> list[Published]:
    """Published numbers by epsilon, to be compared with several of our methods."""
    return [
        Published(
            f"{', '.join([method, *map(str, keys.values())])}, epsilon {epsilon:g}",
            value,
            value_of(measure, method=method, epsilon=epsilon, **keys),
            where,
            says,
            {"epsilon": epsilon, **keys},
        )
        for epsilon, value in values.items()
        for method in methods
    ]


# Measuring


def fitted(model: Any, ratings: Any) -> Any:
    """A model, fitted; that the epsilon of the name is not the true one need not be warned of: it is in the row."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(ratings)


def scored(model: Any, train: Any, measure: str, score: Callable[[Any], float]) -> dict[str, float | None]:
    """What a run gives: the score of a model that is fitted, and the epsilon that it truly has."""
    model = fitted(model, train)
    true = float(model.guarantee_.epsilon) if model.guarantee_.holds else None
    return {measure: score(model), "true_epsilon": true}


def number(value: Any) -> str:
    """A number in four digits, a word as it is."""
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:.4g}" if abs(value) < 10_000 else f"{value:,.0f}"


def _rounded(value: float) -> float:
    """Five digits of it."""
    return float(f"{value:.5g}")
