"""The README: what its example prints, and the plot beside it."""

import contextlib
import importlib.util
import io
import re
from pathlib import Path

from tests.docs.pages import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_example_prints_what_stands_below_it() -> None:
    code, shown = re.findall(r"^```(?:python|text)\n(.*?)^```", README, flags=re.S | re.M)[:2]
    assert len([line for line in code.splitlines() if line]) == 5
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    ours, theirs = (text.strip().splitlines() for text in (printed.getvalue(), shown))
    assert ours[-1] == theirs[-1]  # the guarantee
    assert ours[0].split() == theirs[0].split()
    row = r"[123] +\d+ +[\d.e-]+ +Film \d+"  # which items: noise decides
    assert len(ours) == len(theirs) == 5
    assert all(re.fullmatch(row, line.strip()) for line in (*ours[1:4], *theirs[1:4]))


def test_the_plot_is_drawn_from_the_results_that_there_are(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("plot_results", ROOT / "scripts" / "plot_results.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.draw(tmp_path / "again.svg")
    kept, again = (
        (path).read_text(encoding="utf-8") for path in (ROOT / "docs/results/accuracy.svg", tmp_path / "again.svg")
    )
    points = r"<text[^>]*>([^<]*)</text>|<use [^>]*x=\"([\d.]+)\" y=\"([\d.]+)\""
    assert re.findall(points, kept) == re.findall(points, again)
