"""Figure 2 of the Frank-Wolfe paper (Jain, Thakkar, Thakurta 2018): test RMSE of private completion against epsilon.

(a) a random rank-one matrix, 500,000 x 400, 80 entries of each user; (b) Jester. 1% of the ratings are for testing,
delta is 1e-6. `synthetic` and `jester` are the data, `private_methods` and `plain_methods` what is compared, `measured`
is one point of a curve, `figure` all of them, `table` and `draw` show them. Test errors are exact, and so not covered
by any epsilon: research only.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import discreet
from discreet.data.interactions import Interactions

DELTA = 1e-6
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
TEST = 0.01
RATINGS = 80  # of each user, at most: the paper's xi
PUBLISHED_STEPS = 6  # T, which makes 5 releases
Row = dict[str, Any]


@dataclass(frozen=True)
class Data:
    """What a curve is measured on.

    Attributes:
        title: What it is.
        train: What models are fitted to.
        history: What the users of the test are folded in from: all of `train`, or some users' part of it.
        test: Ratings to be foretold.
        centre: Whether users' ratings are taken about their own means.
        radius: k for the published algorithm, which has to be told.
        row_norm: L, likewise.
    """

    title: str
    train: Interactions
    history: Interactions
    test: Interactions
    centre: bool
    radius: float
    row_norm: float


def synthetic(n_users: int = 500_000, *, tested: int = 50_000, times: float = 4.0) -> Data:
    """The data of Figure 2a; `tested` users' test ratings are looked at, and k is so many times the nuclear norm.

    The paper chooses k by what does best. At epsilon 1 that is 4 to 8 times the true one: steps are short.
    """
    ratings, truth = discreet.datasets.rank_one(n_users, 400, per_user=RATINGS, return_truth=True)
    train, _, test = discreet.splits.holdout(ratings, valid=0.0, test=TEST, random_state=0)
    some = list(ratings.users[: min(tested, n_users)])
    nuclear = float(np.linalg.norm(truth.user_factors) * np.linalg.norm(truth.item_factors))
    title = f"rank one, {n_users:,} x 400, {RATINGS} ratings of each user"
    return Data(title, train, train.for_users(some), test.for_users(some), False, times * nuclear, RATINGS**0.5 / 2)


def jester(ratings: Interactions | None = None) -> Data:
    """The data of Figure 2b, as far as they are at hand: the first of Jester's three parts, scaled to 0..5.

    k and L of the published algorithm are those that a prototype did best with; users' means cost it nothing.
    """
    ratings = discreet.datasets.jester(parts=(1,)).rescale(0, 5) if ratings is None else ratings
    train, _, test = discreet.splits.holdout(ratings, valid=0.0, test=TEST, random_state=0)
    return Data("Jester 1, scaled to 0..5", train, train, test, True, 2400.0, 8.0)


def private_methods(data: Data, epsilon: float) -> dict[str, Callable[[], Any]]:
    """Every private method, with its defaults."""
    budget: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA}
    own = {**budget, "centre": data.centre}
    published = {**own, "radius": data.radius, "row_norm": data.row_norm, "n_steps": PUBLISHED_STEPS}
    return {
        "DPFrankWolfe": lambda: discreet.DPFrankWolfe(**own),
        "DPFrankWolfe, Oja": lambda: discreet.DPFrankWolfe(**own, eigensolver="oja"),
        "DPFrankWolfe, as published": lambda: discreet.DPFrankWolfe.as_published(**published),
        "DPSVD": lambda: discreet.DPSVD(**own),
        "DPCleansedSVD": lambda: discreet.DPCleansedSVD(**budget),
        "DPGradientDescent": lambda: discreet.DPGradientDescent(**own),
        "DPALS": lambda: discreet.DPALS(**budget),
        "DPSGD": lambda: discreet.DPSGD(**budget),
    }


def plain_methods(data: Data) -> dict[str, Callable[[], Any]]:
    """The lines to compare with: not private, with as many steps as DPFrankWolfe makes at epsilon 1, and with more."""
    return {
        "FrankWolfe, not private, 5 steps": lambda: discreet.FrankWolfe(centre=data.centre, n_steps=5),
        "FrankWolfe, not private, 20 steps": lambda: discreet.FrankWolfe(centre=data.centre, n_steps=20),
    }


def measured(data: Data, make: Callable[[], Any], runs: int) -> Row:
    """Mean and standard deviation of the test RMSE over fits, the true epsilon, and seconds for a fit."""
    errors, seconds, epsilon = [], 0.0, None
    for _ in range(runs):
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # as published, epsilon is another: it is in the table
            model = make().fit(data.train)
        seconds += time.perf_counter() - start
        guarantee = model.guarantee_
        epsilon = float(guarantee.epsilon) if guarantee.holds else None
        errors.append(float(np.sqrt(np.mean((model.predict(data.history, data.test) - data.test.values) ** 2))))
    spread = statistics.stdev(errors) if runs > 1 else None
    return {
        "rmse": _digits(statistics.mean(errors)),
        "sd": spread if spread is None else _digits(spread),
        "runs": runs,
        "true_epsilon": epsilon if epsilon is None else _digits(epsilon),
        "seconds": round(seconds / runs, 1),
    }


def figure(
    data: Data,
    *,
    epsilons: Sequence[float] = EPSILONS,
    runs: Callable[[str, float], int] = lambda method, epsilon: 10,
    done: Sequence[Row] = (),
) -> Iterator[Row]:
    """The points of the figure, one after the other; `runs` says how many fits of a method are averaged, 0: none.

    Those that are among `done` are not measured again.
    """
    seen = {(row["method"], row["epsilon"]) for row in done}
    plans: list[tuple[str, float | None, Callable[[], Any], int]] = [
        (method, epsilon, private_methods(data, epsilon)[method], runs(method, epsilon))
        for method in private_methods(data, 1.0)
        for epsilon in epsilons
    ]
    plans += [(name, None, make, 1) for name, make in plain_methods(data).items() if runs(name, 0.0)]
    for name, at, make, count in plans:
        if count and (name, at) not in seen:
            yield {"method": name, "epsilon": at, **measured(data, make, count)}


def table(rows: Sequence[Row]) -> str:
    """The figure as a table in Markdown: mean (standard deviation), and the number of fits if it is not 10."""
    private = [row for row in rows if row["epsilon"] is not None]
    epsilons = sorted({row["epsilon"] for row in private})
    lines = ["| epsilon | " + " | ".join(f"{epsilon:g}" for epsilon in epsilons) + " |"]
    lines += ["|---" * (len(epsilons) + 1) + "|"]
    for method in dict.fromkeys(row["method"] for row in private):
        own = {row["epsilon"]: row for row in private if row["method"] == method}
        lines.append(f"| {method} | " + " | ".join(_cell(own.get(epsilon)) for epsilon in epsilons) + " |")
    lines += [f"| {row['method']} | {_cell(row)} |" for row in rows if row["epsilon"] is None]
    return "\n".join(lines)


def _cell(row: Row | None) -> str:
    if row is None:
        return "-"
    spread = "" if row["sd"] is None else f" ({row['sd']:.1g})"
    return f"{row['rmse']:.4g}{spread}" + ("" if row["runs"] == 10 or row["epsilon"] is None else f" x{row['runs']}")


def _digits(number: float) -> float:
    """Five of them."""
    return float(f"{number:.5g}")


def draw(rows: Sequence[Row], title: str, path: Path, *, log: bool) -> None:
    """The figure as an SVG: a curve with its spread for each method, a line for what is not private."""
    from discreet.errors import MissingExtra

    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("a plot", "plot") from None
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "discreet", "font.size": 9}):
        sheet = Figure(figsize=(7, 4.5), layout="constrained")
        axes = sheet.subplots()
        private = [row for row in rows if row["epsilon"] is not None]
        for method in dict.fromkeys(row["method"] for row in private):
            own = sorted((row for row in private if row["method"] == method), key=lambda row: float(row["epsilon"]))
            spread = [row["sd"] or 0.0 for row in own]
            at, errors = [row["epsilon"] for row in own], [row["rmse"] for row in own]
            axes.errorbar(at, errors, yerr=spread, marker="o", markersize=3, capsize=2, linewidth=1.2, label=method)
        for row, style in zip((row for row in rows if row["epsilon"] is None), ("--", ":", "-."), strict=False):
            axes.axhline(row["rmse"], color="#555555", linestyle=style, linewidth=1, label=row["method"])
        axes.set_xscale("log")
        axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        axes.minorticks_off()
        if log:
            axes.set_yscale("log")
        axes.set_xlabel(f"epsilon (users, add-remove, delta {DELTA:g})")
        axes.set_ylabel("test RMSE")
        axes.set_title(title, loc="left", fontsize="small")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
        sheet.savefig(path, format="svg", metadata={"Date": None})
