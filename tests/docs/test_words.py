"""Prose in American English: words in vocabulary.txt stay out of what users read."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT

LINES = (Path(__file__).parent / "vocabulary.txt").read_text(encoding="utf-8").splitlines()
VOCABULARY = dict(line.split("\t") for line in LINES if not line.startswith("#"))
SOURCES = [path for kind in ("*.py", "*.js", "*.html") for path in sorted((ROOT / "src").rglob(kind))]
CODE = re.compile(r"^```.*?^```|`[^`\n]+`", flags=re.S | re.M)  # names of the interface have their own spelling


@pytest.mark.parametrize("pattern", VOCABULARY)
def test_prose_avoids(pattern: str) -> None:
    found = []
    for path in (*PAGES, *SOURCES):
        text = CODE.sub("", path.read_text(encoding="utf-8"))
        found += [f"{path.relative_to(ROOT)}: {match[0]!r}" for match in re.finditer(pattern, text)]
    assert not found, f"write {VOCABULARY[pattern]} instead: {'; '.join(found)}"


def test_the_vocabulary_finds_what_it_lists() -> None:
    assert len(VOCABULARY) > 20
    assert re.search("|".join(VOCABULARY), "whoever is at hand makes it anew")
    assert not re.search("|".join(VOCABULARY), "People who are available train it again")
