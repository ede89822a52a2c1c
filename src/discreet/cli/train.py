"""`discreet train`: a table in, a model and its privacy statement out."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from discreet.cli import inputs
from discreet.cli.common import Misuse, merged, typed
from discreet.cli.output import (
    nothing_spent,
    pairs,
    promise,
    require_file,
    require_folder,
    show,
    spending_reported,
    warnings_shown,
)
from discreet.errors import ModelError, PrivacyError
from discreet.validation import round_up

if TYPE_CHECKING:
    from discreet.data import Interactions
    from discreet.models.base import Model
    from discreet.privacy.ledger import Ledger, Preview

UNFINISHED = "unfinished"  # the same as in discreet.models.model_folder, which is slow to import
PAID = "The whole plan was paid for when this fit began: nothing more is spent."


def train(
    ctx: typer.Context,
    source: inputs.Source,
    out: Annotated[Path, Option("--out", "-o", help="The folder for the model. An existing model is replaced.")],
    *,
    model: inputs.ModelName = None,
    settings: inputs.Settings = None,
    features: inputs.Features = None,
    title_column: inputs.TitleColumn = None,
    continued: Annotated[
        Path | None, Option("--continue", help="A saved model to continue, at the cost of one more fit.")
    ] = None,
    table: inputs.TrainingTable,
    budget: inputs.Budget,
    statement: Annotated[list[Path] | None, Option(help="Where to write the statement: .html, .md or .json.")] = None,
    resume: Annotated[
        bool, Option("--resume", help="Finish the interrupted fit in --out, which is already paid for.")
    ] = False,
    discard: Annotated[
        bool, Option("--discard", help="Discard that fit and begin again. What it released stays spent.")
    ] = False,
) -> None:
    """Train a model on a table of who liked what, and save it.

    Example: discreet train ratings.parquet --epsilon 1 --delta 1e-6 --items movies.csv --range 0.5 5 --out model

    The command first shows what it will do and what that costs. If a private fit is interrupted, --out keeps what was
    paid for. To finish the fit, run the same command with --resume.
    """
    files = statement or []
    fit = out / UNFINISHED
    if continued is not None:
        if model or features or settings or resume or discard:
            raise Misuse("--continue: the model keeps its parameters; leave out --model, --features, --set, --resume")
        require_writable(out, files)
        _require_clear(ctx, fit, resume, discard)
        _continue(continued, source, table, budget, title_column, out, files)
        return
    with nothing_spent(more=resume or discard):
        cls = inputs.find(model)
        parameters = inputs.featured(cls, merged(ctx, "settings", settings), features)
        made = inputs.make(cls, parameters, budget.epsilon, budget.delta)
        ledger, private = budget.open(cls), inputs.is_private(cls)
        require_writable(out, files)
        _require_clear(ctx, fit, resume, discard)
        ratings = _titled(table.read(source, private=private, chooses=private), title_column)
        made = inputs.chosen(made, ratings)
        if resume and made._not_resumable():
            raise Misuse(f"--resume: the fit in {str(out)!r} is of another model; give the options it began with")
        if discard:
            _discard(fit, ledger)
        spends = getattr(made, "epsilon", None) is not None
        n_items = "private" if ratings.catalogue.private else ratings.n_items
        costs = PAID if resume else str(_preview(made, ratings, n_items, ledger)) if spends else ""
        hint = inputs.suggested(made, ratings)
        told = [line for part in (costs, hint) if part for line in ("", part)]
        show(None, _intention(made, ratings, source), *told)
    checkpoint = {} if made._not_resumable() or ratings.catalogue.private else {"checkpoint": fit}
    with _interruption_reported(ctx, made, n_items, fit), inputs.settings_named(made), warnings_shown():
        with _checkpoint_named(resume):
            made.fit(ratings, ledger=ledger, **checkpoint)
        made.save(out)
    _show_result(made, costs, out, files)


def _titled(ratings: "Interactions", column: str | None) -> "Interactions":
    return ratings if column is None else replace(ratings, catalogue=inputs.titled(ratings.catalogue, column))


def _continue(
    folder: Path,
    source: str,
    table: inputs.TrainingTable,
    budget: inputs.Budget,
    title_column: str | None,
    out: Path,
    files: list[Path],
) -> None:
    """Fit a saved model once more, to all ratings so far: what it has released before still counts."""
    with nothing_spent(more=True):
        from discreet.privacy.rendering import paid

        model = inputs.saved(folder, "--continue")
        if not hasattr(model, "fit_more"):
            raise Misuse(f"--continue: {type(model).__name__} cannot be continued, only DPALS can; train a new model")
        if budget.delta not in (None, model.delta):
            raise Misuse(f"--delta: the model has delta {model.delta:g}, and keeps it; leave out --delta")
        ledger = budget.open(type(model))
        if ledger is None and paid(model.statement().certificate):
            raise Misuse("--ledger: a ledger paid for the model, and has to pay for its continuation; name it")
        ratings = _titled(table.read(source, private=True), title_column)
        low, high = model.value_range_
        if ratings.value_range != (low, high):
            raise Misuse(f"--range: the model keeps the range that it was trained with; give --range {low:g} {high:g}")
        plan = model.plan_more(ratings.n_items, epsilon=budget.epsilon)
        paying = ledger or model._more(budget.epsilon, None)._own_ledger()
        total = round_up((model.guarantee_.cost + plan.cost).epsilon(model.delta))
        costs = f"{paying.preview(plan)}\nthe model will then have epsilon = {total} at delta = {model.delta:g} in all"
        show(None, _intention(model, ratings, source), "", costs)
    with spending_reported(ledger), warnings_shown():
        model.fit_more(ratings, ledger, epsilon=budget.epsilon)
        model.save(out)
    _show_result(model, costs, out, files)


def _preview(model: Any, ratings: "Interactions", n_items: int | str, ledger: "Ledger | None") -> "Preview":
    from discreet.models.private import PrivateModel

    if not isinstance(model, PrivateModel):
        found: Preview = model.preview(n_items, ledger)
        return found
    with inputs.settings_named(model):
        if not ratings.catalogue.private:
            model._check_data(ratings)
        return model._preview_for(ratings, ledger)  # for some models, what is released depends on the kind of data


def _require_clear(ctx: typer.Context, folder: Path, resume: bool, discard: bool) -> None:
    """Raise unless it is clear whether to finish a fit or begin one, so that nothing is paid for twice."""
    from discreet.models import unfinished

    if resume and discard:
        raise Misuse("--resume and --discard: give one of them")
    there = unfinished.read(folder) is not None
    if not there and (resume or discard):
        raise Misuse(f"--{'resume' if resume else 'discard'}: there is no unfinished fit in {str(folder.parent)!r}")
    if there and not (resume or discard):
        raise Misuse(
            f"--out: {str(folder.parent)!r} has an unfinished fit that was paid for. To finish it at no further cost: "
            f"{typed(ctx, '--resume')}. To discard it and pay for another: {typed(ctx, '--discard')}"
        )


def _discard(folder: Path, ledger: "Ledger | None") -> None:
    """Discard an unfinished fit, and say what it has spent."""
    from discreet.models import unfinished

    spent = unfinished.give_up(folder, ledger)
    said = f"epsilon = {round_up(spent.epsilon)} at delta = {round_up(spent.delta)}" if spent.cost else "nothing"
    typer.echo(f"discreet: the unfinished fit was discarded; what stays spent: {said}", err=True)


@contextmanager
def _checkpoint_named(resume: bool) -> Iterator[None]:
    """Make errors about a fit that cannot be finished mention --resume and --discard."""
    try:
        yield
    except (ModelError, PrivacyError) as error:
        if not resume or not str(error).startswith("checkpoint: "):
            raise
        said = str(error).replace("checkpoint:", "--resume:", 1)
        raise type(error)(f"{said}; or give --discard instead of --resume to begin again") from None


@contextmanager
def _interruption_reported(ctx: typer.Context, model: Any, n_items: int | str, folder: Path) -> Iterator[None]:
    """If a fit stops, say what it has spent and how to continue: only budget numbers, none about people."""
    from discreet.models import unfinished

    try:
        yield
    except BaseException as error:
        kept, said = unfinished.read(folder) is not None, "nothing was spent"
        if "guarantee_" in vars(model) and not kept:
            said = f"the fit was done, and its model is in {str(folder.parent)!r} if there was time to save it"
        elif kept or (getattr(model, "epsilon", None) is not None and (model._not_resumable() or n_items == "private")):
            cost = round_up(model.preview(n_items).cost.epsilon_at(model.delta))
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
    """Raise unless the model and its statements can be written, before hours of training."""
    if out.exists() and not out.is_dir():
        raise Misuse(f"--out: {str(out)!r} is not a folder; name another")
    if out.is_dir() and {file.name for file in out.iterdir()} - {UNFINISHED} and not (out / "model.json").exists():
        raise Misuse(f"--out: {str(out)!r} is not empty and holds no model; name another folder, or empty it")
    require_folder("--out", out, of_model=True)
    for file in files:
        if file.resolve().parent == out.resolve():
            raise Misuse(f"--statement: {str(file)!r} is in the model's folder; put it beside the model")
        require_file("--statement", file, (".html", ".md", ".json"))


def _intention(model: "Model", ratings: "Interactions", source: str) -> Any:
    """A description of what will be done, without anything private."""
    from rich.markup import escape

    warning = "" if inputs.is_private(type(model)) else " ([bold red]NOT PRIVATE[/bold red])"
    parameters = ", ".join(f"{name}={value}" for name, value in model.get_params(deep=False).items())
    rows = {"model": type(model).__name__ + warning, "parameters": escape(parameters), "table": escape(source)}
    if ratings.catalogue.private:
        rows["items"] = "private: a share of the budget chooses them" if not warning else "private"
    return pairs({**rows, **{f"public {key}": escape(value) for key, value in ratings.public_inputs.items()}})


def _show_result(model: "Model", costs: str, out: Path, files: list[Path]) -> None:
    """Write the statements, and summarize what was learned and guaranteed."""
    from discreet.privacy.rendering import paid

    stated = model.statement()
    for file in files:
        text = {".html": stated.html, ".md": stated.__str__, ".json": stated.json}[file.suffix.lower()]()
        file.write_text(text, encoding="utf-8")
    guarantee, certificate = model.guarantee_, model.statement().certificate
    known = model.item_knowledge("pyarrow")["known"].to_pylist() if hasattr(model, "item_knowledge") else None
    items = None if known is None else {"all": len(known), "known too little": len(known) - sum(known)}
    data = {
        "model": type(model).__name__,
        "parameters": model.get_params(deep=False),
        "private": guarantee.holds,
        "sentence": str(guarantee),
        "guarantee": guarantee.to_json(),
        "public_inputs": certificate["public_inputs"],
        "notes": certificate["notes"],
        "plan": costs or None,
        "items": items,
        "out": str(out),
        "statement": [str(file) for file in files],
    }
    lines: list[Any] = [promise(guarantee), *filter(None, [paid(certificate)]), ""]
    if model.catalogue_.selection is not None:
        lines.append(f"Items that were chosen privately: {len(model.items_):,}. The model knows no others.")
    if items and items["known too little"]:
        few = f"{items['known too little']:,} of {items['all']:,} items"
        line = f"The model knows too little about {few} to tell them from average."
        if items["known too little"] == items["all"]:
            line += " It needs more people or a larger epsilon."
        lines.append(line)
    written = "The privacy statement is inside; --statement statement.html writes it to a file."
    if files:
        written = f"The statement is in {', '.join(map(str, files))}."
    show(data, "", *lines, f"The model is in {out}. {written}")
