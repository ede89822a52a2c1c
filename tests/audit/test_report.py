"""`discreet.audit.run`, its report, attacks, and the command."""

import json
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import discreet
from discreet.audit import Finding, Report, Subject, attacks, run
from discreet.audit.report import CHECKS
from discreet.audit.suite import catch
from discreet.audit.tainting import PRIVATE_SIDE, Private, taint, tainted, watching
from discreet.audit.zoo import MUTANTS, Caught
from discreet.errors import DataError
from discreet.testing import InsecureSeededNoise
from tests.cli.test_account import run as command


def test_a_report_says_what_was_tried_and_found() -> None:
    report = run("PublishedDPSVD")
    assert report.ok
    assert "No check found more than the guarantee allows" in str(report)
    assert report.tests > 10
    assert "never right" in report.chances()
    assert {one.check for found in report.findings.values() for one in found} <= set(CHECKS)
    page = report.html()
    assert page.startswith("<!doctype html>")
    assert "What the checks do" in page
    assert "<script" not in page
    json.dumps(report.to_json(), allow_nan=False)
    assert Finding("canary", True, "little", {"detectable": float("inf")}).to_json()["figures"] == {"detectable": None}


def test_a_report_about_something_broken() -> None:
    caught = [catch(MUTANTS[0])]
    report = Report({"mine": [Finding("sensitivity", False, "by 200% <of it>")]}, caught)
    assert not report.ok
    assert report.verdict().startswith("BROKEN: mine. 1 of 1 broken mechanisms were caught")
    assert "by 200% &lt;of it&gt;" in report.html()
    assert report.to_json()["caught"] == report.to_json()["total"] == 1
    assert not Report(zoo=[Caught(MUTANTS[0], [])]).ok


def test_models_that_cannot_be_audited() -> None:
    with pytest.raises(DataError, match="not private"):
        run(discreet.ALS())
    with pytest.raises(DataError, match="there is no private model 'als'; there are DPSVD"):
        run("als")


def test_attacks_fall_to_chance_as_epsilon_falls() -> None:
    members = attacks.membership(epsilons=(0.1, 100.0), source=InsecureSeededNoise(1))
    hidden, strong, none = (one.rate for one in members)
    assert abs(hidden - 0.5) < 0.1
    assert none > 0.9 > strong
    items = attacks.reconstruction(epsilons=(1.0,), victims=12, source=InsecureSeededNoise(1))
    assert items[0].rate <= 0.2
    assert items[1].rate > 0.9
    page = Report(attacks=[*members, *items]).html()
    assert page.count("<svg") == 2
    assert "not private" in str(items[1])


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


# Taint


def test_private_arrays_stay_private() -> None:
    private = np.arange(6.0).view(Private)
    for made in (
        private + 1,
        private[2],
        np.sqrt(private),
        private.sum(),
        np.bincount([0, 1, 1], private[:3]),
        *private,
    ):
        assert isinstance(made, Private)
    whole = np.zeros(6)
    whole += private
    assert type(whole) is Private  # by its name it is known; what else it is called, not: the replay has to notice


def test_lines_that_look_at_private_numbers_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    data = discreet.datasets.movielens_like(100, 30, 1500, random_state=0).to_implicit()
    real = discreet.DPSVD._learn_privately

    def peek(self: discreet.DPSVD, releaser: object, ratings: discreet.Interactions) -> object:
        if ratings.values.sum() > 1e9:
            raise ValueError(f"{ratings.values.max()}")
        return real(self, releaser, ratings)  # type: ignore[arg-type]

    def keep(self: discreet.DPSVD, releaser: object, ratings: discreet.Interactions) -> object:
        return {**real(self, releaser, ratings), "counts_": np.bincount(ratings.indices)}  # type: ignore[arg-type]

    mine = Subject("mine", lambda: discreet.DPSVD(epsilon=2.0, delta=1e-6), lambda person: data, [])
    assert [finding.ok for finding in taint(mine, data)] == [True]
    monkeypatch.setattr(discreet.DPSVD, "_learn_privately", peek)
    (found,) = taint(mine, data)
    assert "test_report" in found.words
    assert "in peek (bool)" in found.words
    assert taint(mine, data, allow={f"{__name__}:peek"})[0].ok
    monkeypatch.setattr(discreet.DPSVD, "_learn_privately", keep)
    assert [finding.words for finding in taint(mine, data)] == ["counts_ is private"]
    assert isinstance(tainted(data).values, Private)


def test_marks_are_kept_by_conversions_and_sparse_matrices_and_told_where_they_are_lost() -> None:
    from scipy.sparse import csr_array

    private = np.arange(4.0).view(Private)

    def rows(given: np.ndarray) -> np.ndarray:
        made = np.zeros(4)
        made[:] = given
        return made

    with watching(set()) as seen:
        table = csr_array((private, np.arange(4), np.arange(5)), shape=(4, 4))
        computed = (
            np.asarray(private), np.ascontiguousarray(private), np.array([private, private]), rows(private),
            table @ np.eye(4), np.eye(4) @ table.tocsc(), table.tocoo().data, table.sum(axis=0), table.T @ np.ones(4),
        )  # fmt: skip
        plain = np.zeros(4)
        np.multiply(private, 2, out=plain)
    assert all(isinstance(one, Private) for one in computed)
    assert np.array_equal(np.asarray(computed[4]), np.diag(np.arange(4.0)))
    assert [place.split(": ")[1] for place in seen.lost] == [
        "the index arrays of a sparse matrix", "multiply into an array that is not marked",
    ]  # fmt: skip
    assert all(place.startswith(f"{__name__}, in test_marks") for place in seen.lost)
    assert type(csr_array((np.ones(1), ([0], [0]))).tocsc().data) is np.ndarray
    page = Report({"mine": [Finding("taint", True, "none", {"lost": seen.lost})]})
    assert "multiply into an array" in page.html()
    assert "lose their mark" in str(page)
    assert page.to_json()["lost"] == sorted(seen.lost)


def test_whole_modules_are_not_on_the_private_side() -> None:
    for place in PRIVATE_SIDE:
        module, function = place.split(":")
        assert f"def {function}(" in Path(str(import_module(module).__file__)).read_text()
