"""Pages of the documentation, and how what they show is run."""

import re
import shlex
from pathlib import Path

from typer.testing import CliRunner

from discreet.cli.commands import app

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
# Run by themselves elsewhere: endless, slow, or fetching.
ELSEWHERE = ("serve", "demo", "tradeoff", "tune", "reproduce", "datasets fetch", "audit")
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", flags=re.S | re.M)


def ids(path: Path) -> str:
    """A page's name in the output of the tests."""
    return str(path.relative_to(ROOT))


def run(page: Path) -> dict[str, object]:
    """Run a page where we are: blocks marked python and console, in order; those marked py and sh are only shown.

    Python is in one namespace. Of a console, the lines `$ discreet ...` are run, and must succeed.
    """
    namespace: dict[str, object] = {"__name__": "docs"}
    for kind, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "python":
            exec(compile(block, str(page), "exec"), namespace)
            continue
        for line in block.splitlines():
            command = line.removeprefix("$ discreet ")
            made = (
                command == "datasets sample" and Path("ratings.parquet").exists()
            )  # it would not replace what is there
            if command != line and not command.startswith(ELSEWHERE) and not made:
                words = shlex.split(command)
                result = CliRunner().invoke(app, words[: words.index(">")] if ">" in words else words)
                assert result.exit_code == 0, f"{line}\n{result.output}"
    return namespace
