"""`discreet split`: a table in parts, to train on and to test on."""

from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from discreet.cli import inputs
from discreet.cli.common import Misuse
from discreet.cli.output import require_folder, show


def split(
    source: inputs.Source,
    out: Annotated[Path, Option("--out", "-o", help="The folder for train, valid and test.")],
    *,
    test: Annotated[float, Option(help="The share of the rows to test on.")] = 0.1,
    valid: Annotated[float, Option(help="The share of the rows to choose parameters by.")] = 0.0,
    by: Annotated[
        Literal["random", "time"], Option(help="Whether shares are drawn at random, or are the latest of all by time.")
    ] = "random",
    seed: Annotated[int, Option(help="The seed of the random draw.", min=0)] = 0,
    file_format: Annotated[Literal["parquet", "csv"], Option("--format", help="The format of the files.")] = "parquet",
    table: inputs.TrainingTable,
) -> None:
    """Divide a table into train, test and, with --valid, valid. The command never replaces files.

    Example: discreet split ratings.parquet --out parts --test 0.2

    The parts are as private as the table. `discreet evaluate model parts/test.parquet --history parts/train.parquet`
    measures a model that was trained on parts/train.parquet.
    """
    from pyarrow import csv, parquet

    from discreet.data import splits

    names = ["train", *(["valid"] if valid else []), "test"]
    paths = {name: out / f"{name}.{file_format}" for name in names}
    if there := [str(path) for path in paths.values() if path.exists()]:
        raise Misuse(f"--out: {' and '.join(there)} would be replaced; name another folder")
    require_folder("--out", out)
    parts = splits.holdout(table.read(source), by=by, valid=valid, test=test, random_state=seed)
    out.mkdir(parents=True, exist_ok=True)
    for name, path in paths.items():
        part = getattr(parts, name)
        rows = part.to_arrow().drop_columns(["rating"] if part.implicit else [])
        parquet.write_table(rows, path) if file_format == "parquet" else csv.write_csv(rows, path)
    counts = {name: len(getattr(parts, name)) for name in names}
    lines = (f"{count:,} rows: {paths[name]}" for name, count in counts.items())
    show({"paths": {name: str(path) for name, path in paths.items()}, "rows": counts}, *lines)
