"""Frank-Wolfe: matrix completion in a nuclear-norm ball, private, as published, and not private."""

from discreet.completion.frank_wolfe.plain import FrankWolfe
from discreet.completion.frank_wolfe.private import DPFrankWolfe
from discreet.completion.frank_wolfe.published import PublishedDPFrankWolfe

__all__ = ["DPFrankWolfe", "FrankWolfe", "PublishedDPFrankWolfe"]
