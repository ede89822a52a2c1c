"""What `discreet export` writes: the description, the arrays, the loss; and what it refuses."""

import hashlib
import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import discreet
from discreet.data.catalogue import Catalogue
from discreet.errors import DataError, ModelError, PrivacyError
from discreet.models.base import Model
from discreet.models.fold_in import FoldIn
from discreet.testing import InsecureSeededNoise
from discreet.web.site import Site, checked_curve, export, map_positions


def site_of(model: Model, **options: Any) -> Site:
    return export(model, not_private=True, **options)


def test_files_and_their_digests(films: Model) -> None:
    site = site_of(films, title="Film evening")
    about = json.loads(site.files["model/model.json"])
    assert about == site.manifest
    assert (about["title"], about["items"], about["model"]) == ("Film evening", 80, "DPALS")
    for name, entry in about["files"].items():
        assert entry == {"sha256": hashlib.sha256(site.files[name]).hexdigest(), "size": len(site.files[name])}
    items = json.loads(site.files["model/items.json"])
    assert items["ids"] == list(films.items_)
    assert items["titles"][0] == "Film 1"
    assert list(items["columns"]) == ["genres"]
    assert json.loads(site.files["model/certificate.json"]) == films.statement().certificate
    every = {path.name for path in (resources.files("discreet.web") / "static").iterdir() if path.is_file()}
    assert every <= set(site.files)
    client = ("discreet.js", "scoring.js", "ridge.js", "linear.js", "replay.js", "package.json", "README.md")
    assert {f"client/{name}" for name in client} <= set(site.files)


def test_lists_and_ratings_are_described_apart(two_heads: Model, films: Model) -> None:
    site = site_of(two_heads, precision="int8")
    about, lists, ratings = site.manifest, two_heads._ranking.columns, two_heads._fold_in.columns
    assert (about["scoring"]["fold_in"]["kind"], about["scoring"]["ratings"]["kind"]) == ("linear", "ridge")
    assert about["scoring"]["fold_in"]["grading"] == two_heads._ranking.describe()[0]["grading"]
    arrays = about["arrays"]
    assert arrays["columns"]["shape"] == list(lists.shape) == [80, about["rank"]]
    assert arrays["ratings.columns"]["shape"] == list(ratings.shape)
    assert arrays["ratings.columns"]["dtype"] == arrays["columns"]["dtype"] == "int8"
    assert arrays["loadings"]["offset"] == arrays["columns"]["offset"]  # the same numbers, once
    assert {len(vector["predictions"]) for vector in about["check"]} == {8}
    single = site_of(films).manifest
    assert single["scoring"]["ratings"] is None
    assert not [name for name in single["arrays"] if name.startswith("ratings.")]


def test_nothing_about_users_is_written(films: Model) -> None:
    about = site_of(films).manifest
    assert all(entry["shape"][0] in (80, films.item_factors_.shape[1]) for entry in about["arrays"].values())


def test_a_model_that_cannot_be_exported_says_so(ratings: discreet.Interactions) -> None:
    class Constant(FoldIn):
        """Of a model that somebody else has written."""

        def fold_in(self, histories: discreet.Interactions, n_jobs: int | None) -> Any:
            return np.zeros(histories.n_users), np.ones((histories.n_users, self.columns.shape[1]))

        def contributions(self, indices: Any, values: Any, item: int) -> Any:
            return np.zeros(len(indices))

    class Own(discreet.ALS):
        def _make_fold_in(self) -> FoldIn:
            return Constant(columns=self.item_factors_, base=self.item_bias_)

    with pytest.raises(ModelError, match="not a str"):
        export("model")  # type: ignore[arg-type]
    own = Own(rank=2, n_steps=1).fit(ratings)
    assert len(own.recommend({1: 5.0}))
    with pytest.raises(ModelError, match=r"cannot be exported.* how Constant folds users in"):
        site_of(own)


def test_publishing_without_a_guarantee_takes_a_word(films: Model) -> None:
    with pytest.raises(PrivacyError, match="not_private=True"):
        export(films)


def test_a_private_model_needs_no_word_and_a_recommender_will_do(ratings: discreet.Interactions) -> None:
    model = discreet.Recommender(epsilon=20.0, delta=1e-6).fit(ratings)
    privacy = export(model).manifest["privacy"]
    assert privacy["holds"]
    assert privacy["sentence"] == str(model.guarantee_)
    assert sum(release["part"] for release in privacy["releases"]) == pytest.approx(1)


def test_only_asked_for_or_usual_columns_are_published(ratings: discreet.Interactions) -> None:
    columns = pa.table({"name": ["ä"] * 80, "price": [1.5] * 80, "Year": [1999] * 80})
    model = discreet.MeanRating("item").fit(ratings)
    model.catalogue_ = Catalogue(model.items_, columns)
    model._certify(model.statement())
    assert json.loads(site_of(model).files["model/items.json"])["columns"] == {"Year": [1999] * 80}
    items = json.loads(site_of(model, columns=["price"]).files["model/items.json"])
    assert items["columns"] == {"price": ["1.5"] * 80}
    assert items["titles"] == ["ä"] * 80
    with pytest.raises(DataError, match="no 'cost'"):
        site_of(model, columns=["cost"])


def test_ids_as_javascript_has_them(ratings: discreet.Interactions) -> None:
    model = discreet.MeanRating("item").fit(ratings)
    model.catalogue_ = Catalogue([2**60 + i for i in range(80)])
    model._certify(model.statement())
    assert json.loads(site_of(model).files["model/items.json"])["ids"][1] == str(2**60 + 1)


def test_writing(films: Model, tmp_path: Path) -> None:
    site = site_of(films)
    site.write(tmp_path / "site")
    for name, content in site.files.items():
        assert (tmp_path / "site" / name).read_bytes() == content
    site.write(tmp_path / "site")  # in its own place
    assert not list((tmp_path / "site").glob("**/.*"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("")
    with pytest.raises(ModelError, match="holds no site"):
        site.write(tmp_path / "mine")
    with pytest.raises(ModelError, match="not a folder"):
        site.write(tmp_path / "mine" / "thesis.txt")


def test_the_worker_knows_every_file(films: Model) -> None:
    worker = site_of(films).files["sw.js"].decode()
    assert '"model/arrays.bin"' in worker
    assert '["FILES"]' not in worker
    assert worker != site_of(films, title="Another").files["sw.js"].decode()


def test_the_map_is_within_its_bounds() -> None:
    rng = np.random.default_rng(0)
    places = map_positions(rng.standard_cauchy((300, 5)), np.arange(300.0))
    assert places.shape == (300, 2)
    assert np.abs(places).max() <= 1
    assert (places.std(axis=0) > 0.05).all()
    few = np.zeros((60, 2))
    few[:4] = [[1, 0], [2, 0], [1, 0], [1, 1e9]]
    for odd in (
        few,
        np.ones((60, 1)),
        np.zeros((60, 3)),
        np.zeros((60, 0)),
        rng.standard_normal((60, 1)),
        np.ones((1, 2)),
    ):
        places = map_positions(odd, np.arange(float(len(odd))))
        assert places.shape == (len(odd), 2)
        assert np.abs(places).max() <= 1  # and so none is NaN


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"metric": "rmse", "points": []},
        {"metric": 1, "points": [{"epsilon": 1, "value": 1}]},
        {"metric": "rmse", "points": [{"epsilon": 0, "value": 1}]},
        {"metric": "rmse", "points": [{"epsilon": 1, "value": float("nan")}]},
        [1],
    ],
)
def test_a_trade_off_has_a_form(wrong: Any) -> None:
    with pytest.raises(DataError, match="tradeoff"):
        checked_curve(wrong, may_be_public=True)


CURVE = {"metric": "rmse", "points": [{"epsilon": 1, "value": 0.9}, {"epsilon": 2, "value": 0.8}]}


@pytest.mark.parametrize("word", [False, None, "no", 1])
def test_exact_metrics_take_a_word_before_they_are_published(ratings: discreet.Interactions, word: Any) -> None:
    model = discreet.DPALS(epsilon=5, delta=1e-6).fit(ratings)
    with pytest.raises(PrivacyError, match=r"tradeoff: metrics on private data.*exact_metrics_may_be_public=True"):
        export(model, tradeoff=CURVE, exact_metrics_may_be_public=word)
    site = export(model, tradeoff=CURVE, exact_metrics_may_be_public=True)
    assert "no guarantee covers them" in site.manifest["tradeoff"]["covered"]
    assert export(model).manifest["tradeoff"] is None


def test_private_evaluations_are_published_with_what_they_promise() -> None:
    """One for each number of the curve, by its metric, in a certificate that holds."""
    evaluation = discreet.Plan.gaussian(0.2, {"evaluation: mae, rmse": (1.0, 2)})

    def certificate(times: int, **settings: Any) -> dict[str, Any]:
        ledger = discreet.Ledger(epsilon=1, delta=1e-6, **settings)
        label = "evaluation: mae, rmse"
        with ledger.reserve(evaluation) as reservation:
            for _ in range(times):
                reservation.release([1], 1, evaluation.noise(label, sensitivity=1), label)
        return ledger.statement().certificate

    for given in (certificate(2), json.dumps(certificate(2))):
        found = checked_curve({**CURVE, "certificate": given}, may_be_public=False)
        assert "noise of their own. User-level" in found["covered"]
    seeded = certificate(2, noise_source=InsecureSeededNoise(0))
    for wrong in ({**CURVE, "certificate": certificate(1)}, {**CURVE, "certificate": seeded}):
        with pytest.raises(PrivacyError, match="tradeoff: its certificate must hold, and list"):
            checked_curve(wrong, may_be_public=True)
    with pytest.raises(PrivacyError, match="certificate must hold"):
        checked_curve({**CURVE, "metric": "recall@5", "certificate": certificate(2)}, may_be_public=False)
    with pytest.raises(PrivacyError, match="not a certificate"):
        checked_curve({**CURVE, "certificate": "mine"}, may_be_public=True)


def test_a_trade_off_is_sorted() -> None:
    curve = {"metric": "rmse", "points": [{"epsilon": 2, "value": 0.9}, {"epsilon": 1, "value": 0.95}]}
    found = checked_curve(curve, may_be_public=True)
    assert [point["epsilon"] for point in found["points"]] == [1, 2]


def test_pages_ask_no_other_host_for_anything() -> None:
    """No address of another host is in any file, but names of XML namespaces."""
    for name, content in _static().items():
        for address in re.findall(rb"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}", content):
            assert address == b"http://www.w3.org", (name, address)
    page = _static()["index.html"].decode()
    policy = re.search(r'Content-Security-Policy"\s+content="([^"]+)"', page)
    assert policy
    assert "default-src 'none'" in policy[1]
    assert "unsafe" not in policy[1]
    assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=|style=", page)


def _static() -> dict[str, bytes]:
    from discreet.web import site

    return site._static()
