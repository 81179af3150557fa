"""The flags that name a vocabulary or a tokenizer."""

import argparse

from beambert.flags import parse_bool


def add_tokenizer_flags(
    group: argparse.ArgumentParser | argparse._ArgumentGroup, condition: str = ""
) -> None:
    """Adds --vocab_file, --tokenizer and --do_lower_case.

    Args:
      group: parser, or group of flags in it.
      condition: with what else they are given, as the beginning of their help; "" for always.
    """
    add = group.add_argument
    add("--vocab_file", help=f"{condition}WordPiece vocabulary, one token a line")
    add(
        "--tokenizer",
        metavar="PATH",
        help=f"{condition}tokenizer.json of another kind of tokenizer, or its folder, in place of "
        "--vocab_file",
    )
    add(
        "--do_lower_case",
        type=parse_bool,
        help=f"{condition}True for an uncased vocabulary, False for a cased one (default: True); "
        "cannot be given beside --tokenizer",
    )
