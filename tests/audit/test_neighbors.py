"""Synthetic data for audits."""

import numpy as np

from discreet.audit.neighbors import extremes, ordinary


def test_extreme_people_are_within_the_range_or_dropped() -> None:
    crowd = ordinary(40)
    people = extremes(crowd)
    everyone = ordinary(40, *((f"x{i}", row) for i, row in enumerate(people.values())))
    assert everyone.n_users == 100 + len(people)
    assert np.isfinite(everyone.values).all()
    assert everyone.values.max() <= 5
    counts = np.bincount(crowd.indices, minlength=40)
    assert counts[list(dict(people["has rare items only"]))].max() <= np.sort(counts)[4]
