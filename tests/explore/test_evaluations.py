"""The errors of an evaluation: which are shown, and what is refused."""

import html
import json
import re

import pytest

from beambert.errors import InputError
from beambert.explore import evaluations as error_list
from beambert.explore.evaluations import open_evaluation
from beambert.explore.material import Material
from beambert.pipelines.evaluation import report
from beambert.pipelines.tasks.kind import Mistake
from beambert.pipelines.tasks.table_task import TextExample
from beambert.pipelines.tasks.task import CLASSIFICATION


def text_of(shown: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", shown)).split())


@pytest.fixture
def material(folders, evaluated):
    return Material(models=[str(folders / "encoder")], evaluations=[str(evaluated)])


def test_the_worst_errors_come_first(material):
    shown = error_list.show_errors(material, "evaluation", error_list.ALL, "", 1)
    said = text_of(shown)
    assert "24 errors in all examples, page 1 of 3" in said
    assert "▸ all examples 40 24 0.4000" in said and "label = negative 30 12 0.6000" in said
    assert said.index("text 23") < said.index("text 22") and "text 13 " not in said
    assert "Example 24; probability 0.99; label = positive, length = 1-8" in said


def test_a_slice_and_words_are_chosen(material):
    said = text_of(error_list.show_errors(material, "evaluation", "label = positive", "", 2))
    assert "12 errors in label = positive, page 2 of 2" in said
    said = text_of(error_list.show_errors(material, "evaluation", "label = positive", "TEXT 3", 1))
    assert "1 error in label = positive" in said and "text 3 " in said
    said = text_of(error_list.show_errors(material, "evaluation", "no such slice", "none", 9))
    assert "0 errors in all examples, page 1 of 1" in said and "No error here" in said


def test_texts_of_errors_are_never_html(material, evaluated):
    lines = (evaluated / "mistakes.jsonl").read_text().replace("text 23", "<script>x</script>")
    (evaluated / "mistakes.jsonl").write_text(lines)
    shown = error_list.show_errors(material, "evaluation", error_list.ALL, "", 1)
    assert "<script" not in shown and "&lt;script&gt;" in shown


def test_refusals(tmp_path, evaluated):
    with pytest.raises(InputError, match="has no metrics.json; name an --output"):
        open_evaluation(str(tmp_path))
    (tmp_path / "metrics.json").write_text('{"task": "a"}')
    with pytest.raises(InputError, match="has no 'task_kind'"):
        open_evaluation(str(tmp_path))
    found = open_evaluation(str(evaluated))
    (evaluated / "mistakes.jsonl").write_text("{\n")
    with pytest.raises(InputError, match=r"mistakes.jsonl: cannot be read .* evaluate again"):
        found.mistakes()
    (evaluated / "mistakes.jsonl").unlink()
    with pytest.raises(InputError, match="is not there; run `beambert evaluate`"):
        found.mistakes()


def test_an_evaluation_writes_what_the_page_reads():
    """The records of two wrong answers and a right one."""
    records = [
        {
            "row": [row],
            "label_index": [label],
            "prediction_index": [1],
            "prediction": [b"positive"],
            "probabilities": [1 - share, share],
            "source": [source],
        }
        for row, (label, share, source) in enumerate(
            [(0, 0.6, b"web"), (1, 0.7, b"web"), (0, 0.9, "Zürich".encode())]
        )
    ]
    examples = [TextExample(f"text {i}", None, "negative", {}) for i in range(3)]
    found = report.worst_mistakes(CLASSIFICATION, records, examples, ["source", "prediction"])
    slices = {"source": "Zürich", "prediction": "positive"}
    assert found[0] == Mistake("text 2", "negative", "positive", 0.9, 2, slices)
    lines = [json.loads(line) for line in report.to_json_lines(found).splitlines()]
    assert [line["row"] for line in lines] == [2, 0] and lines[0]["slices"] == slices
