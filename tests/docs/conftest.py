"""The files that the pages speak of, made up."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

import discreet


@pytest.fixture(scope="session")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    made = discreet.datasets.movielens_like(3_000, 200, 90_000, random_state=0)
    names = {"user": "userId", "item": "movieId", "rating": "rating"}
    ratings = made.to_frame("pandas")[list(names)].rename(columns=names)
    ratings["timestamp"] = range(len(ratings))
    for name, part in (("ratings", ratings), ("test", ratings[::10]), ("train", ratings.drop(ratings.index[::10]))):
        part.to_parquet(folder / f"{name}.parquet")
    ratings.to_csv(folder / "ratings.csv", index=False)
    movies = pd.DataFrame({"movieId": list(made.items), "title": [f"Film {i}" for i in made.items], "genres": "Drama"})
    movies.to_csv(folder / "movies.csv", index=False)
    discreet.MeanRating("both").fit(made).save(folder / "model")
    settings = ["source = 'ratings.parquet'", "model = 'als'", "items = 'movies.csv'", "range = [0.5, 5]"]
    (folder / "train.toml").write_text("\n".join([*settings, "out = 'model'", "[set]", "rank = 16"]))
    return folder


@pytest.fixture
def tables(_made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with ratings, a catalog, a model that is not private, and a configuration."""
    shutil.copytree(_made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path
