"""`discreet train`: a table in, a model and its privacy statement out."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli import config, models, tables
from discreet.cli.common import (
    Json,
    Misuse,
    pairs,
    plain,
    promise,
    require_file,
    require_folder,
    show,
    typed,
    warnings_told,
)
from discreet.errors import ModelError
from discreet.validation import round_up

if TYPE_CHECKING:
    from discreet.data import Interactions
    from discreet.models.base import Model
    from discreet.privacy import Ledger
    from discreet.privacy.statement import Statement

FACES = (".html", ".md", ".json")
UNFINISHED = "unfinished"  # as in discreet.models.model_folder, which takes long to import
PAID = "The whole plan was paid for when this fit began: nothing more is spent."


def train(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(help=tables.SOURCE)],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for the model; one that is there is replaced.")],
    model: models.Name = None,
    settings: models.Settings = None,
    items: tables.Items = None,
    value_range: tables.Range = None,
    user: tables.User = None,
    item: tables.Item = None,
    value: tables.Value = None,
    time: tables.Time = None,
    connection: tables.Connection = None,
    observed_items_are_public: tables.Observed = False,
    implicit: tables.Implicit = False,
    threshold: Annotated[float | None, typer.Option(help="With --implicit: leave out lower ratings.")] = None,
    on_duplicate: tables.OnDuplicate = "last",
    on_invalid: tables.OnInvalid = "raise",
    on_unknown: tables.OnUnknownRows = "raise",
    separator: tables.Separator = None,
    time_format: tables.TimeFormat = None,
    epsilon: models.Epsilon = None,
    delta: models.Delta = None,
    ledger: models.LedgerUrl = None,
    ledger_name: models.LedgerName = "default",
    statement: Annotated[
        list[Path] | None, typer.Option(help="Where to write the privacy statement: .html, .md or .json.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Finish the private fit in --out that was stopped: it has been paid for.")
    ] = False,
    discard: Annotated[
        bool, typer.Option("--discard", help="Give that fit up and begin anew; what it has released stays spent.")
    ] = False,
    config_file: config.Config = None,
    as_json: Json = False,
) -> None:
    """Learn a model from a table of who liked what, and save it.

    Example: discreet train ratings.parquet --epsilon 1 --delta 1e-6 --items movies.csv --range 0.5 5 --out model

    It says what it will do, and what that will spend, before it does it. A private fit that is stopped, or dies, has
    kept in --out what it was paid for: the same command with --resume finishes it.
    """
    cls = models.find(model)
    made = models.make(cls, config.merged(ctx, "settings", settings), epsilon, delta)
    spending = models.ledger(cls, ledger, ledger_name)
    if threshold is not None and not implicit:
        raise Misuse("--threshold: it says which ratings count for implicit feedback; give --implicit too")
    files = statement or []
    require_writable(out, files)
    fit = out / UNFINISHED
    _require_told(ctx, fit, resume, discard)
    reading = tables.Reading(
        user, item, value, time, connection, items, value_range, observed_items_are_public,
        on_duplicate, on_invalid, on_unknown, separator, time_format,
    )  # fmt: skip
    ratings = tables.forgotten(reading.read(source), implicit, threshold)
    if models.is_private(cls):
        tables.require_public(ratings)
    made = models.chosen(made, ratings)
    if resume and made._not_resumable():
        raise Misuse(f"--resume: the fit in {str(out)!r} is of another model; give the same options as when it began")
    if discard:
        _give_up(fit, spending)
    costs = PAID if resume else models.preview(made, ratings, spending)
    show(None, False, *([] if as_json else _intention(made, ratings, source, costs)))
    checkpoint = {} if made._not_resumable() else {"checkpoint": fit}
    with _told_if_stopped(ctx, made, ratings.n_items, fit), warnings_told():
        made.fit(ratings, ledger=spending, **checkpoint)
        made.save(out)
    for file in files:
        file.write_text(_face(made.statement(), file.suffix), encoding="utf-8")
    show(_result(made, costs, out, files), as_json, "", *_outcome(made, out, files))


def _require_told(ctx: typer.Context, folder: Path, resume: bool, discard: bool) -> None:
    """Raise where it is not clear whether a fit is to be finished or begun: nothing is paid for twice by mistake."""
    from discreet.models import unfinished

    if resume and discard:
        raise Misuse("--resume and --discard: one of them")
    there = unfinished.read(folder) is not None
    if not there and (resume or discard):
        raise Misuse(f"--{'resume' if resume else 'discard'}: there is no unfinished fit in {str(folder.parent)!r}")
    if there and not (resume or discard):
        raise Misuse(
            f"--out: {str(folder.parent)!r} holds a fit that was not finished, and was paid for. To finish it at no "
            f"further cost: {typed(ctx, '--resume')}. To give it up and pay for another: {typed(ctx, '--discard')}"
        )


def _give_up(folder: Path, ledger: "Ledger | None") -> None:
    from discreet.models import unfinished

    spent = unfinished.give_up(folder, ledger)
    said = f"epsilon = {round_up(spent.epsilon)} at delta = {round_up(spent.delta)}" if spent.cost else "nothing"
    typer.echo(f"discreet: the unfinished fit was given up; what it had released stays spent: {said}", err=True)


@contextmanager
def _told_if_stopped(ctx: typer.Context, model: Any, n_items: int, folder: Path) -> Iterator[None]:
    """If a fit stops, say what it has spent and how to go on: budget numbers only, no number about people."""
    from discreet.models import unfinished

    try:
        yield
    except BaseException as error:
        kept, said = unfinished.read(folder) is not None, "nothing was spent"
        if "guarantee_" in vars(model) and not kept:
            said = f"the fit was done, and its model is in {str(folder.parent)!r} if there was time to save it"
        elif kept or (getattr(model, "epsilon", None) is not None and model._not_resumable()):
            cost = round_up(model.plan(n_items).cost.epsilon(model.delta))
            said = f"up to epsilon = {cost} at delta = {round_up(model.delta)} was spent, and the fit cannot be resumed"
            if kept:
                said = (
                    f"epsilon = {cost} at delta = {round_up(model.delta)} stays set aside for this fit, and what it "
                    f"has released is kept in {str(folder)!r}. To finish it at no further cost: "
                    f"{typed(ctx, '--resume', less=['--discard'])}"
                )
        if isinstance(error, KeyboardInterrupt):
            typer.echo(f"discreet: stopped; {said}", err=True)
            raise typer.Exit(130) from None
        if kept and not ctx.params["resume"]:
            typer.echo(f"discreet: {said}", err=True)
        raise


def require_writable(out: Path, files: list[Path]) -> None:
    """Find out before hours of training, not after."""
    if out.exists() and not out.is_dir():
        raise ModelError(f"{str(out)!r}: it exists and is not a folder; give another")
    if out.is_dir() and {file.name for file in out.iterdir()} - {UNFINISHED} and not (out / "model.json").exists():
        raise ModelError(f"{str(out)!r}: this folder is not empty and holds no model; give another, or empty it")
    require_folder("--out", out)
    for file in files:
        if file.resolve().parent == out.resolve():
            raise Misuse(f"--statement: {str(file)!r} is in the model's folder; put it beside the model")
        require_file("--statement", file, FACES)


def _intention(model: "Model", ratings: "Interactions", source: str, costs: str) -> list[Any]:
    """What will be done, in public words alone."""
    from rich.markup import escape

    name = type(model).__name__
    private = models.is_private(type(model))
    rows = {
        "model": name + ("" if private else " ([bold red]NOT PRIVATE[/bold red])"),
        "parameters": escape(models.described(model)),
        "table": escape(source),
        **{f"public {key}": escape(value) for key, value in ratings.public_inputs.items()},
    }
    return [pairs(rows), *(["", costs] if costs else [])]


def _face(statement: "Statement", suffix: str) -> str:
    faces = {".html": statement.html, ".md": statement.__str__, ".json": statement.json}
    return faces[suffix.lower()]()


def _result(model: "Model", costs: str, out: Path, files: list[Path]) -> dict[str, Any]:
    guarantee = model.guarantee_
    return {
        "model": type(model).__name__,
        "parameters": {name: plain(value) for name, value in model.get_params(deep=False).items()},
        "private": guarantee.holds,
        "sentence": str(guarantee),
        "guarantee": guarantee.to_json(),
        "public_inputs": model.statement().certificate["public_inputs"],
        "notes": model.statement().certificate["notes"],
        "plan": costs or None,
        "items": _items(model),
        "out": str(out),
        "statement": [str(file) for file in files],
    }


def _outcome(model: "Model", out: Path, files: list[Path]) -> list[Any]:
    from discreet.privacy.statement import paid

    written = f"The statement is in {', '.join(map(str, files))}." if files else (
        "The privacy statement is inside; --statement statement.html writes it out."
    )  # fmt: skip
    items = _items(model)
    doubt = []
    if items and items["known too little"]:
        doubt = [
            f"Of {items['all']:,} items, {items['known too little']:,} are known too little to tell them from average."
        ]
    total = paid(model.statement().certificate)
    return [promise(model.guarantee_), *([total] if total else []), "", *doubt, f"The model is in {out}. {written}"]


def _items(model: "Model") -> dict[str, int] | None:
    """How many items there are, and how many of them the model says little about; None if it does not know."""
    if not hasattr(model, "item_knowledge"):
        return None
    known = model.item_knowledge("pyarrow")["known"].to_pylist()
    return {"all": len(known), "known too little": len(known) - sum(known)}
