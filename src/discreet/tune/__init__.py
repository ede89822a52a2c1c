"""Hyper-parameters: by a rule that costs nothing, by a private search that is paid for, or by an owner's own search.

`public_defaults` says what `DPALS` does unless told otherwise, from public inputs alone. `search` chooses privately;
`preview` says beforehand what that leaves a trial. `owner_search` looks at exact numbers, with Optuna, and its model
says that this is not covered. docs/guide/tuning.md.
"""

from discreet.tune.calibration import Trial
from discreet.tune.defaults import Defaults, public_defaults
from discreet.tune.owner import owner_search
from discreet.tune.private import Found, preview, search

__all__ = ["Defaults", "Found", "Trial", "owner_search", "preview", "public_defaults", "search"]
