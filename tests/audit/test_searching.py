"""Designed people reach every bound, and the search finds people who exceed one."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from discreet.audit.findings import failed
from discreet.audit.neighbors import extremes, ordinary
from discreet.audit.replaying import SENSITIVITY
from discreet.audit.searching import SEARCH, TIGHT, WHOLE, designed, search
from discreet.audit.subjects import shipped

SUBJECTS = shipped()


def test_the_claim_is_compared_with_what_two_people_can_be_apart() -> None:
    subject = SUBJECTS["PublishedDPSVD, replace"]
    tried = designed(subject)
    assert tried.shares == [tried.replays[0].mu / tried.replays[0].first.model.guarantee_.mu]
    assert tried.findings[-1].check == WHOLE
    assert tried.findings[-1].ok
    assert 0.9 < tried.shares[0] <= 1
    blind = designed(replace(subject, pairs=[*subject.pairs[:0], ({7: 5.0, 8: 4.0}, {7: 5.0, 8: 3.0})]))
    assert [finding.check for finding in failed(blind.findings)] == [TIGHT, WHOLE]
    assert "this should be 90% to 100%" in blind.findings[-1].words


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


def test_extreme_people_are_within_the_range_or_dropped() -> None:
    crowd = ordinary(40)
    people = extremes(crowd)
    user_batches = ordinary(40, *((f"x{i}", row) for i, row in enumerate(people.values())))
    assert user_batches.n_users == 100 + len(people)
    assert np.isfinite(user_batches.values).all()
    assert user_batches.values.max() <= 5
    counts = np.bincount(crowd.indices, minlength=40)
    assert counts[list(dict(people["has rare items only"]))].max() <= np.sort(counts)[4]
