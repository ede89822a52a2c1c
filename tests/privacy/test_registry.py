"""An entry for the public registry of deployments."""

import math
from dataclasses import replace
from typing import Any

import pytest
import yaml

import discreet
from discreet import Ledger
from discreet.errors import PrivacyError
from discreet.privacy import Gaussian, Laplace

OWNER: dict[str, Any] = {
    "author": "A. Author",
    "name": "Film evening",
    "curator": "Example: a club",
    "intended_use": 'Recommending films; "fun"',
    "description": "Item vectors",
    "published": "2026-11-18",
    "data_domain": "Members, 2026",
    "tuning": "None",
    "justification": "Epsilon 1 is what the members were promised.",
}


def statement(noise: Any = None, **settings: float) -> discreet.Statement:
    ledger = Ledger(**settings)
    ledger.release(0, sensitivity=1, noise=noise or Gaussian(10.0), label="a")
    return ledger.statement(public_inputs={"items": "a printed list"})


def test_it_has_what_the_schema_asks_for() -> None:
    made = statement(epsilon=1, delta=1e-6)
    entry = yaml.safe_load(made.registry(**OWNER, url="https://example.org"))
    assert set(entry) == {"approved", "registry_author", "deployment"}
    assert entry["approved"] is False
    found = entry["deployment"]
    first = {"short_name", "data_curator", "intended_use", "data_product_type", "data_product_description"}
    first |= {"publication_date", "additional_information_url"}
    later = {"dp_flavor", "privacy_loss", "model", "additional_dp_information", "implementation"}
    assert set(found) == first | later
    assert found["intended_use"] == OWNER["intended_use"]
    assert found["data_product_type"] == "summary statistics"
    assert found["dp_flavor"]["name"] == "Approximate DP"
    assert found["dp_flavor"]["unprotected_quantities"] == "items (a printed list)"
    parameters = {"epsilon": made.guarantee.epsilon, "delta": made.guarantee.delta}
    stated = {name: float(value) for name, value in found["privacy_loss"]["privacy_parameters"].items()}
    assert stated == parameters
    assert found["model"]["release_type"] == "One-shot"
    assert "gaussian" in found["implementation"]["mechanisms"].lower()


def test_pure_models_and_continual_releases() -> None:
    made = statement(Laplace(1.0), epsilon=1, delta=0)
    model = made.of_model({"class": "A", "params": {}, "sha256": {}})
    found = yaml.safe_load(replace(model).registry(**OWNER, continual=True))["deployment"]
    assert found["dp_flavor"]["name"] == "Pure DP"
    assert found["data_product_type"] == "machine learning model"
    assert found["model"]["release_type"] == "Continual"
    assert "additional_information_url" not in found
    assert math.isclose(found["privacy_loss"]["privacy_parameters"]["epsilon"], 1)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"tuning": " ", "curator": ""}, "say something about curator, tuning"),
        ({"published": "yesterday"}, "published must be a date"),
    ],
)
def test_what_only_the_owner_knows_is_asked_for(changed: dict[str, str], says: str) -> None:
    with pytest.raises(PrivacyError, match=says):
        statement(epsilon=1, delta=1e-6).registry(**{**OWNER, **changed})


def test_nothing_is_published_of_a_guarantee_that_does_not_hold() -> None:
    with pytest.raises(PrivacyError, match="no guarantee to publish: it was a drill"):
        statement(epsilon=1, delta=1e-6).void("it was a drill").registry(**OWNER)
