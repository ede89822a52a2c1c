"""`discreet tune`: choose a model's parameters privately, and save the best model."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from discreet.cli import inputs
from discreet.cli.common import Misuse, by_commas, merged
from discreet.cli.output import nothing_spent, promise, show, spending_reported
from discreet.cli.train import require_writable


@dataclass(frozen=True)
class SearchBudget(inputs.Budget):
    """The budget of the whole search."""

    epsilon: Annotated[float | None, Option(help="What the whole search may spend.")] = None


def tune(
    ctx: typer.Context,
    source: inputs.Source,
    *,
    space: Annotated[
        list[str] | None, Option("--try", help="Values of a parameter, such as n_steps=2,4,8; all combinations count.")
    ] = None,
    out: Annotated[
        Path | None, Option("--out", "-o", help="The folder for the model. Without it, only a preview.")
    ] = None,
    model: inputs.ModelName = None,
    settings: inputs.Settings = None,
    trials: Annotated[float, Option(help="The average number of trials; the real one is secret.")] = 5.0,
    law: Annotated[
        str, Option(help="The distribution of their number: poisson, geometric or logarithmic.")
    ] = "poisson",
    metric: Annotated[str | None, Option(help="The metric that trials are compared by: rmse, recall@20, …")] = None,
    table: inputs.TrainingTable,
    budget: SearchBudget,
) -> None:
    """Choose parameters by a private search that pays for every trial. Without --out, show what a trial would get.

    Example: discreet tune ratings.parquet --try n_steps=2,4 --epsilon 4 --delta 1e-6 --items movies.csv --range 0.5 5

    The default parameters of a model cost nothing: try them first.
    """
    cls = inputs.find(model)
    made: Any = inputs.make(cls, merged(ctx, "settings", settings), budget.epsilon, budget.delta)
    if not inputs.is_private(cls):
        raise Misuse(f"{cls.__name__} is not private: there is nothing to pay for; try its parameters with evaluate")
    tried = merged(ctx, "space", space)
    with nothing_spent():
        ledger = budget.open(cls)
        if out is not None:
            require_writable(out, [])
        ratings = table.read(source, private=True)
        from discreet.tune import preview, search

    made = inputs.chosen(made, ratings)
    values = _space(cls=type(made), tried=tried)
    spend = (made.get_params()["epsilon"], made.get_params()["delta"])
    asked: dict[str, Any] = {"metric": metric or ("recall@20" if ratings.implicit else "rmse")}
    asked |= {"trials": trials, "law": law}
    if all(len(several) == 1 for several in values.values()):
        once = " ".join(f"--set {name}={several[0]}" for name, several in values.items())
        raise Misuse(f"--try: one setting leaves nothing to choose; give several values, or train with {once}")
    trial = preview(made, values, ratings.n_items, spend, **asked)
    planned = {
        "trials": trial.trials.mean,
        "settings": trial.settings,
        "trial": {"epsilon": trial.fit, "score epsilon": trial.score},
        "epsilon": trial.epsilon,
        "delta": trial.delta,
        "metric": trial.metric,
    }
    if out is None:
        show(planned, str(trial), "", "Nothing was spent. --out FOLDER searches, and saves the best model.")
        return
    show(None, str(trial), "")
    with spending_reported(ledger), inputs.settings_named(made):
        found = search(made, values, ratings, spend, ledger, **asked)
        found.model.save(out)
    result = {
        "model": type(found.model).__name__,
        "chosen": found.settings,
        "score": found.score,
        "sentence": str(found.guarantee_),
        "guarantee": found.guarantee_.to_json(),
        "out": str(out),
    }
    chosen = ", ".join(f"{name}={value}" for name, value in found.settings.items())
    said = f"Chosen: {chosen}, with {found.metric} about {found.score:.4g} (noisy, and the best of several)."
    show({**planned, **result}, said, promise(found.guarantee_), "", f"The model is in {out}.")


def _space(cls: Any, tried: list[str]) -> dict[str, list[Any]]:
    """Parameters and their values, from name=value,value texts."""
    found: dict[str, list[Any]] = {}
    for text in tried:
        name, sign, values = (part.strip() for part in text.partition("="))
        if not sign or not values:
            raise Misuse(f"--try: {text!r} must look like name=value,value, for instance n_steps=2,4,8")
        if name in found:
            raise Misuse(f"--try: {name} is given twice; put all its values after one =")
        found[name] = [inputs.parameter(cls, name, part, "--try") for part in by_commas(values) or ()]
    return found
