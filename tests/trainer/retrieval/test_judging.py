"""`beambert judge` on collections in the form of BEIR, and its measures beside trec_eval's."""

import json
import pathlib
import re

import pytest

from beambert.cli import run
from beambert.errors import InputError
from beambert.trainer.retrieval.judging import (
    evaluate,
    ranks_of,
    read_documents,
    read_judgments,
)
from beambert.trainer.retrieval.searching import Hit

MODEL = str(pathlib.Path(__file__).parents[1] / "golden_sentences" / "mean")
DOCUMENTS = {
    "r": ("River", "it is long and passes a city"),
    "s": ("", "a song of the river"),
    "t": ("Town", ""),
    "u": ("", "people live there"),
}
QUERIES = {"1": "river", "2": "town", "3": "song", "4": "nothing of it"}
# The grade of each document; a query without one isn't judged.
QRELS = {("1", "r"): 2, ("1", "s"): 1, ("2", "u"): 1, ("3", "s"): 1}


def write(path: pathlib.Path, rows) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_qrels(folder: pathlib.Path, rows) -> None:
    (folder / "qrels").mkdir(exist_ok=True)
    text = "".join(f"{query}\t{document}\t{grade}\n" for (query, document), grade in rows.items())
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{text}")


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    """A collection, and the index of its documents, some of two passages."""
    folder = tmp_path_factory.mktemp("beir")
    rows = [
        {"_id": each, "title": title, "text": text} for each, (title, text) in DOCUMENTS.items()
    ]
    write(folder / "corpus.jsonl", rows)
    write(folder / "queries.jsonl", [{"_id": each, "text": text} for each, text in QUERIES.items()])
    write_qrels(folder, QRELS)
    columns = ["--id_column=_id", "--title_column=title", "--passage_words=4"]
    given = [f"--model={MODEL}", f"--input={folder}/corpus.jsonl", f"--output={folder}/embeddings"]
    assert run(["embed", *given, *columns]) == 0
    assert run(["index", f"--embeddings={folder}/embeddings", f"--output={folder}/index"]) == 0
    return folder


def judged(folder, *flags) -> int:
    return run(["judge", f"--index={folder}/index", f"--data_dir={folder}", *flags])


def test_by_words(collection, tmp_path, capsys):
    """By hand: for "river" the passage "the river" comes before "River it is", which has more
    words; for "town" only the document of that title is found, which isn't relevant."""
    output = tmp_path / "judgment.json"
    assert judged(collection, f"--output={output}") == 0
    found = json.loads(output.read_text())
    # Of the ideal order of the grades 2, 1 the reverse was found.
    discount = 0.6309297535714575
    ndcg = (1 + 2 * discount) / (2 + discount)
    expected = {"nDCG@10": (ndcg + 0 + 1) / 3, "MRR@10": 2 / 3, "Recall@1": (0.5 + 0 + 1) / 3}
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    printed = dict(line.split() for line in capsys.readouterr().out.splitlines())
    assert printed == {name: f"{value:.4f}" for name, value in found.items()}


def test_by_vectors_all_documents_are_ranked(collection, tmp_path):
    output = tmp_path / "judgment.json"
    flags = [f"--model={MODEL}", "--by=vectors", f"--output={output}"]
    assert judged(collection, *flags) == 0
    assert json.loads(output.read_text())["Recall@100"] == 1


def test_a_document_ranks_where_its_best_passage_does():
    hits = [Hit(score, "f", 1, each, 0, "") for score, each in ((3.0, "b"), (2.0, "a"), (1.0, "b"))]
    assert ranks_of(hits) == {"b": 0, "a": -1}


def test_what_is_refused(collection, tmp_path, capsys):
    index = f"--index={collection}/index"

    def refused(*flags) -> str:
        assert run(["judge", index, *map(str, flags)]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        return error

    assert "already exists" in refused(f"--data_dir={tmp_path}", f"--output={tmp_path}")
    write(tmp_path / "queries.jsonl", [{"_id": "1", "text": "river"}])
    assert "test.tsv" in refused(f"--data_dir={tmp_path}")
    write_qrels(tmp_path, {("1", "r"): 1, ("1", "x"): 1})
    told = refused(f"--data_dir={tmp_path}")
    assert "test.tsv, line 3: names the document 'x', which the index does not have" in told
    assert "dev.tsv" in refused(f"--data_dir={tmp_path}", "--split=dev")
    (tmp_path / "a.txt").write_text("a river\n")
    given = [f"--model={MODEL}", f"--input={tmp_path}/a.txt", f"--output={tmp_path}/embeddings"]
    assert run(["embed", *given]) == 0
    index = f"--index={tmp_path}/index"
    assert run(["index", f"--embeddings={tmp_path}/embeddings", f"--output={tmp_path}/index"]) == 0
    capsys.readouterr()
    assert "has no identifiers of documents; make the embeddings with --id_column" in refused(
        f"--data_dir={tmp_path}"
    )


GOLDEN = json.loads(pathlib.Path(__file__).with_name("golden_retrieval.json").read_text("utf-8"))


@pytest.mark.parametrize("case", GOLDEN["cases"])
def test_measures_are_those_of_trec_eval(case):
    """With equal scores, grades up to 3, documents without a judgment and queries without a run."""
    found = evaluate(case["judgments"], case["run"], GOLDEN["depths"])
    assert found == {
        name: pytest.approx(measure, abs=5e-5) for name, measure in case["measures"].items()
    }


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (['{"_id": "1", "text": "a"}', '{"_id": "1", "text": "b"}'], "has the _id '1' again"),
        (['{"_id": "1", "text": " "}'], "line 1: has neither a title nor a text"),
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
        ("q1\t1\tgood", "line 2: has the score 'good'"),
        ("q1\t7\t1", "line 2: names the document '7'"),
        ("q9\t1\t1", "line 2: names the query 'q9'"),
        ("q1\t1\t0", "test.tsv: says of no document that it is relevant"),
    ],
)
def test_judgments_that_cannot_be_used(tmp_path, row, told):
    path = tmp_path / "test.tsv"
    path.write_text(f"query-id\tcorpus-id\tscore\n{row}\n")
    with pytest.raises(InputError, match=re.escape(told)):
        read_judgments(path, {"q1"}, {"1"})
