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
    "curator_type": "Nonprofit",
    "region": "Global",
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


def test_it_has_what_the_registry_asks_for() -> None:
    made = statement(epsilon=1, delta=1e-6)
    entry = yaml.safe_load(made.registry(**OWNER, url="https://example.org"))
    assert set(entry) == {"url_slug", "status", "tier", "deployment"}
    assert (entry["url_slug"], entry["status"]) == ("film-evening-example-a-club-2026", "Draft")
    found = entry["deployment"]
    later = {"dp_variant", "privacy_loss", "deployment_model", "accounting", "implementation"}
    assert set(found) == {"basic", "administrative", *later}
    assert found["basic"]["intended_use"] == OWNER["intended_use"]
    assert found["basic"]["data_product_type"] == "Summary statistics"
    assert found["basic"]["data_curators"] == [
        {"data_curator_name": "Example: a club", "data_curator_type": "Nonprofit"}
    ]
    assert found["dp_variant"]["variant_name"] == "Approximate DP"
    assert found["dp_variant"]["unprotected_quantities"] == "items (a printed list)"
    assert found["privacy_loss"]["privacy_unit"] == "User-level"
    parameters = {"epsilon": made.guarantee.epsilon, "delta": made.guarantee.delta}
    stated = {name: float(value) for name, value in found["privacy_loss"]["privacy_parameters"].items()}
    assert stated == parameters
    assert found["deployment_model"]["release_type"] == "One release"
    assert found["administrative"] == {"sources": "https://example.org", "registry_authors": ["A. Author"]}
    assert "gaussian" in found["implementation"]["mechanisms"].lower()


def test_pure_models_and_continual_releases() -> None:
    made = statement(Laplace(1.0), epsilon=1, delta=0)
    model = made.of_model({"class": "A", "params": {}, "sha256": {}})
    found = yaml.safe_load(replace(model).registry(**OWNER, continual=True))["deployment"]
    assert found["dp_variant"]["variant_name"] == "Pure DP"
    assert found["basic"]["data_product_type"] == "Machine learning model"
    assert found["deployment_model"]["release_type"] == "Many releases"
    assert found["deployment_model"]["data_source_type"] == "Dynamic"
    assert found["administrative"]["sources"] == "none"
    assert math.isclose(found["privacy_loss"]["privacy_parameters"]["epsilon"], 1)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"tuning": " ", "curator": ""}, "registry: curator, tuning must not be empty"),
        ({"published": "yesterday"}, "published: a date such as"),
    ],
)
def test_what_only_the_owner_knows_is_asked_for(changed: dict[str, str], says: str) -> None:
    with pytest.raises(PrivacyError, match=says):
        statement(epsilon=1, delta=1e-6).registry(**{**OWNER, **changed})


def test_nothing_is_published_of_a_guarantee_that_does_not_hold() -> None:
    with pytest.raises(PrivacyError, match="no guarantee to publish: it was a drill"):
        statement(epsilon=1, delta=1e-6).void("it was a drill").registry(**OWNER)
