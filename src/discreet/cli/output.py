"""What commands write: files, which are checked before a budget is spent; text for people, and JSON."""

import json
import os
import secrets
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from discreet.cli.common import Misuse, in_options, json_wanted, running, stopped
from discreet.errors import MissingExtra
from discreet.validation import round_up

if TYPE_CHECKING:
    from rich.text import Text

    from discreet.privacy import Guarantee, Ledger


def require_file(flag: str, file: Path | None, endings: Sequence[str] = ()) -> None:
    """Raise unless a file can be written and has one of these endings, if any are given."""
    if file is None:
        return
    if endings and file.suffix.lower() not in endings:
        raise Misuse(f"{flag}: the name must end in {' or '.join(endings)}, but {str(file)!r} does not")
    try:
        if file.exists():
            file.open("r+b").close()  # opening it like this changes nothing
        else:
            _try_to_write(file)
    except OSError as error:
        raise Misuse(f"{flag}: {str(file)!r} is not a file that can be written ({error.strerror})") from None


def require_folder(flag: str, folder: Path, *, of_model: bool = False) -> None:
    """Raise unless files can be written in a folder, which may not exist yet. Leaves nothing behind.

    Only a model (`of_model`) may be written where a model is: saving it replaces the whole folder.
    """
    if not of_model and (folder / "model.json").exists():
        raise Misuse(f"{flag}: {str(folder)!r} holds a model, and nothing else belongs there; name another folder")
    made = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _try_to_write(folder / f".{secrets.token_hex(8)}.tmp")
    except OSError as error:
        raise Misuse(f"{flag}: {str(folder)!r} is not a folder that can be written ({error.strerror})") from None
    finally:
        for one in made:
            with suppress(OSError):
                one.rmdir()


def _try_to_write(file: Path) -> None:
    with file.open("xb") as opened_file:
        try:
            opened_file.write(bytes(4096))
            opened_file.flush()
            os.fsync(opened_file.fileno())
        finally:
            file.unlink()


def figure(flag: str = "--plot", **options: Any) -> Any:
    """A new matplotlib figure."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra(flag, "plot") from None
    return Figure(layout="constrained", **options)


def require_plot(file: Path | None) -> None:
    """Raise unless --plot can be drawn and written."""
    if file is not None:
        require_file("--plot", file, [f".{kind}" for kind in figure().canvas.get_supported_filetypes()])


@contextmanager
def nothing_spent(more: bool = False) -> Iterator[None]:
    """If Ctrl-C stops a command before it spends, say so. With `more`, something was spent by an earlier command."""
    try:
        yield
    except KeyboardInterrupt:
        raise stopped(f"nothing {'more ' if more else ''}was spent") from None


@contextmanager
def spending_reported(ledger: "Ledger | None") -> Iterator[None]:
    """If Ctrl-C stops a command that spends and cannot be resumed, say what the ledger has spent."""
    before = None if ledger is None else ledger.spent
    try:
        yield
    except KeyboardInterrupt:
        said = "no ledger was named, so none was charged"
        if ledger is not None and before is not None:
            after, was, at = ledger.spent, round_up(before.epsilon), f"at delta = {round_up(ledger.delta)}"
            said = f"the ledger has spent epsilon = {was} {at}, as before; nothing was charged"
            if after.cost != before.cost:
                said = (
                    f"the ledger has now spent epsilon = {round_up(after.epsilon)} {at}, and {was} before. What was "
                    "charged stays charged, and this command cannot be resumed"
                )
        typer.echo(f"discreet: stopped; {said}", err=True)
        raise typer.Exit(130) from None


@contextmanager
def warnings_shown() -> Iterator[None]:
    """Show warnings of the library as lines on standard error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for line in dict.fromkeys(str(warning.message) for warning in caught):
        typer.echo(f"discreet: {in_options(line, running.get())}", err=True)


def is_json() -> bool:
    """Whether the command was given --json."""
    return json_wanted.get()


def show(data: Any, *tables: Any) -> None:
    """Print the data as JSON, or else tables and strings. Without data, --json prints nothing."""
    if is_json():
        if data is not None:
            show_json(data)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console()
    for table in tables:
        words = isinstance(table, str | Text)  # not wrapped, so that it can be copied; labels may have brackets
        console.print(table, highlight=False, soft_wrap=words, markup=not words)


def show_json(data: Any) -> None:
    """Print data as JSON; ids of types that JSON does not have become text."""
    typer.echo(json.dumps(data, indent=2, allow_nan=False, default=str))


def pairs(rows: Mapping[str, object]) -> Any:
    """A table of names and values."""
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, value in rows.items():
        table.add_row(f"[bold]{name}[/bold]", str(value))
    return table


def grid(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> Any:
    """A table of rows. Cells are shown without markup, as titles may have brackets."""
    from rich.table import Table
    from rich.text import Text

    table = Table(*headings, box=None, padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(*(Text("" if cell is None else str(cell)) for cell in row))
    return table


def promise(guarantee: "Guarantee") -> "Text":
    """The guarantee's sentence, in red if there is no guarantee."""
    from rich.text import Text

    return Text(str(guarantee), style="bold" if guarantee.holds else "bold red")
