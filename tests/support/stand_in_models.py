"""SavedModels with the signatures of fine-tuned models, whose answers follow from simple rules."""

import tensorflow as tf

LABELS = ("negative", "positive")
# A text with the keyword gets these probabilities; the first match wins.
RULES = (("good", (0.1, 0.9)), ("bad", (0.8, 0.2)), ("", (0.55, 0.45)))

_TEXT = tf.TensorSpec([None], tf.string, name="text")
_TEXT_B = tf.TensorSpec([None], tf.string, name="text_b")


class Classifier(tf.Module):
    """Looks for keywords."""

    @tf.function(autograph=False)
    def __call__(self, text, text_b=None):
        joined = text if text_b is None else text + text_b
        probabilities = tf.broadcast_to(tf.constant(RULES[-1][1]), [tf.size(text), 2])
        for keyword, values in reversed(RULES[:-1]):
            matches = tf.strings.regex_full_match(joined, f"(?s).*{keyword}.*")
            probabilities = tf.where(matches[:, None], tf.constant(values), probabilities)
        names = tf.gather(tf.constant(LABELS), tf.argmax(probabilities, axis=1))
        return {"label": names, "probabilities": probabilities}


class MultiLabeller(tf.Module):
    """Finds "good" and "bad" in texts, each a label, and never the third label."""

    @tf.function(autograph=False)
    def __call__(self, text):
        has = [tf.strings.regex_full_match(text, f"(?s).*{word}.*") for word in ("bad", "good")]
        flags = tf.stack([*has, tf.zeros_like(has[0])], axis=1)
        names = tf.broadcast_to(tf.constant(["negative", "positive", "z"]), tf.shape(flags))
        return {
            "labels": tf.ragged.boolean_mask(names, flags).to_tensor(""),
            "probabilities": tf.where(flags, 0.9, 0.2),
        }


class Regressor(tf.Module):
    """Answers a tenth of the text's length."""

    @tf.function(autograph=False)
    def __call__(self, text):
        return {"score": tf.cast(tf.strings.length(text), tf.float32) / 10}


class Chooser(tf.Module):
    """Prefers long endings."""

    @tf.function(autograph=False)
    def __call__(self, text, choices):
        probabilities = tf.nn.softmax(tf.cast(tf.strings.length(choices), tf.float32), axis=1)
        return {
            "label": tf.strings.as_string(tf.argmax(probabilities, axis=1)),
            "probabilities": probabilities,
        }


class Tagger(tf.Module):
    """Takes every word with a capital for a person of its own."""

    @tf.function(autograph=False)
    def __call__(self, text):
        words = tf.strings.split(text, " ")
        capital = tf.strings.regex_full_match(words.flat_values, "[A-Z].*")
        tags = tf.where(capital, "B-person", "O")
        return {"tags": words.with_flat_values(tags).to_tensor("")}


class Finder(tf.Module):
    """Answers with one piece, wherever it stands in the context; [CLS] where it does not."""

    def __init__(self, piece_id, length):
        super().__init__()
        self._piece_id = piece_id
        names = ("input_ids", "input_mask", "segment_ids")
        self.specs = {name: tf.TensorSpec([None, length], tf.int32, name=name) for name in names}

    @tf.function(autograph=False)
    def __call__(self, input_ids, input_mask, segment_ids):
        found = tf.cast((input_ids == self._piece_id) & (segment_ids == 1), tf.float32)
        is_first = tf.one_hot(tf.zeros_like(input_ids[:, 0]), tf.shape(input_ids)[1])
        # Padding has the greatest logits, and must not count.
        logits = 5 * found + 2 * is_first + 9 * (1 - tf.cast(input_mask, tf.float32))
        return {"start_logits": logits, "end_logits": logits}


def save(folder, labels=LABELS, pairs=False):
    """Exports the classifier."""
    specs = {"text": _TEXT, "text_b": _TEXT_B} if pairs else {"text": _TEXT}
    return save_model(Classifier(), folder, labels, **specs)


def save_model(model, folder, labels=(), **specs):
    """Exports a model and writes its labels; returns the folder."""
    specs = specs or {"text": _TEXT}
    if isinstance(model, Chooser):
        specs["choices"] = tf.TensorSpec([None, None], tf.string, name="choices")
    signature = model.__call__.get_concrete_function(**specs)
    signatures = {"serving_default": signature}
    tf.saved_model.save(model, str(folder / "saved_model"), signatures=signatures)
    if labels:
        (folder / "labels.txt").write_text("".join(label + "\n" for label in labels))
    return folder
