"""Records as HTML."""

from beambert.console import counted
from beambert.explore.drawing import (
    IN_A,
    IN_B,
    MASKED,
    OTHER,
    SAME,
    SPECIAL,
    UNKNOWN,
    Piece,
    key,
    pieces,
    said,
    whole,
)
from beambert.explore.material import Material
from beambert.pipelines.records.contract import label_words
from beambert.pipelines.tokenizers.vocabulary import CLASSIFY, MASK, SEPARATE
from beambert.pipelines.tokenizers.vocabulary import UNKNOWN as UNKNOWN_TOKEN
from beambert.report import Html, join, note, tag

# Number of records on a page.
PAGE = 5
ANY = "any label"
FIRST, SECOND = "is next, or in order (0)", "random next, or swapped (1)"
_LABELS = {ANY: None, FIRST: True, SECOND: False}

_KEY = key(
    *((IN_A, "segment A"), (IN_B, "segment B"), (SPECIAL, "special tokens")),
    *((MASKED, "hidden as [MASK]"), (OTHER, "hidden as a random token")),
    *((SAME, "to predict, though not hidden"), (UNKNOWN, "[UNK]")),
)

Position = tuple[int, int]


def show_records(
    material: Material,
    folder: str,
    label: str,
    least: int,
    most: int,
    has_unknown: bool,
    text: str,
    at: Position,
) -> tuple[Html, Position | None]:
    """Returns a page of records from a position on, and the position of the next page.

    Args:
      material: what the page shows.
      folder: name of one of the folders of `Material.browsers`.
      label: one of `ANY`, `FIRST` and `SECOND`.
      least, most: number of filled positions.
      has_unknown: whether only records with [UNK] are shown.
      text: words that must occur in a record; "" for any.
      at: number of the file and of the record in it, from 0.
    """
    from beambert.explore.records import Filter

    browser, made_with = material.browsers()[folder]
    wanted = Filter(_LABELS[label], int(least), int(most), has_unknown, text.strip())
    found = browser.search(wanted, at, PAGE)
    parts: list[object] = [
        note(
            f"{counted(len(found.records), 'record')} shown, {found.looked_at:,} looked at. "
            + ("More follow." if found.then else "This is the end of the folder.")
        )
    ]
    if found.records:
        parts.append(_KEY)
    if found.damage:
        parts.append(said(f"Damaged: {found.damage}", is_wrong=True))
    if not found.records and found.then:
        parts.append(said("None of these fits; press Next to look on."))
    parts += [_record(record, browser.tokens, made_with.pairs) for record in found.records]
    return whole(*parts), found.then


def _record(record, tokens, pairs: str | None) -> Html:
    def name(index: int) -> str:
        return tokens[index] if tokens and 0 <= index < len(tokens) else str(index)

    labels = dict(record.predictions)
    boxes = []
    for position, (index, segment) in enumerate(zip(record.ids, record.segments, strict=True)):
        shown = name(index)
        kind, under = (IN_A, IN_B)[segment != 0], ""
        if position in labels:
            label = name(labels[position])
            kind = MASKED if shown == MASK else SAME if label == shown else OTHER
            under = f"predict {label}"
        elif shown in (CLASSIFY, SEPARATE):
            kind = SPECIAL
        elif shown == UNKNOWN_TOKEN:
            kind = UNKNOWN
        boxes.append(Piece(shown, kind, under))
    says = ""
    if record.is_next is not None:
        label = int(not record.is_next)
        says = f": {label_words(pairs)[label]} ({label})"
    file = record.path.rpartition("/")[2]
    return join(
        tag("h3", f"Record {record.number:,} of {file}{says}"),
        note(
            f"{len(record.ids)} of {record.positions} positions filled, "
            f"{counted(len(labels), 'token')} to predict"
        ),
        pieces(boxes),
    )
