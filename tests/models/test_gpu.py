"""The GPU engine, with torch on the processor in place of a GPU: the same models as without it."""

import math
from dataclasses import replace
from functools import cache
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import discreet
from discreet.datasets import movielens_like
from discreet.engine import LocalBlocks
from discreet.engine.batches import parts
from discreet.engine.gpu import GpuBlocks
from discreet.errors import DataError, MissingExtra, PrivacyError
from discreet.linalg import determinism, torch_arrays
from discreet.linalg.arrays import NUMPY, arrays_on
from discreet.linalg.topk import top_k
from discreet.linalg.torch_arrays import TorchArrays
from discreet.models.als import gpu as als_gpu
from discreet.models.als.contributions import ItemStep
from discreet.models.als.gpu import GpuTable
from discreet.models.als.published_training import own_equations
from discreet.models.als.sampling import Sample
from discreet.privacy import GramSum, NormalEquations, OuterSum, VectorSum
from discreet.privacy.releaser import Encoded
from discreet.privacy.statistics import UserBatch
from discreet.recommend import trial
from discreet.testing import InsecureSeededNoise
from discreet.testing.conformance import assert_served_alike
from tests.conftest import missing
from tests.models.equations import encoder_on, exact_equations, some_of

RATINGS = movielens_like(300, 80, 12_000)
LIKED = RATINGS.to_implicit(4)


@cache
def on_processor() -> TorchArrays:
    try:
        arrays = TorchArrays("cpu")
    except MissingExtra as reason:
        missing("torch", str(reason))
    arrays._torch.set_num_threads(1)  # other tests run beside
    return arrays


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> TorchArrays:
    """What `device="cuda"` stands for here; small, so that there is more than one block of everything.

    A processor's kernels treat matrices apart that do not begin on a line of its cache, as most of odd rank do: so
    ranks of private models here are multiples of 4.
    """
    arrays = on_processor()
    monkeypatch.setattr(torch_arrays, "gpu", lambda device: arrays)
    return arrays


def published(device: str, ratings: Any, **settings: Any) -> Any:
    usual = {"epsilon": 20, "delta": 1e-6, "rank": 4, "n_steps": 3, "item_fraction": 0.8, "regularization": 2.0}
    model = discreet.DPALS.as_published(**{**usual, **settings}, device=device)
    return model.fit(ratings, ledger=discreet.Ledger(delta=1e-6, noise_source=InsecureSeededNoise(3)))


@pytest.mark.parametrize("sampling", ["adaptive", "uniform", "weights"])
@pytest.mark.parametrize("project_first", [False, True])
def test_published_is_the_same(gpu: TorchArrays, sampling: str, project_first: bool) -> None:
    settings = {"sampling": sampling, "project_first": project_first, "entry_clip": 5.0}
    here, there = (published(device, RATINGS, **settings) for device in ("cpu", "cuda"))
    np.testing.assert_allclose(here.item_factors_, there.item_factors_, atol=1e-6)
    assert here.guarantee_ == there.guarantee_


def test_published_with_a_shared_matrix_is_the_same(gpu: TorchArrays) -> None:
    settings = {"center": False, "global_penalty": 0.3, "entry_clip": 1.0}
    here, there = (published(device, LIKED, **settings) for device in ("cpu", "cuda"))
    np.testing.assert_allclose(here.item_factors_, there.item_factors_, atol=1e-6)


def fitted(device: str, ratings: Any = RATINGS, **settings: Any) -> Any:
    model = discreet.DPALS(**{"epsilon": 20, "delta": 1e-6, "n_steps": 3, **settings}, device=device)
    return model.fit(ratings, ledger=discreet.Ledger(delta=1e-6, noise_source=InsecureSeededNoise(3)))


def assert_same_model(here: Any, there: Any) -> None:
    assert here.item_factors_.shape[1] > 2  # there is something to compare: tastes were found
    for name in ("item_factors_", "item_bias_", "item_variance_"):
        np.testing.assert_allclose(getattr(here, name), getattr(there, name), atol=2e-4)  # regressions are in float32
    assert here.guarantee_ == there.guarantee_


@pytest.mark.parametrize("settings", [{}, {"n_users_hint": 10**5}], ids=["steps", "and a second moment"])
def test_dpals_is_the_same(gpu: TorchArrays, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = (fitted(device, **settings) for device in ("cpu", "cuda"))
    assert_same_model(here, there)
    monkeypatch.setattr(gpu, "most_bytes", 4_000_000)  # of the regressions of a hundred users
    real, brought = GpuTable.of, []
    monkeypatch.setattr(GpuTable, "of", lambda *given: brought.append(1) or real(*given))
    assert_same_model(here, fitted("cuda", **settings))
    assert len(brought) > 3  # several in a step


def test_dpals_continues_with_a_gpu(gpu: TorchArrays) -> None:
    here, there = (fitted(device, n_steps=2) for device in ("cpu", "cuda"))
    for model in (here, there):
        ledger = discreet.Ledger(delta=1e-5, noise_source=InsecureSeededNoise(4))
        model.fit_more(RATINGS, ledger, epsilon=10, n_steps=1)
    assert_same_model(here, there)


def test_item_steps_are_the_same_bits(gpu: TorchArrays, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the same contributions, which here are the processor's."""
    asked = []

    def folded_in(step: ItemStep, table: GpuTable, gpu: TorchArrays) -> Any:
        asked.append(table)
        found = [step(batch) for batch in table.batches]
        return np.concatenate([own.values for own in found]), np.concatenate([own.vectors for own in found])

    monkeypatch.setattr(als_gpu, "residuals", folded_in)
    here, there = (fitted(device, n_users_hint=10**5) for device in ("cpu", "cuda"))
    np.testing.assert_array_equal(here.item_factors_, there.item_factors_)
    assert len(asked) == 4  # of the second moment, and of each step


def batches_of(sample: Sample, n_users: int) -> list[Sample]:
    """With their users' vectors."""
    assert sample.vectors is not None
    ends = [*range(0, len(sample.counts), n_users), len(sample.counts)]
    return [replace(some_of(sample, first, last), vectors=sample.vectors[first:last]) for first, last in pairwise(ends)]


@pytest.mark.parametrize("weighted", [False, True])
def test_normal_equations_are_the_same_bits(gpu: TorchArrays, weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    users = rng.standard_normal((RATINGS.n_users, 6))
    weights = rng.random(len(RATINGS)) if weighted else None
    sample = Sample(RATINGS.indptr, RATINGS.indices, RATINGS.values - 3.0, weights, vectors=users)
    encoder = encoder_on(NormalEquations(RATINGS.n_items, 6, 60, 1.0, 2.0, 1.5, weighted), -12)
    expected = exact_equations(encoder, sample, users)
    assert np.abs(expected).max() > 2**20

    def summed() -> Any:
        blocks = GpuBlocks(LocalBlocks[Sample](lambda: batches_of(sample, 70)), gpu, 2)
        return blocks.add_up(Encoded((encoder,), own_equations, symmetric=True), 2)

    np.testing.assert_array_equal(summed(), expected)
    monkeypatch.setattr(gpu, "most_bytes", expected[0].nbytes * 7)  # room for seven items
    np.testing.assert_array_equal(summed(), expected)
    monkeypatch.setattr(gpu, "most_targets", 500)  # not all of an item's users
    np.testing.assert_array_equal(summed(), expected)


SPARSE = GramSum(RATINGS.n_items, 2.0)
OTHER_SUMS: dict[str, tuple[Any, Any]] = {
    "vectors, which the processor adds up": (VectorSum(RATINGS.n_items, 2.0), lambda batch: batch.values),
    "a Gram matrix of sparse rows": (SPARSE, lambda batch: batch.values),
    "of dense rows": (GramSum(3, 2.0), lambda batch: np.outer(batch.counts, [1.0, -2.0, 0.5])),
    "outer products": (
        OuterSum((RATINGS.n_items, 2), 0.7),
        lambda batch: (batch.values, np.ones((len(batch.counts), 2)) / 2, batch.owners),
    ),
}


@pytest.mark.parametrize("name", OTHER_SUMS)
def test_other_sums_are_the_same_bits(gpu: TorchArrays, name: str) -> None:
    statistic, contribution = OTHER_SUMS[name]
    encoder = statistic.encoder(0.5)
    work = Encoded((encoder,), contribution)
    blocks = LocalBlocks[UserBatch](lambda: parts(RATINGS, RATINGS.values - 3.0, most_users=50))
    expected = encoder.finish(blocks.add_up(work, 1))
    assert np.abs(expected).max() > 2**10
    found = GpuBlocks(blocks, gpu, 2).add_up(work, 2)
    np.testing.assert_array_equal(encoder.finish(found), expected)


def test_what_may_not_count_replaces_nothing(gpu: TorchArrays) -> None:
    """An item that does not exist, or that a user has twice, is a zero, and replaces no other entry."""
    encoder = SPARSE.encoder(0.5)
    batch = UserBatch(np.array([0, 3]), np.array([0, 5, 5]), np.array([1.0, 0.5, 0.25]))
    blocks = LocalBlocks[UserBatch](lambda: [batch])
    work = Encoded((encoder,), lambda batch: batch.values)
    found = encoder.finish(GpuBlocks(blocks, gpu, 1).add_up(work, 1))
    assert found[0, 0] > 0
    np.testing.assert_array_equal(found, encoder.finish(blocks.add_up(work, 1)))


@pytest.mark.parametrize("settings", [{}, {"biases": False}, {"solver": "cg", "cg_steps": 8}], ids=str)
@pytest.mark.parametrize(("dtype", "far"), [("float64", 1e-6), ("float32", 1e-3)])
@pytest.mark.parametrize("ratings", [RATINGS, LIKED], ids=["ratings", "likes"])
def test_als_is_the_same(gpu: TorchArrays, settings: Any, dtype: Any, far: float, ratings: Any) -> None:
    if "biases" in settings and ratings is LIKED:
        pytest.skip("likes have no biases anyway")
    here, there = (
        discreet.ALS(6, n_steps=4, dtype=dtype, **settings, device=device).fit(ratings) for device in ("cpu", "cuda")
    )
    np.testing.assert_allclose(here.item_factors_, there.item_factors_, atol=far)
    np.testing.assert_allclose(here.item_bias_, there.item_bias_, atol=far)


def test_a_table_that_is_larger_than_the_gpu(gpu: TorchArrays, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = discreet.ALS(6, n_steps=2, dtype="float64", device="cuda").fit(RATINGS)
    monkeypatch.setattr(gpu, "most_targets", 700)
    parts = discreet.ALS(6, n_steps=2, dtype="float64", device="cuda").fit(RATINGS)
    np.testing.assert_allclose(whole.item_factors_, parts.item_factors_, atol=1e-9)


@pytest.mark.parametrize("caution", [0.0, 1.0])
def test_recommendations_and_figures_are_the_same(gpu: TorchArrays, caution: float) -> None:
    train, _, test = discreet.splits.holdout(RATINGS, test=0.2)
    ledger = discreet.Ledger(delta=1e-6, noise_source=InsecureSeededNoise(3))
    model = discreet.DPALS(epsilon=20, delta=1e-6, caution=caution).fit(train, ledger=ledger)
    other = clone(model).set_params(device="cuda")
    assert other.device == "cuda"
    results = []
    for device in ("cpu", "cuda", "cpu"):
        model.set_params(device=device)
        deny = model.items_.to_arrow().to_pylist()[:3]
        results.append((model.recommend(train, n=7, deny=deny), discreet.evaluate.evaluate(model, test, history=train)))
    (here, figures), (there, others), (again, _) = results
    np.testing.assert_allclose(there.scores, here.scores, atol=1e-4)
    assert np.mean(there.numbers == here.numbers) > 0.99  # scores that differ by rounding alone may change places
    np.testing.assert_array_equal(again.numbers, here.numbers)
    for name, value in dict(figures).items():
        assert others[name] == pytest.approx(value, abs=1e-3, nan_ok=True)


@pytest.mark.parametrize("rank", [4, 8])
@pytest.mark.parametrize("ratings", [RATINGS, LIKED], ids=["ratings", "likes"])
def test_a_person_is_served_the_same_in_any_company(gpu: TorchArrays, rank: int, ratings: Any) -> None:
    model = discreet.ALS(rank, n_steps=2, biases=False).fit(ratings).set_params(device="cuda")
    assert_served_alike(model, ratings)


def test_a_gpu_whose_products_depend_on_others_is_not_used(gpu: TorchArrays, monkeypatch: pytest.MonkeyPatch) -> None:
    model = published("cpu", RATINGS).set_params(device="cuda")
    real = TorchArrays.multiply

    def mixing(self: TorchArrays, vectors: Any, tiles: Any, out: Any) -> None:
        real(self, vectors, tiles, out)
        out += 1e-6 * vectors.abs().sum()

    monkeypatch.setattr(trial, "_sound", set())
    with monkeypatch.context() as patched:
        patched.setattr(TorchArrays, "multiply", mixing)
        with pytest.raises(PrivacyError, match=r"gives a person other bits .* device='cpu'"):
            model.recommend(RATINGS)
    model.recommend(RATINGS)


def test_the_best_of_equal_scores_are_the_first(gpu: TorchArrays) -> None:
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 6, (50, 40)).astype(np.float32)
    scores[rng.random(scores.shape) < 0.2] = -np.inf
    scores[3] = -np.inf
    scores[4, 5:] = -np.inf
    for k in (1, 3, 10, 40, 50):
        for found, expected in zip(gpu.top_k(gpu.put(scores), k), top_k(scores, k), strict=True):
            np.testing.assert_array_equal(found, expected)
    assert gpu.top_k(gpu.put(scores[:, :0]), 3)[0].shape == (50, 0)


def test_nobody_and_people_without_a_history(gpu: TorchArrays) -> None:
    model = discreet.ALS(4, n_steps=2, device="cuda").fit(RATINGS)
    assert len(model.recommend([{}, {}], n=3).numbers) == 6
    assert model.recommend({}, n=3).note
    empty = RATINGS.of_users(np.arange(0))
    assert len(model.recommend(empty, n=3)) == 0
    ledger = discreet.Ledger(delta=1e-6, noise_source=InsecureSeededNoise(0))
    nobody = discreet.DPALS.as_published(epsilon=1, delta=1e-6, rank=4, device="cuda").fit(empty, ledger=ledger)
    assert np.isfinite(nobody.item_factors_).all()


def test_a_persons_bits_do_not_depend_on_the_others(gpu: TorchArrays) -> None:
    assert not determinism.neighbour_dependent("cuda", 8)
    assert not determinism.neighbour_dependent("cuda", 24, 4)


@pytest.mark.parametrize("model", [discreet.DPALS, discreet.DPALS.as_published])
def test_a_gpu_whose_bits_do_is_refused_before_anything_is_spent(
    gpu: TorchArrays, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = TorchArrays.solve_spd

    def mixing(self: TorchArrays, A: Any, b: Any, whole: Any) -> Any:
        x = real(self, A, b, whole)
        return x + 1e-7 * x.abs().sum()  # of all that are there

    monkeypatch.setattr(TorchArrays, "solve_spd", mixing)
    determinism.neighbour_dependent.cache_clear()
    ledger = discreet.Ledger(delta=1e-6)
    with pytest.raises(PrivacyError, match=r"device: 'cuda' gives one person other bits .* use 'cpu'"):
        model(epsilon=1, delta=1e-6, device="cuda").fit(RATINGS, ledger=ledger)
    determinism.neighbour_dependent.cache_clear()
    assert not ledger.events
    assert ledger.spent.epsilon == 0


def test_where_a_model_was_trained_is_not_saved(gpu: TorchArrays, tmp_path: Any) -> None:
    model = discreet.ALS(3, n_steps=1, device="cuda").fit(RATINGS)
    model.save(tmp_path / "model")
    loaded = discreet.load(tmp_path / "model")
    assert loaded.device == "cpu"
    assert loaded.set_params(device="cuda").recommend({RATINGS.items.to_arrow()[0].as_py(): 5.0}, n=2).items


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "mps", "", None, 0])
def test_devices_that_there_are_not(device: Any) -> None:
    with pytest.raises(DataError, match=r"device: 'cpu', 'cuda' or"):
        discreet.ALS(3, device=device).fit(RATINGS)


def test_the_processor_needs_no_torch() -> None:
    assert arrays_on("cpu") is NUMPY


def fake_cuda(n: int, memory: int) -> Any:
    return SimpleNamespace(
        is_available=lambda: n > 0,
        device_count=lambda: n,
        get_device_properties=lambda device: SimpleNamespace(total_memory=memory),
    )


@pytest.mark.parametrize(
    ("device", "n", "memory", "words"),
    [
        ("cuda", 0, 0, "torch sees no GPU on this machine; use 'cpu'"),
        ("cuda:2", 2, 1 << 36, "there is no 'cuda:2'; this machine has 2, from 'cuda:0'"),
        ("cuda", 1, 1 << 30, "has 1,024 MiB of memory, and 4,096 are needed"),
    ],
)
def test_a_gpu_that_is_not_there_or_too_small(
    device: str, n: int, memory: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_processor()
    import torch

    monkeypatch.setattr(torch, "cuda", fake_cuda(n, memory))
    with pytest.raises(DataError, match=words):
        TorchArrays(device)


@pytest.mark.parametrize("k", [1, 5, 24])
def test_positive_parts_without_eigenvalues(k: int) -> None:
    arrays, rng = on_processor(), np.random.default_rng(k)
    Q = np.linalg.qr(rng.standard_normal((60, k, k)))[0]
    values = rng.standard_normal((60, k)) * 10.0 ** rng.uniform(-6, 3, (60, 1))
    values[0], values[1], values[2, 0], values[3] = -1, 1, 1e-7, 0
    A = (Q * values[:, None, :]) @ Q.swapaxes(1, 2)
    A, b = (A + A.swapaxes(1, 2)) / 2, rng.standard_normal((60, k))
    np.testing.assert_allclose(
        arrays.get(arrays.project_psd(arrays.put(A))), NUMPY.project_psd(A), atol=1e-9 * np.abs(values).max()
    )
    found = arrays.get(arrays.solve_positive_part(arrays.put(A.copy()), arrays.put(b.copy())))
    expected = NUMPY.solve_positive_part(A.copy(), b.copy())
    sizes = np.abs(expected).max(axis=1, keepdims=True) + math.ulp(1)
    np.testing.assert_allclose(found / sizes, expected / sizes, atol=1e-6)
