"""Tables of the guides have the numbers of the files that they are about."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
MOVIELENS, RESTAURANTS = (1, 2, 3, 4, 6, 8, 10), (1, 2, 3, 4, 5, 7, 10)


def cells(page: str, label: str, which: int = 0) -> list[str]:
    """Of a row of a table, by what it is called, without the stars of bold type."""
    lines = (DOCS / "guide" / page).read_text(encoding="utf-8").replace("*", "").splitlines()
    return [line.strip("| ").split(" | ")[1:] for line in lines if line.startswith(f"| {label} |")][which]


def rows(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((DOCS / "results" / f"{name}.json").read_text(encoding="utf-8"))["rows"]
    return found


def near(text: str, value: float, digits: int) -> bool:
    """Whether a number is printed as rounded; a last digit between two may be either."""
    return abs(float(text.split(maxsplit=1)[0]) - value) <= 0.5001 * 10**-digits


@pytest.mark.parametrize(("name", "link"), [("one-bit-fig4", "probit"), ("one-bit-fig5", "logistic")])
def test_errors_by_what_is_observed(name: str, link: str) -> None:
    found = {(row["method"], row["epsilon"], row["observed"]): row["error"] for row in rows(name)}
    shares = (0.2, 0.4, 0.6, 0.8)
    clear = cells("one-bit.md", f"{link}, Clear")
    assert all(near(cell, found["Clear", None, share], 2) for cell, share in zip(clear, shares, strict=True))
    for mechanism in ("input", "objective"):
        for epsilon in (1.0, 4.0):
            label = f"{link}, {mechanism}, claimed epsilon {epsilon:g}: published / corrected"
            for cell, share in zip(cells("one-bit.md", label), shares, strict=True):
                published, corrected = cell.split(" / ")
                assert near(published, found[f"{mechanism}, as published", epsilon, share], 2)
                assert near(corrected, found[mechanism, epsilon, share], 2)


@pytest.mark.parametrize(
    ("name", "epsilons", "first", "published", "which"),
    [
        ("one-bit-fig2", MOVIELENS, "best corrected: input", "best as published, alpha 1 or 0.5 (always input)", 0),
        ("one-bit-fig3", RESTAURANTS, "input, corrected", "best as published", -1),
    ],
)
def test_shares_of_right_signs(name: str, epsilons: tuple[int, ...], first: str, published: str, which: int) -> None:
    found = {(row["method"], row["epsilon"]): 100 * row["accuracy"] for row in rows(name)}
    for label, mechanism in [(first, "input")] + [(f"{m}, corrected", m) for m in ("objective", "gradient", "output")]:
        for cell, epsilon in zip(cells("one-bit.md", label, which), epsilons, strict=True):
            assert near(cell, found[mechanism, epsilon], 1), (label, epsilon)
    printed = [row for row in rows(name) if row["method"].endswith("as published") and row["true_epsilon"]]
    for cell, epsilon in zip(cells("one-bit.md", published), epsilons, strict=True):
        best = max(100 * row["accuracy"] for row in printed if row["true_epsilon"] == pytest.approx(epsilon))
        assert near(cell, best, 1)
        assert best < max(found[mechanism, epsilon] for mechanism in ("input", "objective", "gradient", "output"))


def test_regret() -> None:
    document = json.loads((DOCS / "results" / "regret.json").read_text(encoding="utf-8"))
    for cell in document["cells"]:
        label = cell["data"] + (" (3,000 users, 5,000 items)" if cell["data"].endswith("wide") else "")
        at = 0 if cell["epsilon"] == 1 else 2
        errors, regret = cells("tuning.md", label)[at : at + 2]
        assert all(near(n, cell[k], 3) for n, k in zip(errors.split(", "), ("default", "tuned"), strict=True))
        assert near(regret.rstrip("%"), 100 * cell["regret"], 1)
        assert cell["regret"] < 0.01 or cell["data"] == "low rank"


@pytest.mark.parametrize("which", [0, 1])
def test_private_frank_wolfe_and_what_it_is_compared_with(which: int) -> None:
    name = ("frank-wolfe-fig2a", "frank-wolfe-fig2b")[which]
    measured: dict[str, dict[float, dict[str, Any]]] = {}
    for row in rows(name):
        if row["epsilon"] is not None:
            measured.setdefault(row["method"], {})[row["epsilon"]] = row
    for method, found in measured.items():
        for cell, epsilon in zip(cells("frank-wolfe.md", method, which), (0.1, 0.2, 0.5, 1.0, 2.0, 5.0), strict=True):
            if cell == "-":
                assert epsilon not in found, (method, epsilon)
                continue
            mean = Decimal(cell.split(maxsplit=1)[0])
            last = float(Decimal(10) ** mean.as_tuple().exponent)  # what the last digit counts
            assert abs(float(mean) - found[epsilon]["rmse"]) <= 0.5001 * max(last, 1e-4 * float(mean)), (
                method,
                epsilon,
            )
            assert (" x1" in cell) == (found[epsilon]["runs"] == 1)
            assert found[epsilon]["runs"] in (1, 10)
