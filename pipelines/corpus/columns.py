"""The columns of tables that hold documents and their languages. Pure."""

import dataclasses
from typing import Any

from beambert.pipelines.corpus.documents import Document, Reject, Skip
from beambert.pipelines.corpus.language_codes import language_of

# Reasons of rows whose language is missing, and of those that name none.
NO_LANGUAGE, UNKNOWN_LANGUAGE = "no_language", "unknown_language"
# Number of characters of a value that a message shows.
_SHOWN = 40


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns to read, in formats that have columns.

    Attributes:
      text: column that holds the documents.
      language: column that names the language of each; "" for none.
    """

    text: str = "text"
    language: str = ""

    def names(self) -> list[str]:
        """Returns the names of the columns to read, each once."""
        return list(dict.fromkeys(filter(None, (self.text, self.language))))


TEXT_ALONE = Columns()


def with_language(
    found: Document | Skip | Reject, value: Any, place: str, number: int, columns: Columns
) -> Document | Skip | Reject:
    """Returns a row's document with its language, or a reject if its value is no language.

    A null and an empty text leave the language open.

    Args:
      found: what was read in the column of texts.
      value: value in the column of languages.
      place: words for the row, for a message: "line" or "row".
      number: its number.
      columns: the columns.
    """
    if not isinstance(found, Document) or value is None or value == "":
        return found
    language = language_of(value) if isinstance(value, str) else ""
    if not language:
        shown = repr(value)[:_SHOWN]
        detail = f"{place} {number} has {shown} under {columns.language!r} (--language_column)"
        detail += ", which is no language; name it by its code, such as en, zh-Hant or tha"
        return Reject(number, UNKNOWN_LANGUAGE, detail)
    return dataclasses.replace(found, language=language)
