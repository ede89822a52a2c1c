"""What is published: an archive of the sources, and a wheel that needs nothing else."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

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
