"""Fixtures of the page's tests: small models and records."""

import json

import pytest
from support import record_files, untrained_models

from beambert.explore.material import Material
from beambert.explore.records import RecordBrowser
from beambert.pipelines.records.reading import RecordFeatures
from beambert.pipelines.records.statistics import FEATURES, VocabularyIds

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(scope="package")
def folders(tmp_path_factory, vocabulary):
    """An encoder, a classifier and records, in one folder."""
    root = tmp_path_factory.mktemp("explore")
    (root / "encoder").mkdir()
    (root / "classifier").mkdir()
    untrained_models.save_encoder(root / "encoder", vocabulary)
    untrained_models.save_classifier(root / "classifier", vocabulary)
    (root / "records").mkdir()
    (root / "records" / "vocab.txt").write_bytes(vocabulary.serialize())
    for number in range(2):
        record_files.write(
            root / "records" / f"part-{number}.tfrecord",
            [record_files.changed(next_sentence_labels=[i % 2]) for i in range(300)],
        )
    return root


@pytest.fixture(scope="package")
def material(folders, tmp_path_factory):
    models = [str(folders / name) for name in ("encoder", "classifier")]
    evaluation = write_evaluation(tmp_path_factory.mktemp("evaluated") / "evaluation")
    return Material(str(folders / "records"), models, evaluations=[str(evaluation)])


def write_evaluation(folder):
    """Writes what the page reads of an evaluation of 40 texts, with 24 errors."""
    folder.mkdir()

    def scores(count, accuracy):
        interval = {"accuracy": [accuracy - 0.1, accuracy + 0.1]}
        return {"example_count": count, "accuracy": accuracy, "intervals_95": interval}

    metrics = {
        "task": "sst-2",
        "task_kind": "classification",
        "split": "dev",
        "metrics": ["accuracy"],
        "examples": 40,
        "overall": scores(40, 0.4),
        "slices": {
            "label": {"negative": scores(30, 0.6), "positive": scores(10, 0.0)},
            "length": {"1-8": scores(40, 0.4)},
        },
    }
    (folder / "metrics.json").write_text(json.dumps(metrics))
    lines = []
    for row in reversed(range(24)):
        label, other = ("negative", "positive")[:: -1 if row % 2 else 1]
        mistake = {"text": f"text {row} river", "expected": label, "predicted": other}
        slices = {"label": label, "length": "1-8"}
        lines.append({**mistake, "weight": 0.76 + row / 100, "row": row, "slices": slices})
    (folder / "mistakes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@pytest.fixture
def evaluated(tmp_path):
    return write_evaluation(tmp_path / "evaluation")


@pytest.fixture
def browse(vocabulary):
    """A function from paths of files to their browser."""

    def open_files(*paths) -> RecordBrowser:
        features = RecordFeatures({name: name for name in FEATURES}, 12, 4)
        paths = [str(path) for path in paths]
        return RecordBrowser(paths, features, vocabulary.tokens, VocabularyIds.of(vocabulary))

    return open_files
