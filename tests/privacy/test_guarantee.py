"""The guarantee as a value: order, composition, words, JSON; and plans."""

import json
import math
import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import Guarantee, Plan, account
from discreet.errors import PrivacyError
from discreet.privacy import Cost, Planned, PureEvent
from discreet.privacy.guarantee import Adjacency, require_adjacency, sensitivity_factor
from discreet.validation import round_up

G = account(epsilon=1, delta=1e-5)


def test_an_adjacency_is_the_string_that_users_write() -> None:
    for member in Adjacency:
        word = member.value
        assert (str(member), repr(member), f"{member}", f"{member!r}", json.dumps(member)) == (
            word, repr(word), word, repr(word), json.dumps(word),
        )  # fmt: skip
        assert member == word
        assert {word: 1}[member] == 1
        assert pickle.loads(pickle.dumps(member)) is member
        assert account(mu=1, delta=1e-5, adjacency=word).adjacency is member
        assert type(account(mu=1, delta=1e-5, adjacency=word).to_json()["adjacency"]) is str
        assert require_adjacency(word, member) is member
    for unknown in ("swap", "ADD_REMOVE", "", None):
        with pytest.raises(PrivacyError, match="adjacency: the sensitivity is proved for 'add-remove', 'replace', 'f"):
            require_adjacency(unknown, *Adjacency)  # type: ignore[arg-type]


def test_it_is_frozen_and_complete() -> None:
    assert (G.delta, G.unit, G.adjacency, G.notion, G.holds, G.why_not) == (
        1e-5,
        "user",
        "add-remove",
        "joint-dp",
        True,
        "",
    )
    assert G.mu == pytest.approx(0.268051, abs=5e-7)
    with pytest.raises(FrozenInstanceError):
        G.delta = 0.5  # type: ignore[misc]
    assert G.epsilon_at(1e-5) == G.epsilon
    assert G.epsilon_at(1e-9) > G.epsilon > G.epsilon_at(1e-3)


def test_the_sentence_says_everything() -> None:
    sentence = str(G)
    for part in (
        "User-level",
        "joint differential privacy",
        "epsilon = 1 ",
        "delta = 1e-05",
        "add-remove",
        "adding or removing one person's entire history changes the probability of any outcome",
        "in what is published, or shown to anyone else, by at most a factor of 2.72, plus 1e-05",
    ):
        assert part in sentence
    assert sentence.count(".") == sentence.count("2.72") + 1  # one sentence
    assert "plus" not in str(Guarantee(Cost.of(PureEvent(1.0)), 0.0, "user", Adjacency.ADD_REMOVE, "dp"))
    entry = account(mu=1, delta=1e-6, unit="entry", adjacency="flip", notion="dp")
    assert "reversing a single entry" in str(entry)
    assert "any of the bits in one person's history" in str(account(mu=1, delta=1e-6, unit="user", adjacency="flip"))
    assert "joint" not in str(entry)
    assert str(G.void("seeded noise")).startswith("NOT PRIVATE: seeded noise")
    assert str(account(mu=1, delta=0).void("seeded noise")) == "NOT PRIVATE: seeded noise."
    assert str(account(mu=1, delta=0)).startswith("NOT PRIVATE: no finite epsilon")
    assert "at most a factor of 22,100" in str(Guarantee(Cost.of(PureEvent(10.0)), 0))
    assert "at most a factor of 1.38e+43" in str(Guarantee(Cost.of(PureEvent(99.33)), 0))
    assert "a factor of e^1000" in str(Guarantee(Cost.of(PureEvent(1000.0)), 0))


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1"), (0.83412, "0.8342"), (1e-5, "1e-05"), (123456.0, "1.235e+05"), (math.inf, "infinity")],
)
def test_numbers_for_people_are_rounded_up(value: float, text: str) -> None:
    assert round_up(value) == text


@settings(max_examples=200, derandomize=True)
@given(st.floats(1e-300, 1e300))
def test_rounding_up_never_rounds_down(value: float) -> None:
    assert float(round_up(value)) >= value


def test_composition() -> None:
    twice = G + G
    assert twice.mu == pytest.approx(G.mu * math.sqrt(2))
    assert twice.epsilon < 2
    assert (G + account(mu=1, delta=1e-4)).delta == 1e-4
    assert (G + account(mu=1, delta=1e-5, notion="dp")).notion == "joint-dp"
    void = G + G.void("seeded") + G.void("seeded")
    assert (void.holds, void.why_not) == (False, "seeded")


@pytest.mark.parametrize(
    "other", [account(mu=1, delta=1e-5, unit="entry"), account(mu=1, delta=1e-5, adjacency="replace")]
)
def test_different_units_or_adjacencies_never_meet_silently(other: Guarantee) -> None:
    with pytest.raises(PrivacyError, match=r"unit|adjacency"):
        G + other


def test_json_round_trip() -> None:
    mixed = Guarantee(Cost.of_mu(0.2) + Cost.of(PureEvent(0.1), 3), 1e-6, unit="entry", adjacency="flip", notion="dp")
    for guarantee in (G, mixed, G.void("why"), account(mu=1, delta=0)):
        assert Guarantee.from_json(json.dumps(guarantee.to_json())) == guarantee
        assert Guarantee.from_json(guarantee.to_json()) == guarantee


def test_json_that_was_edited_is_refused() -> None:
    data = G.to_json()
    with pytest.raises(PrivacyError, match="releases give"):
        Guarantee.from_json({**data, "epsilon": 0.5})
    with pytest.raises(PrivacyError, match="malformed"):
        Guarantee.from_json({key: value for key, value in data.items() if key != "unit"})


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"unit": "household"}, "unit"),
        ({"adjacency": "swap"}, "adjacency"),
        ({"notion": "local"}, "notion"),
        ({"holds": False}, "why_not"),
        ({"why_not": "because"}, "why_not"),
        ({"delta": 1.0}, "delta"),
    ],
)
def test_bad_guarantees(fields: dict[str, object], named: str) -> None:
    with pytest.raises(PrivacyError, match=named):
        Guarantee(**{"cost": Cost.of_mu(1), "delta": 1e-6, **fields})  # type: ignore[arg-type]


# -- plans


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    shares=st.lists(st.tuples(st.floats(0.01, 1), st.integers(1, 20)), min_size=1, max_size=6),
    epsilon=st.floats(0.01, 50),
    sensitivity=st.floats(1e-3, 1e3),
)
def test_shares_of_a_plan_never_cost_more_than_the_whole(
    shares: list[tuple[float, int]], epsilon: float, sensitivity: float
) -> None:
    whole = account(epsilon=epsilon, delta=1e-6)
    total = math.fsum(share for share, _ in shares)
    plan = Plan.gaussian(whole.mu, {f"r{i}": (share / total, n) for i, (share, n) in enumerate(shares)})  # type: ignore[arg-type]
    assert plan.cost.gaussian <= Cost.of_mu(whole.mu).gaussian  # type: ignore[arg-type]
    assert plan.cost.gaussian >= whole.cost.gaussian * (1 - 1e-9)
    for line in plan.lines:
        noise = plan.noise(line.label, sensitivity=sensitivity)
        assert noise.cost(sensitivity).within(line.cost)
        assert noise.cost(sensitivity).gaussian >= line.cost.gaussian * (1 - 1e-9)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Plan.gaussian(1.0, {"a": 0.5, "b": 0.4}), "sum to 1"),
        (lambda: Plan.gaussian(1.0, {"a": 1.5, "b": -0.5}), "shares"),
        (lambda: Plan.gaussian(1.0, {"a": (1.0, 0)}), "count"),
        (lambda: Plan.gaussian(0.0, {"a": 1.0}), "mu"),
        (lambda: Plan(()), "at least one"),
        (lambda: Plan((Planned("a", Cost.of_mu(1)), Planned("a", Cost.of_mu(1)))), "label"),
        (lambda: Planned("a", Cost.of_mu(1), -1), "count"),
        (lambda: Planned("a", Cost.of_mu(1), 1.5), "count"),  # type: ignore[arg-type]
        (lambda: Planned("a", Cost(-5, 1)), "cost"),
        (lambda: Planned("a", 0.5), "cost"),  # type: ignore[arg-type]
        (lambda: Plan((Planned("a", Cost.of(PureEvent(1.0))),)).noise("a", sensitivity=1), "mu"),
        (lambda: Plan.gaussian(1.0, {"a": 1.0})["b"], "not in the plan"),
    ],
)
def test_bad_plans(make: object, named: str) -> None:
    with pytest.raises(PrivacyError, match=named):
        make()  # type: ignore[operator]


@pytest.mark.parametrize("nonnegative", [True, False])
def test_sums_of_two_people_are_as_far_apart_as_the_factor_says(nonnegative: bool) -> None:
    """Orthogonal contributions reach sqrt(2), opposite ones 2; and one alone, 1."""
    other = (0.0, 1.0) if nonnegative else (-1.0, 0.0)
    moved = {"add-remove": math.dist((1.0, 0.0), (0.0, 0.0)), "replace": math.dist((1.0, 0.0), other)}
    for adjacency, distance in moved.items():
        factor = sensitivity_factor(adjacency, nonnegative=nonnegative)
        assert distance <= factor <= distance * (1 + 1e-15)


@pytest.mark.parametrize("adjacency", ["flip", "swap", "", None])
def test_an_adjacency_without_a_proof_has_no_sensitivity(adjacency: Any) -> None:
    with pytest.raises(PrivacyError, match="proved for 'add-remove', 'replace', not for"):
        sensitivity_factor(adjacency)
