"""The exception whose message is written for users."""


class InputError(Exception):
    """An input of the user cannot be used.

    The message is one line: `--flag=value: what is wrong; what to do`, or a file in place of the
    flag.
    """
