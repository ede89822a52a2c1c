"""The scripts in examples/ run as they are."""

import runpy
import subprocess
import sys
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
    "spark_pipeline": "joint differential privacy",
}
ELSEWHERE = {"serving", "spark_pipeline"}  # below, and by tests/spark, which have a cluster


def test_each_script_is_known_and_introduced() -> None:
    assert {script.stem for script in SCRIPTS} == set(SAYS)
    text = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    assert all(f"({script.name})" in text for script in SCRIPTS)


@pytest.mark.parametrize(
    "script", [script for script in SCRIPTS if script.stem not in ELSEWHERE], ids=lambda at: at.stem
)
def test_runs(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")
    assert SAYS[script.stem] in capsys.readouterr().out


def test_the_server_runs(tmp_path: Path) -> None:
    """In a process of its own: a server takes hold of logging, signals and streams."""
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / "serving.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert SAYS["serving"] in done.stdout
