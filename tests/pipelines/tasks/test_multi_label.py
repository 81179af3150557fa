"""Tasks with any number of labels: reading them, and their metrics against scikit-learn."""

import json
import pathlib

import numpy as np
import pytest

from beambert.errors import InputError
from beambert.pipelines.tasks import multi_label
from beambert.pipelines.tasks.declarations import find_task
from beambert.pipelines.tasks.multi_label import MultiLabel, MultiLabelOutcomes
from beambert.pipelines.tasks.reading import read_file, read_splits

CASES = json.loads((pathlib.Path(__file__).parents[2] / "golden/multi_label.json").read_text())


@pytest.mark.parametrize("case", CASES)
def test_scores_are_those_of_scikit_learn(case):
    """The golden file has cases with labels that never or always apply."""
    labels, probabilities = np.array(case["labels"]) > 0, np.array(case["probabilities"])
    names = [f"label {i}" for i in range(labels.shape[1])]
    predictions = probabilities > multi_label.THRESHOLD
    found = MultiLabelOutcomes(labels, predictions, probabilities)
    scores = found.scores(MultiLabelOutcomes.METRICS, 1)
    assert scores == pytest.approx(case["scores"], abs=1e-9)
    by_label = found.details(names)["by_label"]
    for name in ("precision", "recall", "f1"):
        of_labels = [by_label[label][name] for label in names]
        assert of_labels == pytest.approx(case[name], abs=1e-6)
    assert [by_label[label]["true"] for label in names] == case["support"]


def test_no_constant_answer_is_better_than_the_best():
    """All sets of three labels are tried."""
    labels = np.array(CASES[1]["labels"]) > 0
    found = MultiLabelOutcomes(labels, labels, labels.astype(float))
    names = ["micro_f1", "macro_f1", "exact_match"]
    tried = [each.scores(names, 1) for _, each in found.constants()]
    for bits in range(8):
        row = np.array([bits & 1, bits & 2, bits & 4]) > 0
        rows = np.tile(row, (len(labels), 1))
        other = MultiLabelOutcomes(labels, rows, rows.astype(float)).scores(names, 1)
        for name in names:
            assert max(scores[name] for scores in tried) >= other[name] - 1e-12
    assert found.written((0, 2), ["a", "b", "c"]) == "a, c"
    assert found.written((), ["a", "b", "c"]) == "no label"


def test_labels_stand_in_one_column(tmp_path):
    """With separators, or as a JSON list; none is an answer, too."""
    fields = [("x", ["b, c", "a"]), ("y", []), ("z", "a")]
    rows = [{"text": text, "label": label} for text, label in fields]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "train.jsonl").write_text(lines)
    (tmp_path / "dev.tsv").write_text("text\tlabel\nx\ta , a\ny\t\n")
    read = read_splits(find_task("multi_label"), str(tmp_path), ("train", "dev"), False)
    assert read.labels == ("a", "b, c")
    assert [each.label for each in read.examples["train"]] == [("b, c", "a"), (), ("a",)]
    assert [each.label for each in read.examples["dev"]] == [("a",), ()]
    piped = MultiLabel("multi_label", text_columns=("text",), label_separator="|")
    (tmp_path / "train.tsv").write_text("text\tlabel\nx\ta|b,c\n")
    assert read_file(piped, str(tmp_path), "train").examples[0].label == ("a", "b,c")


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ('["a"', "no JSON list of names"),
        ('["a", null]', "no JSON list of names"),
        ('["a", ["b"]]', "no JSON list of names"),
        ("[" * 100_000, "no JSON list of names"),  # the reader of JSON gives up on it
        ("a,,b", "has an empty label in a,,b"),
        ("a,b,", "has an empty label in a,b,"),
        ('["a", " "]', "has an empty label"),
    ],
)
def test_broken_labels_are_a_bad_row(tmp_path, field, reason):
    (tmp_path / "train.tsv").write_text(f"text\tlabel\nx\ta\ny\t{field}\nz\t[1, 2]\n")
    with pytest.raises(InputError, match=f"train.tsv, line 3: .*{reason}"):
        read_file(find_task("multi_label"), str(tmp_path), "train")
    read = read_file(find_task("multi_label"), str(tmp_path), "train", skip_bad_rows=True)
    assert [example.label for example in read.examples] == [("a",), ("1", "2")]
