"""The private search: its charge, the law of the number of trials, what it finds, and what nobody can find in it."""

import gc
import io
import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import dp_accounting as dp
import numpy as np
import pytest
from sklearn.base import clone

import discreet
from discreet import Ledger, parallel, tune
from discreet.data.interactions import Interactions
from discreet.errors import BudgetExceeded, DataError, NotPublic, PrivacyError
from discreet.privacy import Cost, Selection
from discreet.privacy.statistics import MeanSum
from discreet.testing import InsecureSeededNoise
from discreet.tune import private
from discreet.tune.private import settings_of

DELTA = 1e-6
BUDGET = (8.0, DELTA)
DATA = discreet.datasets.movielens_like(80, 30, 1_600, random_state=0)
LAWS = ["poisson", "geometric", "logarithmic", 0.5, 3.0]


def model(**params: Any) -> discreet.DPALS:
    return discreet.DPALS(**{"epsilon": 1.0, "delta": DELTA, "n_steps": 1, **params})


def seeded(seed: int = 1, **settings: Any) -> Ledger:
    return Ledger(**{"epsilon": BUDGET[0], "delta": DELTA, **settings}, noise_source=InsecureSeededNoise(seed))


def search(space: Any = None, **options: Any) -> tune.Found:
    given: dict[str, Any] = {"model": model(), "data": DATA, "budget": BUDGET, "trials": 3, **options}
    positional = [given.pop("model"), {"n_steps": [1, 2]} if space is None else space, given.pop("data")]
    return tune.search(*positional, given.pop("budget"), given.pop("ledger", None), **given)


# -- the charge


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("trials", [1, 2.5, 20])
def test_the_charge_is_that_of_dp_accounting_by_hand(law: Any, trials: float) -> None:
    trial = tune.preview(model(), {"n_steps": [1, 2, 4]}, 30, BUDGET, trials=trials, law=law)
    fit = model(epsilon=trial.fit).plan(30).cost.mu
    score = discreet.evaluate.plan(["rmse"], epsilon=trial.score, delta=DELTA).cost.mu
    assert fit
    assert score
    shape = {"poisson": math.inf, "geometric": 1.0, "logarithmic": 0.0}.get(law, law)
    run = dp.ComposedDpEvent([dp.GaussianDpEvent(1 / fit), dp.GaussianDpEvent(1 / score)])
    accountant = dp.rdp.RdpAccountant()
    accountant.compose(dp.dp_event.RepeatAndSelectDpEvent(run, trials, shape))
    for order, divergence in zip(accountant.orders, accountant.rdp, strict=True):
        if order > 1:
            assert trial.cost.renyi(order) == pytest.approx(divergence, rel=3e-9)
    # One part in a million of delta is kept for rounding, so a little more is charged, never less.
    by_hand = accountant.get_epsilon(DELTA)
    assert by_hand <= trial.epsilon <= by_hand * (1 + 1e-7)
    assert BUDGET[0] * (1 - 1e-6) <= trial.epsilon <= BUDGET[0]
    assert (score / math.hypot(score, fit)) ** 2 == pytest.approx(0.1, rel=1e-6)


def test_the_theorem_by_hand() -> None:
    """Papernot and Steinke, with nothing of dp_accounting but its orders."""
    orders = np.array([order for order in dp.rdp.rdp_privacy_accountant.DEFAULT_RDP_ORDERS if order > 1])
    mean, mu = 8.0, 0.3
    rdp = mu**2 * orders / 2

    def delta_at(epsilon: float) -> float:  # of the run, from its Renyi divergences
        logs = (orders - 1) * (rdp - epsilon + np.log1p(-1 / orders)) - np.log(orders)
        return float(min(1.0, np.exp(logs.min())))

    poisson = rdp + [mean * delta_at(math.log1p(1 / (o - 1))) + math.log(mean) / (o - 1) for o in orders]
    gamma = 1 / mean
    geometric = rdp + 2 * np.min((1 - 1 / orders) * rdp - math.log(gamma) / orders) + math.log(mean) / (orders - 1)
    for divergence, shape in ((poisson, math.inf), (geometric, 1.0)):
        by_hand = np.min(divergence + np.log1p(-1 / orders) - np.log(DELTA * orders) / (orders - 1))
        cost = Cost.of(Selection(Cost.of_mu(mu), mean, shape))
        assert cost.epsilon(DELTA) == pytest.approx(by_hand, rel=1e-6)


def test_a_trial_gets_less_than_a_fit_alone_and_more_trials_leave_less() -> None:
    fits = [tune.preview(model(), {"n_steps": [1, 2]}, 30, BUDGET, trials=m).fit for m in (1, 2, 10)]
    assert BUDGET[0] > fits[0] > fits[1] > fits[2] > 0.3 * BUDGET[0]
    text = str(tune.preview(model(), {"n_steps": [1, 2]}, 30, BUDGET))
    assert "5 trials on average (poisson, at least one), each with one of 2 settings" in text
    assert "costs epsilon = 8;" in text


def test_it_is_charged_once_and_first_and_stays_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, spent = seeded(), []
    usual = discreet.DPALS.fit

    def failing(self: Any, *given: Any, **options: Any) -> Any:
        spent.append(ledger.spent.epsilon)
        if len(spent) == 2:
            raise ZeroDivisionError("user 17 divides by nothing")
        return usual(self, *given, **options)

    monkeypatch.setattr(discreet.DPALS, "fit", failing)
    with pytest.raises(PrivacyError, match="stays charged") as caught:
        search(ledger=ledger, trials=50)
    assert caught.value.__suppress_context__
    assert "17" not in str(caught.value)
    (event,) = ledger.events
    assert event.kind == "charge"
    assert spent == [ledger.spent.epsilon] * 2
    assert 7.99 < ledger.spent.epsilon <= 8
    ledger.verify()
    with pytest.raises(BudgetExceeded):
        search(ledger=ledger)


def moved_scores(monkeypatch: pytest.MonkeyPatch, base: Any, pair: list[Any]) -> tuple[float, float]:
    """How far the exact score of a trial moves between two tables, and how far it may; answers are fixed."""
    seen: list[Any] = []
    usual = MeanSum.add_batch

    def spied(self: MeanSum, total: Any, batch: Any, contribution: Any) -> None:
        before = total.copy()
        usual(self, total, batch, contribution)
        seen.append(((total - before) * self.grid.step, self.sensitivity(self.adjacency)))

    monkeypatch.setattr(MeanSum, "add_batch", spied)
    monkeypatch.setattr(type(base), "predict", lambda self, history, targets, **_: np.full(len(targets), 5.0))
    for data in pair:
        ledger = seeded(unit=base.unit, adjacency=base.adjacency)
        search({"n_jobs": [1]}, model=base, data=data, ledger=ledger, metric="mae", trials=1)
    (one, bound), (other, _) = seen
    return float(np.linalg.norm(one - other)), bound


@pytest.mark.parametrize("adjacency", ["add-remove", "replace", "flip"])
def test_a_score_moves_by_its_whole_sensitivity(monkeypatch: pytest.MonkeyPatch, adjacency: str) -> None:
    """One user rates everything as the model says; or the opposite (replace, flip), or is not there (add-remove)."""
    base: Any = model(adjacency=adjacency)
    if adjacency == "flip":
        base = discreet.OneBit(epsilon=1.0, delta=DELTA, unit="user", max_entries=30, threshold=3)
    first, ends = DATA.user_numbers() == 0, DATA.value_range
    assert ends is not None
    low, high = (replace(DATA, values=np.where(first, np.float32(end), DATA.values)) for end in ends)
    other = DATA.of_users(np.arange(1, DATA.n_users)) if adjacency == "add-remove" else low
    moved, bound = moved_scores(monkeypatch, base, [high, other])
    assert bound == pytest.approx({"add-remove": 0.5**0.5, "replace": 1.0, "flip": 1.0}[adjacency])
    assert 0.999 * bound <= moved <= bound


def test_seeded_randomness_is_not_private_anywhere() -> None:
    """The number of trials, the settings and the noise all come from the source that the charge names."""
    ledger = seeded()
    found = search(ledger=ledger)
    assert not ledger.spent.holds
    assert not found.guarantee_.holds
    for statement in (found.statement(), ledger.statement()):
        assert "NOT PRIVATE" in str(statement)
        assert not discreet.Statement.parse(statement.json()).guarantee.holds
        assert [(release["source"], release["secure"]) for release in statement.certificate["releases"]] == [
            (InsecureSeededNoise.name, False)
        ]


def test_beside_others_in_a_renyi_ledger() -> None:
    ledger = seeded(epsilon=12.0, filter="renyi")
    ledger.release([1, 2], 1, discreet.Gaussian(20.0), "clicks")
    found = search(ledger=ledger, budget=(4.0, DELTA))
    assert len(ledger.events) == 2
    assert found.guarantee_.epsilon <= 4
    assert 4 < ledger.spent.epsilon < 12


# -- the number of trials


def test_what_is_held_out_of_a_row_depends_on_that_row_alone() -> None:
    whole = private.own_share(DATA, 0.3, 0)
    some = np.arange(3, 70, 2)
    part = DATA.of_users(some)
    mine = np.isin(DATA.user_numbers(), some)
    assert (private.own_share(part, 0.3, 0) == whole[mine]).all()
    assert abs(whole.mean() - 0.3) < 0.05
    assert (private.own_share(DATA, 0.3, 1) != whole).any()
    per_item = np.bincount(DATA.indices, whole, minlength=30) / np.bincount(DATA.indices, minlength=30)
    assert per_item.max() < 0.7  # no item is held out of everyone's row
    empty = Interactions(DATA.users, DATA.catalogue, np.zeros(81, np.int64), DATA.indices[:0], DATA.values[:0])
    assert not len(private.own_share(empty, 0.3, 0))


# -- what it finds


def quality(monkeypatch: pytest.MonkeyPatch, better: Any) -> None:
    """Scores that are known: the setting that is better has the higher one, and noise is small."""

    def tried(one: Any, *_: Any) -> Any:
        return clone(one), 0.8 if one.n_steps == better else 0.9

    monkeypatch.setattr(private, "_tried", tried)
    monkeypatch.setattr(discreet.DPALS, "_certify", lambda *_: None)  # nothing was learned


def test_it_finds_a_clearly_better_setting() -> None:
    """Predictions with a tiny row norm are no better than means: at this epsilon the difference is plain."""
    data = discreet.datasets.synthetic_low_rank(100, 20, 2, random_state=0)
    found = tune.search(
        discreet.DPSVD(epsilon=1.0, delta=DELTA),
        {"rank": [2], "row_norm": [1e-3, 8.0]},
        data,
        (150.0, DELTA),
        seeded(3, epsilon=150.0),
        trials=4,
        score_share=0.5,
        max_error=3.0,
    )
    assert found.settings["row_norm"] == 8.0
    assert found.model.get_params()["row_norm"] == 8.0
    assert found.score == pytest.approx(0.9, abs=0.4)
    assert "row_norm=8.0" in str(found)


@pytest.mark.parametrize("better", [1, 2, 4])
def test_it_takes_the_best_of_what_it_tried(monkeypatch: pytest.MonkeyPatch, better: int) -> None:
    quality(monkeypatch, better)
    found = search({"n_steps": [1, 2, 4]}, ledger=seeded(2), trials=25)
    assert found.settings == {"n_steps": better}
    assert found.score == 0.8


def test_recall_is_better_higher_and_what_is_no_number_worst() -> None:
    trial = tune.preview(model(), {"n_steps": [1]}, 30, BUDGET)
    lists = tune.preview(model(), {"n_steps": [1]}, 30, BUDGET, metric="recall@5")
    assert private._worth(trial, 0.8) > private._worth(trial, 0.9) > private._worth(trial, math.nan)
    assert private._worth(lists, 0.9) > private._worth(lists, 0.8) > private._worth(lists, math.nan)
    assert search(metric="recall@5", ledger=seeded()).metric == "recall@5"


def test_the_model_is_a_model_with_the_guarantee_of_the_search(tmp_path: Path) -> None:
    found = search()
    assert found.guarantee_.holds
    assert 7.99 < found.guarantee_.epsilon <= 8
    assert found.guarantee_ == found.statement().guarantee == found.model.guarantee_
    assert discreet.Statement.parse(found.statement().json()).guarantee == found.guarantee_
    found.model.save(tmp_path / "model")
    again = discreet.load(tmp_path / "model")
    assert again.guarantee_ == found.guarantee_
    assert again.recommend({3: 5.0}, n=3).items == found.model.recommend({3: 5.0}, n=3).items
    assert "private search" in str(found.statement())
    assert not search(ledger=seeded()).guarantee_.holds


# -- what nobody can find


def reachable(start: Any) -> list[Any]:
    """All objects that can be reached from one, not through modules, classes and code."""
    seen: dict[int, Any] = {}
    waiting = [start]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, type | type(sys) | type(reachable)):
            continue
        seen[id(thing)] = thing
        waiting += gc.get_referents(thing)
    return list(seen.values())


def test_nothing_of_the_losers_is_reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, fitted = [], []
    usual = private._tried

    def tried(*given: Any) -> Any:
        answer = usual(*given)
        fitted.append(answer[0])
        scores.append(answer[1])
        return answer

    monkeypatch.setattr(private, "_tried", tried)
    ledger = seeded(4)
    found = search({"n_steps": [1, 2, 3]}, ledger=ledger, trials=4)
    assert len(fitted) > 1
    held = reachable([found, ledger])
    assert [thing for thing in held if isinstance(thing, discreet.DPALS)] == [found.model]
    assert not any(isinstance(thing, Ledger) and thing is not ledger for thing in held)
    losers = [score for score in scores if score != found.score]
    assert losers
    assert not any(isinstance(thing, float) and thing in losers for thing in held)
    told = json.dumps(ledger.to_json()) + found.statement().json() + str(found)
    assert "item step" not in told
    assert not any(repr(score) in told for score in losers)


def test_the_certificate_and_the_record_are_the_same_however_many_trials_there_were() -> None:
    certificates = []
    for seed in (1, 2):
        ledger = seeded(seed)
        certificate = search(ledger=ledger, trials=3).statement().certificate
        changing = ("digest", "issued", "releases", "model")  # the last is about the best alone, which is released
        (release,) = certificate["releases"]
        certificates.append({k: v for k, v in certificate.items() if k not in changing} | {"release": release})
        assert [entry.kind for entry in ledger.entries] == ["open", "charge"]
    assert certificates[0] == certificates[1]


def test_it_is_silent_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = Terminal()
    monkeypatch.setattr(parallel, "PATIENCE", 0)
    monkeypatch.setattr(sys, "stderr", shown)
    search(model=discreet.DPALS.as_published(epsilon=1, delta=DELTA, rank=2), space={"rank": [1, 2]}, trials=2)
    assert shown.getvalue() == ""
    assert parallel.Bar("again", 1)._wanted  # only inside


# -- refusals


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"space": {}}, "nothing to choose from"),
        ({"space": []}, "nothing to choose from"),
        ({"space": {"n_steps": []}}, "nothing to choose from"),
        ({"space": {"n_steps": 3}}, "list of values"),
        ({"space": {"n_steps": "123"}}, "list of values"),
        ({"space": "n_steps"}, "mapping from parameters"),
        ({"space": [3]}, "mapping from parameters"),
        ({"space": {"n_steps": range(1, 2000)}}, "too many"),
        ({"space": {"epsilon": [1, 2]}}, "epsilon decides what a trial costs"),
        ({"space": {"delta": [1e-5]}}, "delta decides"),
        ({"space": {"adjacency": ["replace"]}}, "adjacency decides"),
        (
            {
                "model": discreet.OneBit(epsilon=1.0, unit="user", max_entries=5, threshold=3),
                "space": {"unit": ["entry"], "max_entries": [None]},
            },
            "unit decides",
        ),
        ({"space": {"depth": [1, 2]}}, "no parameter 'depth'; it has caution"),
        ({"space": {"n_steps": [2, 0]}}, "n_steps"),
        (
            {
                "model": discreet.DPALS.as_published(epsilon=1, delta=DELTA, calibration="given"),
                "space": {"gram_noise": [1.0, 2.0]},
            },
            "does not cost the same as the others",
        ),
        ({"budget": (0, DELTA)}, "budget: epsilon must be"),
        ({"budget": (1.0, 0)}, "budget: delta must be"),
        ({"budget": 1.0}, "a pair"),
        ({"budget": (0.001, 1e-9)}, "too little for|leave nothing"),
        ({"trials": 0.5}, "trials: must be from 1"),
        ({"trials": 1e9}, "trials: must be from 1"),
        ({"law": "normal"}, "law: must be one of"),
        ({"law": -1.0}, "law must be"),
        ({"metric": "coverage@5"}, "cannot be private"),
        ({"metric": "rsme"}, "there is no 'rsme'"),
        ({"metric": "accuracy"}, "threshold"),
        ({"score_share": 1.0}, "score_share"),
        ({"valid": 1.0}, "valid"),
        ({"data": "ratings.csv"}, "a pair .train, valid."),
        ({"model": discreet.ALS()}, "a private model is needed"),
        ({"model": discreet.OneBit(epsilon=1.0, mechanism="input")}, "unit of this model is 'entry'"),
        ({"data": discreet.read([(1, 2, 3.0)])}, "items:"),
        ({"model": model(features=["colour"])}, "colour"),
        ({"ledger": Ledger(epsilon=8, delta=DELTA, adjacency="replace")}, "adjacency"),
        ({"ledger": Ledger(epsilon=0.5, delta=DELTA)}, "nothing was spent"),
    ],
)
def test_what_is_refused_spends_nothing(monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], message: str) -> None:
    monkeypatch.setattr(private, "_tried", None)
    ledger = given.get("ledger") or seeded()
    with pytest.raises((DataError, PrivacyError, NotPublic), match=message):
        search(**{"ledger": ledger, **given})
    assert [entry.kind for entry in ledger.entries] == ["open"]


@pytest.mark.parametrize("targets", [[("ann", 3, 4.0)], [("nobody", 3, 4.0)]])
def test_ids_that_the_model_cannot_know_are_refused_whoever_has_them(targets: list[Any]) -> None:
    """A search that failed only if somebody has a target would say whether somebody does."""
    rows = [(user, f"item {k}", 4.0) for user in ("ann", "bob") for k in range(5)]
    train = discreet.read(rows, items=[f"item {k}" for k in range(6)], value_range=(1, 5))
    valid = discreet.read(targets, items=range(6), value_range=(1, 5))
    ledger = seeded()
    with pytest.raises(DataError, match=r"^valid: the model knows none of its items"):
        search(data=(train, valid), ledger=ledger)
    assert [entry.kind for entry in ledger.entries] == ["open"]


def test_spaces() -> None:
    assert settings_of(model(), {"n_steps": [1, 2], "caution": [0.0, 1.0]}) == [
        {"n_steps": 1, "caution": 0.0},
        {"n_steps": 1, "caution": 1.0},
        {"n_steps": 2, "caution": 0.0},
        {"n_steps": 2, "caution": 1.0},
    ]
    assert settings_of(model(), [{"n_steps": 1}, {}]) == [{"n_steps": 1}, {}]
    assert search([{"n_steps": 1}], ledger=seeded()).settings == {"n_steps": 1}
