"""`discreet evaluate`: how good a saved model is; or a model on a table, against the baselines, in one go."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli import config, models, tables
from discreet.cli.common import Json, Misuse, grid, require_file, show, spending_told
from discreet.errors import DataError, MissingExtra

if TYPE_CHECKING:
    from discreet.data import Interactions
    from discreet.evaluate import Evaluation
    from discreet.models.base import Model
    from discreet.privacy import Ledger

Read = Callable[[str], "Interactions"]
Results = dict[str, "Evaluation"]

BASELINES = ("MeanRating", "Popularity")
EXPLICIT, IMPLICIT = ["rmse", "mae", "recall@20"], ["recall@20", "ndcg@100"]


def evaluate(
    ctx: typer.Context,
    sources: Annotated[
        list[str],
        typer.Argument(metavar="[MODEL] TABLE", help="A saved model and test data; or, with --model, all the data."),
    ],
    history: Annotated[
        str | None, typer.Option(help="What a saved model is shown of the test users: usually what it learned from.")
    ] = None,
    model: models.Name = None,
    split: Annotated[float, typer.Option(help="With --model: the share of the table to test on.")] = 0.1,
    seed: Annotated[int, typer.Option(help="With --model: the seed of that division.", min=0)] = 0,
    settings: models.Settings = None,
    metrics: Annotated[str | None, typer.Option(help="Such as rmse,recall@20,ndcg@100.")] = None,
    relevant: Annotated[float | None, typer.Option(help="Lists are to find targets of at least this rating.")] = None,
    buckets: Annotated[int | None, typer.Option(help="Also by popularity of the target, in so many buckets.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Where to draw the result: .png, .svg, .pdf.")] = None,
    items: tables.Items = None,
    value_range: tables.Range = None,
    user: tables.User = None,
    item: tables.Item = None,
    value: tables.Value = None,
    time: tables.Time = None,
    connection: tables.Connection = None,
    observed_items_are_public: tables.Observed = False,
    implicit: tables.Implicit = False,
    threshold: Annotated[
        float | None, typer.Option(help="With --implicit: leave out lower ratings. Else what accuracy tells apart.")
    ] = None,
    on_invalid: tables.OnInvalid = "raise",
    on_unknown: tables.OnUnknownRows = "raise",
    separator: tables.Separator = None,
    time_format: tables.TimeFormat = None,
    epsilon: models.Epsilon = None,
    delta: models.Delta = None,
    ledger: models.LedgerUrl = None,
    ledger_name: models.LedgerName = "default",
    device: models.Device = "cpu",
    config_file: config.Config = None,
    as_json: Json = False,
) -> None:
    """Measure a saved model; or, with --model, try one on a table against the baselines.

    Example: discreet evaluate ratings.parquet --model dpals --epsilon 1 --delta 1e-6 --items movies.csv --range 0.5 5

    The numbers are exact, about private people, and for the owner's eyes only.
    """
    _require_form(sources, history, model, settings, epsilon, delta, ledger)
    if history is None and device != "cpu":
        raise Misuse("--device is for a saved model; for one that is trained here, give --set device=cuda")
    _require_drawable(plot)
    options = {
        "metrics": None if metrics is None else [name.strip() for name in metrics.split(",") if name.strip()],
        "relevant": relevant,
        "threshold": None if implicit else threshold,
    }
    reading = tables.Reading(
        user, item, value, time, connection, items, value_range, observed_items_are_public,
        on_invalid=on_invalid, on_unknown=on_unknown, separator=separator, time_format=time_format,
    )  # fmt: skip

    def read(source: str) -> "Interactions":
        return tables.forgotten(reading.read(source), implicit, threshold)

    if history is not None:
        saved = models.saved(Path(sources[0]), device)
        results = _saved(saved, read, (sources[1], history), options, buckets)
        about: dict[str, Any] = {}
    else:
        cls = models.find(model)
        made = models.make(cls, config.merged(ctx, "settings", settings), epsilon, delta)
        spending = models.ledger(cls, ledger, ledger_name)
        ratings = read(sources[0])
        if models.is_private(cls):
            tables.require_public(ratings)
        with spending_told(spending):
            results = _tried(made, spending, ratings, (split, seed), options, buckets)
        about = {"split": split, "seed": seed, "guarantee": str(made.guarantee_)}
    if plot is not None:
        _draw(results, plot)
        about["plot"] = str(plot)
    show({**about, **_data(results)}, as_json, *_words(results, about))


def _require_form(
    sources: list[str], history: str | None, model: str | None, settings: list[str] | None, *private: float | str | None
) -> None:
    """A saved model with test data and history; or one table and the name of a model."""
    if len(sources) == 2 and model is None:
        if history is None:
            raise Misuse("--history: give what the model is shown of the test users, usually what it learned from")
        if settings or any(given is not None for given in private):
            raise Misuse("--set, --epsilon, --delta and --ledger are for training, but a saved model was given")
    elif len(sources) == 1:
        if history is not None:
            raise Misuse(
                "--history goes with a saved model and test data: discreet evaluate model test.csv --history …"
            )
    else:
        raise Misuse("give a saved model, test data and --history; or one table and --model")


def _require_drawable(plot: Path | None) -> None:
    """Find out before training, not after."""
    if plot is None:
        return
    require_file("--plot", plot, [f".{kind}" for kind in _figure().canvas.get_supported_filetypes()])


def _figure() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("--plot", "plot") from None
    return Figure(layout="constrained")


# -- the two forms


def _saved(model: "Model", read: Read, paths: tuple[str, str], options: dict[str, Any], buckets: int | None) -> Results:
    """A saved model on test data."""
    from discreet.evaluate import evaluate as compute

    test, history = (
        tables.for_model(model, read(path), name) for path, name in zip(paths, ("test", "history"), strict=True)
    )
    if options["metrics"] is None and model.implicit_:  # also where the test has ratings
        options = {**options, "metrics": IMPLICIT}
    asked = _fitting(model, test, options["metrics"])
    if asked == [] and options["metrics"]:
        raise _no_ratings(model)
    return {
        type(model).__name__: compute(model, test, history=history, buckets=buckets, **{**options, "metrics": asked})
    }


def _tried(
    model: "Model",
    ledger: "Ledger | None",
    ratings: "Interactions",
    division: tuple[float, int],
    options: dict[str, Any],
    buckets: int | None,
) -> Results:
    """A model fitted to a part of a table and tested on the rest, and the baselines beside it."""
    from discreet.data import splits
    from discreet.evaluate import evaluate as compute

    train, _, test = splits.holdout(ratings, test=division[0], random_state=division[1])
    if options["metrics"] is None and not ratings.implicit:
        options = {**options, "metrics": EXPLICIT}
    results: dict[str, Evaluation] = {}
    for contender in [model, *_baselines(model, ratings)]:
        chosen = contender is model
        contender.fit(train, ledger=ledger if chosen else None)
        asked = _fitting(contender, ratings, options["metrics"])
        if asked == [] and options["metrics"] and chosen:
            raise _no_ratings(model)
        if asked != [] or chosen:
            given = {**options, "metrics": asked, "buckets": buckets if chosen else None}
            results[type(contender).__name__] = compute(contender, test, history=train, **given)
    return results


def _no_ratings(model: "Model") -> DataError:
    return DataError(f"metrics: {type(model).__name__} predicts no ratings here; ask for lists, recall@20 for instance")


def _baselines(model: "Model", ratings: "Interactions") -> list["Model"]:
    """What every model must beat; where there are no ratings, their averages say nothing."""
    names = [
        name for name in BASELINES if name != type(model).__name__ and not (ratings.implicit and name == "MeanRating")
    ]
    return [models.find(name)() for name in names]


def _fitting(model: "Model", ratings: "Interactions", metrics: list[str] | None) -> list[str] | None:
    """The metrics that mean something for a model: scores that are no ratings have no rmse."""
    from discreet.evaluate import Metric

    if metrics is None or ratings.implicit or not model.implicit_:
        return metrics
    return [name for name in metrics if Metric.parse(name).is_ranking]


# -- what comes out


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _scores(scores: Any) -> dict[str, Any]:
    return {
        name: {"value": _number(s.value), "low": _number(s.low), "high": _number(s.high), "users": s.users}
        for name, s in scores.items()
    }


def _data(results: Results) -> dict[str, Any]:
    from discreet.evaluate.result import OWNER

    tested = {
        name: {
            "metrics": _scores(result.scores),
            "buckets": [
                {"bucket": b.number, "items": b.items, "share": _number(b.share), "metrics": _scores(b.scores)}
                for b in result.buckets
            ],
        }
        for name, result in results.items()
    }
    return {"note": OWNER, "models": tested}


def _words(results: Results, about: dict[str, Any]) -> list[Any]:
    """One table: of one model with intervals, or of several side by side."""
    from discreet.evaluate.result import OWNER

    first = next(iter(results.values()))
    after = [f"The plot is in {about['plot']}."] if "plot" in about else []
    if "split" not in about:
        return [f"{next(iter(results))}", "", str(first), *after]
    names = dict.fromkeys(metric for result in results.values() for metric in result)
    rows = [[name, *(_cell(result, name) for result in results.values())] for name in names]
    table = grid(["metric", *results], rows)
    others = list(results)[1:]
    beside = f"{' and '.join(others)}, which need no noise, are there to compare with: not private."
    return [
        OWNER,
        f"Tested on {about['split']:.0%} of the table, at random; in brackets 95% intervals. {about['guarantee']}",
        "",
        table,
        *(["", beside] if others else []),
        *(["", str(first).partition("\n\n")[2].partition("\n\n")[2]] if first.buckets else []),
        *after,
    ]


def _cell(result: "Evaluation", name: str) -> str:
    if name not in result:
        return "-"
    low, high = result.interval(name)
    return f"{result[name]:.4f}" + (f" ({low:.3f}–{high:.3f})" if math.isfinite(low) else "")


def _draw(results: Results, plot: Path) -> None:
    figure = _figure()
    name, result = next(iter(results.items()))
    axes = result.plot(figure.subplots(), buckets=bool(result.buckets))
    axes.set_ylabel(name)
    figure.savefig(plot)
