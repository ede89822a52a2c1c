"""Ratings, end to end: read, plan, train, compare, recommend, save."""

import tempfile
from pathlib import Path

import discreet


def main(folder: Path) -> None:
    """Do it all in a folder."""
    # A table and a catalog, as a shop might have them.
    people = discreet.datasets.movielens_like(4_000, 300, 160_000, random_state=0)
    people.to_frame("pandas").to_csv(folder / "ratings.csv", index=False)
    people.catalogue.to_frame("pandas").to_csv(folder / "films.csv", index=False)

    # What is public is declared; it must not be read off the ratings.
    ratings = discreet.read(folder / "ratings.csv", items=folder / "films.csv", value_range=(0.5, 5))
    train, _, test = discreet.splits.holdout(ratings, test=0.1, random_state=0)

    private = discreet.DPALS(epsilon=1, delta=1e-6, features=["genres"])
    print(private.preview(ratings.n_items), "\n")  # before any rating is touched

    models = {"DPALS, epsilon 1": private, "ALS, not private": discreet.ALS(), "own mean": discreet.MeanRating("user")}
    for name, model in models.items():
        score = discreet.evaluate(model.fit(train), test, history=train, metrics="rmse", confidence=None)
        print(f"{name:18} RMSE {score['rmse']:.3f}")  # exact, about people: for their owner's eyes

    history = {3: 5.0, 14: 4.5, 15: 1.0}  # of somebody who was not in the data
    found = private.recommend(history, n=5)
    print("\n", found, sep="")
    print(private.explain(history, found.items[0]))

    private.save(folder / "model")
    (folder / "statement.html").write_text(private.statement().html(), encoding="utf-8")
    print("\n", discreet.load(folder / "model").guarantee_, sep="")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
