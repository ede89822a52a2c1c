"""Six months on one budget, and a model of other people's ratings: test RMSE, mean and spread over noise draws.

    python benchmarks/months.py --out docs/results/months.json --plot docs/how-to/retrain-every-month.svg

Needs MovieLens 1M and 100K, Jester 1 (`discreet datasets fetch 1m`, `... 100k`, `... jester`) and anime ratings (a file
in $DISCREET_DATA, see benchmarks/sparse.py). 80/10/10 at random, seed 1234, as in benchmarks/dpals.py. The 80% are cut
into six "months" at random, seed 7: month by month, everyone has more ratings. After each month test users are folded
in from the 90%. All ways but the last three spend the budget in six fits.

Users' contributions to a release are scaled to a fixed length, so its signal grows as the root of the number of
ratings. A sixth of mu^2 on t sixths of the ratings tells as much as t / 36 of mu^2 on all of them. Over six months this
adds up to 58%; of what takes two ratings of one person, it is t^2 / 216, and 42%. Two ways spend that in one fit.
"""

import argparse
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import discreet
import sparse

DELTA, MONTHS, EPSILONS = 1e-5, 6, (3.0, 10.0)
WAYS = {
    "fit_more on the new ratings": "new",
    "fit on all ratings so far": "anew",
    "fit_more on all ratings so far": "all",
    "the same, mu^2 growing with the ratings": "growing",
    "the same, half of mu^2 kept for the last": "half",
    "the same, three quarters kept for the last": "three quarters",
    "one fit on everything, with 42% of mu^2": "pairs",
    "one fit on everything, with 58% of mu^2": "most",
    "one fit on everything, with the whole budget": "one",
}
OTHERS = ("all", "growing", "three quarters", "one")  # on other data
KEPT = {"half": 1 / 2, "three quarters": 3 / 4}  # the share of the last month; without one, months are equal
AT = np.arange(1, MONTHS + 1) / MONTHS
ONCE = {"pairs": float(np.mean(AT**2)), "most": float(np.mean(AT)), "one": 1.0}  # of mu^2, in one fit


def load(name: str) -> discreet.Interactions:
    """A data set."""
    if name == "anime":
        return sparse.ratings_of(name, sparse.FOLDER)
    return discreet.datasets.jester(parts=(1,)) if name == "jester" else discreet.datasets.movielens(name)


def rmse(model: Any, history: discreet.Interactions, test: discreet.Interactions) -> float:
    """Root mean squared error over all test ratings."""
    return float(np.sqrt(np.mean((model.predict(history, test, on_unknown="ignore") - test.values) ** 2)))


def split(ratings: discreet.Interactions) -> tuple[discreet.Interactions, ...]:
    """Training, training and validation, test."""
    train, valid, test = discreet.splits.holdout(ratings, valid=0.1, test=0.1, random_state=1234)
    table = pa.concat_tables([train.to_arrow(), valid.to_arrow()])
    return train, discreet.read(table, items=ratings.catalogue, value_range=ratings.value_range), test


def part(epsilon: float, share: float) -> float:
    """The epsilon of this share of mu^2."""
    whole = discreet.account(epsilon=epsilon, delta=DELTA).mu
    return math.floor(discreet.account(mu=whole * math.sqrt(share), delta=DELTA).epsilon * 1e4) / 1e4


def months(train: discreet.Interactions) -> tuple[list[discreet.Interactions], list[discreet.Interactions]]:
    """All ratings so far, and the new ones, of each month."""
    table = train.to_arrow()
    month = np.random.default_rng(7).integers(0, MONTHS, table.num_rows)

    def of(chosen: Any) -> discreet.Interactions:
        return discreet.read(table.filter(pa.array(chosen)), items=train.catalogue, value_range=train.value_range)

    return [of(month <= at) for at in range(MONTHS)], [of(month == at) for at in range(MONTHS)]


def errors(way: str, epsilon: float, tables: Any, error: Callable[[Any], float]) -> list[float]:
    """After each month."""
    so_far, new = tables
    if way in ONCE:
        budget = epsilon if way == "one" else part(epsilon, ONCE[way])
        return [error(discreet.DPALS(epsilon=budget, delta=DELTA).fit(so_far[-1]))]
    last = KEPT.get(way, 1 / MONTHS)
    shares = AT / AT.sum() if way == "growing" else [(1 - last) / (MONTHS - 1)] * (MONTHS - 1) + [last]
    budgets = [part(epsilon, share) for share in shares]
    found: list[float] = []
    model = None
    for table, budget in zip(new if way == "new" else so_far, budgets, strict=True):
        if model is None or way == "anew":
            model = discreet.DPALS(epsilon=budget, delta=DELTA).fit(table)
        else:
            model.fit_more(table, epsilon=budget)
        found.append(error(model))
    return found


def six_months(data: str, draws: int, chosen: Sequence[str]) -> list[dict[str, Any]]:
    """Print and return the figures of six months."""
    train, both, test = split(load(data))
    tables, found = months(train), []
    for epsilon in EPSILONS:
        print(f"\n{data} in six months, epsilon {epsilon:g} in all: test RMSE after each month")
        for name, way in ((name, way) for name, way in WAYS.items() if way in chosen):
            runs = [errors(way, epsilon, tables, lambda model: rmse(model, both, test)) for _ in range(draws)]
            mean, sd = np.mean(runs, axis=0), np.std(runs, axis=0, ddof=1 if draws > 1 else 0)
            print(f"{name:>46}  " + " ".join(f"{x:.4f}" for x in mean) + f"  sd {sd[-1]:.4f}", flush=True)
            rounded = {"rmse": [round(x, 5) for x in mean], "sd": [round(x, 5) for x in sd]}
            found.append({"data": data, "epsilon": epsilon, "way": name, **rounded})
    return found


def by_title(ratings: discreet.Interactions) -> discreet.Interactions:
    """Items by their titles; of several with one title, the first."""
    titles = dict(zip(ratings.items.to_list(), ratings.catalogue.column("title"), strict=True))
    table = ratings.to_arrow()
    users, values = table.column(0).to_pylist(), table.column(2).to_pylist()
    named = pa.table({"user": users, "item": [titles[i] for i in table.column(1).to_pylist()], "value": values})
    items = sorted(set(titles.values()))
    return discreet.read(
        named, user="user", item="item", value="value", value_range=(1, 5), items=items, on_duplicate="last"
    )


def other_people(draws: int, epsilon: float = 1.0) -> list[dict[str, Any]]:
    """Print and return the figures of going on from MovieLens 100K to MovieLens 1M."""
    old = by_title(load("100k"))
    train, both, test = split(by_title(load("1m")))
    print(f"\nMovieLens 1M at epsilon {epsilon:g}, after a model of MovieLens 100K")
    found = []
    for before in (None, 1.0, 5.0, 20.0):
        runs = []
        for _ in range(draws):
            if before is None:
                model = discreet.DPALS(epsilon=epsilon, delta=DELTA).fit(train)
            else:
                model = discreet.DPALS(epsilon=before, delta=DELTA).fit(old).fit_more(train, epsilon=epsilon)
            runs.append(rmse(model, both, test))
        mean, sd = float(np.mean(runs)), float(np.std(runs, ddof=1 if draws > 1 else 0))
        name = "no earlier model" if before is None else f"after one of epsilon {before:g}"
        print(f"{name:>46}  {mean:.4f}  sd {sd:.4f}", flush=True)
        found.append({"epsilon": epsilon, "before": before, "rmse": round(mean, 5), "sd": round(sd, 5)})
    return found


def plot(results: list[dict[str, Any]], path: Path) -> None:
    """Draw the six months."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.hashsalt": "discreet", "svg.fonttype": "none", "font.size": 9})
    figure, panels = plt.subplots(1, len(EPSILONS), figsize=(9, 3.6), layout="constrained")
    for panel, epsilon in zip(panels, EPSILONS, strict=True):
        for line in (line for line in results if line["data"] == "1m" and line["epsilon"] == epsilon):
            if len(line["rmse"]) == 1:
                style = {"one": ":", "most": "--", "pairs": "-."}[WAYS[line["way"]]]
                panel.axhline(line["rmse"][0], color="black", linestyle=style, label=line["way"])
            else:
                panel.errorbar(range(1, MONTHS + 1), line["rmse"], line["sd"], marker="o", ms=3, label=line["way"])
        panel.set(title=f"epsilon {epsilon:g} for all six months", xlabel="month", ylabel="test RMSE")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Print the tables, and write them if asked."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    found = six_months("1m", options.draws, list(WAYS.values()))
    if options.plot:
        plot(found, options.plot)
    other = other_people(options.draws)
    for data in ("jester", "anime"):
        found += six_months(data, options.draws, OTHERS)
    if options.out:
        command = f"python benchmarks/months.py --draws {options.draws}"
        document = {"version": discreet.__version__, "command": command, "months": found, "other people": other}
        options.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
