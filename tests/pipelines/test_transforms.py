"""The transforms in a custom pipeline: the examples of their docstrings, and beyond them."""

import dataclasses
import doctest
import inspect
import json
import os

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.typehints.decorators import IOTypeHints
from support import stand_in_models
from support.sample_text import WORDS

import beambert
from beambert import (
    CreatePretrainingData,
    LearnVocabulary,
    Predict,
    PredictionJob,
    PretrainingDataJob,
    VerificationJob,
    VerifyRecords,
    VocabularyJob,
)
from beambert.errors import InputError

TRANSFORMS = [
    beambert.CreatePretrainingData,
    beambert.LearnVocabulary,
    beambert.Predict,
    beambert.ReadDocuments,
    beambert.VerifyRecords,
]
TEXTS = [
    "\n".join(" ".join(WORDS[(i + j) % 60 : (i + j) % 60 + 8]) + "." for j in range(6))
    for i in range(12)
]


@pytest.fixture
def folder(tmp_path, monkeypatch, vocabulary):
    """Is the working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.txt").write_bytes(vocabulary.serialize())
    return tmp_path


def make_records(output="records", **given):
    job = PretrainingDataJob(
        vocab_file="words.txt",
        output=output,
        max_seq_length=(32,),
        dupe_factor=2,
        num_shards=2,
        **given,
    )
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        made = pipeline | beam.Create(TEXTS) | CreatePretrainingData(job)
        # Workers may have another working folder.
        assert_that(made, equal_to([os.path.abspath(output)]))
    return job


def make_model(folder):
    folder.mkdir()
    stand_in_models.save(folder)
    columns = {"text_columns": ["text"]}
    training = {"kind": "classification", "is_pair": False, "columns": columns}
    (folder / "training.json").write_text(json.dumps(training))
    (folder / "_SUCCESS").write_text("")


def make_vocabulary(folder):
    (folder / "words.txt").rename("vocab.txt")


def make_texts(folder):
    rows = [{"text": "The river begins in the north."}, {"body": "A song."}]
    (folder / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


# What the examples of some find in their folder.
FOUND = {
    "CreatePretrainingData": make_vocabulary,
    "ReadDocuments": make_texts,
    "VerifyRecords": lambda folder: make_records(),
    "Predict": lambda folder: make_model(folder / "model"),
}


@pytest.mark.slow
@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda of: of.__name__)
def test_the_example_of_the_docstring(transform, folder):
    FOUND.get(transform.__name__, lambda folder: None)(folder)
    test = doctest.DocTestParser().get_doctest(
        inspect.getdoc(transform), {}, transform.__name__, None, None
    )
    assert test.examples
    told = []
    doctest.DocTestRunner(verbose=False).run(test, out=told.append)
    assert told == []


def test_a_finished_folder_is_not_written_to_again(folder):
    job = make_records()
    with pytest.raises(InputError, match="--output=.*/records: is finished already"):
        beam.Pipeline() | beam.Create(TEXTS) | CreatePretrainingData(job)


def test_the_flag_of_the_original_for_whole_words():
    named = PretrainingDataJob(vocab_file="words.txt", output="records", masks="whole_word")
    flagged = PretrainingDataJob(vocab_file="words.txt", output="records", do_whole_word_mask=True)
    assert named.lengths() == flagged.lengths()
    assert named.lengths()[0].recorded()["do_whole_word_mask"] is True
    for masks in ("span", "none"):
        with pytest.raises(InputError, match="--do_whole_word_mask"):
            PretrainingDataJob(
                vocab_file="words.txt", output="records", masks=masks, do_whole_word_mask=True
            )


def test_verification_finds_what_is_wrong(folder):
    make_records()
    part = next((folder / "records").glob("part-00000*"))
    part.write_bytes(part.read_bytes()[:-3])
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        found = pipeline | VerifyRecords(VerificationJob(inputs=("records",)))
        assert_that(found | beam.Map(lambda of: of["faults"] > 0), equal_to([True]))
    assert json.loads((folder / "records-verification" / "verification.json").read_text())["faults"]


def test_a_vocabulary_is_given_and_written(folder):
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        learned = (
            pipeline
            | beam.Create(TEXTS)
            | LearnVocabulary(VocabularyJob(output="v.txt", vocab_size=150))
        )
        assert_that(learned | beam.Map(len), equal_to([150]))
    assert len((folder / "v.txt").read_text().splitlines()) == 150
    with pytest.raises(InputError, match="--output=.*/v.txt: exists already"):
        beam.Pipeline() | beam.Create(TEXTS) | LearnVocabulary(VocabularyJob(output="v.txt"))


@pytest.mark.slow
def test_texts_in_windows_are_one_corpus(folder):
    make_records()
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        plain = pipeline | "Texts" >> beam.Create(TEXTS)
        stamped = [TimestampedValue(text, at) for at, text in enumerate(TEXTS)]
        windowed = (
            pipeline
            | beam.Create(stamped)
            | beam.Map(lambda text: text).with_output_types(str)
            | beam.WindowInto(FixedWindows(3))
        )
        _ = plain | "1" >> LearnVocabulary(VocabularyJob(output="plain.txt", vocab_size=150))
        _ = windowed | "2" >> LearnVocabulary(VocabularyJob(output="windowed.txt", vocab_size=150))
        job = PretrainingDataJob(
            vocab_file="words.txt",
            output="windowed",
            max_seq_length=(32,),
            dupe_factor=2,
            num_shards=2,
        )
        _ = windowed | "3" >> CreatePretrainingData(job)
    assert (folder / "windowed.txt").read_bytes() == (folder / "plain.txt").read_bytes()
    for path in (folder / "records").glob("part*"):
        assert (folder / "windowed" / path.name).read_bytes() == path.read_bytes()


def test_a_text_that_cannot_be_answered_says_why(folder):
    make_model(folder / "model")
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        answers = (
            pipeline
            | beam.Create([" ", {"text": "bad", "id": "7"}])
            | Predict(PredictionJob("model"))
            | beam.Map(lambda of: (of.get("id"), of.get("label"), of.get("reason")))
        )
        reason = "has an empty 'text'; fill it in or delete the row"
        assert_that(answers, equal_to([(None, None, reason), ("7", "negative", None)]))


def test_one_transform_of_a_pipeline_writes_an_output(folder):
    """The folder's claim alone would take the second one for the same job, given again."""
    job = PretrainingDataJob(
        vocab_file="words.txt", output="records", max_seq_length=32, num_shards=2
    )
    same = dataclasses.replace(job, output="records/")
    pipeline = beam.Pipeline()
    texts = pipeline | beam.Create(TEXTS)
    _ = texts | "1" >> CreatePretrainingData(job)
    _ = texts | "2" >> LearnVocabulary(VocabularyJob(output="v.txt"))
    for given, transform in (
        (texts, CreatePretrainingData(same)),
        (texts, LearnVocabulary(VocabularyJob(output="v.txt"))),
    ):
        with pytest.raises(InputError, match="another transform of the pipeline writes there"):
            given | f"another {transform.label}" >> transform
    # Another pipeline does the job anew.
    _ = beam.Pipeline() | beam.Create(TEXTS) | CreatePretrainingData(job)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_type_hints_are_those_that_beam_takes(caplog, transform):
    """Beam warns in a user's console of others, whenever a pipeline is built."""
    IOTypeHints.from_callable(transform.expand).strip_pcoll()
    assert not caplog.records
