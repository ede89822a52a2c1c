"""Files that many tests write, and what must hold for every table."""

from pathlib import Path

import numpy as np

import discreet

HEADER = "user,item,rating\n"
SWALLOWED = HEADER + 'evil,"\nann,x,5\nbob,y,4\n",3\n'  # one person's quotes around other people's lines


def written(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def check_sound(ratings: discreet.Interactions) -> None:
    """What every model may rely on."""
    assert ratings.indptr[0] == 0
    assert ratings.indptr[-1] == len(ratings) == len(ratings.values)
    assert (np.diff(ratings.indptr) >= 0).all()
    assert np.isfinite(ratings.values).all()
    if ratings.value_range is not None:
        assert (ratings.values >= ratings.value_range[0]).all()
        assert (ratings.values <= ratings.value_range[1]).all()
    for user in range(ratings.n_users):
        items = ratings.indices[ratings.indptr[user] : ratings.indptr[user + 1]]
        assert (np.diff(items.astype(np.int64)) > 0).all()  # increasing, none twice
    assert ratings.n_items == 0 or not len(ratings) or ratings.indices.max() < ratings.n_items
