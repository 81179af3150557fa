"""The flags that say how documents become sentences."""

from beambert.pipelines.shared.flags import FlagGroup


def add_text_flags(group: FlagGroup) -> None:
    """Adds the flags that say how documents become sentences, and which are dropped."""
    # Only these commands filter documents.
    from beambert.pipelines.text.filters import NONE, QUALITY_FILTERS
    from beambert.pipelines.text.preparation import EXACT, KEEP, LINE, NEAR, SENTENCEX

    add = group.add_argument
    add("--language", default="en", help="ISO 639-1 code, for the sentence splitter (default: en)")
    add(
        "--sentences",
        choices=[SENTENCEX, LINE],
        default=SENTENCEX,
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
        choices=[*QUALITY_FILTERS],
        default=NONE,
        help="gopher: drop documents by the rules of Rae et al. 2021 that fit any language, such "
        "as symbols instead of words and repeated passages (default: none)",
    )
    add(
        "--duplicates",
        choices=[KEEP, EXACT, NEAR],
        default=KEEP,
        help="exact: of equal documents use one; near: also of documents that share 80 %% of their "
        "phrases (default: keep)",
    )
