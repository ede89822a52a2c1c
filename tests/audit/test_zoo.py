"""The zoo: every broken mechanism is caught, by the check that it should be, and no correct model is called broken."""

import pytest

from discreet.audit.replaying import ACCOUNT, EVENTS, FIT, JOINT, OUTPUT, SENSITIVITY, THRESHOLD
from discreet.audit.report import failed
from discreet.audit.samplers import BLACK_BOX, NOISE, STREAMS
from discreet.audit.subjects import shipped
from discreet.audit.suite import audit, catch
from discreet.audit.tainting import TAINT
from discreet.audit.zoo import MUTANTS, Mutant

SUBJECTS = shipped()
SLOW = ("DPSGD",)
RAISING = ("an error about one person", "histories refused one by one", "a search by exact scores")  # for some people

CAUGHT_BY = {  # among other checks; all mutants that are not here break a bound
    NOISE: ("float noise", "noise 5% too small", "noise / sqrt 2", "half the triangle",
            "Laplace noise of half the scale"),
    BLACK_BOX: ("two of four ratios",),
    STREAMS: ("noise reused after a fork",),
    ACCOUNT: ("one key for all releases", "a release missing from the ledger", "uncharged grid search",
              "shuffled batches for samples"),
    EVENTS: ("the exact scale of the data", "an exact number in a log", "an error about one person",
             "progress that counts users", "histories refused one by one"),
    OUTPUT: ("factors from exact sums", "exact normalizer", "items chosen by exact counts",
             "a training user in the artifact", "a search by exact scores",
             "probit without its Jacobian", "items counted exactly"),
    THRESHOLD: ("threshold for one item",),
    TAINT: ("uncharged early stop",),
    JOINT: ("users served together",),
}  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_mechanism_is_caught(mutant: Mutant) -> None:
    caught = catch(mutant)
    expected = next((check for check, names in CAUGHT_BY.items() if mutant.name in names), SENSITIVITY)
    assert expected in caught.by, [finding.words for finding in caught.findings]
    if mutant.name not in RAISING:
        assert FIT not in {finding.check for finding in failed(caught.findings)}, caught.findings
    assert caught.to_json()["why"]


def test_there_are_enough_of_them() -> None:
    assert len(MUTANTS) >= 24
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert {mutant.subject for mutant in MUTANTS} <= set(SUBJECTS)
    assert {name for names in CAUGHT_BY.values() for name in names} < {mutant.name for mutant in MUTANTS}
    assert all(mutant.error.endswith(".") for mutant in MUTANTS)


@pytest.mark.parametrize("name", [name for name in SUBJECTS if not name.startswith(SLOW)])
def test_a_correct_model_passes(name: str) -> None:
    findings = audit(SUBJECTS[name])
    assert not failed(findings)
    assert {EVENTS, SENSITIVITY, ACCOUNT, OUTPUT, NOISE, STREAMS} <= {one.check for one in findings}
    assert "without a delta" in name or BLACK_BOX in {one.check for one in findings}
    assert "DPPCA" in name or TAINT in {one.check for one in findings}
    assert name.startswith(("DPPCA", "private")) or JOINT in {one.check for one in findings}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SUBJECTS if name.startswith(SLOW)])
def test_a_correct_large_model_passes(name: str) -> None:
    assert not failed(audit(SUBJECTS[name]))


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [one for one in MUTANTS if one.pairs or one.params], ids=lambda mutant: mutant.name)
def test_people_who_catch_a_mutant_find_nothing_where_nothing_is_broken(mutant: Mutant) -> None:
    """What a mutant is caught by is its error, not the people or parameters that it is tried with."""
    wrong = failed(audit(mutant.on(SUBJECTS[mutant.subject])))
    assert {finding.check for finding in wrong} <= {FIT}, wrong  # what would be broken is refused, for everyone


def test_nothing_of_a_mutant_stays() -> None:
    name = "DPCleansedSVD, add-remove"
    for mutant in MUTANTS:
        with mutant.patch():
            pass
    assert not failed(audit(SUBJECTS[name]))
