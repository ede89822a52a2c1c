"""Statements: what they say, what changes in them are found, who signed them."""

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet import Gaussian, Guarantee, Laplace, Ledger, Plan, Statement
from discreet.errors import PrivacyError
from discreet.privacy import Cost, DeclaredNoise, PureEvent, RandomizedResponse, SampledGaussian, Selection, SystemNoise
from discreet.privacy.statement import _digest
from discreet.testing import InsecureSeededNoise
from discreet.validation import round_up


def ledger_with_two_releases() -> Ledger:
    ledger = Ledger(epsilon=1, delta=1e-6)
    ledger.release(np.array([5, 3]), 1, Gaussian(10.0), "clicks <b>per item</b>")
    ledger.release(np.eye(2, dtype=int), 1, Gaussian(10.0, symmetric=True), "pairs")
    return ledger


@pytest.fixture(scope="module")
def statement() -> Statement:
    public = {"catalogue": "given by the caller", "value range": "1 to 5"}
    return ledger_with_two_releases().statement(title="Shop & co", public_inputs=public)


def test_markdown_says_what_a_reader_needs(statement: Statement) -> None:
    text = str(statement)
    parts = [
        "# Shop & co",
        str(statement.guarantee),
        "| pairs | 2×2 | 1 | gaussian std 10, symmetric | 0.3969 | 50.0% |",
    ]
    parts += ["AES-256-CTR", "catalogue: given by the caller", "## Not covered", "tuning", "Metrics"]
    for part in [*parts, statement.digest, "dp-accounting", "NumPy".lower()]:
        assert part in text


def test_html_is_a_page_with_a_chart_and_escapes_labels(statement: Statement) -> None:
    page = statement.html()
    assert all("how far one person can move all of them" in face for face in (page, str(statement)))
    assert page.startswith("<!doctype html>")
    assert "clicks &lt;b&gt;per item&lt;/b&gt;" in page
    assert "Shop &amp; co" in page
    assert page.count("<svg") == 2
    assert 'width="60.0"' in page  # half of the budget each
    assert 'class="holds"' in page
    assert statement._repr_html_() == page
    assert statement._repr_markdown_() == str(statement)


def test_where_nothing_was_released() -> None:
    empty = Ledger(epsilon=1, delta=1e-6).statement()
    assert all("Nothing was released through a ledger" in face for face in (empty.html(), str(empty)))


def test_the_certificate_is_complete_and_carries_no_times_of_releases(statement: Statement) -> None:
    data = json.loads(statement.json())
    for key in (
        "format",
        "versions",
        "guarantee",
        "releases",
        "public_inputs",
        "covered",
        "not_covered",
        "digest",
        "issued",
    ):
        assert key in data
    assert {"unit", "adjacency", "notion", "epsilon", "delta", "mu", "holds"} <= set(data["guarantee"])
    for release in data["releases"]:
        assert {"label", "sensitivity", "noise", "source", "secure", "cost"} <= set(release)
        assert "time" not in release


def test_round_trip(statement: Statement) -> None:
    again = Statement.parse(statement.json())
    assert str(again) == str(statement)
    assert again.guarantee == statement.guarantee
    assert Statement.parse(statement.json(indent=None).encode()).digest == statement.digest


def forged(statement: Statement, change: Callable[[dict[str, Any]], object]) -> str:
    """A certificate changed by someone who also recomputed its digest."""
    data = json.loads(statement.json())
    change(data)
    data["digest"] = _digest(data)
    return json.dumps(data)


NEGATIVE = {"kind": "charge", "label": "refund", "cost": Cost(-(1 << 90), 0).to_json()}


def test_a_changed_certificate_is_refused(statement: Statement) -> None:
    data = json.loads(statement.json())
    data["public_inputs"]["catalogue"] = "observed"
    with pytest.raises(PrivacyError, match="digest"):
        Statement.parse(json.dumps(data))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda c: c["guarantee"].update(epsilon=0.1), "releases give"),
        (lambda c: c.update(sentence="Perfectly private."), "sentence"),
        (lambda c: c["guarantee"]["cost"].update(gaussian="1"), "releases give"),
        (lambda c: c["releases"][0]["noise"].update(std=100.0), "does not cost"),
        (lambda c: c["releases"][0].update(sensitivity=0.1), "does not cost"),
        (lambda c: c["releases"].append(c["releases"][0]), "cost more"),
        (lambda c: c["releases"][0].update(secure=False), "insecure"),
        (lambda c: c["releases"][0].update(secure=0), "insecure"),
        (lambda c: c["releases"][0].pop("secure"), "malformed"),
        (lambda c: c["releases"][0].update(kind="gift"), "neither"),
        (lambda c: c["releases"].append(NEGATIVE), "neither"),
        (lambda c: c["releases"][0].pop("cost"), "malformed"),
        (lambda c: c["releases"][0].pop("noise"), "malformed"),
        (lambda c: c["releases"][0]["cost"].update(gaussian="x"), "malformed"),
        (lambda c: c["releases"][0].update(sensitivity="x"), "number|finite"),
        (lambda c: c.pop("releases"), "malformed"),
        (lambda c: c.update(releases=5), "malformed"),
        (lambda c: c.pop("guarantee"), "malformed"),
        (lambda c: c.pop("versions"), "malformed"),
        (lambda c: c["releases"][0]["noise"].update(kind="hope"), "kind"),
        (lambda c: c.update(format=1), "its format is 1, and this version of discreet reads 4"),
        (lambda c: c.update(not_covered=[]), "not covered"),
        (lambda c: c.update(covered="Everything."), "is covered"),
        (lambda c: c["budget"].update(epsilon=0.1), "budget is less than what was spent"),
        (lambda c: c["budget"].update(delta=1e-60), "budget is less than what was spent"),
        (lambda c: c["budget"].update(epsilon=2.0), "quote another budget"),
        (lambda c: c.update(budget=None), "quote another budget"),
        (lambda c: c["budget"].pop("filter"), "its budget is not"),
        (lambda c: c["guarantee"].update(mu=0.001), "do not follow"),
        (lambda c: c["guarantee"].update(holds=1), "why_not"),
        (lambda c: c["guarantee"].update(epsilon_per_year=0.1), "do not follow"),
        (lambda c: c.update(approved=True), "malformed"),
        (lambda c: c.pop("model"), "malformed"),
        (lambda c: c.update(signature=None), "signature"),
        (lambda c: c.update(signature={"public_key": "00" * 32}), "signature"),
        (lambda c: c["guarantee"].pop("unit"), "malformed"),
    ],
)
def test_a_forgery_that_contradicts_itself_is_refused(statement: Statement, change: Any, named: str) -> None:
    with pytest.raises(PrivacyError, match=named):
        Statement.parse(forged(statement, change))


def charged(source: Any) -> Ledger:
    """A step over a sample of the users, and bits that users flipped."""
    ledger = Ledger(epsilon=3, delta=1e-6, filter="renyi")
    step = Cost.of(SampledGaussian(0.5, 0.01))
    ledger.charge(step, "a step", source=source, noise=Gaussian(2.0), sensitivity=1.0)
    flipped = RandomizedResponse(epsilon=0.1)
    ledger.charge(flipped.cost(2), "bits", source=DeclaredNoise("users"), noise=flipped, sensitivity=2)
    ledger.charge(Cost.of_mu(0.01), "something else", source=DeclaredNoise("others"))
    return ledger


def test_a_charge_lists_its_noise_sensitivity_and_source() -> None:
    statement = Statement.parse(charged(SystemNoise()).statement().json())
    assert statement.guarantee.holds
    text = str(statement)
    assert "| 1 | gaussian std 2, over samples of users at rate 0.01 |" in text
    assert "| 2 | randomized-response epsilon 0.1 |" in text
    assert "| - | charged elsewhere |" in text
    assert "a key per release from the operating system, users, others." in text


def test_a_charge_with_seeded_randomness_is_not_private() -> None:
    statement = charged(InsecureSeededNoise(0)).statement()
    assert "NOT PRIVATE" in str(statement)
    assert not Statement.parse(statement.json()).guarantee.holds


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda release: release.update(secure=False), "insecure"),
        (lambda release: release.update(source=""), "insecure"),
        (lambda release: release.pop("secure"), "malformed"),
        (lambda release: release.pop("source"), "malformed"),
        (lambda release: release["noise"].update(std=1.0), "does not cost"),
        (lambda release: release.update(sensitivity=2.0), "does not cost"),
        (lambda release: release.pop("noise"), "malformed"),
    ],
)
def test_a_forged_charge_is_refused(change: Any, named: str) -> None:
    with pytest.raises(PrivacyError, match=named):
        Statement.parse(forged(charged(SystemNoise()).statement(), lambda c: change(c["releases"][0])))


def paid_by(ledger: Ledger, **after: Any) -> Statement:
    """The statement of one fit of several that a ledger has paid for."""
    plan = Plan.gaussian(0.1, {"a": (1.0, 2)})
    with ledger.reserve(plan) as reserved:
        for _ in range(2):
            reserved.release([1, 2], 1, plan.noise("a", sensitivity=1), "a")
    events = ledger.events[-2:]
    guarantee = ledger.guarantee(plan.cost, events)
    if after:
        guarantee = after["after"].guarantee + guarantee
    return Statement.of("a fit", guarantee, events, public_inputs={}, ledger=ledger.totals(), **after)


def test_a_statement_says_what_the_ledger_has_spent_in_total() -> None:
    ledger = ledger_with_two_releases()
    statement = Statement.parse(paid_by(ledger).json())
    assert statement.guarantee.epsilon + 0.2 < ledger.spent.epsilon
    said = (
        f"The ledger that paid for this has spent epsilon = {round_up(ledger.spent.epsilon)} at delta = 1e-06 in "
        "total, including what is set aside, of a budget of epsilon = 1."
    )
    assert said in str(statement)
    assert said in statement.html()
    assert "The ledger that paid" not in str(ledger.statement()) + ledger.statement().html()


def test_ledgers_without_a_budget_or_a_promise() -> None:
    assert "in total, including what is set aside, and has no budget." in str(paid_by(Ledger(delta=1e-6)))
    nothing = paid_by(Ledger())
    assert "has spent epsilon = infinity at delta = 0 in total" in str(Statement.parse(nothing.json()))
    seeded = Ledger(epsilon=1, delta=1e-6, noise_source=InsecureSeededNoise(0))
    assert "of a budget of epsilon = 1; in total, it is NOT PRIVATE: the noise came from" in str(paid_by(seeded))


def test_a_filter_may_be_a_better_bound_than_the_sum() -> None:
    """A search costs by the Renyi accountant alone, with which pure events are dear; the budget holds all the same."""
    ledger = Ledger(epsilon=4, delta=1e-6, filter="renyi")
    ledger.release([1, 2], 1, Laplace(1.0), "something else")
    search = Cost.of(Selection(Cost.of_mu(0.2), 5.0, math.inf))
    ledger.charge(search, "a search", source=SystemNoise())
    assert ledger.spent.epsilon > 4
    statement = Statement.parse(ledger.statement().json())
    for change, named in (({"filter": "gaussian"}, "less than what was"), ({"epsilon": 2.0}, "less than what was")):
        with pytest.raises(PrivacyError, match=named):
            Statement.parse(forged(statement, lambda c, change=change: c["budget"].update(change)))
    said = Statement.of("a search", ledger.spent, ledger.events, public_inputs={}, ledger=ledger.totals())
    assert "has spent epsilon = 4 at delta = 1e-06 in total" in str(said)


def test_a_statement_that_goes_on_is_about_the_ledger_that_paid_last() -> None:
    """Whatever was released before may have been paid for by another."""
    first = paid_by(ledger_with_two_releases())
    ledger = Ledger(epsilon=1, delta=1e-6)
    statement = Statement.parse(paid_by(ledger, after=first).json())
    assert statement.certificate["ledger"]["releases"] == 2
    assert len(statement.certificate["releases"]) == 4
    assert ledger.spent.epsilon < statement.guarantee.epsilon


OTHER = Guarantee(Cost.of_mu(1.0), 1e-6, "entry").to_json()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda c: c.pop("ledger"), "malformed"),
        (lambda c: c["ledger"].pop("spent"), "malformed|not what was spent"),
        (lambda c: c["ledger"].update(more=1), "not what was spent, a budget and a number"),
        (lambda c: c["ledger"].update(releases=5), "not what was spent, a budget and a number"),
        (lambda c: c["ledger"].update(releases=-1), "not what was spent, a budget and a number"),
        (lambda c: c["ledger"].update(releases=True), "not what was spent, a budget and a number"),
        (lambda c: c["ledger"].update(spent=5), "malformed"),
        (lambda c: c["ledger"]["spent"].update(epsilon=0.1), "its releases give"),
        (lambda c: c["ledger"]["spent"].update(mu=0.1), "values that do not follow"),
        (lambda c: c["ledger"].update(spent=Guarantee(Cost.of_mu(0.05), 1e-6).to_json()), "has spent less than"),
        (lambda c: c["ledger"].update(spent=Guarantee(Cost(), 1e-6).to_json()), "has spent less than"),
        (lambda c: c["ledger"].update(spent=OTHER), "another unit or adjacency"),
        (lambda c: c["ledger"]["budget"].update(epsilon=0.5), "budget is less than what was spent"),
        (lambda c: c["ledger"]["budget"].pop("filter"), "its budget is not"),
    ],
)
def test_totals_that_cannot_be_are_refused(change: Any, named: str) -> None:
    statement = paid_by(ledger_with_two_releases())
    with pytest.raises(PrivacyError, match=named):
        Statement.parse(forged(statement, change))


def test_a_name_that_is_given_twice_is_refused(statement: Statement) -> None:
    """Readers in other languages take the first value, and Python the last."""
    text = statement.json()
    assert text.startswith("{")
    with pytest.raises(PrivacyError, match="not a certificate"):
        Statement.parse('{"sentence": "Perfectly private.",' + text[1:])
    with pytest.raises(PrivacyError, match="not a certificate"):
        Statement.parse(text.replace('"mu":', '"mu": 0.1, "mu":', 1))


MODEL = {"class": "DPALS", "params": {"epsilon": 1, "delta": 1e-6, "rank": None}, "sha256": {"item_bias_": "0a" * 32}}


def test_a_statement_of_one_model(statement: Statement) -> None:
    bound = statement.sign(Ed25519PrivateKey.generate()).of_model(MODEL)
    assert "signature" not in bound.certificate
    assert bound.digest != statement.digest
    again = Statement.parse(bound.json())
    assert again.guarantee == statement.guarantee
    for face in (str(again), again.html()):
        assert "DPALS(epsilon=1, delta=1e-06, rank=None)" in face.replace("&#x27;", "'")
        assert f"SHA-256 of item_bias_: {'0a' * 32}" in face


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (
            {"params": {"adjacency": "replace"}},
            "its model has adjacency = 'replace', but its guarantee has 'add-remove'",
        ),
        ({"params": {"delta": 1e-3}}, "its model has delta = 0.001"),
        ({"params": {"unit": "entry"}}, "its model has unit = 'entry'"),
        ({"params": []}, "a class, parameters, and a SHA-256"),
        ({"more": 1}, "a class, parameters, and a SHA-256"),
        ({"sha256": {"item_bias_": "0a"}}, "a class, parameters, and a SHA-256"),
        ({"sha256": {"item_bias_": 5}}, "malformed"),
    ],
)
def test_a_model_that_contradicts_the_guarantee_is_refused(
    statement: Statement, change: dict[str, Any], named: str
) -> None:
    with pytest.raises(PrivacyError, match=named):
        Statement.parse(statement.of_model({**MODEL, **change}).json())


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "{}", '{"digest": "x"}', "[" * 100_000, '{"a":' * 100_000])
def test_what_is_not_a_certificate_is_refused(text: str) -> None:
    with pytest.raises(PrivacyError, match="not a certificate"):
        Statement.parse(text)


def test_signatures(statement: Statement) -> None:
    key, other = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    signed = statement.sign(key)
    signed.verify(key.public_key())
    public = key.public_key().public_bytes_raw().hex()
    assert "not signed" in str(statement)
    for face in (str(signed), signed.html()):
        assert f"signed with the Ed25519 key {public}" in face
    Statement.parse(signed.json()).verify(key.public_key())
    with pytest.raises(PrivacyError, match="signature"):
        signed.verify(other.public_key())
    with pytest.raises(PrivacyError, match="not signed"):
        statement.verify(key.public_key())
    edited = Statement({**signed.certificate, "sentence": "Perfectly private."})  # digest and signature as they were
    with pytest.raises(PrivacyError, match="signature"):
        edited.verify(key.public_key())
    broken = Statement({**signed.certificate, "signature": {"value": "zz"}})
    with pytest.raises(PrivacyError, match="signature"):
        broken.verify(key.public_key())


def test_a_signature_is_never_taken_at_its_word(statement: Statement) -> None:
    key, other = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    signed = statement.sign(key)
    theirs = other.public_key().public_bytes_raw().hex()
    for change in (
        {"public_key": theirs},
        {"public_key": "00"},
        {"public_key": 5},
        {"value": "00" * 64},
        {"algorithm": "none"},
        {"by": "the data protection authority"},
    ):
        edited = Statement({**signed.certificate, "signature": {**signed.certificate["signature"], **change}})
        with pytest.raises(PrivacyError, match="signature"):
            Statement.parse(edited.json())
        with pytest.raises(PrivacyError, match="signature"):
            edited.verify(key.public_key())
    moved = {**ledger_with_two_releases().statement().certificate, "signature": signed.certificate["signature"]}
    with pytest.raises(PrivacyError, match="signature"):
        Statement.parse(json.dumps(moved))


def test_statements_of_every_kind_of_ledger() -> None:
    empty = Ledger().statement()
    assert "none drawn" in str(empty)
    assert Statement.parse(empty.json()).guarantee.epsilon == 0
    mixed = Ledger(epsilon=9, delta=1e-6)
    mixed.release(np.array([5, 3]), 1, Gaussian(10.0), "counts")
    mixed.release(np.array([5, 3]), 1, Laplace(10.0), "more")
    mixed.charge(Cost.of(PureEvent(0.1)), "bits flipped by users", source=SystemNoise())
    text = str(mixed.statement())
    assert "| counts | 2 | 1 | gaussian std 10 | 0.3969 | - |" in text  # of different kinds: no shares
    pure = Ledger(epsilon=9, delta=0)
    pure.release(np.array([5, 3]), 1, Laplace(10.0), "more")
    pure.charge(Cost.of(PureEvent(0.3)), "bits flipped by users", source=SystemNoise())
    assert "| 0.3 | 75.0% |" in str(pure.statement())
    assert "charged elsewhere" in text
    assert "what is proved is the ledger's budget, epsilon = 9 at delta = 1e-06" in text
    assert "fixed in advance" in mixed.statement().html()
    free = Ledger(delta=1e-6)
    for _ in range(2):
        free.release([1], 1, 10.0, "x")
    assert "what is proved is nothing, since the ledger had no budget" in str(free.statement())
    assert Statement.parse(mixed.statement().json()).guarantee == mixed.spent
    seeded = Ledger(epsilon=1, delta=1e-6, noise_source=InsecureSeededNoise(0))
    seeded.release([1], 1, 10.0, "x")
    assert 'class="void"' in seeded.statement().html()
    assert not Statement.parse(seeded.statement().json()).guarantee.holds
    dp = Ledger(epsilon=1, delta=1e-6, notion="dp")
    dp.release([1], 1, 10.0, "x")
    assert "for each person" not in str(dp.statement())


def test_statements_with_open_reservations_state_what_is_charged() -> None:
    ledger = Ledger(epsilon=1, delta=1e-6)
    plan = Plan.gaussian(0.2, {"a": (1.0, 4)})
    with ledger.reserve(plan) as reserved:
        reserved.release([1], 1, plan.noise("a", sensitivity=1), "a")
        statement = ledger.statement()
        reserved.release([1], 1, plan.noise("a", sensitivity=1), "a")
    assert Statement.parse(statement.json()).guarantee.mu == pytest.approx(0.2)
    assert "fixed in advance" not in str(statement)  # it was: by the plan
    assert "fixed in advance" in str(ledger.statement())  # half of it was not released, perhaps for what was
    whole = Ledger(epsilon=1, delta=1e-6)
    with whole.reserve(plan) as reserved:
        for _ in range(4):
            reserved.release([1], 1, plan.noise("a", sensitivity=1), "a")
    assert "fixed in advance" not in str(whole.statement())


def test_markdown_escapes_what_would_break_it() -> None:
    ledger = Ledger(epsilon=1, delta=1e-6)
    ledger.release([1], 1, 10.0, "a | b\n<script>")
    assert "| a \\| b &lt;script&gt; |" in str(ledger.statement())


@pytest.mark.parametrize("field", ["title", "issued", "notes", "public_inputs", "versions", "source"])
def test_a_stranger_can_add_no_lines_and_no_html_to_markdown(statement: Statement, field: str) -> None:
    """A notebook may show it, and a reader could take a line of theirs for one of ours."""
    theirs = "<script>\n\n**Signed with a key that you know.**"
    content: dict[str, Any] = {
        "notes": [theirs],
        "public_inputs": {theirs: theirs},
        "versions": {theirs: theirs},
        "source": theirs,
    }

    def change(certificate: Any) -> None:
        place = certificate["releases"][0] if field == "source" else certificate
        place[field] = content.get(field, theirs)

    text = str(Statement.parse(forged(statement, change)))
    assert "&lt;script" in text
    assert "<script" not in text
    assert not any(line.startswith("**Signed") for line in text.splitlines())


def test_html_escapes_everything(statement: Statement) -> None:
    nasty = Statement.parse(forged(statement, lambda c: c["releases"][0].update(shape=["<script>"], source="<b>")))
    assert "<script>" not in nasty.html()


def test_a_statement_can_be_made_void(statement: Statement) -> None:
    void = statement.void("noise was seen")
    assert not void.guarantee.holds
    assert void.certificate["sentence"] == str(void.guarantee)
    assert "noise was seen" in void.certificate["sentence"]
    assert void.certificate["notes"][-1] == "Noise was seen."
    assert "signature" not in statement.sign(Ed25519PrivateKey.generate()).void("noise was seen").certificate
    assert Statement.parse(void.json()).guarantee == void.guarantee
    assert void.void("another reason").guarantee == void.guarantee
