"""Evaluation of the other kinds of task, each with a stand-in model whose answers are known."""

import json
import shutil

import numpy as np
import pytest
from support.stand_in_models import (
    Finder,
    Tagger,
    save_model,
)

from beambert.errors import InputError
from beambert.pipelines import evaluate

SENTENCES = [
    (["Anna", "saw", "Bo", "Li"], ["B-person", "O", "B-person", "I-person"]),
    (["nobody", "came"], ["O", "O"]),
    (["to", "Rome"], ["O", "B-place"]),
]
TAGS = ("B-person", "B-place", "I-person", "O")


def run(task, data, model, output, *more):
    """Evaluates and returns metrics.json and the page."""
    evaluate.main(
        [f"--task={task}", f"--data_dir={data}", f"--model={model}", f"--output={output}", *more]
    )
    return json.loads((output / "metrics.json").read_text()), (output / "report.html").read_text()


@pytest.fixture(scope="module")
def tagged(tmp_path_factory):
    """A folder with sentences in columns."""
    folder = tmp_path_factory.mktemp("tagged")
    sentences = (
        "".join(f"{word}\t{tag}\n" for word, tag in zip(*sentence, strict=True))
        for sentence in SENTENCES
    )
    (folder / "dev.conll").write_text("\n".join(sentences))
    return folder


@pytest.mark.slow
def test_tagging(tagged, tmp_path):
    """Right: Anna. Predicted besides: Bo, Li, Rome. Missed: Bo Li, Rome as a place."""
    model = save_model(Tagger(), tmp_path / "model", TAGS)
    metrics, page = run(
        "tagging", tagged, model, tmp_path / "output", "--metric=entity_recall", "--threshold=0.34"
    )
    overall = metrics["overall"]
    assert overall["entity_precision"] == pytest.approx(1 / 4)
    assert overall["entity_recall"] == pytest.approx(1 / 3, abs=1e-6)
    assert overall["entity_f1"] == pytest.approx(2 / 7, abs=1e-6)
    assert overall["accuracy"] == pytest.approx(6 / 8)
    assert metrics["details"]["by_type"]["place"]["true"] == 1
    assert metrics["details"]["by_type"]["person"]["predicted"] == 4
    reason = (tmp_path / "output" / "NOT_BLESSED").read_text()
    assert reason == "entity recall 0.3333 is not at least 0.3400\n"
    mistakes = page[page.index("Worst errors") :]
    assert "Bo Li (person)" in mistakes and "Rome (place)" in mistakes
    assert "nobody" not in mistakes


def test_a_tagger_with_other_labels_is_refused(tagged, tmp_path):
    """Its answers would mean something else."""
    model = save_model(Tagger(), tmp_path / "model", ("B-place", "I-person", "O"))
    with pytest.raises(InputError, match="label 'B-person', which is not one of"):
        run("tagging", tagged, model, tmp_path / "output")
    place = tmp_path / "place"
    place.mkdir()
    (place / "dev.conll").write_text("to\tO\nRome\tB-place\n")
    with pytest.raises(InputError, match="gives 'B-person', which is not in labels.txt"):
        run("tagging", place, model, tmp_path / "output")


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    """SQuAD 2.0's layout: right, right to say nothing, half right, wrong, wrong to say nothing."""
    paragraphs = [
        ("The film was found in new york.", [("found", 13)]),
        ("The film was new.", []),
        ("A song was found river house.", [("found river house", 11)]),
        ("found the city and the river", [("city", 10)]),
        ("The city was old", [("old", 13)]),
    ]
    entries = [
        {
            "context": context,
            "qas": [
                {
                    "id": str(number),
                    "question": "What was it?",
                    "answers": [{"text": text, "answer_start": at} for text, at in answers],
                    "is_impossible": not answers,
                }
            ],
        }
        for number, (context, answers) in enumerate(paragraphs)
    ]
    folder = tmp_path_factory.mktemp("questions")
    (folder / "dev-v2.0.json").write_text(json.dumps({"data": [{"paragraphs": entries}]}))
    return folder


@pytest.fixture(scope="module")
def reader(vocabulary, tmp_path_factory):
    """Answers `found`, or nothing; windows are so short that contexts take several."""
    folder = tmp_path_factory.mktemp("reader")
    save_model(finder := Finder(vocabulary.id_of("found"), 14), folder, (), **finder.specs)
    (folder / "vocab.txt").write_bytes(vocabulary.serialize())
    training = {"kind": "span", "max_seq_length": 14, "do_lower_case": True}
    training |= {"vocabulary_sha256": vocabulary.sha256, "task": "squad2.0"}
    (folder / "training.json").write_text(json.dumps(training))
    (folder / "_SUCCESS").write_text("")
    return folder


@pytest.mark.slow
def test_span(questions, reader, tmp_path):
    """Overall, by slice, and as the official files and scorer have it."""
    metrics, page = run("squad2.0", questions, reader, tmp_path / "output")
    exact = [1, 1, 0, 0, 0]
    f1 = [1, 1, 2 * 1 / (1 + 3), 0, 0]
    assert metrics["overall"]["exact_match"] == pytest.approx(np.mean(exact))
    assert metrics["overall"]["squad_f1"] == pytest.approx(np.mean(f1))
    assert metrics["slices"]["label"]["no answer"]["squad_f1"] == 1
    assert metrics["slices"]["label"]["answer"]["squad_f1"] == pytest.approx(1.5 / 4)
    assert metrics["slices"]["prediction"]["no answer"]["example_count"] == 2
    official = metrics["details"]["official"]
    assert official["HasAns_f1"] == pytest.approx(100 * 1.5 / 4)
    assert official["NoAns_exact"] == 100
    assert metrics["thresholds"][0]["threshold"] == pytest.approx(1 / 5)
    mistakes = page[page.index("Worst errors") :]
    assert "found the city and the river" in mistakes and "A song was" not in mistakes
    files = {
        path.name: json.loads(path.read_text())
        for path in (tmp_path / "output" / "official").iterdir()
    }
    assert files["predictions.json"] == dict(
        zip("01234", ["found", "", "found", "found", ""], strict=True)
    )
    assert [entry["text"] for entry in files["nbest_predictions.json"]["0"]][:1] == ["found"]
    # A piece has 2 * 5, [CLS] 2 * 2, any other 0.
    assert list(files["null_odds.json"].values()) == [-6, 4, -6, -6, 4]


def test_another_vocabulary_than_the_models_is_refused(questions, reader, vocabulary, tmp_path):
    """Its answers would be of other words."""
    folder = shutil.copytree(reader, tmp_path / "reader")
    lines = vocabulary.serialize().splitlines(keepends=True)
    (folder / "vocab.txt").write_bytes(b"".join([*lines[:-2], lines[-1], lines[-2]]))
    with pytest.raises(InputError, match="vocab.txt: not the vocabulary that the model was"):
        run("squad2.0", questions, folder, tmp_path / "output")


def test_a_span_model_without_its_vocabulary_is_refused(questions, tmp_path):
    """A bare SavedModel does not say how to make its inputs."""
    save_model(finder := Finder(7, 14), tmp_path / "model", (), **finder.specs)
    with pytest.raises(InputError, match="has no training.json and vocab.txt next to it"):
        run("squad2.0", questions, tmp_path / "model", tmp_path / "output")
