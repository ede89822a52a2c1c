"""The page in a real Chromium: as somebody with a mouse, a keyboard, a phone or no network would use it."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import discreet
from discreet.data.catalogue import Catalogue
from discreet.models.base import Model
from discreet.web import export
from tests.web.hosting import hosted

Files = dict[str, bytes]
Open = Callable[..., Any]
CURVE = {
    "metric": "rmse",
    "points": [{"epsilon": e, "value": 1 - e / 20} for e in (0.5, 1, 2)],
    "references": {"x": 0.8},
}


@pytest.fixture(scope="module")
def files(films: Model) -> Files:
    return export(films, title="Film evening", tradeoff=CURVE, not_private=True, exact_metrics_may_be_public=True).files


@pytest.fixture(scope="module")
def address(files: Files) -> Iterator[str]:
    with hosted(files) as url:
        yield url


@pytest.fixture
def opened(browser: Any, address: str) -> Iterator[Open]:
    """Opens the page as somebody new; whatever it complains about fails the test."""
    complaints: list[str] = []
    contexts: list[Any] = []

    def open_page(url: str = address, **device: Any) -> Any:
        contexts.append(browser.new_context(**device))
        page = contexts[-1].new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda message: message.type == "error" and complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(url)
        page.wait_for_selector("#recommendations li, #failure:not([hidden])")
        return page

    yield open_page
    for page in (page for context in contexts for page in context.pages):
        page.evaluate("1")  # what it has complained of by now has arrived
    found = list(complaints)  # closing a page that still loads its service worker is an error of its own
    for context in contexts:
        context.close()
    assert not [text for text in found if "404" not in text], found


def rate(page: Any, query: str, stars: int) -> None:
    """Find a title and rate it, with the mouse."""
    page.fill("#search", query)
    page.locator("#found li").first.click()
    page.locator("#history li").first.locator("label.star").nth(stars - 1).click()


def recommended(page: Any) -> list[str]:
    names: list[str] = page.locator("#recommendations .name").all_inner_texts()
    return names


def kept(page: Any) -> Any:
    return page.evaluate("Object.entries(localStorage).filter(([key]) => key !== 'discreet:theme')")


def test_rate_and_recommend_as_python_does(opened: Open, films: Model) -> None:
    page = opened()
    assert page.title() == "Film evening"
    assert "average rating" in page.inner_text("#note")
    before = recommended(page)
    rate(page, "film 7", 5)
    rate(page, "film 23", 1)
    assert "the 2 things you rated" in page.inner_text("#note")
    after = recommended(page)
    assert after != before
    history = {int(item): rating for item, rating in json.loads(kept(page)[0][1])["ratings"]}
    assert sorted(history.values()) == [1, 5]
    assert after == films.recommend(history, n=12).titles
    assert "Because" in page.inner_text("#recommendations li:first-child .why")
    page.click("#more")
    assert len(recommended(page)) == 24
    page.locator("#recommendations li").first.get_by_text("Not for me").click()
    assert after[0] not in recommended(page)


def test_reload_keeps_the_history_and_delete_removes_it(opened: Open) -> None:
    page = opened()
    rate(page, "film 7", 4)
    shown = recommended(page)
    page.reload()
    page.wait_for_selector("#history li")
    assert recommended(page) == shown
    assert page.locator("#history .star.on").count() == 4
    with page.expect_download() as download:
        page.click("#save")
    saved = json.loads(download.value.path().read_text())
    assert [row["rating"] for row in saved["ratings"]] == [4]
    page.click("#clear")
    page.click("#confirm-no")
    assert kept(page)
    page.click("#clear")
    page.click("#confirm-yes")
    assert kept(page) == []
    page.reload()
    page.wait_for_selector("#suggestions li")
    assert not page.locator("#history li").count()


def test_a_history_that_is_not_ours_is_no_trouble(opened: Open) -> None:
    page = opened()
    for content in ("nonsense", '{"ratings": [["7", 99], ["no such", 3], ["8", 4]], "hidden": ["gone"]}'):
        page.evaluate("text => localStorage.setItem('discreet:/', text)", content)
        page.reload()
        page.wait_for_selector("#recommendations li")
    assert page.locator("#history li").count() == 1


def test_no_request_carries_a_rating_and_none_is_made_after_loading(opened: Open, address: str) -> None:
    page = opened()
    page.evaluate("navigator.serviceWorker.ready.then(() => null)")
    page.get_by_text("Not one request since").wait_for()
    asked: list[Any] = []

    def note(request: Any) -> None:
        asked.append(request)

    page.context.on("request", note)  # of the page and of its service worker
    rate(page, "film 7", 5)
    rate(page, "film 23", 2)
    page.locator("#recommendations .name").first.click()
    page.locator(".chip").first.click()
    page.click("#about [aria-label=Close]")
    page.locator("#map").hover()
    assert "Not one request" in page.inner_text("#silence")
    assert [request.url for request in asked] == []
    page.reload()
    page.wait_for_selector("#history li")
    page.get_by_text("Not one request since").wait_for()
    assert asked
    for request in asked:
        assert request.method == "GET"
        assert request.post_data is None
        assert request.url.startswith(address)
        assert "?" not in request.url
        assert "rating" not in json.dumps(request.headers)


def test_a_request_would_be_told(opened: Open) -> None:
    page = opened()
    page.get_by_text("Not one request since").wait_for()
    page.evaluate("fetch('icon.svg')")
    page.get_by_text("One request since").wait_for()


def test_without_a_network(opened: Open) -> None:
    page = opened()
    page.get_by_text("Not one request since").wait_for()
    page.context.set_offline(True)
    rate(page, "film 7", 5)
    assert "the one thing you rated" in page.inner_text("#note")
    page.reload()
    page.wait_for_selector("#history li")
    rate(page, "film 23", 5)
    assert "the 2 things" in page.inner_text("#note")


def test_another_site_of_the_same_host_keeps_its_copy(browser: Any, films: Model) -> None:
    sites = {name: export(films, title=f"Evening {name}", not_private=True).files for name in "ab"}
    files = {f"{name}/{path}": content for name, own in sites.items() for path, content in own.items()}
    files |= {f"{name}/": own["index.html"] for name, own in sites.items()}
    with hosted(files) as url:
        context = browser.new_context()
        pages = [context.new_page() for _ in sites]
        for page, name in zip(pages, sites, strict=True):
            page.goto(f"{url}{name}/index.html")
            page.get_by_text("Not one request since").wait_for()
        context.set_offline(True)
        for page, name in zip(pages, sites, strict=True):
            page.reload()
            page.wait_for_selector("#recommendations li")
            assert page.title() == f"Evening {name}"
        context.close()


def test_by_keyboard_alone(opened: Open) -> None:
    page = opened()
    press = page.keyboard.press
    press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    while page.evaluate("document.activeElement.id") != "search":
        press("Tab")
    page.keyboard.type("film 2")
    press("ArrowDown")
    press("ArrowUp")
    assert page.get_attribute("#search", "aria-activedescendant") == "found-0"
    press("Enter")
    press("ArrowRight")  # from the first star, which has the focus, to the second
    press("ArrowRight")
    assert page.locator("#history .star.on").count() == 3
    assert page.evaluate("document.activeElement.value") == "3"
    while page.evaluate("!document.activeElement.closest('#recommendations')"):
        press("Tab")
    title = page.evaluate("document.activeElement.textContent")
    press("Enter")
    assert page.inner_text("#about-title") == title
    press("Escape")
    assert not page.evaluate("document.getElementById('about').open")
    assert page.evaluate("document.activeElement.textContent") == title
    page.focus("#map")
    press("+")
    press("ArrowLeft")
    assert page.inner_text("#map-label").startswith("Film")
    press("Enter")
    assert page.inner_text("#about-title").startswith("Film")


def test_why_and_similar(opened: Open, films: Model) -> None:
    page = opened()
    rate(page, "film 7", 5)
    page.locator("#recommendations .name").first.click()
    title = page.inner_text("#about-title")
    assert page.locator("#about .reasons li").first.inner_text().startswith("Film 7")
    alike = films.similar_items(int(title.split()[1]), 6).titles
    assert page.locator("#about .chip").all_inner_texts() == alike
    page.locator("#about label.star").nth(1).click()
    assert "if you had not rated it" in page.inner_text("#about .verdict")
    assert page.locator("#history li").count() == 2
    page.mouse.click(5, 5)  # beside the dialog
    assert not page.locator("#about").is_visible()


PAINTED = """() => {
    const map = document.getElementById("map");
    const { data } = map.getContext("2d").getImageData(0, 0, map.width, map.height);
    const colors = new Set();
    for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 200) colors.add(`${data[i]},${data[i + 1]},${data[i + 2]}`);
    return colors.size;
}"""  # noqa: E501


def test_the_map_renders_zooms_and_tells(opened: Open, films: Model) -> None:
    page = opened()
    page.locator("#map").scroll_into_view_if_needed()
    assert page.evaluate(PAINTED) > 20
    picture = page.locator("#map").screenshot()
    page.click("#zoom-in")
    page.locator("#map").hover(position={"x": 5, "y": 5})
    assert page.locator("#map").screenshot() != picture
    page.click("#zoom-all")
    box = page.locator("#map").bounding_box()
    for step in range(200):  # over the map, until a point is met
        page.mouse.move(box["x"] + box["width"] * (0.2 + 0.003 * step), box["y"] + box["height"] / 2)
        if page.locator("#map-label").is_visible():
            break
    assert page.inner_text("#map-label") in {f"Film {item}" for item in films.items_}


def test_the_privacy_panel(opened: Open, ratings: discreet.Interactions) -> None:
    page = opened()
    assert "Not private" in page.inner_text("#privacy")  # its noise had a seed
    assert page.locator(".tradeoff circle:not(.own)").count() == 3
    assert "lower is better" in page.inner_text(".tradeoff")
    assert "no guarantee covers them" in page.inner_text(".tradeoff")
    model = discreet.DPALS(epsilon=1, delta=1e-6).fit(ratings)
    with hosted(export(model).files) as url:
        page = opened(url)
        said = page.inner_text("#privacy")
        assert "ε = 1" in said
        assert "at most a factor of 2.72" in said
        budget = page.inner_text("#privacy .tiles article:nth-child(3)")
        assert "%" in budget
        assert "How well each title is liked" in budget
        for label in {release["label"] for release in model.statement().certificate["releases"]}:
            assert label not in said
        page.get_by_text("word for word").click()
        assert str(model.guarantee_) in page.inner_text("#privacy")
        assert not page.locator(".tradeoff").count()


def test_lists_and_ratings_of_their_own(opened: Open, two_heads: Model) -> None:
    """Lists are ordered by what people choose, each card has the predicted rating, and reasons have no numbers."""
    with hosted(export(two_heads, not_private=True).files) as url:
        page = opened(url)
        assert "ranked by popularity" in page.inner_text("#note")
        for title, stars in (("film 7", 5), ("film 23", 1), ("film 31", 4)):
            rate(page, title, stars)
        history = {int(item): rating for item, rating in json.loads(kept(page)[0][1])["ratings"]}
        found = two_heads.recommend(history, n=12)
        assert recommended(page) == found.titles
        expected = [f"{rating:.1f} ★" for rating in two_heads.predict(history, found.items)]
        assert page.locator("#recommendations .value").all_inner_texts() == expected
        page.locator("#recommendations .name").nth(5).click()
        assert expected[5] in page.inner_text("#about .verdict")
        reasons = page.inner_text("#about .reasons")
        assert "a lot" in reasons
        assert "on your list" in reasons
        assert not re.search(r"[+−]\d|\d\.\d", reasons)


def test_scales_other_than_stars(opened: Open, ratings: discreet.Interactions) -> None:
    """They are shown as what they are."""
    values = ((ratings.values - 2.75) * 4).astype(np.float32)
    model = discreet.MeanRating("both").fit(replace(ratings, values=values, value_range=(-10.0, 10.0)))
    with hosted(export(model, not_private=True).files) as url:
        page = opened(url)
        page.fill("#search", "film 7")
        page.locator("#found li").first.click()
        steps = page.locator("#history li").first.locator("label.step")
        assert [text.split()[-1] for text in steps.all_inner_texts()] == ["−10", "−5", "0", "5", "10"]
        steps.first.click()
        assert [rating for _, rating in json.loads(kept(page)[0][1])["ratings"]] == [-10]
        page.locator("#recommendations .name").first.click()
        assert "from −10 to 10" in page.inner_text("#about .verdict")
        assert "★" not in page.inner_text("#app")


def test_a_title_in_any_text_column(opened: Open, ratings: discreet.Interactions) -> None:
    model = discreet.MeanRating("item").fit(ratings)
    columns = {"genres": ratings.catalogue.column("genres"), "Werk": [f"Opus {n}" for n in range(80)]}
    model.catalogue_ = Catalogue(model.items_, pa.table(columns))
    model._certify(model.statement())
    with hosted(export(model, not_private=True).files) as url:
        page = opened(url)
        assert recommended(page)[0].startswith("Opus ")
        page.fill("#search", columns["genres"][5].split("|")[0])  # and it is found by what else is known of it
        assert page.locator("#found li small").first.inner_text()


def test_a_model_that_knows_no_tastes_has_no_map_and_says_that_its_list_is_of_what_is_popular(
    opened: Open, ratings: discreet.Interactions
) -> None:
    with hosted(export(discreet.MeanRating("both").fit(ratings), not_private=True).files) as url:
        page = opened(url)
        assert not page.locator("#map-section").is_visible()
        assert not page.locator("#map-link").is_visible()
        page.fill("#search", "film 7")
        page.locator("#found li").first.click()
        page.locator("#history li").first.locator("label.star").nth(4).click()
        assert set(page.locator("#recommendations .why").all_inner_texts()) == {"Because many people like it"}


def test_titles_that_are_whole_texts_are_cut(opened: Open) -> None:
    page, text = opened(), "A story that goes on and on " * 20
    cut = page.evaluate("async (text) => (await import('/dom.js')).clipped(text)", text)
    assert len(cut) < 61
    assert cut.endswith("…")
    page.evaluate("text => (document.querySelector('#recommendations .name').textContent = text)", text)
    assert page.locator("#recommendations .name").first.bounding_box()["height"] < 150


def test_a_bound_is_rounded_up(opened: Open) -> None:
    values = "[Math.exp(5), Math.exp(1), 1, 0.3, 1234567]"
    found = opened().evaluate(f"async () => {values}.map((await import('/dom.js')).atMost)")
    assert found == ["149", "2.72", "1", "0.3", "1240000"]


def test_implicit_feedback_is_liked(opened: Open, ratings: discreet.Interactions) -> None:
    model = discreet.ALS(rank=4, n_steps=3).fit(ratings.to_implicit())
    with hosted(export(model, not_private=True).files) as url:
        page = opened(url)
        page.locator("#suggestions .heart").first.click()
        assert page.locator("#history .heart[aria-pressed=true]").count() == 1
        page.fill("#search", "film 3")
        page.keyboard.press("Enter")
        assert page.locator("#history li").count() == 2
        assert "the 2 things you liked" in page.inner_text("#note")
        assert "rated" not in page.inner_text("#app")


def test_opened_as_a_file_it_says_what_it_needs(browser: Any, films: Model, tmp_path: Path) -> None:
    export(films, not_private=True).write(tmp_path / "site")
    page = browser.new_page()
    page.goto((tmp_path / "site" / "index.html").as_uri())
    assert "python3 -m http.server" in page.inner_text("#loading")


@contextmanager
def broken(files: Files, **changes: bytes | None) -> Iterator[str]:
    names = {f"model/{name.replace('__', '.')}": content for name, content in changes.items()}
    whole = {name: content for name, content in {**files, **names}.items() if content is not None}
    with hosted(whole) as url:
        yield url


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("model__json", lambda _: None, "model.json could not be fetched: the server says 404"),
        ("model__json", lambda old: old[:-9], "not valid JSON"),
        ("model__json", lambda old: old.replace(b'"version":2', b'"version":1', 1), "version 2"),
        ("arrays__bin", lambda old: old[:-8], "arrays.bin is not the file that was exported"),
        ("arrays__bin", lambda old: bytes([old[0] ^ 64]) + old[1:], "arrays.bin is not the file that was exported"),
        ("items__json", lambda old: old.replace(b"Film 1", b"Film X"), "items.json is not the file"),
        (
            "model__json",
            lambda old: re.sub(rb'"offset_penalty":[\d.e-]+', b'"offset_penalty":99', old),
            "scores differ",
        ),
    ],
)
def test_a_broken_model_is_said_to_be_broken(
    name: str, change: Callable[[bytes], bytes | None], reason: str, opened: Open, files: Files
) -> None:
    old = files[f"model/{name.replace('__', '.')}"]
    assert change(old) != old
    with broken(files, **{name: change(old)}) as url:
        page = opened(url)
        assert reason in page.inner_text("#failure")
        assert not page.locator("#app").is_visible()


@pytest.mark.parametrize("setting", ["slope", "offset_penalty"])
def test_both_heads_are_checked(setting: str, opened: Open, two_heads: Model) -> None:
    """The grading of lists, and the regression of ratings."""
    files = export(two_heads, not_private=True).files
    changed = re.sub(rf'"{setting}":[\d.e-]+'.encode(), f'"{setting}":99'.encode(), files["model/model.json"])
    assert changed != files["model/model.json"]
    with broken(files, model__json=changed) as url:
        assert "scores differ" in opened(url).inner_text("#failure")


def test_the_page_of_our_own_server(opened: Open, films: Model) -> None:
    """Under the headers that `discreet serve` sends, which forbid all that the page does not need."""
    import uvicorn

    from discreet.web.connections import listen, settings
    from discreet.web.server import application

    app = application(films, export(films, not_private=True))
    listening, running = listen("127.0.0.1", 0), uvicorn.Server(settings(app))
    thread = threading.Thread(target=running.run, args=(listening,))
    thread.start()
    try:
        page = opened(f"http://127.0.0.1:{listening[0].getsockname()[1]}/")
        page.get_by_text("Not one request since").wait_for()
        rate(page, "film 7", 5)
        assert "the one thing you rated" in page.inner_text("#note")
    finally:
        running.should_exit = True
        thread.join()


def test_titles_are_text_never_html(opened: Open, ratings: discreet.Interactions) -> None:
    model = discreet.MeanRating("item").fit(ratings)
    evil = "<img src=x onerror=alert(1)>"
    model.catalogue_ = Catalogue(model.items_, pa.table({"title": [evil] * 80, "genres": [evil] * 80}))
    model._certify(model.statement())
    with hosted(export(model, title=evil, not_private=True).files) as url:
        page = opened(url)
        assert recommended(page)[0] == evil
        assert page.locator("main img").count() == 0
        assert not page.locator("#map").is_visible()  # averages have no vectors


DEVICES: dict[str, dict[str, Any]] = {
    "desktop": {"viewport": {"width": 1280, "height": 900}},
    "phone, dark": {"viewport": {"width": 360, "height": 740}, "color_scheme": "dark", "has_touch": True},
}


def axe() -> str:
    return (resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("device", DEVICES)
def test_axe_finds_nothing_serious(device: str, opened: Open) -> None:
    page = opened(**DEVICES[device], bypass_csp=True)  # for axe, which is no part of the page
    page.evaluate(axe())
    rate(page, "film 7", 5)
    page.fill("#search", "film")
    page.locator("details summary").first.click()
    objections(page)
    page.locator("#recommendations .name").first.click()
    objections(page)
    page.keyboard.press("Escape")
    page.locator("#clear").click()
    assert page.locator("#confirm").is_visible()
    objections(page)


@pytest.mark.parametrize("device", DEVICES)
def test_axe_finds_nothing_serious_when_there_is_no_model(device: str, opened: Open, files: Files) -> None:
    with broken(files, model__json=None) as url:
        page = opened(url, **DEVICES[device], bypass_csp=True)
        assert page.locator("#failure").is_visible()
        page.evaluate(axe())
        objections(page)


def objections(page: Any) -> None:
    """There is nothing that axe objects to, not even lightly."""
    found = page.evaluate("axe.run()")["violations"]
    assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []


def test_a_phone_needs_no_sideways_scrolling(opened: Open) -> None:
    page = opened(**DEVICES["phone, dark"])
    rate(page, "film 7", 5)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.click("#theme")
    page.reload()
    page.wait_for_selector("#recommendations li")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    assert len(recommended(page)) == 6
