"""How certificates and previews look to people: text, markdown, HTML. Computes nothing that a guarantee rests on."""

import html
from typing import TYPE_CHECKING, Any

from discreet.numbers import round_down, round_up

if TYPE_CHECKING:
    from discreet.privacy.ledger import Ledger, Preview


def rows(certificate: dict[str, Any]) -> list[dict[str, Any]]:
    """The releases as people read them; the share is of mu^2, or of epsilon where noise is not Gaussian."""
    releases = certificate["releases"]
    squares = [int(r["cost"]["gaussian"]) for r in releases]
    pure = [sum(e.get("epsilon", 0.0) * e["count"] for e in r["cost"]["events"]) for r in releases]
    mixed = any(squares) and any(pure)
    table = []
    for release, square, epsilon in zip(releases, squares, pure, strict=True):
        part = square / sum(squares) if square else epsilon / (sum(pure) or 1)
        noise = dict(release.get("noise", {"kind": "charged elsewhere"}))
        kind = noise.pop("kind")
        settings = ", ".join(f"{key} {value:.6g}" for key, value in noise.items() if isinstance(value, float))
        table.append(
            {
                "label": release["label"],
                "shape": "×".join(map(str, release.get("shape", []))) or "1",
                "sensitivity": f"{release['sensitivity']:.6g}" if "sensitivity" in release else "-",
                "noise": f"{kind} {settings}".strip() + (", symmetric" if noise.get("symmetric") else ""),
                "part": part,
                "share": f"{part:.1%}" + ((" of mu²" if square else " of epsilon") if mixed else ""),
            }
        )
    return table


def sources(certificate: dict[str, Any]) -> str:
    """Where the noise came from."""
    names = dict.fromkeys(release["source"] for release in certificate["releases"] if "source" in release)
    return ", ".join(names) or "none drawn"


def markdown(certificate: dict[str, Any]) -> str:
    """The certificate as a markdown page."""
    c = certificate
    columns = ("label", "shape", "sensitivity", "noise", "share")
    table = ["| release | shape | sensitivity | noise | share of the budget |", "|---|---|---|---|---|"]
    table += ["| " + " | ".join(row[column] for column in columns) + " |" for row in rows(c)]
    public = [f"- {name}: {why}" for name, why in c["public_inputs"].items()] or ["- nothing"]
    sections = {
        "What was released": [*table, "", f"Noise: {sources(c)}."],
        "Assumed to be public": public,
        "Covered": [c["covered"]],
        "Not covered": [f"- {text}" for text in c["not_covered"]],
        "Notes": [f"- {text}" for text in c["notes"]],
    }
    lines = [f"# {c['title']}", "", f"**{c['sentence']}**", ""]
    for name, content in sections.items():
        lines += [f"## {name}", "", *content, ""] if content else []
    used = ", ".join(f"{name} {number}" for name, number in c["versions"].items())
    return "\n".join([*lines, f"Issued {c['issued']} with {used}. Digest `{c['digest']}`.", ""])


def preview(preview: "Preview") -> str:
    """What a plan would cost, as a table."""
    lines = [f"{'release':<28}{'times':>6}{'share of mu^2':>15}"]
    total = preview.plan.cost.gaussian or 1
    for line in preview.plan.lines:
        share = f"{line.total.gaussian / total:.1%}" if line.total.gaussian else "-"
        lines.append(f"{line.label:<28}{line.count:>6}{share:>15}")
    cost, after = round_up(preview.cost.epsilon), round_up(preview.after.epsilon)
    lines.append(f"costs epsilon = {cost}, ledger then at {after}, at delta = {round_up(preview.cost.delta)}")
    return "\n".join(lines if preview.fits else [*lines, "DOES NOT FIT in what the ledger has left"])


def ledger(ledger: "Ledger") -> str:
    """A ledger as a table: its budget, what was released at what cost, what is left."""
    events, spent, left = ledger.events, ledger.spent, ledger.remaining
    lines = [f"{'#':>4}  {'released':<32}{'shape':>12}{'sensitivity':>13}  {'noise':<28}{'mu':>10}"] if events else []
    for row, event in zip(rows({"releases": [event.body for event in events]}), events, strict=True):
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
    c, text = certificate, html.escape
    cells = "".join(
        f"<tr><td>{text(row['label'])}<td>{text(row['shape'])}<td>{row['sensitivity']}<td>{text(row['noise'])}<td>"
        f'<svg width="160" height="14" role="img" aria-label="{row["share"]}">'
        f'<rect width="{160 * row["part"]:.1f}" height="14" rx="2"/></svg> {row["share"]}</tr>'
        for row in rows(c)
    )
    public = [f"{name}: {why}" for name, why in c["public_inputs"].items()] or ["nothing"]
    lists = {"Assumed to be public": public, "Not covered": c["not_covered"], "Notes": c["notes"]}
    bullets = "".join(
        f"<h2>{name}</h2><ul>{''.join(f'<li>{text(line)}</li>' for line in lines)}</ul>"
        for name, lines in lists.items()
        if lines
    )
    state = "holds" if c["guarantee"]["holds"] else "void"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{text(c['title'])}</title><style>{_CSS}</style><main><h1>{text(c['title'])}</h1>"
        f'<p class="{state}">{text(c["sentence"])}</p>{body}<h2>What was released</h2><div class="wide"><table>'
        f"<tr><th>release<th>shape<th>sensitivity<th>noise<th>share of the budget</tr>{cells}</table></div>"
        f"<p>Noise: {text(sources(c))}.</p><h2>Covered</h2><p>{text(c['covered'])}</p>{bullets}"
        f"<footer>Issued {text(c['issued'])}. Digest <code>{text(c['digest'])}</code></footer></main></html>"
    )


_CSS = """
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
