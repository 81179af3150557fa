"""The exception whose message is written for users."""

import unicodedata


def one_line(text: str) -> str:
    """Returns a text with its control characters written out, as a file's name may have some.

    A terminal would obey them, and a line feed would make two messages of one.
    """
    return "".join(c if c.isprintable() or c == " " else _written_out(c) for c in text)


def _written_out(character: str) -> str:
    # A surrogate stands for a byte of the command line. A space of another width is harmless.
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return character.encode("unicode_escape").decode()
    return character


class InputError(Exception):
    """An input of the user cannot be used.

    The message is one line: `--flag=value: what is wrong; what to do`, or a file in place of the
    flag.
    """

    def __str__(self) -> str:
        """Returns the message; what its names have of line breaks is written out."""
        return one_line(super().__str__())
