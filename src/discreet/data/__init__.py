"""Tables of who liked what: reading, splits, generators, data sets."""
