"""Lines and cells of text: each is read by itself, whatever other lines, blocks or cells hold."""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

import discreet
from discreet.errors import DataError
from tests.data.conftest import HEADER, SWALLOWED, written


@pytest.mark.parametrize(
    "ids",
    [
        ["1", "2", "10"],  # numbers in the order of numbers
        ["-5", "0", "7", "007"],  # two ids, not one
        ["1", "9223372036854775808", "x"],
        ["99999999999999999999998", "99999999999999999999999"],
        ["2024-01-01", "2024-01-02"],
        ["1", "1.0"],
        ["a", "a ", "b"],  # a blank is a character
    ],
)
def test_ids_in_text_are_as_they_are_written(tmp_path: Path, ids: list[str]) -> None:
    (tmp_path / "r.csv").write_text("user,item,rating\n" + "".join(f"{one},i,1\n" for one in reversed(ids)))
    (tmp_path / "r.jsonl").write_text("".join(f'{{"user": "{one}", "item": "i", "rating": 1}}\n' for one in ids))
    for name in ("r.csv", "r.jsonl"):
        found = discreet.read(tmp_path / name).users.to_list()
        assert sorted(found) == sorted(ids)
        assert [one for one in found if one.lstrip("-").isdigit()] == [one for one in ids if one.lstrip("-").isdigit()]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_what_a_sample_does_not_show(kind: str, tmp_path: Path) -> None:
    """Whole numbers and integer ids for 50,000 rows, then half a star, a string, and a time."""
    rows = [(n, n % 100, 1 + n % 5) for n in range(50_000)]
    if kind == "csv":
        text = "user,item,rating\n" + "".join(f"{u},{i},{v}\n" for u, i, v in rows) + "50000,zz,4.5\n"
    else:
        text = "".join(f'{{"user": {u}, "item": {i}, "rating": {v}}}\n' for u, i, v in rows)
        text += '{"user": 50000, "item": 7, "rating": 4.5}\n'
    (tmp_path / f"r.{kind}").write_text(text)
    ratings = discreet.read(tmp_path / f"r.{kind}")
    assert ratings.history("50000") == ({"zz": 4.5} if kind == "csv" else {"7": 4.5})
    assert len(ratings) == 50_001


@pytest.mark.parametrize("quoted", [False, True])
def test_a_line_that_is_too_long_for_arrow_is_left_out(
    quoted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row cannot stop the reading of others where such rows are dropped, however long it is."""
    monkeypatch.setattr("discreet.data.texts.LONGEST", 50)
    longest = "ann," + "x" * 43 + ",1"
    rows = ["bob,tea,2", longest, longest.replace("x", "xx", 1), *(['eve,"milk",3'] if quoted else [])]
    (tmp_path / "r.csv").write_text("user,item,rating\n" + "".join(f"{row}\n" for row in rows))
    ratings = discreet.read(tmp_path / "r.csv", on_invalid="drop")
    assert ratings.users.to_list() == ["ann", "bob", *(["eve"] if quoted else [])]
    assert ratings.history("ann") == {"x" * 43: 1.0}
    assert ratings.report.dropped == 1
    with pytest.raises(DataError, match=r"line 4 of .* is longer than 50 bytes"):
        discreet.read(tmp_path / "r.csv")


def test_strings_in_json_stay_strings(tmp_path: Path) -> None:
    ids = ["2024-01-01", "00000000-0000-0000-0000-000000000002", "12"]
    (tmp_path / "r.jsonl").write_text("".join(f'{{"user": "{one}", "item": 1, "rating": 2}}\n' for one in ids))
    ratings = discreet.read(tmp_path / "r.jsonl")
    assert sorted(ratings.users) == sorted(ids)
    assert ratings.items.to_list() == ["1"]


CSV = "user,item,rating\n" + "".join(f"u{n},i{n % 7},{n % 5}\n" for n in range(20_000))


def test_a_truncated_gz_file(tmp_path: Path) -> None:
    data = gzip.compress(CSV.encode())
    (tmp_path / "r.csv.gz").write_bytes(data[: len(data) // 2])
    with pytest.raises(DataError, match="Check that the file is whole"):
        discreet.read(tmp_path / "r.csv.gz")


def test_a_csv_file_cut_in_the_middle_of_a_line(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text(CSV + "u7")
    with pytest.raises(DataError, match="Check that the file is whole"):
        discreet.read(tmp_path / "r.csv")


def test_a_csv_file_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_bytes("user,item,rating\né,x,1\n".encode("latin-1"))
    with pytest.raises(DataError, match="UTF-8"):
        discreet.read(tmp_path / "r.csv")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("without header.csv", "196,242,3\n186,302,3\n", "no header line"),
        ("broken.jsonl", '{"user": 1, "item": 2, "rating": 3}\n{"user": 1, "it', r"line 2 of .*one JSON object a line"),
        ("empty.csv", "user,item,rating\n", "no rows"),
    ],
)
def test_files_that_are_no_tables(tmp_path: Path, name: str, content: str, said: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=said):
        discreet.read(tmp_path / name)


LINES = "".join(f"{n},2,{n % 5}\n" for n in range(100))


@pytest.mark.parametrize("before", [0, 1, 100, 60_000])
@pytest.mark.parametrize(
    "line", ["user,item,rating,timestamp\n500,3,4,5\n", "7,3,4,5\n", "7,3\n", "(100 rows)\n", "Total: 7\n"]
)
@pytest.mark.parametrize("separator", [",", "\t"])
def test_a_line_with_other_columns_is_named(line: str, before: int, separator: str, tmp_path: Path) -> None:
    lines = "".join(f"{n},2,{n % 5}\n" for n in range(before))
    text = (HEADER + lines + line + "1,2,3\n").replace(",", separator)
    path = written(tmp_path / ("r.csv" if separator == "," else "r.tsv"), text)
    with pytest.raises(DataError, match=rf"(?i)line:? {before + 2}\b.*number of columns") as caught:
        discreet.read(path)
    assert "\n" not in str(caught.value)
    assert "ignore_errors" not in str(caught.value)
    assert "no header line" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        HEADER + LINES,
        HEADER + "#1,2,3\n#2,2,3\n3,4,5\n",  # not comments
        HEADER + '"a,b",2,3\n"c ""d""e",2,3\n',
        HEADER.replace(",", ";") + "1;2;3\n4;5;6\n",
        HEADER.replace(",", "|") + "1|2|3\n4|5|6\n",
        HEADER + "a,b,1",
        HEADER.replace("\n", "\r\n") + "1,2,3\r\n4,5,6\r\n",
        "\ufeff" + HEADER + "1,2,3\n",
    ],
)
def test_every_line_counts(text: str, tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_bytes(text.encode())
    lines = len([line for line in text.splitlines() if line]) - 1
    assert discreet.read(path).report.rows == lines


@pytest.mark.parametrize("above", ["\n", "  \n\n"])
def test_an_empty_line_above_the_header(above: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="begins with an empty line"):
        discreet.read(written(tmp_path / "r.csv", above + "user,item\n1,2\n3,4\n"))


@pytest.mark.parametrize("above", ["The ratings\n", "# comment\n"])
def test_a_title_above_the_header_is_not_skipped(above: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no column has a usual name for users or items"):
        discreet.read(written(tmp_path / "r.csv", above + HEADER + "1,2,3\n"))


def test_a_separator_that_is_not_known(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"separated by several.*'user::item::rating'.*delim"):
        discreet.read(written(tmp_path / "r.csv", "user::item::rating\n1::2::3\n2::2::3\n"))
    with pytest.raises(DataError, match=r"separator: a single character.*SELECT"):
        discreet.read(tmp_path / "r.csv", separator="::")


def test_the_advice_for_several_characters_can_be_pasted(tmp_path: Path) -> None:
    path = written(tmp_path / "ratings.dat", "1::1193::5::978300760\n1::661::3::978302109\n")
    with pytest.raises(DataError, match="not known by its suffix") as caught:
        discreet.read(path)
    (select,) = re.findall(r'"(SELECT .*)"', str(caught.value))
    assert discreet.read(select).history("1") == {"1193": 5.0, "661": 3.0}


@pytest.mark.parametrize("header", ["user;item;rating", '"user";"item";"rating"'])
def test_a_separator_that_is_not_in_the_header(header: str, tmp_path: Path) -> None:
    path = written(tmp_path / "r.csv", f"{header}\n1;2;3\n")
    with pytest.raises(DataError, match=r"^separator: there is no ',' in the first line .* leave separator= out"):
        discreet.read(path, separator=",")
    assert len(discreet.read(path)) == 1


def test_columns_in_another_order_in_another_file(tmp_path: Path) -> None:
    for n in range(15):
        written(tmp_path / f"{n:02}.csv", "item,user\n5,6\n" if n == 14 else "user,item\n1,2\n")
    ratings = discreet.read(tmp_path / "*.csv")
    assert set(zip(*ratings.to_arrow().to_pydict().values(), strict=True)) == {("1", "2", 1.0), ("6", "5", 1.0)}


@pytest.mark.parametrize("word", ["NA", "NULL", "null", "None", r"\N", "", " NA"])
@pytest.mark.parametrize("before", [1, 60_000])
def test_words_for_a_missing_value(word: str, before: int, tmp_path: Path) -> None:
    lines = "".join(f"{n},2,{n % 5}\n" for n in range(before))
    path = written(tmp_path / "r.csv", HEADER + lines + f"a,b,{word}\nc,d,4\n")
    with pytest.raises(DataError, match=rf"value: line {before + 2} of .*has no value"):
        discreet.read(path)
    ratings = discreet.read(path, on_invalid="drop")
    assert (ratings.report.dropped, len(ratings)) == (1, before + 1)


def test_a_word_for_missing_may_be_an_id(tmp_path: Path) -> None:
    assert discreet.read(written(tmp_path / "r.csv", HEADER + "NA,None,1\nFR,null,2\n")).users.to_list() == ["FR", "NA"]


def test_a_decimal_comma(tmp_path: Path) -> None:
    path = written(tmp_path / "r.csv", "user;item;rating\n1;2;3\n1;3;3,5\n")
    with pytest.raises(DataError, match=r"line 3 of .* holds '3,5'.*decimal_separator = ','") as caught:
        discreet.read(path)
    query = str(caught.value).partition('"')[2].partition('"')[0]  # as it can be pasted
    assert discreet.read(query).history("1") == {"2": 3.0, "3": 3.5}


def test_blanks_after_commas(tmp_path: Path) -> None:
    """A blank is a part of an id, as everywhere in CSV; it is none of the name of a column, or of a number."""
    ratings = discreet.read(written(tmp_path / "r.csv", "user, item, rating\n1, 2, 3\n1, x, 4\n1,2, 5\n"))
    assert ratings.history("1") == {" 2": 3.0, " x": 4.0, "2": 5.0}


@pytest.mark.parametrize("cells", [("1", '"1"'), ('"1"', "1"), ("1", "1.5"), ("1.5", '"1.5"'), ('"true"', "true")])
@pytest.mark.parametrize("before", [1, 60_000])
def test_two_ids_of_json_are_never_merged(cells: tuple[str, str], before: int, tmp_path: Path) -> None:
    rows = [f'{{"user": {cells[0]}, "item": {n}}}\n' for n in range(before)] + [f'{{"user": {cells[1]}, "item": 0}}\n']
    path = written(tmp_path / "r.jsonl", "".join(rows))
    try:
        assert discreet.read(path, value=None).n_users == 2
    except DataError as error:
        assert "column user: some ids are" in str(error)  # noqa: PT017


def test_missing_ids_of_json(tmp_path: Path) -> None:
    path = written(tmp_path / "r.jsonl", '{"user": 1, "item": "a"}\n{"user": null, "item": "b"}\n{"user": 2}\n')
    assert discreet.read(path, value=None, on_invalid="drop").to_arrow().to_pydict()["item"] == ["a"]
    with pytest.raises(DataError, match=r"line 2 of .* has no .*keys are user, item and rating.*value=None"):
        discreet.read(path)


def test_a_date_of_one_person_does_not_turn_those_of_others(tmp_path: Path) -> None:
    """02/01 and 01/03 are two days; whether the month comes first was guessed from all dates."""
    people = "".join(f"u{n},x,5,02/01/2020\nu{n},x,1,01/03/2020\n" for n in range(200))
    header = "user,item,rating,date\n"
    for one_more in ("", "evil,x,3,01/13/2020\n"):
        path = written(tmp_path / "r.csv", header + people + one_more)
        with pytest.raises(DataError, match=r"line 2 of .* holds '02/01/2020'.*time_format="):
            discreet.read(path)
        ratings = discreet.read(path, time_format="%m/%d/%Y")
        assert {ratings.history(f"u{n}")["x"] for n in range(200)} == {5.0}
    with pytest.raises(DataError, match=r"line 402 of .* holds '01/13/2020'"):
        discreet.read(path, time_format="%d/%m/%Y")
    european = discreet.read(path, time_format="%d/%m/%Y", on_invalid="drop")
    assert european.users.to_list() == sorted(f"u{n}" for n in range(200))
    assert {european.history(f"u{n}")["x"] for n in range(200)} == {1.0}


@pytest.mark.parametrize("before", [0, 21_000])
def test_quotes_are_quotes_wherever_they_come(before: int, tmp_path: Path) -> None:
    lines = "".join(f"u{n % 50},x{n},5\n" for n in range(before))
    ratings = discreet.read(written(tmp_path / "r.csv", HEADER + lines + '"u1",y,5\nu1,z,4\n"a,""b""",y,3\n'))
    assert ratings.history("u1") | {"y": 5.0, "z": 4.0} == ratings.history("u1")
    assert ratings.history('a,"b"') == {"y": 3.0}


@pytest.mark.parametrize(("one", "other"), [("'a'", "a"), (r"\\7", "7"), (r"\\7", r"\7"), ("a ", "a"), ("A", "a")])
def test_ids_that_are_written_differently_are_two(one: str, other: str, tmp_path: Path) -> None:
    ratings = discreet.read(written(tmp_path / "r.csv", HEADER + f'"{one}",x,1\n{other},x,2\n'))
    assert sorted(ratings.users) == sorted([one, other])


def test_two_lines_of_one_person_do_not_swallow_those_between(tmp_path: Path) -> None:
    path = written(tmp_path / "r.csv", SWALLOWED)
    with pytest.raises(DataError, match=r"line 2 of .*quote that is not closed on the same line"):
        discreet.read(path)
    assert discreet.read(path, on_invalid="drop").users.to_list() == ["ann", "bob"]


@pytest.mark.parametrize(
    "line", ['"evil,x,5', 'ev"il,x,5', '"evil"x,x,5', "evil,x,5,6", "evil,x", "evil\r,x,5", "\ufeff"]
)
def test_a_line_that_cannot_be_divided_stops_the_reading_or_nothing(line: str, tmp_path: Path) -> None:
    path = written(tmp_path / "r.csv", HEADER + f'ann,x,5\n{line}\n"bob",y,4\n')
    with pytest.raises(DataError, match=r"line 3 of"):
        discreet.read(path)
    ratings = discreet.read(path, on_invalid="drop")
    assert (ratings.users.to_list(), ratings.report.dropped, ratings.report.rows) == (["ann", "bob"], 1, 3)


def test_the_type_of_an_id_does_not_depend_on_others(tmp_path: Path) -> None:
    for others in ("", "abc,x,5\n", "-1,x,5\n"):
        ratings = discreet.read(written(tmp_path / "r.csv", HEADER + "007,x,5\n7,y,4\n" + others))
        assert ratings.history("007") == {"x": 5.0}
        assert ratings.history("7") == ratings.history(7) == {"y": 4.0}


def test_ids_of_json_do_not_depend_on_others(tmp_path: Path) -> None:
    rows = '{"user": 5, "item": 1, "rating": 2}\n'
    for others in ("", '{"user": -5, "item": -1, "rating": 2}\n'):
        ratings = discreet.read(written(tmp_path / "r.jsonl", rows + others))
        assert ratings.history("5") == {"1": 2.0}


def test_keys_of_json_are_not_guessed_from_the_first_row(tmp_path: Path) -> None:
    """A person whose row came first, with other keys, changed which column was the rating of all."""
    rows = '{"user": "ann", "item": "x", "rating": 2, "stars": 5}\n'
    for first in ("", '{"user": "evil", "item": "x", "stars": 1}\n'):
        ratings = discreet.read(written(tmp_path / "r.jsonl", first + rows), on_invalid="drop")
        assert ratings.history("ann") == {"x": 2.0}


def test_a_separator_is_that_of_the_header_or_declared(tmp_path: Path) -> None:
    path = written(tmp_path / "r.csv", "user;item;rating\na,b;x;1\n")
    assert discreet.read(path).history("a,b") == {"x": 1.0}
    path = written(tmp_path / "r.csv", "user^item^rating\na^x^1\n")
    assert discreet.read(path, separator="^").history("a") == {"x": 1.0}
    for wrong in ("", "::", '"', "a", "é", "\n", 5):
        with pytest.raises(DataError, match="separator: "):
            discreet.read(path, separator=wrong)  # type: ignore[arg-type]
    for source in ([("a", "x", 1.0)], written(tmp_path / "r.jsonl", "{}\n")):
        with pytest.raises(DataError, match="separator: "):
            discreet.read(source, separator=",")


def test_joined_files_may_repeat_their_header(tmp_path: Path) -> None:
    path = written(tmp_path / "r.csv", HEADER + "ann,x,5\n" + HEADER + "bob,y,4\n")
    assert discreet.read(path).users.to_list() == ["ann", "bob"]


CONTENT = (HEADER + "".join(f"u{n},i{n % 7},{n % 5}\n" for n in range(3000))).encode()


def flips(data: bytes, n: int) -> list[bytes]:
    rng = random.Random(0)
    damaged = []
    for _ in range(n):
        copy = bytearray(data)
        copy[rng.randrange(len(copy))] ^= 1 << rng.randrange(8)
        damaged.append(bytes(copy))
    return damaged


def as_parquet(content: bytes) -> bytes:
    rows = [line.split(",") for line in content.decode().splitlines()[1:]]
    users, items, values = zip(*rows, strict=True)
    out = pa.BufferOutputStream()
    table = pa.table({"user": users, "item": items, "rating": pa.array(values).cast(pa.float64())})
    pq.write_table(table, out, write_page_checksum=True, compression="none")
    return out.getvalue().to_pybytes()


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "r.csv.gz": gzip.compress,
    "r.csv.zst": zstandard.ZstdCompressor(write_checksum=True).compress,
    "r.parquet": as_parquet,
}


@pytest.mark.parametrize("name", PACKED)
def test_a_flipped_bit_is_found_by_checksums(name: str, tmp_path: Path) -> None:
    whole = PACKED[name](CONTENT)
    expected = discreet.read(written(tmp_path / name, whole))
    for damaged in flips(whole, 60):
        try:
            ratings = discreet.read(written(tmp_path / name, damaged))
        except DataError:
            continue
        assert ratings == expected  # a bit that means nothing, such as one of a time stamp
    with pytest.raises(DataError, match=r"whole|damaged"):
        discreet.read(written(tmp_path / name, whole[:-3]))


@pytest.mark.parametrize("size", [20, 21, 22, 1 << 23])
def test_a_byte_order_mark_is_a_character_but_at_the_start_of_a_file(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever a block of lines begins, an id may begin with one."""
    monkeypatch.setattr("discreet.data.texts.BLOCK", size)
    for lines in ("\ufeffann,x,1\nann,y,5\n", "ann,y,5\n\ufeffann,x,1\n", "bob,y,5\n\ufeffann,x,1\nann,y,5\n"):
        path = written(tmp_path / "r.csv", "\ufeff" + HEADER + lines)
        assert discreet.read(path).history("ann") == {"y": 5.0}
        assert discreet.read(path).history("\ufeffann") == {"x": 1.0}


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_long_line_stops_nothing(quote: str, tmp_path: Path) -> None:
    long = quote + "x" * 3_000_000 + quote
    path = written(tmp_path / "r.csv", HEADER + f"ann,x,5\n{long},x,3\nbob,x,4\n")
    assert len(discreet.read(path).users) == 3


@pytest.mark.parametrize("n", [150, 1200])
def test_many_columns(n: int, tmp_path: Path) -> None:
    header = ",".join(["user", "item", "rating", *(f"c{k}" for k in range(n))])
    rest = ",".join("1" for _ in range(n))
    lines = f'{header}\n"ann",x,5,{rest}\nbob,x,4,{rest}\nevil,x,4\nev"il,x,5,{rest}\n'
    ratings = discreet.read(written(tmp_path / "r.csv", lines), on_invalid="drop", time=None)
    assert ratings.users.to_list() == ["ann", "bob"]


def test_words_that_duckdb_takes_for_times(tmp_path: Path) -> None:
    words = ["infinity", "epoch", "NA", "-infinity"]
    lines = "user,item,rating,date\n" + "".join(f"{n},x,1,{word}\n" for n, word in enumerate(words))
    path = written(tmp_path / "r.csv", lines + "ann,x,1,31/12/2020\n")
    assert discreet.read(path, time_format="%d/%m/%Y", on_invalid="drop").users.to_list() == ["ann"]


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        ("2020-01-02T03:04:05+0000", 1577934245.0),
        ("2020-01-02 03:04:05 UTC", 1577934245.0),
        ("2020-01-02T05:04:05+02", 1577934245.0),
        ("2020-01-02T02:34:05.25-00:30", 1577934245.25),
        ("2020-01-02", 1577923200.0),
        ("1577923200", 1577923200.0),
    ],
)
def test_times_of_iso_8601(time: str, seconds: float, tmp_path: Path) -> None:
    ratings = discreet.read(written(tmp_path / "r.csv", f"user,item,time\nann,x,{time}\n"))
    assert ratings.times is not None
    assert ratings.times.tolist() == [seconds]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("r.json", '[{"user": 1, "item": 2, "rating": 3}]\n', "JSON array; write one object a line"),
        ("r.csv", gzip.compress(b"user,item\n", mtime=0), "packed by gzip; rename it"),
        ("r.csv", "sep=;\nuser;item\n", "remove it, and pass separator="),
        ("r.csv", "user,item\né,x\n".encode("latin-1"), "iconv"),
        ("r.csv", 'user,item\na, "x"\n', "follows a space"),
    ],
)
def test_mistakes_are_named(name: str, content: str | bytes, said: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=said):
        discreet.read(written(tmp_path / name, content))


def test_refused_rows_are_counted_and_named_by_their_lines(tmp_path: Path) -> None:
    """As an editor numbers lines: with the header, empty lines, repeated headers, and each file from 1."""
    first = written(tmp_path / "a.csv", HEADER + "ann,x,5\n\n" + HEADER + "ann,y,9\nshort\nbob,x,many\n")
    written(tmp_path / "b.csv", HEADER + "bob,y,4\r\n\r\n,z,3\ncy,z,\n")
    with pytest.raises(DataError) as caught:
        discreet.read(str(tmp_path / "?.csv"), value_range=(1, 5))
    said = str(caught.value)
    assert said.startswith(f"source: line 6 of {str(first)!r}, 'short'")
    assert "5 rows cannot be used: they are lines 5, 6, 7 of" in said
    assert "lines 4, 5 of" in said
    with pytest.raises(DataError, match=r"line 2 of .* has the value 5, which is outside value_range") as caught:
        discreet.read(written(tmp_path / "c.csv", HEADER + "ann,x,5\nann,y,4\n"), value_range=(1, 4))
    assert "In all" not in str(caught.value)
    lines = "".join(f"u{n},x,9\n" for n in range(1200))
    with pytest.raises(DataError, match=r"1,200 rows cannot be used: the first are lines 2, 3, 4, 5, 6 of"):
        discreet.read(written(tmp_path / "c.csv", HEADER + lines), value_range=(1, 4))


def test_refused_rows_of_parquet_and_json(tmp_path: Path) -> None:
    for name, values in {"a": [1.0, 2.0], "b": [9.0, 3.0, None]}.items():
        table = pa.table({"user": list(range(len(values))), "item": [7] * len(values), "rating": values})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    with pytest.raises(DataError, match=r"row 1 of .*b.parquet' .*2 rows .* they are rows 1, 3 of '[^']*b.parquet'"):
        discreet.read(str(tmp_path / "*.parquet"), value_range=(1, 5))
    lines = '{"user": "a", "item": "b", "rating": 2}\n \n{"user": "a", "item": "c", "rating": 8}\n'
    with pytest.raises(DataError, match=r"line 3 of .* has the value 8"):
        discreet.read(written(tmp_path / "r.jsonl", lines), value_range=(1, 5))
