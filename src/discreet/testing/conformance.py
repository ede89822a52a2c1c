"""The tests that every model passes: the library's and your own.

    class TestMine(discreet.testing.ModelConformance):
        def model(self):
            return Mine(epsilon=1, delta=1e-6)

Any test runner that collects methods named test_* can run it; importing it needs no test runner.
"""

from __future__ import annotations

import copy
import gc
import json
import subprocess
import sys
import tempfile
import tracemalloc
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from discreet.data.interactions import Interactions
from discreet.data.readers import read
from discreet.data.synthetic import movielens_like
from discreet.errors import DataError, DiscreetError, NotFitted, UnknownItem
from discreet.models.base import Model
from discreet.models.storage import load
from discreet.parallel import single_threaded_blas
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.statement import Statement
from discreet.recommend.results import BatchRecommendations, Recommendations
from discreet.typing import Array
from discreet.web.scoring import table_of

_FRESH = """
import importlib, json, sys, discreet
importlib.import_module(sys.argv[3])  # where a model of your own is registered
model = discreet.load(sys.argv[1])
found = model.recommend(json.loads(sys.argv[2]), n=7)
print(json.dumps([found.items, [float(score).hex() for score in found.scores], str(model.guarantee_)]))
"""

_FITTED: dict[tuple[type, bool], tuple[Model, Interactions]] = {}  # by suite, and whether ids are strings

Row = tuple[Array, Array]  # the items of one history, as numbers, and their values


@contextmanager
def raises(kind: type[BaseException] | tuple[type[BaseException], ...], *words: str) -> Iterator[None]:
    """Assert that the block raises an error whose message contains these words."""
    try:
        yield
    except kind as error:
        for word in words:
            assert word in str(error), f"{str(error)!r} does not say {word!r}"
    else:
        raise AssertionError(f"{kind} was expected")


class ModelConformance:
    """Subclass it in a test module and override `model`.

    Attributes:
        personal: Whether recommendations depend on the history, unlike those of a popularity list.
        n_users: How many users the small data sets have. Private models need more to learn anything.
        n_items_large: How many items the catalog of the memory test has.
        implicit: Whether the model learns from implicit feedback.
        explicit: Whether the model learns from ratings.
    """

    personal = True
    n_users = 150
    n_items_large = 8_000
    implicit = True
    explicit = True

    def model(self, **params: Any) -> Model:
        """A new, unfitted model."""
        raise NotImplementedError

    def fit(self, model: Model, ratings: Interactions) -> Model:
        """Fit a model. Override this to pass a ledger with reproducible noise."""
        return model.fit(ratings)

    # Data

    def ratings(self, *, strings: bool = False) -> Interactions:
        """Generated ratings from 1 to 5, or the same as implicit feedback for models that take no ratings."""
        made = movielens_like(self.n_users, 40, 20 * self.n_users, random_state=1).rescale(1, 5)
        if strings:
            columns = made.to_arrow().select(["user", "item", "rating"]).to_pydict().values()
            named = [(f"user {user}", f"film {item}", rating) for user, item, rating in zip(*columns, strict=True)]
            made = read(named, items=[f"film {item}" for item in made.items], value_range=(1, 5))
        return made if self.explicit else made.to_implicit()

    def _table(self, rows: list[tuple[Any, Any, float]], items: list[Any], *, implicit: bool = False) -> Interactions:
        """Users, items and ratings from 1 to 5; without ratings if `implicit`, or if the model takes none."""
        if implicit or not self.explicit:
            return read([row[:2] for row in rows], items=items)
        return read(rows, items=items, value_range=(1, 5))

    def checkerboard(self, *, implicit: bool) -> Interactions:
        """Users like only items of their own parity; the pairs (u, u mod 20) are missing."""
        rows = [
            (user, item, 5.0 if (user + item) % 2 == 0 else 1.0)
            for user in range(self.n_users)
            for item in range(20)
            if item != user % 20 and (not implicit or (user + item) % 2 == 0)
        ]
        return self._table(rows, list(range(20)), implicit=implicit)

    def _threads(self, n_jobs: int) -> Model:
        """A new model that uses this many threads, if it uses any."""
        model = self.model()
        return model.set_params(n_jobs=n_jobs) if "n_jobs" in model.get_params() else model

    def fitted(self, *, strings: bool = False) -> tuple[Model, Interactions]:
        """A copy of a model fitted to `ratings()`, once for all tests of the suite."""
        key = type(self), strings
        if key not in _FITTED:
            ratings = self.ratings(strings=strings)
            _FITTED[key] = self.fit(self.model(), ratings), ratings
        model, ratings = _FITTED[key]
        return copy.deepcopy(model), ratings

    def history(self, ratings: Interactions, at: int = 0) -> dict[Any, float]:
        """The history of the user at a position."""
        return ratings.history(ratings.users[at])

    @staticmethod
    def fresh(code: str, *arguments: str) -> str:
        """What the code prints in a new process; override it if there is a faster way."""
        command = [sys.executable, "-c", code, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    # Known answers

    def test_completes_an_implicit_checkerboard(self) -> None:
        if not (self.personal and self.implicit):
            return
        board = self.checkerboard(implicit=True)
        model = self.fit(self.model(), board)
        for user in (0, 1, 38, 39):
            best = model.recommend(board.history(user), n=1)
            assert best.items == [user % 20], f"user {user} got {best.items}"

    def test_completes_a_checkerboard_of_ratings(self) -> None:
        if not (self.personal and self.explicit):
            return
        board = self.checkerboard(implicit=False)
        model = self.fit(self.model(), board)
        for user in (0, 1, 38, 39):
            history = board.history(user)
            del history[(user + 1) % 20]
            liked, disliked = model.predict(history, [user % 20, (user + 1) % 20])
            if model._predicts_ratings:
                assert liked > 3.5, f"user {user}: {liked}"
                assert disliked < 2.5, f"user {user}: {disliked}"
            assert liked > disliked, f"user {user}: {liked} and {disliked}"

    # Parameters, fitting

    def test_parameters_are_stored_and_cloned(self) -> None:
        model = self.model()
        other = clone(model)
        assert repr(other.get_params()) == repr(model.get_params())
        assert all(vars(model)[name] is value for name, value in model.get_params().items())
        json.dumps(model.get_params())

    def test_fit_returns_the_model_and_a_clone_is_unfitted(self) -> None:
        ratings = self.ratings()
        model = self.model()
        assert self.fit(model, ratings) is model
        with raises(NotFitted, "fit"):
            clone(model).recommend({})

    def test_an_unfitted_model_says_so(self) -> None:
        model = self.model()
        calls: tuple[Callable[[], Any], ...] = (
            lambda: model.recommend({}),
            lambda: model.predict({}, []),
            lambda: model.embed({}),
            lambda: model.similar_items(1),
            lambda: model.explain({}, 1),
            model.statement,
            lambda: model.save("no such folder/model"),
            lambda: model.item_factors_,
            lambda: model.guarantee_,
        )
        for call in calls:
            with raises(NotFitted, "fit"):
                call()

    def test_a_failed_fit_changes_nothing(self) -> None:
        model, ratings = self.fitted()
        before = model.recommend(self.history(ratings))
        with raises(DiscreetError):
            model.fit([])
        after = model.recommend(self.history(ratings))
        assert before.items == after.items
        assert np.array_equal(before.scores, after.scores)

    def test_the_result_is_the_same_for_any_number_of_threads(self) -> None:
        if "n_jobs" not in self.model().get_params():
            return
        first, ratings = self.fitted()
        expected = first.recommend(ratings, n=5)
        for n_jobs in (1, 5):
            model = self.fit(self._threads(n_jobs), ratings)
            assert not _differing(first, model)
            batch = model.recommend(ratings, n=5)
            assert np.array_equal(batch.scores, expected.scores)
            assert np.array_equal(batch.numbers, expected.numbers)

    def test_the_order_of_the_rows_does_not_matter(self) -> None:
        model, ratings = self.fitted()
        table = ratings.to_arrow()
        shuffled = table.take(np.random.default_rng(0).permutation(len(table)))
        value, value_range = (None, None) if ratings.implicit else ("rating", ratings.value_range)
        again = read(shuffled, items=ratings.catalogue, value=value, value_range=value_range)
        assert not _differing(model, self.fit(self.model(), again))

    # Learned attributes

    def test_learned_attributes(self) -> None:
        model, ratings = self.fitted()
        m = ratings.n_items
        assert model.items_ == ratings.items
        assert model.item_factors_.shape[0] == m
        assert model.item_factors_.ndim == 2
        assert model.item_bias_.shape == (m,)
        for name in model._ARRAYS:
            assert np.isfinite(getattr(model, name)).all(), f"{name} is not finite"

    def test_nothing_about_users_is_kept(self) -> None:
        model, ratings = self.fitted()
        known = {*model.get_params(), *model._ARRAYS, *model._VALUES, "catalogue_", "guarantee_", "_statement"}
        model.recommend(ratings)
        model.recommend(self.history(ratings))
        for name, value in vars(model).items():
            if name not in known:
                held = [part for part in gc.get_referents(value) if isinstance(part, np.ndarray)]
                assert all(ratings.n_users not in array.shape for array in held), f"{name} stores something about users"
        assert all(ratings.n_users not in getattr(model, name).shape for name in model._ARRAYS)

    def test_it_carries_its_guarantee(self) -> None:
        model, _ = self.fitted()
        assert isinstance(model.guarantee_, Guarantee)
        statement = model.statement()
        assert Statement.parse(statement.json()).guarantee == model.guarantee_
        assert str(model.guarantee_) in str(statement)
        if not model.guarantee_.holds:
            assert str(model.guarantee_).startswith("NOT PRIVATE")

    # Serving

    def test_one_history_in_every_form(self) -> None:
        model, ratings = self.fitted()
        history = self.history(ratings)
        expected = model.recommend(history, n=5)
        assert isinstance(expected, Recommendations)
        assert len(expected) == 5
        assert list(expected.scores) == sorted(expected.scores, reverse=True)
        table = ratings.for_users([ratings.users[0]]).to_arrow().drop_columns(["user"])
        for form in (dict(reversed(history.items())), table):
            assert model.recommend(form, n=5).items == expected.items
        batch = model.recommend(ratings.for_users([ratings.users[0]]), n=5)
        assert isinstance(batch, BatchRecommendations)
        assert batch[ratings.users[0]].items == expected.items
        liked = model.recommend(list(history), n=5)
        assert len(liked) == 5
        assert not set(liked.items) & set(history)

    def test_a_batch_has_every_user_and_comes_in_blocks(self) -> None:
        model, ratings = self.fitted()
        batch = model.recommend(ratings, n=6)
        assert len(batch) == ratings.n_users
        last = ratings.n_users - 1
        assert batch[ratings.users[last]].items == model.recommend(self.history(ratings, last), n=6).items
        blocks = list(model.recommend_blocks(ratings, n=6))
        assert np.array_equal(np.concatenate([block.scores for block in blocks]), batch.scores)
        frame = batch.to_frame("pyarrow")
        assert frame.column_names[:4] == ["user", "item", "score", "rank"]

    def test_what_a_person_is_shown_does_not_depend_on_the_others(self) -> None:
        """To the last bit: alone and among 1 to 1,026 users, first, in the middle and last, in one or two threads.

        Joint differential privacy promises each person that what others are shown hardly depends on them.
        """
        model, ratings = self.fitted()
        rows, people, rng = _rows_of(ratings), _people(ratings), np.random.default_rng(0)
        alone = [_shown(model, table_of(model, [row]), [0])[0] for row in people]
        tables = []
        for turn, size in enumerate((1, 2, 5, 1025, 1026)):
            several = [rows[at] for at in rng.integers(0, len(rows), size)]
            places = {place: (turn + at) % len(people) for at, place in enumerate(sorted({0, size // 2, size - 1}))}
            for place, person in places.items():
                several[place] = people[person]
            tables.append((table_of(model, several), places))
        for n_jobs in (1, 2) if "n_jobs" in model.get_params() else (None,):
            if n_jobs is not None:
                model.set_params(n_jobs=n_jobs)
            for table, places in tables:
                for (place, person), found in zip(places.items(), _shown(model, table, list(places)), strict=True):
                    names = [name for name, value in found.items() if value != alone[person][name]]
                    assert not names, f"person {place} of {table.n_users}, {n_jobs} threads: {', '.join(names)}"

    def test_one_history_is_answered_as_a_table_of_one_is(self) -> None:
        model, ratings = self.fitted()
        items = ratings.items.to_list()
        everyone = table_of(model, _rows_of(ratings))
        _shown(model, everyone, [0])  # serving others first must not change anything
        for numbers, values in _people(ratings):
            history = {items[at]: float(value) for at, value in zip(numbers, values, strict=True)}
            table = table_of(model, [(numbers, values)])
            one, several = model.recommend(history, n=7), model.recommend(table, n=7)[0]
            assert one.items == several.items
            assert np.array_equal(one.scores, several.scores)
            assert np.array_equal(model.predict(history, items), model.predict(table, [(0, item) for item in items]))
            assert np.array_equal(model.embed(history), model.embed(table)[0])
            assert np.array_equal(model.query_vector(history), model.query_vector(table)[0])
            with single_threaded_blas():  # as while others are served
                why = model.explain(history, items[0])
            with threadpool_limits(2, "blas"):
                again = model.explain(history, items[0])
            assert why.score == again.score
            assert np.array_equal(why.contributions, again.contributions)

    def test_filters_combine(self) -> None:
        model, ratings = self.fitted()
        history = self.history(ratings)
        everything, seen = ratings.items.to_list(), list(history)
        unseen = [item for item in everything if item not in history]
        whole = model.recommend(history, n=len(everything))
        assert sorted(whole.items) == sorted(unseen)
        assert sorted(model.recommend(history, n=len(everything), exclude_seen=False).items) == sorted(everything)
        allow = [*unseen[:4], seen[0]]
        few = model.recommend(history, n=10, allow=allow, deny=unseen[:1])
        assert few.items == [item for item in whole.items if item in unseen[1:4]]
        assert model.recommend(history, n=3, allow=seen).items == []
        assert model.recommend(history, n=3, deny=everything).items == []
        assert model.recommend(history, n=2).items == whole.items[:2]

    def test_predictions_are_the_scores(self) -> None:
        model, ratings = self.fitted()
        history = self.history(ratings)
        found = model.recommend(history, n=8)
        predicted = model.predict(history, found.items)
        low, high = model.value_range_
        if not model._predicts_ratings:
            assert np.allclose(predicted, found.scores, rtol=1e-4, atol=1e-5)
        elif model._ranking is model._fold_in:
            assert np.allclose(predicted, np.clip(found.scores, low, high), rtol=1e-4, atol=1e-5)
        else:  # lists are ordered by something other than predicted ratings
            assert predicted.min() >= low
            assert predicted.max() <= high
        pairs = [(ratings.users[0], item) for item in found.items]
        assert np.array_equal(model.predict(ratings, pairs), predicted)
        everything = model.predict(ratings, ratings)
        assert everything.shape == (len(ratings),)
        assert np.isfinite(everything).all()

    def test_explanations_add_up(self) -> None:
        model, ratings = self.fitted()
        history = self.history(ratings, 3)
        best = model.recommend(history, n=1)
        why = model.explain(history, best.items[0])
        assert set(why.items) == set(history)
        assert np.isclose(why.baseline + why.contributions.sum(), why.score)
        assert np.isclose(why.score, best.scores[0], rtol=1e-3, atol=1e-4)

    def test_similar_items(self) -> None:
        model, ratings = self.fitted()
        item = ratings.items[3]
        for metric in ("cosine", "dot"):
            found = model.similar_items(item, n=5, metric=metric)
            assert len(found) == 5
            assert item not in found.items
            assert np.isfinite(found.scores).all()

    def test_vectors_rank_as_scores_do(self) -> None:
        model, ratings = self.fitted()
        history = self.history(ratings)
        ids, vectors = model.export_vectors("numpy")
        scores = vectors @ model.query_vector(history)
        found = model.recommend(history, n=len(ids), exclude_seen=False)
        by_vector = dict(zip(list(ids), scores, strict=True))
        ranked = np.array([by_vector[item] for item in found.items])
        assert (np.diff(ranked) <= 1e-3 * max(1.0, float(np.abs(ranked).max()))).all()
        assert model.embed(history).shape == (model.item_factors_.shape[1],)
        assert model.embed(ratings).shape == (ratings.n_users, model.item_factors_.shape[1])

    def test_unknown_items(self) -> None:
        model, ratings = self.fitted(strings=True)
        history = self.history(ratings)
        strange = {**history, "no such film": 3.0}
        expected = model.recommend(history, n=5)
        with raises(UnknownItem, "no such film", "on_unknown"):
            model.recommend(strange)
        assert model.recommend(strange, n=5, on_unknown="ignore").items == expected.items
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            assert model.recommend(strange, n=5, on_unknown="warn").items == expected.items
        assert any("no such film" in str(warning.message) for warning in said)
        with raises(UnknownItem, "allow"):
            model.recommend(history, allow=["no such film"])
        with raises(UnknownItem):
            model.similar_items("no such film")
        with raises(UnknownItem):
            model.predict(history, ["no such film"])
        assert np.isfinite(model.predict(history, ["no such film"], on_unknown="ignore")).all()
        with raises(DataError, "on_unknown"):
            model.recommend(history, on_unknown="guess")  # type: ignore[arg-type]

    def test_ids_come_back_in_their_type(self) -> None:
        model, ratings = self.fitted(strings=True)
        assert all(isinstance(item, str) for item in model.recommend(self.history(ratings)).items)
        ids = [uuid.UUID(int=number) for number in range(12)]
        rows = [(user, ids[(user + step) % 12], 3.0) for user in range(self.n_users) for step in range(5)]
        found = self.fit(self.model(), self._table(rows, ids)).recommend([ids[0]], n=3)
        assert all(isinstance(item, uuid.UUID) for item in found.items)

    def test_empty_and_giant_histories(self) -> None:
        model, ratings = self.fitted()
        nothings: tuple[Any, ...] = ({}, [])
        for nothing in nothings:
            found = model.recommend(nothing, n=5)
            assert len(found) == 5
            assert np.isfinite(found.scores).all()
            assert "no history" in found.note
            assert found.note in repr(found)
        assert np.isfinite(model.predict({}, ratings.items.to_list())).all()
        why = model.explain({}, ratings.items[0])
        assert why.items == []
        everything = dict.fromkeys(ratings.items.to_list(), model.value_range_[1])
        assert model.recommend(everything).items == []
        found = model.recommend(everything, exclude_seen=False, n=ratings.n_items)
        assert len(found) == ratings.n_items
        assert np.isfinite(found.scores).all()

    def test_bad_arguments(self) -> None:
        model, ratings = self.fitted()
        history = self.history(ratings)
        for n in (0, -1, 2.5, "3", None):
            with raises((DiscreetError, ValueError, TypeError), "n"):
                model.recommend(history, n=n)  # type: ignore[arg-type]
        for odd in ("a film", None, 7, {ratings.items[0]: float("nan")}):
            with raises(DiscreetError, "history"):
                model.recommend(odd)
        with raises(DataError, "metric"):
            model.similar_items(ratings.items[0], metric="guess")  # type: ignore[arg-type]
        if not model.implicit_:
            with raises(DataError, "range"):
                model.recommend({ratings.items[0]: 1e6})

    def test_constant_data(self) -> None:
        for items in ([0], [0, 1]):
            rows = [(user, item, 3.0) for user in range(self.n_users) for item in items]
            found = self.fit(self.model(), self._table(rows, [0, 1, 2])).recommend([0], n=3)
            assert np.isfinite(found.scores).all()
            assert 0 not in found.items

    # Storage and memory

    def test_saved_and_loaded_in_a_fresh_process(self) -> None:
        model, ratings = self.fitted(strings=True)
        history = self.history(ratings)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model"
            model.save(path)
            files = sorted(file.name for file in path.iterdir())
            assert files == ["factors.safetensors", "items.parquet", "model.json"]
            again = load(path)
            assert type(again) is type(model)
            assert again.get_params() == model.get_params()
            assert again.guarantee_ == model.guarantee_
            printed = self.fresh(_FRESH, str(path), json.dumps(history), type(model).__module__)
        expected = model.recommend(history, n=7)
        items, scores, sentence = json.loads(printed)
        assert items == expected.items
        assert scores == [float(score).hex() for score in expected.scores]
        assert sentence == str(model.guarantee_)

    def test_memory_of_a_batch_is_bounded(self) -> None:
        n_items, n_users = self.n_items_large, 2_000
        rng = np.random.default_rng(0)
        items = rng.integers(0, n_items, (n_users, 4)).tolist()
        rows = [(user, item, 1.0 + (user + item) % 5) for user in range(n_users) for item in set(items[user])]
        data = self._table(rows, list(range(n_items)))
        model = self.fit(self._threads(2), data)
        model.recommend(data.of_users(np.arange(10)), n=10)
        tracemalloc.start()
        try:
            model.recommend(data, n=10)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        scores = n_users * n_items * 4
        assert peak < scores / 2, f"{peak / 1e6:.0f} MB, where all scores at once would take {scores / 1e6:.0f} MB"


def _differing(one: Model, other: Model) -> list[str]:
    """The names of arrays in which two models differ."""
    return [name for name in one._ARRAYS if not np.array_equal(getattr(one, name), getattr(other, name))]


# Serving one person alone, and among others


def _rows_of(table: Interactions) -> list[Row]:
    """Every history of a table."""
    return [(table.indices[a:b], table.values[a:b]) for a, b in pairwise(table.indptr.tolist())]


def _people(table: Interactions) -> list[Row]:
    """Histories: none, a single item, and the shortest and longest of a table."""
    rows = sorted(_rows_of(table), key=lambda row: len(row[0]))
    items, values = rows[0]
    return [(items[:0], values[:0]), (items[:1], values[:1]), rows[0], rows[-1]]


def _shown(model: Model, table: Interactions, places: Sequence[int]) -> list[dict[str, Any]]:
    """Everything that the people at some positions of a table are shown, by name."""
    items = table.items.to_list()
    pairs = [(place, item) for place in places for item in items]
    everyone = pairs + [(user, items[user % len(items)]) for user in range(table.n_users)]
    lists = [
        model.recommend(table, n=len(items), exclude_seen=False),
        model.recommend(table, n=4, deny=items[:3]),
        model.recommend(table, n=4, allow=items[5:9]),
    ]
    predicted = model.predict(table, pairs).reshape(len(places), -1)
    among_all = model.predict(table, everyone)[: len(pairs)].reshape(len(places), -1)
    vectors, queries = model.embed(table), model.query_vector(table)
    return [
        {
            **{f"items of list {at}": found[place].items for at, found in enumerate(lists)},
            **{f"scores of list {at}": found[place].scores.tobytes() for at, found in enumerate(lists)},
            "notes": [found[place].note for found in lists],
            "predictions": predicted[row].tobytes(),
            "predictions among those for everyone": among_all[row].tobytes(),
            "vector": vectors[place].tobytes(),
            "query vector": queries[place].tobytes(),
        }
        for row, place in enumerate(places)
    ]
