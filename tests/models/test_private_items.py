"""A private choice of items: what it finds, what it costs, and that items that were not chosen leave no trace."""

from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import discreet
from discreet.data.catalogue import Catalogue
from discreet.data.interactions import Interactions
from discreet.errors import BudgetExceeded, DataError, ModelError, NotPublic, PrivacyError
from discreet.models.one_bit.model import perturb
from discreet.privacy.noise import InsecureSeededNoise

POPULAR = [f"film {item}" for item in range(12)]
BUDGET: dict[str, Any] = {"epsilon": 5.0, "delta": 1e-6}


def rows(*more: tuple[str, str, float]) -> list[tuple[str, str, float]]:
    """600 people with six of twelve films each, and other rows."""
    rng = np.random.default_rng(0)
    chosen = ((user, item) for user in range(600) for item in rng.choice(12, 6, replace=False))
    return [*((f"user {user:03}", POPULAR[item], float(1 + (user + item) % 5)) for user, item in chosen), *more]


def private(*more: tuple[str, str, float], **given: Any) -> Interactions:
    return discreet.read(rows(*more), items="private", value_range=(1, 5), **given)


SECRET = ("user 000", "a film that only one person has seen", 5.0)


def test_popular_items_are_chosen_and_no_others() -> None:
    table = private(SECRET, ("someone", "another film", 1.0))
    chosen = discreet.select_items(table, **BUDGET)
    assert chosen.items.to_list() == sorted(POPULAR)
    assert len(chosen) == 3600
    assert "someone" not in chosen.users  # who has none of the items
    assert chosen.history("user 000") == {item: value for user, item, value in rows() if user == "user 000"}
    statement = chosen.catalogue.selection
    assert statement is not None
    assert 4.99 < statement.guarantee.epsilon <= 5
    assert [release["label"] for release in statement.certificate["releases"]] == [
        "choice of items",
        "choice of more items",
    ]
    assert "film" not in statement.json()


def test_items_that_are_not_chosen_leave_no_trace() -> None:
    """The owner's table differs, and nothing else does."""
    models = []
    for table in (private(), private(SECRET, *((f"user {n:03}", f"rare {n}", 5.0) for n in range(5)))):
        ledger = discreet.Ledger(**BUDGET, threshold_delta=2e-7, noise_source=InsecureSeededNoise(3))
        models.append(discreet.DPALS(**BUDGET).fit(table, ledger=ledger))
    one, other = (model.statement() for model in models)
    for name in ("public_inputs", "notes", "guarantee", "title"):
        assert one.certificate[name] == other.certificate[name]
    first, second = ([{**r, "reservation": 0} for r in s.certificate["releases"]] for s in (one, other))
    assert first == second  # but for a random name
    assert models[0].items_ == models[1].items_
    assert "rare" not in other.json()


def test_the_order_of_items_is_that_of_their_ids() -> None:
    ids = ["10", "9", "b", "100", "a", "11"]
    people = [(f"u{n:03}", item) for n in range(400) for item in ids]
    for given in (people, people[::-1]):
        table = discreet.read([*given, ("u000", "1x")], items="private")
        assert discreet.select_items(table, **BUDGET).items.to_list() == sorted(ids)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize("kind", ["DPALS", "DPSVD", "Recommender", "DPFrankWolfe", "DPGradientDescent"])
def test_a_fit_chooses_items_itself(kind: str, adjacency: str, tmp_path: Any) -> None:
    table = private(SECRET)
    model = getattr(discreet, kind)(**BUDGET, adjacency=adjacency).fit(table)
    assert model.items_.to_list() == sorted(POPULAR)
    guarantee, statement = model.guarantee_, model.statement()
    assert guarantee.holds
    assert (guarantee.delta, guarantee.adjacency) == (1e-6, adjacency)
    assert 4.9 < guarantee.epsilon <= 5
    assert guarantee.cost.exposure == pytest.approx(2e-7)
    assert "choice of items" in str(statement)
    assert "items" not in statement.certificate["public_inputs"]
    model.save(tmp_path / "model")
    again = discreet.load(tmp_path / "model")
    assert again.guarantee_ == guarantee
    assert len(model.recommend({POPULAR[0]: 5.0}, n=3)) == 3


def test_a_preview_needs_no_items() -> None:
    preview = discreet.DPALS(**BUDGET).preview("private")
    assert preview.fits
    assert preview.cost.epsilon <= 5
    assert [line.label for line in preview.plan.lines][-1] == "fit to the chosen items"
    with pytest.raises(DataError, match="n_items"):
        discreet.DPALS(**BUDGET).preview("all")


def test_models_share_a_choice_and_each_includes_it() -> None:
    chosen = discreet.select_items(private(), epsilon=2, delta=1e-7)
    alone = discreet.DPALS(epsilon=1, delta=1e-6)
    fitted = alone.fit(chosen)
    assert fitted.guarantee_.delta == 1e-6
    assert fitted.guarantee_.epsilon > 1.5
    assert fitted.statement().includes(chosen.catalogue.selection)  # type: ignore[arg-type]
    train = discreet.splits.leave_k_out(chosen, k=1, by="random", random_state=0)[0]
    assert discreet.DPSVD(epsilon=1, delta=1e-6).fit(train).guarantee_.epsilon > 1.5
    with pytest.raises(PrivacyError, match="delta"):
        discreet.DPALS(epsilon=1, delta=1e-8).fit(chosen)


def test_a_search_includes_the_choice() -> None:
    chosen = discreet.select_items(private(), epsilon=2, delta=1e-7)
    model = discreet.DPSVD(epsilon=1, delta=1e-6)
    found = discreet.tune.search(model, {"rank": [1, 2]}, chosen, (3.0, 1e-6), trials=1.5)
    assert found.guarantee_.epsilon > 3
    assert found.guarantee_.cost.exposure > 0
    discreet.Statement.parse(found.statement().json())
    with pytest.raises(NotPublic, match="select_items"):
        discreet.tune.search(model, {"rank": [1, 2]}, private(), (3.0, 1e-6))


def test_more_data_has_the_items_of_the_first_choice() -> None:
    model = discreet.DPALS(**BUDGET).fit(private())
    assert model.statement().certificate["ledger"] is None  # nobody gave one, so that none has to go on
    again = discreet.read(rows(SECRET), items=model.catalogue_, value_range=(1, 5), on_unknown="drop")
    model.fit_more(again, epsilon=1)
    assert model.guarantee_.epsilon > 5
    with pytest.raises(DataError, match="private choice"):
        model.fit_more(discreet.select_items(private(), **BUDGET))


@pytest.mark.parametrize("loaded", [False, True])
def test_a_guarantee_does_not_include_another_choice_of_the_same_cost(loaded: bool, tmp_path: Any) -> None:
    """The two cost the same to the last bit, and yet are two."""
    one, other = (discreet.select_items(private(), **BUDGET) for _ in range(2))
    model = discreet.DPALS(epsilon=1, delta=1e-6).fit(one)
    if loaded:
        model.save(tmp_path / "model")
        model = discreet.load(tmp_path / "model")
    spent = model.guarantee_
    with pytest.raises(DataError, match="does not include"):
        model.fit_more(other)
    assert model.guarantee_ == spent
    again = discreet.read(rows(SECRET), items=model.catalogue_, value_range=(1, 5), on_unknown="drop")
    second = discreet.DPALS(epsilon=1, delta=1e-6).fit(again)  # from items of the same choice
    assert one.catalogue.selection is not None
    assert second.statement().includes(one.catalogue.selection)
    assert second.guarantee_.cost.exposure == spent.cost.exposure > 0
    assert model.fit_more(again).guarantee_.cost.exposure == spent.cost.exposure


def test_a_fit_is_not_resumed_with_another_choice(tmp_path: Any) -> None:
    one, other = (discreet.select_items(private(), **BUDGET) for _ in range(2))
    assert one.items == other.items
    model = discreet.DPPopularity(epsilon=1, delta=1e-6).fit(one, checkpoint=tmp_path)
    assert discreet.DPPopularity(epsilon=1, delta=1e-6).fit(one, checkpoint=tmp_path).guarantee_ == model.guarantee_
    given = discreet.read(rows(), items=Catalogue(sorted(POPULAR)), value_range=(1, 5))
    for table in (other, given):
        with pytest.raises(ModelError, match=r"begun with another .*choice"):
            discreet.DPPopularity(epsilon=1, delta=1e-6).fit(table, checkpoint=tmp_path)


def test_a_choice_is_not_forgotten() -> None:
    chosen = discreet.select_items(private(), **BUDGET)
    for items in ("private", discreet.observed_items_are_public, Catalogue([*POPULAR, "more"])):
        with pytest.raises(DataError, match="private choice"):
            chosen.with_public(items=items)
    assert chosen.with_public(value_range=(0, 6)).catalogue.selection is chosen.catalogue.selection
    lost = Catalogue(POPULAR, origin=chosen.catalogue.origin)
    with pytest.raises(DataError, match="statement"):
        discreet.DPALS(**BUDGET).fit(discreet.read(rows(), items=lost, value_range=(1, 5)))
    some = chosen.for_items(POPULAR[:3])
    assert "chosen by the owner" in some.public_inputs["items"]  # which no release says
    assert discreet.DPPopularity(**BUDGET).fit(some).guarantee_.cost.exposure > 0
    components = discreet.DPPCA(2, epsilon=1, delta=1e-6, row_norm=5.0).fit(chosen)
    assert components.guarantee_.cost.exposure > 0
    discreet.Statement.parse(components.statement().json())


def test_a_guarantee_of_choice_and_fit_has_the_terms_of_both() -> None:
    chosen = discreet.select_items(private(), **BUDGET)
    ledger = discreet.Ledger(adjacency="replace")
    with pytest.raises(PrivacyError, match="adjacency: the items were chosen with 'add-remove'"):
        discreet.DPALS(**BUDGET, adjacency="replace").fit(chosen, ledger=ledger)
    assert not ledger.events
    with pytest.raises(PrivacyError, match="unit: the items were chosen with 'user'"):
        perturb(chosen, epsilon=1.0, threshold=3.0)
    flipped = chosen.to_implicit(3).with_public(value_range=(0, 1))
    with pytest.raises(PrivacyError, match="unit: the items were chosen with 'user'"):
        discreet.OneBit("input", epsilon=1.0, perturbed=True).fit(flipped)


@pytest.mark.parametrize("largest", [7, 1 << 63])
def test_the_type_of_ids_does_not_tell_of_others(largest: int) -> None:
    """One person's number that needs all 64 bits would change everyone's type."""
    table = [(user, item) for user in range(600) for item in (9, 10)] + [(0, largest)]
    assert discreet.select_items(discreet.read(table, items="private"), **BUDGET).items.to_arrow().type == "int64"


def test_large_ids_are_chosen() -> None:
    table = discreet.read([(user, (1 << 63) + user % 2) for user in range(900)], items="private")
    assert discreet.select_items(table, **BUDGET).items.to_list() == [1 << 63, (1 << 63) + 1]


@pytest.mark.parametrize("item", [Decimal("1.5"), datetime(2020, 1, 1)])
def test_ids_that_are_written_by_the_others_are_refused(item: Any) -> None:
    ledger = discreet.Ledger()
    with pytest.raises(DataError, match="text or whole numbers"):
        discreet.select_items(discreet.read([(1, item), (2, item)], items="private"), **BUDGET, ledger=ledger)
    assert not ledger.events


def test_a_ledger_pays_for_choice_and_fit() -> None:
    table = private()
    ledger = discreet.Ledger(epsilon=8, delta=1e-6, threshold_delta=4e-7)
    discreet.DPALS(**BUDGET).fit(table, ledger=ledger)
    spent = ledger.spent.epsilon
    discreet.DPALS(epsilon=1, delta=1e-6).fit(table, ledger=ledger)  # next month
    assert spent < ledger.spent.epsilon <= 8
    with pytest.raises(PrivacyError, match="threshold_delta"):
        discreet.DPALS(epsilon=1, delta=1e-6).fit(table, ledger=ledger)
    assert ledger.open_reservations() == []


def test_nothing_is_spent_if_both_do_not_fit() -> None:
    table = private()
    for settings, error in (
        ({"epsilon": 8, "delta": 1e-6}, PrivacyError),
        ({"epsilon": 3, "delta": 1e-6, "threshold_delta": 3e-7}, BudgetExceeded),
        ({"epsilon": 5, "delta": 1e-6, "threshold_delta": 9e-7}, BudgetExceeded),
        ({"epsilon": 8, "delta": 1e-6, "threshold_delta": 3e-7, "adjacency": "replace"}, PrivacyError),
    ):
        ledger = discreet.Ledger(**settings)  # type: ignore[arg-type]
        with pytest.raises(error):
            discreet.DPALS(**BUDGET).fit(table, ledger=ledger)
        assert not ledger.spent.cost
    ledger = discreet.Ledger(epsilon=8, delta=1e-6)
    with pytest.raises(PrivacyError, match="threshold_delta"):
        discreet.select_items(table, **BUDGET, ledger=ledger)
    assert not ledger.spent.cost


def test_too_little_to_choose_with() -> None:
    with pytest.raises(DataError, match="none was chosen"):
        discreet.select_items(private(), epsilon=0.05, delta=1e-9)


@pytest.mark.parametrize("table", [discreet.read(rows(), items=POPULAR), rows()])
def test_public_items_are_not_chosen(table: Any) -> None:
    with pytest.raises(NotPublic, match="table"):
        discreet.select_items(table, **BUDGET)


def test_a_table_made_by_hand_is_checked_before_anything_is_spent() -> None:
    """Who had an item twice would add twice as much to its weight."""
    table, ledger = private(), discreet.Ledger(**BUDGET, threshold_delta=5e-7)
    indices = table.indices.copy()
    indices[1] = indices[0]
    with pytest.raises(DataError, match="make the table with"):
        discreet.select_items(replace(table, indices=indices), **BUDGET, ledger=ledger)
    assert not ledger.events
    assert len(discreet.select_items(table, **BUDGET, ledger=ledger))


def test_what_is_refused(tmp_path: Any) -> None:
    table = private()
    with pytest.raises(DataError, match="checkpoint"):
        discreet.DPALS(**BUDGET).fit(table, checkpoint=tmp_path / "fit")
    with pytest.raises(DataError, match="DPSGD"):
        discreet.DPSGD(**BUDGET).fit(table)
    bits = table.rescale(-1, 1)
    for unit in ({"unit": "user", "max_entries": 5}, {}):
        with pytest.raises(DataError, match="items cannot be private"):
            discreet.OneBit(**BUDGET, threshold=0.0, **unit).fit(bits)  # type: ignore[arg-type]
    with pytest.raises(NotPublic, match="select_items"):
        table.require_public()
    with pytest.raises(NotPublic, match="value_range"):
        discreet.DPALS(**BUDGET).fit(discreet.read(rows(), items="private"))
    with pytest.raises(PrivacyError, match="adjacency"):
        discreet.select_items(table, **BUDGET, adjacency="flip")
    with pytest.raises(PrivacyError, match="too little"):
        discreet.DPALS(epsilon=1e-9, delta=1e-6).fit(table)


def test_a_table_says_that_its_items_are_private(tmp_path: Any) -> None:
    table = private()
    assert repr(table) == "Interactions(3,600 of 600 users and private items)"
    assert repr(table.catalogue) == "Catalogue of private items"
    assert "items" not in table.public_inputs
    assert table.rescale(0, 1).catalogue.private
    assert table.for_items(POPULAR[:3]).catalogue.private
    assert table.to_implicit(3).catalogue.private
    table.to_disk(tmp_path / "table")
    assert Interactions.from_disk(tmp_path / "table").catalogue.private
    chosen = discreet.select_items(table, **BUDGET)
    chosen.to_disk(tmp_path / "chosen")
    again = Interactions.from_disk(tmp_path / "chosen").catalogue.selection
    assert again is not None
    assert chosen.catalogue.selection is not None
    assert again.certificate == chosen.catalogue.selection.certificate
    cached = private(cache=tmp_path / "cached")
    assert cached.catalogue.private
    public = discreet.read(rows(), items=Catalogue(POPULAR), value_range=(1, 5))
    assert public.with_public(items="private").catalogue.private


def test_baselines_without_privacy_take_any_table() -> None:
    assert not discreet.Popularity().fit(private()).guarantee_.holds


def test_a_table_in_spark_is_refused() -> None:
    from discreet.data.spark import _catalogue

    with pytest.raises(DataError, match="one machine"):
        _catalogue(None, None, "private", written=False)  # type: ignore[arg-type]
