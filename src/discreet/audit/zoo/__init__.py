"""The zoo: the library itself, broken in every way that is known to have happened, and which check notices.

Each mutant is a small change of the real code. An audit that misses one is blind to that error; an audit that calls a
correct model broken raises a false alarm. `discreet.audit.run(zoo=True)` tries all of them.
"""

from discreet.audit.zoo import bounds, leaks, noise, papers
from discreet.audit.zoo.mutant import Caught, Mutant

__all__ = ["MUTANTS", "Caught", "Mutant"]

MUTANTS = [one for module in (noise, bounds, leaks, papers) for one in vars(module).values() if isinstance(one, Mutant)]
