"""The measures of rankings beside trec_eval's, and collections in the form of BEIR."""

import json
import pathlib
import re

import pytest

from beambert.errors import InputError
from beambert.trainer.retrieval.judging import evaluate, ranked, read_documents, read_judgments

GOLDEN = json.loads(pathlib.Path(__file__).with_name("golden_retrieval.json").read_text("utf-8"))


@pytest.mark.parametrize("case", GOLDEN["cases"])
def test_measures_are_those_of_trec_eval(case):
    """With equal scores, grades up to 3, documents without a judgment and queries without a run."""
    found = evaluate(case["judgments"], case["run"], GOLDEN["depths"])
    assert found == {
        name: pytest.approx(measure, abs=5e-5) for name, measure in case["measures"].items()
    }


def test_of_equal_scores_the_greater_identifier_comes_first():
    assert ranked({"a": 1.0, "c": 0.5, "b": 1.0}) == ["b", "a", "c"]


def test_nothing_relevant_has_no_measure():
    with pytest.raises(ValueError, match="no query has a relevant document"):
        evaluate({"q": {"d": 0}}, {"q": {"d": 1.0}}, [10])


def test_the_form_of_beir(tmp_path):
    corpus, qrels = tmp_path / "corpus.jsonl", tmp_path / "test.tsv"
    rows = [
        {"_id": "1", "title": "A river", "text": "It is long.", "metadata": {}},
        {"_id": "2", "text": "A road."},
    ]
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read_documents(corpus) == {"1": "A river It is long.", "2": "A road."}
    qrels.write_text("query-id\tcorpus-id\tscore\nq1\t1\t2\nq1\t2\t0\n")
    assert read_judgments(qrels, {"q1"}, {"1", "2"}) == {"q1": {"1": 2, "2": 0}}


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (
            ['{"_id": "1", "text": "a"}', '{"_id": "1", "text": "b"}'],
            "has the _id '1' again",
        ),
        (['{"_id": "1", "text": " "}'], "line 1: has neither a title nor a text"),
        (['{"text": "a"}'], "has no column '_id'"),
        ([], "has no rows"),
    ],
)
def test_rows_that_are_no_documents(tmp_path, rows, told):
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(f"{row}\n" for row in rows))
    with pytest.raises(InputError, match=told):
        read_documents(path)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("q1\t1\tgood", "line 2: has the score 'good'; write a whole number"),
        ("q1\t7\t1", "line 2: names the document '7', which the index does not have; give"),
        ("q9\t1\t1", "line 2: names the query 'q9', which queries.jsonl does not have; give"),
        ("q1\t1\t0", "test.tsv: says of no document that it is relevant; take another"),
        ("q1\t\t1", "line 2: has an empty 'corpus-id'"),
    ],
)
def test_judgments_that_cannot_be_used(tmp_path, row, told):
    path = tmp_path / "test.tsv"
    path.write_text(f"query-id\tcorpus-id\tscore\n{row}\n")
    with pytest.raises(InputError, match=re.escape(told)):
        read_judgments(path, {"q1"}, {"1"})
