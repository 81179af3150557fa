"""The parts of the data job in pipelines of one's own."""

import dataclasses
import json

import apache_beam as beam
import pytest
from apache_beam.coders import RowCoder
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from support import data_command
from support.data_command import body, data, hashes, info

from beambert import (
    Deduplicate,
    DocumentRow,
    InstanceRow,
    MakeBertInstances,
    PretrainingDataJob,
    ReadDocuments,
    RejectRow,
    SentencesRow,
    SplitSentences,
    Tokenize,
    TokenizedRow,
    WriteRecords,
)
from beambert.errors import InputError
from beambert.pipelines.pretraining import parts
from beambert.trainer.pretraining.records import open_records

corpus, vocab_file = data_command.corpus, data_command.vocab_file
ROWS = [
    DocumentRow("A river.\nÄ city.", "a.txt", 1, True),
    RejectRow("a.txt", 3, "no_text", "line 3 has no 'text'"),
    SentencesRow(["A river.", "Ä city."], "a.txt", 1, [1]),
    TokenizedRow(bytes(range(16)), [[5, 70_000], [7]], "a.txt", 1),
    InstanceRow(1, 2, [2, 5], [1, 1], [0, 1], [1], [6], [1.0], [0]),
    InstanceRow(1, 2, [2, 5], [1, 1], [0, 0], [1], [6], [1.0], []),
]
HELD_OUT = {
    "eval_fraction": 0.25,
    "max_seq_length": (32, 64),
    "max_predictions_per_seq": (5, 9),
    "compression": "gzip",
}


@pytest.fixture(scope="module")
def texts(tmp_path_factory, corpus):
    """Patterns of two files of documents; eight documents are in both."""
    folder = tmp_path_factory.mktemp("texts")
    for name, documents in (("a", corpus[:20]), ("b", corpus[12:32])):
        lines = (json.dumps({"text": body(document)}) + "\n" for document in documents)
        (folder / f"{name}.jsonl").write_text("".join(lines))
    return [f"{folder}/{name}*" for name in "ab"]


@pytest.fixture
def job(vocab_file, tmp_path):
    return a_job(vocab_file, tmp_path / "parts")


def a_job(vocab_file, output, **given):
    small = {"max_seq_length": (32,), "dupe_factor": 2, "num_shards": 3}
    return PretrainingDataJob(vocab_file=str(vocab_file), output=str(output), **small | given)


def run_parts(texts, job, duplicates):
    """Between the parts a shuffle, through which all rows go in their coders."""
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        read = pipeline | ReadDocuments(texts)
        split = read.documents | "1" >> beam.Reshuffle() | SplitSentences()
        distinct = split | Deduplicate() if duplicates == "exact" else split
        tokenized = distinct | "2" >> beam.Reshuffle() | Tokenize(job.vocab_file)
        instances = tokenized | "3" >> beam.Reshuffle() | MakeBertInstances(job)
        folders = instances | "4" >> beam.Reshuffle() | WriteRecords(job)
        expected = [folder.path for folder in parts._plan_of(job).layout.folders()]
        assert_that(folders, equal_to(expected))
    steps = (read.documents, split, distinct, tokenized, instances, folders)
    kinds = [DocumentRow, SentencesRow, SentencesRow, TokenizedRow, InstanceRow, str]
    assert [step.element_type for step in steps] == kinds
    assert read.rejects.element_type == RejectRow


@pytest.mark.parametrize("row", ROWS, ids=lambda row: type(row).__name__)
def test_rows_have_schemas_and_deterministic_coders(row):
    coder = beam.coders.registry.get_coder(type(row))
    assert isinstance(coder, RowCoder) and coder.is_deterministic()
    assert coder.decode(coder.encode(row)) == row
    assert [field.name for field in coder.schema.fields] == list(row._fields)


@pytest.mark.slow
@pytest.mark.parametrize(
    "duplicates, given",
    [
        ("exact", HELD_OUT),
        ("keep", {"pairs": "reference", "random_next": "source", "num_shards": 12}),
        ("exact", {"pairs": "none", "masks": "span"}),
        ("keep", {"pairs": "sop", "random_next": "source", "num_shards": 12}),
    ],
)
def test_the_bytes_are_those_of_the_command(
    capsys, tmp_path, texts, vocab_file, monkeypatch, duplicates, given
):
    # Batches of a few rows.
    monkeypatch.setattr(parts, "BATCH_CHARACTERS", 300)
    monkeypatch.setattr(parts, "_BATCH_INSTANCES", 7)
    run_parts(texts, a_job(vocab_file, tmp_path / "parts", **given), duplicates)
    as_text = {
        name: ",".join(map(str, value)) if isinstance(value, tuple) else value
        for name, value in ({"max_seq_length": 32, "num_shards": 3} | given).items()
    }
    flags = [f"--{name}={value}" for name, value in as_text.items()]
    flags += [f"--duplicates={duplicates}", "--input", *texts]
    # The last value of a flag counts; `data` has some of its own.
    status, _, error = data(capsys, vocab_file, tmp_path / "command", *flags)
    assert (status, error) == (0, "")
    made = [path.parent for path in (tmp_path / "command").rglob("info.json")]
    assert len(made) == (4 if given is HELD_OUT else 1)
    for folder in made:
        mine = tmp_path / "parts" / folder.relative_to(tmp_path / "command")
        assert hashes(mine) == hashes(folder)
        assert {one_path.name for one_path in mine.iterdir()} == {
            one_path.name for one_path in folder.iterdir()
        }
        for name in ("statistics.json", "schema.pbtxt", "vocab.txt"):
            assert (mine / name).read_bytes() == (folder / name).read_bytes()
        said, expected = info(mine), info(folder)
        assert said["counts"].items() <= expected["counts"].items()
        assert said["parameters"].items() <= expected["parameters"].items()
        assert "duplicates" not in said["parameters"]
        # It can be trained on.
        objective = {"none": "mlm", "sop": "sop"}.get(given.get("pairs"), "bert")
        made_records = open_records(str(mine), "--data", objective).instances
        assert made_records == expected["counts"]["instances"] > 0
    is_uneven = "random_next" in given
    assert (0 in [file["instances"] for file in expected["files"]]) == is_uneven


def test_instances_depend_on_nothing_but_the_documents(job):
    """Neither on the order nor on windows, also where documents of one hash differ."""
    documents = [
        TokenizedRow(bytes([number % 7] * 16), [[30 + number] * 9, [60 + number] * 9])
        for number in range(20)
    ]
    made = []
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        for order in (1, -1):
            stamped = [TimestampedValue(row, at) for at, row in enumerate(documents[::order])]
            name = f"{order}"
            given = pipeline | name >> beam.Create(stamped) | f"Get {name}" >> beam.Map(lambda v: v)
            if order == -1:
                given |= beam.WindowInto(FixedWindows(3))
            given |= f"Type {name}" >> beam.Map(lambda row: row).with_output_types(TokenizedRow)
            instances = given | f"Make {name}" >> MakeBertInstances(job)
            made.append(instances | f"List {name}" >> beam.combiners.ToList())
        both = made | beam.Flatten() | beam.combiners.ToList()
        same = both | beam.Map(lambda of: (len(of[0]) > 40, sorted(of[0]) == sorted(of[1])))
        assert_that(same, equal_to([(True, True)]))


def test_documents_are_cleaned_filtered_and_counted(vocab_file):
    documents = [
        DocumentRow("the  of and. to in the\u00ad.\nof and", "b.txt"),
        DocumentRow("the of and. to in the.\nof and", "a.txt", 1),
        DocumentRow("of", "c.txt"),
        DocumentRow("\u0301" * 9, "d.txt"),
    ]
    pipeline = beam.Pipeline(runner="FnApiRunner")
    tokenized = (
        pipeline
        | beam.Create(documents)
        | SplitSentences(sentences="line", min_document_characters=5)
        | Deduplicate()
        | Tokenize(str(vocab_file))
        | beam.Map(lambda row: (row.path, row.source, [len(ids) for ids in row.token_ids]))
    )
    assert_that(tokenized, equal_to([("b.txt", 0, [8, 2])]))
    result = pipeline.run()
    found = result.metrics().query()["counters"]
    counts = {
        each.key.metric.name: each.result
        for each in found
        if each.key.metric.namespace == "beambert"
    }
    assert counts == {"dropped too_short": 1, "dropped no_tokens": 1}


@pytest.mark.parametrize(
    "given, message",
    [
        ({"num_shards": None}, "--num_shards: must be given"),
        ({"duplicates": "exact"}, "--duplicates=exact: has no effect on MakeBertInstances"),
        ({"input": ("a*",)}, "--input="),
    ],
)
def test_a_job_with_what_is_for_other_parts_is_refused(vocab_file, given, message):
    for part in (MakeBertInstances, WriteRecords):
        with pytest.raises(InputError, match=message):
            part(a_job(vocab_file, "out", **given))


@pytest.mark.parametrize(
    "row",
    [TokenizedRow(b"short", [[7, 8]], "a.txt")]
    + [TokenizedRow(bytes(16), ids, "a.txt") for ids in ([[7], [-1]], [5, 6], ["5"], [[None, 5]])],
    ids=str,
)
def test_a_document_whose_hash_or_ids_have_another_form(job, row):
    with pytest.raises(InputError, match="a.txt: its `hash`"):
        list(parts._pack(row, parts._plan_of(job).layout))


@pytest.mark.parametrize(
    "sentences", ["A river.", None, ["A river.", b"A city."], list("A long river.")], ids=str
)
@pytest.mark.parametrize("part", [Deduplicate, Tokenize])
def test_sentences_that_are_no_list_of_texts(vocab_file, part, sentences):
    """A text would be taken for a list of letters."""
    transform = part() if part is Deduplicate else part(str(vocab_file))
    row = SentencesRow(["A river."], "a.txt")
    with (
        pytest.raises(Exception, match="a.txt: its `sentences` aren't a list of strings"),
        beam.Pipeline(runner="FnApiRunner") as pipeline,
    ):
        given = (
            pipeline | beam.Create([row]) | beam.Map(lambda row: row._replace(sentences=sentences))
        )
        given | transform


def test_a_list_of_letters_is_a_document(vocab_file):
    row = SentencesRow(list("abcdefghijkl"))
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        tokenized = pipeline | beam.Create([row]) | Tokenize(str(vocab_file))
        assert_that(tokenized | beam.Map(lambda row: len(row.token_ids)), equal_to([12]))


def test_the_instances_are_those_of_the_job_that_info_tells(job, tmp_path):
    with pytest.raises(InputError, match="^--output=.*: the instances are of another job"):
        pipeline = beam.Pipeline(runner="FnApiRunner")
        tokenized = pipeline | beam.Create([]).with_output_types(TokenizedRow)
        other = dataclasses.replace(job, random_seed=7)
        tokenized | MakeBertInstances(other) | WriteRecords(job)
    assert not (tmp_path / "parts").exists()


def test_instances_that_fit_no_record_are_refused(job, tmp_path):
    plan = parts._plan_of(job)
    (tmp_path / "parts").mkdir()
    write, build = parts.WriteInstances(plan), parts.BuildInstances(plan)
    write.setup()
    (document,) = parts._pack(TokenizedRow(bytes(16), [[7, 8], [70_000]]), plan.layout)
    with pytest.raises(InputError, match="vocab.txt: has .* but a document has the id 70000"):
        list(build.process((document[0], [document[1]])))
    (document,) = parts._pack(TokenizedRow(bytes(16), [[7, 8], [9, 9]]), plan.layout)
    (first, *_) = build.process((document[0], [document[1]]))

    def refused(match, **changed):
        _, (shard, value) = parts._encode_rows([first, first._replace(**changed)])
        with pytest.raises(InputError, match=match):
            list(write.process((shard, [value])))

    refused("there is an instance of shard 3", shard=3)
    refused("an instance of shard 0 and of the lengths .9", input_ids=[1] * 9)
    refused("1 of its instances lack a feature, or have one", segment_ids=[0])
    refused(
        "1 of its instances do not begin with the vocabulary's", input_ids=[7, *first.input_ids[1:]]
    )
    assert not list((tmp_path / "parts").iterdir())


def test_a_folder_is_claimed_and_needs_an_instance(job, tmp_path):
    def run():
        with beam.Pipeline(runner="FnApiRunner") as pipeline:
            none = pipeline | beam.Create([]).with_output_types(InstanceRow)
            none | WriteRecords(job)

    with pytest.raises(Exception, match="parts: there is no instance for it; check the steps"):
        run()
    assert (tmp_path / "parts" / "_UNFINISHED").exists()
    assert not (tmp_path / "parts" / "_SUCCESS").exists()
    (tmp_path / "parts" / "_UNFINISHED").rename(tmp_path / "parts" / "_SUCCESS")
    with pytest.raises(InputError, match="parts: is finished already"):
        run()
