"""The rule behind the defaults, from public inputs; and the owner's own search, which says what it is."""

import math
from pathlib import Path
from typing import Any

import pytest

import discreet
from discreet import tune
from discreet.errors import DataError, PrivacyError
from discreet.testing import InsecureSeededNoise
from discreet.tune.no_budget import STAMP

DELTA = 1e-6
DATA = discreet.datasets.movielens_like(150, 30, 3_000, random_state=0)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 5.0, 20.0])
@pytest.mark.parametrize(("hint", "n_items"), [(None, 30), (6_000, 3_706), (100_000, 100), (None, 20_000)])
def test_the_rule_is_the_one_that_a_fit_follows(epsilon: float, hint: int | None, n_items: int) -> None:
    found = tune.public_defaults(hint, n_items, epsilon, DELTA)
    model = discreet.DPALS(epsilon=epsilon, delta=DELTA, n_users_hint=hint)
    assert discreet.DPALS(**found.parameters).plan(n_items) == model.plan(n_items)
    plan = model.plan(n_items)
    assert list(found.budget) == [line.label for line in plan.lines]
    assert math.fsum(found.budget.values()) == pytest.approx(1)
    for line in plan.lines:
        assert line.total.gaussian / plan.cost.gaussian == pytest.approx(found.budget[line.label])
        assert line.label in found.clips
    assert plan["item step"].count == found.n_steps


def test_the_bounds_are_those_of_the_releases() -> None:
    """Sensitivities, as a fit declares them, and columns, as it ends with them."""
    ledger = discreet.Ledger(delta=DELTA, noise_source=InsecureSeededNoise(0))
    model = discreet.DPALS(epsilon=20.0, delta=DELTA, n_users_hint=100_000).fit(DATA, ledger=ledger)
    found = tune.public_defaults(100_000, 30, 20.0, DELTA)
    declared = {event.label: event.body["sensitivity"] for event in ledger.events if "what" not in event.body}
    assert {"users and their means", "item popularity", "item weights", "item biases"} <= set(declared)
    assert declared == pytest.approx({label: found.clips[label] for label in declared})
    assert model.item_factors_.shape[1] <= found.rank
    text = str(found)
    assert "DPALS(epsilon=20.0, delta=1e-06, n_users_hint=100000, n_steps=" in text
    assert "item step" in text


@pytest.mark.parametrize("given", [(None, 0, 1.0, DELTA), (0, 5, 1.0, DELTA), (None, 5, 0, DELTA), (None, 5, 1.0, 0)])
def test_what_is_no_public_input(given: Any) -> None:
    with pytest.raises(PrivacyError):
        tune.public_defaults(*given)


# -- the owner's own search


def test_the_owner_finds_the_best_and_the_model_says_how(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    found = tune.owner_search(discreet.MeanRating(), {"by": ["global", "both"], "n_steps": [3]}, DATA, n_trials=6)
    assert found.settings == {"by": "both", "n_steps": 3}
    ledger = discreet.Ledger(epsilon=5, delta=DELTA)
    model = discreet.DPALS(epsilon=5.0, delta=DELTA)
    private = tune.owner_search(model, lambda trial: {"n_steps": trial.suggest_int("n_steps", 1, 2)}, DATA, n_trials=2,
                                ledger=ledger)  # fmt: skip
    assert private.settings["n_steps"] in (1, 2)
    assert not private.guarantee_.holds
    assert private.guarantee_.why_not == STAMP == "hyper-parameters chosen on private data, not covered"
    assert 4.99 < private.guarantee_.epsilon <= 5  # what the noise gives is still said
    assert 4.99 < ledger.spent.epsilon <= 5  # the last fit is paid for
    assert "NOT PRIVATE: hyper-parameters chosen on private data, not covered" in str(private)
    assert discreet.Statement.parse(private.statement().json()).guarantee == private.guarantee_
    private.model.save(tmp_path / "model")
    assert discreet.load(tmp_path / "model").guarantee_.why_not == STAMP
    assert STAMP[1:] in str(found.statement())  # also of a model that never was private


@pytest.mark.parametrize("space", [{}, {"depth": [1]}, {"n_steps": 3}, {"epsilon": [1.0]}, "n_steps"])
def test_spaces_that_make_no_sense(space: Any) -> None:
    pytest.importorskip("optuna")
    with pytest.raises(DataError, match="space"):
        tune.owner_search(discreet.DPALS(epsilon=1.0, delta=DELTA), space, DATA, n_trials=1)


def test_a_class_is_not_a_model() -> None:
    pytest.importorskip("optuna")
    model: Any = discreet.DPALS
    with pytest.raises(DataError, match=r"^model: an unfitted model is needed, such as discreet.DPALS\(epsilon="):
        tune.owner_search(model, {"n_steps": [2]}, DATA)
