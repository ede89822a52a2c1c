"""The command `discreet`: one module per sub-command."""

from typing import Annotated

import typer

from discreet.cli import (
    account,
    audit,
    datasets,
    demo,
    doctor,
    evaluate,
    export,
    ledger,
    recommend,
    reproduce,
    serve,
    tradeoff,
    train,
    tune,
)
from discreet.cli.common import Command, Group
from discreet.version import __version__

app = typer.Typer(
    name="discreet",
    cls=Group,
    help=(
        "Recommenders with a provable privacy guarantee.\n\n"
        "Each command's --help ends with an example to paste. `discreet datasets sample` makes up the tables that they "
        "need; `discreet train --help` goes on from there."
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo", cls=Command)(demo.demo)
app.command("train", cls=Command)(train.train)
app.command("recommend", cls=Command)(recommend.recommend)
app.command("evaluate", cls=Command)(evaluate.evaluate)
app.command("tradeoff", cls=Command)(tradeoff.tradeoff)
app.command("tune", cls=Command)(tune.tune)
app.command("export", cls=Command)(export.export)
app.command("serve", cls=Command)(serve.serve)
app.command("account", cls=Command)(account.account)
app.command("audit", cls=Command)(audit.audit)
app.command("reproduce", cls=Command)(reproduce.reproduce)
app.command("doctor", cls=Command)(doctor.doctor)
app.add_typer(ledger.app, name="ledger")
app.add_typer(datasets.app, name="datasets")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"discreet {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")] = False,
) -> None:
    pass


def main() -> None:
    """Run the command."""
    app()
