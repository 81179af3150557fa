"""What the parts of the page show, as HTML: masks, pairs and records. None keeps a state.

The fields of a part are settings; the page has a control for each. Every string goes through
`report.tag`, so none is ever read as HTML. Masks and pairs are drawn by the functions of the data
job.
"""

import dataclasses
import itertools
import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from beambert.config import Settings, setting
from beambert.console import counted
from beambert.errors import InputError
from beambert.explore.material import Material
from beambert.pipelines.records.contract import (
    IS_NEXT,
    MASK_SHARE,
    MASKED_LM_PROB,
    RANDOM_SHARE,
    SAME_SHARE,
    label_words,
)
from beambert.pipelines.tokenizers.vocabulary import CLASSIFY, MASK, SEPARATE
from beambert.pipelines.tokenizers.vocabulary import UNKNOWN as UNKNOWN_TOKEN
from beambert.report import Html, join, note, table, tag, text

# The kinds of a token's box. Each has a colour and a word, since not everybody sees colours.
PLAIN, SPECIAL, MASKED, OTHER, SAME, IN_A, IN_B, UNKNOWN = (
    *("plain", "special", "masked", "other", "same", "in-a", "in-b", "unknown"),
)
STYLE = """
.pieces { display: flex; flex-wrap: wrap; align-items: flex-start; gap: .35rem 0; margin: .5rem 0; }
.piece { display: inline-flex; flex-direction: column; align-items: center; margin-left: .35rem;
  padding: .1rem .4rem; border: 1px solid #5d6675; border-radius: .35rem; background: #ffffff;
  color: #14171c; line-height: 1.3; max-width: 100%; }
.piece.joined { margin-left: 0; border-left: 3px dotted #5d6675; border-top-left-radius: 0;
  border-bottom-left-radius: 0; }
.piece small { font-size: .72rem; color: #2b313c; max-width: 11rem; text-align: center; }
.piece.special { background: #e3e6eb; } .piece.masked { background: #bcd9fb; }
.piece.other { background: #ffd9a8; } .piece.same { background: #c3ecd0; }
.piece.in-a { background: #e3eefc; } .piece.in-b { background: #fdebd6; }
.piece.unknown { background: #f6c4c4; }
.bars { min-width: 17rem; max-width: 40rem; }
.bars div { display: grid; grid-template-columns: 6.5rem 1fr 3.5rem; gap: .4rem;
  align-items: center; font-size: .85rem; }
.bars i { display: block; height: .65rem; background: #8a8f98; border-radius: .2rem; }
.bars div.right i { background: #2e9e5b; }
.key { list-style: none; display: flex; flex-wrap: wrap; gap: .2rem 1rem; margin: .3rem 0;
  padding: 0; font-size: .85rem; }
.key .piece { margin: 0; width: 1.1rem; height: .85rem; vertical-align: middle; }
nav a { margin-right: 1rem; } form { margin: 1rem 0; padding: .8rem 1rem; border-radius: .3rem;
  background: var(--card); display: flex; flex-wrap: wrap; gap: .8rem; }
label { flex: 1 1 14rem; font-weight: 600; } label small { display: block; font-weight: 400;
  color: var(--soft); } label.long { flex-basis: 100%; }
input, select, textarea { width: 100%; font: inherit; } button { font: inherit; flex-basis: 100%; }
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


# The part of masks.

# Ways in which a chosen token is hidden, and units in which tokens are chosen.
AS_MASK, AS_OTHER, AS_SAME = "becomes [MASK]", "becomes a random token", "stays the same"
TOKENS, WORDS, SPANS = "tokens", "words", "spans"
# Way -> the kind of its box, and the text before the token to predict.
_WAYS = {AS_MASK: (MASKED, ""), AS_OTHER: (OTHER, "random: "), AS_SAME: (SAME, "unchanged: ")}


# Way -> its share of the chosen tokens.
_SHARES = {AS_MASK: MASK_SHARE, AS_OTHER: RANDOM_SHARE, AS_SAME: SAME_SHARE}


def _seed() -> Any:
    return setting(1, minimum=0, help="seed of every draw; another number gives other ones")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Masking(Settings):
    """A text, and how its tokens are chosen and hidden; the defaults are the paper's (3.1)."""

    text: str = setting(TEXT, metavar="TEXT", help="any text; it is cut into tokens")
    unit: str = setting(
        TOKENS,
        choices=(TOKENS, WORDS, SPANS),
        help="what is chosen: tokens (paper), all pieces of a word or none (whole word masking), "
        "or spans of 1 to 10 words (SpanBERT)",
    )
    masked_lm_prob: float = setting(
        MASKED_LM_PROB, above=0, maximum=0.9, help="share of the tokens to predict (paper: 0.15)"
    )
    random_seed: int = _seed()

    def show(self, material: Material) -> Html:
        """Returns the text with masks, the counts, and with a model its answers.

        Raises:
          InputError: the text has no word.
        """
        (tokens,) = typed_ids(material, self.text)
        if not tokens:
            raise InputError("--text: has no word; type one")
        names, ids = material.vocabulary.pieces, material.token_ids
        longest = material.config.longest_sequence if material.config else MOST_TOKENS
        most = min(MOST_TOKENS, longest)
        framed = np.array([ids.classify, *tokens[: most - 2], ids.separate], np.int32)
        shown, ways = mask_text(material, framed, self)
        boxes = []
        for place, (before, after) in enumerate(zip(framed, shown, strict=True)):
            kind, under = _kind(names[before]), ""
            if place in ways:
                kind, prefix = _WAYS[ways[place]]
                under = f"{prefix}predict {names[before]}"
            boxes.append(Piece(names[after], kind, under))
        chosen, found = max(len(ways), 1), list(ways.values())
        rows = [(way, found.count(way), f"{share * chosen:.1f}") for way, share in _SHARES.items()]
        cut = len(tokens) + 2 - len(framed)
        return join(
            pieces(boxes),
            key(
                (MASKED, "chosen, shown as [MASK]"),
                (OTHER, "chosen, shown as a random token"),
                (SAME, "chosen, shown as it is"),
                (PLAIN, "not chosen: only context"),
            ),
            note(f"The first {most} tokens are shown; {cut:,} are left out.") if cut else "",
            tag("h3", f"{counted(len(ways), 'token')} to predict of {len(framed)}"),
            table(("of the chosen tokens", "here", "expected"), rows, ("name", "number", "number")),
            note(
                f"Expected to be chosen: {self.masked_lm_prob:.0%} of {len(framed)} tokens, [CLS] "
                "and [SEP] counted, rounded, at least 1. [CLS], [SEP] and [UNK] are never chosen. "
                "(Devlin et al. 2019, section 3.1, task 1: masked LM.)"
            ),
            _answers_at_masks(material, framed, shown, list(ways)),
        )


def typed_ids(material: Material, *texts: str) -> list[list[int]]:
    """Returns the ids of typed texts."""
    values, lengths = material.tokenizer.tokenize_batch(texts)
    return [part.tolist() for part in np.split(values, np.cumsum(lengths)[:-1])]


def mask_text(
    material: Material, framed: np.ndarray, settings: Masking
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
        masked_lm_prob=settings.masked_lm_prob,
        do_whole_word_mask=settings.unit == WORDS,
        do_span_mask=settings.unit == SPANS,
        ids=material.token_ids,
        random=np.random.Generator(np.random.PCG64([settings.random_seed, 0])),
    )
    shown = rows["input_ids"][0]
    chosen = rows["masked_lm_positions"][0][rows["masked_lm_weights"][0] > 0]
    hidden = np.where(shown == material.token_ids.mask, AS_MASK, AS_OTHER)
    ways = np.where(shown == framed, AS_SAME, hidden)
    return shown, dict(zip(chosen.tolist(), ways[chosen].tolist(), strict=True))


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
        return note(
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


# The part of sentence pairs.

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pairs(Settings):
    """Documents, and how their sentences are paired."""

    documents: str = setting(
        DOCUMENTS, metavar="TEXT", help="two or more, with an empty line between them"
    )
    max_seq_length: int = setting(
        48, minimum=8, maximum=128, help="tokens of a pair, [CLS] and both [SEP] included"
    )
    short_seq_prob: float = setting(
        0.1,
        minimum=0,
        maximum=1,
        help="share of documents whose pairs aim at a random shorter length",
    )
    random_seed: int = _seed()
    label: str = setting(ANY, choices=(ANY, IS_NEXT_ONLY, RANDOM_ONLY), help="which pairs to show")
    pair: int = setting(1, minimum=1, help="number of the pair to show")

    def show(self, material: Material) -> Html:
        """Returns one pair made of the documents, its origin and the model's prediction.

        Raises:
          InputError: there are less than two documents, or no pair has the label.
        """
        documents = split_typed(self.documents)
        if len(documents) < 2:
            raise InputError(
                "--documents: are less than two, and a random B comes from another one; type two, "
                "with an empty line between them"
            )
        length = self.max_seq_length
        length = min(length, material.config.longest_sequence) if material.config else length
        tokens, drawn, rows, counts = make_pairs(
            material, documents, length, self.short_seq_prob, self.random_seed
        )
        fitting = [
            place
            for place, label in enumerate(drawn[:, 4])
            if self.label == ANY or (label == IS_NEXT) == (self.label == IS_NEXT_ONLY)
        ]
        if not fitting:
            raise InputError(f"--label={self.label}: no pair has it; take another seed")
        place = fitting[(self.pair - 1) % len(fitting)]
        start, end, b_start, b_end, label = drawn[place].tolist()
        names, is_next = material.vocabulary.pieces, label == IS_NEXT
        a = [Piece(names[index], IN_A) for index in tokens[start:end]]
        b = [Piece(names[index], IN_B) for index in tokens[b_start:b_end]]
        cls, sep = Piece(CLASSIFY, SPECIAL), Piece(SEPARATE, SPECIAL)
        origin = (
            "Label IsNext (0): A and B are the two parts of a chunk of one document. The chunk has "
            "as many sentences as fit; a random draw says where A ends, a coin that B follows."
            if is_next
            else "Label NotNext (1): B begins at a random sentence of another document. A's own "
            "rest is not lost; the next chunk begins with it."
        )
        features = {name: values[[place]] for name, values in rows.items()}
        return join(
            tag("h3", f"Pair {(self.pair - 1) % len(fitting) + 1} of {len(fitting)}"),
            pieces([cls, *a, sep, *b, sep]),
            key((IN_A, "segment A"), (IN_B, "segment B"), (SPECIAL, "what frames them")),
            note(origin),
            _answer_on_pair(material, features, is_next),
            note(
                f"{counted(len(documents), 'document')} gave {counted(len(drawn), 'pair')}: "
                f"{counts.is_next} “is next”, {counts.random_next} “random next”, of which "
                f"{counts.forced_random_next} had to be random, since their chunk has one "
                f"sentence; {counted(counts.truncated_tokens, 'token')} cut off in all to fit "
                f"{length}."
            ),
        )


def _answer_on_pair(material: Material, features: dict[str, np.ndarray], is_next: bool) -> Html:
    """Returns what the model answers for a row of the records."""
    model = material.model
    if model is None:
        return join()
    if model.pair_task != "next_sentence":
        return note(
            "This model has no head for next sentence prediction: it was pre-trained with another "
            "--objective than bert."
        )
    filled = int(features["input_mask"].sum())
    features = {name: values[:, :filled] for name, values in features.items()}
    features["masked_lm_positions"] = np.zeros((1, 1), np.int32)
    share = float(_softmax(np.array(model(features)["next_sentence_logits"])[0])[0])
    is_right = (share >= 0.5) == is_next
    answers = [(IS_NEXT_ONLY, share), ("random", 1 - share)]
    return join(
        tag("h3", f"The model is {'right' if is_right else 'wrong'}"),
        bars(answers, IS_NEXT_ONLY if is_next else "random"),
    )


# The part of records.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Records(Settings):
    """A place in the records folders."""

    folder: int = setting(1, minimum=1, help="the records folders in --records")
    file: int = setting(1, minimum=1, help="number of the file")
    record: int = setting(1, minimum=1, help="number of the first record there")

    def show(self, material: Material) -> Html:
        """Returns a page of records, and a link to the next one.

        Raises:
          InputError: the file is damaged.
        """
        from beambert.pipelines.records.batches import read_file
        from beambert.pipelines.records.reading import decode_rows
        from beambert.pipelines.records.statistics import as_record

        folders = list(material.folders.values())
        folder = folders[min(self.folder, len(folders)) - 1]
        names = list(folder.files)
        number = min(self.file, len(names))
        name, first = names[number - 1], self.record - 1
        records = list(itertools.islice(read_file(name, first), RECORDS))
        rows, faults = decode_rows(records, folder.features)
        parts = [
            _record(as_record(rows, row, name, first + row + 1), folder)
            for row in range(len(rows["input_ids"]))
        ]
        if faults:
            parts.append(note(f"{sum(faults.values())} of these are damaged."))
        is_last = len(records) < RECORDS
        then = (number % len(names) + 1, 1) if is_last else (number, self.record + RECORDS)
        link = f"?folder={self.folder}&file={then[0]}&record={then[1]}"
        return join(
            key(
                *((IN_A, "segment A"), (IN_B, "segment B"), (SPECIAL, "special tokens")),
                *((MASKED, "hidden as [MASK]"), (OTHER, "hidden as a random token")),
                *((SAME, "to predict, though not hidden"), (UNKNOWN, "[UNK]")),
            ),
            *parts,
            Html(f'<a href="{text(link)}">{"Next file" if is_last else "Next records"}</a>'),
        )


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
