"""What holds for every sub-command: an example that works when pasted, --json, --config, errors as a sentence."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scripts.reference import _commands, reference
from typer.main import get_command
from typer.testing import CliRunner

import discreet
from discreet.cli import recommend
from discreet.cli.commands import app
from discreet.cli.common import in_options
from tests.cli.conftest import run

COMMANDS: dict[str, Any] = dict(_commands("discreet", get_command(app)))
ELSEWHERE = {"discreet demo", "discreet datasets fetch", "discreet serve"}  # slow, fetching, endless
FIRST = ("discreet datasets sample", "discreet train", "discreet ledger create")  # make what the others speak of
SMALL = ["--users", "300", "--items", "60", "--ratings", "9000"]
REFERENCE = Path(__file__).parents[2] / "docs" / "guide" / "reference.md"


def flags(command: Any) -> set[str]:
    return {flag for param in command.params for flag in param.opts}


@pytest.mark.parametrize("name", COMMANDS)
def test_help_json_and_config(name: str) -> None:
    command = COMMANDS[name]
    assert flags(command) >= {"--json", "--config"}
    assert all(param.help for param in command.params)
    assert pasted(name) == command.example
    assert command.example.startswith(name)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_names_every_option_in_full(name: str) -> None:
    shown = run(*name.split()[1:], "--help")
    for param in COMMANDS[name].params:
        named = [param.metavar or param.name.upper()] if param.param_type_name == "argument" else param.opts
        assert all(re.search(rf"(?<![\w-]){re.escape(one)}(?![\w-])", shown) for one in named)
    assert not re.search("<(bool|str|int|float|path|list)", shown)  # types of Python
    assert shown.count("[required]") == sum(param.required for param in COMMANDS[name].params)


@pytest.mark.parametrize("name", ["", "ledger", "datasets"])
def test_the_help_of_a_group_cuts_no_sentence(name: str) -> None:
    shown = " ".join(run(*name.split(), "--help").split())
    found: Any = get_command(app)
    for word in name.split():
        found = found.commands[word]
    for one, command in found.commands.items():
        assert f"{one} {' '.join(command.help.split(chr(10) * 2)[0].split())}" in shown


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("value_range: no", "--range: no"),
        ("it is outside value_range=(1, 5)", "it is outside --range 1 5"),
        (
            "pass on_invalid='drop', or time=None to ignore times",
            "give --on-invalid drop, or --time none to ignore times",
        ),
        ("epsilon must be > 0", "--epsilon must be > 0"),
        ("source: no file", "SOURCE: no file"),
        ("value: line 3 of 'a' is 9", "line 3 of 'a' is 9"),
        ("the items of a user", "the items of a user"),
        ("data.items= stays", "data.items= stays"),
        ("pass implicit=True", "give --implicit"),
        ("epsilon=1.5 and delta=nan: no", "--epsilon 1.5 and --delta nan: no"),
    ],
)
def test_messages_of_the_library_name_options(said: str, wanted: str) -> None:
    assert in_options(said, COMMANDS["discreet train"]) == wanted


def pasted(name: str) -> str:
    """The example as a narrow terminal shows it: in one line, or a shell would take it for two commands."""
    lines = run(*name.split()[1:], "--help").splitlines()  # 80 columns wide, as that of any test
    assert max(map(len, lines[:-2])) <= 80
    return next(line for line in lines if "Example:" in line).partition("Example: ")[2]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that was empty before the first examples were pasted."""
    folder = tmp_path_factory.mktemp("fresh")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in FIRST:
            run(*words(name), *(SMALL if "sample" in name else ()))
    return folder


def words(name: str) -> list[str]:
    return shlex.split(pasted(name).partition(" > ")[0])[1:]


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - ELSEWHERE - {FIRST[0]}))
def test_examples_work_when_pasted(name: str, fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(fresh)
    assert run(*words(name))
    shutil.rmtree("parts", ignore_errors=True)  # discreet split replaces nothing
    json.loads(run(*words(name), "--json"))


def test_the_reference_is_that_of_the_commands_there_are() -> None:
    assert REFERENCE.read_text(encoding="utf-8") == reference(), (
        "run: python scripts/reference.py docs/guide/reference.md"
    )


def test_a_config_file_in_the_place_of_flags(tmp_path: Path) -> None:
    file = tmp_path / "account.toml"
    file.write_text("epsilon = 1\ndelta = 1e-5\nreleases = 4\n")
    data = json.loads(run("account", "--config", str(file), "--json"))
    assert data == json.loads(run("account", "--epsilon", "1", "--delta", "1e-5", "--releases", "4", "--json"))
    assert json.loads(run("account", "--config", str(file), "--releases", "2", "--json"))["releases"] == 2


@pytest.mark.parametrize(
    ("words", "wanted"), [("train --model dpa", "dpals"), ("datasets fetch ml-1", "ml-1m"), ("exp", "export")]
)
def test_the_shell_completes(words: str, wanted: str) -> None:
    environment = {"_DISCREET_COMPLETE": "complete_bash", "COMP_WORDS": f"discreet {words}"}
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv[0] = 'discreet'; from discreet.cli import main; main()"],
        env={**os.environ, **environment, "COMP_CWORD": str(len(words.split()))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert wanted in done.stdout.split()
    assert all(word.startswith(words.rsplit(maxsplit=1)[-1]) for word in done.stdout.split())


def test_python_runs_it_as_a_module() -> None:
    command = [sys.executable, "-m", "discreet", "account", "--epsilon", "1", "--delta", "1e-5", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["epsilon"] == pytest.approx(1)


def test_an_error_that_nobody_foresaw(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(recommend, "_require_one", broken)
    told = run("recommend", "model", code=1)
    assert told.startswith("discreet: unexpected error (ZeroDivisionError: by nothing)")
    assert "Traceback" not in told
    found = CliRunner().invoke(app, ["--debug", "recommend", "model"])
    assert isinstance(found.exception, ZeroDivisionError)


def test_debug_shows_where_an_error_comes_from() -> None:
    found = CliRunner().invoke(app, ["--debug", "recommend", "no such folder", "--history", "1"])
    assert isinstance(found.exception, discreet.errors.ModelError)
