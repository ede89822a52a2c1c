"""Figure 2 of the Frank-Wolfe paper, in small."""

from pathlib import Path

import pytest

import discreet
from discreet.papers import frank_wolfe_figures as figures

METHODS = ("DPFrankWolfe", "DPFrankWolfe, as published", "DPSVD", "FrankWolfe, not private, 5 steps")


def runs(method: str, epsilon: float) -> int:
    return METHODS.index(method) + 1 if method in METHODS[:3] else int(method in METHODS)


def test_every_point_is_measured_once_and_shown() -> None:
    data = figures.synthetic(400, tested=100)
    assert (data.train.n_users, data.history.n_users, data.test.n_users) == (400, 100, 100)
    rows = list(figures.figure(data, epsilons=(2.0, 5.0), runs=runs))
    points = [(row["method"], row["epsilon"], row["runs"]) for row in rows]
    assert points == [(METHODS[i], epsilon, i + 1) for i in range(3) for epsilon in (2.0, 5.0)] + [
        (METHODS[3], None, 1)
    ]
    assert all(0 <= row["rmse"] < 1 for row in rows)
    assert rows[0]["true_epsilon"] == 2
    assert rows[2]["true_epsilon"] < 2  # printed for it is more noise than it takes
    assert (rows[0]["sd"], rows[-1]["true_epsilon"]) == (None, None)
    shown = figures.table(rows).splitlines()
    assert shown[0] == "| epsilon | 2 | 5 |"
    assert [line.split(" | ")[0] for line in shown[2:]] == [f"| {method}" for method in METHODS]
    assert "x2" in shown[3]
    assert not list(figures.figure(data, epsilons=(2.0, 5.0), runs=runs, done=rows))


def test_the_plot_has_a_curve_for_each_method(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [
        {"method": "one", "epsilon": 0.1, "rmse": 0.3, "sd": None, "runs": 1},
        {"method": "one", "epsilon": 5.0, "rmse": 0.1, "sd": 0.01, "runs": 10},
        {"method": "line", "epsilon": None, "rmse": 0.05, "sd": None, "runs": 1},
    ]
    for log in (True, False):
        figures.draw(rows, "a title", tmp_path / "plot.svg", log=log)
        drawn = (tmp_path / "plot.svg").read_text(encoding="utf-8")
        assert all(f">{word}</text>" in drawn for word in ("one", "line", "a title"))


def test_the_other_data_are_centred_by_users_themselves() -> None:
    ratings = discreet.datasets.movielens_like(300, 40, 4000, random_state=0)
    data = figures.jester(ratings)
    assert data.centre
    assert data.history is data.train
    assert len(data.test) == pytest.approx(0.01 * len(ratings), rel=0.3)
    assert set(figures.private_methods(data, 1.0)) > set(METHODS[:3])
