"""The JavaScript client in a real Chromium gives what Python gives, to 1e-5."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import discreet
from discreet.models.base import Model
from discreet.recommend import Recommendations
from discreet.web import export
from discreet.web.releases import WORDS
from discreet.web.scoring import Scoring, made_up
from tests.web.conftest import seeded
from tests.web.hosting import hosted

TOLERANCE = 1e-5
PRIVATE: dict[str, Any] = {"epsilon": 50.0, "delta": 1e-6}

MODELS: dict[str, tuple[bool, Callable[[], Any]]] = {  # whether it is for implicit feedback, and the model
    "DPALS": (False, lambda: discreet.DPALS(**PRIVATE, n_users_hint=600)),
    "DPALS, both": (False, lambda: discreet.DPALS(**PRIVATE, objective="both")),
    "DPALS, cautious": (False, lambda: discreet.DPALS(**PRIVATE, caution=0.7)),
    "ALS": (False, lambda: discreet.ALS(rank=6, n_steps=5, dtype="float64")),
    "ALS, given penalties": (False, lambda: discreet.ALS(rank=6, n_steps=5, dtype="float64", user_exponent=0.7)),
    "ALS, implicit": (True, lambda: discreet.ALS(rank=6, n_steps=5, dtype="float64")),
    "DPSVD": (False, lambda: discreet.DPSVD(**PRIVATE)),
    "DPSVD, lists": (False, lambda: discreet.DPSVD(**PRIVATE, objective="lists")),
    "DPPopularity": (True, lambda: discreet.DPPopularity(**PRIVATE)),
    "DPMeanRating": (False, lambda: discreet.DPMeanRating(**PRIVATE)),
    "DPSVD, implicit": (True, lambda: discreet.DPSVD(**PRIVATE, explore=0.1)),
    "DPSVD as published": (False, lambda: discreet.DPSVD.as_published(**PRIVATE, rank=4)),
    "DPCleansedSVD": (False, lambda: discreet.DPCleansedSVD(**PRIVATE)),
    "DPCleansedSVD, neighbours": (False, lambda: discreet.DPCleansedSVD(**PRIVATE, predictor="knn")),
    "DPALS as published": (False, lambda: discreet.DPALS.as_published(**PRIVATE, rank=4)),
    "DPALS as published, implicit": (
        True,
        lambda: discreet.DPALS.as_published(**PRIVATE, rank=4, center=False, global_penalty=0.1),
    ),
    "DPFrankWolfe, logistic": (False, lambda: discreet.DPFrankWolfe(**PRIVATE, n_steps=4, loss="logistic")),
    "FrankWolfe": (False, lambda: discreet.FrankWolfe(n_steps=6)),
    "FrankWolfe, constant steps": (False, lambda: discreet.DPFrankWolfe(**PRIVATE, n_steps=6, step="constant")),
    "FrankWolfe, constant steps, logistic": (
        False,
        lambda: discreet.DPFrankWolfe(**PRIVATE, n_steps=6, step="constant", loss="logistic"),
    ),
    "DPGradientDescent": (False, lambda: discreet.DPGradientDescent(**PRIVATE)),
    "GradientDescent, one step": (False, lambda: discreet.GradientDescent(n_steps=1)),
    "OneBit": (False, lambda: discreet.OneBit(mechanism=None, threshold=4)),
    "OneBit, probit": (False, lambda: discreet.OneBit(mechanism=None, threshold=4, link="probit")),
    "MeanRating": (False, lambda: discreet.MeanRating("both")),
    "Popularity": (True, discreet.Popularity),
}

RUN = """async ({histories, liked, item}) => {
    const { Model } = await import("/client/discreet.js");
    const model = await Model.load("/model/");
    return {
        scores: histories.map((history) => [...model.scores(history)]),
        vector: [...model.foldIn(histories[0]).vector],
        recommended: histories.map((history) => model.recommend(history, {n: 5})),
        filtered: model.recommend(new Map(histories[0]), {n: 80, excludeSeen: false, allow: model.ids.slice(0, 9), deny: [model.ids[2]]}),
        liked: model.recommend(liked, {n: 5}),
        cold: model.recommend({}, {n: 5}),
        predicted: model.predict(histories[0], model.ids.slice(0, 9)),
        explained: model.explain(histories[0], item),
        similar: model.similarItems(item, 5),
    };
}"""  # noqa: E501


@pytest.fixture(scope="module")
def page(browser: Any) -> Any:
    return browser.new_page()


def in_browser(page: Any, model: Model, precision: str, asked: dict[str, Any]) -> Any:
    with hosted(export(model, precision=precision, not_private=True).files) as url:
        page.goto(url + "icon.svg")  # any page of that host
        return page.evaluate(RUN, asked)


@pytest.fixture(scope="module")
def fitted(ratings: discreet.Interactions) -> Callable[[str], Model]:
    def fit(name: str) -> Model:
        implicit, make = MODELS[name]
        data, model = ratings.to_implicit() if implicit else ratings, make()
        private = getattr(model, "epsilon", None) is not None
        found: Model = model.fit(data, ledger=seeded()) if private else model.fit(data)
        return found

    return fit


@pytest.mark.parametrize("name", MODELS)
def test_parity(name: str, fitted: Callable[[str], Model], page: Any) -> None:
    model = fitted(name)
    assert np.any(model.item_factors_) or "Popularity" in name or "MeanRating" in name
    people = made_up(model, 4, seed=5)
    item = model.items_[int(np.argmax(np.abs(model.item_factors_).sum(axis=1)))]  # one that has a vector, if any has
    histories = [
        [[item, value] for item, value in zip(model.items_.take(row).to_pylist(), values.tolist(), strict=True)]
        for row, values in zip(
            np.split(people.indices, people.indptr[1:-1]), np.split(people.values, people.indptr[1:-1]), strict=True
        )
    ]
    liked = [item for item, _ in histories[1]]
    asked = {"histories": histories, "liked": liked, "item": item}
    told = {release["tells"] for release in export(model, not_private=True).manifest["privacy"]["releases"]}
    assert told <= set(WORDS.values())  # no name that only models use
    assert in_browser(page, model, "int8", asked)  # raises where scores are not those that came with the model
    found = in_browser(page, model, "float32", asked)
    np.testing.assert_allclose(found["scores"], Scoring.of(model).scores(people), atol=TOLERANCE, rtol=TOLERANCE)
    first = dict(map(tuple, histories[0]))
    np.testing.assert_allclose(found["vector"], model.embed(first), atol=TOLERANCE, rtol=TOLERANCE)
    for history, own in zip(histories, found["recommended"], strict=True):
        same(own, model.recommend(dict(map(tuple, history)), n=5))
    ids = list(model.items_)
    same(found["filtered"], model.recommend(first, n=80, exclude_seen=False, allow=ids[:9], deny=[ids[2]]))
    same(found["liked"], model.recommend(liked, n=5))
    same(found["cold"], model.recommend({}, n=5))
    np.testing.assert_allclose(found["predicted"], model.predict(first, ids[:9]), atol=TOLERANCE, rtol=TOLERANCE)
    same(found["similar"], model.similar_items(item, 5))
    why, wanted = found["explained"], model.explain(first, item)
    assert why["score"] == pytest.approx(wanted.score, abs=TOLERANCE)
    assert why["baseline"] == pytest.approx(wanted.baseline, abs=TOLERANCE)
    adds = dict(zip(wanted.items, wanted.contributions.tolist(), strict=True))
    assert {part["item"]: part["adds"] for part in why["contributions"]} == pytest.approx(adds, abs=TOLERANCE)


def same(found: list[dict[str, Any]], wanted: Recommendations) -> None:
    """The same scores in the same order, of the same items where scores are not equal."""
    scores = wanted.scores.astype(float)
    np.testing.assert_allclose([row["score"] for row in found], scores, atol=TOLERANCE, rtol=TOLERANCE)
    gaps = np.abs(np.diff(scores, prepend=np.inf, append=-np.inf)) > 10 * TOLERANCE
    for row, item, clear in zip(found, wanted.items, gaps[:-1] & gaps[1:], strict=True):
        assert row["item"] == item or not clear
        assert row["title"] == f"Film {row['item']}"


@pytest.mark.parametrize("precision", ["float16", "int8"])
def test_parity_of_what_was_stored(precision: str, films: Model, page: Any) -> None:
    """The browser computes with the stored numbers what Python computes with them."""
    people = made_up(films, 2, seed=6)
    histories = [
        [[int(films.items_[int(number)]), float(value)] for number, value in zip(row.indices, row.values, strict=True)]
        for row in (people.of_users([0]), people.of_users([1]))
    ]
    asked = {"histories": histories, "liked": [], "item": films.items_[0]}
    found = np.array(in_browser(page, films, precision, asked)["scores"])
    exact = Scoring.of(films).scores(people)
    loss = export(films, precision=precision, not_private=True).loss
    assert 1e-6 < np.abs(found - exact).max() < 4 * loss["largest"]


CHECKS = """async (histories) => {
    const { Model, HistoryError } = await import("/client/discreet.js");
    const model = await Model.load("/model");
    return histories.map((history) => {
        try { model.recommend(history); return null; }
        catch (error) { return [error instanceof HistoryError, error.message]; }
    });
}"""


def test_histories_that_cannot_be_read(films: Model, page: Any) -> None:
    wrong: list[Any] = [{"no such": 3}, {"1": 9}, {"1": "5"}, {"1": None}, ["no such"]]
    with hosted(export(films, not_private=True).files) as url:
        page.goto(url + "icon.svg")
        found = page.evaluate(CHECKS, [*wrong, {"1": 3}])
    assert [bool(entry and entry[0]) for entry in found] == [True] * len(wrong) + [False]
    assert "no such" in found[0][1]
    assert "0.5 to 5" in found[1][1]


def test_the_example_of_the_guide(films: Model, page: Any) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "browser.md").read_text(encoding="utf-8")
    code = re.findall(r"```js\n(.*?)```", guide, flags=re.S)[0]
    for written, run in (
        ('import { Model } from "./client/discreet.js";', 'const { Model } = await import("/client/discreet.js");'),
        ('"model/"', '"/model/"'),
    ):
        assert written in code
        code = code.replace(written, run)
    with hosted(export(films, not_private=True).files) as url:
        page.goto(url + "icon.svg")
        assert page.evaluate(f"async () => {{ {code}\n return model.ids.length; }}") == 80
