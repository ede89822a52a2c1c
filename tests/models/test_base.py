"""A certificate fits one model: any other under it is refused, however well its digests were made."""

import datetime
import decimal
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import safetensors.numpy
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import discreet
from discreet import Catalogue, Statement
from discreet.data.catalogue import catalogue_sha256, sha256_of
from discreet.errors import ModelError, PrivacyError
from discreet.models.base import _numbers, _plain_or_type, binding
from discreet.models.one_bit import perturb
from discreet.models.storage import items_from_bytes, items_to_bytes
from discreet.validation import round_up
from discreet.web import export
from tests.models.models import edit, smuggle

RATINGS = discreet.datasets.movielens_like(300, 50, 6_000, random_state=0)


@pytest.fixture(scope="module")
def one() -> Any:
    return discreet.DPALS(epsilon=1, delta=1e-6).fit(RATINGS)


@pytest.fixture(scope="module")
def eight() -> Any:
    return discreet.DPALS(epsilon=8, delta=1e-6).fit(RATINGS)


def test_a_model_under_the_certificate_of_a_stronger_one_is_refused(tmp_path: Path, one: Any, eight: Any) -> None:
    eight.save(tmp_path / "m")
    certificate = one.statement().certificate
    edit(tmp_path / "m", lambda d: d.update(certificate=certificate))
    with pytest.raises(PrivacyError, match="belongs to another model, with other parameters, item_factors_"):
        discreet.load(tmp_path / "m")
    edit(tmp_path / "m", lambda d: d["params"].update(epsilon=1))
    with pytest.raises(PrivacyError, match="belongs to another model, with other item_factors_"):
        discreet.load(tmp_path / "m")


def test_a_certificate_of_no_model_is_refused(tmp_path: Path, one: Any) -> None:
    one.save(tmp_path / "m")
    unbound = one.statement()._with(model=None).certificate
    edit(tmp_path / "m", lambda d: d.update(certificate=unbound))
    with pytest.raises(PrivacyError, match="names no model"):
        discreet.load(tmp_path / "m")


def rename(document: dict[str, Any], change: dict[str, Any]) -> None:
    """Let the certificate name another model."""
    statement = Statement(document["certificate"])
    document["certificate"] = statement.of_model({**statement.certificate["model"], **change}).certificate


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda d: d["params"].update(n_users_hint=100), "parameters"),
        (lambda d: d["params"].update(adjacency="replace"), "parameters"),
        (lambda d: d["values"].update(global_mean_=1.0), "values"),
        (lambda d: d["values"].update(unit_=2.0), "values"),
        (lambda d: d.update(origin="observed"), "catalogue"),
        (lambda d: rename(d, {"class": "DPSVD"}), "class"),
        (lambda d: rename(d, {"sha256": {**d["certificate"]["model"]["sha256"], "user_factors_": "00" * 32}}), "parts"),
    ],
)
def test_nothing_in_model_json_can_be_exchanged(
    tmp_path: Path, one: Any, change: Callable[[Any], None], named: str
) -> None:
    one.save(tmp_path / "m")
    edit(tmp_path / "m", change)
    with pytest.raises(PrivacyError, match=f"belongs to another model, with other {named};"):
        discreet.load(tmp_path / "m")


@pytest.mark.parametrize("name", discreet.DPALS._ARRAYS)
def test_no_array_can_be_exchanged(tmp_path: Path, one: Any, name: str) -> None:
    one.save(tmp_path / "m")
    arrays = safetensors.numpy.load((tmp_path / "m" / "factors.safetensors").read_bytes())
    was = arrays[name]
    arrays[name] = was * np.float32(1.0001) + np.float32(1e-4) if was.size else np.ones((1,) * was.ndim)
    smuggle(tmp_path / "m", "factors.safetensors", safetensors.numpy.save(arrays))
    refused = f"belongs to another model, with other {name};" if was.size else "does not fit"  # refused before
    with pytest.raises((PrivacyError, discreet.errors.ModelError), match=refused):
        discreet.load(tmp_path / "m")


def test_the_catalogue_cannot_be_exchanged(tmp_path: Path, one: Any) -> None:
    one.save(tmp_path / "m")
    turned = one.catalogue_.take(np.arange(50)[::-1])
    smuggle(tmp_path / "m", "items.parquet", items_to_bytes(turned))
    with pytest.raises(PrivacyError, match="belongs to another model, with other catalogue;"):
        discreet.load(tmp_path / "m")


@pytest.mark.parametrize(
    ("params", "named"),
    [({}, "promises epsilon = 1, but a fit with its parameters costs 8"), ({"delta": 1e-3}, "guarantee has 1e-06")],
)
def test_a_certificate_that_its_parameters_contradict_is_refused(
    tmp_path: Path, one: Any, eight: Any, params: dict[str, Any], named: str
) -> None:
    """Also where whoever wrote it names the model rightly."""
    other = discreet.DPALS(**{**eight.get_params(), **params})
    vars(other).update({name: value for name, value in vars(eight).items() if name.endswith("_")})
    other._certify(one.statement())
    with pytest.raises(ModelError, match=named):
        other.save(tmp_path / "m")


def test_a_certificate_for_other_neighbors_is_refused(one: Any) -> None:
    promised = discreet.DPALS(epsilon=1, delta=1e-6, adjacency="replace").fit(RATINGS).statement()
    with pytest.raises(PrivacyError, match="promises adjacency = 'replace'"):
        one._require_certified(promised.of_model(binding(one)))


def test_a_model_that_was_changed_is_neither_saved_nor_published(tmp_path: Path) -> None:
    model = discreet.DPALS(epsilon=1, delta=1e-6).fit(RATINGS)
    model.item_factors_ = np.roll(model.item_factors_, 1, axis=0)  # of the same shape, whatever the noise has found
    with pytest.raises(ModelError, match="belongs to another model, with other item_factors_"):
        model.save(tmp_path / "m")
    with pytest.raises(PrivacyError, match="belongs to another model, with other item_factors_"):
        export(model)


def test_how_it_serves_may_change(tmp_path: Path) -> None:
    model = discreet.DPALS(epsilon=1, delta=1e-6, n_jobs=2).fit(RATINGS)
    digest = model.statement().digest
    model.set_params(n_jobs=1, caution=1.0).save(tmp_path / "m")
    again = discreet.load(tmp_path / "m")
    assert again.caution == 1.0
    assert again.statement().digest == digest


def test_fitting_more_gives_another_certificate(tmp_path: Path) -> None:
    model = discreet.DPALS(epsilon=1, delta=1e-6).fit(RATINGS)
    before = model.statement()
    model.fit_more(RATINGS, epsilon=0.5)
    assert model.statement().certificate["model"] == binding(model) != before.certificate["model"]
    model.save(tmp_path / "m")
    discreet.load(tmp_path / "m", certificate=model.statement())
    with pytest.raises(PrivacyError, match="not the model that was certified"):
        discreet.load(tmp_path / "m", certificate=before)


def test_a_signed_certificate_fits_the_model_that_it_was_issued_for(tmp_path: Path, one: Any, eight: Any) -> None:
    key = Ed25519PrivateKey.generate()
    signed = Statement.parse(one.statement().sign(key).json())
    signed.verify(key.public_key())
    one.save(tmp_path / "one")
    eight.save(tmp_path / "eight")
    discreet.load(tmp_path / "one", certificate=signed)
    with pytest.raises(PrivacyError, match="not the model that was certified"):
        discreet.load(tmp_path / "eight", certificate=signed)
    edit(tmp_path / "one", lambda d: d.update(certificate=signed.certificate))  # a signature may be kept inside
    again = discreet.load(tmp_path / "one", certificate=signed)
    again.statement().verify(key.public_key())
    again.save(tmp_path / "again")
    discreet.load(tmp_path / "again").statement().verify(key.public_key())


def test_the_lines_in_the_guide_refuse_a_forged_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one: Any, eight: Any
) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "saving.md").read_text(encoding="utf-8")
    (lines,) = [block for block in re.findall(r"```python\n(.*?)```", guide, re.S) if "certificate.verify" in block]
    assert len(lines.splitlines()) <= 5
    monkeypatch.chdir(tmp_path)
    key = Ed25519PrivateKey.generate()

    def check() -> None:
        exec(lines, {"discreet": discreet, "Path": Path})

    def offer(model: Any, certificate: Statement) -> None:
        model.save("model")
        edit(Path("model"), lambda d: d.update(certificate=certificate.certificate))
        Path("certificate.json").write_text(certificate.json(), encoding="utf-8")

    Path("issuer.key").write_bytes(key.public_key().public_bytes_raw())
    offer(one, one.statement().sign(key))
    check()
    offer(eight, one.statement().sign(key))  # other factors under the right certificate
    with pytest.raises(PrivacyError, match="belongs to another model"):
        check()
    offer(eight, eight.statement().sign(Ed25519PrivateKey.generate()))  # somebody else's signature
    with pytest.raises(PrivacyError, match="another key"):
        check()
    eight.save("model")  # with its own certificate
    Path("certificate.json").write_text(one.statement().sign(key).json(), encoding="utf-8")
    with pytest.raises(PrivacyError, match="not the model that was certified"):
        check()


def test_a_parameter_that_cannot_be_saved_does_not_stop_a_fit() -> None:
    assert _plain_or_type("features", np.array(["genres"])) == "a ndarray"


# The hash of a catalog is of its content


COLUMNS: dict[str, Any] = {
    "text": pa.array(["a", None, "", "bc"]),
    "lists": pa.array([["x", None], [], None, ["y"]]),
    "records": pa.array([{"a": 1, "b": [2.5]}, None, {"a": None, "b": None}, {"a": 4, "b": []}]),
    "seconds": pa.array([1, None, 2, 3], pa.timestamp("s", "Europe/Oslo")),
    "nanoseconds": pa.array([1, None, 2, 3], pa.timestamp("ns")),
    "days": pa.array([datetime.date(2024, 1, 1), None, datetime.date(1, 1, 1), None]),
    "money": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("-2"), None]),
    "truth": pa.array([True, None, False, True]),
    "bytes": pa.array([b"\xff", None, b"", b"\0"]),
    "codes": pa.array([b"ab", None, b"cd", b"ef"], pa.binary(2)),
    "nothing": pa.nulls(4),
    "numbers": pa.array([1.5, None, float("nan"), -0.0], pa.float32()),
}


def digest_of(ids: Any, column: Any, name: str = "x") -> str:
    return catalogue_sha256(Catalogue(ids, pa.table({name: column})))


@pytest.mark.parametrize("kind", COLUMNS)
def test_the_same_catalogue_has_the_same_hash_and_another_has_not(kind: str) -> None:
    column, ids = COLUMNS[kind], ["a", "b", "c", "d"]
    expected = digest_of(ids, column)
    chunks = pa.chunked_array([column.slice(0, 1), column.slice(1), column.slice(0, 0)])
    padded = pa.concat_arrays([column, column]).slice(4)
    assert digest_of(ids, chunks) == digest_of(ids, padded) == expected
    catalogue = Catalogue(ids, pa.table({"x": column}))
    again = items_from_bytes(Path("items.parquet"), items_to_bytes(catalogue), catalogue.origin)
    assert catalogue_sha256(again) == expected
    others = [digest_of(ids, column, "y"), digest_of(["a", "b", "d", "c"], column)]
    if kind != "nothing":
        others += [digest_of(ids, column.take(pa.array(order))) for order in ([1, 0, 2, 3], [0, 0, 2, 3], [2, 1, 0, 3])]
    assert len({expected, *others}) == 1 + len(others)


def test_what_lies_under_a_missing_value_does_not_count() -> None:
    values, mask = pa.py_buffer(np.array([1, 7, 3, 4])), pa.py_buffer(b"\x0d")
    hidden = pa.Array.from_buffers(pa.int64(), 4, [mask, values])
    assert digest_of(list("abcd"), hidden) == digest_of(list("abcd"), pa.array([1, None, 3, 4]))


def test_where_one_text_ends_and_the_next_begins_counts() -> None:
    assert digest_of([1, 2], pa.array(["ab", "c"])) != digest_of([1, 2], pa.array(["a", "bc"]))
    assert digest_of([1, 2], pa.array([["a"], ["b"]])) != digest_of([1, 2], pa.array([["a", "b"], []]))


def test_a_hash_is_of_type_shape_and_content(one: Any) -> None:
    certificate = json.loads(one.statement().json())
    assert set(certificate["model"]["sha256"]) == {*one._ARRAYS, "values", "catalogue"}
    assert "caution" not in certificate["model"]["params"]
    zeros = [np.zeros((2, 3)), np.zeros((3, 2)), np.zeros(6), np.zeros((2, 3), np.float32), np.zeros((0, 3))]
    assert len({sha256_of(*_numbers(array)) for array in zeros}) == len(zeros)
    matrix = np.arange(6.0).reshape(2, 3)
    assert sha256_of(*_numbers(matrix)) == sha256_of(*_numbers(np.asfortranarray(matrix.astype(">f8"))))


BITS = discreet.OneBit(epsilon=1.0, perturbed=True)
PAID: dict[str, Callable[[discreet.Ledger | None], Any]] = {
    "DPALS": lambda ledger: discreet.DPALS(epsilon=1, delta=1e-6).fit(RATINGS, ledger=ledger),
    "fit_more": lambda ledger: discreet.DPALS(epsilon=1, delta=1e-6).fit(RATINGS).fit_more(RATINGS, ledger),
    "DPFrankWolfe": lambda ledger: discreet.DPFrankWolfe(epsilon=1, delta=1e-6).fit(RATINGS, ledger=ledger),
    "DPSGD": lambda ledger: discreet.DPSGD(epsilon=1, delta=1e-6, n_steps=2).fit(RATINGS, ledger=ledger),
    "DPPCA": lambda ledger: discreet.DPPCA(2, epsilon=1, delta=1e-6, row_norm=1.0).fit(RATINGS, ledger=ledger),
    "search": lambda ledger: discreet.tune.search(
        discreet.DPALS, {"n_steps": [1, 2]}, RATINGS, (1, 1e-6), ledger, trials=1.5
    ),
    "OneBit": lambda ledger: discreet.OneBit(threshold=3, epsilon=1.0).fit(RATINGS, ledger=ledger),
    "perturbed": lambda ledger: BITS.fit(perturb(RATINGS, threshold=3, epsilon=1.0), ledger=ledger),
}


@pytest.mark.parametrize("name", PAID)
def test_a_statement_says_what_the_ledger_has_spent_beside_it(tmp_path: Path, name: str) -> None:
    one_bit = name in ("OneBit", "perturbed")
    terms: Any = {"unit": "entry", "adjacency": "flip"} if one_bit else {}
    ledger = discreet.Ledger(epsilon=4, delta=1e-6, filter="renyi", **terms)
    ledger.release([1, 2], 1, discreet.Laplace(1.0), "something else")
    found = PAID[name](ledger)
    spent = min(ledger.spent.epsilon, 4.0)
    said = f"The ledger that paid for this has spent epsilon = {round_up(spent)} at delta = 1e-06 in total"
    statement = found.statement()
    assert said in str(Statement.parse(statement.json()))
    assert ledger.spent.epsilon > found.guarantee_.epsilon + 0.1 or name == "fit_more"
    if name not in ("DPPCA", "search"):
        found.save(tmp_path / "m")
        assert said in str(discreet.load(tmp_path / "m").statement())
    assert PAID[name](None).statement().certificate["ledger"] is None
