"""The package as a whole: quick to import, no extras, everything public documented."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import discreet
from discreet import errors

HEAVY = (
    "numpy",
    "scipy",
    "pandas",
    "polars",
    "pyarrow",
    "duckdb",
    "dp_accounting",
    "sqlalchemy",
    "torch",
    "pyspark",
    "matplotlib",
    "lenskit",
)


def test_import_loads_nothing_heavy() -> None:
    code = f"import sys, discreet; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_exists_and_is_documented() -> None:
    assert set(discreet.__all__) <= set(dir(discreet))
    for name in discreet.__all__:
        thing = getattr(discreet, name)
        assert inspect.ismodule(thing) or not callable(thing) or inspect.getdoc(thing), name
    for name in discreet.privacy.__all__:
        assert inspect.getdoc(getattr(discreet.privacy, name)), name
    assert all(vars(kind).get("__doc__") for kind in vars(errors).values() if isinstance(kind, type))


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        discreet.nonsense  # noqa: B018


def test_a_missing_extra_is_named() -> None:
    error = errors.MissingExtra("a plot", "plot")
    assert error.extra == "plot"
    assert "pip install 'discreet[plot]'" in str(error)
    assert isinstance(error, ImportError)


TRUSTED = {"GridArray", "truncate", "Reservation", "Stream", "bernoulli"}  # what a sensitivity, or a secret, is made of


def test_sensitivities_and_secret_randomness_are_made_in_the_trust_base_alone() -> None:
    """Models name a statistic and its bounds: none puts numbers on a grid, releases by itself, or draws keys."""
    package = Path(discreet.__file__).parent
    for path in sorted(package.rglob("*.py")):
        place = path.relative_to(package).as_posix()
        if place.startswith(("privacy/", "audit/")) or place == "cli/doctor.py":  # which tests the noise itself
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {a.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for a in node.names}
        assert not imported & TRUSTED, f"{place} imports {imported & TRUSTED}"
        called = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not called & {"fresh_key", "release_sampled"} or place == "models/gradient/model.py", place


@pytest.mark.parametrize(
    "line",
    [
        "from discreet.datasets import movielens",
        "import discreet.splits; discreet.splits.holdout",
        "from discreet.splits import Parts; from discreet import splits; assert splits.Parts is Parts",
        "import discreet as d; d.datasets.rank_one; from discreet import datasets; assert datasets is d.datasets",
    ],
)
def test_short_names_of_modules_can_be_imported(line: str) -> None:
    subprocess.run([sys.executable, "-c", line], check=True)


def test_every_benchmark_fits_the_package() -> None:
    """As far as imports go; those that need a library or a GPU that is not here stop there."""
    code = """
import importlib, pathlib, sys
for name in sorted(path.stem for path in pathlib.Path().glob("*.py")):
    try:
        importlib.import_module(name)
    except (ModuleNotFoundError, SystemExit) as error:
        if "discreet" in str(error):
            raise
"""
    folder = Path(__file__).parents[1] / "benchmarks"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
