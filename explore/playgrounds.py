"""The two playgrounds as HTML: masking and next sentence.

Each function takes typed text and choices and returns HTML. None keeps a state.
"""

import math

from beambert.console import counted
from beambert.explore.drawing import (
    IN_A,
    IN_B,
    MASKED,
    OTHER,
    PLAIN,
    SAME,
    SPECIAL,
    UNKNOWN,
    Piece,
    bars,
    key,
    pieces,
    said,
    whole,
)
from beambert.explore.instances import (
    AS_MASK,
    AS_OTHER,
    AS_SAME,
    MaskingSettings,
    Pair,
    frame,
    make_pairs,
    mask_text,
)
from beambert.explore.material import NO_MODEL, Material
from beambert.pipelines.tokenizers.vocabulary import CLASSIFY, SEPARATE
from beambert.pipelines.tokenizers.vocabulary import UNKNOWN as UNKNOWN_TOKEN
from beambert.report import Html, join, note, table, tag

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
# Number of tokens of a typed text that are shown.
MOST_TOKENS = 128
_KINDS = {AS_MASK: MASKED, AS_OTHER: OTHER, AS_SAME: SAME}
_WORDS = {AS_MASK: "becomes [MASK]", AS_OTHER: "becomes a random token", AS_SAME: "stays the same"}
# Text below a chosen token, before the token to predict.
_UNDER = {AS_MASK: "", AS_OTHER: "random: ", AS_SAME: "unchanged: "}
# Messages about a model without the head of masked LM, and one without that of pairs.
NO_MASKED_LM_HEAD = (
    "This model has no head for masked LM: it was pre-trained with --objective=rtd, to find tokens "
    "that were replaced."
)
_NO_HEAD = (
    "This model has no head for next sentence prediction: it was pre-trained with another "
    "--objective than bert."
)
ANY, IS_NEXT_ONLY, RANDOM_ONLY = "any", "is next", "random next"


def typed_ids(material: Material, name: str, *texts: str) -> list[list[int]]:
    """Returns the ids of typed texts, cut by a model's or no model's tokenizer."""
    values, lengths = material.tokenizer(name).tokenize_batch(texts)
    found, start = [], 0
    for length in lengths.tolist():
        found.append(values[start : start + length].tolist())
        start += length
    return found


def longest(material: Material, name: str) -> int:
    """Returns the number of tokens that a text may have: the page's or the model's limit."""
    if name not in material.pretrained:
        return MOST_TOKENS
    return min(MOST_TOKENS, material.models[name].config.longest_sequence)


def show_masking(
    material: Material,
    name: str,
    typed: str,
    settings: MaskingSettings,
) -> Html:
    """Returns a typed text with masks, the counts, and with a model its answers.

    Args:
      material: what the page shows.
      name: name of a model, or `NO_MODEL`.
      typed: the text.
      settings: how tokens are chosen and hidden.
    """
    (tokens,) = typed_ids(material, name, typed)
    if not tokens:
        return whole(said("Type a text with at least one word."))
    ids, names = material.token_ids(name), material.language_of(name).vocabulary.pieces
    most = longest(material, name)
    framed = frame(tokens, ids, most)
    masked = mask_text(framed, ids, settings)
    ways = masked.ways(ids)
    way_at = dict(zip(masked.positions.tolist(), ways, strict=True))
    boxes = []
    for place, (before, after) in enumerate(zip(framed, masked.shown, strict=True)):
        way = way_at.get(place)
        fixed = names[before] in (CLASSIFY, SEPARATE)
        kind = _KINDS[way] if way else SPECIAL if fixed else _kind(names[before])
        under = f"{_UNDER[way]}predict {names[before]}" if way else ""
        boxes.append(Piece(names[after], kind, under))
    chosen = max(len(ways), 1)
    rows = [
        (_WORDS[way], ways.count(way), f"{share * chosen:.1f}")
        for way, share in settings.shares.items()
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
        said(f"The first {most} tokens are shown; {cut:,} are left out.") if cut else "",
        tag("h3", f"{counted(len(ways), 'token')} to predict of {len(framed)}"),
        table(
            ("of the chosen tokens", "here", "expected"),
            rows,
            ("name", "number", "number"),
        ),
        note(
            f"Expected to be chosen: {settings.rate:.0%} of {len(framed)} tokens, [CLS] and [SEP] "
            "counted, rounded, at least 1. [CLS], [SEP] and [UNK] are never chosen. "
            "(Devlin et al. 2019, section 3.1, task 1: masked LM.)"
        ),
    ]
    return whole(*parts, _model_answers(material, name, masked, names))


def _kind(token: str) -> str:
    return UNKNOWN if token == UNKNOWN_TOKEN else PLAIN


def _model_answers(material: Material, name: str, masked, names) -> Html:
    model = material.model(name)
    if model is None:
        return join()
    if not model.masked_lm_head:
        return said(NO_MASKED_LM_HEAD)
    from beambert.explore.layers import masked_answers, single

    labels = masked.ids[masked.positions]
    answers = masked_answers(model, single(masked.shown), masked.positions, labels)
    rows = []
    for place, label, answer in zip(masked.positions.tolist(), labels, answers, strict=True):
        truth = names[label]
        best = [(names[index], share) for index, share in answer.best]
        verdict = "right" if answer.rank == 1 else f"wrong: rank {answer.rank:,}"
        row = (place, f"{names[masked.shown[place]]} → {truth}", bars(best, truth), verdict)
        rows.append((*row, f"{answer.loss:.2f}"))
    right = sum(answer.rank == 1 for answer in answers)
    mean = sum(answer.loss for answer in answers) / len(answers)
    return join(
        tag("h3", f"The model is right at {right} of {len(answers)} places; mean loss {mean:.2f}"),
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


def split_typed(material: Material, typed: str) -> list[list[str]]:
    """Returns the sentences of documents that are separated by empty lines."""
    from beambert.pipelines.corpus.documents import Document
    from beambert.pipelines.text.sentences import split_sentences

    documents: list[str] = [""]
    for line in typed.split("\n"):
        if line.strip():
            documents[-1] += line + "\n"
        elif documents[-1]:
            documents.append("")
    found = (split_sentences(Document(document)) for document in documents if document)
    return [sentences for sentences in found if sentences]


def pairs_of(
    material: Material, name: str, typed: str, length: int, short: float, seed: int
) -> tuple[list[list[str]], list[Pair], object]:
    """Returns the sentences of typed documents, their pairs, and the counts of pairing."""
    sentences = split_typed(material, typed)
    flat = typed_ids(
        material, name, *(sentence for one_sentence in sentences for sentence in one_sentence)
    )
    documents, start = [], 0
    for one_sentence in sentences:
        documents.append(flat[start : start + len(one_sentence)])
        start += len(one_sentence)
    model = material.model(name)
    if model:
        length = min(length, model.config.longest_sequence)
    pairs, counts = make_pairs(documents, material.token_ids(name), length, short, seed)
    return sentences, pairs, counts


def show_pairs(
    material: Material,
    name: str,
    typed: str,
    length: int,
    short: float,
    seed: int,
    wanted: str,
    number: int,
) -> Html:
    """Returns one pair made of the typed documents, its origin and the model's prediction."""
    sentences, pairs, counts = pairs_of(material, name, typed, length, short, seed)
    if len(sentences) < 2:
        return whole(
            said(
                "Type at least two documents, with an empty line between them: a random B comes "
                "from another document."
            )
        )
    fitting = [p for p in pairs if wanted == ANY or p.is_next == (wanted == IS_NEXT_ONLY)]
    summary = note(
        f"{counted(len(sentences), 'document')} gave {counted(len(pairs), 'pair')}: "
        f"{counts.is_next} “is next”, {counts.random_next} “random next”, of which "
        f"{counts.forced_random_next} had to be random, since their chunk has one sentence; "
        f"{counted(counts.truncated_tokens, 'token')} cut off in all to fit {length}."
    )
    if not fitting:
        return whole(summary, said(f"No pair is “{wanted}” with this seed; try another seed."))
    pair = fitting[(number - 1) % len(fitting)]
    parts = [
        tag("h3", f"Pair {(number - 1) % len(fitting) + 1} of {len(fitting)}"),
        pair_pieces(material, name, pair),
        key((IN_A, "segment A"), (IN_B, "segment B"), (SPECIAL, "what frames them")),
        said(_origin(pair)),
    ]
    model = material.model(name)
    if model is not None and model.pair_task != "next_sentence":
        parts.append(said(_NO_HEAD))
    elif model is not None:
        share = _next_share(model, pair)
        is_right = (share >= 0.5) == pair.is_next
        parts += [
            tag("h3", f"The model is {'right' if is_right else 'wrong'}"),
            bars(
                [("is next", share), ("random", 1 - share)], "is next" if pair.is_next else "random"
            ),
        ]
    return whole(*parts, summary)


def pair_pieces(material: Material, name: str, pair: Pair) -> Html:
    """Returns the tokens of a pair in boxes: A, B and what frames them."""
    names = material.language_of(name).vocabulary.pieces
    a = [Piece(names[index], IN_A) for index in pair.a]
    b = [Piece(names[index], IN_B) for index in pair.b]
    cls, sep = Piece(CLASSIFY, SPECIAL), Piece(SEPARATE, SPECIAL)
    return pieces([cls, *a, sep, *b, sep])


def _next_share(model, pair: Pair) -> float:
    from beambert.explore.layers import next_probability

    filled = int(pair.inputs["input_mask"].sum())
    return next_probability(model, {n: v[:, :filled] for n, v in pair.inputs.items()})


def _origin(pair: Pair) -> str:
    if pair.is_next:
        return (
            "Label IsNext (0): A and B are the two parts of a chunk of one document. The chunk has "
            "as many sentences as fit; a random draw says where A ends, a coin that B follows."
        )
    return (
        "Label NotNext (1): B begins at a random sentence of another document. A's own rest is not "
        "lost; the next chunk begins with it."
    )


def all_names(material: Material) -> list[str]:
    """Returns the choices of a model, with `NO_MODEL` last if there are others."""
    return [*material.pretrained, NO_MODEL]
