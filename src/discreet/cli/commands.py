"""The command line: all commands together."""

from typing import Annotated

import typer
from typer import Option

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
    split,
    train,
    tune,
)
from discreet.cli.common import Group, command
from discreet.version import __version__

app = typer.Typer(
    name="discreet",
    cls=Group,
    help=(
        "Recommenders with a provable privacy guarantee.\n\n"
        "The help of each command ends with an example to paste. `discreet datasets sample` generates the tables that "
        "the examples use; continue with `discreet train --help`."
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for function in (
    demo.demo,
    train.train,
    recommend.recommend,
    recommend.items,
    split.split,
    evaluate.evaluate,
    evaluate.tradeoff,
    tune.tune,
    export.export,
    export.serve,
    account.account,
    audit.audit,
    reproduce.reproduce,
    doctor.doctor,
):
    command(app)(function)
app.add_typer(ledger.app, name="ledger")
app.add_typer(datasets.app, name="datasets")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"discreet {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
    debug: Annotated[bool, Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    pass
