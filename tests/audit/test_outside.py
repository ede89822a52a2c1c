"""Our numbers against others': an accountant, and, where it is installed, an auditor that are not ours."""

import warnings
from typing import Any

import numpy as np
import pytest

import discreet
from discreet.audit.distinguishing import Evidence, OneRun


@pytest.fixture(scope="module")
def auditing() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("jax_privacy.auditing")


def test_the_accountant_of_others_gives_the_epsilon_of_a_plan() -> None:
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import PLDAccountant

    model = discreet.DPCleansedSVD(epsilon=2.0, delta=1e-6)
    theirs = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=1e-4)
    theirs.compose(model.plan(40).cost.dp_event())
    assert theirs.get_epsilon(1e-6) == pytest.approx(2.0, rel=2e-3)


@pytest.mark.parametrize("mu", [0.5, 2.0])
@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_the_same_scores_prove_the_same_epsilon(auditing: Any, mu: float, delta: float) -> None:
    rng, threshold, level = np.random.default_rng(0), 1.0, 0.01
    present, absent = rng.standard_normal(2000) + mu, rng.standard_normal(2000)
    theirs = auditing.CanaryScoreAuditor(present, absent).epsilon_clopper_pearson(
        2 * level, delta, one_sided=False, threshold_strategy=auditing.Explicit(threshold)
    )
    hits, alarms = (int((scores >= threshold).sum()) for scores in (present, absent))
    assert Evidence(hits, alarms, 2000, level).epsilon(delta) == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-3])
def test_the_same_guesses_prove_the_same_epsilon_in_one_run(auditing: Any, delta: float) -> None:
    rng, threshold = np.random.default_rng(1), 1.5
    present, absent = rng.standard_normal(500) + 2.5, rng.standard_normal(500)
    theirs = auditing.CanaryScoreAuditor(present, absent).epsilon_one_run(
        0.01, delta, threshold_strategy=auditing.Explicit(threshold)
    )
    right, wrong = (int((scores >= threshold).sum()) for scores in (present, absent))
    ours = OneRun(1000, right + wrong, right).epsilon(delta, level=0.01)
    assert ours == pytest.approx(theirs, rel=1e-3)
