"""Tables of interactions: reading, splits, generators, data sets."""

from discreet.data.catalogue import Catalogue, observed_items_are_public
from discreet.data.interactions import Interactions
from discreet.data.readers import read

__all__ = ["Catalogue", "Interactions", "observed_items_are_public", "read"]
