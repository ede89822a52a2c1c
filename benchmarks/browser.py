"""Folding a user in and ranking 20,000 items at rank 64, by the JavaScript client in Chromium.

python benchmarks/browser.py
"""

import shutil

import numpy as np
from playwright.sync_api import sync_playwright

import discreet
from discreet.web import export

ITEMS, RANK, RATED = 20_000, 64, (5, 50, 500)

RUN = """async (rated) => {
    const { Model } = await import("/client/discreet.js");
    const begun = performance.now();
    const model = await Model.load("/model/");
    const loaded = performance.now() - begun;
    const times = {};
    for (const count of rated) {
        const history = model.ids.slice(0, count).map((id, i) => [id, 1 + (i % 5)]);
        times[count] = [];
        for (let i = 0; i < 30; i++) {
            history[0][1] = 1 + (i % 5);
            const start = performance.now();
            model.recommend(history, { n: 10 });
            times[count].push(performance.now() - start);
        }
    }
    return { loaded, times };
}"""


def main() -> None:
    """Make a model, export it, and time the client."""
    ratings = discreet.datasets.movielens_like(5_000, ITEMS, 200_000, random_state=0)
    model = discreet.ALS(rank=RANK, n_steps=1).fit(ratings)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for precision in ("float32", "float16", "int8"):
            files = export(model, precision=precision, not_private=True).files
            page = browser.new_page()
            page.route("**/*", lambda route: route.fulfill(**answer(files, route.request.url)))  # noqa: B023
            page.goto("http://localhost/icon.svg")
            found = page.evaluate(RUN, RATED)
            print(f"{precision}: {len(files['model/arrays.bin']) / 1e6:.1f} MB, loaded in {found['loaded']:.0f} ms")
            for count, times in found["times"].items():
                print(
                    f"  {count} ratings: first {times[0]:.1f} ms, median {np.median(times):.1f}, worst {max(times):.1f}"
                )
            page.close()
        browser.close()


def answer(files: dict[str, bytes], url: str) -> dict[str, object]:
    """A file of the site, as if from a server."""
    name = url.removeprefix("http://localhost/")
    kinds = {"js": "text/javascript", "svg": "image/svg+xml"}
    return {"body": files[name], "content_type": kinds.get(name.rpartition(".")[2], "application/octet-stream")}


if __name__ == "__main__":
    main()
