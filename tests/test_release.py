"""What is published: an archive of the sources, and a wheel that needs nothing else."""

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The built files, by their suffix."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return {path.suffix: path for path in folder.iterdir()}


def test_what_is_published(files: dict[str, Path]) -> None:  # one test: building takes a while
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, files.values())]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "-py3-none-" in files[".whl"].name  # one wheel serves every Python
    names = zipfile.ZipFile(files[".whl"]).namelist()
    assert any(Path(name).stem == "kernels" and Path(name).suffix in (".so", ".dylib", ".dll") for name in names)
    for needed in ("py.typed", "web/static/index.html", "web/static/client/discreet.js"):
        assert f"discreet/{needed}" in names
    with tarfile.open(files[".gz"]) as archive:
        sources = archive.getnames()
    assert any(name.endswith("kernels/kernels.c") for name in sources)
    assert not [name for name in sources if name.endswith((".so", ".dylib", ".dll"))]


@pytest.mark.slow
def test_the_wheel_runs_the_demo_in_an_empty_environment(files: dict[str, Path], tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    folder = tmp_path / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
    subprocess.run([str(folder / "python"), "-m", "pip", "install", "--quiet", str(files[".whl"])], check=True)
    done = subprocess.run([str(folder / "discreet"), "demo"], check=False, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "epsilon" in done.stdout


FORMS = [path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml"]
GITHUB = {
    "github-workflows": list((ROOT / ".github" / "workflows").glob("*.yml")),
    "github-issue-forms": FORMS,
    "github-issue-config": [ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml"],
}


@pytest.mark.parametrize("schema", GITHUB)
def test_files_for_github_follow_its_schemas(schema: str) -> None:
    """A workflow that GitHub cannot read does not run, and nobody is told. actionlint, in CI, looks closer."""
    assert GITHUB[schema]
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = subprocess.run([*command, *map(str, GITHUB[schema])], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_supported_python_is_tested() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    named = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text())
    assert len(named) > 3
    assert workflow["jobs"]["newest"]["strategy"]["matrix"]["python"] == named


def test_the_tests_that_are_named_exist() -> None:
    files = [ROOT / "Makefile", *GITHUB["github-workflows"]]
    named = {path for file in files for path in re.findall(r"\btests/[\w/.]+", file.read_text(encoding="utf-8"))}
    assert len(named) > 10
    assert not [path for path in named if not (ROOT / path.rstrip(".")).exists()]
