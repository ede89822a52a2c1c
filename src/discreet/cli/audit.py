"""`discreet audit`: try to break a model's guarantee, and report what was found."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from discreet.cli import inputs
from discreet.cli.common import Misuse
from discreet.cli.output import grid, require_file, show


def audit(
    model: Annotated[Path | None, Argument(help="The folder of a saved model.")] = None,
    name: Annotated[str | None, inputs.model_option("A private model: dpals, dpsvd, …")] = None,
    everything: Annotated[bool, Option("--all", help="Audit all private models.")] = False,
    zoo: Annotated[
        bool, Option("--zoo", help="Audit broken mechanisms, to check that the audit catches them.")
    ] = False,
    attack: Annotated[bool, Option("--attack", help="Run attacks against models with and without privacy.")] = False,
    full: Annotated[bool, Option("--full/--quick", help="Search for worst cases, and fit more often.")] = False,
    report: Annotated[Path | None, Option(help="Where to write the result as a web page.")] = None,
) -> None:
    """Audit a model's guarantee: measure how far one person can change what it releases, learns and shows to others.

    The model is fitted many times on made-up data, with and without one person. The exit code is 1 if the audit
    finds more than the guarantee allows.

    Example: discreet audit --model dpsvd --report audit.html
    """
    asked = [given for given in (model, name, everything or None) if given is not None]
    if len(asked) > 1 or not (asked or zoo or attack):
        raise Misuse("give the folder of a model, --model, or --all; or --zoo, or --attack")
    require_file("--report", report)
    import discreet.audit

    subject: Any = inputs.saved(model) if model is not None else None
    if name is not None:
        cls = inputs.find(name)
        if not inputs.is_private(cls):
            raise Misuse(f"--model: {cls.__name__} is not private, so there is no guarantee to audit")
        subject = cls.__name__
    found = discreet.audit.run(
        subject, effort="full" if full else "quick", zoo=zoo, attack=attack, everything=everything
    )
    if report is not None:
        report.write_text(found.html(), encoding="utf-8")
    shown: list[Any] = [found.verdict(), ""]
    for title, headings, rows in found.tables():
        shown += [f"{title}:", grid(headings, rows), ""]
    shown += [found.chances(), *([f"The report is in {report}."] if report else [])]
    show({**found.to_json(), **({"report": str(report)} if report else {})}, *shown)
    if not found.ok:
        raise typer.Exit(1)
