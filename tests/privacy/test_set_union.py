"""Which items people have: weights, thresholds, what they cost, and what the ledger says about them."""

import itertools
import json
import math
from decimal import Decimal, localcontext
from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import common
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy import stats

from discreet.errors import BudgetExceeded, PrivacyError
from discreet.privacy import (
    Cost,
    Gaussian,
    Grid,
    GridArray,
    Laplace,
    Ledger,
    Plan,
    Planned,
    PureEvent,
    Releaser,
    Selection,
    SetUnion,
    Threshold,
    ThresholdEvent,
    UserBatch,
)
from discreet.privacy.guarantee import largest_gaussian
from discreet.privacy.noise import InsecureSeededNoise
from discreet.privacy.set_union import weights
from discreet.privacy.statement import Statement
from discreet.privacy.store import Checkpoint

UNITS = 1 << 28


def batch(*rows: list[int]) -> UserBatch:
    ends = np.cumsum([0, *map(len, rows)])
    return UserBatch(ends, np.array([item for row in rows for item in row], np.int64), np.ones(ends[-1]))


def encoded(statistic: SetUnion, *rows: list[int], wanted: Any = None) -> Any:
    given = batch(*rows)
    mask = np.ones(len(given.indices), bool) if wanted is None else np.array(wanted)
    return statistic.encoder(1.0).encode(given, mask)


class Users:
    """Rows in memory, as one batch."""

    def __init__(self, *rows: list[int]) -> None:
        self.batch = batch(*rows)

    def add_up(self, work: Any, n_jobs: int | None) -> Any:
        total = np.zeros(work.shape, np.int64)
        work.add_batch(total, self.batch)
        return total


def everything(given: UserBatch) -> Any:
    return np.ones(len(given.indices), bool)


# -- weights


def test_weights_reach_the_bound() -> None:
    grid, found = Grid(-28), weights(Grid(-28), 1000)
    for k, weight in enumerate(found.tolist()[1:], 1):
        assert k * weight**2 <= UNITS**2 < k * (weight + 1) ** 2
    assert found[0] == 0
    assert grid.units(1.0) == UNITS
    statistic = SetUnion(9)
    one, two = encoded(statistic, [3, 4, 5]), encoded(statistic, [6, 7, 8])
    length = math.sqrt(sum(int(x) ** 2 for x in one)) * statistic.encoder(1.0).grid.step
    apart = math.sqrt(sum(int(x) ** 2 for x in one - two)) * statistic.encoder(1.0).grid.step
    assert 0.999 < length <= statistic.sensitivity("add-remove") == 1.0
    assert 1.414 < apart <= statistic.sensitivity("replace") < 1.4143


@pytest.mark.parametrize("adjacency", ["flip", "unknown"])
def test_other_adjacencies_are_refused(adjacency: str) -> None:
    with pytest.raises(PrivacyError, match="adjacency"):
        SetUnion(3).sensitivity(adjacency)


def test_a_user_counts_a_few_items_and_each_once() -> None:
    full = encoded(SetUnion(20, most=4), list(range(20)))
    assert np.flatnonzero(full).tolist() == [4, 9, 14, 19]  # evenly spaced
    assert len(set(full[full > 0].tolist())) == 1
    assert encoded(SetUnion(20, most=4), [5, 5, 5]).tolist() == encoded(SetUnion(20, most=4), [5]).tolist()
    assert encoded(SetUnion(20), [5, 6], wanted=[True, False]).tolist() == encoded(SetUnion(20), [5]).tolist()
    assert not encoded(SetUnion(20), [5, 6], [], wanted=[False, False]).any()
    assert not encoded(SetUnion(20), [-1, 20]).any()  # no such items


def test_which_items_count_does_not_depend_on_other_people() -> None:
    row, shifted = list(range(0, 30, 2)), list(range(3, 33, 2))  # as numbered when other people have other items
    alone = encoded(SetUnion(40, most=4), row)
    among = encoded(SetUnion(40, most=4), [1, 2, 3], shifted) - encoded(SetUnion(40, most=4), [1, 2, 3])
    assert (np.flatnonzero(alone) + 3).tolist() == np.flatnonzero(among).tolist()


@pytest.mark.parametrize("given", [{"size": 0}, {"size": 3, "most": 0}, {"size": 3, "most": 1 << 20}])
def test_sizes_are_checked(given: dict[str, int]) -> None:
    with pytest.raises(PrivacyError, match=r"size|most"):
        SetUnion(**given)


def test_contributions_are_checked() -> None:
    with pytest.raises(PrivacyError, match="for each entry"):
        encoded(SetUnion(4), [1, 2], wanted=[True])


def test_noise_that_drowns_everyone_is_refused() -> None:
    for grid in (Grid(1), Grid(-3)):
        with pytest.raises(PrivacyError, match="epsilon"):
            weights(grid, 256)


# -- thresholds


def upper_tail(x: float) -> Decimal:
    """1 - Phi(x) by a continued fraction (x > 3), with 40 digits."""
    with localcontext() as context:
        context.prec = 40
        z, tail = Decimal(x), Decimal(0)
        for k in range(2000, 0, -1):
            tail = k / (z + tail)
        pi = Decimal("3.1415926535897932384626433832795028841972")
        return (-z * z / 2).exp() / (2 * pi).sqrt() / (z + tail)


@pytest.mark.parametrize("delta", [1e-4, 1e-7, 1e-12, 1e-40])
@pytest.mark.parametrize("most", [1, 7, 256])
@pytest.mark.parametrize("std", [0.3, 2.0, 117.0])
def test_the_threshold_is_right_and_tight(delta: float, most: int, std: float) -> None:
    grid = SetUnion(3, most).encoder(std).grid
    units, sigma, heights = Threshold(delta, most).units(std, grid), grid.units(std), weights(grid, most)

    def exposed(threshold: int) -> Decimal:
        chances = []
        for k in {1, 2, 3, most // 2 or 1, most} & set(range(1, most + 1)):
            passing = upper_tail((threshold - int(heights[k]) - 0.5) / sigma)
            chances.append(1 - (1 - passing) ** k)
        return max(chances)

    with localcontext() as context:
        context.prec = 60
        assert exposed(units) <= Decimal(delta)
        below = units - 4 - math.ceil(4e-9 * units)
        worst = max(range(1, most + 1), key=lambda k: heights[k] - sigma * stats.norm.ppf(delta / k))
        passing = upper_tail((below - int(heights[worst]) - 0.5) / sigma)
        assert 1 - (1 - passing) ** worst > Decimal(delta)


@pytest.mark.parametrize(("k", "most"), [(1, 1), (256, 256), (40, 256)])
def test_own_items_pass_as_often_as_is_charged_for(k: int, most: int) -> None:
    delta, std, runs, source = 0.2, 3.0, 20_000, InsecureSeededNoise(1)
    encoder = SetUnion(k * runs, most).encoder(std)
    one = int(weights(encoder.grid, most)[k])
    threshold = Threshold(delta, most)
    passed = threshold.passed(GridArray(np.full(k * runs, one), encoder.grid), Gaussian(std), source)
    times = len(np.unique(passed[0] // k))  # in how many runs any of k items passed
    low, high = stats.binomtest(times, runs).proportion_ci(0.9999)
    assert low <= delta
    if k == most:  # the worst case, for noise of this size
        assert high > 0.97 * delta
    assert (passed[1] >= threshold.units(std, encoder.grid) * encoder.grid.step).all()


def test_only_items_that_someone_has_get_noise() -> None:
    values = np.zeros(1000, np.int64)
    values[::10] = 1 << 40
    passed = Threshold(0.9, 1).passed(GridArray(values, Grid(-20)), Gaussian(1.0), InsecureSeededNoise(0))
    assert passed[0].tolist() == list(range(0, 1000, 10))
    assert Threshold(0.1).passed(GridArray(values * 0, Grid(-20)), Gaussian(1.0), InsecureSeededNoise(0)).shape == (
        2,
        0,
    )


@pytest.mark.parametrize("noise", [Laplace(1.0), Gaussian(1.0, symmetric=True)])
def test_other_noise_has_no_threshold(noise: Any) -> None:
    with pytest.raises(PrivacyError, match="Gaussian"):
        Threshold(0.1).passed(GridArray(np.ones(3, np.int64), Grid(-20)), noise, InsecureSeededNoise(0))
    with pytest.raises(PrivacyError, match="vector"):
        Threshold(0.1).passed(GridArray(np.ones((3, 3), np.int64), Grid(-20)), Gaussian(1.0), InsecureSeededNoise(0))


@pytest.mark.parametrize("delta", [0.0, 1.0, 1e-200, math.nan])
def test_deltas_are_checked(delta: float) -> None:
    with pytest.raises(PrivacyError, match="delta"):
        Threshold(delta)


# -- costs


def test_thresholds_add_to_delta() -> None:
    cost = Cost.of_mu(0.5) + Cost.of(ThresholdEvent(1e-6)) + Cost.of(ThresholdEvent(2e-6), 2)
    assert cost.exposure == pytest.approx(5e-6)
    assert cost.exposure >= 5e-6
    assert cost.noise == Cost.of_mu(0.5)
    assert cost.mu is None
    assert math.isinf(cost.renyi(2.0))
    assert cost.epsilon(1e-5) == pytest.approx(Cost.of_mu(0.5).epsilon(5e-6))
    assert cost.filter is None
    assert cost.epsilon(1e-5) >= Cost.of_mu(0.5).epsilon(5e-6)
    assert math.isinf(cost.epsilon(5e-6))
    assert math.isinf(cost.epsilon(0.0))
    assert math.isinf(cost.pure)
    together = pld.from_gaussian_mechanism(2.0, value_discretization_interval=1e-4)
    for delta in (1e-6, 2e-6, 2e-6):
        one = common.DifferentialPrivacyParameters(0.0, delta)
        together = together.compose(pld.from_privacy_parameters(one, value_discretization_interval=1e-4))
    assert together.get_epsilon_for_delta(1e-5) == pytest.approx(cost.epsilon(1e-5), rel=1e-4)
    with pytest.raises(dp_accounting.UnsupportedEventError):
        dp_accounting.pld.PLDAccountant().compose(cost.dp_event())
    assert Cost.from_json(json.loads(json.dumps(cost.to_json()))) == cost
    pure = Cost.of(PureEvent(0.5)) + Cost.of(ThresholdEvent(1e-6))
    assert 0.49 < pure.epsilon(2e-6) <= 0.5


def test_a_search_cannot_repeat_a_threshold() -> None:
    with pytest.raises(PrivacyError, match="before it"):
        Selection(Cost.of_mu(0.1) + Cost.of(ThresholdEvent(1e-7)), 3.0, math.inf)


# -- the ledger


def plan(delta: float = 1e-7, mu: float = 0.5) -> Plan:
    return Plan((Planned("items", Cost.of_mu(mu) + Cost.of(ThresholdEvent(delta))),))


ROWS = [[item % 7, 7 + item % 3] for item in range(900)]


def released(ledger: Ledger, *, adjacency: str = "add-remove", rows: Any = ROWS, **given: Any) -> tuple[Any, Any]:
    told: list[str] = []
    with ledger.reserve(plan(**given)) as reservation:
        releaser = Releaser(reservation, adjacency, 1, lambda share, label: told.append(f"{label} {share:g}"))
        found = releaser.release_items("items", Users(*rows), everything, n_items=500, most=8)
    assert told == ["items 1"]
    return found


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_popular_items_are_found(adjacency: Any) -> None:
    ledger = Ledger(delta=1e-6, adjacency=adjacency)
    places, noisy = released(ledger, adjacency=adjacency)
    assert places.tolist() == list(range(10))
    assert places.dtype == np.int64
    exact = np.bincount(np.array(ROWS).ravel()) / math.sqrt(2)
    assert np.abs(noisy - exact).max() < 20
    assert ledger.spent.cost == plan().cost
    assert ledger.spent.delta == 1e-6


def test_a_record_does_not_tell_how_many_items_there_are() -> None:
    one, two = Ledger(delta=1e-6), Ledger(delta=1e-6)
    released(one)
    released(two, rows=[*ROWS, [400], [401, 402, 403]])
    (first,), (second,) = one.events, two.events
    assert {**first.body, "time": 0, "reservation": 0} == {**second.body, "time": 0, "reservation": 0}
    assert "shape" not in first.body
    assert first.body["threshold"] == {"delta": 1e-7, "most": 8}
    assert first.cost == plan().cost


def test_nobody_has_anything() -> None:
    places, noisy = released(Ledger(delta=1e-6), rows=[[], []])
    assert not len(places)
    assert not len(noisy)


def test_a_statement_lists_the_threshold_and_checks_it() -> None:
    ledger = Ledger(epsilon=3, delta=1e-6, threshold_delta=2e-7)
    released(ledger)
    ledger.release([1, 2, 3], 1.0, Gaussian(5.0), "more")
    statement = ledger.statement()
    text = str(statement)
    assert "| items | - | 1 | gaussian std 2, above a threshold that fails with probability 1e-07 |" in text
    assert Statement.parse(statement.json()).guarantee == statement.guarantee == ledger.spent
    assert statement.certificate["budget"]["threshold_delta"] == 2e-7
    assert "86.2%" in text  # the share of mu^2
    forged = json.loads(statement.json())
    forged["releases"][0]["threshold"]["delta"] = 1e-9
    again = Statement(forged)._with()
    with pytest.raises(PrivacyError, match="does not cost"):
        Statement.parse(again.json())
    assert statement.includes(statement)
    assert not Ledger(delta=0.1).statement().includes(statement)


def test_a_choice_is_told_from_another_of_the_same_cost() -> None:
    """Otherwise a guarantee that includes one choice would seem to include all."""
    ledgers = [Ledger(delta=1e-6) for _ in range(2)]
    for ledger in ledgers:
        released(ledger)
        ledger.release([1, 2, 3], 1.0, Gaussian(5.0), "more")
    one, other = (ledger.statement() for ledger in ledgers)
    assert one.guarantee == other.guarantee
    assert not one.includes(other)
    choice, another = one.choice(), other.choice()
    assert choice is not None
    assert another is not None
    assert Statement.parse(choice.json()).guarantee.cost == plan().cost
    assert choice.guarantee.delta == 1e-6
    assert one.includes(choice)
    assert not one.includes(another)
    assert Ledger(delta=0.1).statement().choice() is None


def test_a_plan_must_pay_for_a_threshold() -> None:
    ledger = Ledger(delta=1e-6)
    with ledger.reserve(Plan((Planned("items", Cost.of_mu(0.5)),))) as reservation:
        with pytest.raises(PrivacyError, match="exposure"):
            Releaser(reservation, "add-remove", 1).release_items("items", Users(*ROWS), everything, n_items=9, most=8)
        with pytest.raises(PrivacyError, match="more than the plan"):
            units = GridArray(np.ones(3, np.int64) << 30, Grid(-28))
            reservation.release(units, 1.0, Gaussian(2.0), "items", threshold=Threshold(1e-7))
    assert not ledger.events


def test_a_threshold_cannot_be_resumed(tmp_path: Any) -> None:
    ledger = Ledger(delta=1e-6)
    with (
        pytest.raises(PrivacyError, match="checkpoint"),
        ledger.reserve(plan(), checkpoint=Checkpoint(tmp_path, "x" * 8)) as reservation,
    ):
        Releaser(reservation, "add-remove", 1).release_items("items", Users(*ROWS), everything, n_items=500, most=8)


@pytest.mark.parametrize("kind", ["gaussian", "renyi"])
def test_a_ledger_keeps_delta_for_thresholds(kind: Any) -> None:
    settings: dict[str, Any] = {"epsilon": 2, "delta": 1e-6, "filter": kind}
    ledger = Ledger(**settings, threshold_delta=2e-7)
    whole, rest = Ledger(**settings).remaining, ledger.remaining
    assert whole is not None
    assert rest is not None
    assert rest.cost.gaussian < whole.cost.gaussian
    if kind == "gaussian":
        assert rest.cost.gaussian == largest_gaussian(2.0, math.nextafter(1e-6 - 2e-7, 0))
    for _ in range(2):  # each has 1e-7
        assert ledger.admits(plan(mu=0.1).cost)
        released(ledger, mu=0.1)
    assert not ledger.admits(plan(mu=0.1).cost)
    assert ledger.admits(Cost.of_mu(0.1))
    with pytest.raises(BudgetExceeded):
        released(ledger, mu=0.1)
    assert ledger.remaining is not None
    assert 0 < ledger.remaining.cost.gaussian < rest.cost.gaussian
    assert ledger.spent.epsilon <= 2
    assert Statement.parse(ledger.statement().json()).guarantee == ledger.spent


def test_a_filter_may_be_the_better_bound_for_a_certificate() -> None:
    ledger = Ledger(epsilon=1, delta=1e-6, filter="renyi", threshold_delta=5e-7)
    released(ledger, delta=5e-7, mu=0.01)
    spent = ledger.remaining
    assert spent is not None
    ledger.release([1], 1.0, Gaussian.for_cost(spent.cost, sensitivity=1.0), "the rest")
    assert Statement.parse(ledger.statement().json()).guarantee == ledger.spent


def test_without_a_part_of_delta_a_threshold_is_a_first_and_only_plan() -> None:
    ledger = Ledger(epsilon=3, delta=1e-6)
    released(ledger)
    assert ledger.spent.epsilon <= 3
    assert ledger.remaining is not None
    assert not ledger.remaining.cost
    with pytest.raises(BudgetExceeded):
        ledger.release([1], 1.0, Gaussian(100.0), "more")
    other = Ledger(epsilon=3, delta=1e-6)
    other.release([1], 1.0, Gaussian(100.0), "before")
    with pytest.raises(BudgetExceeded):
        released(other)


def test_the_part_of_delta_is_kept(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    Ledger(url, epsilon=1, delta=1e-6, threshold_delta=1e-7)
    assert Ledger(url).threshold_delta == 1e-7
    with pytest.raises(PrivacyError, match="threshold_delta"):
        Ledger(url, epsilon=1, delta=1e-6, threshold_delta=2e-7)
    for kept in (1e-6, 2.0, -1.0):
        with pytest.raises(PrivacyError, match="threshold_delta"):
            Ledger(epsilon=1, delta=1e-6, threshold_delta=kept)


def test_deltas_add_up_exactly() -> None:
    for first, second in itertools.product((1e-7, 0.3, 1 / 3), repeat=2):
        total = Cost.of(ThresholdEvent(first)) + Cost.of(ThresholdEvent(second))
        assert total.exposure >= first + second or math.isclose(total.exposure, first + second)
        assert (total + total * -1).exposure == 0
