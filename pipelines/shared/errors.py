"""The one exception that users are meant to read."""


class InputError(Exception):
    """What the user gave cannot be used: one sentence with the file or flag and the remedy."""
