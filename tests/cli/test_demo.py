import json
from pathlib import Path

import numpy as np
import pytest

import discreet
from discreet import Gaussian, Ledger
from discreet.cli.demo import popularity
from discreet.testing import InsecureSeededNoise
from tests.cli.test_account import run


def test_demo_writes_a_report_and_keeps_the_budget(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    data = json.loads(run("demo", "--users", "2000", "--epsilon", "0.5", "--report", str(report), "--json"))
    assert data["guarantee"]["epsilon"] <= 0.5
    assert data["guarantee"]["holds"]
    assert "<svg" in report.read_text()
    text = run("demo", "--users", "300", "--report", str(report))
    assert "true top 20 found" in text
    assert "joint differential privacy" in text.replace("\n", " ")


def test_one_user_moves_the_popularity_table_by_its_sensitivity() -> None:
    """Replay on neighbours with the same noise: a user of any activity moves the sum by at most 1, and by 95% of it."""
    data = discreet.datasets.movielens_like(300, 100, 12_000, random_state=1)
    busiest = int(np.argmax(np.diff(data.indptr)))
    for user in (busiest, int(np.argmin(np.diff(data.indptr)))):
        without = data.of_users(np.delete(np.arange(data.n_users), user))
        both = [popularity(table, Ledger(noise_source=InsecureSeededNoise(0)), 3.0) for table in (data, without)]
        moved = float(np.linalg.norm(both[0] - both[1]))
        assert 0.95 < moved <= 1.0


def test_the_release_costs_what_it_says() -> None:
    data = discreet.datasets.movielens_like(300, 100, 12_000, random_state=1)
    ledger = Ledger(epsilon=1, delta=1e-6)
    popularity(data, ledger, 8.0)
    assert ledger.spent.cost == Gaussian(8.0).cost(1.0)
    with pytest.raises(discreet.errors.BudgetExceeded):
        popularity(data, ledger, 2.0)


def test_a_report_that_cannot_be_written_is_found_out_first(tmp_path: Path) -> None:
    assert "--report" in run("demo", "--report", str(tmp_path / "nowhere" / "x.html"), code=2)
    assert "--report" in run("demo", "--report", str(tmp_path), code=2)
