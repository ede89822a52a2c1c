import json
from pathlib import Path
from typing import Any

import pytest

import discreet
from tests.cli.conftest import run


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


def given(*arguments: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(run("account", *arguments, "--json"))
    return data


def test_which_noise_for_this_epsilon() -> None:
    wanted = given("--epsilon", "1", "--delta", "1e-5", "--releases", "4")
    cost = given("--noise-multiplier", str(wanted["noise_multiplier"]), "--delta", "1e-5", "--releases", "4")
    assert cost["epsilon"] == pytest.approx(1, abs=1e-8)


def test_one_number_by_all_its_names() -> None:
    by_mu = given("--mu", "0.2", "--delta", "1e-6")
    assert by_mu["rho"] == pytest.approx(0.02)
    assert by_mu["noise_multiplier"] == pytest.approx(5)
    for name, value in (("--rho", "0.02"), ("--noise-multiplier", "5")):
        assert given(name, value, "--delta", "1e-6")["epsilon"] == pytest.approx(by_mu["epsilon"], rel=1e-9)
    back = given("--epsilon", str(by_mu["epsilon"]), "--delta", "1e-6")
    assert back["mu"] == pytest.approx(0.2, rel=1e-6)


def test_releases_of_several_kinds_together() -> None:
    three = given("--mu", "0.1", "--mu", "0.2", "--rho", "0.02", "--delta", "1e-6")
    assert three["mu"] == pytest.approx((0.01 + 0.04 + 0.04) ** 0.5)
    assert three["noise_multiplier"] is None
    mixed = given("--mu", "0.1", "--pure", "0.2", "--delta", "1e-6")
    assert mixed["mu"] is None
    alone = given("--mu", "0.1", "--delta", "1e-6")["epsilon"]
    assert alone < mixed["epsilon"] <= alone + 0.2
    assert given("--pure", "0.1", "--releases", "3", "--delta", "0")["epsilon"] == 0.3


def test_models_that_were_made_together(tmp_path: Path) -> None:
    ratings = discreet.datasets.movielens_like(200, 20, 2000, random_state=0)
    model = discreet.DPALS(epsilon=1, delta=1e-6).fit(ratings)
    model.save(tmp_path / "model")
    (tmp_path / "c.json").write_text(model.statement().json())
    two = given("--certificate", str(tmp_path / "model"), "--certificate", str(tmp_path / "c.json"), "--delta", "1e-6")
    assert two["mu"] == pytest.approx(2**0.5 * model.guarantee_.mu)
    told = run("account", "--certificate", str(tmp_path / "c.json"), "--mu", "1", "--adjacency", "replace",
               "--delta", "1e-6", code=1)  # fmt: skip
    assert "adjacency" in told


def test_another_adjacency_is_two_steps_or_does_not_follow() -> None:
    replaced = given("--mu", "0.1", "--delta", "1e-6", "--to", "replace")
    assert replaced["adjacency"] == "replace"
    assert replaced["epsilon"] == given("--mu", "0.2", "--delta", "1e-6", "--adjacency", "replace")["epsilon"]
    assert given("--pure", "0.1", "--delta", "0", "--to", "replace")["epsilon"] == 0.2
    assert "says nothing" in run("account", "--mu", "1", "--delta", "1e-6", "--adjacency", "replace", "--to",
                                 "add-remove", code=2)  # fmt: skip


def test_several_entries_at_once() -> None:
    entries = given("--pure", "0.3", "--delta", "0", "--unit", "entry", "--adjacency", "flip", "--group", "50")
    assert entries["epsilon"] == 0.3  # the sentence is about one
    assert entries["group"] == {"size": 50, "epsilon": 15.0, "mu": None}
    text = run("account", "--mu", "0.1", "--delta", "1e-6", "--group", "3")
    assert "epsilon for 3 users at once" in text
    assert given("--mu", "0.1", "--delta", "1e-6", "--group", "3")["group"]["mu"] == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("arguments", "named", "code"),
    [
        (["--epsilon", "-1", "--delta", "1e-5"], "epsilon", 1),
        (["--epsilon", "1", "--delta", "0"], "delta", 1),
        (["--rho", "0", "--delta", "1e-6"], "rho", 1),
        (["--epsilon", "1", "--mu", "1", "--delta", "1e-5"], "exactly one", 2),
        (["--delta", "1e-5"], "exactly one", 2),
        (["--certificate", "nowhere.json", "--delta", "1e-5"], "nowhere.json", 1),
    ],
)
def test_errors_are_one_sentence(arguments: list[str], named: str, code: int) -> None:
    text = run("account", *arguments, code=code)
    assert text.startswith("discreet: ")
    assert named in text
    assert "Traceback" not in text


def test_every_command_has_help_with_an_example() -> None:
    for command in (["account"], ["doctor"], ["demo"], ["ledger", "show"], ["ledger", "export"], ["ledger", "verify"]):
        assert "Example" in run(*command, "--help")


def test_version() -> None:
    assert run("--version").startswith("discreet 0.")
