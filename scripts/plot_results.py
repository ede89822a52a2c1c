"""Draw accuracy against epsilon on MovieLens 1M, from the figures in docs."""

import argparse
import json
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt

DOCS = Path(__file__).parents[1] / "docs"
EPSILONS = (1.0, 5.0, 10.0, 20.0)
OURS, OTHER, PLAIN = "#1f6f5c", "#b8651b", "#5b6470"


def _json(name: str) -> Any:
    return json.loads((DOCS / "results" / name).read_text(encoding="utf-8"))


def ratings() -> dict[str, list[float]]:
    """Test RMSE: of each method at each epsilon, or one number for what is not private."""
    plain, features = (
        next(result for result in _json("dpals.json")["results"] if result["data"] == data)
        for data in ("MovieLens 1M", "MovieLens 1M, with public genres and years")
    )
    reference = re.search(r"^\| the 2023 reference code.*$", (DOCS / "compare.md").read_text("utf-8"), flags=re.M)
    assert reference is not None
    errors = {
        name: [row["train"][0] for row in found["rmse"] if row["epsilon"] in EPSILONS]
        for name, found in (("discreet", plain), ("discreet, with genres", features))
    }
    errors["private ALS, 2023 code, tuned"] = [float(cell) for cell in re.findall(r"\d*\.\d+", reference[0])]
    return errors | {"not private (ALS)": [plain["lines"]["ALS, not private"]]}


def lists() -> dict[str, list[float]]:
    """Recall@20 in the same form."""
    rows = {
        (row["model"], row["epsilon"]): row["recall@20"][0] for row in _json("ranking.json")["tables"]["ml-1m"]["rows"]
    }
    shown = {"discreet, lists": "Recommender for lists alone", "discreet, ratings and lists": "Recommender"}
    found = {name: [rows[model, epsilon] for epsilon in EPSILONS] for name, model in shown.items()}
    plain = {"not private (implicit ALS)": "implicit ALS", "not private (popularity)": "Popularity"}
    return found | {name: [rows[model, None]] for name, model in plain.items()}


def draw(path: Path) -> None:
    """Two panels: errors of ratings, and how much of what people like is found."""
    plt.rcParams.update(
        {"svg.fonttype": "none", "svg.hashsalt": "discreet", "font.size": 11, "font.family": "sans-serif"}
    )
    figure, panels = plt.subplots(1, 2, figsize=(11, 4.2))
    titles = ("Ratings: test RMSE (lower is better)", "Lists: recall@20 (higher is better)")
    for panel, title, series in zip(panels, titles, (ratings(), lists()), strict=True):
        for name, values in series.items():
            ours = name.startswith("discreet")
            if len(values) == 1:
                panel.axhline(values[0], color=PLAIN, linestyle="--", linewidth=1)
                below = panel is panels[0]
                place = {"xytext": (0, -13 if below else 4), "textcoords": "offset points", "ha": "right"}
                panel.annotate(f"{name}: {values[0]:.3f}", (20, values[0]), **place, color=PLAIN, fontsize=9.5)
                continue
            solid = name in ("discreet", "discreet, lists")
            style = {"linestyle": "-" if solid or not ours else ":", "linewidth": 2.2 if solid else 1.6}
            panel.plot(EPSILONS, values, marker="o", color=OURS if ours else OTHER, **style, label=name)
        panel.set(title=title, xlabel="epsilon (smaller is more private)", xscale="log")
        panel.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        panel.minorticks_off()
        panel.margins(y=0.12)
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(frameon=False, fontsize=9.5, loc="upper right" if panel is panels[0] else "center right",
                     bbox_to_anchor=(1.0, 0.98) if panel is panels[0] else (1.0, 0.42))  # fmt: skip
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None, "Creator": None}, facecolor="white")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=DOCS / "results" / "accuracy.svg")
    draw(parser.parse_args().out)
