"""How certificates and previews look to people: text, markdown, HTML. Computes nothing that a guarantee rests on."""

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discreet.privacy.accounting import Cost, SampledGaussian
from discreet.validation import round_down, round_up

if TYPE_CHECKING:
    from discreet.privacy.guarantee import Guarantee
    from discreet.privacy.ledger import Ledger
    from discreet.privacy.plan import Plan


_UNITS = {"user": "one person's entire history", "entry": "one single entry of one person's history"}
_CHANGES = {
    "add-remove": "been left out of the data (or added to it)",
    "replace": "been replaced by any other",
    "flip": "been the opposite",
}
_NOTIONS = {
    "joint-dp": ("joint differential privacy", "what is published, or shown to everybody but that person,"),
    "dp": ("differential privacy", "what is published"),
}


def _change(unit: str, adjacency: str) -> str:
    """What neighbouring data differ in, after "had"."""
    if (unit, adjacency) == ("user", "flip"):
        return "any of the bits in one person's history been the opposite (which items they are about is public)"
    return f"{_UNITS[unit]} {_CHANGES[adjacency]}"


def sentence(guarantee: "Guarantee") -> str:
    """A guarantee as one sentence that a lawyer can read."""
    g = guarantee
    name, seen = _NOTIONS[g.notion]
    numbers = f"epsilon = {round_up(g.epsilon)} and delta = {round_up(g.delta)}"
    if not g.holds and math.isinf(g.epsilon):
        return f"NOT PRIVATE: {g.why_not}."
    if not g.holds:
        return f"NOT PRIVATE: {g.why_not} (the noise, were it sound, would give {numbers})."
    if math.isinf(g.epsilon):
        return f"NOT PRIVATE: no finite epsilon holds at delta = {round_up(g.delta)} (state it at a larger one)."
    ratio = round_up(math.exp(g.epsilon), 3) if g.epsilon < 700 else f"e^{round_up(g.epsilon)}"
    return (
        f"{g.unit.capitalize()}-level {name} with {numbers} ({g.adjacency}): had {_change(g.unit, g.adjacency)}, "
        f"no outcome in {seen} would have been more than {ratio} times as likely, or "
        f"as unlikely, as it is, apart from a probability of {round_up(g.delta)}."
    )


def rows(releases: Sequence[Mapping[str, Any]], delta: float) -> list[dict[str, Any]]:
    """The releases as people read them: with the epsilon of each alone, and its share where all are of one kind."""
    costs = [Cost.from_json(release["cost"]) for release in releases]
    total = sum(costs, Cost())
    alone = {cost: round_up(cost.epsilon(delta)) for cost in set(costs)}  # of many releases, most cost the same
    table = []
    for release, cost in zip(releases, costs, strict=True):
        part = None
        if not total.events:
            part = cost.gaussian / total.gaussian
        elif math.isfinite(total.pure):
            part = cost.pure / total.pure
        table.append(
            {
                "label": release["label"],
                "shape": "×".join(map(str, release.get("shape", []))) or "1",
                "sensitivity": f"{release['sensitivity']:.6g}" if "sensitivity" in release else "-",
                "noise": _noise(release, cost),
                "epsilon": alone[cost],
                "part": part or 0.0,
                "share": "-" if part is None else f"{part:.1%}",
            }
        )
    return table


def _noise(release: Mapping[str, Any], cost: Cost) -> str:
    """Of a release, or of each of those that a charge is for."""
    noise = dict(release.get("noise", {"kind": "charged elsewhere"}))
    words = [noise.pop("kind")]
    words += [f"{key} {value:.6g}" for key, value in noise.items() if isinstance(value, float)]
    words = [" ".join(words[:2]), *words[2:]] + (["symmetric"] if noise.get("symmetric") else [])
    rates = [f"{event.probability:g}" for event, _ in cost.events if isinstance(event, SampledGaussian)]
    words += [f"over samples of users at rate {', '.join(rates)}"] if rates else []
    return ", ".join([*words, *([f"{release['count']} times"] if release.get("count", 1) > 1 else [])])


_COLUMNS = {
    "label": "release",
    "shape": "shape",
    "sensitivity": "sensitivity",
    "noise": "noise",
    "epsilon": "epsilon alone",
    "share": "share of what was spent",
}


def _legend(certificate: Mapping[str, Any]) -> str:
    """What the columns are, to who has not seen them before."""
    if not certificate["releases"]:
        return "Nothing, through a ledger."
    return (
        "All that was computed from people's data and made public, with noise added. Shape: how many numbers. "
        "Sensitivity: how far one person can move them, all together. Noise: how far chance moves each of them. "
        "Epsilon alone: what the guarantee would be, had there been nothing else."
    )


def _footer(certificate: Mapping[str, Any]) -> str:
    key = certificate.get("signature", {}).get("public_key")
    return f"Digest {certificate['digest']}" + (f", signed with the Ed25519 key {key}" if key else ", not signed")


def _model(certificate: Mapping[str, Any]) -> list[str]:
    """Which model it is about, and no other."""
    model = certificate["model"]
    if model is None:
        return []
    params = ", ".join(f"{name}={value!r}" for name, value in model["params"].items())
    return [f"{model['class']}({params})", *(f"SHA-256 of {name}: {value}" for name, value in model["sha256"].items())]


def paid(certificate: Mapping[str, Any]) -> str:
    """What the ledger that paid for it has spent in all, so that nobody takes one fit's epsilon for the total."""
    if certificate["ledger"] is None:
        return ""
    spent, budget = certificate["ledger"]["spent"], certificate["ledger"]["budget"]
    total = math.inf if spent["epsilon"] is None else spent["epsilon"]
    if budget:  # which is proved, also where the sum of what was spent is computed less tightly than the filter does
        total = min(total, budget["epsilon"])
    numbers = f"epsilon = {round_up(total)} at delta = {round_up(spent['delta'])}"
    limit = f"of a budget of epsilon = {round_up(budget['epsilon'])}" if budget else "and has no budget"
    void = "" if spent["holds"] else f"; in all, it is NOT PRIVATE: {spent['why_not']}"
    return f"The ledger that paid for this has spent {numbers} in all, what is set aside included, {limit}{void}."


def sources(certificate: dict[str, Any]) -> str:
    """Where the noise came from."""
    names = dict.fromkeys(release["source"] for release in certificate["releases"] if "source" in release)
    return ", ".join(names) or "none drawn by this ledger"


def markdown(certificate: dict[str, Any]) -> str:
    """The certificate as a markdown page."""
    c = certificate

    def cell(text: str) -> str:
        return html.escape(" ".join(text.split()), quote=False).replace("|", "\\|")

    table = ["| " + " | ".join(_COLUMNS.values()) + " |", "|---" * len(_COLUMNS) + "|"]
    released = rows(c["releases"], c["guarantee"]["delta"])
    table += ["| " + " | ".join(cell(row[column]) for column in _COLUMNS) + " |" for row in released]
    public = [f"- {name}: {why}" for name, why in c["public_inputs"].items()] or ["- nothing"]
    sections = {
        "What was released": [_legend(c), "", *table, "", f"Noise: {sources(c)}."],
        "Assumed to be public": public,
        "Covered": [c["covered"]],
        "Not covered": [f"- {text}" for text in c["not_covered"]],
        "Notes": [f"- {text}" for text in c["notes"]],
        "The model": [f"- {cell(text)}" for text in _model(c)],
    }
    lines = [f"# {c['title']}", "", f"**{c['sentence']}**", "", *([paid(c), ""] if paid(c) else [])]
    for name, content in sections.items():
        lines += [f"## {name}", "", *content, ""] if content else []
    used = ", ".join(f"{name} {number}" for name, number in c["versions"].items())
    return "\n".join([*lines, f"Issued {c['issued']} with {used}. {_footer(c)}.", ""])


@dataclass(frozen=True)
class Preview:
    """What a plan would cost, computed without any data; as a string, a table."""

    plan: "Plan"
    cost: "Guarantee"
    after: "Guarantee"
    fits: bool

    def __str__(self) -> str:
        lines = [f"{'release':<28}{'times':>6}{'share of mu^2':>15}"]
        total = self.plan.cost.gaussian or 1
        for line in self.plan.lines:
            share = f"{line.total.gaussian / total:.1%}" if line.total.gaussian else "-"
            lines.append(f"{line.label:<28}{line.count:>6}{share:>15}")
        cost, after = round_up(self.cost.epsilon), round_up(self.after.epsilon)
        lines.append(f"costs epsilon = {cost}, ledger then at {after}, at delta = {round_up(self.cost.delta)}")
        return "\n".join(lines if self.fits else [*lines, "DOES NOT FIT in what the ledger has left"])


def ledger(ledger: "Ledger") -> str:
    """A ledger as a table: its budget, what was released at what cost, what is left."""
    events, spent, left = ledger.events, ledger.spent, ledger.remaining
    lines = [f"{'#':>4}  {'released':<32}{'shape':>12}{'sensitivity':>13}  {'noise':<28}{'mu':>10}"] if events else []
    for row, event in zip(rows([event.body for event in events], ledger.delta), events, strict=True):
        mu = "-" if event.cost.mu is None else f"{event.cost.mu:.4g}"
        cells = f"{row['label'][:31]:<32}{row['shape']:>12}{row['sensitivity']:>13}  {row['noise'][:27]:<28}{mu:>10}"
        lines.append(f"{event.seq:>4}  {cells}")
    lines += [""] if events else ["Nothing has been released."]
    budget = "none" if ledger.epsilon is None else f"epsilon = {ledger.epsilon:g}"
    lines.append(f"budget {budget}, at delta = {round_up(ledger.delta)}; spent epsilon = {round_up(spent.epsilon)}")
    lines += [] if left is None else [f"the largest further release that fits: epsilon = {round_down(left.epsilon)}"]
    waiting = ledger.open_reservations()
    return "\n".join([*lines, *([f"open reservations: {', '.join(waiting)}"] if waiting else [])])


def page(certificate: dict[str, Any], *, body: str = "") -> str:
    """The certificate as a self-contained HTML page, with a bar for each release's share of the budget.

    Args:
        certificate: from `Statement.certificate`.
        body: more HTML, put before the privacy statement (a report's tables and plots).
    """
    title = html.escape(certificate["title"])
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{CSS}</style><main><h1>{title}</h1>{article(certificate, body=body)}</main>"
        f"</html>"
    )


def article(certificate: dict[str, Any], *, body: str = "") -> str:
    """What a page has below its title, to be a part of other pages; it needs the style sheet `CSS`."""
    c, text = certificate, html.escape
    cells = "".join(
        "<tr>"
        + "".join(f"<td>{text(row[column])}" for column in _COLUMNS if column != "share")
        + f'<td><svg width="120" height="14" role="img" aria-label="{row["share"]}">'
        + f'<rect width="{120 * row["part"]:.1f}" height="14" rx="2"/></svg> {row["share"]}</tr>'
        for row in rows(c["releases"], c["guarantee"]["delta"])
    )
    heads = "".join(f"<th>{head}" for head in _COLUMNS.values())
    public = [f"{name}: {why}" for name, why in c["public_inputs"].items()] or ["nothing"]
    lists = {
        "Assumed to be public": public,
        "Not covered": c["not_covered"],
        "Notes": c["notes"],
        "The model": _model(c),
    }
    bullets = "".join(
        f"<h2>{name}</h2><ul>{''.join(f'<li>{text(line)}</li>' for line in lines)}</ul>"
        for name, lines in lists.items()
        if lines
    )
    state = "holds" if c["guarantee"]["holds"] else "void"
    total = f"<p>{text(paid(c))}</p>" if paid(c) else ""
    return (
        f'<p class="{state}">{text(c["sentence"])}</p>{total}{body}<h2>What was released</h2><p>{_legend(c)}</p>'
        f'<div class="wide"><table><tr>{heads}</tr>{cells}</table></div>'
        f"<p>Noise: {text(sources(c))}.</p><h2>Covered</h2><p>{text(c['covered'])}</p>{bullets}"
        f"<footer>Issued {text(c['issued'])}. {text(_footer(c))}.</footer>"
    )


CSS = """
body{font:16px/1.5 system-ui,sans-serif;color:#1c2430;background:#fff;margin:0}
main{max-width:56rem;margin:2rem auto;padding:0 1rem}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%}
td,th{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #d5dae1}
rect{fill:#2f6f6d}
.holds,.void{padding:1rem;border-left:4px solid #2f6f6d;background:#eef5f4}
.void{border-color:#b3261e;background:#fbeceb}
footer{margin-top:2rem;font-size:.8rem;overflow-wrap:anywhere}
@media(prefers-color-scheme:dark){
body{color:#e6e9ee;background:#14181d}
td,th{border-color:#39414b}
rect{fill:#6fc3bf}
.holds{background:#1b2b2b}
.void{background:#331b1a}
}
"""
