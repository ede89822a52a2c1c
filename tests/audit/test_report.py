"""The report of an audit: as text, JSON and HTML."""

import json

from discreet.audit import Finding, Report, run
from discreet.audit.report import CHECKS
from discreet.audit.suite import catch
from discreet.audit.zoo import MUTANTS, Caught


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
