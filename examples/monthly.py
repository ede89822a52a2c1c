"""A year on one budget: each month's model starts from the last one's, and the ledger refuses the thirteenth."""

import math
import tempfile
from pathlib import Path

import discreet

DELTA = 1e-6


def until(number: int) -> discreet.Interactions:
    """What people did until then; yours: discreet.read("SELECT ... WHERE month <= ...", connection=...)."""
    return discreet.datasets.movielens_like(1_000, 100, 20_000, random_state=number)


def main(folder: Path) -> None:
    """Spend the budget."""
    url = f"sqlite:///{folder}/ledger.db"
    whole = discreet.account(epsilon=3, delta=DELTA)
    monthly = math.floor(discreet.account(mu=whole.mu / math.sqrt(12), delta=DELTA).epsilon * 1000) / 1000
    print(f"a budget of epsilon 3 for twelve fits: {monthly} each, since mu^2 adds up and epsilon does not")

    ledger = discreet.Ledger(url, epsilon=3, delta=DELTA)
    discreet.DPALS(epsilon=monthly, delta=DELTA).fit(until(1), ledger=ledger).save(folder / "model")
    for number in range(2, 14):
        ledger = discreet.Ledger(url)  # another process, next month: it finds its settings there
        model = discreet.load(folder / "model")
        try:
            model.fit_more(until(number), ledger, epsilon=monthly)
        except discreet.errors.BudgetExceeded as error:
            print(f"month {number}: {error}")
            break
        model.save(folder / "model")
        print(f"month {number}: spent epsilon {ledger.spent.epsilon:.3f}")
    ledger.verify()  # no record was changed
    print("\n", discreet.load(folder / "model").guarantee_, sep="")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
