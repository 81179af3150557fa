"""Measures of a ranking, and their computation on a collection in BEIR's form."""

import pathlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from beambert.errors import InputError
from beambert.pipelines.tasks.metrics import (
    average_precision,
    ndcg,
    recall,
    reciprocal_rank,
    relevant,
)
from beambert.pipelines.tasks.tables import BadRow, TableRow, read_rows
from beambert.trainer.retrieval.searching import Hit, Searcher
from beambert.trainer.retrieval.settings import CANDIDATES

# Grades of documents by query, and scores of documents by query.
Judgments = Mapping[str, Mapping[str, int]]
Run = Mapping[str, Mapping[str, float]]


def ranked(scores: Mapping[str, float]) -> list[str]:
    """Returns the documents of a query, the best first."""
    return sorted(scores, key=lambda document: (scores[document], document), reverse=True)


# Name -> measure of one query.
MEASURES: dict[str, Callable[[Sequence[int], Sequence[int], int], float]] = {
    "nDCG": ndcg,
    "MRR": reciprocal_rank,
    "MAP": average_precision,
    "Recall": recall,
}


def evaluate(judgments: Judgments, run: Run, depths: Sequence[int]) -> dict[str, float]:
    """Returns the means over the queries: `nDCG@10`, `MRR@10`, `MAP@10`, `Recall@10` and so on.

    Args:
      judgments: grades by query and document; one of them is above 0.
      run: scores by query and document.
      depths: numbers of ranks that count.
    """
    queries = [query for query, judged in judgments.items() if relevant(list(judged.values()))]
    totals = {f"{name}@{depth}": 0.0 for name in MEASURES for depth in depths}
    for query in queries:
        judged = judgments[query]
        grades = [judged.get(document, 0) for document in ranked(run.get(query, {}))]
        for name, measure in MEASURES.items():
            for depth in depths:
                totals[f"{name}@{depth}"] += measure(grades, list(judged.values()), depth)
    return {name: total / len(queries) for name, total in totals.items()}


# The query, the document and its grade.
_COLUMNS = ("query-id", "corpus-id", "score")


def read_documents(path: pathlib.Path) -> dict[str, str]:
    """Returns identifier -> text of corpus.jsonl or queries.jsonl; a title stands before its text.

    Raises:
      InputError: the file cannot be read, or a row lacks its text or repeats an identifier.
    """
    found: dict[str, str] = {}
    for row in _rows(path, ("_id", "text"), 'write objects with "_id" and "text"'):
        name, title = row.filled("_id"), row.get("title", "").strip()
        if name in found:
            raise row.bad(f"has the _id {name!r} again", "leave one of them out")
        text = row.field("text").strip()
        if not (text or title):
            raise row.bad("has neither a title nor a text", "delete the row")
        found[name] = f"{title} {text}".strip()
    if not found:
        raise InputError(f"{path}: has no rows; put an object on each line")
    return found


def read_judgments(
    path: pathlib.Path, queries: Collection[str], documents: Collection[str]
) -> dict[str, dict[str, int]]:
    """Returns the grades by query and document.

    Args:
      path: qrels/SPLIT.tsv.
      queries: identifiers of the queries.
      documents: identifiers of the documents that can be found.

    Raises:
      InputError: the file cannot be read, no grade is above 0, or a row names what isn't there or
        has a grade that is not a whole number.
    """
    found: dict[str, dict[str, int]] = {}
    remedy = f"let the first line be {', '.join(_COLUMNS)}, with tabs between all columns"
    for row in _rows(path, _COLUMNS, remedy):
        query, document, grade = map(row.filled, _COLUMNS)
        for what, name, there, where in (
            ("query", query, queries, "queries.jsonl"),
            ("document", document, documents, "the index"),
        ):
            if name not in there:
                reason = f"names the {what} {name!r}, which {where} does not have"
                raise row.bad(reason, "give the files that belong together")
        try:
            found.setdefault(query, {})[document] = int(grade)
        except ValueError:
            reason = f"has the {_COLUMNS[2]} {grade!r}"
            raise row.bad(reason, "write a whole number") from None
    if not any(grade > 0 for grades in found.values() for grade in grades.values()):
        raise InputError(f"{path}: says of no document that it is relevant; take another split")
    return found


def _rows(path: pathlib.Path, columns: Collection[str], remedy: str) -> Iterator[TableRow]:
    """Yields the rows of a file.

    Args:
      path: path of the file.
      columns: what each row must have.
      remedy: what to do about a row that lacks one of them.

    Raises:
      InputError: the file cannot be read, or a row cannot be used.
    """
    for _, row in read_rows(path):
        if isinstance(row, BadRow):
            raise row
        if missing := [name for name in columns if name not in row]:
            reason = f"has no column {missing[0]!r} (it has {', '.join(row) or 'none'})"
            raise row.lacks_column(reason, remedy)
        yield row


# Numbers of ranks that count; of BEIR's, nDCG@10 and Recall@100 are those that papers report.
DEPTHS = (1, 10, 100)


def judge(
    index: str,
    data_dir: str,
    split: str = "test",
    model: str | None = None,
    *,
    by: str | None = None,
    reranker: str | None = None,
    prefix: str | None = None,
) -> dict[str, float]:
    """Returns nDCG, MRR, MAP and recall of an index, such as `nDCG@10`, as trec_eval computes them.

    A document ranks where its best passage does.

    Args:
      index: folder that `beambert index` finished, of embeddings with identifiers.
      data_dir: folder with queries.jsonl and qrels.
      split: name of the split whose judgments count.
      model: model that made the vectors of the index; None to search by words alone.
      by: what passages are found by, see `Searcher`.
      reranker: model that ranks the best passages again; None for none.
      prefix: what is put before each query (default: what was put before the texts).

    Raises:
      InputError: the index, a model or a file cannot be used, or a judgment names what isn't there.
    """
    searcher = Searcher(index, model, by=by, reranker=reranker, prefix=prefix)
    passages = searcher.index.passages
    if "id" not in passages.column_names:
        raise InputError(
            f"--index={index}: has no identifiers of documents; make the embeddings with "
            "--id_column=_id"
        )
    counts = Counter(passages["id"].to_pylist())
    folder = pathlib.Path(data_dir)
    texts = read_documents(folder / "queries.jsonl")
    judgments = read_judgments(folder / "qrels" / f"{split}.tsv", texts, counts)
    # So many passages have the best hundred documents even if these are the longest ones.
    most = sum(count for _, count in counts.most_common(DEPTHS[-1]))
    queries = [texts[query] for query in judgments]
    found = searcher.search(queries, CANDIDATES if reranker else most)
    run = {query: ranks_of(hits) for query, hits in zip(judgments, found, strict=True)}
    return evaluate(judgments, run, DEPTHS)


def ranks_of(hits: Sequence[Hit]) -> Mapping[str, float]:
    """Returns the score of each document: the negative rank of its best passage.

    Ranks in place of scores keep the order of passages with equal scores.
    """
    ranks: dict[str, float] = {}
    for rank, hit in enumerate(hits):
        ranks.setdefault(hit.id, -float(rank))
    return ranks
