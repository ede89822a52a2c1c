"""`discreet reproduce`: every table and figure of the papers, with the published values beside ours."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from discreet.cli import config
from discreet.cli.common import Json, Misuse, grid, require_file, show
from discreet.errors import MissingExtra

if TYPE_CHECKING:
    from discreet.papers.report import Results
    from discreet.papers.reproduction import Options, Reproduction


def names(incomplete: str) -> list[str]:
    """Names of tables and figures, for the shell to complete."""
    from discreet.papers import NAMES

    return [name for name in NAMES if name.startswith(incomplete)]


def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(help="A table or figure that --list shows, such as dpals-fig4.", autocompletion=names),
    ] = None,
    list_all: Annotated[
        bool, typer.Option("--list", help="Show all of them, and whether their data are there.")
    ] = False,
    runs: Annotated[int | None, typer.Option(help="Runs of each point; by default as in the paper.", min=1)] = None,
    as_published: Annotated[
        bool, typer.Option("--as-published", help="Private methods with the published noise only.")
    ] = False,
    exact: Annotated[bool, typer.Option("--exact", help="Only those whose noise is what epsilon takes.")] = False,
    generated: Annotated[
        bool, typer.Option("--generated", help="On made-up data of the same size; every row says so.")
    ] = False,
    data: Annotated[
        str | None, typer.Option(help="On this data set in the place of the paper's; every row says so.")
    ] = None,
    source: Annotated[Path | None, typer.Option(help="The file of the data set, if it is elsewhere.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Little data, few points, one run: does it work?")] = False,
    out: Annotated[
        Path | None, typer.Option(help="A .json file for the rows, as they come; what it has is not run again.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Where to draw the figure: .svg, .png, .pdf.")] = None,
    config_file: config.Config = None,
    as_json: Json = False,
) -> None:
    """Measure a table or figure of the papers again, and show the published values beside ours.

    Private methods are run with the noise that was published and with the noise that epsilon truly takes. The numbers
    are exact, about test ratings, and not covered by any epsilon.

    Example: discreet reproduce dpals-table4
    """
    from discreet import papers
    from discreet.papers.reproduction import Options

    if list_all == (name is not None):
        raise Misuse("give the name of a table or figure; --list shows them")
    if list_all:
        found = [_entry(one) for one in papers.every()]
        show(found, as_json, grid(("name", "title", "data", "at hand"), [_listed(one) for one in found]))
        return
    if as_published and exact:
        raise Misuse("--as-published and --exact: one of them; without them both are run")
    one = papers.find(name or "")
    _check_data(one, data, source, generated)
    _check_files(one, out, plot)
    calibration: Literal["published", "exact"] | None = "published" if as_published else "exact" if exact else None
    where = None if source is None else str(source)
    results = _measured(one, Options(runs, quick, generated, data, where, calibration), out)
    if plot is not None:
        from discreet.papers.plots import draw

        draw(one, results.rows, plot)
    show(results.document(), as_json, *_tables(results, plot))


def _entry(one: "Reproduction") -> dict[str, Any]:
    """What --list says of a table or figure."""
    from discreet.data.datasets import CATALOG

    needs = [{"name": name, "path": None if (p := CATALOG[name].where()) is None else str(p)} for name in one.needs]
    return {
        "name": one.name,
        "paper": one.paper,
        "title": one.title,
        "data": needs,
        "at_hand": all(data["path"] is not None for data in needs),
        "published_values": len(one.published),
        "runs": one.runs,
        "protocol": one.protocol,
    }


def _listed(entry: dict[str, Any]) -> list[str]:
    words = ", ".join(data["name"] for data in entry["data"]) or "none: made by a formula"
    return [entry["name"], entry["title"], words, "yes" if entry["at_hand"] else "no; --generated stands in"]


def _check_data(one: "Reproduction", data: str | None, source: Path | None, generated: bool) -> None:
    given = [flag for flag, is_set in (("--data", data), ("--source", source), ("--generated", generated)) if is_set]
    if len(given) > 1:
        raise Misuse("--data, --source and --generated: one of them says what to run on")
    if given and not one.needs:
        raise Misuse(f"{given[0]}: {one.name} needs no data set")
    if source is not None and len(one.needs) > 1:
        raise Misuse(f"--source: {one.name} needs {' and '.join(one.needs)}; put both where data sets are looked for")


def _check_files(one: "Reproduction", out: Path | None, plot: Path | None) -> None:
    """Find out before hours of work, not after."""
    require_file("--out", out)
    if plot is None:
        return
    if one.plot is None:
        raise Misuse(f"--plot: {one.name} is a table")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("--plot", "plot") from None
    require_file("--plot", plot, [f".{kind}" for kind in Figure().canvas.get_supported_filetypes()])


def _measured(one: "Reproduction", options: "Options", out: Path | None) -> "Results":
    """All rows: those of the file, and those that it lacks, written as they come."""
    from discreet.data.progress import Bar
    from discreet.papers.report import Results

    command = ["discreet", "reproduce", one.name, *options.flags, *([] if out is None else ["--out", str(out)])]
    results = Results(one, out, shlex.join(command))
    with Bar(one.name, unit="points") as bar:
        for row in one.rows(options, tuple(results.rows)):
            results.put(row)
            bar.advance(1, f"{row['method']}, epsilon {row['epsilon']}")
    return results


def _tables(results: "Results", plot: Path | None) -> list[Any]:
    """The protocol, published values beside ours, all rows."""
    from discreet.papers.report import HEADINGS, compared, table

    one, rows = results.reproduction, results.rows
    data = dict.fromkeys(row["data"] for row in rows)
    comparison = one.comparison(rows)
    shown: list[Any] = [f"{one.paper}, {one.title}", f"On: {'; '.join(data)}", "", one.protocol, ""]
    shown += [grid(HEADINGS, compared(comparison)), ""] if comparison else ["No number was published for this.", ""]
    shown.append(grid(*table(one, rows)))
    return [*shown, *(["", f"The rows are in {results.path}."] if results.path else [])] + (
        [f"The plot is in {plot}."] if plot else []
    )
