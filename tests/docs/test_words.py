"""Phrases that were edited out stay out of what users read."""

import re

from tests.docs.pages import PAGES, ROOT

GONE = r"as unlikely|not yours yet|; likewise\.|\bbefore all\b|is no secret|\b[Ss]he\b"


def test_phrases_that_were_edited_out() -> None:
    sources = [path for path in (ROOT / "src").rglob("*.py") if "cli" not in path.parts]
    found = {path.name: re.findall(GONE, path.read_text(encoding="utf-8")) for path in (*PAGES, *sources)}
    assert not {name: words for name, words in found.items() if words}
