"""The command `discreet`: one module per sub-command."""

import typer

from discreet.cli import account, datasets, demo, doctor, ledger
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
app.command("account")(account.account)
app.add_typer(ledger.app, name="ledger")
app.add_typer(datasets.app, name="datasets")
app.command("doctor")(doctor.doctor)


def main() -> None:
    """Run the command."""
    app()
