"""Taint: private arrays stay private, and lines that read them outside the private side are named."""

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import discreet
from discreet.audit import Finding, Report, Subject
from discreet.audit.tainting import PRIVATE_SIDE, Private, taint, tainted, watching


def test_private_arrays_stay_private() -> None:
    private = np.arange(6.0).view(Private)
    for made in (
        private + 1,
        private[2],
        np.sqrt(private),
        private.sum(),
        np.bincount([0, 1, 1], private[:3]),
        *private,
    ):
        assert isinstance(made, Private)
    whole = np.zeros(6)
    whole += private
    assert type(whole) is Private  # by its name it is known; what else it is called, not: the replay has to notice


def test_lines_that_look_at_private_numbers_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    data = discreet.datasets.movielens_like(100, 30, 1500, random_state=0).to_implicit()
    real = discreet.DPSVD._learn_privately

    def peek(self: discreet.DPSVD, releaser: object, ratings: discreet.Interactions) -> object:
        if ratings.values.sum() > 1e9:
            raise ValueError(f"{ratings.values.max()}")
        return real(self, releaser, ratings)  # type: ignore[arg-type]

    def keep(self: discreet.DPSVD, releaser: object, ratings: discreet.Interactions) -> object:
        return {**real(self, releaser, ratings), "counts_": np.bincount(ratings.indices)}  # type: ignore[arg-type]

    mine = Subject("mine", lambda: discreet.DPSVD(epsilon=2.0, delta=1e-6), lambda person: data, [])
    assert [finding.ok for finding in taint(mine, data)] == [True]
    monkeypatch.setattr(discreet.DPSVD, "_learn_privately", peek)
    (found,) = taint(mine, data)
    assert "test_tainting" in found.words
    assert "in peek (bool)" in found.words
    assert taint(mine, data, allow={f"{__name__}:peek"})[0].ok
    monkeypatch.setattr(discreet.DPSVD, "_learn_privately", keep)
    assert [finding.words for finding in taint(mine, data)] == ["counts_ is private"]
    assert isinstance(tainted(data).values, Private)


def test_marks_are_kept_by_conversions_and_sparse_matrices_and_told_where_they_are_lost() -> None:
    from scipy.sparse import csr_array

    private = np.arange(4.0).view(Private)

    def rows(given: np.ndarray) -> np.ndarray:
        made = np.zeros(4)
        made[:] = given
        return made

    with watching(set()) as seen:
        table = csr_array((private, np.arange(4), np.arange(5)), shape=(4, 4))
        computed = (
            np.asarray(private), np.ascontiguousarray(private), np.array([private, private]), rows(private),
            table @ np.eye(4), np.eye(4) @ table.tocsc(), table.tocoo().data, table.sum(axis=0), table.T @ np.ones(4),
        )  # fmt: skip
        plain = np.zeros(4)
        np.multiply(private, 2, out=plain)
    assert all(isinstance(one, Private) for one in computed)
    assert np.array_equal(np.asarray(computed[4]), np.diag(np.arange(4.0)))
    assert [place.split(": ")[1] for place in seen.lost] == [
        "the index arrays of a sparse matrix", "multiply into an array that is not marked",
    ]  # fmt: skip
    assert all(place.startswith(f"{__name__}, in test_marks") for place in seen.lost)
    assert type(csr_array((np.ones(1), ([0], [0]))).tocsc().data) is np.ndarray
    page = Report({"mine": [Finding("taint", True, "none", {"lost": seen.lost})]})
    assert "multiply into an array" in page.html()
    assert "lose their mark" in str(page)
    assert page.to_json()["lost"] == sorted(seen.lost)


def test_whole_modules_are_not_on_the_private_side() -> None:
    for place in PRIVATE_SIDE:
        module, function = place.split(":")
        assert f"def {function}(" in Path(str(import_module(module).__file__)).read_text()
