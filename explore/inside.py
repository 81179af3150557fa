"""The inside of models as HTML: attention, layers, vectors of sentences, answers, curves."""

import numpy as np

from beambert.explore.drawing import (
    PLAIN,
    Piece,
    attention_lines,
    attention_map,
    bars,
    curves,
    pieces,
    points,
    said,
    whole,
)
from beambert.explore.masking import frame
from beambert.explore.material import Material
from beambert.explore.playgrounds import NO_MASKED_LM_HEAD, typed_ids
from beambert.pipelines.tokenizers.vocabulary import MASK
from beambert.report import Html, join, note, table, tag

# Number of tokens in a map of attention, and of sentences among the points.
MOST_IN_A_MAP, MOST_SENTENCES = 40, 64
MAP, LINES = "map", "lines"
_READ = {
    MAP: "A row is a token that looks, a column one that it looks at; the darker, the more.",
    LINES: "The tokens on the left look at those on the right; the darker a line, the more.",
}
_SPLITS = {"train": "training data", "eval": "held-out data"}
# The metrics of training data that have a plot; of held-out data all have one.
_DRAWN = ("loss", "masked_lm_loss", "masked_lm_accuracy", "next_sentence_accuracy")
_DRAWN += ("sentence_order_accuracy", "copy_accuracy")
_DRAWN += ("replaced_token_loss", "replaced_token_accuracy")
_DRAWN += ("learning_rate",)
# Number of components of an embedding that are shown.
_COMPONENTS = 8


def _framed(material: Material, name: str, typed: str) -> np.ndarray:
    """Returns typed text with [CLS] and [SEP]; the word [MASK] in it is the token."""
    ids = material.token_ids(name)
    tokens: list[int] = []
    for number, part in enumerate(typed.split(MASK)):
        tokens += [ids.mask] if number else []
        tokens += typed_ids(material, name, part)[0]
    return frame(tokens, ids, MOST_IN_A_MAP)


def show_attention(
    material: Material, name: str, typed: str, layer: int, head: int, way: str
) -> Html:
    """Returns the attention of one head over a typed text.

    Args:
      material: what the page shows.
      name: name of a pre-trained model.
      typed: the text.
      layer, head: numbers of the layer and of the head, from 1.
      way: `MAP` or `LINES`.
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
    drawn = attention_map(tokens, weights) if way == MAP else attention_lines(tokens, weights)
    spread = float(-(weights * np.log(np.maximum(weights, 1e-12))).sum(axis=1).mean())
    return whole(
        tag(
            "h3",
            f"Layer {layer} of {config.num_hidden_layers}, head {head} of "
            f"{config.num_attention_heads}",
        ),
        tag("div", drawn, kind="wide"),
        note(
            f"{_READ[way]} Softmax of queries times keys (Vaswani et al. 2017, section 3.2). On "
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
      place: position of the token to mask; a [MASK] in the text goes first.
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
            "The masked-LM head reads each layer's output in place of the last one's (logit lens). "
            "It was trained on the last layer, so early layers are only a hint."
        ),
    )


def show_points(material: Material, name: str, typed: str) -> Html:
    """Returns sentences in two dimensions.

    Args:
      material: what the page shows.
      name: name of a pre-trained model.
      typed: a sentence a line, or a label, a `|` and a sentence.
    """
    from beambert.explore.layers import in_two_dimensions, sentence_vectors

    lines = [line.strip() for line in typed.split("\n") if line.strip()][:MOST_SENTENCES]
    if len(lines) < 3:
        return whole(said("Type at least three sentences, one a line."))
    labels, texts = [], []
    for line in lines:
        label, bar, text = line.partition("|")
        labels.append(label.strip() if bar else "")
        texts.append(text.strip() if bar else line)
    model, ids = material.model(name), material.token_ids(name)
    most = min(128, model.config.longest_sequence)
    framed = [frame(tokens, ids, most) for tokens in typed_ids(material, name, *texts)]
    vectors = sentence_vectors(model.encoder, framed, ids.padding)
    return whole(
        points(in_two_dimensions(vectors), texts, labels),
        note(
            "A point is the mean of the last layer over a sentence's tokens; the axes are the two "
            "principal components of these sentences."
        ),
    )


def show_answer(
    material: Material, name: str, first: str, second: str = "", endings: str = ""
) -> Html:
    """Returns a fine-tuned model's answer to typed text, and the tokens that mattered.

    Args:
      material: what the page shows.
      name: name of the model.
      first: the text, or the question.
      second: the second text, or the context; not used by a model that takes one.
      endings: the endings of a choice, one on each line.
    """
    from beambert.explore import answers

    found, loaded = material.task(name)
    texts = [first, second] if material.models[name].takes_two else [first]
    if not all(text.strip() for text in texts):
        return whole(said("Type a text in each field of this model."))
    lines = [line.strip() for line in endings.splitlines() if line.strip()]
    if not material.models[name].takes_endings:
        lines = []
    elif len(lines) != len(found.labels):
        return whole(said(f"Type {len(found.labels)} endings, each on a line of its own."))
    answer = answers.ask(loaded, found, texts, lines)
    parts: list[object] = []
    if lines:
        ordered = sorted(
            zip(lines, answer["probabilities"].values(), strict=True), key=lambda pair: -pair[1]
        )
        parts = [tag("h3", f"Answer: {ordered[0][0]}"), bars(ordered)]
    elif "probabilities" in answer:
        ordered = sorted(answer["probabilities"].items(), key=lambda pair: -pair[1])
        chosen = answer["label"] if "label" in answer else ", ".join(answer["labels"]) or "none"
        parts = [tag("h3", f"Answer: {chosen}"), bars(ordered)]
    elif "tags" in answer:
        boxes = [
            Piece(word, PLAIN if label == "O" else "other", label)
            for word, label in zip(answer["words"], answer["tags"], strict=False)
        ]
        parts = [tag("h3", "Tags"), pieces(boxes)]
    elif "start" in answer:
        start, end = answer["start"], answer["end"]
        marked = (second[:start], tag("mark", second[start:end]), second[end:])
        parts = [tag("h3", f"Answer: {answer['answer'] or 'none'}"), tag("p", *marked)]
        parts.append(note(f"Score {answer['score']:.2f}"))
    elif "embedding" in answer:
        parts = [tag("h3", f"An embedding with {len(answer['embedding']):,} components")]
        parts.append(note(" ".join(f"{value:.3f}" for value in answer["embedding"][:_COMPONENTS])))
    else:
        parts = [tag("h3", f"Answer: {answer['score']:.3f}")]
    return whole(*parts, _attribution(material, name, texts))


def _attribution(material: Material, name: str, texts: list[str]) -> Html:
    from beambert.explore import answers

    training = material.models[name].training
    if training["kind"] not in answers.EXPLAINED or training.get("freeze_encoder"):
        return join()
    found = material.explainer(name).attribute(texts)
    names = material.models[name].language.vocabulary.pieces
    largest = max(float(np.abs(found.scores).max()), 1e-12)
    boxes = []
    for index, score in zip(found.ids.tolist(), found.scores.tolist(), strict=True):
        share = score / largest
        kind = "same" if share > 0.15 else "unknown" if share < -0.15 else PLAIN
        boxes.append(Piece(names[index], kind, f"{share:+.2f}"))
    labels = training.get("labels") or []
    answer = f"“{labels[found.label]}”" if found.label < len(labels) else "the number"
    return join(
        tag("h3", f"Which tokens mattered for {answer}"),
        pieces(boxes),
        note(
            "Gradient times input, as a share of the largest: green tokens speak for the answer, "
            "red ones against it."
        ),
    )


def show_runs(material: Material, axis: str) -> Html:
    """Returns the curves of all models on one axis, and the settings and results that differ."""
    from beambert.explore.curves import curves_by, shared_metrics
    from beambert.trainer.comparison import comparing
    from beambert.trainer.comparison.page import thinned
    from beambert.trainer.comparison.runs import read_run

    runs = [read_run(model.path) for model in material.models.values()]
    names = list(material.models)
    drawn = [curves_by(run, axis) for run in runs]
    wanted = [
        one_metric
        for one_metric in shared_metrics(drawn)
        if one_metric[1] not in ("tokens_per_second",)
    ]
    # Curves say more than single points.
    lengths = {
        each: max(len(found[each][0]) for found in drawn if each in found) for each in wanted
    }
    wanted.sort(key=lambda metric: lengths[metric] < 3)
    plots = []
    for split, metric in wanted:
        if metric in _DRAWN or split == "eval":
            found = [each.get((split, metric)) for each in drawn]
            lines = [thinned(*curve) if curve else None for curve in found]
            title = f"{metric.replace('_', ' ')} ({_SPLITS[split]})"
            plots.append(curves(names, lines, title, axis))
    lacking = [name for name, each in zip(names, drawn, strict=True) if not each]
    parts: list[object] = [tag("div", *plots, kind="figures")] if plots else [said("No curves.")]
    if lacking:
        parts.append(said(f"Without curves by {axis}: {', '.join(lacking)}."))
    if len(runs) > 1:
        found = comparing.compare([model.path for model in material.models.values()])
        for title, rows in comparing.sections_of(found):
            kinds = ("name", *("short" for _ in names))
            lines = comparing.text_rows(rows)
            parts.append(tag("h3", title))
            parts.append(table(("", *names), lines, kinds) if lines else note("none"))
    else:
        rows = [(name.replace("_", " "), f"{value:.4g}") for name, value in runs[0].results.items()]
        parts += [tag("h3", "Results"), table(("", names[0]), rows, ("name", "short"))]
    return whole(*parts)
