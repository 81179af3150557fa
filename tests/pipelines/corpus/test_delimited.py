"""Tables in text files: what is a document, what is rejected, and what is no table."""

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beambert.console import ProgressTally
from beambert.errors import InputError
from beambert.pipelines.corpus.documents import Document, Reject
from beambert.pipelines.corpus.formats import FORMATS, recognise
from beambert.pipelines.corpus.reading import ReadOptions, read_part, split_file
from beambert.pipelines.input_files import match_inputs

exact = settings(derandomize=True, max_examples=40, deadline=None, database=None)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)


def read(name: str, data: bytes, column: str = "text") -> list[Document | Reject]:
    return list(FORMATS[name].read_lines(io.BytesIO(data), ReadOptions(text_column=column)))


@exact
@given(st.lists(st.tuples(texts, texts), max_size=9))
@pytest.mark.parametrize("delimiter", [",", ";"])
def test_what_the_csv_library_writes_is_read(delimiter, rows):
    written = io.StringIO(newline="")
    writer = csv.writer(written, delimiter=delimiter)
    writer.writerows([("id", "text"), *rows])
    found = read("csv", written.getvalue().encode())
    assert [document.text for document in found] == [text for _, text in rows]


def test_quotes_are_literal_between_tabs():
    data = b'label\ttext\n0\t"She left.\n1\t12" long\r\n\n0\t\n'
    assert [document.text for document in read("tsv", data)] == ['"She left.', '12" long', ""]


@pytest.mark.parametrize(
    ("name", "row", "reason", "detail"),
    [
        ("csv", b"one,two,three\n", "wrong_fields", "line 3 has 3 fields, and the header has 2"),
        ("tsv", b"one\n", "wrong_fields", "line 3 has 1 fields, and the header has 2"),
        ("csv", b'1,"a"b\n', "not_csv", "the row that begins on line 3 is not CSV"),
        ("csv", b"1,caf\xe9\n", "not_utf8", "byte 0xe9 on line 3 is not UTF-8"),
        ("tsv", b"1\tcaf\xe9\n", "not_utf8", "byte 0xe9 on line 3 is not UTF-8"),
    ],
)
def test_a_bad_row_costs_itself_alone(name, row, reason, detail):
    comma = b"," if name == "csv" else b"\t"
    data = b"id,text\n1,One.\n".replace(b",", comma) + row + b"2,Two.\n".replace(b",", comma)
    first, reject, last = read(name, data)
    assert (first.text, last.text) == ("One.", "Two.")
    assert (reject.line, reject.reason) == (3, reason) and detail in reject.detail


def test_a_quote_without_end_is_one_reject_that_says_where():
    first, reject = read("csv", b'id,text\n1,One.\n2,"Two.\n3,Three.\n')
    assert first.text == "One." and (reject.line, reject.reason) == (3, "not_csv")
    (reject,) = read("csv", b'"id,text\n1,One.\n')
    assert reject.line == 1


def test_the_separator_that_excel_states():
    (found, reject) = read("csv", b'sep=|\r\nid|text\r\n1|"a, b; c"\r\n2\r\n')
    assert found.text == "a, b; c" and reject.line == 4


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"id,body\n", r"--text_column=text: no such column; name one of id, body, or give"),
        (
            b"<HEADLINE>\t\t\n",
            r"--text_column=text: no such column; the first line has tabs: give --format=tsv",
        ),
        (
            b"id,gr\xf6\xdfe\n",
            r"--text_column=text: no such .*; these are not in --encoding=utf-8$",
        ),
        (b"text,text\n", r"--text_column=text: two columns have that name; rename one"),
    ],
)
def test_a_column_that_cannot_be_read_is_refused(tmp_path, header, message):
    path = tmp_path / "a.csv"
    path.write_bytes(header + b"1,One.\n")
    (file,) = match_inputs([str(path)])
    with pytest.raises(InputError, match=f"^{path}: {message}"):
        for part in split_file(file, ReadOptions()):
            list(read_part(part, ReadOptions(), ProgressTally(None)))


ROWS = '1,The ship left.,0\n2,"It came, and went.",1\n3,Nobody saw it.,0\n'


@pytest.mark.parametrize(
    ("sample", "name"),
    [
        ("id,text,label\n" + ROWS, "csv"),
        (",text,label\n" + ROWS, "csv"),  # as pandas writes it
        ("\ufeffid,text,label\r\n" + ROWS.replace("\n", "\r\n"), "csv"),
        ("id;text\n1;Ein Satz, der hier endet.\n2;Noch einer.\n", "csv"),
        ('"id","text"\n"1","A long\ntext"\n"2","Another"\n', "csv"),
        ("text\tlabel\nThe ship left.\t0\nIt came, and went.\t1\n", "tsv"),
        # Prose with a comma or tab in every line.
        ("Roses are red, violets are blue\nHoney is sweet, and so are you\nOh, my love\n", "text"),
        ("Dear Sir,\nI write, as agreed,\nto you.\n", "text"),
        ("One, two\nThree, four\nFive, six\n", "text"),
        ("\tA ship\n\tIt left\n\tIt came\n", "text"),
        ("1,2\n3,4\n5,6\n", "text"),
        ("", "text"),
    ],
)
def test_tables_are_recognised_by_their_content(sample, name):
    assert recognise(sample.encode()).name == name


def test_the_name_counts_where_the_content_shows_nothing():
    for path, name in {
        "a.csv": "csv",
        "A.CSV": "csv",
        "a.csv.gz": "csv",
        "a.tsv": "tsv",
        "a.txt": "text",
        "csv": "text",
    }.items():
        assert recognise(b"text\nOne.\n", path=path).name == name
    assert recognise(b'{"text": "a"}\n', path="a.csv").name == "jsonl"


def test_real_tables(shared_data):
    found = {
        str(path.relative_to(shared_data)): recognise(path.read_bytes()[: 1 << 16]).name
        for path in sorted(shared_data.glob("glue/*/*.tsv"))
    }
    # CoLA's training file has no header.
    expected = dict.fromkeys(found, "tsv") | dict.fromkeys(
        [name for name in found if name in ("glue/CoLA/train.tsv", "glue/CoLA/dev.tsv")], "columns"
    )
    assert found == expected
