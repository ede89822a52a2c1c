"""The page that adds a model: its two files are written out, and pytest runs them as a reader would."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT


def test_the_model_of_the_page_passes_the_tests_of_the_page(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "contributing" / "add-a-model.md").read_text(encoding="utf-8")
    files = dict(re.findall(r'^```py title="([\w.]+)"\n(.*?)^```', page, flags=re.S | re.M))
    assert set(files) == {"item_means.py", "test_item_means.py"}
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), str(ROOT / "src")])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_item_means.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert re.search(r"2\d passed", done.stdout), done.stdout
