"""The exception whose message is written for users."""

import re
import unicodedata

# Greatest numbers of characters that a message keeps of its beginning, which names the file or
# flag, and of its end, which says what to do. A file's first line can be as long as the file.
_BEGINNING, _END = 2000, 800
# Classes of the characters that embed, override or isolate a direction of text.
_TURNING = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


def one_line(text: str) -> str:
    """Returns a text with the characters written out that a terminal would obey.

    A file's name may have some, and a line feed would make two messages of one.
    """
    return "".join(c if c.isprintable() or c == " " else _written_out(c) for c in text)


def _written_out(character: str) -> str:
    # A surrogate stands for a byte of the command line. Joiners belong to Persian and Hindi words,
    # and to emoji; what changes the direction of the text around it would show another text.
    turns = unicodedata.bidirectional(character) in _TURNING
    if turns or unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
        return character.encode("unicode_escape").decode()
    return character


def check_list(texts: object, name: str) -> None:
    """Refuses one text where a function takes a list, as its letters would pass for texts.

    Raises:
      InputError: there is one text.
    """
    if isinstance(texts, str):
        raise InputError(f"{name}: is one text, {texts[:40]!r}; give a list of texts")


class InputError(Exception):
    """An input of the user cannot be used.

    The message is one line: `--flag=value: what is wrong; what to do`, or a file in place of the
    flag.
    """

    def __str__(self) -> str:
        """Returns the message, shortened; what its names have of line breaks is written out."""
        message = one_line(super().__str__())
        if len(message) <= _BEGINNING + _END:
            return message
        return f"{message[:_BEGINNING]} … {message[-_END:]}"


def input_error_in(error: BaseException) -> InputError | None:
    """Returns the `InputError` in a runner's exception, which holds it only as text, or None."""
    text = f"InputError: {error}" if isinstance(error, InputError) else str(error)
    pattern = r"^(?:beambert\.errors\.)?InputError: (.+?)(?: \[while running .*)?$"
    found = re.findall(pattern, text, re.MULTILINE)
    return InputError(found[-1]) if found else None
