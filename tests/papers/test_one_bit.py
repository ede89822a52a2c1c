"""The protocol of the one-bit paper: all mechanisms are in it, with the epsilons that they truly have."""

from __future__ import annotations

import pytest

from discreet.papers import one_bit
from discreet.papers.reproduction import Options


def test_rows_of_synthetic_data_have_the_true_epsilons() -> None:
    points = list(one_bit.synthetic("logistic", 0.15, [4.0], Options()))
    found = {point.keys["method"]: point.measured(1) for point in points}
    assert len(points) == len(found) == 9
    published = {name: found[f"{name}, as published"] for name in one_bit.MECHANISMS}
    truth = {"input": 4.0, "objective": 8.0, "gradient": 8.0, "output": None}
    assert {name: row["true_epsilon"] for name, row in published.items()} == truth
    assert all(found[name]["true_epsilon"] == pytest.approx(4, rel=1e-5) for name in one_bit.MECHANISMS)
    assert all(row["runs"] == 1 and row["error"] > 0 and row["sd"] is None for row in found.values())
    assert published["output"]["error"] > 3 > found["output"]["error"]


def test_a_figure_can_be_drawn_again() -> None:
    (clear,) = one_bit.synthetic("probit", 0.2, [], Options())
    first, again = (clear.run(0) for _ in range(2))
    assert first == again != clear.run(1)
    assert clear.keys["method"] == "Clear"
