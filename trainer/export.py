"""SavedModels that take raw text: tokenization, encoder and head in one graph."""

import json
from collections.abc import Sequence

import keras
import tensorflow as tf

from model.classifier import BertClassifier
from model.pretrainer import BertPretrainer
from pipelines.errors import InputError
from pipelines.weights import weights_sha256
from trainer import folders
from trainer.text_features import TextFeatures

_TEXT = tf.TensorSpec([None], tf.string, name="text")
_TEXT_B = tf.TensorSpec([None], tf.string, name="text_b")


class _Classifier(tf.Module):
    """Text -> label and probabilities."""

    def __init__(self, model: BertClassifier, text_features: TextFeatures, labels: Sequence[str]):
        super().__init__()
        self._model = model
        self._text_features = text_features
        self._labels = tf.constant(list(labels))

    def _answer(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        logits = self._model(self._text_features(*texts))
        return {
            "label": tf.gather(self._labels, tf.argmax(logits, axis=-1)),
            "probabilities": tf.nn.softmax(logits),
        }

    @tf.function(input_signature=[_TEXT])
    def classify(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        return self._answer(text)

    @tf.function(input_signature=[_TEXT, _TEXT_B])
    def classify_pair(self, text: tf.Tensor, text_b: tf.Tensor) -> dict[str, tf.Tensor]:
        return self._answer(text, text_b)


class _Encoder(tf.Module):
    """Text -> hidden states."""

    def __init__(self, model: keras.Model, text_features: TextFeatures):
        super().__init__()
        self._encoder = model
        self._text_features = text_features

    @tf.function(input_signature=[_TEXT])
    def encode(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        features = self._text_features(text)
        sequence_output, pooled_output = self._encoder(**features)
        return {
            "sequence_output": sequence_output,
            "pooled_output": pooled_output,
            "input_mask": features["input_mask"],
        }


def save_classifier(
    model: BertClassifier,
    text_features: TextFeatures,
    labels: Sequence[str],
    is_pair: bool,
    path: str,
) -> None:
    """Writes a classifier as a SavedModel.

    Its `serving_default` takes `text` (and `text_b` for pairs), string [n], and gives `label`,
    string [n], and `probabilities`, float32 [n, labels].
    """
    module = _Classifier(model, text_features, labels)
    signature = module.classify_pair if is_pair else module.classify
    _save(module, signature, path)


def save_encoder(model: keras.Model, text_features: TextFeatures, path: str) -> None:
    """Writes an encoder as a SavedModel.

    Its `serving_default` takes `text`, string [n], and gives `sequence_output` [n, L, H],
    `pooled_output` [n, H] and `input_mask` [n, L].
    """
    module = _Encoder(model, text_features)
    _save(module, module.encode, path)


def _save(module: tf.Module, signature: tf.types.experimental.GenericFunction, path: str) -> None:
    """Writes beside the path and renames, so that a half-written model is never loaded."""
    temporary = f"{path}.unfinished"
    try:
        if tf.io.gfile.exists(temporary):
            tf.io.gfile.rmtree(temporary)
        tf.io.gfile.makedirs(temporary)
        tf.saved_model.save(module, temporary, signatures={"serving_default": signature})
        if tf.io.gfile.exists(path):
            tf.io.gfile.rmtree(path)
        tf.io.gfile.rename(temporary, path)
    except tf.errors.OpError as error:
        raise InputError(f"{path}: cannot be written ({folders.reason(error)})") from error


def export(model_dir: str, output: str) -> str:
    """Writes a model folder as the next version in a serving folder.

    Args:
      model_dir: of a fine-tuned model or an encoder.
      output: folder that holds a folder for each version, as TensorFlow Serving reads it.

    Returns:
      the path of the new version.

    Raises:
      InputError: the model can't be used, or the output holds something else.
    """
    found = folders.open_model(model_dir, "--model")
    path = f"{output}/{_next_version(output)}"
    length = found.training["max_seq_length"]
    text_features = TextFeatures(found.vocabulary, found.do_lower_case, length)
    if found.training["kind"] == "pretraining":
        pretrained = BertPretrainer(found.config)
        folders.load_weights(pretrained, found.path)
        save_encoder(pretrained.encoder, text_features, path)
        return path
    labels = found.training["labels"]
    classifier = BertClassifier(found.config, len(labels))
    folders.load_weights(classifier, found.path)
    save_classifier(classifier, text_features, labels, found.training["is_pair"], path)
    return path


def _next_version(output: str) -> int:
    if tf.io.gfile.exists(output) and not tf.io.gfile.isdir(output):
        raise InputError(f"--output={output}: is a file; give a folder of versions")
    names = tf.io.gfile.listdir(output) if tf.io.gfile.isdir(output) else []
    names = [name.rstrip("/") for name in names if not name.endswith(".unfinished")]
    others = [name for name in names if not name.isdecimal()]
    if others:
        raise InputError(
            f"--output={output}: holds something else ({others[0]}); give a folder of versions"
        )
    return max((int(name) for name in names), default=0) + 1


def check_blessing(evaluation: str, model_dir: str) -> None:
    """Refuses a model that `beambert evaluate` did not bless.

    Raises:
      InputError: no evaluation there, one of other weights, or it refused.
    """
    evaluation = evaluation.rstrip("/")
    metrics_file = f"{evaluation}/metrics.json"
    if not tf.io.gfile.exists(metrics_file):
        raise InputError(f"--evaluation={evaluation}: no evaluation there; run `beambert evaluate`")
    try:
        with tf.io.gfile.GFile(metrics_file) as file:
            metrics = json.load(file)
        model, evaluated = metrics["model"], metrics["weights_sha256"]
    except (tf.errors.OpError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"--evaluation={evaluation}: its metrics.json can't be read; evaluate the model again"
        ) from error
    if evaluated != weights_sha256(model_dir):
        raise InputError(
            f"--evaluation={evaluation}: is of {model} and evaluated other weights than "
            f"--model={model_dir} has; evaluate again"
        )
    if not tf.io.gfile.exists(f"{evaluation}/BLESSED"):
        raise InputError(
            f"--evaluation={evaluation}: did not bless {model_dir} (see its report.html); "
            "leave --evaluation out to export it all the same"
        )


def labels_of(model_dir: str) -> list[str]:
    """Returns the labels that a fine-tuned model gives to a text.

    Raises:
      InputError: it is an encoder, or takes pairs of texts.
    """
    found = folders.open_model(model_dir, "--model")
    if found.training["kind"] != "classification":
        raise InputError(f"--text: {model_dir} is an encoder, it gives no labels")
    if found.training["is_pair"]:
        raise InputError(f"--text: {model_dir} takes pairs of texts; leave --text out")
    return found.training["labels"]


def describe_answer(path: str, text: str, labels: Sequence[str]) -> str:
    """Calls an exported classifier on a text and returns the labels by probability."""
    model = tf.saved_model.load(path)
    answer = model.signatures["serving_default"](text=tf.constant([text]))
    probabilities = answer["probabilities"].numpy()[0]
    ranked = sorted(zip(probabilities, labels, strict=True), reverse=True)
    lines = [f"  {probability:6.1%}  {label}" for probability, label in ranked]
    return "\n".join([f'"{text}"', *lines])
