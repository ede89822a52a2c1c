import json

import pytest
from typer.testing import CliRunner

from discreet.cli import app


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return result.output


def test_json() -> None:
    data = json.loads(run("account", "--epsilon", "1", "--delta", "1e-5", "--json"))
    assert data["mu"] == pytest.approx(0.268051, abs=5e-7)
    assert data["noise_multiplier"] == pytest.approx(3.7306, abs=5e-5)
    assert data["epsilon"] <= 1
    assert (data["unit"], data["adjacency"], data["notion"]) == ("user", "add-remove", "joint-dp")


def test_for_people() -> None:
    text = run("account", "--mu", "0.1", "--delta", "1e-6", "--releases", "4", "--adjacency", "replace")
    assert "in each of 4 releases" in text
    assert "(replace)" in text.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--epsilon", "-1", "--delta", "1e-5"], "epsilon"),
        (["--epsilon", "1", "--delta", "0"], "delta"),
        (["--epsilon", "1", "--mu", "1", "--delta", "1e-5"], "exactly one"),
    ],
)
def test_errors_are_one_sentence(arguments: list[str], named: str) -> None:
    text = run("account", *arguments, code=1)
    assert text.startswith("discreet: ")
    assert named in text
    assert "Traceback" not in text


def test_every_command_has_help_with_an_example() -> None:
    for command in (["account"], ["doctor"], ["demo"], ["ledger", "show"], ["ledger", "export"], ["ledger", "verify"]):
        assert "Example" in run(*command, "--help")


def test_version() -> None:
    assert run("--version").startswith("discreet 0.")
