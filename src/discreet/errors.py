"""Every exception of the library. A message names the argument, what was wrong, and what to do."""


class DiscreetError(Exception):
    """Base of all errors raised on purpose by this library."""


class PrivacyError(DiscreetError, ValueError):
    """A guarantee would be false or meaningless. Nothing more was released; the message says if something was spent."""


class BudgetExceeded(PrivacyError):
    """The ledger has less left than was asked for. Nothing was released and nothing was spent."""


class LedgerUnavailable(PrivacyError):
    """The ledger's database is locked, full, read-only or gone. No noise was drawn; the message says what was spent."""


class NotPublic(PrivacyError):
    """An input that must be declared public (catalog, value range, ...) was not given."""


class Unbounded(PrivacyError):
    """One user's contribution has no finite positive bound, or does not respect the one declared."""


class DataError(DiscreetError, ValueError):
    """The owner's table cannot be read as it is. Raised before any model sees it; may name rows."""


class UnknownItem(DiscreetError, LookupError):
    """An item is not in the catalog of the model."""


class NotFitted(DiscreetError, AttributeError):
    """The model has not been fitted yet."""


class ModelError(DiscreetError, ValueError):
    """A folder does not hold a whole and unchanged model, or a model cannot be written to it. Nothing was changed."""


class MissingExtra(DiscreetError, ImportError):
    """An optional part is not installed; the message names the extra to install."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional part: pip install 'discreet[{extra}]'")
        self.extra = extra
