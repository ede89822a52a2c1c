"""Options that several commands share."""

import pytest

import discreet
from discreet.cli import inputs


def test_parameters_have_the_types_of_the_constructor() -> None:
    settings = ["rank=7", "regularization=3", "biases=false", "random_state=none", "dtype=float64", "n_jobs=2"]
    made = inputs.make(discreet.ALS, settings, None, None).get_params()
    assert [made[name.partition("=")[0]] for name in settings] == [7, 3.0, False, None, "float64", 2]
    assert type(made["regularization"]) is float


def test_parameters_of_other_types() -> None:
    settings = ["n_steps=none", "features=genres, year", "adjacency=replace"]
    made = inputs.make(discreet.DPALS, settings, 1.0, 1e-6).get_params()
    assert (made["n_steps"], made["features"], made["adjacency"]) == (None, ["genres", "year"], "replace")
    with pytest.raises(inputs.Misuse, match="adjacency needs add-remove or replace or flip, not 'swap'"):
        inputs.make(discreet.DPALS, ["adjacency=swap"], 1.0, 1e-6)


class Odd(discreet.Popularity):
    """A model of a user's own may have parameters of every kind."""

    def __init__(
        self, *, pair: tuple[float, float] = (0.0, 1.0), words: list[str] | None = None, any_one=None, n_jobs: int = 1
    ) -> None:
        self.pair, self.words, self.any_one, self.n_jobs = pair, words, any_one, n_jobs


def test_parameters_of_other_models() -> None:
    made = inputs.make(Odd, ["pair=(1, 2.5)", "words=a, b", 'any_one={"a": 1}'], None, None)
    assert (made.pair, made.words, made.any_one) == ((1.0, 2.5), ["a", "b"], {"a": 1})  # type: ignore[attr-defined]
    assert inputs.make(Odd, ["any_one=text"], None, None).any_one == "text"  # type: ignore[attr-defined]
    with pytest.raises(inputs.Misuse, match="a list"):
        inputs.make(Odd, ["pair=a,b"], None, None)
