"""The noisy version: what it releases, how far one user moves it, and what it refuses."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, norm

import discreet
from discreet import Interactions, Ledger
from discreet.data.catalogue import Ids
from discreet.errors import BudgetExceeded, DataError, NotPublic, PrivacyError
from discreet.evaluate import Evaluation, evaluate, plan, private
from discreet.evaluate.metrics import Task, collect, parse
from discreet.privacy import Cost, Gaussian, GridArray, MeanSum, Noisy
from discreet.testing import InsecureSeededNoise

from .fakes import Scorer, random_case, table

NAMES = ["rmse", "mae", "recall@3", "plain_recall@1", "precision@3", "ndcg@3", "map@3", "mrr", "accuracy"]
PROMISE = discreet.account(epsilon=1, delta=1e-6)


def spend(case: tuple[Scorer, Interactions, Interactions], metrics: Any, **options: Any) -> Evaluation:
    model, test, history = case
    seeded = Ledger(epsilon=1, delta=1e-6, noise_source=InsecureSeededNoise(1))
    given = {"ledger": seeded, "epsilon": 1, "delta": 1e-6, "public_model": True, **options}
    return evaluate(model, test, history=history, metrics=metrics, private=True, **given)


def task_of(case: tuple[Any, Interactions, Interactions], metrics: Any, relevant: float | None = None) -> Task:
    model, test, history = case
    return Task(model, test, history, parse(metrics), relevant, threshold=3, private=True, max_error=4.0)


def rows_of(task: Task, adjacency: Any) -> tuple[Any, MeanSum, Gaussian]:
    layout = private.mean_sum(task.metrics, task.relevant, adjacency)
    noise = Gaussian(layout.sensitivity(adjacency) / 0.2)
    return layout.encoder(noise.std).rows(private.contributions(task, collect(task))), layout, noise


# -- sensitivity


def extremes(metrics: list[str]) -> tuple[Task, Task]:
    """One user for whom everything is perfect, and the same user for whom everything is as bad as can be."""
    items = list(range(8))
    found, missed = np.array([5.0, 5, 5, 0, 0, 0, 0, 0]), np.array([1.0, 1, 1, 9, 9, 9, 9, 9])
    history = table([(1, 7, 1)], items)
    test = table([(1, 0, 5), (1, 1, 5), (1, 2, 5)], items)
    best, worst = ((Scorer({1: scores}, Ids(items)), test, history) for scores in (found, missed))
    return task_of(best, metrics), task_of(worst, metrics)


@pytest.mark.parametrize(
    "metrics", [["rmse"], ["recall@3"], ["rmse", "mae", "recall@3", "ndcg@3", "map@3", "accuracy"]]
)
def test_the_bound_is_reached(metrics: list[str]) -> None:
    """Add-remove by a user with extreme values, replace by their opposite; neither goes beyond."""
    for adjacency in ("add-remove", "replace"):
        (best, layout, noise), (worst, _, _) = (rows_of(task, adjacency) for task in extremes(metrics))
        moved = best[0] if adjacency == "add-remove" else best[0] - worst[0]
        bound = noise.grid().units(layout.sensitivity(layout.adjacency))
        exact = sum(int(x) ** 2 for x in moved)
        assert exact <= bound**2
        assert exact >= (0.999 * bound) ** 2


@pytest.mark.parametrize("metrics", [["rmse"], ["mae"], ["rmse", "mae", "accuracy"], ["rmse", "mae", "recall@1"]])
def test_a_flip_reaches_the_bound(metrics: list[str]) -> None:
    """All of a user's values are at the model's answer, or at the other end; which items they are of stays the same."""
    items = [0, 1]
    model, history = Scorer({1: np.array([5.0, 0.0])}, Ids(items)), table([(1, 1, 1)], items)
    relevant = 4 if "recall@1" in metrics else None
    cases = [(model, table([(1, 0, value)], items), history) for value in (5, 1)]
    (one, layout, noise), (other, _, _) = (rows_of(task_of(case, metrics, relevant), "flip") for case in cases)
    bound = noise.grid().units(layout.sensitivity(layout.adjacency))
    exact = sum(int(x) ** 2 for x in one[0] - other[0])
    assert (0.999 * bound) ** 2 <= exact <= bound**2


def test_bits_of_users_are_evaluated_with_the_noise_of_a_flip() -> None:
    ratings = discreet.datasets.movielens_like(60, 20, 700, random_state=0)
    train, _, test = discreet.splits.holdout(ratings, valid=0, test=0.2, random_state=0)
    ledger = Ledger(epsilon=9, delta=1e-6, unit="user", adjacency="flip", filter="renyi")
    model = discreet.OneBit(epsilon=2, delta=1e-6, unit="user", max_entries=10, threshold=4).fit(train, ledger=ledger)
    found = evaluate(
        model, test, history=train, metrics="accuracy", threshold=4, private=True, ledger=ledger, epsilon=1, delta=1e-6
    )
    assert found.guarantee_ is not None
    assert (found.guarantee_.adjacency, found.guarantee_.holds) == ("flip", True)
    assert ledger.events[-1].body["sensitivity"] == pytest.approx(1.0)


def test_a_metric_without_a_proof_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from discreet.evaluate import metrics

    monkeypatch.setitem(metrics._DOCUMENTED, "surprise", metrics.coverage)
    with pytest.raises(PrivacyError, match="surprise@5 cannot be private: there is no proof for it"):
        plan(["surprise@5"], epsilon=1, delta=1e-6)


def test_unknown_adjacencies_are_refused() -> None:
    with pytest.raises(PrivacyError, match="proved for 'add-remove', 'replace', 'flip', not for 'swap'"):
        MeanSum((0,), "swap")  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.sampled_from(NAMES), min_size=1, unique=True), st.sampled_from([None, 4]))
def test_no_user_is_beyond_the_bound(seed: int, metrics: list[str], relevant: float | None) -> None:
    """Rows in norm, and differences of any two (for replace) in exact integers."""
    case = random_case(6, 9, seed)
    for adjacency in ("add-remove", "replace"):
        rows, layout, noise = rows_of(task_of(case, metrics, relevant), adjacency)
        bound = noise.grid().units(layout.sensitivity(layout.adjacency)) ** 2
        for x in rows.tolist() if adjacency == "add-remove" else [*rows.tolist(), [0] * rows.shape[1]]:
            others = [[0] * rows.shape[1]] if adjacency == "add-remove" else rows.tolist()
            assert all(sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) <= bound for y in others)


def test_replace_with_two_groups_reaches_its_bound() -> None:
    """A user without a relevant target against one with: the count of the second group moves instead of its values."""
    layout = MeanSum((0, 1), "replace")
    assert layout.sensitivity(layout.adjacency) == pytest.approx(math.sqrt(2))
    assert layout.weights == pytest.approx((math.sqrt(3) / 2,) * 2)
    # values 1 and 0 in the first group, 1 and nothing in the second
    assert np.linalg.norm([1, 0.5, 0, layout.weights[1]]) == pytest.approx(layout.sensitivity(layout.adjacency))


def test_other_users_rows_do_not_move() -> None:
    """Bit for bit, although who else is in a batch can change a model's answers: here it does, and a lot."""

    class Batched(Scorer):
        def predict(self, history: Interactions, targets: Interactions, **options: Any) -> Any:
            return super().predict(history, targets, **options) + history.n_users

        def recommend(self, history: Interactions, n: int = 10, **options: Any) -> Any:
            return super().recommend(history, max(n - history.n_users + 1, 1), **options)

    plain, test, history = random_case(7, 10, 3)
    model = Batched(plain.scores, plain.items_)
    whole, _, _ = rows_of(task_of((model, test, history), NAMES), "add-remove")
    assert set(model.asked) == {1}
    for gone in range(7):
        rest = [user for user in range(7) if user != gone]
        part, _, _ = rows_of(task_of((model, test.for_users(rest), history.for_users(rest)), NAMES), "add-remove")
        assert np.array_equal(part, whole[rest])


def test_other_users_rows_do_not_move_with_a_real_model() -> None:
    ratings = discreet.datasets.movielens_like(60, 40, 1500, random_state=0)
    train, _, test = discreet.splits.holdout(ratings, test=0.2, random_state=0)
    model = discreet.ALS(rank=8).fit(train)
    metrics = ["rmse", "mae", "recall@5", "ndcg@5"]
    whole, _, _ = rows_of(task_of((model, test, train), metrics), "add-remove")
    counted = np.flatnonzero(np.diff(test.indptr))
    for gone in counted[:3]:
        rest = np.delete(np.arange(test.n_users), gone)
        case = (model, test.of_users(rest), train.of_users(rest))
        part, _, _ = rows_of(task_of(case, metrics), "add-remove")
        assert np.array_equal(part, whole[counted != gone])


def test_hostile_answers_stay_within_the_bound() -> None:
    model, test, history = random_case(4, 9, 0)
    for worst in (np.nan, np.inf, -np.inf, 1e300):
        wild = Scorer({user: np.full(9, worst) for user in range(4)}, model.items_)
        rows, layout, noise = rows_of(task_of((wild, test, history), ["rmse", "mae", "accuracy"]), "add-remove")
        assert (np.linalg.norm(rows, axis=1) <= noise.grid().units(layout.sensitivity(layout.adjacency))).all()
        assert rows[0, 0] == noise.grid().units(0.5)  # the worst error there is


# -- an audit: it leaks what it claims, and no more


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_audit(adjacency: Any) -> None:
    """Many releases of two neighbors, told apart by the best test there is: what that proves is near the claim."""
    epsilon, delta, n = 1.0, 0.02, 400_000
    metrics = ["rmse", "recall@3"]
    layout = private.mean_sum(parse(metrics), None, adjacency)
    mu = discreet.account(epsilon=epsilon, delta=delta).mu
    assert mu is not None
    bound = layout.sensitivity(layout.adjacency)
    noise = Gaussian.for_cost(Cost.of_mu(mu), sensitivity=bound)
    best, worst = (
        layout.encoder(noise.std).rows(private.contributions(task, collect(task)))[0] for task in extremes(metrics)
    )
    other = np.zeros_like(best) if adjacency == "add-remove" else worst
    ledger = Ledger(noise_source=InsecureSeededNoise(5), adjacency=adjacency)
    seen = [
        ledger.release(GridArray(np.tile(x, (n, 1)), noise.grid()), layout.sensitivity(layout.adjacency), noise, label)
        @ (best - other)
        for x, label in ((best, "with"), (other, "without"))
    ]

    def proved_by(cut: float, half: slice) -> float:
        """What telling them apart by this cut proves, but for two chances in a thousand."""
        hits, misses = (int((part[half] > cut).sum()) for part in seen)
        low, high = beta.ppf(0.001, hits, n // 2 - hits + 1), beta.ppf(0.999, misses + 1, n // 2 - misses)
        return math.log(max(low - delta, 1e-9) / high)

    first, second = slice(n // 2), slice(n // 2, n)
    cuts = np.quantile(np.concatenate([part[first] for part in seen]), np.linspace(0.05, 0.95, 61))
    proved = proved_by(max(cuts, key=lambda cut: proved_by(cut, first)), second)
    assert 0.85 * epsilon <= proved <= epsilon


# -- what comes back


def exact_means(case: tuple[Scorer, Interactions, Interactions], metrics: list[str]) -> dict[str, float]:
    """The same means over users, without noise."""
    task = task_of(case, metrics)
    collected = collect(task)
    means = {}
    for metric in task.metrics:
        above, below = collected.sums[metric, None]
        mean = (above[below > 0] / below[below > 0]).mean()
        means[str(metric)] = math.sqrt(mean) if metric.name == "rmse" else mean
    return means


def test_values_are_means_over_users() -> None:
    case = random_case(1000, 12, 8)
    result = spend(case, ["rmse", "mae", "recall@3", "ndcg@3"])
    exact = exact_means(case, ["rmse", "mae", "recall@3", "ndcg@3"])
    assert result.private
    assert result == pytest.approx(exact, rel=0.1)
    assert all(abs(score.users - 1000) < 60 for score in result.scores.values())
    assert isinstance(result.scores["rmse"].users, int)
    unweighted = evaluate(*case[:2], history=case[2], metrics="recall@3", confidence=None)
    assert exact["recall@3"] == pytest.approx(unweighted["recall@3"])  # ranking metrics are means over users anyway


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_two_groups_of_users(adjacency: Any) -> None:
    """All users have a target, half of them a relevant one: each metric is a mean over its own group."""
    items = list(range(4))
    model = Scorer({user: np.array([4.0, 3.0, 2.0, 1.0]) for user in range(1200)}, Ids(items))
    history = table([(user, 3, 1) for user in range(1200)], items)
    test = table([(user, user % 2, 5 - 4 * (user % 2)) for user in range(1200)], items)  # 5 for item 0, 1 for item 1
    ledger = Ledger(epsilon=1, delta=1e-6, adjacency=adjacency, noise_source=InsecureSeededNoise(2))
    result = spend((model, test, history), ["mae", "recall@1"], relevant=4, ledger=ledger)
    assert result.guarantee_ is not None
    assert result.guarantee_.adjacency == adjacency
    assert result["mae"] == pytest.approx((1 + 2) / 2, abs=0.2)
    assert result["recall@1"] == pytest.approx(1, abs=0.1)
    assert result.scores["mae"].users == pytest.approx(1200, abs=100)
    assert result.scores["recall@1"].users == pytest.approx(600, abs=100)
    assert ledger.events[0].body["shape"] == [4]


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_noise_intervals_cover_as_often_as_they_say(adjacency: Any) -> None:
    case = random_case(120, 12, 9)
    metrics = ["rmse", "recall@3", "accuracy"]
    exact = exact_means(case, metrics)
    task = task_of(case, metrics)
    layout = private.mean_sum(task.metrics, None, adjacency)
    noise = Gaussian(layout.sensitivity(layout.adjacency) / 0.24)
    collected = collect(task)
    sums = layout.encoder(noise.std).encode(collected, private.contributions(task, collected))
    ledger = Ledger(noise_source=InsecureSeededNoise(1), adjacency=adjacency)
    draws = ledger.release(
        GridArray(np.tile(sums, (2000, 1)), noise.grid()), layout.sensitivity(layout.adjacency), noise, "many"
    )
    for name in metrics:
        scores = [private.read(Noisy(draw, noise.std), task, layout, 0.9)[name] for draw in draws]
        covered = np.mean([score.low <= exact[name] <= score.high for score in scores])
        assert covered == pytest.approx(0.9, abs=0.025)
        assert all(score.low <= score.value <= score.high for score in scores)


def test_the_interval_by_its_own_words() -> None:
    """Fieller: exactly the means c for which total - c users is not unlikely."""
    total, users, std, weight = 12.0, 60.0, 5.0, 0.6
    mean, low, high = private.ratio(total, users, std, weight, 0.9)
    assert mean == pytest.approx(0.2)
    for end in (low, high):
        z = (total - end * users) / (std * math.hypot(1, end / weight))
        assert abs(z) == pytest.approx(norm.ppf(0.95))
    assert private.ratio(1.0, 5.0, 5.0, 0.6, 0.9) == (pytest.approx(0.2), -0.5, 0.5)  # hardly more people than noise
    nobody = private.ratio(1.0, -5.0, 5.0, 0.6, 0.9)
    assert math.isnan(nobody[0])
    assert nobody[1:] == (-0.5, 0.5)
    assert private.ratio(100.0, 60.0, 1.0, 0.6, 0.9)[0] == 0.5


def test_guarantee_and_record() -> None:
    ledger = Ledger(epsilon=1, delta=1e-6)
    case = random_case(50, 10, 0)
    result = spend(case, ["rmse", "recall@3"], ledger=ledger, epsilon=0.5, delta=1e-7)
    assert result.guarantee_ is not None
    assert result.guarantee_.holds
    assert result.guarantee_.delta == 1e-7
    assert 0.49 < result.guarantee_.epsilon <= 0.5
    assert [event.label for event in ledger.events] == ["evaluation: rmse, recall@3"]
    assert ledger.spent.cost == result.guarantee_.cost
    assert ledger.events[0].body["shape"] == [3]
    text = str(result)
    assert "Noisy numbers through a ledger. User-level joint differential privacy" in text
    assert "about the noise, not about other users" in text
    assert "owner's eyes" not in text
    assert "Noisy numbers" in result._repr_html_()
    assert result.noise_std_ == ledger.events[0].body["noise"]["std"]
    assert "about the noise" not in str(spend(case, ["mae"], confidence=None))


def test_the_whole_budget_can_be_spent_and_no_more() -> None:
    ledger = Ledger(epsilon=1, delta=1e-6)
    case = random_case(50, 10, 0)
    metrics = ["recall@3"]
    assert ledger.preview(plan(metrics, epsilon=1, delta=1e-6)).fits
    spend(case, metrics, ledger=ledger)
    assert ledger.spent.epsilon == pytest.approx(1)
    with pytest.raises(BudgetExceeded):
        spend(case, metrics, ledger=ledger, epsilon=0.1)


def test_nothing_is_spent_when_the_model_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(epsilon=1, delta=1e-6)
    case = random_case(5, 10, 0)
    monkeypatch.setattr(case[0], "predict", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        spend(case, "rmse", ledger=ledger)
    assert ledger.spent.epsilon == 0
    assert not ledger.open_reservations()


def test_seeded_noise_is_not_private() -> None:
    ledger = Ledger(epsilon=1, delta=1e-6, noise_source=InsecureSeededNoise(0))
    result = spend(random_case(50, 10, 0), "rmse", ledger=ledger)
    assert result.guarantee_ is not None
    assert not result.guarantee_.holds
    assert "NOT PRIVATE" in str(result)
    mpl = pytest.importorskip("matplotlib")
    mpl.use("Agg")
    assert "NOT PRIVATE" in result.plot().get_title(loc="left")
    secure = Ledger(epsilon=1, delta=1e-6)
    assert "epsilon 1" in spend(random_case(50, 10, 0), "rmse", ledger=secure).plot().get_title(loc="left")
    mpl.pyplot.close("all")


def test_a_smaller_bound_on_errors_is_less_noise() -> None:
    case = random_case(200, 10, 0)
    wide, narrow = spend(case, "mae"), spend(case, "mae", max_error=0.5)
    lengths = [result.interval("mae")[1] - result.interval("mae")[0] for result in (wide, narrow)]
    assert lengths[1] < lengths[0] / 4
    assert narrow["mae"] <= 0.5
    assert spend(case, "mae", max_error=100)["mae"] <= 4  # the range of values is 1 to 5


def test_what_depends_on_the_data_never_raises() -> None:
    """Users without a history, nobody at all: left out, since an error would tell."""
    model, test, history = random_case(50, 10, 0)
    spend((model, test, history.for_users([0, 1])), ["rmse", "recall@3"])
    nobody = test.where(np.zeros(len(test), bool))
    for seed in range(5):
        ledger = Ledger(epsilon=1, delta=1e-6, noise_source=InsecureSeededNoise(seed))
        result = spend((model, nobody, history), ["rmse", "recall@3"], ledger=ledger)
        low, high = result.interval("rmse")
        assert (low, high > 3) == (0, True)  # of 0 to 4: as good as nothing is known
        assert "-" in str(result)


@pytest.mark.parametrize(("own", "asked"), [(int, str), (str, int)])
def test_who_has_nothing_but_unknown_items_is_no_error(own: Any, asked: Any) -> None:
    """Even if ids have another type than the model's: whether anybody has a known item is private."""
    items, more = [own(i) for i in range(5)], [asked(i) for i in range(7)]
    rows = [(user, own(item), 1.0 + item) for user in range(30) for item in range(5)]
    model = discreet.DPMeanRating(epsilon=1, delta=1e-6).fit(discreet.read(rows, items=items, value_range=(1, 5)))
    declared: Any = {"items": more, "value_range": (1, 5)}
    history = discreet.read([(user, asked(user % 7), 3.0) for user in range(7)], **declared)
    test = discreet.read([(user, asked(6 - user), 3.0) for user in range(7)], **declared)
    for user in range(7):
        one = test.for_users([user]), history.for_users([user])
        result = evaluate(
            model,
            one[0],
            history=one[1],
            metrics=["rmse", "recall@3"],
            private=True,
            ledger=Ledger(),
            epsilon=1,
            delta=1e-6,
        )
        assert set(result) == {"rmse", "recall@3"}
    others: Any = {"items": ["x", "y"], "value_range": (1, 5)}
    ledger, strange = Ledger(), discreet.read([(0, "x", 3.0)], **others)
    for tables, name in (((strange, history), "test"), ((test, strange), "history")):
        for one in (tables, tuple(part.for_users([]) for part in tables)):
            with pytest.raises(DataError, match=f"^{name}: the model knows none of its items"):
                evaluate(
                    model, one[0], history=one[1], metrics="rmse", private=True, ledger=ledger, epsilon=1, delta=1e-6
                )
    assert not ledger.events


# -- what is refused


@pytest.mark.parametrize("missing", ["ledger", "epsilon", "delta"])
def test_nothing_has_a_default(missing: str) -> None:
    with pytest.raises(PrivacyError, match=r"^ledger, epsilon, delta: private=True needs all three"):
        spend(random_case(5, 10, 0), "rmse", **{missing: None})


@pytest.mark.parametrize(
    ("metrics", "options", "message"),
    [
        (["coverage@5"], {}, "metrics: coverage@5 cannot be private: it is not a mean over users"),
        (["rmse", "novelty@5"], {}, "metrics: novelty@5 cannot be private: popularity is counted over everyone"),
        ("rmse", {"buckets": 5}, "buckets: not available with private=True: they are divided by exact counts"),
        ("rmse", {"n_boot": 100}, "n_boot: not available with private=True: resampling needs every user's exact"),
        ("rmse", {"popularity": 1}, "popularity: "),
        ("rmse", {"epsilon": -1}, "epsilon must be a finite number > 0"),
        ("rmse", {"delta": 0}, "delta must be"),
        ("rmse", {"max_error": 0}, "max_error must be a finite number > 0"),
        ("rmse", {"epsilon": 1e-6, "delta": 1e-12}, "epsilon: with so little of it the noise would drown"),
    ],
)
def test_refusals(metrics: Any, options: dict[str, Any], message: str) -> None:
    ledger = Ledger(epsilon=1, delta=1e-6)
    with pytest.raises((PrivacyError, DataError), match=f"^{message}"):
        spend(random_case(5, 10, 0), metrics, ledger=ledger, **options)
    assert ledger.spent.epsilon == 0


def test_public_inputs_must_be_declared() -> None:
    model, test, history = random_case(5, 10, 0)
    with pytest.raises(NotPublic, match=r"^value_range"):
        spend((model, replace(test, value_range=None), history), "rmse")
    bare = discreet.read(test.to_arrow(), value_range=(1, 5))
    with pytest.raises(NotPublic, match=r"^items"):
        spend((model, bare, history), "recall@3")
    bits = replace(test, values=(test.values > 3).astype(np.float32), value_range=None)
    with pytest.raises(DataError, match=r"^threshold: accuracy needs one"):
        spend((model, bits, history), "accuracy")  # that they are bits must not be read off them


def test_the_model_must_be_private() -> None:
    """If it is not, one person moves everyone's errors through it."""
    case = random_case(5, 10, 0)
    for guarantee in (None, PROMISE.void("for a test")):
        case[0].guarantee_ = guarantee
        with pytest.raises(PrivacyError, match=r"^model: it is not private"):
            spend(case, "rmse", public_model=False)
    case[0].guarantee_ = PROMISE
    assert spend(case, "rmse", public_model=False).private
    case[0].guarantee_ = replace(PROMISE, adjacency="replace")
    with pytest.raises(PrivacyError, match=r"^adjacency: the model's is 'replace'"):
        spend(case, "rmse", public_model=False)


def test_the_ledger_must_count_users() -> None:
    ledger = Ledger(epsilon=1, delta=1e-6, unit="entry", adjacency="flip")
    with pytest.raises(PrivacyError, match=r"^ledger: its unit is 'entry'"):
        spend(random_case(5, 10, 0), "rmse", ledger=ledger)
