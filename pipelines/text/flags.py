"""The flags for turning documents into sentences."""

from beambert.pipelines.shared.flags import FlagGroup


def add_text_flags(group: FlagGroup) -> None:
    """Adds the flags for splitting documents into sentences and for dropping documents."""
    # Only the commands that filter documents have to load the filters.
    from beambert.pipelines.text.filters import NONE, QUALITY_FILTERS
    from beambert.pipelines.text.preparation import EXACT, KEEP, LINE, NEAR, SENTENCEX

    add = group.add_argument
    add("--language", default="en", help="ISO 639-1 code for the sentence splitter (default: en)")
    add(
        "--sentences",
        choices=[SENTENCEX, LINE],
        default=SENTENCEX,
        help="how to split documents into sentences; sentencex: with the library of that name; "
        "line: each line is a sentence already (default: sentencex)",
    )
    add(
        "--min_document_characters",
        type=int,
        default=0,
        metavar="N",
        help="least number of characters; shorter documents are dropped (default: 0)",
    )
    add(
        "--quality_filter",
        choices=[*QUALITY_FILTERS],
        default=NONE,
        help="filter for poor documents; gopher: the rules of Rae et al. 2021 that fit any "
        "language, against symbols in place of words, repeated passages and the like (default: "
        "none)",
    )
    add(
        "--duplicates",
        choices=[KEEP, EXACT, NEAR],
        default=KEEP,
        help="what to do with duplicates; keep: use all documents; exact: use one of several equal "
        "documents; near: also use one of several that share 80 %% of their phrases (default: "
        "keep)",
    )
