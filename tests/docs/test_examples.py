"""The scripts in examples/ run as they are."""

import runpy
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
SAYS = {
    "audit_your_own": "Leaky",
    "implicit_feedback": "recall@20",
    "monthly": "month 13",
    "ratings": "RMSE",
    "serving": "recommendations",
}


def test_each_script_is_known_and_introduced() -> None:
    assert {script.stem for script in SCRIPTS} == set(SAYS)
    text = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    assert all(f"({script.name})" in text for script in SCRIPTS)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_runs(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")
    assert SAYS[script.stem] in capsys.readouterr().out
