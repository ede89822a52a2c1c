"""`discreet reproduce`: the tables and figures of the papers, with the published values beside ours."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from discreet.cli.common import Misuse, completing
from discreet.cli.output import grid, require_file, require_plot, show

if TYPE_CHECKING:
    from discreet.papers.report import Results
    from discreet.papers.reproduction import Options, Reproduction


complete_names = completing("discreet.papers", "NAMES")


def reproduce(
    name: Annotated[
        str | None, Argument(help="A table or figure, such as dpals-fig4; see --list.", autocompletion=complete_names)
    ] = None,
    list_all: Annotated[
        bool, Option("--list", help="List all tables and figures, and whether their data is here.")
    ] = False,
    runs: Annotated[int | None, Option(help="Runs of each point; by default as in the paper.", min=1)] = None,
    as_published: Annotated[bool, Option("--as-published", help="Use only the noise that was published.")] = False,
    exact: Annotated[bool, Option("--exact", help="Use only the noise that epsilon needs.")] = False,
    generated: Annotated[
        bool, Option("--generated", help="Use generated data of the same size; every row says so.")
    ] = False,
    data: Annotated[str | None, Option(help="Use this data set instead of the paper's; every row says so.")] = None,
    source: Annotated[Path | None, Option(help="The file of the data set, if it is elsewhere.")] = None,
    quick: Annotated[
        bool, Option("--quick", help="Use little data, few points and one run, to check that it works.")
    ] = False,
    out: Annotated[Path | None, Option(help="A .json file for the rows. Rows that it has are not run again.")] = None,
    plot: Annotated[Path | None, Option(help="Where to draw the figure: .svg, .png, .pdf.")] = None,
) -> None:
    """Measure a table or figure of the papers again, and show the published values beside ours.

    Private methods are run with the noise that was published and with the noise that epsilon really needs. The numbers
    are exact, about test ratings, and not covered by any epsilon.

    Example: discreet reproduce dpals-table4
    """
    from discreet import papers
    from discreet.papers.reproduction import Options

    if list_all == (name is not None):
        raise Misuse("give the name of a table or figure; --list shows them")
    if list_all:
        found = [_entry(one) for one in papers.every()]
        show(found, grid(("name", "title", "data", "available"), map(_listed, found)))
        return
    if as_published and exact:
        raise Misuse("--as-published and --exact: give one of them; without them both are run")
    one = papers.find(name or "")
    _check_data(one, data, source, generated)
    require_file("--out", out)
    if plot is not None and one.plot is None:
        raise Misuse(f"--plot: {one.name} is a table")
    require_plot(plot)
    calibration: Literal["published", "exact"] | None = "published" if as_published else "exact" if exact else None
    where = None if source is None else str(source)
    results = _measured(one, Options(runs, quick, generated, data, where, calibration), out)
    if plot is not None:
        from discreet.papers.report import draw

        draw(one, results.rows, plot)
    show(results.document(), *_tables(results, plot))


def _entry(one: "Reproduction") -> dict[str, Any]:
    from discreet.data.datasets import CATALOG

    needs = [{"name": name, "path": None if (p := CATALOG[name].where()) is None else str(p)} for name in one.needs]
    return {
        "name": one.name,
        "paper": one.paper,
        "title": one.title,
        "data": needs,
        "available": all(data["path"] is not None for data in needs),
        "published_values": len(one.published),
        "runs": one.runs,
        "protocol": one.protocol,
    }


def _listed(entry: dict[str, Any]) -> list[str]:
    words = ", ".join(data["name"] for data in entry["data"]) or "none: made by a formula"
    return [entry["name"], entry["title"], words, "yes" if entry["available"] else "no; use --generated"]


def _check_data(one: "Reproduction", data: str | None, source: Path | None, generated: bool) -> None:
    given = [flag for flag, is_set in (("--data", data), ("--source", source), ("--generated", generated)) if is_set]
    if len(given) > 1:
        raise Misuse("--data, --source and --generated: give one of them")
    if given and not one.needs:
        raise Misuse(f"{given[0]}: {one.name} needs no data set")
    if source is not None and len(one.needs) > 1:
        raise Misuse(f"--source: {one.name} needs {' and '.join(one.needs)}; put both in the folder of data sets")


def _measured(one: "Reproduction", options: "Options", out: Path | None) -> "Results":
    """All rows: those in the file, and the missing ones, written as they are measured."""
    from discreet.papers.report import Results
    from discreet.parallel import Bar

    command = ["discreet", "reproduce", one.name, *options.flags, *([] if out is None else ["--out", str(out)])]
    results = Results(one, out, shlex.join(command))
    with Bar(one.name, unit="points") as bar:
        for row in one.rows(options, tuple(results.rows)):
            results.put(row)
            bar.advance(1, f"{row['method']}, epsilon {row['epsilon']}")
    return results


def _tables(results: "Results", plot: Path | None) -> list[Any]:
    from discreet.papers.report import HEADINGS, compared, table

    one, rows = results.reproduction, results.rows
    data = dict.fromkeys(row["data"] for row in rows)
    comparison = one.comparison(rows)
    shown: list[Any] = [f"{one.paper}, {one.title}", f"On: {'; '.join(data)}", "", one.protocol, ""]
    shown += [grid(HEADINGS, compared(comparison)), ""] if comparison else ["No number was published for this.", ""]
    shown.append(grid(*table(one, rows)))
    shown += ["", f"The rows are in {results.path}."] if results.path else []
    return [*shown, f"The plot is in {plot}."] if plot else shown
