"""Apache Spark: a private recommender as a stage of a pipeline, fitted where the table is."""

import tempfile
from pathlib import Path

from pyspark.ml import Pipeline
from pyspark.ml.feature import SQLTransformer
from pyspark.sql import SparkSession

import discreet


def main(spark: SparkSession, folder: Path) -> None:
    """Do it all in a folder."""
    # A table as a warehouse might have it. It stays there: no row of it comes to this process again.
    people = discreet.datasets.movielens_like(2_000, 100, 40_000, random_state=0)
    people.to_frame("pandas").to_parquet(folder / "ratings.parquet")
    ratings = spark.read.parquet(str(folder / "ratings.parquet"))

    # Partitions add up integers; this process adds the noise, once, and keeps the ledger.
    public = {"items": people.catalogue, "value_range": (0.5, 5)}
    recent = SQLTransformer(statement="SELECT user, item, rating FROM __THIS__ WHERE rating IS NOT NULL")
    private = discreet.spark.Recommender(discreet.DPALS(epsilon=1, delta=1e-6), reading=public, n=3)
    fitted = Pipeline(stages=[recent, private]).fit(ratings)
    print(fitted.stages[-1].model.guarantee_)

    # Each user's recommendations are computed from their own rows, in the partition that has them.
    fitted.transform(ratings).where("user < 2").orderBy("user", "rank").show()
    fitted.write().overwrite().save(str(folder / "pipeline"))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(SparkSession.builder.getOrCreate(), Path(name))
