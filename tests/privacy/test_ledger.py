"""The ledger: order of events, what is refused, budgets and filters."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import Gaussian, Laplace, Ledger, Plan, RandomizedResponse, account
from discreet.errors import BudgetExceeded, PrivacyError, Unbounded
from discreet.privacy import (
    Cost,
    DeclaredNoise,
    Grid,
    GridArray,
    Planned,
    PureEvent,
    SampledGaussian,
    Selection,
    SystemNoise,
)
from discreet.testing import InsecureSeededNoise
from tests.privacy.ledgers import COUNTS, budget


def test_a_release_is_recorded_and_charged(url: str | None) -> None:
    ledger = budget(url)
    assert (ledger.spent.epsilon, ledger.events) == (0, [])
    public = ledger.release(COUNTS, sensitivity=1, noise=Gaussian(8.0), label="clicks per item")
    assert public.shape == (3,)
    assert ledger.spent.mu == 1 / 8
    (event,) = ledger.events
    assert (event.label, event.body["sensitivity"], event.body["shape"]) == ("clicks per item", 1, [3])
    assert event.body["noise"] == {"kind": "gaussian", "std": 8.0, "symmetric": False}
    assert event.cost == Cost.of_gaussian(1, 8)
    assert ledger.remaining is not None
    assert ledger.remaining.mu == pytest.approx(math.sqrt(account(epsilon=1, delta=1e-6).mu ** 2 - 1 / 64))  # type: ignore[operator]
    assert "spent epsilon=0.5" in repr(ledger)
    ledger.verify()


def test_a_number_is_the_std_of_gaussian_noise() -> None:
    ledger = budget()
    ledger.release(GridArray(COUNTS << 20, Grid(-20)), 1.0, 8.0, "counts")
    assert ledger.spent.mu == 1 / 8


def test_the_order_is_check_record_draw() -> None:
    steps: list[str] = []

    class Watching(InsecureSeededNoise):
        def fresh_key(self) -> bytes:
            steps.append(f"draw after {len(ledger.events)} records")
            return super().fresh_key()

    ledger = budget(noise_source=Watching(0))
    ledger.release(COUNTS, 1, Gaussian(8.0), "one")
    with pytest.raises(PrivacyError):
        ledger.release(COUNTS, 0, Gaussian(8.0), "two")
    assert steps == ["draw after 1 records"]


@pytest.mark.parametrize(
    ("statistic", "sensitivity", "noise", "label", "named"),
    [
        (COUNTS * 1.0, 1, 8.0, "x", "statistic"),
        (["a"], 1, 8.0, "x", "statistic"),
        (COUNTS, 0, 8.0, "x", "sensitivity"),
        (COUNTS, math.inf, 8.0, "x", "sensitivity"),
        (COUNTS, math.nan, Laplace(1.0), "x", "sensitivity"),
        (COUNTS, 1, 0.0, "x", "noise"),
        (COUNTS, 1, math.inf, "x", "noise"),
        (COUNTS, 1, "lots", "x", "noise"),
        (COUNTS, 1, Gaussian(8.0), "", "label"),
        (COUNTS, 1, Gaussian(8.0), 7, "label"),
        (COUNTS, 1, Gaussian(8.0, symmetric=True), "x", "statistic"),
        (GridArray(COUNTS, Grid(-60)), 1, Gaussian(8.0), "x", "grid"),
        (COUNTS, 1e10, Gaussian(8.0), "x", "as good as none"),
        (COUNTS, 0.5, Gaussian(8.0), "x", "sensitivity"),
        (COUNTS, 1, 10**400, "x", "noise"),
        (np.zeros((0, 3), int), 1, 8.0, "x", "empty"),
        (np.broadcast_to(np.int64(0), (1 << 41,)), 1, Gaussian(8.0), "x", "2\\^40"),
    ],
)
def test_bad_releases_name_the_argument_and_leave_no_trace(
    statistic: object, sensitivity: float, noise: float, label: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if named == "2\\^40":  # as a GridArray, so that nothing copies 16 TiB
        statistic = GridArray(statistic, Grid())  # type: ignore[arg-type]
    ledger = budget()
    with pytest.raises(PrivacyError, match=named):
        ledger.release(statistic, sensitivity, noise, label)  # type: ignore[arg-type]
    assert [entry.kind for entry in ledger.entries] == ["open"]


def test_unbounded_is_its_own_error() -> None:
    with pytest.raises(Unbounded):
        budget().release(COUNTS, math.inf, 8.0, "x")


# -- budgets


def test_the_budget_stops_what_does_not_fit_and_says_what_would(url: str | None) -> None:
    ledger = budget(url)
    ledger.release(COUNTS, 1, Gaussian(6.0), "first")
    left = ledger.remaining
    assert left is not None
    with pytest.raises(
        BudgetExceeded, match=rf"'second' asks for epsilon = 1\.\d+ .* epsilon = {left.epsilon:.2g}\d*; nothing"
    ) as caught:
        ledger.release(COUNTS, 1, Gaussian(3.9), "second")
    assert "delta = 1e-06" in str(caught.value)
    assert len(ledger.events) == 1
    ledger.release(COUNTS, 1, Gaussian.for_cost(Cost.of_mu(left.mu * (1 - 1e-12)), sensitivity=1), "all that is left")  # type: ignore[operator]
    assert ledger.spent.epsilon <= 1
    assert ledger.remaining.epsilon < 1e-3  # type: ignore[union-attr]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(st.floats(1.0, 60.0), min_size=1, max_size=30), st.floats(0.05, 20))
def test_no_sequence_overspends_and_no_refusal_would_have_fitted(stds: list[float], epsilon: float) -> None:
    ledger = Ledger(epsilon=epsilon, delta=1e-6)
    spent = Cost()
    for std in stds:
        cost = Cost.of_gaussian(1, std)
        try:
            ledger.release(0, 1, std, "x")
            spent += cost
        except BudgetExceeded:
            assert (spent + cost).epsilon(1e-6) > epsilon * (1 - 1e-8)
        assert ledger.spent.cost.gaussian == spent.gaussian
        assert ledger.spent.epsilon <= epsilon


def test_a_fit_of_the_whole_budget_fits(url: str | None) -> None:
    ledger = budget(url)
    plan = Plan.gaussian(account(epsilon=1, delta=1e-6).mu, {"a": 0.1, "b": (0.9, 7)})  # type: ignore[arg-type]
    fine = GridArray(COUNTS << 20, Grid(-20))
    with ledger.reserve(plan) as reserved:
        for _ in range(7):
            reserved.release(fine, 0.3, plan.noise("b", sensitivity=0.3), "b")
        reserved.release(COUNTS, 2.0, plan.noise("a", sensitivity=2.0), "a")
    assert 1 - 1e-6 < ledger.spent.epsilon <= 1


@pytest.mark.parametrize("filter", ["gaussian", "renyi"])
def test_mixed_budgets(filter: str) -> None:
    ledger = Ledger(epsilon=4, delta=1e-6, filter=filter)  # type: ignore[arg-type]
    ledger.release([1, 0, 1], 1, RandomizedResponse(epsilon=0.5), "bits")
    ledger.release([1, 0, 1], 1, Laplace(4.0), "counts")
    ledger.release([1, 0, 1], 1, Gaussian(8.0), "more counts")
    assert ledger.spent.mu is None
    assert 0.75 < ledger.spent.epsilon < 0.5 + 0.25 + account(noise_multiplier=8, delta=1e-6).epsilon
    left = ledger.remaining
    assert left is not None
    with pytest.raises(BudgetExceeded, match="as a plan"):
        ledger.charge(left.cost + Cost.of_mu(0.1), "too much", source=SystemNoise())
    ledger.charge(left.cost, "the rest", source=SystemNoise())
    assert 2 < ledger.spent.epsilon <= 4
    assert ledger.remaining.epsilon < 0.03  # type: ignore[union-attr]
    assert "fixed in advance" in str(ledger.statement())


def test_a_mixed_plan_fixed_in_advance_is_priced_tightly_and_stays_charged() -> None:
    """By dp_accounting's PLD; what it did not use is not returned, since that would be an adaptive choice."""
    cost = Cost.of(PureEvent(0.2), 20) + Cost.of_mu(0.3)
    plan = Plan((Planned("bits", Cost.of(PureEvent(0.2)), 20), Planned("counts", Cost.of_mu(0.3))))
    ledger = Ledger(epsilon=cost.epsilon(1e-6) * 1.0001, delta=1e-6)
    assert not ledger._filter_admits(cost)
    assert ledger.preview(plan).fits
    with ledger.reserve(plan) as reserved:
        reserved.release([1, 0], 1, RandomizedResponse(epsilon=0.2), "bits")
    assert ledger.spent.cost.gaussian == cost.gaussian
    assert dict(ledger.spent.cost.events) == dict(cost.events)
    for more in (Cost.of_mu(1e-3), Cost.of(PureEvent(1e-3))):
        with pytest.raises(BudgetExceeded):
            ledger.charge(more, "more", source=SystemNoise())


def test_choosing_the_noise_by_earlier_results_cannot_beat_the_filter() -> None:
    """Two continuations of one first release, each of which alone composes to the budget: an adaptive choice does not.

    Taking the pure one when the first loss is large, the Gaussian one else, doubles delta; so not both are admitted.
    """
    first, gaussian, pure = Cost.of_mu(0.01184), Cost.of_mu(0.2364), Cost.of(PureEvent(0.9606))
    for second in (gaussian, pure):
        assert (first + second).epsilon(1e-6) == pytest.approx(1.0, rel=0.01)
    ledger = Ledger(epsilon=1.01, delta=1e-6)
    ledger.charge(first, "first", source=SystemNoise())
    with pytest.raises(BudgetExceeded):
        ledger.charge(pure, "pure", source=SystemNoise())
    ledger.charge(gaussian, "gaussian", source=SystemNoise())


def test_pure_budgets() -> None:
    ledger = Ledger(epsilon=1, delta=0)
    ledger.release(COUNTS, 1, Laplace(2.0), "half")
    assert ledger.spent.epsilon == pytest.approx(0.5)
    assert ledger.remaining.epsilon == pytest.approx(0.5)  # type: ignore[union-attr]
    with pytest.raises(PrivacyError, match="delta"):
        ledger.release(COUNTS, 1, Gaussian(100.0), "gaussian")
    with pytest.raises(BudgetExceeded):
        ledger.release(COUNTS, 1, Laplace(1.5), "too much")
    ledger.release(COUNTS, 1, Laplace(2.0000001), "the other half")
    with pytest.raises(BudgetExceeded, match="epsilon = "):
        ledger.release(COUNTS, 1, Laplace(2.0), "a third half")
    assert Ledger(epsilon=1, delta=0).remaining.epsilon == pytest.approx(1)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("epsilon", "scale", "times"), [(1, 10.0, 10), (0.3, 10.0, 3), (0.7, 10.0, 7), (1.1, 10.0, 11)]
)
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_tenths_add_up(epsilon: float, scale: float, times: int, delta: float) -> None:
    """A float stands for the number it prints as: ten releases of 0.1 make 1, and no eleventh fits."""
    ledger = Ledger(epsilon=epsilon, delta=delta)
    for _ in range(times):
        ledger.release(COUNTS, 1, Laplace(scale), "a tenth")
    assert ledger.spent.cost.pure == epsilon
    with pytest.raises(BudgetExceeded):
        ledger.release(COUNTS, 1, Laplace(1000.0), "more")


def test_a_pure_budget_that_is_exactly_spent() -> None:
    ledger = Ledger(epsilon=1, delta=0)
    ledger.charge(Cost.of(PureEvent(1.0)), "all", source=SystemNoise())
    assert ledger.remaining.epsilon == 0  # type: ignore[union-attr]


def test_without_a_budget_everything_is_recorded_and_nothing_refused() -> None:
    ledger = Ledger()
    ledger.release(COUNTS, 1, Gaussian(0.01), "loud")
    assert ledger.remaining is None
    assert ledger.spent.mu == 100
    assert "no budget" in repr(ledger)
    assert Ledger(delta=1e-5).spent.delta == 1e-5


def test_charges_that_arise_elsewhere() -> None:
    ledger = budget(epsilon=3, filter="renyi")
    ledger.charge(Cost.of(SampledGaussian(0.5, 0.01), 100), "sampled steps", source=SystemNoise())
    ledger.charge(Cost.of(Selection(Cost.of_mu(0.05), 3.0, 1.0)), "tuning", source=SystemNoise())
    assert [event.label for event in ledger.events] == ["sampled steps", "tuning"]
    assert 0 < ledger.spent.epsilon <= 3
    sampled = Cost.of(SampledGaussian(0.5, 0.01))
    for cost in (sampled, Cost.of(Selection(sampled, 3.0, math.inf))):
        with pytest.raises(PrivacyError, match="add-remove"):
            budget(adjacency="replace").charge(cost, "x", source=SystemNoise())
    exact = budget()
    exact.charge(Cost.of_mu(0.01), "first", source=SystemNoise())
    with pytest.raises(BudgetExceeded, match="renyi"):
        exact.charge(sampled, "sampled", source=SystemNoise())
    assert budget().remaining is not None
    only = budget()
    only.charge(sampled, "a first charge is a plan of its own", source=SystemNoise())
    assert only.remaining.epsilon == 0  # type: ignore[union-attr]


def test_a_charge_says_where_its_randomness_came_from() -> None:
    ledger = budget(filter="renyi", epsilon=3)
    sampled = Cost.of(SampledGaussian(0.5, 0.01))
    entry = ledger.charge(sampled, "a step", source=ledger.noise_source, noise=Gaussian(2.0), sensitivity=1.0)
    assert ledger.events == [entry]
    assert entry.body["noise"] == {"kind": "gaussian", "std": 2.0, "symmetric": False}
    assert (entry.body["sensitivity"], entry.body["secure"]) == (1.0, True)
    assert "AES-256" in entry.body["source"]
    users = DeclaredNoise("coins of the users' own")
    assert ledger.charge(Cost.of_mu(0.1), "bits", source=users).body["source"] == users.name
    assert ledger.spent.holds
    assert ledger.guarantee(sampled, ledger.events, delta=1e-7).delta == 1e-7
    seeded = ledger.charge(Cost.of_mu(0.1), "a test", source=InsecureSeededNoise(0))
    assert not ledger.spent.holds
    assert not ledger.guarantee(Cost.of_mu(0.1), [seeded]).holds
    assert Ledger(noise_source=InsecureSeededNoise(0)).preview(Plan.gaussian(1.0, {"x": 1.0})).cost.holds is False
    ledger.verify()


@pytest.mark.parametrize("source", [None, "trust me", object(), DeclaredNoise(" "), type("S", (), {"name": "x"})()])
def test_a_charge_from_nowhere_is_refused(source: Any) -> None:
    ledger = budget()
    with pytest.raises(PrivacyError, match="source: say where the secret randomness comes from"):
        ledger.charge(Cost.of_mu(0.1), "x", source=source)
    with pytest.raises(TypeError, match="source"):
        ledger.charge(Cost.of_mu(0.1), "x")  # type: ignore[call-arg]
    assert ledger.events == []
    if source is not None:
        with pytest.raises(PrivacyError, match="source"):
            Ledger(noise_source=source)


def test_declared_noise_draws_nothing() -> None:
    with pytest.raises(PrivacyError, match="drawn elsewhere"):
        Ledger(noise_source=DeclaredNoise("users")).release(COUNTS, 1, 8.0, "x")


@pytest.mark.parametrize(
    ("cost", "given"),
    [
        (Cost.of_mu(0.5), {"noise": Gaussian(2.0)}),
        (Cost.of_mu(0.5), {"sensitivity": 1.0}),
        (Cost.of_mu(0.5), {"noise": Gaussian(1.9), "sensitivity": 1.0}),
        (Cost.of_mu(0.4), {"noise": Gaussian(2.0), "sensitivity": 1.0}),
        (Cost.of_mu(0.5), {"noise": Laplace(9.0), "sensitivity": 1.0}),
        (Cost.of(SampledGaussian(0.5, 0.01)), {"noise": Gaussian(1.9), "sensitivity": 1.0}),
        (Cost.of(SampledGaussian(0.4, 0.01)), {"noise": Gaussian(2.0), "sensitivity": 1.0}),
        (Cost.of(SampledGaussian(0.5, 0.01)), {"noise": Laplace(9.0), "sensitivity": 1.0}),
        (0.5, {"noise": Gaussian(2.0), "sensitivity": 1.0}),
    ],
)
def test_a_charge_that_does_not_pay_for_its_noise_is_refused(cost: Any, given: dict[str, Any]) -> None:
    ledger = budget()
    with pytest.raises(PrivacyError, match=r"does not pay|both, or neither"):
        ledger.charge(cost, "x", source=SystemNoise(), **given)
    assert ledger.events == []


@pytest.mark.parametrize(
    "cost", [Cost(), Cost(-5, 1), Cost(5, -1), Cost.of(PureEvent(1.0), -1), Cost.of(Selection(Cost(-1), 2.0, 1.0))]
)
def test_costs_that_are_none_or_negative_are_refused(cost: Cost) -> None:
    ledger = budget()
    with pytest.raises(PrivacyError, match="positive"):
        ledger.charge(cost, "x", source=SystemNoise())
    with pytest.raises(PrivacyError, match="positive"):
        ledger.charge(0.5, "x", source=SystemNoise())  # type: ignore[arg-type]
    assert ledger.events == []


def test_what_a_refusal_says() -> None:
    with pytest.raises(BudgetExceeded, match=r"largest that still fits is epsilon = 1; nothing was spent$"):
        budget().release(COUNTS, 1, Laplace(0.5), "alone")


def test_unit_and_adjacency_are_checked_for_models() -> None:
    ledger = budget()
    ledger.expect(unit="user", adjacency="add-remove")
    with pytest.raises(PrivacyError, match="unit"):
        ledger.expect(unit="entry", adjacency="add-remove")
    with pytest.raises(PrivacyError, match="adjacency"):
        ledger.expect(unit="user", adjacency="replace")
