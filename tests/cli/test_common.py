"""What commands share: Ctrl-C, errors that name an argument, and places to write to, tried before anything is spent."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import discreet
from discreet.cli.common import Misuse
from discreet.cli.output import require_file, require_folder
from tests.cli.conftest import run

NOWHERE = "nowhere/x.html"
PRIVATE = ["--items", "movies.csv", "--range", "0.5", "5", "--epsilon", "1", "--delta", "1e-6"]


STOPPED = """
import sys

class Stop:
    def find_spec(name, path, target=None):
        if name == "{module}":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Stop)
from discreet.cli import main

main()
"""


@pytest.mark.parametrize("module", ["typer", "discreet.cli.train"])
def test_ctrl_c_while_modules_are_imported(module: str) -> None:
    code = STOPPED.format(module=module)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "discreet: stopped\n")


def test_ctrl_c_while_options_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("discreet.cli.common.Group.parse_args", interrupted)
    assert run("doctor", code=130) == "discreet: stopped\n"


@pytest.mark.parametrize(
    ("command", "argument"),
    [
        (["items", "none"], "MODEL"),
        (["export", "none", "site"], "MODEL"),
        (["audit", "none"], "MODEL"),
        (["evaluate", "none", "test.csv", "--history", "train.csv"], "MODEL"),
        (["train", "ratings.csv", "--continue", "none", "--out", "new"], "--continue"),
    ],
    ids=lambda given: given[0],
)
def test_a_missing_model_is_named_by_its_argument(work: Path, command: list[str], argument: str) -> None:
    assert run(*command, code=1) == f"discreet: {argument}: 'none': there is no such folder\n"
    assert run("account", "--delta", "1e-6", "--certificate", "none", code=1) == (
        "discreet: --certificate: 'none': No such file or directory\n"
    )


def test_a_file_that_can_be_written_is_left_as_it_was(tmp_path: Path) -> None:
    require_file("--report", None)
    require_file("--report", tmp_path / "new.html", (".html",))
    assert not os.listdir(tmp_path)
    (tmp_path / "old.html").write_text("mine")
    require_file("--report", tmp_path / "old.html", (".html",))
    assert (tmp_path / "old.html").read_text() == "mine"


def test_a_file_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    for place in ("nowhere/x", "file/x", "folder", "x" * 300):
        with pytest.raises(Misuse, match=r"--report: .* is not a file that can be written \("):
            require_file("--report", tmp_path / place)
    with pytest.raises(Misuse, match=r"must end in \.html or \.htm, but 'x\.pdf'"):
        require_file("--report", Path("x.pdf"), (".html", ".htm"))

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Misuse, match="No space left"):
        require_file("--report", tmp_path / "new")
    with pytest.raises(Misuse, match=r"--out: .* is not a folder that can be written \(No space left"):
        require_folder("--out", tmp_path / "a" / "b")
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


def test_a_folder_is_made_and_removed_again(tmp_path: Path) -> None:
    require_folder("--out", tmp_path / "a" / "b")
    assert not os.listdir(tmp_path)
    (tmp_path / "c").mkdir()
    require_folder("--out", tmp_path / "c" / "d")
    require_folder("--out", tmp_path / "c")
    assert os.listdir(tmp_path) == ["c"]
    (tmp_path / "file").touch()
    with pytest.raises(Misuse, match="Not a directory"):
        require_folder("--out", tmp_path / "file" / "model")


@pytest.mark.parametrize(
    ("command", "flag"),
    [
        (["train", "ratings.csv", *PRIVATE, "--ledger", "ledger.db", "--out", "movies.csv/model"], "--out"),
        (
            ["train", "ratings.csv", *PRIVATE, "--ledger", "ledger.db", "--out", "m", "--statement", "nowhere/s.md"],
            "--statement",
        ),
        (
            ["tune", "ratings.csv", *PRIVATE, "--try", "n_steps=1,2", "--ledger", "ledger.db", "--out", "movies.csv/m"],
            "--out",
        ),
        (["evaluate", "ratings.csv", *PRIVATE, "-m", "dpals", "--ledger", "ledger.db", "--plot", "no/x.png"], "--plot"),
        (["tradeoff", "ratings.csv", *PRIVATE[:-4], "--delta", "1e-6", "--report", NOWHERE], "--report"),
        (["tradeoff", "ratings.csv", *PRIVATE[:-4], "--delta", "1e-6", "--results", "nowhere/x.duckdb"], "--results"),
        (["demo", "--report", NOWHERE], "--report"),
        (["audit", "--model", "dpsvd", "--report", NOWHERE], "--report"),
        (["reproduce", "dpals-table4", "--out", "nowhere/x.json"], "--out"),
        (["recommend", "model", "--users", "ratings.csv", "--out", "nowhere/x.csv"], "--out"),
    ],
    ids=lambda given: given[0] if isinstance(given, list) else given,
)
def test_every_command_tries_its_targets_before_it_reads_or_spends(work: Path, command: list[str], flag: str) -> None:
    ledger = discreet.Ledger("sqlite:///ledger.db", epsilon=2, delta=1e-6)
    (work / "ratings.csv").write_text("this is read by nobody")
    before = sorted(os.listdir())
    told = run(*command, code=2)
    assert told.startswith(f"discreet: {flag}: ")
    assert "can be written" in told
    assert [entry.kind for entry in ledger.entries] == ["open"]
    assert sorted(os.listdir()) == before
