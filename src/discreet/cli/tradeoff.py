"""`discreet tradeoff`: how good private models are at several epsilons, and what epsilon is worth having."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli import config, models, tables
from discreet.cli.common import Json, Misuse, grid, require_file, show
from discreet.errors import MissingExtra

if TYPE_CHECKING:
    from discreet.evaluate import Tradeoff
    from discreet.models.base import Model


def tradeoff(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(help=tables.SOURCE)],
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            help="A model to try: dpals, dpsvd, …; may be repeated. By default the private one for the kind of data.",
            autocompletion=models.names,
        ),
    ] = None,
    epsilons: Annotated[str, typer.Option(help="The budgets to try.")] = "0.5,1,2,5,10",
    repeats: Annotated[int, typer.Option(help="How many draws of the noise at each.", min=1)] = 3,
    delta: models.Delta = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A parameter of the models that have it, n_steps=4 for instance; may be repeated."),
    ] = None,
    metrics: Annotated[str | None, typer.Option(help="Such as rmse,recall@20; the first is recommended by.")] = None,
    relevant: Annotated[float | None, typer.Option(help="Lists are to find targets of at least this rating.")] = None,
    split: Annotated[float, typer.Option(help="The share of the table to test on.")] = 0.1,
    seed: Annotated[int, typer.Option(help="The seed of that division.", min=0)] = 0,
    results: Annotated[
        Path, typer.Option(help="A DuckDB file for the runs: what it has already is not run again.")
    ] = Path("tradeoff.duckdb"),
    report: Annotated[Path | None, typer.Option(help="Where to write the report, an HTML page.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Where to draw the first metric: .png, .svg, .pdf.")] = None,
    curve: Annotated[
        Path | None,
        typer.Option(
            help="Where to write the first model's curve for `discreet export --tradeoff`, if it may be public."
        ),
    ] = None,
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
    on_duplicate: tables.OnDuplicate = "last",
    on_invalid: tables.OnInvalid = "raise",
    on_unknown: tables.OnUnknownRows = "raise",
    separator: tables.Separator = None,
    time_format: tables.TimeFormat = None,
    config_file: config.Config = None,
    as_json: Json = False,
) -> None:
    """Fit private models at several epsilons, draw error against epsilon, and say which epsilon costs little.

    Example: discreet tradeoff ratings.parquet --epsilons 1,4 --delta 1e-6 --items movies.csv --range 0.5 5

    A run that was stopped goes on where it was. The numbers are exact, and for the owner's eyes only.
    """
    _require_writable(report, plot, curve, results)
    chosen = _models(model or [], config.merged(ctx, "settings", settings), delta)
    reading = tables.Reading(
        user, item, value, time, connection, items, value_range, observed_items_are_public,
        on_duplicate, on_invalid, on_unknown, separator, time_format,
    )  # fmt: skip
    ratings = tables.forgotten(reading.read(source), implicit, threshold)
    if any(models.is_private(type(made)) for made in chosen):
        tables.require_public(ratings)
    from discreet.evaluate import tradeoff as compute

    try:
        found = compute(
            {type(made).__name__: made for made in (models.chosen(made, ratings) for made in chosen)},
            ratings,
            _numbers(epsilons),
            repeats,
            metrics=None if metrics is None else [name.strip() for name in metrics.split(",") if name.strip()],
            relevant=relevant,
            threshold=None if implicit else threshold,
            test=split,
            random_state=seed,
            results=results,
        )
    except KeyboardInterrupt:
        typer.echo(f"discreet: stopped; what is done is in {str(results)!r}, and the same command goes on", err=True)
        raise
    written = {"results": str(results)}
    if report is not None:
        report.write_text(found.html(), encoding="utf-8")
        written["report"] = str(report)
    if plot is not None:
        figure = _figure()
        found.plot(figure.subplots())
        figure.savefig(plot)
        written["plot"] = str(plot)
    if curve is not None:
        curve.write_text(json.dumps(found.curve(next(iter(found)))), encoding="utf-8")
        written["curve"] = str(curve)
    show({**_data(found), **written}, as_json, *_words(found, written))


def _models(names: list[str], settings: list[str], delta: float | None) -> list["Model"]:
    """The models, each with those of the settings that it takes."""
    classes = [models.find(name) for name in names or [models.BEST]]
    if len(set(classes)) < len(classes):
        raise Misuse("--model: one is given twice; in Python one model can be tried with several settings")
    for text in settings:
        if not any(models.takes(cls, text.partition("=")[0].strip()) for cls in classes):
            models.make(classes[0], [text], None, None)  # an error that says what there is
    made = []
    for cls in classes:
        mine = [text for text in settings if models.takes(cls, text.partition("=")[0].strip())]
        private = models.is_private(cls)
        made.append(models.make(cls, mine, 1.0 if private else None, delta if private else None))
    return made


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise Misuse(
            f"--epsilons: numbers with commas between them are needed, 0.5,1,2 for instance, not {text!r}"
        ) from None


def _figure() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("--plot and --report", "plot") from None
    return Figure(figsize=(7, 4), layout="constrained")


def _require_writable(report: Path | None, plot: Path | None, curve: Path | None, results: Path) -> None:
    """Find out before hours of training, not after."""
    known = () if report is None and plot is None else _figure().canvas.get_supported_filetypes()
    require_file("--report", report, (".html", ".htm"))
    require_file("--plot", plot, [f".{kind}" for kind in known])
    require_file("--curve", curve)
    require_file("--results", results)


def _data(found: "Tradeoff") -> dict[str, Any]:
    from discreet.evaluate.curves import OWNER

    curves = {
        model: [
            {
                "epsilon": epsilon,
                "metrics": {metric: found.spread(model, epsilon, metric)._asdict() for metric in values},
            }
            for epsilon, values in sorted(curve.items())
        ]
        for model, curve in found.items()
    }
    return {
        "note": OWNER,
        "repeats": found.repeats,
        "models": curves,
        "lines": found.lines,
        "recommendation": found.sentence(),
        "worth": found.worth(),
    }


def _words(found: "Tradeoff", written: dict[str, str]) -> list[Any]:
    shown: list[Any] = [*found._notes(), ""]
    for metric in found.metrics:
        head, *rows = found.table(metric)
        shown += [grid(head, rows), ""]
    files = f"Every run is in {written['results']}" + "".join(
        f", the {name} in {written[name]}" for name in ("report", "plot", "curve") if name in written
    )
    return [*shown, found.sentence(), *found.worth(), "", f"{files}."]
