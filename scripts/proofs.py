"""Tell whether the code that a proof speaks about has changed since the page was stamped.

Each page of docs/proofs ends with the code it is about and a fingerprint of it, which does not depend on comments,
docstrings, layout or the version of Python. A test fails when they differ. Read the page against the code, correct it,
and stamp it:

    python scripts/proofs.py                            # which pages have to be read again
    python scripts/proofs.py --stamp dpals grid         # these have been read; without names: all that changed
"""

import ast
import hashlib
import io
import re
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "discreet"
PAGES = sorted(path for path in (ROOT / "docs" / "proofs").glob("*.md") if path.name != "README.md")
STAMP = re.compile(r"^## Code\n\n(?P<names>.*?)\n\nFingerprint of this code: `(?P<stamp>\w*)`\.", flags=re.S | re.M)


def _without_prose(source: str) -> str:
    """Python without comments, docstrings and layout: the same text for every version of Python."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(source)):
        first = (
            next(iter(getattr(node, "body", None) or ()), None)
            if not isinstance(node, ast.Lambda | ast.IfExp)
            else None
        )
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            assert first.end_lineno is not None
            lines[first.lineno - 1 : first.end_lineno] = [""] * (first.end_lineno - first.lineno + 1)
    return "".join("".join(lines).split())


def _named(module: str, name: str) -> str:
    """The source of a class, function or method, or of a whole file."""
    source = (SOURCE / module).read_text(encoding="utf-8")
    if not module.endswith(".py"):
        return " ".join(re.sub(r"/\*.*?\*/|//[^\n]*", "", source, flags=re.S).split())
    node: ast.AST = ast.parse(source)
    for part in filter(None, name.split(".")):
        node = next(child for child in getattr(node, "body", ()) if getattr(child, "name", None) == part)
    if name:
        lines = source.splitlines(keepends=True)[node.lineno - 1 : node.end_lineno]  # type: ignore[attr-defined]
        indent = len(lines[0]) - len(lines[0].lstrip())
        source = "".join(line[indent:] if not line[:indent].strip() else line for line in lines)
    return _without_prose(source)


def fingerprint(text: str) -> str:
    """Of the code that a page names now."""
    found = STAMP.search(text)
    if found is None:
        raise ValueError("the page does not end with its code and a fingerprint")
    names = re.findall(r"`([\w/.]+)(?::([\w.]+))?`", found["names"])
    return hashlib.sha256("\n".join(_named(*name) for name in names).encode()).hexdigest()[:16]


def stale(path: Path) -> bool:
    """Whether code that the page names has changed since its stamp."""
    text = path.read_text(encoding="utf-8")
    now = fingerprint(text)
    found = STAMP.search(text)
    return found is None or found["stamp"] != now


def main(words: list[str]) -> int:
    """Say which pages are stale, or stamp pages."""
    stamping, names = "--stamp" in words, [word for word in words if word != "--stamp"]
    late = [path for path in PAGES if stale(path) and (not names or path.stem in names)]
    for path in late:
        if stamping:
            text = path.read_text(encoding="utf-8")
            found = STAMP.search(text)
            assert found is not None
            path.write_text(f"{text[: found.start('stamp')]}{fingerprint(text)}{text[found.end('stamp') :]}", "utf-8")
        sys.stdout.write(f"docs/proofs/{path.name}: {'stamped' if stamping else 'read it against its code again'}\n")
    return 0 if stamping else len(late)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
