"""`beambert predict`: every text is answered or told of."""

import collections
import contextlib
import gzip
import io
import json
import pathlib
import shutil
import types

import pytest
import tensorflow as tf
from support import stand_in_models

from beambert.errors import InputError
from beambert.pipelines import prediction
from beambert.pipelines.predict import main
from beambert.pipelines.tasks.table_task import TextExample


def model_folder(folder, model, kind, labels=(), is_pair=False, **specs):
    """A folder as `finetune` leaves it, with a model whose answers are known."""
    folder.mkdir()
    stand_in_models.save_model(model, folder, labels, **specs)
    columns = {"text_columns": ["text", "text_b"], "choice_columns": ["choice*"]}
    training = {"kind": kind, "labels": list(labels), "is_pair": is_pair, "columns": columns}
    (folder / "training.json").write_text(json.dumps(training))
    (folder / "_SUCCESS").write_text("")
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


@pytest.fixture(scope="module")
def made_classifier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classifier") / "model"
    model, labels = stand_in_models.Classifier(), stand_in_models.LABELS
    return model_folder(folder, model, "classification", labels)


@pytest.fixture
def classifier(made_classifier, tmp_path):
    return shutil.copytree(made_classifier, tmp_path / "model")


def lines_of(output, name):
    found = [line for path in sorted(output.glob(f"{name}-*")) for line in path.open()]
    return sorted(
        (json.loads(line) for line in found), key=lambda row: (row["file"], row.get("line", 0))
    )


def run(model, output, *inputs, more=()):
    main([f"--model={model}", f"--output={output}", *(f"--input={one}" for one in inputs), *more])
    return lines_of(output, "part"), lines_of(output, "rejects")


JSON_LINES = [
    '{"text": "so good"}',
    '{"text": "so',
    "[]",
    '{"text": "bad \\ud83d"}',
    '{"body": "x"}',
    '{"text": "bad"}',
    '{"text": ["so", "good"]}',
]


@pytest.fixture(scope="module")
def answered(made_classifier, tmp_path_factory):
    """Files of all kinds in one run: (output, printed text, file name -> answers, -> rejects)."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "a.txt").write_text("so good\n\nquite bad\n")
    with gzip.open(folder / "b.txt.gz", "wt") as file:
        file.write("neither\n")
    (folder / "c.csv").write_text('id,text\n7,"good, really"\n8,bad,9\n')
    (folder / "cut.txt.gz").write_bytes(gzip.compress(b"quite bad\n" * 1000)[:-9])
    table = 'id,text,label\n7,"good,\n really",x\n8,,y\n9,bad,z\n'
    (folder / "d.csv").write_text(table)
    (folder / "e.jsonl").write_text("".join(f"{line}\n" for line in JSON_LINES))
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        found = run(made_classifier, folder / "out", folder / "*.*")
    by_file = [collections.defaultdict(list), collections.defaultdict(list)]
    for rows, of_files in zip(found, by_file, strict=True):
        for row in rows:
            of_files[pathlib.Path(row["file"]).name].append(row)
    return folder / "out", printed.getvalue(), *by_file


def test_texts_on_lines_and_in_tables(answered):
    output, _, answers, rejects = answered
    places = [
        (name, row["line"], row["label"])
        for name in ("a.txt", "b.txt.gz", "c.csv")
        for row in answers[name]
    ]
    assert places == [
        ("a.txt", 1, "positive"),
        ("a.txt", 3, "negative"),
        ("b.txt.gz", 1, "negative"),
        ("c.csv", 2, "positive"),
    ]
    probabilities = answers["a.txt"][0]["probabilities"]
    assert probabilities == pytest.approx({"negative": 0.1, "positive": 0.9})
    found = [*rejects["a.txt"], *rejects["c.csv"]]
    assert [(row["line"], row["reason"].split("; ")[-1]) for row in found] == [
        (2, "fill it in or delete the row"),
        (3, "correct the row"),
    ]
    info = json.loads((output / "info.json").read_text())
    counts = [sum(map(len, each.values())) for each in (answers, rejects)]
    assert [info["answers"], info["rejects"], len(info["input"])] == [*counts, 6]
    assert (output / "_SUCCESS").exists()


def test_a_file_that_is_cut_off_is_told_apart(answered):
    _, printed, answers, rejects = answered
    assert [row["line"] for row in rejects["cut.txt.gz"]] == [0]
    assert not answers["cut.txt.gz"]
    assert ", of which 1 is a file (line 0), see why in" in printed


def test_rows_keep_their_numbers_and_their_other_columns(answered):
    _, _, answers, rejects = answered
    told = [(row["line"], row["row"], row["columns"], row["label"]) for row in answers["d.csv"]]
    assert told == [
        (2, 1, {"id": "7", "label": "x"}, "positive"),
        (5, 3, {"id": "9", "label": "z"}, "negative"),
    ]
    (reject,) = rejects["d.csv"]
    assert (reject["line"], reject["row"], reject["columns"]["id"]) == (4, 2, "8")


def test_a_line_that_is_not_json_is_one_reject(answered):
    """The lines after it are answered."""
    _, _, answers, rejects = answered
    found = [(row["line"], row["label"]) for row in answers["e.jsonl"]]
    assert found == [(1, "positive"), (6, "negative")]
    reasons = [
        "is not JSON (Unterminated string starting at); put one object on each line",
        "is not a JSON object; write one on each line",
        r"has half a character ('\ud83d'); correct the row",
        "has no column 'text' (it has body); rename the column or, if the data is your own, name "
        "yours with --text_columns or --label_column",
        "has a list or an object in 'text'; write one text, or a column for each",
    ]
    told = [row["reason"].split(f"line {row['line']}: ")[1] for row in rejects["e.jsonl"]]
    assert told == reasons


@pytest.mark.slow
def test_a_text_is_a_line_or_a_whole_file(classifier, tmp_path, capsys):
    (tmp_path / "a.txt").write_text("bad at first.\n\nIn the end so good.\n")
    (tmp_path / "b.txt").write_text("\n \n")
    lines, rejects = run(classifier, tmp_path / "lines", tmp_path / "*.txt")
    assert [(row["line"], row["label"]) for row in lines] == [(1, "negative"), (3, "positive")]
    assert [row["line"] for row in rejects] == [2, 1, 2]
    assert "--unit=file answers each file" in capsys.readouterr().out
    files, rejects = run(classifier, tmp_path / "files", tmp_path / "*.txt", more=["--unit=file"])
    answers = [(row["file"][-5:], row["line"], row["label"]) for row in files]
    assert answers == [("a.txt", 0, "positive")]
    assert "--unit=file" not in capsys.readouterr().out
    assert [row["line"] for row in rejects] == [0] and "has an empty" in rejects[0]["reason"]
    with pytest.raises(InputError, match='of another job .*unit there "file", here "line"'):
        run(classifier, tmp_path / "files", tmp_path / "*.txt")


def test_the_same_command_again_has_nothing_to_do(classifier, tmp_path, capsys):
    """The name of its folder would match another as a pattern."""
    (tmp_path / "out1").mkdir()
    (tmp_path / "out1" / "part-0").write_text("theirs")
    (tmp_path / "a.txt").write_text("so good\n")
    run(classifier, tmp_path / "out[1]*", tmp_path / "a.txt")
    run(classifier, tmp_path / "out[1]*", tmp_path / "a.txt")
    assert "already finished" in capsys.readouterr().out
    assert not list((tmp_path / "out[1]*").glob("_tmp-*"))
    assert (tmp_path / "out1" / "part-0").read_text() == "theirs"
    (tmp_path / "a.txt").write_text("so good, and more\n")
    with pytest.raises(InputError, match="another job .input.0.bytes there 8, here 18"):
        run(classifier, tmp_path / "out[1]*", tmp_path / "a.txt")
    (tmp_path / "a.txt").write_text("so good\n")
    (classifier / "vocab.txt").write_text("[PAD]\n")
    with pytest.raises(InputError, match="another job .*model_sha256 is another one"):
        run(classifier, tmp_path / "out[1]*", tmp_path / "a.txt")


@pytest.mark.slow
def test_nothing_that_can_be_answered(classifier, tmp_path):
    (tmp_path / "a.csv").write_text("body\ngood\nbad\n")
    more = ["--text_columns=text"]
    # It isn't said of each row of a table.
    with pytest.raises(InputError, match=r"none of 1 rows .*a\.csv, line 2: has no column 'text'"):
        run(classifier, tmp_path / "out", tmp_path / "a.csv", more=more)
    # The corrected command may have the folder.
    answers, rejects = run(
        classifier, tmp_path / "out", tmp_path / "a.csv", more=["--text_columns=body"]
    )
    assert (len(answers), rejects) == (2, [])
    (tmp_path / "b.txt").write_text("")
    with pytest.raises(InputError, match=r"there is no text in .*b\.txt"):
        run(classifier, tmp_path / "none", tmp_path / "b.txt")


def test_what_a_killed_run_left_is_not_mixed_in(classifier, tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("so good\n")
    with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
        killed.setattr("apache_beam.Pipeline.run", raise_interrupt)
        run(classifier, tmp_path / "out", tmp_path / "a.txt")
    (tmp_path / "out" / "part-00001-of-00007.jsonl").write_text("{}\n")
    (tmp_path / "out" / "_tmp-part-1").mkdir()
    answers, _ = run(classifier, tmp_path / "out", tmp_path / "a.txt")
    assert [row["label"] for row in answers] == ["positive"]
    assert not list((tmp_path / "out").glob("_tmp-*"))


def raise_interrupt(*_):
    raise KeyboardInterrupt


@pytest.mark.slow
def test_pairs_numbers_and_tags(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"left": "x", "right": "good"}\n')
    pairs = model_folder(
        tmp_path / "pairs",
        stand_in_models.Classifier(),
        "classification",
        stand_in_models.LABELS,
        is_pair=True,
        text=tf.TensorSpec([None], tf.string, name="text"),
        text_b=tf.TensorSpec([None], tf.string, name="text_b"),
    )
    columns = ["--text_columns=left,right"]
    answers, _ = run(pairs, tmp_path / "1", tmp_path / "a.jsonl", more=columns)
    assert answers[0]["label"] == "positive"
    with pytest.raises(InputError, match="--text_columns=left: .* takes two texts"):
        run(pairs, tmp_path / "2", tmp_path / "a.jsonl", more=["--text_columns=left"])
    (tmp_path / "a.txt").write_text("Ann saw  Bob\n")
    scorer = model_folder(tmp_path / "scorer", stand_in_models.Regressor(), "regression")
    answers, _ = run(scorer, tmp_path / "3", tmp_path / "a.txt")
    assert answers[0]["score"] == pytest.approx(1.2)
    names = ("negative", "positive", "z")
    labeller = model_folder(
        tmp_path / "labeller", stand_in_models.MultiLabeller(), "multi_label", names
    )
    (tmp_path / "c.txt").write_text("good and bad\nnothing\n")
    answers, _ = run(labeller, tmp_path / "7", tmp_path / "c.txt")
    assert [row["labels"] for row in answers] == [["negative", "positive"], []]
    assert answers[1]["probabilities"] == pytest.approx(dict.fromkeys(names, 0.2))
    tagger = model_folder(
        tmp_path / "tagger", stand_in_models.Tagger(), "tagging", ("B-person", "O")
    )
    answers, _ = run(tagger, tmp_path / "4", tmp_path / "a.txt")
    assert answers[0]["tags"] == ["B-person", "O", "B-person"]
    assert answers[0]["words"] == ["Ann", "saw", "Bob"]
    (tmp_path / "b.conll").write_text("Ann\tO\nsaw\tO\n\nhim\tO\n\nso good\tO\nyes\n")
    answers, rejects = run(tagger, tmp_path / "6", tmp_path / "b.conll")
    assert [(row["line"], row["words"], row["tags"]) for row in answers] == [
        (1, ["Ann", "saw"], ["B-person", "O"]),
        (4, ["him"], ["O"]),
    ]
    assert [row["line"] for row in rejects] == [6]
    assert "b.conll, line 7: needs 2 columns but has 1" in rejects[0]["reason"]
    with pytest.raises(InputError, match="--unit=file: a tagging model takes sentences"):
        run(tagger, tmp_path / "5", tmp_path / "a.txt", more=["--unit=file"])


def test_what_answers_no_texts(tmp_path, classifier):
    (tmp_path / "a.txt").write_text("so good\n")
    encoder = model_folder(tmp_path / "encoder", stand_in_models.Regressor(), "pretraining")
    with pytest.raises(InputError, match=r"answers no texts \(pretraining\)"):
        run(encoder, tmp_path / "out", tmp_path / "a.txt")
    with pytest.raises(InputError, match=r"answers no texts \(no training\.json\)"):
        run(tmp_path, tmp_path / "out", tmp_path / "a.txt")
    with pytest.raises(InputError, match="--input"):
        run(classifier, tmp_path / "out", tmp_path / "none*")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "windows", "is_cut"), [(8, 1, False), (9, 1, True), (9, 2, False)]
)
def test_texts_of_more_words_than_tokens_are_cut(words, windows, is_cut):
    training = {"kind": "classification", "max_seq_length": 8, "windows": windows}
    model = types.SimpleNamespace(training=training)
    example = TextExample("word " * words, None, None, {})
    assert prediction.is_cut(model, example) == is_cut
