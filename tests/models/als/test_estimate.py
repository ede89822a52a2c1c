"""DPALS: going on from a model, what is known of the items, and random columns."""

from typing import Any

import numpy as np
import pytest

import discreet
from discreet.data import Interactions
from discreet.errors import BudgetExceeded, DataError, PrivacyError
from discreet.models.als.contributions import GRAM, USERS
from discreet.models.als.model import DPALS
from discreet.testing import InsecureSeededNoise
from tests.models.als.test_model import (
    CRITIC,
    DELTA,
    FAN,
    FIVE_STARS,
    GIANT,
    HATER,
    MIRROR,
    ONE_STAR,
    STRIPES,
    seeded,
    world,
)
from tests.models.replay import moved, record


def rmse(model: DPALS, history: Interactions, test: Interactions) -> float:
    return float(np.sqrt(np.mean((model.predict(history, test) - test.values) ** 2)))


def test_going_on_learns_more_and_adds_up_the_cost() -> None:
    data = discreet.datasets.movielens_like(6000, 600, 400_000, random_state=2)
    train, _, test = discreet.splits.holdout(data, test=0.1, random_state=0)
    errors = []
    for seed in range(3):
        model = DPALS(epsilon=0.5, delta=DELTA).fit(train, ledger=seeded(0.5, seed))
        before, first, more = rmse(model, train, test), model.guarantee_, model.plan_more(600, epsilon=2.0)
        assert model.fit_more(train, seeded(2.0, seed + 10), epsilon=2.0) is model
        errors.append((before, rmse(model, train, test)))
        assert model.guarantee_.cost == first.cost + more.cost
    (before, after), spread = np.mean(errors, axis=0), np.std(errors, axis=0).max()
    assert after < before - 3 * spread
    releases = model.statement().certificate["releases"]
    planned = model.plan(600).lines, more.lines
    assert len(releases) == sum(line.count for lines in planned for line in lines)
    assert any("in the light of earlier results" in note for note in model.statement().certificate["notes"])


def test_last_month_is_the_prior_of_this_month(tmp_path: Any) -> None:
    """Other users, items that came and went, a saved model: better than starting anew, at the same cost."""
    data = discreet.datasets.movielens_like(9000, 500, 500_000, random_state=4)
    older, newer = (data.of_users(np.arange(at, 9000, 3)) for at in (0, 1))
    older = older.for_items(data.items.to_list()[:480])
    newer = newer.for_items(data.items.to_list()[20:])
    train, _, test = discreet.splits.holdout(newer, test=0.2, random_state=0)
    errors = []
    for seed in range(3):
        DPALS(epsilon=1.0, delta=DELTA).fit(older, ledger=seeded(1.0, seed)).save(tmp_path / "old")
        model = discreet.load(tmp_path / "old")
        model.fit_more(train, seeded(1.0, seed + 10))
        assert model.items_.to_list() == newer.items.to_list()
        fresh = DPALS(epsilon=1.0, delta=DELTA).fit(train, ledger=seeded(1.0, seed + 10))
        errors.append((rmse(model, train, test), rmse(fresh, train, test)))
        model.save(tmp_path / "new")
        again = discreet.load(tmp_path / "new")
        assert again.guarantee_ == model.guarantee_
        assert np.array_equal(again.predict(train, test), model.predict(train, test))
    going_on, anew = np.mean(errors, axis=0)
    assert going_on < anew - 0.005


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_going_on_moves_by_its_bounds(monkeypatch: Any, adjacency: Any) -> None:
    ordinary = world(40, 600)

    def going_on(data: Interactions) -> Any:
        model = DPALS(epsilon=50.0, delta=DELTA, adjacency=adjacency)
        model.fit(ordinary, ledger=discreet.Ledger(adjacency=adjacency, noise_source=InsecureSeededNoise(3)))
        return lambda ledger: model.fit_more(data, ledger, epsilon=3.0, n_steps=2)

    pairs = [(GIANT, MIRROR), (GIANT, STRIPES), (FAN, CRITIC), (ONE_STAR, FIVE_STARS), (HATER, FIVE_STARS)]
    furthest: dict[str, float] = {}
    for one, other in pairs:
        data, neighbor = world(40, 600, one), world(40, 600, *([other] if adjacency == "replace" else []))
        first = record(monkeypatch, going_on(data), None, adjacency=adjacency)
        second = record(monkeypatch, going_on(neighbor), first.answers, adjacency=adjacency)
        for label, share in moved(first, second).items():
            furthest[label] = max(furthest.get(label, 0.0), share)
    assert len(furthest) == 9  # no direction stands out from the noise: that line releases item biases
    assert max(furthest.values()) <= 1
    if adjacency == "replace":
        del furthest[GRAM]  # which has its own test, and so has this
        assert 0.6 <= furthest.pop(USERS) <= 0.85
    assert min(furthest.values()) >= 0.95, furthest


def test_going_on_is_refused_first() -> None:
    data = world(60, 30)
    with pytest.raises(discreet.errors.NotFitted):
        DPALS(epsilon=1.0, delta=DELTA).fit_more(data)
    model = DPALS(epsilon=1.0, delta=DELTA).fit(data)
    guarantee, bias = model.guarantee_, model.item_bias_
    ledger = discreet.Ledger(epsilon=0.5, delta=DELTA)
    with pytest.raises(BudgetExceeded):
        model.fit_more(data, ledger)
    with pytest.raises(DataError, match="from 1 to 5"):
        model.fit_more(data.rescale(0, 1), ledger, epsilon=0.1)
    with pytest.raises(PrivacyError, match="epsilon"):
        model.fit_more(data, ledger, epsilon=-1.0)
    with pytest.raises(DataError, match="n_jobs"):
        model.set_params(n_jobs=0).fit_more(data, ledger, epsilon=0.1)
    assert not [entry for entry in ledger.entries if entry.kind == "reserve"]
    assert not ledger.events
    assert model.guarantee_ == guarantee
    assert model.item_bias_ is bias


@pytest.mark.parametrize("change", [{"epsilon": 5.0}, {"delta": 1e-7}, {"adjacency": "replace"}, {"n_steps": 3}])
def test_parameters_that_were_changed_are_refused_before_anything_is_spent(tmp_path: Any, change: Any) -> None:
    """Else the model would be one whose certificate does not fit it, and that cannot be saved."""
    data = world(60, 30)
    model = DPALS(epsilon=1.0, delta=DELTA).fit(data)
    ledger = discreet.Ledger(epsilon=5, delta=1e-6)
    before, bias = model.get_params(), model.item_bias_
    with pytest.raises(DataError, match=f"^{next(iter(change))}: the model was fitted with another"):
        model.set_params(**change).fit_more(data, ledger, epsilon=0.5)
    assert len(ledger.entries) == 1
    assert model.item_bias_ is bias
    model.set_params(**{**before, "caution": 1.0, "n_jobs": 1}).fit_more(data, ledger, epsilon=0.5).save(
        tmp_path / "model"
    )
    again = discreet.load(tmp_path / "model")  # and so it is with one that was saved
    with pytest.raises(DataError, match=r"^epsilon: the model was fitted"):
        again.set_params(epsilon=5.0).fit_more(data, epsilon=1.0)


@pytest.mark.parametrize("name", ["item_variance_", "item_prior_", "item_weights_", "known_bias_", "known_steps_"])
def test_arrays_that_do_not_fit_are_refused(name: str) -> None:
    model = DPALS(epsilon=1.0, delta=DELTA).fit(world(60, 30))
    model._check_learned()
    setattr(model, name, getattr(model, name)[:, 1:])
    with pytest.raises(DataError, match=name):
        model._check_learned()


def test_what_was_never_private_stays_so() -> None:
    data = world(60, 30)
    ledger = discreet.Ledger(epsilon=1.0, delta=DELTA)
    model = DPALS(epsilon=1.0, delta=DELTA).fit(data, ledger=seeded(1.0)).fit_more(data, ledger)
    assert not model.guarantee_.holds
    assert "seeded" in model.guarantee_.why_not


def test_what_one_ledger_began_to_pay_for_goes_on_with_a_ledger(tmp_path: Any) -> None:
    """A budget holds only if all that is learned from the same people goes through its ledger."""
    data, ledger = world(60, 30), discreet.Ledger(epsilon=5.0, delta=DELTA)
    alone = DPALS(epsilon=1.0, delta=DELTA).fit(data).fit_more(data)
    model = DPALS(epsilon=1.0, delta=DELTA).fit(data, ledger=ledger)
    model.save(tmp_path / "model")
    for one in (model, discreet.load(tmp_path / "model"), alone.fit_more(data, ledger)):
        spent, bias = one.guarantee_, one.item_bias_
        with pytest.raises(PrivacyError, match=r"^ledger: an earlier fit of this model .* give it\. Nothing was spent"):
            one.fit_more(data)
        assert one.guarantee_ == spent
        assert one.item_bias_ is bias
    before = len(ledger.events)
    assert model.fit_more(data, ledger).guarantee_.epsilon > 1
    assert len(ledger.events) > before


def test_caution_prefers_what_is_known() -> None:
    data = discreet.datasets.movielens_like(3000, 300, 90_000, random_state=1)
    model = DPALS(epsilon=5.0, delta=DELTA, n_users_hint=3000).fit(data, ledger=seeded(5.0))
    history = dict(list(zip(data.items.to_list()[:30], np.tile([2.0, 4.5], 15), strict=True)))
    bold, plain = model.recommend(history, n=270), model.predict(history, data.items.to_list())
    model.set_params(caution=2.0)
    careful = model.recommend(history, n=270)
    assert np.array_equal(model.predict(history, data.items.to_list()), plain)  # what is expected stays
    numbers = {item: at for at, item in enumerate(data.items.to_list())}
    u = model.embed(history)[: model.item_prior_.shape[1]]  # kernel columns are as sure as the others
    for item, score in list(careful)[:20]:
        at = numbers[item]
        deviation = np.sqrt(model.item_variance_[at, 0] + u**2 @ model.item_variance_[at, 1:])
        assert score == pytest.approx(dict(bold)[item] - 2 * deviation, abs=1e-4)
    variances = [
        np.mean([model.item_variance_[numbers[item], 0] for item, _ in list(some)[:30]]) for some in (bold, careful)
    ]
    assert variances[1] < variances[0]
    item, score = next(iter(careful))
    assert model.explain(history, item).score == pytest.approx(score, abs=1e-4)
    with pytest.raises(PrivacyError, match="caution"):
        DPALS(epsilon=1.0, delta=DELTA, caution=-1).fit(data)


def test_items_that_are_known_too_little() -> None:
    """More users, more knowledge; and rare items are those that are not known."""
    shares = []
    for n_users in (300, 6000):
        data = discreet.datasets.movielens_like(n_users, 400, 60 * n_users, random_state=0)
        model = DPALS(epsilon=1.0, delta=DELTA).fit(data, ledger=seeded(1.0))
        table = model.item_knowledge("pyarrow")
        assert table.num_rows == 400
        assert (np.diff(table["uncertainty"].to_numpy()) <= 0).all()
        known = np.array(table["known"])
        shares.append(known.mean())
    assert shares[0] < shares[1]
    popularity = table["popularity"].to_numpy()
    assert popularity[known].mean() > 2 * popularity[~known].mean()


# Random columns


def test_probe_columns_find_strong_structure() -> None:
    """A low-rank matrix without biases, features or co-occurrences: nothing else says where to look."""
    data = discreet.datasets.synthetic_low_rank(4000, 300, rank=3, p=0.3, random_state=0)
    train, _, test = discreet.splits.holdout(data, test=0.1, random_state=0)
    model = DPALS(epsilon=5.0, delta=DELTA, n_steps=8).fit(train, ledger=seeded(5.0))
    assert test.values.std() == pytest.approx(1, abs=0.05)
    assert rmse(model, train, test) < 0.2


def test_probe_columns_that_find_nothing_are_dropped() -> None:
    rng = np.random.default_rng(0)
    rows = [(user, int(item), float(rng.integers(1, 6))) for user in range(800) for item in rng.choice(500, 20)]
    data = discreet.read(rows, items=list(range(500)), value_range=(1, 5), on_duplicate="last")
    kept = [DPALS(epsilon=3.0, delta=DELTA).fit(data, ledger=seeded(3.0, seed)).item_prior_ for seed in range(4)]
    assert all(prior.shape[1] == 2 for prior in kept)
