"""Collections in the form of BEIR (Thakur et al. 2021): documents, queries and their judgments.

corpus.jsonl and queries.jsonl have an object with `_id`, `text` and perhaps `title` on each line.
qrels/SPLIT.tsv has a header and the columns query-id, corpus-id and score.
"""

import dataclasses
import pathlib
from collections.abc import Collection, Iterator, Mapping

from beambert.errors import InputError
from beambert.pipelines.tasks.tables import BadRow, field, filled, lacks_column, read_rows

# The query, the document and its grade.
_COLUMNS = ("query-id", "corpus-id", "score")


@dataclasses.dataclass(frozen=True)
class JudgedQueries:
    """The queries of a split that are judged.

    Attributes:
      queries: text by identifier.
      judgments: grade by query and document.
    """

    queries: Mapping[str, str]
    judgments: Mapping[str, Mapping[str, int]]


def read_judged(folder: pathlib.Path, split: str, documents: Collection[str]) -> JudgedQueries:
    """Reads the queries and the judgments of a split.

    Args:
      folder: folder of the collection.
      split: name of the split: `train`, `dev` or `test`.
      documents: identifiers of the documents that can be found.

    Raises:
      InputError: a file cannot be used, or a judgment names a query or a document that isn't there.
    """
    texts = read_documents(folder / "queries.jsonl")
    path = folder / "qrels" / f"{split}.tsv"
    judgments = read_judgments(path, texts, documents)
    return JudgedQueries({query: texts[query] for query in judgments}, judgments)


def read_documents(path: pathlib.Path) -> dict[str, str]:
    """Returns identifier -> text of corpus.jsonl or queries.jsonl; a title stands before its text.

    Raises:
      InputError: the file cannot be read, or a row lacks its text or repeats an identifier.
    """
    found: dict[str, str] = {}
    for line, row in _rows(path, ("_id", "text"), 'write objects with "_id" and "text"'):
        name, title = filled(path, line, row, "_id"), row.get("title", "").strip()
        if name in found:
            raise BadRow(path, line, f"has the _id {name!r} again", "leave one of them out")
        text = field(path, line, row, "text").strip()
        if not (text or title):
            raise BadRow(path, line, "has neither a title nor a text", "delete the row")
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
        has a grade that is no whole number.
    """
    found: dict[str, dict[str, int]] = {}
    remedy = f"let the first line be {', '.join(_COLUMNS)}, with tabs between all columns"
    for line, row in _rows(path, _COLUMNS, remedy):
        query, document, grade = (filled(path, line, row, name) for name in _COLUMNS)
        for what, name, there, where in (
            ("query", query, queries, "queries.jsonl"),
            ("document", document, documents, "the index"),
        ):
            if name not in there:
                reason = f"names the {what} {name!r}, which {where} does not have"
                raise BadRow(path, line, reason, "give the files that belong together")
        try:
            found.setdefault(query, {})[document] = int(grade)
        except ValueError:
            reason = f"has the {_COLUMNS[2]} {grade!r}"
            raise BadRow(path, line, reason, "write a whole number") from None
    if not any(grade > 0 for grades in found.values() for grade in grades.values()):
        raise InputError(f"{path}: says of no document that it is relevant; take another split")
    return found


def _rows(
    path: pathlib.Path, columns: Collection[str], remedy: str
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yields the line and the fields of each row of a file.

    Args:
      path: path of the file.
      columns: what each row must have.
      remedy: what to do about a row that lacks one of them.

    Raises:
      InputError: the file cannot be read, or a row cannot be used.
    """
    for line, row in read_rows(path):
        if isinstance(row, BadRow):
            raise row
        if missing := [name for name in columns if name not in row]:
            reason = f"has no column {missing[0]!r} (it has {', '.join(row) or 'none'})"
            raise lacks_column(path, line, reason, remedy)
        yield line, row
