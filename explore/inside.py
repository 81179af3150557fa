"""The inside of models as HTML: attention and layers."""

import numpy as np

from beambert.explore.drawing import (
    PLAIN,
    Piece,
    attention_map,
    bars,
    pieces,
    said,
    whole,
)
from beambert.explore.material import Material
from beambert.explore.playgrounds import NO_MASKED_LM_HEAD, frame, typed_ids
from beambert.pipelines.tokenizers.vocabulary import MASK
from beambert.report import Html, note, table, tag

# Number of tokens in a map of attention.
MOST_IN_A_MAP = 40


def _framed(material: Material, name: str, typed: str) -> np.ndarray:
    """Returns typed text with [CLS] and [SEP]; the word [MASK] in it is the token."""
    ids = material.token_ids(name)
    tokens: list[int] = []
    for number, part in enumerate(typed.split(MASK)):
        tokens += [ids.mask] if number else []
        tokens += typed_ids(material, name, part)[0]
    return frame(tokens, ids, MOST_IN_A_MAP)


def show_attention(material: Material, name: str, typed: str, layer: int, head: int) -> Html:
    """Returns the attention of one head over a typed text.

    Args:
      material: what the page shows.
      name: name of a pre-trained model.
      typed: the text.
      layer, head: numbers of the layer and of the head, from 1.
    """
    from beambert.explore.layers import read_layers, single

    model = material.model(name)
    framed = _framed(material, name, typed)
    if len(framed) < 3:
        return whole(said("Type a text with at least one word."))
    config = model.config
    layer = min(max(int(layer), 1), config.num_hidden_layers)
    head = min(max(int(head), 1), config.num_attention_heads)
    framed = framed[: config.longest_sequence]
    weights = read_layers(model.encoder, single(framed)).attention[layer - 1, head - 1]
    names = material.language_of(name).vocabulary.pieces
    tokens = [names[index] for index in framed]
    spread = float(-(weights * np.log(np.maximum(weights, 1e-12))).sum(axis=1).mean())
    return whole(
        tag(
            "h3",
            f"Layer {layer} of {config.num_hidden_layers}, head {head} of "
            f"{config.num_attention_heads}",
        ),
        tag("div", attention_map(tokens, weights), kind="wide"),
        note(
            "A row is a token that looks, a column one that it looks at; the darker, the more. "
            "Softmax of queries times keys (Vaswani et al. 2017, section 3.2). On "
            f"average a token looks at about {np.exp(spread):.1f} tokens (the exponential of "
            f"the mean entropy). At most {MOST_IN_A_MAP} tokens are shown."
        ),
    )


def show_lens(material: Material, name: str, typed: str, place: int) -> Html:
    """Returns what each layer would answer where one token is masked.

    Args:
      material: what the page shows.
      name: name of a pre-trained model.
      typed: the text.
      place: position of the token to mask; a [MASK] in the text takes precedence.
    """
    from beambert.explore.layers import layer_answers, read_layers, single

    model = material.model(name)
    if not model.masked_lm_head:
        return whole(said(NO_MASKED_LM_HEAD))
    framed = _framed(material, name, typed)[: model.config.longest_sequence]
    if len(framed) < 3:
        return whole(said("Type a text with at least one word."))
    names, ids = material.language_of(name).vocabulary.pieces, material.token_ids(name)
    given = np.flatnonzero(framed == ids.mask)
    place = int(given[0]) if len(given) else min(max(int(place), 1), len(framed) - 2)
    label = int(framed[place])
    shown = framed.copy()
    shown[place] = ids.mask
    outputs = read_layers(model.encoder, single(shown)).outputs
    rows = []
    for number, answer in enumerate(layer_answers(model, outputs, place, label)):
        best = [(names[index], share) for index, share in answer.best]
        truth = None if len(given) else names[label]
        where = "embeddings" if number == 0 else f"layer {number}"
        ranked = () if len(given) else (f"{answer.rank:,}",)
        rows.append((where, bars(best, truth), *ranked))
    boxes = [
        Piece(names[i], "masked" if p == place else PLAIN, f"position {p}", p == place)
        for p, i in enumerate(shown.tolist())
    ]
    asked = "[MASK]" if len(given) else names[label]
    ranks = () if len(given) else ("rank of the hidden token",)
    return whole(
        pieces(boxes),
        tag("h3", f"What each layer would answer at position {place} ({asked})"),
        table(("after", "five best answers", *ranks), rows, ("", "", *("number" for _ in ranks))),
        note(
            "The masked-LM head reads each layer's output instead of the last one's (logit lens). "
            "It was trained on the last layer, so early layers are only a hint."
        ),
    )
