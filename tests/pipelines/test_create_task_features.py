"""`beambert features`: records of every kind, what info.json counts, and what is refused."""

import dataclasses
import gzip
import json
import random
import shutil

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.coders import example_coder

from beambert.errors import InputError
from beambert.pipelines import features as job
from beambert.pipelines.create_task_features import main
from beambert.pipelines.records.encoding import RecordWriter
from beambert.pipelines.records.reading import read_records
from beambert.pipelines.tasks.declarations import find_task
from beambert.pipelines.tasks.feature_folder import made_from, open_features, read_features
from beambert.pipelines.tasks.reading import read_examples, read_splits
from beambert.pipelines.tasks.squad import read_questions
from beambert.pipelines.tasks.task import TaskFeatures
from beambert.pipelines.tasks.texts import TextFeatures
from beambert.pipelines.tasks.windows import WindowParameters, make_windows, span_features
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.pipelines.tokenizers.wordpiece import OffsetTokenizer

LENGTH = 12
KINDS = ("classification", "multi_label", "regression", "choice", "tagging", "squad2.0")
SENTENCES = ["the river", "a small house by it", "it built the old north church in that year ."]


def write_table(path, rows):
    path.write_text("\n".join("\t".join(row) for row in rows) + "\n")


def question_file(number: int, count: int) -> dict:
    context = "the old river is by the north church . " * 4
    questions = [
        {
            "id": f"{number}-{i}",
            "question": SENTENCES[i % 3],
            "answers": []
            if i % 2
            else [{"text": "north church", "answer_start": context.index("north")}],
            "is_impossible": bool(i % 2),
        }
        for i in range(count)
    ]
    return {"data": [{"title": "", "paragraphs": [{"context": context, "qas": questions}]}]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, vocabulary):
    """A folder of every kind; test files without labels."""
    root = tmp_path_factory.mktemp("tasks")
    (root / "vocab.txt").write_bytes(vocabulary.serialize())
    for kind in KINDS:
        (root / kind).mkdir()
    for number, (split, count) in enumerate((("train", 11), ("dev", 5), ("test", 4))):
        texts = [" ".join(SENTENCES[(i + number) % 3 :][:2]) for i in range(count)]
        labelled = split != "test"
        own = {"classification": ["good", "bad"], "multi_label": ["good,bad", ""]}
        for kind, labels in (own | {"regression": ["-1.5", "2"]}).items():
            rows = [["text", *(["label"] if labelled else [])]]
            rows += [[t, *([labels[i % 2]] if labelled else [])] for i, t in enumerate(texts)]
            write_table(root / kind / f"{split}.tsv", rows)
        rows = [["text", "choice0", "choice1", "choice2", *(["label"] if labelled else [])]]
        rows += [[t, *SENTENCES, *([str(i % 3)] if labelled else [])] for i, t in enumerate(texts)]
        write_table(root / "choice" / f"{split}.tsv", rows)
        tags = ["O", "B-PER", "I-PER"]
        lines = [
            "".join(
                f"{word} {tags[i % 3]}\n" if labelled else f"{word}\n"
                for i, word in enumerate(text.split())
            )
            for text in texts
        ]
        (root / "tagging" / f"{split}.conll").write_text("\n".join(lines))
        if labelled:
            name = root / "squad2.0" / f"{split}-v2.0.json"
            name.write_text(json.dumps(question_file(number, count)))
    return root


def run(root, kind, output, *more, length=LENGTH, name=None):
    main(
        [
            *(f"--task={name or kind}", f"--data_dir={root / kind}", f"--output={output}"),
            *(f"--vocab_file={root / 'vocab.txt'}", f"--max_seq_length={length}", *more),
        ]
    )
    return output


@pytest.fixture(scope="module")
def made(folder, tmp_path_factory):
    """The features of each kind, in files of four examples."""
    found = {}

    def make(kind):
        if kind not in found:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(job, "EXAMPLES_A_SHARD", 4)
                found[kind] = run(folder, kind, tmp_path_factory.mktemp("features") / kind)
        return found[kind]

    return make


def info(output):
    return json.loads((output / "info.json").read_text())


def content(output):
    return {str(p.relative_to(output)): p.read_bytes() for p in output.rglob("*") if p.is_file()}


def in_process(root, kind, split, vocabulary, length=LENGTH) -> TaskFeatures:
    """What fine-tuning makes without a features folder."""
    task, data_dir = find_task(kind), str(root / kind)
    if kind == "squad2.0":
        questions = read_questions(root / kind / task.files[split]).questions
        tokenizer = OffsetTokenizer(vocabulary, True)
        return span_features(make_windows(questions, tokenizer, WindowParameters.of_length(length)))
    labels = read_splits(task, data_dir, ("train",), False).labels
    examples = read_examples(task, data_dir, split, labels or None)
    return task.features(examples, labels, TextFeatures(vocabulary, True, length))


def assert_same(found: TaskFeatures, expected: TaskFeatures):
    assert found.choices == expected.choices
    for name in ("input_ids", "segment_ids", "lengths"):
        one, other = getattr(found, name), getattr(expected, name)
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    for name in ("targets", "token_targets"):
        ones, others = getattr(found, name), getattr(expected, name)
        assert ones.keys() == others.keys()
        for target in others:
            assert ones[target].dtype == others[target].dtype
            np.testing.assert_array_equal(ones[target], others[target])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_read_back_as_made_in_process(made, folder, vocabulary, kind):
    features = open_features(str(made(kind)), "--features")
    for split in ("train", "dev"):
        assert_same(features.read(split), in_process(folder, kind, split, vocabulary))
    assert len(features.files["train"]) == 3


def records_of(output, split):
    for path in sorted((output / split).glob("*.tfrecord")):
        with open(path, "rb") as file:
            yield from read_records(file)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_fits_every_split(made, kind):
    """TFX's decoder takes it, and values are inside of what it says."""
    schema = text_format.Parse((made(kind) / "schema.pbtxt").read_text(), schema_pb2.Schema())
    for split in info(made(kind))["splits"]:
        records = list(records_of(made(kind), split))
        decoder = example_coder.ExamplesToRecordBatchDecoder(schema.SerializeToString())
        batch = decoder.DecodeBatch(records)
        for feature in schema.feature:
            column = batch.column(feature.name)
            if split in feature.not_in_environment:
                assert column.null_count == len(records)
                continue
            assert column.null_count == 0
            lengths = np.diff(column.offsets.to_numpy())
            values = column.flatten().to_numpy()
            if feature.HasField("shape"):
                assert set(lengths) == {feature.shape.dim[0].size}
            if feature.HasField("int_domain"):
                assert values.min() >= feature.int_domain.min
                if feature.int_domain.HasField("max"):
                    assert values.max() <= feature.int_domain.max
    names = {feature.name for feature in schema.feature}
    in_records = {name for r in records for name in tf.train.Example.FromString(r).features.feature}
    assert in_records <= names


@pytest.mark.slow
def test_a_record(made, vocabulary):
    """Token by token, and row by row across the files."""
    records = [tf.train.Example.FromString(r) for r in records_of(made("choice"), "train")]
    features = [record.features.feature for record in records]
    assert [feature["row"].int64_list.value[0] for feature in features] == list(range(11))
    assert [feature["label_ids"].int64_list.value[0] for feature in features] == [
        i % 3 for i in range(11)
    ]
    first = features[2]  # The third sentence alone: its end is cut, being the longer.
    tokens = [vocabulary.tokens[i] for i in first["input_ids"].int64_list.value]
    assert list(first["sequence_lengths"].int64_list.value) == [12, 12, 12]
    assert " ".join(tokens[:12]) == ("[CLS] it built the old north church in [SEP] the river [SEP]")
    expected = [0] * 9 + [1] * 3
    assert list(first["segment_ids"].int64_list.value[:12]) == expected


@pytest.mark.slow
def test_counts(made):
    of = info(made("classification"))["splits"]
    assert {split: (s["read"], s["used"], s["left_out"]) for split, s in of.items()} == {
        "train": (11, 11, {}),
        "dev": (5, 5, {}),
        "test": (4, 4, {}),
    }
    assert of["train"]["labels"] == {"bad": 5, "good": 6} and of["test"]["labels"] == {}
    # Sentences of 2, 5 and 10 words, in pairs of neighbours; 12 positions leave room for ten.
    assert of["train"]["sequences_that_lost_tokens"] == sum(i % 3 == 1 for i in range(11))
    assert of["train"]["sequences"] == sum(f["records"] for f in of["train"]["files"]) == 11
    spans = info(made("squad2.0"))["splits"]["train"]
    assert spans["labels"] == {"answerable": 6, "impossible": 5}
    assert spans["sequences"] > spans["sequences_with_answer"] > 0
    # A third of 12 are four pieces; the second question has five, the third ten.
    assert 0 < spans["sequences_that_lost_tokens"] < spans["sequences"]
    tags = info(made("tagging"))
    assert tags["made_from"]["labels"] == ["B-PER", "I-PER", "O"]
    assert (made("tagging") / "labels.txt").read_text() == "B-PER\nI-PER\nO\n"


@pytest.mark.release
def test_same_bytes_with_more_workers(made, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(job, "EXAMPLES_A_SHARD", 4)
    workers = ("--direct_num_workers=2", "--direct_running_mode=multi_processing")
    other = run(folder, "choice", tmp_path / "features", *workers)
    assert content(other) == content(made("choice"))


@pytest.mark.slow
def test_finished_unfinished_and_another_job(folder, tmp_path, capsys):
    output = run(folder, "regression", tmp_path / "features")
    before = content(output)
    run(folder, "regression", output)
    assert "nothing to do" in capsys.readouterr().out
    assert content(output) == before
    with pytest.raises(InputError, match="max_seq_length there 12, here 16"):
        run(folder, "regression", output, length=16)
    # A run that was killed: part of a file, no marker.
    (output / "_SUCCESS").rename(output / "_UNFINISHED")
    (output / "train" / "_tmp-1-part").write_bytes(b"x")
    (output / "dev" / "part-00000-of-00001.tfrecord").unlink()
    run(folder, "regression", output)
    assert content(output) == before


@pytest.fixture
def bad_rows(folder, tmp_path):
    root = tmp_path / "mine"
    (root / "classification").mkdir(parents=True)
    shutil.copy(folder / "vocab.txt", root)
    for path in (folder / "classification").iterdir():
        shutil.copy(path, root / "classification")
    with open(root / "classification" / "train.tsv", "a") as file:
        file.write("\tgood\n the river\t \nthe\tgood\tbad\n\tbad\n")
    with open(root / "classification" / "dev.tsv", "a") as file:
        file.write("the river\todd\n")
    return root


@pytest.mark.slow
def test_bad_rows_are_counted(bad_rows, tmp_path, capsys):
    output = run(bad_rows, "classification", tmp_path / "features", "--skip_bad_rows")
    of = info(output)["splits"]
    assert of["train"]["left_out"] == {
        "has an empty 'label'": 1,
        "has an empty 'text'": 2,
        "needs 2 fields (text, label) but has 3": 1,
    }
    assert (of["train"]["read"], of["train"]["used"]) == (15, 11)
    assert of["dev"]["left_out"] == {
        "has the label 'odd', which is not one of bad, good": 1,
    }
    assert capsys.readouterr().out.count("left out: ") == 5


@pytest.mark.slow
def test_what_was_made_from_something_else_is_refused(made, folder, vocabulary):
    opened = open_features(str(made("classification")), "--features")
    hashes = {split: opened.info.made_from["data_sha256"][split] for split in ("train", "dev")}
    given = (find_task("classification"), ("bad", "good"), vocabulary, True, LENGTH, hashes)
    opened.check(made_from(*given))
    others = {
        0: (find_task("regression"), r"--task there \"classification\", here \"regression\""),
        1: (("bad", "odd"), r"labels there \[\"bad\", \"good\"\], here \[\"bad\", \"odd\"\]"),
        2: (Vocabulary((*vocabulary.tokens, "more")), "--vocab_file or --tokenizer is another one"),
        3: (False, "do_lower_case there true, here false"),
        4: (16, "max_seq_length there 12, here 16"),
        5: (hashes | {"dev": "0"}, "--data_dir is another one"),
    }
    for place, (value, message) in others.items():
        with pytest.raises(InputError, match=message):
            opened.check(made_from(*given[:place], value, *given[place + 1 :]))


@pytest.mark.slow
def test_damaged_folders_are_refused(made, tmp_path):
    copy = tmp_path / "features"
    shutil.copytree(made("choice"), copy)
    (path,) = (copy / "dev").glob("*-00001-*")
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(InputError, match="has changed since it was written"):
        open_features(str(copy), "--features")
    path.unlink()
    with pytest.raises(InputError, match="cannot be read"):
        open_features(str(copy), "--features")
    for text in ("{}", '{"format_version": 1, "made_from": {}, "splits": {}, "versions": {}}'):
        (copy / "info.json").write_text(text)
        with pytest.raises(InputError, match=r"info.json: not the info.json of a features folder"):
            open_features(str(copy), "--features")
    (copy / "_SUCCESS").unlink()
    with pytest.raises(InputError, match="not a finished features folder"):
        open_features(str(copy), "--features")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["choice", "tagging"])
def test_records_in_any_order_and_compressed(made, folder, vocabulary, tmp_path, kind):
    """As TFX's ImportExampleGen leaves them."""
    records = list(records_of(made(kind), "train"))
    random.Random(3).shuffle(records)
    with open(tmp_path / "data.gz", "wb") as file:
        writer = RecordWriter(file, "gzip")
        writer.write(records)
        writer.finish()
    assert gzip.decompress((tmp_path / "data.gz").read_bytes())
    found = read_features(kind, [str(tmp_path / "data.gz")], "--features")
    assert_same(found, in_process(folder, kind, "train", vocabulary))


def test_class_weights_do_not_decide_the_features(vocabulary):
    """They belong to the loss; windows of long texts do decide them."""
    task = find_task("sst-2")
    common = (["0", "1"], vocabulary, True, LENGTH, {})
    weighted = dataclasses.replace(task, class_weights="balanced")
    assert made_from(weighted, *common) == made_from(task, *common)
    in_windows = dataclasses.replace(task, max_windows=8)
    assert made_from(in_windows, *common) != made_from(task, *common)
