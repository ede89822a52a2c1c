"""Implicit feedback: what people played, at several epsilons, against popularity and a model without privacy."""

import discreet


def main() -> None:
    """Compare, and recommend."""
    plays = discreet.datasets.movielens_like(6_000, 300, 200_000, random_state=0).to_implicit(4)
    split = discreet.splits.held_out_users(plays, valid=100, test=500)
    models = {
        "popularity, not private": discreet.Popularity(),
        "DPSVD, epsilon 1": discreet.DPSVD(epsilon=1, delta=1e-6),
        "DPSVD, epsilon 5": discreet.DPSVD(epsilon=5, delta=1e-6),
        "ALS, not private": discreet.ALS(rank=16),
    }
    for name, model in models.items():
        model.fit(split.train)
        score = discreet.evaluate(
            model, split.test.target, history=split.test.query, metrics="recall@20", confidence=None
        )
        print(f"{name:24} recall@20 {score['recall@20']:.3f}")
    private = models["DPSVD, epsilon 5"]
    print("\n", private.recommend([3, 17], n=5), sep="")  # the items that somebody played
    print("\n", private.guarantee_, sep="")


if __name__ == "__main__":
    main()
