"""The figures of the one-bit paper: all mechanisms are in them, with the epsilons that they truly have."""

from __future__ import annotations

from pathlib import Path

import pytest

from discreet.papers import one_bit


def test_rows_of_synthetic_data_have_the_true_epsilons(tmp_path: Path) -> None:
    rows = list(one_bit.synthetic("logistic", 0.15, 2, [4.0]))
    found = {(row["mechanism"], row["calibration"]): row for row in rows}
    assert len(rows) == len(found) == 9
    assert {key: row["true_epsilon"] for key, row in found.items() if key[1] == "published"} == {
        ("input", "published"): 4.0,
        ("objective", "published"): 8.0,
        ("gradient", "published"): 8.0,
        ("output", "published"): None,
    }
    assert all(found[name, "exact"]["true_epsilon"] == pytest.approx(4, rel=1e-5) for name in one_bit.MECHANISMS)
    assert all(row["runs"] == 2 and row["error"] > 0 for row in rows)
    assert found["output", "published"]["error"] > 3 > found["output", "exact"]["error"]
    pytest.importorskip("matplotlib")
    from discreet.papers.one_bit_plots import draw

    for number in (1, 4):
        path = tmp_path / f"{number}.svg"
        draw(number, rows, str(path))
        assert "<svg" in path.read_text()


def test_a_figure_can_be_drawn_again() -> None:
    first, again = (list(one_bit.synthetic("probit", 0.2, 1, [])) for _ in range(2))
    assert first == again
    assert [row["mechanism"] for row in first] == ["Clear"]
