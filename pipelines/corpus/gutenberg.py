"""Removes the headers, licences and credits of Project Gutenberg around a book. Pure.

They are found by Project Gutenberg's own marks, in the wordings of its files from 1991 to today.
Text without such marks stays unchanged.
"""

import re

# Newer files have "*** START OF THE PROJECT GUTENBERG EBOOK EMMA ***", where a long title takes
# several lines. In older files "***START**THE SMALL PRINT!**" and "*END*THE SMALL PRINT!" enclose
# the licence.
_MARKS = re.compile(
    r"""^\ *(?:
      (?P<start>
        \*{3}\ ?START\ OF\ (?:THE|THIS)\ PROJECT\ GUTENBERG\b[^*]{0,300}\*{3}
        | \*END[ *]+THE\ SMALL\ PRINT!.*
      )
      | (?P<end>
        \*{3}\ ?END\ OF\ (?:THE|THIS)\ PROJECT\ GUTENBERG\b[^*]{0,300}\*{3}
        | (?:This\ is\ the\ )?End\ of\ (?:the\ |this\ )?Project\ Gutenberg
            (?:['’]s\b|\ e(?:text|book)\b).*
      )
    )[ \t]*$""",
    re.VERBOSE | re.MULTILINE | re.IGNORECASE,
)
# Twice the length of the longest header or licence, in characters. A longer piece of text is kept,
# whatever the marks say.
_MOST_OF_A_LICENCE = 40_000
# Credits of the people who made the file: separate paragraphs between the mark and the book.
_CREDITS = re.compile(
    r"""\A(?:\s*(?:
      (?:(?:This\ )?e-?(?:text|book)\ (?:was\ )?(?:prepared|produced)|Produced|Transcribed|Scanned)
        \ (?:by|from)\b [^\n]* (?:\n[^\n]+){0,9}
      | \[Transcriber['’]s\ note[^][]{0,2000}\]
    )[ \t]*(?=\n[ \t]*\n|\Z))*""",
    re.VERBOSE | re.IGNORECASE,
)


def strip_gutenberg(text: str) -> str:
    """Returns the books in a file without Project Gutenberg's headers, licences and credits.

    Args:
      text: content of the file; its lines end with line feeds alone.
    """
    marks = list(_MARKS.finditer(text))
    if not marks:
        return text
    kept = []
    for before, after in zip([None, *marks], [*marks, None], strict=True):
        piece = text[before.end() if before else 0 : after.start() if after else len(text)]
        # A licence comes before a start or after an end. All other text is a book.
        is_book = not (before and before["end"]) and not (after and after["start"])
        if is_book and before:
            piece = _CREDITS.sub("", piece)
        if piece.strip() and (is_book or len(piece) > _MOST_OF_A_LICENCE):
            kept.append(piece)
    return "\n\n".join(kept)
