"""What comes back: a dict, a table, a frame, a plot, and the word that it is for the owner."""

import builtins
import json
import math
import pickle
from typing import Any

import matplotlib as mpl
import pytest

from discreet.errors import DataError, MissingExtra
from discreet.evaluate import Evaluation, evaluate

from .fakes import random_case

mpl.use("Agg")


@pytest.fixture(scope="module")
def result() -> Evaluation:
    model, test, history = random_case(40, 20, 0)
    metrics = ["rmse", "recall@5", "ndcg@5", "coverage@5"]
    return evaluate(model, test, history=history, metrics=metrics, buckets=3)


def test_it_is_a_dict(result: Evaluation) -> None:
    assert isinstance(result, dict)
    assert json.loads(json.dumps(result)) == dict(result)
    assert str(pickle.loads(pickle.dumps(result))) == str(result)
    assert not result.private
    with pytest.raises(KeyError, match="'mae' was not evaluated; there are rmse, recall@5"):
        result["mae"]
    with pytest.raises(KeyError, match="was not evaluated"):
        result.interval("mae")


def test_it_prints_as_a_table(result: Evaluation) -> None:
    lines = str(result).splitlines()
    assert "for the owner's eyes only" in lines[0]
    assert lines[2].split() == ["metric", "value", "95%", "interval", "users"]
    low, high = result.interval("rmse")
    assert lines[3].split() == ["rmse", f"{result['rmse']:.4f}", f"{low:.4f}", "to", f"{high:.4f}", "40"]
    assert lines[6].split()[2] == "-"  # coverage has no interval
    starts = {
        line.index(cell)
        for line, cell in zip(lines[2:6], ["value", *map("{:.4f}".format, result.values())], strict=False)
    }
    assert len(starts) == 1
    assert "buckets of equal numbers of items, the most popular first" in str(result)
    assert lines[-1].split()[:2] == ["3", "6"]
    assert repr(result) == str(result)


def test_it_shows_in_a_notebook(result: Evaluation) -> None:
    page = result._repr_html_()
    assert "for the owner&#x27;s eyes only" in page
    assert page.count("<table>") == 2
    assert f"<td>{result['rmse']:.4f}</td>" in page


@pytest.mark.parametrize("library", [None, "pandas", "polars", "pyarrow"])
def test_it_becomes_a_frame(result: Evaluation, library: Any) -> None:
    import pyarrow as pa

    frame = result.to_frame(library)
    frame = frame if isinstance(frame, pa.Table) else pa.table(frame)
    assert frame.column_names == ["metric", "value", "low", "high", "users"]
    assert frame.column("value").to_pylist() == list(result.values())
    parts = result.to_frame(library, buckets=True)
    parts = parts if isinstance(parts, pa.Table) else pa.table(parts)
    assert parts.column_names == ["bucket", "items", "share", "metric", "value", "low", "high", "users"]
    assert parts.num_rows == 3 * 2
    assert parts.column("bucket").to_pylist() == [1, 1, 2, 2, 3, 3]


def test_wrong_library(result: Evaluation) -> None:
    with pytest.raises(DataError, match=r"^library: "):
        result.to_frame("excel")


def test_bars(result: Evaluation) -> None:
    ax = result.plot()
    assert [bar.get_height() for bar in ax.patches] == pytest.approx(list(result.values()))
    assert [tick.get_text() for tick in ax.get_xticklabels()] == list(result)
    assert "owner's eyes" in ax.get_title(loc="left")
    segments = ax.collections[0].get_segments()
    assert segments[0][:, 1] == pytest.approx(list(result.interval("rmse")))
    assert result.plot(ax) is ax
    mpl.pyplot.close("all")


def test_curves(result: Evaluation) -> None:
    ax = result.plot(buckets=True, metrics=["recall@5"])
    line = next(line for line in ax.lines if len(line.get_xdata()) == 3)
    assert line.get_ydata() == pytest.approx([part.scores["recall@5"].value for part in result.buckets])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["recall@5"]
    with pytest.raises(DataError, match="'ndcg@5' has no buckets; rmse, recall@5 have"):
        result.plot(buckets=True, metrics=["ndcg@5"])
    with pytest.raises(KeyError, match="was not evaluated"):
        result.plot(metrics=["mae"])
    mpl.pyplot.close("all")


def test_buckets_must_have_been_asked_for() -> None:
    model, test, history = random_case(5, 20, 0)
    plain = evaluate(model, test, history=history, metrics="rmse")
    for form in (plain.plot, plain.to_frame):
        with pytest.raises(DataError, match=r"^buckets: this evaluation has none"):
            form(buckets=True)


def test_empty_buckets_are_shown_as_such() -> None:
    model, test, history = random_case(3, 20, 0, n_targets=1, n_history=1)
    result = evaluate(model, test, history=history, metrics=["rmse", "recall@2"], buckets=20)
    assert any(math.isnan(part.scores["rmse"].value) for part in result.buckets)
    assert "  -  " in str(result)
    result.plot(buckets=True)
    mpl.pyplot.close("all")


def test_without_matplotlib(result: Evaluation, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"discreet\[plot\]"):
        result.plot()
