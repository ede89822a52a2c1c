"""Frank-Wolfe: matrix completion in a nuclear-norm ball, private, as published, and not private."""

from discreet.models.frank_wolfe.model import DPFrankWolfe, FrankWolfe
from discreet.models.frank_wolfe.published import PublishedDPFrankWolfe

__all__ = ["DPFrankWolfe", "FrankWolfe", "PublishedDPFrankWolfe"]
