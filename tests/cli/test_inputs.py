"""Options that several commands share."""

import pytest

import discreet
from discreet.cli import inputs


def test_parameters_are_numbers_words_and_lists() -> None:
    settings = ["rank=7", "regularization=3", "biases=false", "random_state=none", "dtype=float64", "n_jobs=2"]
    made = inputs.make(discreet.ALS, settings, None, None).get_params()
    assert [made[name.partition("=")[0]] for name in settings] == [7, 3.0, False, None, "float64", 2]


def test_lists_and_choices() -> None:
    settings = ["n_steps=none", "features=genres, year", "adjacency=replace"]
    made = inputs.make(discreet.DPALS, settings, 1.0, 1e-6).get_params()
    assert (made["n_steps"], made["features"], made["adjacency"]) == (None, ["genres", "year"], "replace")
    with pytest.raises(inputs.Misuse, match=r"adjacency: .* not for 'swap'"):
        inputs.make(discreet.DPALS, ["adjacency=swap"], 1.0, 1e-6)
