"""The exception whose message is written for users."""

import re

# Line breaks and what else cannot be printed on a line; names of files may have them.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def one_line(message: str) -> str:
    """Returns a message with its line breaks and control characters written out."""
    return _UNPRINTABLE.sub(lambda match: ascii(match[0])[1:-1], message)


class InputError(Exception):
    """An input of the user cannot be used.

    The message is one line: `--flag=value: what is wrong; what to do`, or a file in place of the
    flag.
    """

    def __str__(self) -> str:
        """Returns the message; what its names have of line breaks is written out."""
        return one_line(super().__str__())
