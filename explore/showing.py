"""What the tabs of the page show, as HTML: masks, pairs and records. None keeps a state.

Every string goes through `report.tag`, so none is ever read as HTML. Masks and pairs are drawn by
the functions of the data job.
"""

import dataclasses
import io
import itertools
import math
import os
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from beambert.console import counted
from beambert.explore.material import Material, importing
from beambert.pipelines.records.contract import (
    IS_NEXT,
    MASK_SHARE,
    MASKED_LM_PROB,
    RANDOM_SHARE,
    label_words,
)
from beambert.pipelines.tokenizers.vocabulary import CLASSIFY, MASK, SEPARATE
from beambert.pipelines.tokenizers.vocabulary import UNKNOWN as UNKNOWN_TOKEN
from beambert.report import Html, join, note, table, tag

# The kinds of a token's box. Each has a colour and a word, since not everybody sees colours.
PLAIN, SPECIAL, MASKED, OTHER, SAME, IN_A, IN_B, UNKNOWN = (
    *("plain", "special", "masked", "other", "same", "in-a", "in-b", "unknown"),
)
STYLE = """
.bb { color: var(--body-text-color, inherit); overflow-wrap: anywhere; }
.bb .pieces { display: flex; flex-wrap: wrap; align-items: flex-start; gap: .35rem 0;
  margin: .5rem 0; }
.bb .piece { display: inline-flex; flex-direction: column; align-items: center; margin-left: .35rem;
  padding: .1rem .4rem; border: 1px solid #5d6675; border-radius: .35rem; background: #ffffff;
  color: #14171c; line-height: 1.3; max-width: 100%; }
.bb .piece.joined { margin-left: 0; border-left: 3px dotted #5d6675; border-top-left-radius: 0;
  border-bottom-left-radius: 0; }
.bb .piece small { font-size: .72rem; color: #2b313c; max-width: 11rem; text-align: center; }
.bb .piece.special { background: #e3e6eb; } .bb .piece.masked { background: #bcd9fb; }
.bb .piece.other { background: #ffd9a8; } .bb .piece.same { background: #c3ecd0; }
.bb .piece.in-a { background: #e3eefc; } .bb .piece.in-b { background: #fdebd6; }
.bb .piece.unknown { background: #f6c4c4; }
.bb table { border-collapse: collapse; margin: .6rem 0; } .bb .wide { overflow-x: auto; }
.bb th, .bb td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #8a8f98;
  vertical-align: top; color: inherit; }
.bb th, .bb td.number, .bb td:first-child { overflow-wrap: normal; }
.bb td.number, .bb th.number { text-align: right; font-variant-numeric: tabular-nums; }
.bb .bars { min-width: 17rem; max-width: 40rem; }
.bb .bars div { display: grid; grid-template-columns: 6.5rem 1fr 3.5rem;
  gap: .4rem; align-items: center; font-size: .85rem; }
.bb .bars i { display: block; height: .65rem; background: #8a8f98; border-radius: .2rem; }
.bb .bars div.right i { background: #2e9e5b; }
.bb .key { list-style: none; display: flex; flex-wrap: wrap; gap: .2rem 1rem; margin: .3rem 0;
  padding: 0; font-size: .85rem; } .bb .key .piece { margin: 0; width: 1.1rem;
  height: .85rem; vertical-align: middle; }
.bb .said { margin: .5rem 0; padding: .5rem .8rem; border-left: .3rem solid #4c8bd6;
  background: var(--background-fill-secondary, var(--card)); }
.bb .wrong { border-left-color: #b3261e; } .bb h1 { font-size: 1.4rem; margin: 0; }
.bb h3 { font-size: 1.05rem; margin: 1rem 0 .3rem; }
@media (max-width: 600px) { .bb .piece small { max-width: 5.5rem; } }
"""
# The texts with which the page begins.
TEXT = (
    "The river rises in the mountains and flows through the old town. "
    "In spring the melting snow makes it overflow its banks."
)
DOCUMENTS = """The river rises in the mountains. It flows through the old town. In spring the \
melting snow makes it overflow. People built a wall in 1901. The wall was raised twice.

The band began in a small school. Three of its members played the guitar. Their first album sold \
well. They won a prize for the second one. After ten years they parted.

The war began in the north. The king sent an army of ten thousand. It lost the first battle. \
Winter came early in that year. Both sides made peace in the spring."""
# Number of tokens of a typed text that are shown, of answers at a mask, and of records on a page.
MOST_TOKENS, ANSWERS, RECORDS = 128, 5, 5


class Piece(NamedTuple):
    """A token in a box: the token, the kind of the box, and a text below the token."""

    token: str
    kind: str = PLAIN
    under: str = ""


def whole(*parts: object) -> Html:
    """Returns parts as one piece of HTML with the page's style."""
    return tag("div", *parts, kind="bb")


def message(*parts: object, is_wrong: bool = False) -> Html:
    """Returns a highlighted message."""
    return tag("p", *parts, kind="said wrong" if is_wrong else "said")


def pieces(tokens: Sequence[Piece]) -> Html:
    """Returns tokens in boxes. The pieces of a word touch each other."""
    boxes = []
    for piece in tokens:
        kind = f"piece {piece.kind}" + (" joined" if piece.token.startswith("##") else "")
        under = tag("small", piece.under) if piece.under else ""
        boxes.append(tag("span", tag("b", piece.token), under, kind=kind))
    return tag("div", *boxes, kind="pieces")


def key(*meanings: tuple[str, str]) -> Html:
    """Returns the legend of the colours of boxes, from (kind, meaning)."""
    boxes = (
        tag("li", Html(f'<i class="piece {kind}" aria-hidden="true"></i>'), " ", meaning)
        for kind, meaning in meanings
    )
    return tag("ul", *boxes, kind="key")


def bars(answers: Sequence[tuple[str, float]], right: str | None = None) -> Html:
    """Returns names with bars of shares; the right one is green and has a check mark."""
    rows = []
    for name, share in answers:
        bar = Html(f'<i style="width:{100 * min(max(share, 0.0), 1.0):.1f}%"></i>')
        label = f"✓ {name}" if name == right else name
        cells = (tag("span", cell) for cell in (label, bar, f"{share:.1%}"))
        rows.append(tag("div", *cells, kind="right" if name == right else ""))
    return tag("div", *rows, kind="bars")


# The tab of masks.

# Ways in which a chosen token is hidden, and units in which tokens are chosen.
AS_MASK, AS_OTHER, AS_SAME = "becomes [MASK]", "becomes a random token", "stays the same"
TOKENS, WORDS, SPANS = "tokens", "whole words", "spans of words"
# Way -> the kind of its box, and the text before the token to predict.
_WAYS = {AS_MASK: (MASKED, ""), AS_OTHER: (OTHER, "random: "), AS_SAME: (SAME, "unchanged: ")}


@dataclasses.dataclass(frozen=True)
class MaskingSettings:
    """How the tokens of a text are chosen and hidden; the defaults are the paper's (section 3.1).

    Attributes:
      rate: share of the tokens to predict (`masked_lm_prob`).
      mask_share: share of the chosen tokens that become [MASK].
      random_share: share of them that become a random token. The rest stays as it is.
      unit: unit in which they are chosen, `TOKENS`, `WORDS` or `SPANS`.
      seed: seed of every draw.
    """

    rate: float = MASKED_LM_PROB
    mask_share: float = MASK_SHARE
    random_share: float = RANDOM_SHARE
    unit: str = TOKENS
    seed: int = 1

    @property
    def shares(self) -> dict[str, float]:
        """The share of the chosen tokens for each way of hiding them; their sum is 1."""
        random = min(self.random_share, 1 - self.mask_share)
        return {AS_MASK: self.mask_share, AS_OTHER: random, AS_SAME: 1 - self.mask_share - random}


def typed_ids(material: Material, *texts: str) -> list[list[int]]:
    """Returns the ids of typed texts."""
    values, lengths = material.tokenizer.tokenize_batch(texts)
    return [part.tolist() for part in np.split(values, np.cumsum(lengths)[:-1])]


def mask_text(
    material: Material, framed: np.ndarray, settings: MaskingSettings
) -> tuple[np.ndarray, dict[int, str]]:
    """Masks a text once.

    Args:
      material: what the page shows.
      framed: int32 [tokens], [CLS] text [SEP].
      settings: how the tokens are chosen and hidden.

    Returns:
      the text with masks, int32 [tokens], and position -> way of each token to predict, ascending.
    """
    from beambert.pipelines.pretraining.masks import mask_rows

    rows = mask_rows(
        framed[None],
        np.ones((1, len(framed)), np.uint8),
        max_predictions_per_seq=len(framed),
        masked_lm_prob=settings.rate,
        do_whole_word_mask=settings.unit == WORDS,
        do_span_mask=settings.unit == SPANS,
        ids=material.token_ids,
        random=np.random.Generator(np.random.PCG64([settings.seed, 0])),
        mask_share=settings.mask_share,
        random_share=settings.random_share,
    )
    shown = rows["input_ids"][0]
    chosen = rows["masked_lm_positions"][0][rows["masked_lm_weights"][0] > 0]
    hidden = np.where(shown == material.token_ids.mask, AS_MASK, AS_OTHER)
    ways = np.where(shown == framed, AS_SAME, hidden)
    return shown, dict(zip(chosen.tolist(), ways[chosen].tolist(), strict=True))


def show_masking(material: Material, typed: str, settings: MaskingSettings) -> Html:
    """Returns a typed text with masks, the counts, and with a model its answers."""
    (tokens,) = typed_ids(material, typed)
    if not tokens:
        return whole(message("Type a text with at least one word."))
    names, ids = material.vocabulary.pieces, material.token_ids
    most = min(MOST_TOKENS, material.config.longest_sequence if material.config else MOST_TOKENS)
    framed = np.array([ids.classify, *tokens[: most - 2], ids.separate], np.int32)
    shown, ways = mask_text(material, framed, settings)
    boxes = []
    for place, (before, after) in enumerate(zip(framed, shown, strict=True)):
        kind, under = _kind(names[before]), ""
        if place in ways:
            kind, prefix = _WAYS[ways[place]]
            under = f"{prefix}predict {names[before]}"
        boxes.append(Piece(names[after], kind, under))
    chosen, found = max(len(ways), 1), list(ways.values())
    rows = [
        (way, found.count(way), f"{share * chosen:.1f}") for way, share in settings.shares.items()
    ]
    cut = len(tokens) + 2 - len(framed)
    parts = [
        pieces(boxes),
        key(
            (MASKED, "chosen, shown as [MASK]"),
            (OTHER, "chosen, shown as a random token"),
            (SAME, "chosen, shown as it is"),
            (PLAIN, "not chosen: only context"),
        ),
        message(f"The first {most} tokens are shown; {cut:,} are left out.") if cut else "",
        tag("h3", f"{counted(len(ways), 'token')} to predict of {len(framed)}"),
        table(("of the chosen tokens", "here", "expected"), rows, ("name", "number", "number")),
        note(
            f"Expected to be chosen: {settings.rate:.0%} of {len(framed)} tokens, [CLS] and [SEP] "
            "counted, rounded, at least 1. [CLS], [SEP] and [UNK] are never chosen. "
            "(Devlin et al. 2019, section 3.1, task 1: masked LM.)"
        ),
    ]
    return whole(*parts, _answers_at_masks(material, framed, shown, list(ways)))


def _kind(token: str) -> str:
    kinds = {CLASSIFY: SPECIAL, SEPARATE: SPECIAL, UNKNOWN_TOKEN: UNKNOWN}
    return kinds.get(token, PLAIN)


def _softmax(logits: np.ndarray) -> np.ndarray:
    raised = np.exp(logits.astype(np.float64) - logits.max())
    return raised / raised.sum()


def _answers_at_masks(
    material: Material, framed: np.ndarray, shown: np.ndarray, places: Sequence[int]
) -> Html:
    """Returns what the model answers at each place to predict."""
    model = material.model
    if model is None or not places:
        return join()
    if not model.masked_lm_head:
        return message(
            "This model has no head for masked LM: it was pre-trained with --objective=rtd, to "
            "find tokens that were replaced."
        )
    ones = np.ones((1, len(shown)), np.int32)
    features = {"input_ids": shown[None].astype(np.int32), "input_mask": ones}
    features |= {"segment_ids": 0 * ones, "masked_lm_positions": np.array([places], np.int32)}
    names, rows, losses, right = material.vocabulary.pieces, [], [], 0
    logits = np.array(model(features)["masked_lm_logits"])[0]
    for place, probabilities in zip(places, map(_softmax, logits), strict=True):
        label = framed[place]
        order = np.argsort(-probabilities, kind="stable")[:ANSWERS]
        best = [(names[index], float(probabilities[index])) for index in order]
        rank = int((probabilities > probabilities[label]).sum()) + 1
        right += rank == 1
        losses.append(-math.log(max(probabilities[label], 1e-300)))
        verdict = "right" if rank == 1 else f"wrong: rank {rank:,}"
        truth = f"{names[shown[place]]} → {names[label]}"
        rows.append((place, truth, bars(best, names[label]), verdict, f"{losses[-1]:.2f}"))
    mean = sum(losses) / len(losses)
    return join(
        tag("h3", f"The model is right at {right} of {len(rows)} places; mean loss {mean:.2f}"),
        table(
            ("position", "shown → hidden", "five best answers", "verdict", "loss"),
            rows,
            ("number", "short", "", "short", "number"),
        ),
        note(
            "The loss is minus the natural logarithm of the hidden token's probability: 0 for a "
            f"sure and right answer, {math.log(len(names)):.1f} for a guess among all "
            f"{len(names):,} tokens of the vocabulary."
        ),
    )


# The tab of sentence pairs.

ANY, IS_NEXT_ONLY, RANDOM_ONLY = "any", "is next", "random next"


def split_typed(typed: str) -> list[list[str]]:
    """Returns the sentences of documents that are separated by empty lines."""
    from beambert.pipelines.corpus.documents import Document
    from beambert.pipelines.text.sentences import split_sentences

    groups = itertools.groupby(typed.split("\n"), key=lambda line: bool(line.strip()))
    documents = ("\n".join(lines) + "\n" for has_text, lines in groups if has_text)
    return [sentences for text in documents if (sentences := split_sentences(Document(text)))]


def make_pairs(
    material: Material, documents: Sequence[Sequence[str]], length: int, short: float, seed: int
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray], Any]:
    """Pairs the sentences of documents in one pass.

    Args:
      material: what the page shows.
      documents: the sentences of each document.
      length: tokens of a pair, [CLS] and both [SEP] included.
      short: share of the documents whose pairs have a random shorter target length.
      seed: seed of every draw.

    Returns:
      the tokens of all sentences; the pairs and the counts, see `pairs.build_pairs`; and the rows
      of the records before masking.
    """
    from beambert.pipelines.pretraining.masks import assemble_rows
    from beambert.pipelines.pretraining.pairs import Balance, PairCounts, build_pairs

    flat = typed_ids(material, *itertools.chain(*documents))
    numbers = np.repeat(np.arange(len(documents)), [len(each) for each in documents])
    has_ids = np.array([bool(ids) for ids in flat])
    lengths = [len(ids) for ids in flat if ids]
    tokens = np.array([*itertools.chain(*flat)], np.int32)
    if not lengths:
        return tokens, np.zeros((0, 5), np.int32), {}, PairCounts()
    sentences = np.bincount(numbers[has_ids])
    drawn, counts = build_pairs(
        lengths,
        sentences[sentences > 0].tolist(),
        max_seq_length=length,
        short_seq_prob=short,
        balance=Balance(),
        seed=f"pairs {seed} 0 0",
    )
    rows = assemble_rows(tokens, drawn, length, material.token_ids)
    return tokens, drawn, rows, counts


def show_pairs(
    material: Material, typed: str, length: int, short: float, seed: int, wanted: str, number: int
) -> Html:
    """Returns one pair made of the typed documents, its origin and the model's prediction."""
    documents = split_typed(typed)
    if len(documents) < 2:
        return whole(
            message(
                "Type at least two documents, with an empty line between them: a random B comes "
                "from another document."
            )
        )
    length = min(length, material.config.longest_sequence) if material.config else length
    tokens, drawn, rows, counts = make_pairs(material, documents, length, short, seed)
    fitting = [
        place
        for place, label in enumerate(drawn[:, 4])
        if wanted == ANY or (label == IS_NEXT) == (wanted == IS_NEXT_ONLY)
    ]
    summary = note(
        f"{counted(len(documents), 'document')} gave {counted(len(drawn), 'pair')}: "
        f"{counts.is_next} “is next”, {counts.random_next} “random next”, of which "
        f"{counts.forced_random_next} had to be random, since their chunk has one sentence; "
        f"{counted(counts.truncated_tokens, 'token')} cut off in all to fit {length}."
    )
    if not fitting:
        return whole(summary, message(f"No pair is “{wanted}” with this seed; try another seed."))
    place = fitting[(number - 1) % len(fitting)]
    start, end, b_start, b_end, label = drawn[place].tolist()
    names, is_next = material.vocabulary.pieces, label == IS_NEXT
    a = [Piece(names[index], IN_A) for index in tokens[start:end]]
    b = [Piece(names[index], IN_B) for index in tokens[b_start:b_end]]
    cls, sep = Piece(CLASSIFY, SPECIAL), Piece(SEPARATE, SPECIAL)
    origin = (
        "Label IsNext (0): A and B are the two parts of a chunk of one document. The chunk has as "
        "many sentences as fit; a random draw says where A ends, a coin that B follows."
        if is_next
        else "Label NotNext (1): B begins at a random sentence of another document. A's own rest "
        "is not lost; the next chunk begins with it."
    )
    parts = [
        tag("h3", f"Pair {(number - 1) % len(fitting) + 1} of {len(fitting)}"),
        pieces([cls, *a, sep, *b, sep]),
        key((IN_A, "segment A"), (IN_B, "segment B"), (SPECIAL, "what frames them")),
        message(origin),
    ]
    model = material.model
    if model is not None and model.pair_task != "next_sentence":
        parts.append(
            message(
                "This model has no head for next sentence prediction: it was pre-trained with "
                "another --objective than bert."
            )
        )
    elif model is not None:
        filled = int(rows["input_mask"][place].sum())
        features = {name: values[[place], :filled] for name, values in rows.items()}
        features["masked_lm_positions"] = np.zeros((1, 1), np.int32)
        share = float(_softmax(np.array(model(features)["next_sentence_logits"])[0])[0])
        is_right = (share >= 0.5) == is_next
        answers = [(IS_NEXT_ONLY, share), ("random", 1 - share)]
        parts += [
            tag("h3", f"The model is {'right' if is_right else 'wrong'}"),
            bars(answers, IS_NEXT_ONLY if is_next else "random"),
        ]
    return whole(*parts, summary)


# The tab of records.

# Bytes before a record (its length and the length's checksum), and after it.
_LENGTH, _BEFORE, _AFTER = struct.Struct("<Q"), 12, 4


def read_some(path: str, first: int, count: int) -> list[bytes]:
    """Returns at most `count` records of a local TFRecord file, from number `first` on, from 0.

    The content of records before these is not read, except in a gzip file.

    Raises:
      CorruptRecordsError: a record is damaged.
    """
    with importing():
        from beambert.pipelines.records.reading import read_records

    with open(path, "rb") as file:
        if file.read(2) == b"\x1f\x8b":
            file.seek(0)
            return list(itertools.islice(read_records(file), first, first + count))
        place, size = 0, os.fstat(file.fileno()).st_size
        for _ in range(first):
            length = os.pread(file.fileno(), _LENGTH.size, place)
            if len(length) < _LENGTH.size:
                return []
            place += _BEFORE + _LENGTH.unpack(length)[0] + _AFTER
        file.seek(min(place, size))
        return list(itertools.islice(read_records(io.BufferedReader(file)), count))


def show_records(
    material: Material, path: str, file: int, first: int
) -> tuple[Html, tuple[int, int]]:
    """Returns a page of records, and the position of the next page.

    Args:
      material: what the page shows.
      path: path of one of the folders of --records.
      file, first: number of the file and of the first record in it, from 0.
    """
    with importing():
        from beambert.pipelines.records.reading import CorruptRecordsError, decode_rows
        from beambert.pipelines.records.statistics import as_record

    folder = material.folders[path]
    names = list(folder.files)
    file = min(file, len(names) - 1)
    try:
        records = read_some(names[file], first, RECORDS)
    except CorruptRecordsError as error:
        return whole(message(f"{names[file]}: {error}", is_wrong=True)), (file + 1, 0)
    rows, faults = decode_rows(records, folder.features)
    parts = [
        _record(as_record(rows, row, names[file], first + row + 1), folder)
        for row in range(len(rows["input_ids"]))
    ]
    if faults:
        parts.append(message(f"{sum(faults.values())} of these are damaged.", is_wrong=True))
    if not records:
        parts.append(message("The file has no more records; Next shows the following file."))
    legend = key(
        *((IN_A, "segment A"), (IN_B, "segment B"), (SPECIAL, "special tokens")),
        *((MASKED, "hidden as [MASK]"), (OTHER, "hidden as a random token")),
        *((SAME, "to predict, though not hidden"), (UNKNOWN, "[UNK]")),
    )
    then = (file, first + RECORDS)
    if len(records) < RECORDS:
        then = ((file + 1) % len(names), 0)
    return whole(legend, *parts), then


def _record(record: Any, folder: Any) -> Html:
    tokens = folder.vocabulary.pieces if folder.vocabulary else ()

    def name(index: int) -> str:
        return tokens[index] if 0 <= index < len(tokens) else str(index)

    labels, boxes = dict(record.predictions), []
    for position, (index, segment) in enumerate(zip(record.ids, record.segments, strict=True)):
        shown, under = name(index), ""
        kind = _kind(shown)
        kind = (IN_A, IN_B)[segment != 0] if kind == PLAIN else kind
        if position in labels:
            label = name(labels[position])
            kind = MASKED if shown == MASK else SAME if label == shown else OTHER
            under = f"predict {label}"
        boxes.append(Piece(shown, kind, under))
    says = ""
    if record.is_next is not None:
        label = int(not record.is_next)
        says = f": {label_words(folder.made_with.pairs)[label]} ({label})"
    return join(
        tag("h3", f"Record {record.number:,} of {os.path.basename(record.path)}{says}"),
        note(
            f"{len(record.ids)} of {record.positions} positions filled, "
            f"{counted(len(labels), 'token')} to predict"
        ),
        pieces(boxes),
    )
