"""What the sub-commands share: errors as one sentence, and output for people or for machines."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from discreet.errors import DiscreetError

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class Group(TyperGroup):
    """The command itself: an error of ours becomes one line on standard error and exit code 1."""

    def invoke(self, ctx: Any) -> Any:
        """Run a sub-command."""
        try:
            return super().invoke(ctx)
        except (DiscreetError, OSError) as error:
            typer.echo(f"discreet: {error}", err=True)
            raise typer.Exit(1) from None


def show(data: Any, as_json: bool, *tables: Any) -> None:
    """Print the data as JSON, or the rich tables and strings made of it."""
    if as_json:
        typer.echo(json.dumps(data, indent=2, allow_nan=False))
        return
    from rich.console import Console

    console = Console()
    for table in tables:  # sentences are wrapped by the terminal, so that they can be copied
        words = isinstance(table, str)  # shown as they are: a label may hold brackets
        console.print(table, highlight=False, soft_wrap=words, markup=not words)


def pairs(rows: Mapping[str, object]) -> Any:
    """A table of names and values."""
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, value in rows.items():
        table.add_row(f"[bold]{name}[/bold]", str(value))
    return table
