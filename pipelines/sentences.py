"""Documents -> sentences. Pure."""

import re

import sentencex

from pipelines.documents import Document

_LINE_BREAKS = re.compile(r"\s*\n\s*")


def split_sentences(document: Document, language: str = "en") -> list[str]:
    """Returns the document's sentences in order, none blank.

    Args:
      document: its line feeds separate paragraphs, or sentences if it is split already.
      language: ISO 639-1 code that sentencex takes; an unknown one falls back to its generic rules.
    """
    if document.is_split:
        lines = document.text.split("\n")
        return [line.strip() for line in lines if not line.isspace() and line]
    # A single line feed doesn't end a sentence for sentencex; a blank line does.
    paragraphs = _LINE_BREAKS.sub("\n\n", document.text.strip())
    sentences = (sentence.strip() for sentence in sentencex.segment(language, paragraphs))
    return [sentence for sentence in sentences if sentence]
