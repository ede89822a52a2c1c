"""Proofs: each names its code, and has been compared with it since the code last changed."""

import importlib.util
import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

spec = importlib.util.spec_from_file_location("proofs", ROOT / "scripts" / "proofs.py")
assert spec is not None
assert spec.loader is not None
proofs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(proofs)

TESTS = [*(ROOT / "tests").rglob("test_*.py"), *(ROOT / "src" / "discreet" / "testing").glob("*.py")]
DEFINED = {name for path in TESTS for name in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))}
DEFINED |= {path.stem for path in TESTS}


@pytest.mark.parametrize("page", proofs.PAGES, ids=lambda page: page.stem)
def test_has_been_compared_with_its_code(page: Path) -> None:
    hint = f"compare {page.name} with the code at its end, then run `python scripts/proofs.py --stamp {page.stem}`"
    assert not proofs.stale(page), hint


@pytest.mark.parametrize("page", proofs.PAGES, ids=lambda page: page.stem)
def test_names_a_test_that_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.search(r"`tests/[\w/]+\.py`", text.partition("## Checked by")[2])
    assert [name for name in re.findall(r"`(tests/[\w/]+\.py)`", text) if not (ROOT / name).exists()] == []
    unknown = set(re.findall(r"\btest_\w+", text)) - DEFINED
    assert not unknown, f"{page.name} names tests that do not exist: {sorted(unknown)}"


@pytest.mark.parametrize("page", proofs.PAGES, ids=lambda page: page.stem)
def test_sets_its_formulas_in_mathematics(page: Path) -> None:
    code = re.findall(r"(?<!`)`([^`]+)`(?!`)", page.read_text(encoding="utf-8").partition("## Checked by")[0])
    formula = re.compile(r"<=|>=|\bsqrt\b|\b\w_[a-z0-9]\b|\^|(^|[^.\w])(alpha|delta|eta|lambda|mu|sigma)( |$)")
    assert [each for each in code if formula.search(each)] == []


def test_a_change_of_code_is_noticed_and_one_of_prose_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proofs, "SOURCE", tmp_path)
    page = "# A\n\n## Code\n\n`a.py:A.f`, `b.c`\n\nFingerprint of this code: `0`.\n"
    (tmp_path / "b.c").write_text("int b; /* one */")
    (tmp_path / "a.py").write_text('class A:\n    def f(self):\n        """Doc."""\n        return 1  # why\n\ng = 1\n')
    first = proofs.fingerprint(page)
    (tmp_path / "a.py").write_text('class A:\n    def f(self):\n        """Other."""\n\n        return 1\n\ng = 2\n')
    (tmp_path / "b.c").write_text("int b; // two")
    assert proofs.fingerprint(page) == first
    (tmp_path / "a.py").write_text("class A:\n    def f(self):\n        return 2\n")
    assert proofs.fingerprint(page) != first
    with pytest.raises(ValueError, match="fingerprint"):
        proofs.fingerprint("# A page without code")
