"""Tables, models and ids on the command line: options that several commands share, and how they are read."""

import csv
import inspect
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast, get_args, get_origin, get_type_hints

from typer import Argument, Context, Option

from discreet.cli.common import Misuse, by_commas, completing, merged
from discreet.errors import DataError, DiscreetError, ModelError, NotPublic, PrivacyError, UnknownItem

if TYPE_CHECKING:
    from discreet.data import Catalogue, Interactions
    from discreet.models.base import Model
    from discreet.privacy import Ledger

BEST = "Recommender"  # chooses a model for the data, so it is the default
PRIVATE = ("epsilon", "delta")
OPTIONS = (*PRIVATE, "features")  # parameters that are options of their own
TEXT = {".csv": ",", ".txt": ",", ".tsv": "\t", ".tab": "\t"}
CATALOG = "--items FILE, the catalog (or --observed-items-are-public, if anyone may know which items are in the table"
RANGE = "--range LOW HIGH, the lowest and the highest possible rating"
SPELLED = {"none": None, "null": None, "true": True, "false": False}

# -- tables

Source = Annotated[str, Argument(help="A file or glob (csv, tsv, parquet, json), a SELECT, or the name of a data set.")]


@dataclass(frozen=True)
class Columns:
    """Where the rows of a table are, and which column is which."""

    HEADING: ClassVar = "The table"

    user: Annotated[str | None, Option(help="The column of users; by default guessed from its name.")] = None
    item: Annotated[str | None, Option(help="The column of items; by default guessed from its name.")] = None
    value: Annotated[str | None, Option(help="The column of ratings, or none; by default guessed from its name.")] = (
        None
    )
    time: Annotated[str | None, Option(help="The column of times, or none; by default guessed from its name.")] = None
    connection: Annotated[str | None, Option(help="The URL of the database for a SELECT.")] = None


@dataclass(frozen=True)
class Table(Columns):
    """How a table is read: arguments of `discreet.read`."""

    items: Annotated[
        str | None, Option(help="The public catalog: a file or a SELECT. For train, also the word private.")
    ] = None
    value_range: Annotated[
        tuple[float, float] | None, Option("--range", help="The lowest and highest possible rating; both are public.")
    ] = None
    observed_items_are_public: Annotated[
        bool, Option("--observed-items-are-public", help="Declare that the set of items in the table is public.")
    ] = False
    implicit: Annotated[bool, Option("--implicit", help="Ignore the ratings: every row counts 1.")] = False
    threshold: Annotated[float | None, Option(help="With --implicit: leave out lower ratings.")] = None
    on_duplicate: Annotated[
        Literal["last", "first", "mean", "sum", "raise"],
        Option(help="Which value counts if a user has several rows for an item."),
    ] = "last"
    on_invalid: Annotated[
        Literal["raise", "drop", "clip"], Option(help="What to do with ratings that are missing or out of range.")
    ] = "raise"
    on_unknown: Annotated[
        Literal["raise", "drop"], Option(help="What to do with rows about items outside the catalog.")
    ] = "raise"
    separator: Annotated[
        str | None, Option(help="The separator of a CSV file, such as ; or tab; by default guessed.")
    ] = None
    time_format: Annotated[
        str | None, Option(help="How times are written, such as %d/%m/%Y; by default numbers or ISO 8601.")
    ] = None

    @staticmethod
    def needs(ctx: Context, absent: list[str]) -> list[str]:
        """What the command needs to fit a private model, and was not given."""
        given = ctx.params
        sources = given.get("sources") or [given.get("source")]
        saved = len(sources) > 1 or Path(sources[0] or "", "model.json").is_file() or given.get("history")
        if "delta" not in given or saved or given.get("continued"):
            return []
        names = [given["model"]] if isinstance(given["model"], str) else given["model"] or [None]
        models = [model for model in map(find, names) if is_private(model)]
        settings = {text.partition("=")[0].strip() for text in merged(ctx, "settings", given["settings"])}
        needed = [] if given.get("space", True) else ["--try NAME=VALUE,VALUE"]
        for name in PRIVATE:
            unset = name in given and given[name] is None and name not in settings
            if unset and any(has_no_default(model, name) for model in models):
                needed.append(f"--{name} NUMBER")
        declared = given["items"] is not None or given["observed_items_are_public"] or _data_set(sources[0])
        if models and not declared:
            needed.append(CATALOG + ("; or --items private, if not" if given.keys() >= {"out", "resume"} else "") + ")")
        if models and (needed or absent) and given["value_range"] is None and not _data_set(sources[0]):
            needed += [] if given["implicit"] or given["value"] == "none" else [f"{RANGE}, if the table has ratings"]
        return needed

    def read(
        self, source: str, *, private: bool = False, chooses: bool = False, argument: str = "source"
    ) -> "Interactions":
        """Read a table, or a data set if there is no such file. Errors about the file name the `argument`.

        With `private`, public inputs must be declared; only a command that `chooses` items takes private ones.
        """
        from discreet.data import datasets, observed_items_are_public, read

        if self.observed_items_are_public and self.items is not None:
            raise Misuse("--items and --observed-items-are-public: give one of them")
        own = ("observed_items_are_public", "implicit", "threshold")
        given = {name: value for name, value in vars(self).items() if name not in own and value not in (None, "")}
        if self.separator in ("\\t", "tab"):  # a tab is hard to type
            given["separator"] = "\t"
        if _data_set(source):
            known = [name.removeprefix("value_").replace("_", "-") for name in given if not name.startswith("on_")]
            if known:
                flags = ", ".join(f"--{name}" for name in known)
                raise Misuse(f"{source} is a data set with known columns, items and range; leave out {flags}")
            with no_path_advised():
                ratings = datasets.load(source)
        else:
            given |= {"items": observed_items_are_public} if self.observed_items_are_public else {}
            given |= {name: None for name in ("value", "time") if given.get(name) == "none"}
            try:
                ratings = read(source, **given)
            except DataError as error:
                raise DataError(re.sub("^source:", f"{argument}:", str(error))) from None
        if self.implicit:
            if self.threshold is not None and ratings.implicit:
                raise DataError("threshold: the table has no ratings to compare with it; leave out --threshold")
            ratings = ratings.to_implicit(self.threshold)
        if ratings.catalogue.private and not chooses:
            raise Misuse(
                "--items private: only discreet train chooses items privately, for a private model; give a catalog"
            )
        if private:
            _require_public(ratings, chooses)
        return ratings


@dataclass(frozen=True)
class TrainingTable(Table):
    """A table to learn from: --threshold needs --implicit."""

    def __post_init__(self) -> None:
        if self.threshold is not None and not self.implicit:
            raise Misuse("--threshold: it says which ratings count as implicit feedback; give --implicit too")


@dataclass(frozen=True)
class TestedTable(Table):
    """A table to test on: --threshold has a meaning without --implicit too."""

    threshold: Annotated[
        float | None, Option(help="The threshold of accuracy; with --implicit, leave out lower ratings.")
    ] = None

    @property
    def for_accuracy(self) -> float | None:
        """The threshold of accuracy."""
        return None if self.implicit else self.threshold


@contextmanager
def no_path_advised() -> Iterator[None]:
    """Raise errors about missing data sets without the advice to pass a path, which has no option."""
    try:
        yield
    except DataError as error:
        raise DataError(re.sub("pass its path as source=, or |, or fetch it .* pass source=", "", str(error))) from None


def _data_set(source: str | None) -> bool:
    """Whether this is the name of a data set, whose items and range are known, and not a file."""
    from discreet.data import datasets

    return source is not None and datasets.known(source) and not Path(source).exists()


def _require_public(ratings: "Interactions", chooses: bool) -> None:
    """Raise unless all public inputs of a private model are declared; name all missing options at once."""
    missing = []
    try:
        if not ratings.catalogue.private:
            ratings.catalogue.require_public()
    except NotPublic:
        missing.append(CATALOG + ("; or --items private, if not)" if chooses else ")"))
    if ratings.value_range is None:
        missing.append(RANGE)
    if missing:
        raise NotPublic(f"a private model must not learn public inputs from the table: give {'; and '.join(missing)}")


def titled(catalogue: "Catalogue", column: str) -> "Catalogue":
    """A catalog with a column as its titles."""
    if column not in catalogue.names:
        raise Misuse(
            f"--title-column: there is no {column!r}; the catalog has {', '.join(catalogue.names) or 'only ids'}"
        )
    return catalogue.titled(column)


# -- models and their budget


def model_option(help: str) -> Any:
    """The option --model, which the shell completes."""
    return Option("--model", "-m", help=help, autocompletion=completing("discreet.models", "MODELS"))


ModelName = Annotated[
    str | None, model_option("The model: dpals, dpsvd, als, …; by default the private one for this kind of data.")
]
Settings = Annotated[
    list[str] | None, Option("--set", help="A parameter of the model, such as n_steps=4; may be repeated.")
]
Features = Annotated[
    str | None, Option(help="Columns of the catalog that describe items, such as genres,year; see --items.")
]
TitleColumn = Annotated[str | None, Option(help="The column of the catalog that names items; by default guessed.")]
Delta = Annotated[float | None, Option(help="The delta of the guarantee: well below 1 / the number of users.")]
SavedModel = Annotated[Path, Argument(help="The folder of a saved model.")]


def saved(folder: Path | str, argument: str = "model") -> Any:
    """A saved model. Errors name the `argument`."""
    from discreet.models.storage import load

    try:
        return load(folder)
    except (ModelError, PrivacyError) as error:
        raise type(error)(f"{argument}: {error}") from error


@dataclass(frozen=True)
class Budget:
    """What a private model may spend, and from which ledger."""

    HEADING: ClassVar = "The budget"

    epsilon: Annotated[float | None, Option(help="What the model may spend; for private models.")] = None
    delta: Delta = None
    ledger: Annotated[str | None, Option(help="The ledger that pays for the model: a file or a URL.")] = None
    ledger_name: Annotated[str, Option(help="The name of the ledger in that database.")] = "default"

    def open(self, model: type["Model"]) -> "Ledger | None":
        """The ledger that pays for a model."""
        if self.ledger is None and self.ledger_name != "default":
            raise Misuse("--ledger-name: it names a ledger in a database; give the database with --ledger")
        if self.ledger is None:
            return None
        if not is_private(model):
            raise Misuse(
                f"{model.__name__} is not private: it spends nothing and takes no ledger; {_advice('--ledger')}"
            )
        return opened(self.ledger, self.ledger_name)


def ledger_url(where: str) -> str:
    """The URL of a ledger, given as a URL or a file."""
    return where if "://" in where else f"sqlite:///{where}"


def opened(where: str, name: str, argument: str = "ledger") -> "Ledger":
    """An existing ledger. A wrong path is an error, not a new budget."""
    from discreet.privacy import Ledger

    try:
        return Ledger(ledger_url(where), name=name, create=False)
    except PrivacyError as error:
        said = re.sub("^url:", f"{argument}:", str(error))
        said = re.sub("^name:", "--ledger-name:" if argument == "ledger" else "--name:", said)
        what, begin, _ = said.partition("; give epsilon and delta to begin")
        named = "" if name == "default" else f" --name {name}"
        hint = f"; to begin one: discreet ledger create {where}{named} --epsilon 3 --delta 1e-6" if begin else ""
        raise PrivacyError(what + hint) from None


def find(name: str | None) -> type["Model"]:
    """The class of a model, by its name in any spelling: als, ALS, mean-rating."""
    from discreet.models import registry

    asked = re.sub(r"[^a-z0-9]", "", (BEST if name is None else name).lower())
    if asked == BEST.lower():
        from discreet.models.recommender import Recommender

        return cast("type[Model]", Recommender)  # once fitted, it behaves like a model
    known = {name.lower(): name for name in registry.MODELS}
    if asked not in known:
        names = ", ".join(registry.MODELS)
        raise Misuse(f"--model: there is no {name!r}; there are {names}, and {BEST}, which chooses one")
    return registry.find(known[asked])


def takes(model: type["Model"], name: str) -> bool:
    """Whether a model has a parameter."""
    return name in inspect.signature(model).parameters


def has_no_default(model: type["Model"], name: str) -> bool:
    """Whether a parameter has to be given."""
    param = inspect.signature(model).parameters.get(name)
    return param is not None and param.default is param.empty


def is_private(model: type["Model"]) -> bool:
    """Whether a model spends a budget."""
    return takes(model, "epsilon")


def make(model: type["Model"], settings: Sequence[str], epsilon: float | None, delta: float | None) -> "Model":
    """A model with these parameters, checked before any data is read."""
    values = {}
    for text in settings:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            names = ", ".join(inspect.signature(model).parameters)
            raise Misuse(f"--set: {text!r} must look like name=value; the parameters of {model.__name__} are {names}")
        values[name.strip()] = parameter(model, name.strip(), value.strip())
    for name, number in zip(PRIVATE, (epsilon, delta), strict=True):
        if number is not None:
            _require(model, name)
            if name in values:
                raise Misuse(f"--set {name} and --{name}: give one of them")
            values[name] = number
    parameters = inspect.signature(model).parameters
    missing = [name for name in parameters if has_no_default(model, name) and name not in values]
    if missing:
        flags = (f"--{name}" if name in PRIVATE else f"--set {name}=…" for name in missing)
        raise Misuse(f"{model.__name__} has no default for {' and '.join(missing)}; give {' and '.join(flags)}")
    made = model(**values)
    try:
        made._check_parameters()
    except DiscreetError as error:
        raise Misuse(_in_settings(str(error), model)) from None
    return made


@contextmanager
def settings_named(model: "Model") -> Iterator[None]:
    """Make errors about a model's parameter say how to set it: --set threshold=4."""
    try:
        yield
    except DiscreetError as error:
        message = _in_settings(str(error), type(model))
        if message == str(error):
            raise
        raise Misuse(message) from None


def _in_settings(message: str, model: type["Model"]) -> str:
    """A message with the model's parameters as --set takes them. `in_options` does not know that these are not its."""
    message = re.sub(r"\buse discreet\.(\w+)", lambda named: f"take --model {named[1].lower()}", message)
    for name in (name for name in inspect.signature(model).parameters if name not in OPTIONS):
        message = re.sub(rf"^{name}(?=:| must)", f"--set {name}", message)
        message = re.sub(rf"(?<![\w.-]){name}='([^']*)'", rf"--set {name}=\1", message)
    return message


def featured(model: type["Model"], settings: Sequence[str], features: str | None) -> list[str]:
    """The settings of a model, with its features."""
    if features is None:
        return list(settings)
    if not takes(model, "features"):
        from discreet.models import MODELS

        others = ", ".join(name for name in MODELS if takes(find(name), "features"))
        raise Misuse(f"--features: {model.__name__} takes none; these models do: {BEST}, {others}")
    if any(text.partition("=")[0].strip() == "features" for text in settings):
        raise Misuse("--set features and --features: give one of them")
    return [*settings, f"features={features}"]


def _require(model: type["Model"], name: str) -> None:
    """Raise unless a model has epsilon, or delta."""
    if takes(model, name):
        return
    if not is_private(model):
        raise Misuse(f"{model.__name__} is not private: it has no {name}; {_advice(f'--{name}')}")
    raise Misuse(f"{model.__name__} has no {name}; leave out --{name}")


def _advice(flag: str) -> str:
    from discreet.models import MODELS

    private = ", ".join(name for name in MODELS if is_private(find(name)))
    return f"leave out {flag}, or train a private model: {private}"


def chosen(model: "Model", ratings: "Interactions") -> "Model":
    """The model itself, or the one that it chooses for these ratings. Raises if its features are not in the catalog."""
    from discreet.data.catalogue import require_columns
    from discreet.models.recommender import Recommender

    if isinstance(model, Recommender):
        with settings_named(model):
            model = model.choose(ratings)
    require_columns(ratings.catalogue, getattr(model, "features", None) or ())
    return model


def suggested(model: "Model", ratings: "Interactions") -> str:
    """The columns of the catalog that may describe items, if the model could use them and uses none."""
    from discreet.data.catalogue import shared_texts

    if not takes(type(model), "features") or getattr(model, "features", None):
        return ""
    found = ",".join(shared_texts(ratings.catalogue))
    return found and f"If these columns of the catalog describe items, naming them costs no privacy: --features {found}"


def parameter(model: type["Model"], name: str, text: str, flag: str = "--set") -> Any:
    """A parameter of a model, from text."""
    if not takes(model, name):
        if name in PRIVATE:
            _require(model, name)
        names = ", ".join(inspect.signature(model).parameters)
        raise Misuse(f"{flag}: {model.__name__} has no parameter {name!r}; it has {names}{_elsewhere(model, name)}")
    hints = get_type_hints(model)  # type hints of a dataclass; other classes have them on the constructor
    hint = hints[name] if name in hints else get_type_hints(model.__init__).get(name)
    if any(get_origin(one) is Sequence for one in get_args(hint)) and text.lower() not in SPELLED:
        return [_value(part) for part in by_commas(text.strip("[]()")) or ()]
    return _value(text)


def _elsewhere(model: type["Model"], name: str) -> str:
    """A hint naming those of the default's models that have a parameter."""
    if model.__name__ != BEST:
        return ""
    found = [choice.lower() for choice in ("DPALS", "DPSVD") if takes(find(choice), name)]
    return f". {name} is a parameter of --model {' and --model '.join(found)}" if found else ""


def _value(text: str) -> Any:
    """A number, truth value, None or text; the model checks whether it may be that."""
    if text.lower() in SPELLED:
        return SPELLED[text.lower()]
    for number in (int, float):
        with suppress(ValueError):
            return number(text)
    return text


# -- ids as text, or in another type than the model's


def as_ids(model: "Model", texts: Iterable[str], argument: str) -> list[Any]:
    """Ids from a command line or a text file, as the library finds them among a model's items."""
    import pyarrow as pa

    asked, ids = [text.strip() for text in texts], model.items_
    kind = ids.to_arrow().type
    if pa.types.is_large_string(kind):
        return asked
    known = {} if pa.types.is_integer(kind) else {str(item): item for item in ids}
    if pa.types.is_floating(kind):
        known |= {text.removesuffix(".0"): item for text, item in known.items()}
    found: list[Any] = []
    for text in asked:
        if text in known:
            found.append(known[text])
        elif not known and re.fullmatch(r"-?\d+", text):
            found.append(int(text))
        else:
            rated = f"; a history is written {ids[0]}=5,{ids[-1]}=3" if argument == "history" else ""
            raise UnknownItem(
                f"{argument}: {text!r} cannot be an item of this model, whose ids are of type {kind}, such as {ids[0]} "
                f"(`discreet items MODEL WORDS` finds ids by title{rated})"
            )
    return found


def for_model(model: "Model", ratings: "Interactions", argument: str) -> "Interactions":
    """A table, with ratings if the model needs them. Items from text files are converted to the type of the model's."""
    import pyarrow as pa

    from discreet.data import Catalogue

    if ratings.implicit and not model.implicit_ and model.value_range_ != (0.0, 1.0):
        raise DataError(f"{argument}: the table has no ratings, but the model needs them; name the column with --value")
    here, there = ratings.items.to_arrow().type, model.items_.to_arrow().type
    if not pa.types.is_large_string(here) or pa.types.is_large_string(there) or pa.types.is_integer(there):
        return ratings
    ids, about = as_ids(model, ratings.items, argument), ratings.catalogue
    return replace(ratings, catalogue=Catalogue(ids, about.columns, origin=about.origin))


# -- short lists: a history, items to allow or to deny


def listed(given: str, argument: str) -> tuple[list[str], list[str] | None]:
    """Items, and ratings if any, from a file or from a text such as a=5,b=4 or a,b."""
    from discreet.data.sources import SUFFIXES

    ending = Path(given.removesuffix(".gz").removesuffix(".zst")).suffix.lower()
    if "=" not in given and ending in SUFFIXES and not Path(given).is_file():
        raise DataError(f"{argument}: there is no file {given!r}; relative paths start in {os.getcwd()!r}")
    if Path(given).is_file():
        return _in_file(given, argument)
    # Quotes protect a comma inside an id.
    parts = [part.strip() for part in next(csv.reader([given], skipinitialspace=True), []) if part.strip()]
    rated = ["=" in part for part in parts]
    if argument != "history" or not any(rated):
        return parts, None
    if not all(rated):
        raise DataError(f"history: {parts[rated.index(False)]!r} has no rating; give one to each item, or to none")
    cells = [part.rpartition("=") for part in parts]
    return [cell[0] for cell in cells], [cell[2] for cell in cells]


def _in_file(path: str, argument: str) -> tuple[list[str], list[str] | None]:
    """Items and ratings from a file; text files may lack a header."""
    from discreet.data.readers import read_items
    from discreet.data.sources import guess

    separator = TEXT.get(Path(path).suffix.lower())
    if separator is not None:
        rows = _text_rows(path, separator, argument)
        names = [name.strip() for name in rows[0]] if rows else []
        if guess("item", names) is None and "id" not in names:  # no header
            rated = bool(rows) and len(rows[0]) > 1
            short = next((row for row in rows if len(row) <= rated), None)
            if short is not None:
                said = f"the row {separator.join(short)!r} of {path!r} has no rating"
                raise DataError(f"{argument}: {said}; give one to each item, or to none")
            return [row[0] for row in rows], [row[1] for row in rows] if rated else None
    items, about = read_items(path, None, None)
    if guess("user", about.column_names) is not None:
        raise DataError(f"{argument}: {path!r} has a column of users; give a table of many people with --users")
    value = guess("value", about.column_names)
    return list(map(str, items)), None if value is None else list(map(str, about[value].to_pylist()))


def _text_rows(path: str, separator: str, argument: str) -> list[list[str]]:
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            return [row for row in csv.reader(file, delimiter=separator) if any(map(str.strip, row))]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{argument}: {path!r} is not a text file of rows: {error}") from None
