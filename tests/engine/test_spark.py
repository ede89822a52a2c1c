"""What partitions do, in this process: no Java is needed, and every model is tried that Spark is to fit."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discreet
from discreet.audit.neighbors import long_tail
from discreet.data.cleaning import Recipe
from discreet.data.interactions import Report
from discreet.data.sources import GUESS, Columns, choose
from discreet.data.spark import INLINE, Broadcast, chunks, read_partition
from discreet.engine.spark import BLOCK_UNITS, CHECKSUM, DIGEST, Layout, emitted, put_together, stored_rows
from discreet.errors import DataError, PrivacyError
from discreet.parallel import blas_libraries
from discreet.testing import InsecureSeededNoise

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'discreet[spark]'")

from tests.engine.pretended import Pretended, tree

DATA = discreet.datasets.movielens_like(300, 60, 6000, random_state=0)
BUDGET = {"epsilon": 5.0, "delta": 1e-6}
PUBLISHED = {**BUDGET, "rank": 4, "n_steps": 2}
MODELS: dict[str, Callable[[], Any]] = {
    "default": lambda: discreet.DPALS(**BUDGET, n_users_hint=10_000),
    "default, few": lambda: discreet.DPALS(**BUDGET, n_steps=2),
    "lists, too": lambda: discreet.DPALS(**BUDGET, n_users_hint=10_000, objective="both"),
    "graded likes": lambda: discreet.DPSVD(**BUDGET, objective="lists"),
    "published": lambda: discreet.DPALS.as_published(**PUBLISHED),
    "weights": lambda: discreet.DPALS.as_published(**PUBLISHED, sampling="weights", global_penalty=0.1),
    "all items": lambda: discreet.DPALS.as_published(**PUBLISHED, user_items="all", entry_clip=3.0),
    "gradients": lambda: discreet.DPALS.as_published(**PUBLISHED, item_step="gradient", start="svd"),
    "svd": lambda: discreet.DPSVD(**BUDGET),
    "choices": lambda: discreet.DPSVD(**BUDGET),
    "long tail": lambda: discreet.DPSVD(**BUDGET, max_items=4),
    "frank-wolfe": lambda: discreet.DPFrankWolfe(**BUDGET, n_steps=3),
    "logistic": lambda: discreet.DPFrankWolfe(**BUDGET, n_steps=3, loss="logistic"),
    "constant": lambda: discreet.DPFrankWolfe(**BUDGET, n_steps=3, step="constant"),
    "oja": lambda: discreet.DPFrankWolfe(**BUDGET, n_steps=2, eigensolver="oja", oja_steps=2),
}


def seeded() -> discreet.Ledger:
    return discreet.Ledger(delta=1e-6, noise_source=InsecureSeededNoise(3))


@pytest.mark.parametrize("name", MODELS)
def test_partitions_change_no_bit(name: str) -> None:
    """Of no release and no factor; and there are as many releases, of the same kinds."""
    data = {"choices": DATA.to_implicit(3), "long tail": long_tail(None)}.get(name, DATA)
    ledger = seeded()
    expected = MODELS[name]().fit(data, ledger=ledger)
    for n in (1, 2, 7):
        there = seeded()
        model = MODELS[name]().fit(Pretended.of(data, n), ledger=there)
        for array in model._ARRAYS:
            assert np.array_equal(getattr(model, array), getattr(expected, array)), (n, array)
        assert [e.body.get("label") for e in there.events] == [e.body.get("label") for e in ledger.events]


def test_going_on() -> None:
    expected, model = (
        discreet.DPALS(**BUDGET, n_steps=1).fit(DATA, ledger=seeded()).fit_more(data, seeded(), n_steps=1)
        for data in (DATA, Pretended.of(DATA, 3))
    )
    assert np.array_equal(model.item_factors_, expected.item_factors_)


@pytest.mark.parametrize("model", [discreet.DPGradientDescent(**BUDGET), discreet.ALS()])
def test_other_models_say_where_they_run(model: Any) -> None:
    ledger = None if isinstance(model, discreet.ALS) else seeded()
    with pytest.raises(DataError, match=r"not in Spark.*discreet\.read\(dataframe"):
        model.fit(Pretended.of(DATA, 2), ledger=ledger)
    assert ledger is None or not ledger.events


def test_what_has_been_read_is_not_read_again() -> None:
    for data in (DATA, Pretended.of(DATA, 2)):
        with pytest.raises(DataError, match="value_range: the table has been read already"):
            discreet.DPALS(**BUDGET).fit(data, value_range=(1, 5))


# Exactly once


def _once_more(partials: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """A partition's sums come twice, as after a retry that nobody noticed."""
    return [*partials, partials[-1]]


def _lost(partials: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return partials[:-1]


def _mixed(partials: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """One block is of another run of its partition, which saw other rows."""
    last = partials[-1]
    checksum = np.frombuffer(last["checksums"][0].as_py(), CHECKSUM).copy()
    checksum["digest"] = bytes(DIGEST)
    return [*partials[:-1], last.set_column(2, "checksums", pa.array([checksum.tobytes()]))]


@pytest.mark.parametrize("trouble", [_once_more, _lost, _mixed])
def test_a_sum_with_a_user_twice_is_not_released(trouble: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.engine.spark.BLOCK_UNITS", 32)  # many blocks, but one for all users' moments
    ledger = seeded()
    with pytest.raises(PrivacyError, match="This sum was not released; what was released before it stays spent"):
        discreet.DPALS(**BUDGET).fit(Pretended.of(DATA, 3, trouble=trouble), ledger=ledger)
    # A sum of a single block cannot be mixed: it is of one run, or it is refused.
    assert [event.body["label"] for event in ledger.events] == ["users and their means"] * (trouble is _mixed)


def test_a_sum_is_tried_again() -> None:
    """Nothing has been drawn when it is, so that one release is made, of a whole sum."""
    left = [_once_more, _mixed]

    def trouble(partials: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        return left.pop()(partials) if left else partials

    expected, model = (
        discreet.DPALS(**BUDGET, n_steps=1).fit(data, ledger=seeded())
        for data in (DATA, Pretended.of(DATA, 3, trouble=trouble))
    )
    assert np.array_equal(model.item_factors_, expected.item_factors_)


# Alike everywhere


def _elsewhere(partials: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The last partition was computed on a machine of another kind."""
    last = partials[-1]
    other = pa.array([["another kernel"]], pa.list_(pa.string()))
    return [*partials[:-1], last.set_column(last.schema.get_field_index("kernels"), "kernels", other)]


def test_machines_that_round_differently_are_refused() -> None:
    ledger = seeded()
    with pytest.raises(
        PrivacyError, match=r"round differently.*Nothing that was computed in this way was released.*another kernel"
    ):
        discreet.DPALS(**BUDGET).fit(Pretended.of(DATA, 3, trouble=_elsewhere), ledger=ledger)
    assert ledger.events == []


def test_a_partition_that_is_read_again_elsewhere_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost partition was read again by a machine of another kind, and is worked on by one of the first kind."""
    table, ledger = Pretended.of(DATA, 3), seeded()
    monkeypatch.setattr("discreet.data.spark.machine_kernels", lambda: "another kernel")
    table.partitions[1] = Pretended.of(DATA, 3).partitions[1]
    monkeypatch.undo()
    with pytest.raises(PrivacyError, match="round differently"):
        discreet.DPALS(**BUDGET).fit(table, ledger=ledger)
    assert ledger.events == []


def test_a_later_sum_on_other_machines_is_refused() -> None:
    """All machines of the second pass are alike, but are not those of the first."""
    passes = iter([False, True])

    def trouble(partials: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        return [_elsewhere([one])[0] for one in partials] if next(passes) else partials

    ledger = seeded()
    with pytest.raises(PrivacyError, match="round differently"):
        discreet.DPALS(**BUDGET).fit(Pretended.of(DATA, 3, trouble=trouble), ledger=ledger)
    assert len(ledger.events) == 1


def test_kernels_have_names_and_results() -> None:
    """Two kernels of one BLAS, on the same machine: other words, and other bits."""
    if platform.machine() != "x86_64" or not any(x.internal_api == "openblas" for x in blas_libraries()):
        pytest.skip("needs an OpenBLAS on x86-64, which takes the name of a kernel from its environment")
    code = "from discreet.privacy.determinism import machine_kernels; print(machine_kernels())"
    said = {
        kernel: subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "OPENBLAS_CORETYPE": kernel},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for kernel in ("Nehalem", "Sandybridge")
    }
    results = {words.split("results ")[1] for words in said.values()}
    assert len(results) == 2
    for kernel, words in said.items():
        assert kernel.lower() in words.lower()
        assert f"numpy {np.__version__}" in words


@given(st.integers(0, 3), st.booleans(), st.integers(1, 12), st.data())
@settings(max_examples=60, deadline=None)
def test_sums_are_exact_in_blocks_of_any_size(axes: int, symmetric: bool, n: int, data: Any) -> None:
    shape = tuple(data.draw(st.integers(1, 5)) for _ in range(axes + 1))
    if symmetric:
        shape = (*shape[:1], 4, 4) if axes else (4, 4)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    parts = [rng.integers(-(2**60), 2**60, shape) * (rng.random(shape) < 0.5) // n for _ in range(n)]
    if symmetric:
        parts = [np.triu(part) for part in parts]
    layout = Layout(shape, symmetric)
    partials = [one for i, part in enumerate(parts) for one in emitted(part, layout, i, {"here"})]
    rng.shuffle(partials)  # type: ignore[arg-type]
    sums = pa.Table.from_batches(tree(partials, layout, n, branches=data.draw(st.integers(2, 5))))
    found = put_together(sums, layout, n)
    assert found is not None
    assert np.array_equal(found, sum(parts))
    assert put_together(sums, layout, n + 1) is None


def test_what_is_sent_of_an_item_step() -> None:
    """Of each touched item r (r + 1) / 2 + r integers, and one zero; of others a bit."""
    layout, r = Layout((1000, 9, 9), symmetric=True), 8
    total = np.zeros(layout.shape, np.int64)
    total[::10] = 1
    size = sum(
        len(row["units"]) + len(row["touched"])
        for batch in emitted(total, layout, 0, {"here"})
        for row in batch.to_pylist()
    )
    assert size == 100 * (r * (r + 1) // 2 + r + 1) * 8 + 125
    assert layout.rows * layout.width <= BLOCK_UNITS


@dataclass(eq=False)
class Sent:
    value: Any
    gone: bool = False

    def destroy(self) -> None:
        self.gone = True


class Context:
    """Keeps what is broadcast."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []

    def broadcast(self, value: Any) -> Sent:
        self.sent.append(Sent(value))
        return self.sent[-1]


@pytest.mark.parametrize("rows", [3, INLINE])
def test_factors_are_broadcast_if_they_are_large(rows: int) -> None:
    context, factors = Context(), np.random.default_rng(0).standard_normal((rows, 2))
    broadcast = Broadcast.of({"factors": factors, "scale": 3.0, "function": lambda x: x + 1}, context)
    assert len(context.sent) == (rows == INLINE)
    opened = broadcast.open()
    assert np.array_equal(opened["factors"], factors)
    assert opened["scale"] == 3.0
    assert opened["function"](1) == 2
    assert broadcast.open() is opened  # once in a worker
    broadcast.discard()
    assert all(sent.gone for sent in context.sent)


# Reading


def roles(names: list[str]) -> Columns:
    return choose(names, user=GUESS, item=GUESS, value=GUESS, time=GUESS)


def _table(seed: int) -> pa.Table:
    """Rows with everything that can be wrong with them, in any order."""
    rng = np.random.default_rng(seed)
    n = 60
    values = rng.choice([1.0, 2.0, 4.5, 7.0, np.nan, np.inf, None], n, p=[0.3, 0.3, 0.2, 0.05, 0.05, 0.05, 0.05])
    return pa.table(
        {
            "user": pa.array([None if rng.random() < 0.03 else f"u{k}" for k in rng.integers(0, 6, n)]),
            "item": pa.array([f"i{k}" for k in rng.integers(0, 7, n)]),
            "rating": pa.array(values.tolist(), pa.float64()),
            "time": pa.array(rng.permutation(n)),
        }
    )


@pytest.mark.parametrize("on_duplicate", ["last", "first", "mean", "sum"])
@pytest.mark.parametrize("on_invalid", ["drop", "clip"])
def test_policies_are_those_of_read(on_duplicate: str, on_invalid: str) -> None:
    items = [f"i{k}" for k in range(5)]
    for seed in range(5):
        table = _table(seed)
        given: dict[str, Any] = {"on_duplicate": on_duplicate, "on_invalid": on_invalid, "on_unknown": "drop"}
        expected = discreet.read(table, items=items, value_range=(1, 5), **given)
        recipe = Recipe(roles(table.column_names), expected.items, (1.0, 5.0), **given)
        found, counts = read_partition(
            recipe, table.take(np.random.default_rng(1).permutation(len(table))).to_batches()
        )
        assert found is not None
        for name in ("users", "indptr", "indices", "values"):
            assert np.array_equal(getattr(found, name), getattr(expected, name)), name
        report = expected.report
        told = (counts.rows, counts.dropped, counts.clipped, counts.unknown, counts.repeated)
        assert told == (report.rows, report.dropped, report.clipped, report.unknown, report.repeated)
        rows = [stored_rows(row, 5) for batch in chunks(found, counts) for row in batch.to_pylist()]
        assert np.array_equal(np.concatenate([row.values for row in rows]), expected.values)


def test_the_order_of_rows_does_not_matter() -> None:
    """Not even where there is no time to tell the first from the last."""
    table = _table(0).drop_columns(["time"])
    items = discreet.Catalogue([f"i{k}" for k in range(7)]).ids
    recipe = Recipe(roles(table.column_names), items, (1.0, 5.0), "last", "drop", "drop")
    shuffled = (table.take(np.random.default_rng(seed).permutation(len(table))) for seed in range(5))
    first, *others = (read_partition(recipe, some.to_batches())[0] for some in shuffled)
    assert all(np.array_equal(first.values, other.values) for other in others)


def test_a_partition_of_nobody_is_there() -> None:
    recipe = Recipe(roles(["user", "item"]), DATA.items, None, "last", "raise", "raise")
    (batch,) = chunks(*read_partition(recipe, []))
    assert batch.num_rows == 1
    assert read_partition(recipe, [])[1] == Report()


def test_spark_connect_is_refused() -> None:
    frame = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()
    with pytest.raises(DataError, match="Spark Connect"):
        discreet.read(frame, engine="spark")


@pytest.mark.parametrize("given", [{"engine": "cloud"}, {"partitions": 3}, {"engine": "spark", "cache": "folder"}])
def test_what_read_refuses(given: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"engine|cache"):
        discreet.read([("u", "i", 1.0)], **given)
