"""What each part of DPALS is worth: test RMSE without it, nothing else changed.

    python benchmarks/dpals_ablation.py [--draws 2] [--out docs/results/dpals-ablation.json]

MovieLens 1M (80/10/10, seed 1234, delta 1e-5; users folded in from the 80%), and the low-rank matrix of DPALS (2021),
Figure 4, with 5,000 users. A release that is left out leaves its share of the budget to the item steps.
"""

import argparse
import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import discreet
from discreet.models.als import contributions, estimate, model, moments, training

COLUMNS = (("MovieLens 1M", 1.0), ("MovieLens 1M", 5.0), ("MovieLens 1M", 10.0), ("low rank", 5.0))


@contextlib.contextmanager
def constants(**values: Any) -> Iterator[None]:
    """Other values of constants, wherever they are used."""
    modules = (moments, estimate, model, training, contributions)
    places = [(module, name) for name in values for module in modules if hasattr(module, name)]
    before = [getattr(module, name) for module, name in places]
    for module, name in places:
        setattr(module, name, values[name])
    try:
        yield
    finally:
        for (module, name), value in zip(places, before, strict=True):
            setattr(module, name, value)


def without(*labels: str) -> Callable[..., contributions.Settings]:
    """Settings in which releases are left out."""
    usual = model.settings

    def changed(*given: Any, **more: Any) -> contributions.Settings:
        found = usual(*given, **more)
        kept = {name: share for name, share in found.shares.items() if name not in labels}
        shares = {name: share for name, share in kept.items() if isinstance(share, float)}
        return replace(found, shares=contributions._with_steps(shares, found.n_steps))

    return changed


def plain_slopes(self: estimate.ItemPosterior, known: moments.ItemFrequencies) -> estimate.ItemPosterior:
    """In place of the two slopes: columns that say nothing."""
    return self.with_columns(np.zeros((len(self.mean), 2)), 1e-9)


VARIANTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "all of it": ({}, {}),
    "public genres too": ({}, {"features": ["genres"]}),
    "public genres and years too": ({}, {"features": ["genres", "year"]}),
    "without slopes on bias and popularity": ({"with_slopes": plain_slopes}, {}),
    "without directions from co-occurrences": (
        {"settings": without(contributions.SECOND_MOMENT, contributions.EXTENSION)},
        {},
    ),
    "without random probe columns": ({"PROBES": 0}, {}),
    "no prior mean from the items a user has": ({"USER_PRIOR": 0.0}, {}),
    "two folds in place of four": ({"FOLDS": 2}, {}),
    "1 step": ({}, {"n_steps": 1}),
    "2 steps": ({}, {"n_steps": 2}),
    "4 steps": ({}, {"n_steps": 4}),
    "16 steps": ({}, {"n_steps": 16}),
}


def data(name: str) -> tuple[discreet.Interactions, discreet.Interactions]:
    """Training and test ratings."""
    made = discreet.datasets.synthetic_low_rank(5000) if name == "low rank" else discreet.datasets.movielens("1m")
    train, _, test = discreet.splits.holdout(made, valid=0.1, test=0.1, random_state=1234)
    return train, test


def measure(variant: str, column: tuple[str, float], table: Any, draws: int) -> list[float] | None:
    """Mean and standard deviation of the test RMSE; None where a variant makes no sense."""
    changed, parameters = VARIANTS[variant]
    name, epsilon = column
    if name == "low rank" and "features" in parameters:
        return None
    train, test = table
    slopes = estimate.ItemPosterior.with_slopes
    errors = []
    with constants(**{key: value for key, value in changed.items() if key != "with_slopes"}):
        estimate.ItemPosterior.with_slopes = changed.get("with_slopes", slopes)  # type: ignore[method-assign]
        try:
            for _ in range(draws):
                fitted = discreet.DPALS(epsilon=epsilon, delta=1e-5, **parameters).fit(train)
                errors.append(np.sqrt(np.mean((fitted.predict(train, test) - test.values) ** 2)))
        finally:
            estimate.ItemPosterior.with_slopes = slopes  # type: ignore[method-assign]
    return [round(float(np.mean(errors)), 4), round(float(np.std(errors, ddof=1)), 4)]


def main() -> None:
    """Print the table, and write it if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    tables = {name: data(name) for name, _ in COLUMNS}
    print(f"{'':42}" + "".join(f"{name + f', {epsilon:g}':>20}" for name, epsilon in COLUMNS))
    found = {}
    for variant in options.variants:
        row = [measure(variant, column, tables[column[0]], options.draws) for column in COLUMNS]
        cells = (f"{pair[0]:.4f} ({pair[1]:.4f})" if pair else "" for pair in row)
        print(f"{variant:42}" + "".join(f"{cell:>20}" for cell in cells), flush=True)
        found[variant] = row
    if options.out:
        document = {
            "version": discreet.__version__,
            "command": f"python benchmarks/dpals_ablation.py --draws {options.draws}",
            "columns": [{"data": name, "epsilon": epsilon} for name, epsilon in COLUMNS],
            "rmse (mean, standard deviation)": found,
        }
        options.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
