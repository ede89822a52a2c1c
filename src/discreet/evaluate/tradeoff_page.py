"""A trade-off as a plot, with matplotlib, and as a page of its own."""

from __future__ import annotations

import html
import io
from typing import TYPE_CHECKING, Any

from discreet.errors import MissingExtra
from discreet.evaluate.plots import new_axes
from discreet.evaluate.result import html_table
from discreet.privacy.statement import CSS, article

if TYPE_CHECKING:
    from discreet.evaluate.tradeoff_result import Tradeoff

COLOURS = ("#2f6f6d", "#b3541e", "#5b4b8a", "#7a6a1c", "#8a2f55", "#33639b")
STYLES = ("--", ":", "-.")


def draw(found: Tradeoff, ax: Any, metric: str) -> Any:
    """Curves over epsilon, on a logarithmic scale; the bars reach from the lowest to the highest run."""
    ax = new_axes() if ax is None else ax
    for at, (model, curve) in enumerate(found.items()):
        epsilons = [epsilon for epsilon in sorted(curve) if metric in curve[epsilon]]
        spreads = [found.spread(model, epsilon, metric) for epsilon in epsilons]
        below, above = [s.mean - s.low for s in spreads], [s.high - s.mean for s in spreads]
        ax.errorbar(
            epsilons,
            [s.mean for s in spreads],
            yerr=[below, above],
            marker="o",
            markersize=4,
            capsize=3,
            color=COLOURS[at % len(COLOURS)],
            label=model,
        )
    for at, (name, values) in enumerate(found.lines.items()):
        if metric in values:
            ax.axhline(values[metric], color="#69727d", linestyle=STYLES[at % len(STYLES)], linewidth=1.2, label=name)
    budgets = sorted({epsilon for curve in found.values() for epsilon in curve})
    ax.set_xscale("log")
    ax.set_xticks(budgets, [f"{epsilon:g}" for epsilon in budgets])
    ax.minorticks_off()
    ax.set_xlabel("epsilon: less is more private")
    ax.set_ylabel(metric)
    ax.set_title("exact numbers about private users: for the owner's eyes only", fontsize="small", loc="left")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize="small")
    return ax


def svg(found: Tradeoff, metric: str) -> str:
    """The plot as an SVG element, without the lines that only a file of its own needs."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("the plot of a report", "plot") from None
    figure = Figure(figsize=(7, 4), layout="constrained")
    draw(found, figure.subplots(), metric)
    text = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": metric, "svg.fonttype": "none"}):
        figure.savefig(text, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return text.getvalue()[text.getvalue().index("<svg") :]


def page(found: Tradeoff) -> str:
    """The report."""
    text = html.escape
    owner, *notes = found._notes()
    plots = "".join(
        f'<h2>{text(metric)}</h2><figure class="plot">{svg(found, metric)}<figcaption>Bars reach from the lowest to '
        f'the highest of {found.repeats} runs.</figcaption></figure><div class="wide">'
        f"{html_table(found.table(metric))}</div>"
        for metric in found.metrics
    )
    said = "".join(f"<p>{text(sentence)}</p>" for sentence in found.worth())
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Privacy against accuracy</title><style>{CSS}{_CSS}</style><main><h1>Privacy against accuracy"
        f'</h1><p class="holds"><strong>{text(found.sentence())}</strong></p>{said}<p class="void">'
        f"{text(owner)}</p>{''.join(f'<p>{text(note)}</p>' for note in notes)}{plots}"
        f"<h2>What each model promises</h2><p>The statement of the first run at each epsilon. It is about that run "
        f"alone, and none of these models is meant to be published.</p>{_statements(found)}</main></html>"
    )


def _statements(found: Tradeoff) -> str:
    """What was released by one fit of each kind, to be unfolded."""
    blocks = []
    for run in found.runs:
        if run.repeat == 0:
            name = run.model if run.epsilon is None else f"{run.model}, epsilon {run.epsilon:g}"
            blocks.append(f"<details><summary>{html.escape(name)}</summary>{article(run.certificate)}</details>")
    return "".join(blocks)


_CSS = """
.plot svg{max-width:100%;height:auto}
.plot{margin:1rem 0;background:#fff;color:#1c2430;border-radius:4px}
figcaption{font-size:.8rem;padding:0 .6rem .6rem}
details{border-bottom:1px solid #d5dae1;padding:.4rem 0}
summary{cursor:pointer;font-weight:600}
"""
