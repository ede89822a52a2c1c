"""Training, validation and test parts of a table: `discreet.data.splits` under its short name."""

from discreet.data.splits import *  # noqa: F403
from discreet.data.splits import __all__  # noqa: F401
