"""What releases reveal, in words."""

from inspect import signature
from itertools import product
from typing import Any

import pytest

from discreet.models import registry
from discreet.models.als import contributions
from discreet.web.releases import WORDS, in_words

CHOICES: dict[str, tuple[Any, ...]] = {
    "mechanism": ("input", "objective", "gradient", "output"),
    "objective": ("ratings", "lists", "both"),
    "n_users_hint": (10_000,),
}


def plans(name: str) -> list[Any]:
    """Plans of a model for a small and a large catalog, with each choice of those of its parameters."""
    made = registry.find(name)
    takes = signature(made).parameters
    given = {name: value for name, value in {"epsilon": 1.0, "delta": 1e-6}.items() if name in takes}
    some = {name: values for name, values in CHOICES.items() if name in takes}
    found = []
    for values in product(*some.values()):
        chosen = dict(zip(some, values, strict=True))
        if chosen.get("objective") == {"DPALS": "lists", "DPSVD": "both"}.get(name, ""):
            continue
        found += [made(**given, **chosen).plan(n_items) for n_items in (100, 1000)]
    return found


@pytest.mark.parametrize("name", ["DPALS", "DPSVD", "DPFrankWolfe", "DPGradientDescent", "DPCleansedSVD", "OneBit"])
def test_visitors_are_told_in_words_what_each_line_of_a_plan_reveals(name: str) -> None:
    labels = {line.label for plan in plans(name) for line in plan.lines}
    assert labels
    assert {label for label in labels if in_words(label) not in WORDS.values()} == set()


def test_statistics_that_take_the_lines_of_others_have_words() -> None:
    assert {contributions.PAIRS, contributions.RESIDUALS} <= set(WORDS)


def test_an_unknown_label_stands_for_itself_without_its_number() -> None:
    assert in_words("something new 2 of 7") == "something new"
