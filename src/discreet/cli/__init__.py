"""The command `discreet`: one module per sub-command."""

import typer

from discreet.cli import datasets

app = typer.Typer(
    name="discreet",
    help="Recommenders with a provable privacy guarantee.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(datasets.app, name="datasets")


def main() -> None:
    """Run the command."""
    app()
