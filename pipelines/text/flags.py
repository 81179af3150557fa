"""The flags that say how documents become sentences."""

import argparse


def add_text_flags(group: argparse._ArgumentGroup) -> None:
    """Adds the flags that say how documents become sentences, and which are dropped."""
    add = group.add_argument
    add("--language", default="en", help="ISO 639-1, for the sentence splitter (default: en)")
    add(
        "--sentences",
        choices=["sentencex", "line"],
        default="sentencex",
        help="line: each line of a document is a sentence already (default: sentencex)",
    )
    add(
        "--min_document_characters",
        type=int,
        default=0,
        metavar="N",
        help="drop shorter documents (default: 0)",
    )
    add(
        "--quality_filter",
        choices=["none", "gopher"],
        default="none",
        help="gopher: drop documents by the rules of Rae et al. 2021 that fit any language, such "
        "as symbols instead of words and repeated passages (default: none)",
    )
    add(
        "--duplicates",
        choices=["keep", "exact", "near"],
        default="keep",
        help="exact: of equal documents use one; near: also of documents that share 80 %% of their "
        "phrases (default: keep)",
    )
