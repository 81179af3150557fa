"""Documents of `ReadDocuments` in custom pipelines."""

import json

import apache_beam as beam
import pytest
from apache_beam.coders import RowCoder
from support.data_command import body, data, hashes, info

from beambert import (
    CreatePretrainingData,
    DocumentRow,
    PretrainingDataJob,
    ReadDocuments,
    RejectRow,
)
from beambert.console import ProgressTally
from beambert.errors import InputError
from beambert.pipelines.corpus.base import ReadOptions
from beambert.pipelines.corpus.transforms import read_documents

ROWS = [
    DocumentRow("A river.\nÄ city.", "a.txt", True, "de"),
    RejectRow("a.txt", 3, "no_text", "line 3 has no 'text'"),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: type(row).__name__)
def test_rows_have_schemas_and_deterministic_coders(row):
    coder = beam.coders.registry.get_coder(type(row))
    assert isinstance(coder, RowCoder) and coder.is_deterministic()
    assert coder.decode(coder.encode(row)) == row
    assert [field.name for field in coder.schema.fields] == list(row._fields)


def test_rows_make_the_records_of_the_command(capsys, tmp_path, corpus, vocab_file):
    """Behind a shuffle, through which all rows go in their coders."""
    rows = [
        {"text": body(document), "lang": ("en", "de")[n % 2]} for n, document in enumerate(corpus)
    ]
    lines = "".join(json.dumps(row) + "\n" for row in [*rows, {"lang": "en"}])
    (tmp_path / "texts.jsonl").write_text(lines)
    job = PretrainingDataJob(
        vocab_file=str(vocab_file),
        output=str(tmp_path / "rows"),
        max_seq_length=(32,),
        dupe_factor=2,
        num_shards=3,
        duplicates="exact",
        eval_fraction=0.25,
    )
    pipeline = beam.Pipeline(runner="FnApiRunner")
    read = pipeline | ReadDocuments(str(tmp_path / "texts.jsonl"), language_column="lang")
    assert read.documents.element_type == DocumentRow
    assert read.rejects.element_type == RejectRow
    _ = read.documents | beam.Reshuffle() | CreatePretrainingData(job)
    counters = pipeline.run().metrics().query()["counters"]
    found = {each.key.metric.name: each.result for each in counters}
    assert found["rejected no_text"] == 1
    flags = ["--language_column=lang", "--duplicates=exact", "--eval_fraction=0.25"]
    flags += [f"--input={tmp_path}/texts.jsonl", "--num_shards=3", "--max_reject_fraction=0.5"]
    status, _, error = data(capsys, vocab_file, tmp_path / "command", *flags)
    assert (status, error) == (0, "")
    for inner in ("", "eval"):
        assert hashes(tmp_path / "rows" / inner) == hashes(tmp_path / "command" / inner)
    used = [info(tmp_path / name)["counts"]["documents"]["used"] for name in ("rows", "command")]
    assert used[0] == used[1] > 0


def test_an_unknown_language_is_refused(tmp_path, vocab_file):
    job = PretrainingDataJob(vocab_file=str(vocab_file), output=str(tmp_path / "o"), num_shards=1)
    row = DocumentRow("nuqneH", language="klingon")
    with (
        pytest.raises(Exception, match="--language_column: .*'klingon'"),
        beam.Pipeline(runner="FnApiRunner") as pipeline,
    ):
        _ = pipeline | beam.Create([row]) | CreatePretrainingData(job)


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ("auto", ["Es war", "einmal. ", "", "Ende."]),
        ("wrapped", ["Es war einmal.", "Ende."]),
        ("paragraphs", ["Es war", "einmal.", "Ende."]),
        ("sentences", ["Es war", "einmal.", "Ende."]),
    ],
)
def test_the_lines_of_a_row_are_read_as_the_flag_says(layout, expected):
    """Those of a row are paragraphs, as `ReadDocuments` gives them, unless it says otherwise."""
    row = DocumentRow("Es war\neinmal. \n\nEnde.", language="de")
    [found] = read_documents(row, ReadOptions(layout=layout), ProgressTally(None))
    assert found.text.split("\n") == expected
    assert (found.is_split, found.language) == (layout == "sentences", "de")
    split = row._replace(is_split=True)
    if layout in ("auto", "sentences"):
        [found] = read_documents(split, ReadOptions(layout=layout), ProgressTally(None))
        assert found.text == row.text and found.is_split
    else:
        with pytest.raises(InputError, match=f"--layout={layout}: "):
            list(read_documents(split, ReadOptions(layout=layout), ProgressTally(None)))
