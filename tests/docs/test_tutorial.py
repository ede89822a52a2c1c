"""The tutorial, as it stands, to its end: recommendations in a browser."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import missing
from tests.docs.pages import ROOT, run
from tests.web.hosting import Unavailable, chromium, hosted


def test_the_tutorial_from_nothing_to_a_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tutorial = ROOT / "docs" / "tutorial.md"
    assert not re.search("pandas|polars|matplotlib", tutorial.read_text(encoding="utf-8"))  # `pip install .` will do
    names = run(tutorial)
    assert (tmp_path / "statement.html").exists()
    site = tmp_path / "film-evening"
    files = {str(path.relative_to(site)): path.read_bytes() for path in site.rglob("*") if path.is_file()}
    model: Any = names["model"]
    try:
        with chromium() as browser, hosted(files) as address:
            page = browser.new_page()
            page.goto(address)
            page.wait_for_selector("#recommendations li")
            assert page.title() == "Film evening"
            page.fill("#search", "film 14")
            page.locator("#found li").first.click()
            page.locator("#history li").first.locator("label.star").nth(4).click()
            kept = page.evaluate("Object.entries(localStorage).find(([key]) => key !== 'discreet:theme')[1]")
            shown = page.locator("#recommendations .name").all_inner_texts()
    except Unavailable as reason:
        missing("Chromium", str(reason))
    history = {int(item): rating for item, rating in json.loads(kept)["ratings"]}
    assert list(history.values()) == [5]
    wanted = model.recommend(history, n=12).titles
    assert len(set(shown) & set(wanted)) > 9  # vectors are rounded, so that near ties may change places
