"""The table of what each guarantee relies on: every private model is in it, and the files that compute for it are."""

import importlib
import pkgutil
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import discreet
from discreet.engine import LocalBlocks
from discreet.models.private import PrivateModel
from tests.docs.pages import ROOT

PACKAGE = Path(discreet.__file__).parent
BUDGET: dict[str, Any] = {"epsilon": 5.0, "delta": 1e-6, "n_jobs": 1}


def rows() -> dict[str, list[str]]:
    """Name -> files, one for each name of the table."""
    text = (ROOT / "docs" / "promise.md").read_text(encoding="utf-8").partition("## What each guarantee relies on")[2]
    table = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")][2:]
    found: dict[str, list[str]] = {}
    for what, _, files in table:
        for name in re.findall(r"`([\w.]+)`", what) or [what]:
            found[name] = [file for file in re.findall(r"`([^`]+)`", files) if "/" in file or file in TOP]
    return found


TOP = ("privacy", "data", "kernels", "recommend", "hashing.py", "parallel.py", "validation.py")
ROWS = rows()


def models(kind: type) -> Iterator[type]:
    """All classes with parameters of their own."""
    for one in kind.__subclasses__():
        if one.__module__.startswith("discreet.") and "__init__" in vars(one):
            yield one
        yield from models(one)


def covered(file: str, names: tuple[str, ...]) -> bool:
    return any(file == one or file.startswith(f"{one}/") for name in names for one in ROWS[name])


def test_every_private_model_is_there_with_its_own_file() -> None:
    for module in pkgutil.walk_packages(discreet.models.__path__, "discreet.models."):
        importlib.import_module(module.name)
    private = {*models(PrivateModel), discreet.DPPCA}
    assert len(private) > 10
    for model in private:
        assert model.__name__ in ROWS, f"docs/promise.md does not say what {model.__name__} relies on"
        own = model.__module__.removeprefix("discreet.").replace(".", "/") + ".py"
        assert covered(own, (model.__name__,)), f"{own} is missing in the row of {model.__name__}"
    for name in ("private_regressions", "perturb", "evaluate", "tune.search"):
        assert name in ROWS


@pytest.mark.parametrize("name", ROWS)
def test_its_files_exist(name: str) -> None:
    assert ROWS[name]
    for file in ROWS[name]:
        assert (PACKAGE / file).exists(), f"docs/promise.md names {file}, which is not there"


FITS: dict[str, Callable[[], list[Any]]] = {
    "DPALS": lambda: [discreet.DPALS(**BUDGET)],
    "PublishedDPALS": lambda: [
        discreet.DPALS.as_published(**BUDGET, rank=2),
        discreet.DPALS.as_published(**BUDGET, rank=2, item_step="gradient", start="svd"),
    ],
    "DPSVD": lambda: [discreet.DPSVD(**BUDGET)],
    "DPCleansedSVD": lambda: [discreet.DPCleansedSVD(**BUDGET)],
    "DPPopularity": lambda: [discreet.DPPopularity(**BUDGET)],
    "DPMeanRating": lambda: [discreet.DPMeanRating(**BUDGET)],
    "DPGradientDescent": lambda: [discreet.DPGradientDescent(**BUDGET)],
    "DPSGD": lambda: [discreet.DPSGD(**BUDGET, n_steps=2)],
    "DPFrankWolfe": lambda: [
        discreet.DPFrankWolfe(**BUDGET, n_steps=2),
        discreet.DPFrankWolfe(**BUDGET, n_steps=2, step="constant", eigensolver="oja"),
    ],
    "DPPCA": lambda: [discreet.DPPCA(2, **BUDGET, row_norm=1.0), discreet.DPPCA(2, **BUDGET, row_norm=1, method="oja")],
}


@pytest.mark.parametrize("name", FITS)
def test_whatever_computes_contributions_is_listed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code of the package that runs while users' contributions are added up."""
    seen: set[str] = set()
    add_up = LocalBlocks.add_up

    def note(frame: Any, event: str, given: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(PACKAGE):
            seen.add(path.relative_to(PACKAGE).as_posix())

    def watched(self: Any, *given: Any, **named: Any) -> Any:
        sys.setprofile(note)
        try:
            return add_up(self, *given, **named)
        finally:
            sys.setprofile(None)

    monkeypatch.setattr(LocalBlocks, "add_up", watched)
    ratings = discreet.datasets.movielens_like(80, 20, 900, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what was published wrongly
        for model in FITS[name]():
            model.fit(ratings)
    assert "privacy/statistics.py" in seen
    assert not [file for file in sorted(seen) if not covered(file, (name, "everything"))]
