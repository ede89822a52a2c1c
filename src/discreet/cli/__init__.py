"""The command `discreet`: one module per sub-command."""

from typing import Annotated

import typer

from discreet import __version__
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
from discreet.cli.common import Group

app = typer.Typer(
    name="discreet",
    cls=Group,
    help="Recommenders with a provable privacy guarantee.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.demo)
app.command("train")(train.train)
app.command("recommend")(recommend.recommend)
app.command("evaluate")(evaluate.evaluate)
app.command("tradeoff")(tradeoff.tradeoff)
app.command("tune")(tune.tune)
app.command("export")(export.export)
app.command("serve")(serve.serve)
app.command("account")(account.account)
app.command("audit")(audit.audit)
app.command("reproduce")(reproduce.reproduce)
app.add_typer(ledger.app, name="ledger")
app.add_typer(datasets.app, name="datasets")
app.command("doctor")(doctor.doctor)


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
