"""Collections in the form of BEIR (Thakur et al. 2021): documents, queries and their judgments.

corpus.jsonl and queries.jsonl have an object with `_id`, `text` and perhaps `title` on each line.
qrels/SPLIT.tsv has a header and the columns query-id, corpus-id and score.
"""

import pathlib

from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.tasks.tables import BadRow, field, filled, read_rows

_QUERY, _DOCUMENT, _GRADE = "query-id", "corpus-id", "score"


def read_documents(path: pathlib.Path) -> dict[str, str]:
    """Returns identifier -> text of corpus.jsonl or queries.jsonl; a title stands before its text.

    Raises:
      InputError: the file cannot be read, or a row lacks its text or repeats an identifier.
    """
    found: dict[str, str] = {}
    for line, row in read_rows(path):
        if isinstance(row, BadRow):
            raise row
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


def read_judgments(path: pathlib.Path) -> dict[str, dict[str, int]]:
    """Returns the grades by query and document.

    Raises:
      InputError: the file cannot be read, or a grade is no whole number.
    """
    found: dict[str, dict[str, int]] = {}
    for line, row in read_rows(path):
        if isinstance(row, BadRow):
            raise row
        query, document, grade = (
            filled(path, line, row, name) for name in (_QUERY, _DOCUMENT, _GRADE)
        )
        try:
            found.setdefault(query, {})[document] = int(grade)
        except ValueError:
            reason = f"has the {_GRADE} {grade!r}"
            raise BadRow(path, line, reason, "write a whole number") from None
    return found
