"""`discreet.audit.run` and its command; designed people reach every bound, and the search finds who exceeds one."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import discreet
from discreet.audit import run
from discreet.audit.replaying import SENSITIVITY
from discreet.audit.report import failed
from discreet.audit.subjects import shipped
from discreet.audit.suite import SEARCH, TIGHT, WHOLE, designed, search
from discreet.audit.zoo import MUTANTS
from discreet.errors import DataError
from tests.cli.test_account import run as command

SUBJECTS = shipped()


def test_models_that_cannot_be_audited() -> None:
    with pytest.raises(DataError, match="not private"):
        run(discreet.ALS())
    with pytest.raises(DataError, match="there is no private model 'als'; there are DPSVD"):
        run("als")


def test_the_command(tmp_path: Path) -> None:
    data = discreet.datasets.movielens_like(200, 30, 3000, random_state=0).to_implicit()
    discreet.DPSVD(epsilon=2.0, delta=1e-6).fit(data).save(tmp_path / "model")
    page = tmp_path / "audit.html"
    found = json.loads(command("audit", str(tmp_path / "model"), "--json", "--report", str(page)))
    assert found["ok"]
    assert {"DPSVD", "DPSVD, add-remove"} <= set(found["models"])
    assert "Privacy audit" in page.read_text()
    assert "--zoo" in command("audit", code=2)


def test_the_zoo_on_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from discreet.audit import suite

    monkeypatch.setattr(suite, "MUTANTS", MUTANTS[:2])
    found = json.loads(command("audit", "--zoo", "--json"))
    assert (found["caught"], found["total"]) == (2, 2)
    assert found["zoo"][0]["by"] == ["noise"]
    assert "float noise" in command("audit", "--zoo")


def test_the_claim_is_compared_with_what_two_people_can_be_apart() -> None:
    subject = SUBJECTS["PublishedDPSVD, replace"]
    (found,), findings = designed(subject)
    assert found.share == found.mu / found.first.model.guarantee_.mu
    assert 0.9 < found.share <= 1
    assert (findings[-1].check, findings[-1].ok) == (WHOLE, True)
    _, blind = designed(replace(subject, pairs=[({7: 5.0, 8: 4.0}, {7: 5.0, 8: 3.0})]))
    assert [finding.check for finding in failed(blind)] == [TIGHT, WHOLE]
    assert "this should be 90% to 100%" in blind[-1].words


def test_search_climbs_and_finds_nobody() -> None:
    (*_, found) = search(SUBJECTS["DPCleansedSVD, replace"], tries=14)
    assert found.check == SEARCH
    assert found.ok
    assert 0.9 < found.figures["share"] <= 1 + 1e-9


def test_search_finds_who_breaks_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound that holds for all ordinary people, and for those who were designed, but not for all."""
    from discreet.privacy import statistics

    real = statistics.truncate

    def careless(rows: Any, **given: Any) -> Any:
        return real(rows, **{**given, "bound": 3 * given["bound"]})

    monkeypatch.setattr(statistics, "truncate", careless)
    findings = search(SUBJECTS["DPCleansedSVD, add-remove"], tries=12)
    assert any(finding.check == SENSITIVITY and not finding.ok for finding in findings)
    assert not findings[-1].ok
