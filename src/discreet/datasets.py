"""The data sets of the papers, and generated ones: `discreet.data.datasets` under its short name."""

from discreet.data.datasets import *  # noqa: F403
from discreet.data.datasets import __all__  # noqa: F401
