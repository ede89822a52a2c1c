import json

import pytest

from discreet.cli import doctor
from tests.cli.conftest import run


def test_all_is_well_here() -> None:
    data = json.loads(run("doctor", "--json"))
    assert data["ok"]
    assert set(data["checks"].values()) == {True}
    assert data["versions"]["numpy"]
    assert "optional dependencies" in run("doctor")


def test_a_failed_check_is_an_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "CHECKS", {"noise": lambda: False})
    assert "FAILED" in run("doctor", code=1)
