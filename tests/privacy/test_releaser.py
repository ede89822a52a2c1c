"""The releaser: noise that the plan pays for, several statistics from one pass, and secret samples."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from discreet.errors import PrivacyError
from discreet.privacy import Cost, GramSum, Ledger, OuterSum, Plan, Planned, Releaser, VectorSum
from discreet.privacy.releaser import Noisy, clear_of, edge_of_rows, mean_of, noise_edge, without_noise
from discreet.privacy.selection import poisson_sample, sampled_cost
from discreet.privacy.statistics import Stacked
from discreet.testing import InsecureSeededNoise
from tests.privacy.test_statistics import CASES, ITEMS, RANK, Person, batch_of, entries, outer, person


class AllUsers:
    """All people in one batch."""

    def __init__(self, some: list[Person]) -> None:
        self.some = some

    def add_up(self, work: Any, n_jobs: Any) -> Any:
        total, in_place = np.zeros(work.shape, np.int64), np.zeros(work.shape, np.int64)
        total = work.add(total, work(batch_of(self.some)), n_jobs)
        work.add_batch(in_place, batch_of(self.some))
        assert np.array_equal(in_place, total)
        return total


class AddsUpTo:
    """An engine that ends with some array."""

    def __init__(self, total: Any) -> None:
        self.total = total

    def add_up(self, work: Any, n_jobs: Any) -> Any:
        batch = batch_of(SOME)
        work(batch)
        return self.total


def releasing(plan: Plan, adjacency: Any = "add-remove") -> Any:
    return Ledger(delta=1e-6, adjacency=adjacency, noise_source=InsecureSeededNoise(3)).reserve(plan)


SOME = [person([0, 1], [3.0, 4.0]), person([2], [0.5])]


def test_a_release_has_the_noise_that_the_plan_pays_for() -> None:
    told: list[tuple[float, str]] = []
    case = CASES["vector of entries"]
    with releasing(Plan.gaussian(1.0, {"sums": 0.25, "Gram": 0.75}), "replace") as reservation:
        releaser = Releaser(reservation, "replace", 1, lambda share, label: told.append((share, label)))
        found = releaser.release("sums", case.statistic, AllUsers(SOME), lambda batch: entries(SOME))
        assert found.std == pytest.approx(2 * 0.7 / 0.5)
        noise = releaser.noise("Gram", GramSum(2, 1.0))
        assert noise.symmetric
        assert noise.std == pytest.approx(math.sqrt(2) / math.sqrt(0.75))
        for wrong in (np.zeros(2, np.int64), np.zeros(ITEMS)):
            with pytest.raises(PrivacyError, match="another shape or type"):
                releaser.release("sums", case.statistic, AddsUpTo(wrong), lambda batch: entries(SOME))
    assert told == [(1, "sums")]
    assert [event.body["sensitivity"] for event in reservation._ledger.events] == [math.nextafter(1.4, 2)]


def test_a_sum_is_released_under_several_labels() -> None:
    """With independent noise, each at the cost of its line; the sum is the same, however large the noise is."""
    statistic, labels = GramSum(ITEMS, 25.0), ("first", "second")
    for mu in (1.0, 1e6):  # with next to no noise the sum itself is seen
        with releasing(Plan.gaussian(mu, {"first": 0.9, "second": 0.1})) as reservation:
            releaser = Releaser(reservation, "add-remove", 1)
            noises = [releaser.noise(label, statistic) for label in labels]
            found = list(releaser.release_repeatedly(labels, statistic, AllUsers(SOME), lambda batch: entries(SOME)))
        assert [one.std for one in found] == [noise.std for noise in noises]
        assert [event.body["label"] for event in reservation._ledger.events] == list(labels)
        assert not np.array_equal(found[0].values, found[1].values)
        assert all(np.array_equal(one.values, one.values.T) for one in found)
    expected = np.zeros((ITEMS, ITEMS))
    expected[:2, :2], expected[2, 2] = np.outer([3, 4], [3, 4]), 0.25
    assert all(np.allclose(one.values, expected, atol=1e-2) for one in found)


def test_a_sum_is_released_under_parts_of_several_labels() -> None:
    """Each with the noise of its part, and so often that the line has paid for them; then no more."""
    statistic, labels = GramSum(ITEMS, 25.0), ("first", "second")
    plan = Plan.gaussian(1.0, {"first": 0.9, "second": 0.1})
    with releasing(plan) as reservation:
        releaser = Releaser(reservation, "add-remove", 1)

        def release() -> list[Any]:
            users = AllUsers(SOME)
            return list(
                releaser.release_repeatedly(labels, statistic, users, lambda batch: entries(SOME), what="x", parts=3)
            )

        found = [one for _ in range(3) for one in release()]
        stds = [releaser.noise(label, statistic).std * math.sqrt(3) for label in labels]
        assert [one.std for one in found] == pytest.approx(stds * 3)
        assert all(event.body["what"] == "x" for event in reservation._ledger.events)
        assert sum((event.cost for event in reservation._ledger.events), Cost()).within(plan.cost)
        with pytest.raises(PrivacyError):
            release()


def test_statistics_of_one_pass_are_those_of_two() -> None:
    gram, steps = GramSum(RANK, 6.0), OuterSum((ITEMS, RANK), 0.3)

    def both(batch: Any) -> Any:
        return np.array([person_["vectors"][0] for person_ in SOME]), outer(SOME)

    plan = Plan.gaussian(1.0, {"Gram": 0.5, "steps": 0.5})
    with releasing(plan) as reservation:
        releaser = Releaser(reservation, "add-remove", 1)
        together = releaser.release_together([("Gram", gram), ("steps", steps)], AllUsers(SOME), both)
        with pytest.raises(PrivacyError, match="equally many columns"):
            releaser.release_together([("Gram", gram), ("steps", VectorSum(3, 1.0))], AllUsers(SOME), both)
    with releasing(plan) as reservation:
        releaser = Releaser(reservation, "add-remove", 1)
        apart = [
            releaser.release("Gram", gram, AllUsers(SOME), lambda batch: both(batch)[0]),
            releaser.release("steps", steps, AllUsers(SOME), lambda batch: both(batch)[1]),
        ]
    for one, other in zip(together, apart, strict=True):
        assert np.array_equal(one.values, other.values)
        assert one.std == other.std


def test_a_compiled_pass_has_a_total_for_each_statistic() -> None:
    stacked = Stacked((GramSum(3, 6.0).encoder(1.0), OuterSum((5, 3), 0.3).encoder(1.0)))
    total = np.zeros(stacked.shape, np.int64)
    squares, vectors = stacked.totals(total, "squares")
    squares.array[:], vectors.array[:] = 1, 2
    assert (squares.kind, vectors.kind) == ("squares", "vectors")
    assert np.array_equal(total, np.repeat([[1], [2]], [3, 5], axis=0).repeat(3, axis=1))
    with pytest.raises(PrivacyError, match="no compiled function of the kind 'whole'"):
        stacked.totals(total, "whole")


def test_several_parts_take_the_place_of_one_release() -> None:
    gram, steps = GramSum(RANK, 6.0), OuterSum((ITEMS, RANK), 0.3)
    told: list[tuple[Fraction, str]] = []

    def both(batch: Any) -> Any:
        return np.array([person_["vectors"][0] for person_ in SOME]), outer(SOME)

    with releasing(Plan.gaussian(1.0, {"Gram": (0.5, 2), "steps": (0.5, 2)})) as reservation:
        releaser = Releaser(reservation, "add-remove", 1, lambda *given: told.append(given))
        statistics = [("Gram", gram), ("steps", steps)]
        whole = releaser.release_together(statistics, AllUsers(SOME), both)
        for _ in range(3):
            part = releaser.release_together(statistics, AllUsers(SOME), both, parts=3)
            for one, other in zip(whole, part, strict=True):
                assert other.std == pytest.approx(math.sqrt(3) * one.std)
        with pytest.raises(PrivacyError, match="used up"):
            releaser.release_together(statistics, AllUsers(SOME), both, parts=3)
    for label in ("Gram", "steps"):
        assert sum(amount for amount, name in told if name == label) == 2
    assert reservation._ledger.spent.mu == pytest.approx(1.0)


def test_releases_over_samples_cost_what_was_planned() -> None:
    mu, rate = 0.8, 0.25
    statistic, plan = VectorSum(ITEMS, 0.7), Plan((Planned("sums", sampled_cost(mu, rate, 1), 2),))
    drawn: list[Any] = []

    def users_of(numbers: Any) -> AllUsers:
        drawn.append(numbers)
        return AllUsers([SOME[0]] * len(numbers))

    with releasing(plan) as reservation:
        releaser = Releaser(reservation, "add-remove", 1)
        some = 4000
        contribution = lambda batch: np.tile([3.0, 4.0], len(batch.counts))  # noqa: E731
        for _ in range(2):
            found = releaser.release_sampled("sums", statistic, some, users_of, contribution, mu=mu, rate=rate)
        assert found.std == pytest.approx(0.7 / mu)
        assert not np.array_equal(*drawn)
        assert all(abs(len(numbers) - some * rate) < 6 * math.sqrt(some * rate * (1 - rate)) for numbers in drawn)
        with pytest.raises(PrivacyError, match="used up"):
            releaser.release_sampled("sums", statistic, some, users_of, contribution, mu=mu, rate=rate)
        for dearer in ({"mu": 0.9, "rate": rate}, {"mu": mu, "rate": 0.5}):
            with pytest.raises(PrivacyError, match="more than the plan"):
                releaser.release_sampled("sums", statistic, some, users_of, contribution, **dearer)
        with pytest.raises(PrivacyError, match="adjacency"):
            Releaser(reservation, "replace", 1).release_sampled(
                "sums", statistic, some, users_of, contribution, mu=mu, rate=rate
            )
    ledger = reservation._ledger
    assert [event.cost for event in ledger.events] == [sampled_cost(mu, rate, 1)] * 2
    assert ledger.spent.cost == plan.cost
    ledger.verify()


def test_everyone_is_in_a_sample_of_rate_one() -> None:
    plan = Plan((Planned("sums", sampled_cost(0.5, 1.0, 1), 1),))
    with releasing(plan) as reservation:
        releaser = Releaser(reservation, "add-remove", 1)
        found = releaser.release_sampled(
            "sums", VectorSum(ITEMS, 0.7), 2, lambda n: AllUsers(SOME), lambda b: entries(SOME), mu=0.5, rate=1.0
        )
    assert found.std == pytest.approx(1.4)
    assert poisson_sample(4, 1.0, InsecureSeededNoise(0)).tolist() == [0, 1, 2, 3]


def test_the_largest_eigenvalue_of_noise_and_what_noise_adds_to_another() -> None:
    n, std = 600, 2.0
    noise = np.random.default_rng(0).standard_normal((n, n)) * std
    noise = (noise + noise.T) / 2  # off the diagonal: std / sqrt 2
    edge = float(noise_edge(std, n))
    assert np.linalg.eigvalsh(noise)[-1] == pytest.approx(edge, rel=0.05)
    true = 1.5 * edge
    found = np.linalg.eigvalsh(noise + true / n)[-1]
    assert found > 1.04 * true
    assert without_noise(found, edge) == pytest.approx(true, rel=0.03)


def test_the_edge_of_uneven_noise_is_found() -> None:
    rng = np.random.default_rng(0)
    n = 500
    for sizes in (np.ones(n), rng.uniform(0.2, 2, n), rng.uniform(0, 2, n) ** 2):
        noise = np.triu(rng.standard_normal((n, n)) * sizes[:, None] * sizes, 1)
        noise += noise.T
        assert 0.98 < edge_of_rows((noise**2).sum(axis=1)) / np.linalg.eigvalsh(noise)[-1] < 1.1
    assert edge_of_rows(np.zeros(3)) == 0


def test_noise_alone_is_hardly_ever_clear_of_its_edge() -> None:
    rng, n = np.random.default_rng(0), 100
    largest = []
    for _ in range(200):
        noise = rng.standard_normal((n, n))
        largest.append(float(np.linalg.eigvalsh((noise + noise.T) / 2)[-1]))
    edge = float(noise_edge(1.0, n))
    assert np.mean(np.array(largest) > clear_of(edge, n)) <= 0.03
    assert np.quantile(largest, 0.9) > 0.95 * clear_of(edge, n)


def test_the_mean_of_releases_has_the_least_noise() -> None:
    rng, stds = np.random.default_rng(0), (1.0, 3.0)
    found = mean_of([Noisy(2 + std * rng.standard_normal(10_000), std) for std in stds])
    assert found.std == pytest.approx(math.sqrt(0.9))
    assert found.values.mean() == pytest.approx(2, abs=0.05)
    assert found.values.std() == pytest.approx(found.std, rel=0.03)
