"""One table or figure of a paper: which data it needs, what was published, and how it is measured here.

A `Reproduction` makes points. A point is measured by some runs and becomes a row, a flat dictionary: what tells it from
the others (data, method, epsilon, ...), the mean and the standard deviation of what is measured, how many runs that
were, the epsilon that holds in truth, and seconds of a run. Methods whose names end in ", as published" have the noise
that the paper printed, or that its rule asks for; all other noise is exactly what epsilon takes. Numbers about test
ratings are exact, and so not covered by any epsilon: research only.
"""

from __future__ import annotations

import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Row = dict[str, Any]
Ours = Callable[[Sequence[Row]], float | None]

AS_PUBLISHED = ", as published"
NOT_KEYS = frozenset({"sd", "runs", "true_epsilon", "seconds"})  # of a row, beside what was measured


@dataclass(frozen=True)
class Options:
    """What the caller may choose.

    Attributes:
        runs: How often each point is measured; by default as often as in the paper.
        quick: Few runs and points on little data: does it work at all?
        generated: Made-up data of the same size in the place of data that nobody may hand out.
        data: Another data set in the place of the one that the paper has, by its name.
        source: The file of the data set, if it is not where it is looked for.
        calibration: "published": only methods with the published noise; "exact": only the others. By default both.
    """

    runs: int | None = None
    quick: bool = False
    generated: bool = False
    data: str | None = None
    source: str | None = None
    calibration: Literal["published", "exact"] | None = None

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
    """One point of a figure, or one number of a table.

    Attributes:
        keys: What tells it from the others: data, method, epsilon, and whatever else is on an axis.
        run: Measures it once, with a seed: what was measured and, where the method is private, true_epsilon.
        runs: How many runs there are unless the caller says otherwise; None: as many as for the others. 1 stays 1.
    """

    keys: Mapping[str, Any]
    run: Callable[[int], Mapping[str, float | None]]
    runs: int | None = None

    def measured(self, runs: int, first: int = 0) -> Row:
        """The row of this point: means over runs, and the standard deviation of what was measured first."""
        start = time.perf_counter()
        found = [self.run(seed) for seed in range(first, first + runs)]
        seconds = (time.perf_counter() - start) / runs
        measures = [name for name in found[0] if name != "true_epsilon"]
        row: Row = {**self.keys}
        for name in measures:
            row[name] = _rounded(statistics.mean(_number(one[name]) for one in found))
        spread = statistics.stdev(_number(one[measures[0]]) for one in found) if runs > 1 else None
        true = found[-1].get("true_epsilon")
        return {
            **row,
            "sd": None if spread is None else _rounded(spread),
            "runs": runs,
            "true_epsilon": None if true is None or not math.isfinite(true) else _rounded(true),
            "seconds": round(seconds, 1),
        }


@dataclass(frozen=True)
class Published:
    """A number that a paper prints, and how the same is found in our rows.

    Attributes:
        what: What it is the number of.
        value: The number.
        ours: The same of our rows, None if they do not have it. They are all of the same data.
        where: Where the paper prints it.
        says: How it does: "", "about", "above", "below", "at least" or "at most".
        at: The keys of the point that it is the value of, if it is; for the plot.
    """

    what: str
    value: float
    ours: Ours
    where: str
    says: str = ""
    at: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Plot:
    """How rows are drawn.

    Attributes:
        x: The key on the horizontal axis.
        label: Its name.
        panels: The key that panels differ in.
        log: Which axes are logarithmic: some of "x" and "y".
        lines: Keys, beside the method, that tell curves apart.
    """

    x: str = "epsilon"
    label: str = "epsilon, as claimed"
    panels: str | None = None
    log: str = "x"
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reproduction:
    """A table or figure.

    Attributes:
        name: As in `discreet reproduce NAME`.
        paper: Which one.
        title: What it shows.
        protocol: How it was measured, and what differs here.
        measure: What is measured: a key of the rows.
        points: Makes the points, in the order in which they are worth having.
        published: What was printed.
        needs: The data sets it is about; none: they are made by a formula.
        runs: How many runs there are at each point in the paper.
        plot: How it is drawn; None: it is a table.
        by_run: Whether each run has data of its own: then all points are measured once before any is measured again.
    """

    name: str
    paper: str
    title: str
    protocol: str
    measure: str
    points: Callable[[Options], Iterable[Point]]
    published: tuple[Published, ...] = ()
    needs: tuple[str, ...] = ()
    runs: int = 10
    plot: Plot | None = field(default_factory=Plot)
    by_run: bool = False

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
        return key not in NOT_KEYS and (key in ("epsilon", *self._axes) or isinstance(value, str))

    @property
    def _axes(self) -> tuple[str, ...]:
        return () if self.plot is None else tuple(filter(None, (self.plot.x, self.plot.panels, *self.plot.lines)))

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


def pooled(row: Row, more: Row, measure: str) -> Row:
    """The row of some runs and one of a single run more: means, and the standard deviation of what is measured."""
    n, change = row["runs"], more[measure] - row[measure]
    squares = (row["sd"] or 0.0) ** 2 * (n - 1) + change**2 * n / (n + 1)
    means = {
        key: _rounded(value + (more[key] - value) / (n + 1))
        for key, value in row.items()
        if isinstance(value, float) and isinstance(more.get(key), float) and key not in ("epsilon", "sd")
    }
    return {
        **row,
        **means,
        "sd": _rounded(math.sqrt(squares / n)),
        "runs": n + 1,
        "seconds": round(means["seconds"], 1),
    }


# Where published numbers are in our rows


def value_of(measure: str, **keys: Any) -> Ours:
    """What was measured at the first row that has these keys."""

    def found(rows: Sequence[Row]) -> float | None:
        return next((row[measure] for row in rows if all(row.get(key) == value for key, value in keys.items())), None)

    return found


def printed(
    values: Mapping[float, float], measure: str, methods: Sequence[str], where: str, says: str = "", **keys: Any
) -> tuple[Published, ...]:
    """Published numbers by epsilon, to be compared with several of our methods."""
    return tuple(
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
    )


def ratio_of(above: Ours, below: Ours) -> Ours:
    """The ratio of two numbers, where both are there."""

    def found(rows: Sequence[Row]) -> float | None:
        first, second = above(rows), below(rows)
        return None if first is None or not second else first / second

    return found


def best_of(axis: str, measure: str, pick: Callable[..., Any] = min, **keys: Any) -> Ours:
    """Where on an axis the best value is, among the rows that have these keys; None if there is nothing to choose."""

    def found(rows: Sequence[Row]) -> float | None:
        mine = [row for row in rows if all(row.get(key) == value for key, value in keys.items())]
        return float(pick(mine, key=lambda row: row[measure])[axis]) if len(mine) > 1 else None

    return found


# Measuring


def fitted(model: Any, ratings: Any) -> Any:
    """A model, fitted; that the epsilon of the name is not the true one need not be warned of: it is in the row."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(ratings)


def true_epsilon(model: Any) -> float | None:
    """The epsilon that a fitted model truly has."""
    guarantee = model.guarantee_
    return float(guarantee.epsilon) if guarantee.holds else None


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _rounded(number: float) -> float:
    """Five digits of it."""
    return float(f"{number:.5g}")
