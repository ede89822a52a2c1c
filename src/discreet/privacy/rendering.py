"""Statements and ledgers for people: text, markdown, HTML, and the public registry. No guarantee depends on these."""

import html
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from discreet.privacy.guarantee import Cost, SampledGaussian
from discreet.privacy.store import Entry
from discreet.validation import round_up


def release_rows(releases: Sequence[Mapping[str, Any]], delta: float) -> list[dict[str, Any]]:
    """The releases as table rows, with the epsilon of each alone, and its share if all are of one kind."""
    costs = [Cost.from_json(release["cost"]) for release in releases]
    total = sum(costs, Cost())
    alone = {cost: round_up(cost.epsilon(delta)) for cost in set(costs)}  # most releases cost the same
    table = []
    for release, cost in zip(releases, costs, strict=True):
        pure = cost.pure / total.pure if math.isfinite(total.pure) else None
        part = pure if total.noise.events else cost.gaussian / total.gaussian
        table.append(
            {
                "label": release["label"] + (f" (released: {release['what']})" if "what" in release else ""),
                "tells": release.get("what", release["label"]),
                "shape": "-" if "threshold" in release else "×".join(map(str, release.get("shape", []))) or "1",
                "sensitivity": f"{release['sensitivity']:.6g}" if "sensitivity" in release else "-",
                "noise": _noise(release, cost),
                "epsilon": alone[cost],
                "part": part or 0.0,
                "share": "-" if part is None else f"{part:.1%}",
            }
        )
    return table


def _noise(release: Mapping[str, Any], cost: Cost) -> str:
    """The noise of a release, or of the release that a charge is for."""
    noise = dict(release.get("noise", {"kind": "charged elsewhere"}))
    words = [noise.pop("kind")]
    words += [f"{key} {value:.6g}" for key, value in noise.items() if isinstance(value, float)]
    words = [" ".join(words[:2]), *words[2:]] + (["symmetric"] if noise.get("symmetric") else [])
    rates = [f"{event.probability:g}" for event, _ in cost.events if isinstance(event, SampledGaussian)]
    words += [f"over samples of users at rate {', '.join(rates)}"] if rates else []
    words += [f"above a threshold that fails with probability {round_up(cost.exposure)}"] if cost.exposure else []
    return ", ".join(words)


_COLUMNS = {"label": "release", "shape": "shape", "sensitivity": "sensitivity", "noise": "noise"}
_COLUMNS |= {"epsilon": "epsilon alone", "share": "share of what was spent"}


def _legend(certificate: Mapping[str, Any]) -> str:
    """An explanation of the columns."""
    if not certificate["releases"]:
        return "Nothing was released through a ledger."
    return (
        "Everything that was computed from people's data and made public, with noise. Shape: how many numbers. "
        "Sensitivity: how far one person can move all of them together. Noise: how far chance moves each. "
        "Epsilon alone: the guarantee if this were the only release."
    )


def _footer(certificate: Mapping[str, Any]) -> str:
    key = certificate.get("signature", {}).get("public_key")
    return f"Digest {certificate['digest']}" + (f", signed with the Ed25519 key {key}" if key else ", not signed")


def _lists(certificate: Mapping[str, Any]) -> dict[str, list[str]]:
    """The parts that are shown as lists, by heading."""
    public = [f"{name}: {why}" for name, why in certificate["public_inputs"].items()] or ["nothing"]
    model, about = certificate["model"], []
    if model is not None:
        params = ", ".join(f"{name}={value!r}" for name, value in model["params"].items())
        about = [f"{model['class']}({params})"]
        about += [f"SHA-256 of {name}: {value}" for name, value in model["sha256"].items()]
    notes = {"Not covered": certificate["not_covered"], "Notes": certificate["notes"]}
    return {"Assumed to be public": public, **notes, "The model": about}


def paid(certificate: Mapping[str, Any]) -> str:
    """A sentence on the ledger's total, so that nobody takes the epsilon of one fit for everything spent."""
    if certificate["ledger"] is None:
        return ""
    spent, budget = certificate["ledger"]["spent"], certificate["ledger"]["budget"]
    total = math.inf if spent["epsilon"] is None else spent["epsilon"]
    if budget:  # the filter proves it, even if the sum of costs is a looser bound
        total = min(total, budget["epsilon"])
    numbers = f"epsilon = {round_up(total)} at delta = {round_up(spent['delta'])}"
    limit = f"of a budget of epsilon = {round_up(budget['epsilon'])}" if budget else "and has no budget"
    void = "" if spent["holds"] else f"; in total, it is NOT PRIVATE: {spent['why_not']}"
    return f"The ledger that paid for this has spent {numbers} in total, including what is set aside, {limit}{void}."


def _sources(certificate: Mapping[str, Any]) -> str:
    names = dict.fromkeys(release["source"] for release in certificate["releases"] if "source" in release)
    return ", ".join(names) or "none drawn by this ledger"


def markdown(certificate: dict[str, Any]) -> str:
    """The certificate as a markdown page. Its texts are escaped, since anyone may have written them."""
    c = certificate

    def line(text: str) -> str:
        return " ".join(text.split()).replace("<", "&lt;")

    def cell(text: str) -> str:
        return line(text).replace(">", "&gt;").replace("|", "\\|")

    table = ["| " + " | ".join(_COLUMNS.values()) + " |", "|---" * len(_COLUMNS) + "|"]
    released = release_rows(c["releases"], c["guarantee"]["delta"])
    table += ["| " + " | ".join(cell(row[column]) for column in _COLUMNS) + " |" for row in released]
    bullets = {name: [f"- {line(text)}" for text in texts] for name, texts in _lists(c).items()}
    sections = {
        "What was released": [_legend(c), "", *table, "", f"Noise: {line(_sources(c))}."],
        "Assumed to be public": bullets.pop("Assumed to be public"),
        "Covered": [c["covered"]],
        **bullets,
    }
    about = [f"# {line(c['title'])}", "", f"**{line(c['sentence'])}**", ""]
    lines = [*about, *([line(paid(c)), ""] if paid(c) else [])]
    for name, content in sections.items():
        lines += [f"## {name}", "", *content, ""] if content else []
    used = ", ".join(f"{name} {number}" for name, number in c["versions"].items())
    return "\n".join([*lines, line(f"Issued {c['issued']} with {used}. {_footer(c)}."), ""])


def deployment(c: Mapping[str, Any], given: Mapping[str, str], url: str, continual: bool) -> dict[str, Any]:
    """The fields of an entry in opendp/deployments-registry-data."""
    guarantee, public = c["guarantee"], [f"{name} ({why})" for name, why in c["public_inputs"].items()]
    noises = dict.fromkeys(release.get("noise", {"kind": "charged elsewhere"})["kind"] for release in c["releases"])
    words = re.findall(r"[a-z0-9]+", f"{given['name']} {given['curator']}".lower())
    return {
        "url_slug": "-".join([*words, given["published"][:4]]),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": given["name"],
                "data_curators": [{"data_curator_name": given["curator"], "data_curator_type": given["curator_type"]}],
                "intended_use": given["intended_use"],
                "data_product_type": "Machine learning model" if c["model"] else "Summary statistics",
                "data_product_region": given["region"],
                "description": given["description"],
                "publication_date": given["published"],
                "data_product_sector": given["sector"],
            },
            "dp_variant": {
                "variant_name": "Approximate DP" if guarantee["delta"] else "Pure DP",
                "data_domain": given["data_domain"],
                "unprotected_quantities": "; ".join(public) or "none",
            },
            "privacy_loss": {
                "privacy_unit": f"{guarantee['unit'].capitalize()}-level",
                "privacy_unit_details": c["sentence"],
                "privacy_parameters": {"epsilon": guarantee["epsilon"], "delta": guarantee["delta"]},
            },
            "deployment_model": {
                "model_name": "Central",
                "release_type": "Many releases" if continual else "One release",
                "data_source_type": "Dynamic" if continual else "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": c["covered"],
                "composition": " ".join(["Adaptive composition of all releases.", *c["notes"]]),
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": given["tuning"],
                "mechanisms": f"{', '.join(noises) or 'none'}; integers on a grid and exact samplers, by discreet "
                f"{c['versions']['discreet']}. Certificate {c['digest']}.",
                "justification": given["justification"],
            },
            "administrative": {"sources": url or "none", "registry_authors": [given["author"]]},
        },
    }


def ledger_table(events: Sequence[Entry], delta: float) -> list[str]:
    """The lines of a table of what a ledger has released, at what cost."""
    if not events:
        return ["Nothing has been released."]
    rows = release_rows([event.body for event in events], delta)
    # Nothing is cut: a column is as wide as its longest text.
    label, noise = (max(30, *(len(row[column]) for row in rows)) + 2 for column in ("label", "noise"))
    lines = [f"{'#':>4}  {'released':<{label}}{'shape':>12}{'sensitivity':>13}  {'noise':<{noise}}{'mu':>10}"]
    for row, event in zip(rows, events, strict=True):
        mu = "-" if event.cost.mu is None else f"{event.cost.mu:.4g}"
        columns = f"{row['label']:<{label}}{row['shape']:>12}{row['sensitivity']:>13}  {row['noise']:<{noise}}{mu:>10}"
        lines.append(f"{event.seq:>4}  {columns}")
    return [*lines, ""]


def page(certificate: dict[str, Any]) -> str:
    """A certificate as a self-contained HTML page."""
    return document(certificate["title"], article(certificate))


def document(title: str, content: str, css: str = "") -> str:
    """A self-contained HTML page in the style of certificates, and more style sheets."""
    title = html.escape(title)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{CSS}{css}</style><main><h1>{title}</h1>{content}</main></html>"
    )


def article(certificate: dict[str, Any]) -> str:
    """The page below its title, for use in other pages; it needs the style sheet `CSS`."""
    c, text = certificate, html.escape
    cells = "".join(
        "<tr>"
        + "".join(f"<td>{text(row[column])}" for column in _COLUMNS if column != "share")
        + f'<td><svg width="120" height="14" role="img" aria-label="{row["share"]}">'
        + f'<rect width="{120 * row["part"]:.1f}" height="14" rx="2"/></svg> {row["share"]}</tr>'
        for row in release_rows(c["releases"], c["guarantee"]["delta"])
    )
    heads = "".join(f"<th>{head}" for head in _COLUMNS.values())
    bullets = "".join(
        f"<h2>{name}</h2><ul>{''.join(f'<li>{text(line)}</li>' for line in lines)}</ul>"
        for name, lines in _lists(c).items()
        if lines
    )
    state = "holds" if c["guarantee"]["holds"] else "void"
    total = f"<p>{text(paid(c))}</p>" if paid(c) else ""
    return (
        f'<p class="{state}">{text(c["sentence"])}</p>{total}<h2>What was released</h2><p>{_legend(c)}</p>'
        f'<div class="wide"><table><tr>{heads}</tr>{cells}</table></div>'
        f"<p>Noise: {text(_sources(c))}.</p><h2>Covered</h2><p>{text(c['covered'])}</p>{bullets}"
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
