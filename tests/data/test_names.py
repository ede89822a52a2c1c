"""The short names of modules can be imported as modules."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "line",
    [
        "from discreet.datasets import movielens",
        "import discreet.splits; discreet.splits.holdout",
        "from discreet.splits import Parts; from discreet import splits; assert splits.Parts is Parts",
        "import discreet as d; d.datasets.rank_one; from discreet import datasets; assert datasets is d.datasets",
    ],
)
def test_imports(line: str) -> None:
    subprocess.run([sys.executable, "-c", line], check=True)
