"""Hyper-parameters: by a rule that costs nothing, by a private search that is paid for, or by the owner's own search.

`public_defaults` shows the defaults of `DPALS`, which follow from public inputs alone. `search` chooses privately, and
`preview` says beforehand what each of its trials may spend. `owner_search` looks at exact numbers, with Optuna, and its
model says that no guarantee covers the choice. docs/guide/tuning.md.
"""

from discreet.tune.no_budget import Defaults, owner_search, public_defaults
from discreet.tune.private import Found, Trial, preview, search

__all__ = ["Defaults", "Found", "Trial", "owner_search", "preview", "public_defaults", "search"]
