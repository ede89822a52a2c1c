"""`discreet audit`: what was tried to break a model's guarantee, and what was found."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from discreet.cli import config, models
from discreet.cli.common import Json, Misuse, grid, require_file, show


def audit(
    model: Annotated[Path | None, typer.Argument(help="The folder of a saved model.")] = None,
    name: Annotated[
        str | None,
        typer.Option("--model", "-m", autocompletion=models.names, help="A private model by its name: dpals, dpsvd, …"),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All private models that there are.")] = False,
    zoo: Annotated[bool, typer.Option("--zoo", help="Try broken mechanisms: does the audit catch them?")] = False,
    attack: Annotated[bool, typer.Option("--attack", help="Run attacks, against private models and others.")] = False,
    full: Annotated[
        bool, typer.Option("--full/--quick", help="Search for people who break a bound, and fit many times: minutes.")
    ] = False,
    report: Annotated[Path | None, typer.Option(help="Where to write the same as a page.")] = None,
    config_file: config.Config = None,
    as_json: Json = False,
) -> None:
    """Audit a model's guarantee: what can one person change in what it releases, says, learns and shows to others?

    The model is fitted again and again on made-up data, with and without one person. Exit code 1 if more is found than
    the guarantee allows.

    Example: discreet audit --model dpsvd --report audit.html
    """
    asked = [given for given in (model, name, everything or None) if given is not None]
    if len(asked) > 1 or not (asked or zoo or attack):
        raise Misuse("give the folder of a model, --model, or --all; or --zoo, or --attack")
    require_file("--report", report)
    import discreet.audit

    effort: Literal["quick", "full"] = "full" if full else "quick"
    subject: Any = None
    if model is not None:
        subject = discreet.load(model)
    elif name is not None:
        subject = models.find(name).__name__
    found = discreet.audit.run(subject, effort=effort, zoo=zoo, attack=attack, everything=everything)
    if report is not None:
        report.write_text(found.html(), encoding="utf-8")
    shown: list[Any] = [found.verdict(), ""]
    for title, headings, rows in found.tables():
        shown += [f"{title}:", grid(headings, rows), ""]
    shown += [found.chances(), *([f"The same as a page is in {report}."] if report else [])]
    show({**found.to_json(), **({"report": str(report)} if report else {})}, as_json, *shown)
    if not found.ok:
        raise typer.Exit(1)
