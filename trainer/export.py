"""SavedModels that take raw text: tokenization, encoder and head in one graph."""

import contextlib
import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from model.pretrainer import BertPretrainer
from pipelines.errors import InputError
from pipelines.folders import UNFINISHED_ENDING
from pipelines.tasks import CHOICE, CLASSIFICATION, REGRESSION, SPAN, TAGGING, find_task
from pipelines.text_features import TextFeatures
from pipelines.weights import weights_sha256
from trainer import folders
from trainer.question_answering import AnswerModule
from trainer.task_models import build_model, outside_index

# SavedModel's place for files that are no part of the graph.
EXTRA_ASSETS, SOURCE_FILE = "assets.extra", "model.json"

_TEXT = tf.TensorSpec([None], tf.string, name="text")
_TEXT_B = tf.TensorSpec([None], tf.string, name="text_b")
_CHOICES = tf.TensorSpec([None, None], tf.string, name="choices")


def _traced(function: Callable[..., dict[str, tf.Tensor]], *texts: Any, **choices: Any) -> Any:
    # Nothing in it asks Python about a tensor's value, see `Trainer`.
    return tf.function(function, autograph=False).get_concrete_function(*texts, **choices)


class _TaskModule(tf.Module):
    """Raw text -> answers."""

    def __init__(
        self, model: keras.Model, text_features: TextFeatures, training: Mapping[str, Any]
    ):
        super().__init__()
        self._model = model
        self._text_features = text_features
        labels = training["labels"]
        self._labels = tf.constant(labels, tf.string)
        self._outside = outside_index(labels)
        answer = {
            CLASSIFICATION: self._classify,
            REGRESSION: self._score,
            CHOICE: self._choose,
            TAGGING: self._tag,
        }[training["kind"]]
        texts = [_TEXT, _TEXT_B] if training["is_pair"] else [_TEXT]
        choices = {"choices": _CHOICES} if training["kind"] == CHOICE else {}
        self.functions = {"serving_default": _traced(answer, *texts, **choices)}

    def _classify(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        return self._likeliest(self._model(self._text_features(*texts)))

    def _likeliest(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        return {
            "label": tf.gather(self._labels, tf.argmax(logits, axis=-1)),
            "probabilities": tf.nn.softmax(logits),
        }

    def _score(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"score": self._model(self._text_features(*texts))[:, 0]}

    def _choose(self, *texts: tf.Tensor, choices: tf.Tensor) -> dict[str, tf.Tensor]:
        if len(texts) > 1:  # what every ending begins with, as `ChoiceExample.endings`
            choices = texts[1][:, None] + " " + choices
        count = tf.shape(choices)[1]
        first = tf.repeat(texts[0], count)
        logits = self._model(self._text_features(first, tf.reshape(choices, [-1])))
        return self._likeliest(tf.reshape(logits, [-1, count]))

    def _tag(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        features, pieces = self._text_features.of_words(text)
        of_pieces = tf.argmax(self._model(features), axis=-1, output_type=tf.int32)
        of_words = tf.gather(of_pieces, tf.maximum(pieces, 0), batch_dims=1)
        of_words = tf.where(pieces == 0, self._outside, of_words)
        return {"tags": tf.where(pieces < 0, "", tf.gather(self._labels, of_words))}


class _Encoder(tf.Module):
    """Text -> hidden states.

    Its `serving_default` takes `text`, string [n], and gives `sequence_output` [n, L, H],
    `pooled_output` [n, H] and `input_mask` [n, L].
    """

    def __init__(self, model: keras.Model, text_features: TextFeatures):
        super().__init__()
        self._encoder = model
        self._text_features = text_features
        self.functions = {"serving_default": _traced(self._encode, _TEXT)}

    def _encode(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        features = self._text_features(text)
        sequence_output, pooled_output = self._encoder(**features)
        return {
            "sequence_output": sequence_output,
            "pooled_output": pooled_output,
            "input_mask": features["input_mask"],
        }


def save_task_model(
    model: keras.Model, text_features: TextFeatures, training: Mapping[str, Any], path: str
) -> None:
    """Writes a fine-tuned model as a SavedModel; one that is there is replaced.

    Its `serving_default` takes `text`, string [n], and for pairs `text_b`, and gives, by kind:
    classification `label`, string [n], and `probabilities`, float32 [n, labels]; regression
    `score`, float32 [n]; choice, which takes `choices`, string [n, N], too, `label` and
    `probabilities` [n, N]; tagging, whose text is words with single spaces between them, `tags`,
    string [n, most words], empty behind a text's last.

    That of a span takes `question` and `context`, string [n], of any length, and gives `answer`,
    string [n], the characters `start` and `end` that it is in its context, int32 [n], its `score`,
    float32 [n], and where "" is an answer `null_odds`, float32 [n]: how much more no answer scores.
    Its other signature, `windows`, takes `input_ids`, `input_mask` and `segment_ids`, int32 [n, L],
    and gives `start_logits` and `end_logits`, float32 [n, L].

    Args:
      model: its weights.
      text_features: as it was fine-tuned with.
      training: the training.json of its folder.
      path: of the folder to write.

    Raises:
      InputError: it can't be written.
    """
    module = _task_module(model, text_features, training)
    with _beside(path, f"{path}{UNFINISHED_ENDING}") as temporary:
        _save(module, module.functions, temporary)
        if tf.io.gfile.exists(path):
            tf.io.gfile.rmtree(path)
        tf.io.gfile.rename(temporary, path)


def _task_module(
    model: keras.Model, text_features: TextFeatures, training: Mapping[str, Any]
) -> _TaskModule | AnswerModule:
    if training["kind"] == SPAN:
        task = find_task(training["task"])
        return AnswerModule(model, text_features, task.allows_no_answer)
    return _TaskModule(model, text_features, training)


def _save(module: tf.Module, signatures: Mapping[str, Any], path: str) -> None:
    tf.saved_model.save(module, path, signatures=dict(signatures))


@contextlib.contextmanager
def _beside(path: str, temporary: str) -> Iterator[str]:
    """Makes a folder to write and then to rename, so that a half-written model is never loaded.

    What could not be written whole is deleted.

    Raises:
      InputError: it can't be written.
    """
    try:
        if tf.io.gfile.exists(temporary):
            tf.io.gfile.rmtree(temporary)
        tf.io.gfile.makedirs(temporary)
        yield temporary
    except BaseException as error:  # also an interrupt
        with contextlib.suppress(tf.errors.OpError):
            tf.io.gfile.rmtree(temporary)
        if not isinstance(error, (tf.errors.OpError, OSError)):
            raise
        raise InputError(f"{path}: cannot be written ({folders.reason(error)})") from error


def export(model_dir: str, output: str) -> str:
    """Writes a model folder as the next version in a serving folder.

    Two exports at once make two versions. A version that is there is never touched, and one
    appears under its number when it is whole. In its `assets.extra`, which servers leave alone,
    `SOURCE_FILE` says which model it is.

    Args:
      model_dir: of a fine-tuned model or an encoder.
      output: folder that holds a folder for each version, as TensorFlow Serving reads it.

    Returns:
      the path of the new version.

    Raises:
      InputError: the model can't be used, or the output holds something else.
    """
    found = folders.open_model(model_dir, "--model")
    version = next_version(output)
    length = found.training["max_seq_length"]
    text_features = TextFeatures(found.vocabulary, found.do_lower_case, length)
    if found.training["kind"] == folders.PRETRAINING:
        pretrained = BertPretrainer(found.config)
        folders.load_weights(pretrained, found.path)
        module = _Encoder(pretrained.encoder, text_features)
    else:
        module = _task_module(task_model(found), text_features, found.training)
    unfinished = f"{output}/{version}.{uuid.uuid4().hex}{UNFINISHED_ENDING}"
    with _beside(output, unfinished) as temporary:
        _save(module, module.functions, temporary)
        _write_source(model_dir, temporary)
    return _publish(temporary, output)


def _publish(temporary: str, output: str) -> str:
    """Renames a folder to the next version, and returns its path.

    Raises:
      InputError: it can't be renamed.
    """
    while True:
        path = f"{output}/{next_version(output)}"
        try:
            tf.io.gfile.rename(temporary, path)
            return path
        except tf.errors.OpError as error:
            # Another export may have taken the number since it was found to be free.
            if not tf.io.gfile.exists(path):
                reason = folders.reason(error)
                raise InputError(f"{path}: cannot be made of {temporary} ({reason})") from error


def leftovers(output: str) -> list[str]:
    """Returns what exports that were killed have left in a serving folder, or others make now."""
    names = (name.rstrip("/") for name in tf.io.gfile.listdir(output))
    return [f"{output}/{name}" for name in names if name.endswith(UNFINISHED_ENDING)]


def _write_source(model_dir: str, path: str) -> None:
    source = {"model": folders.absolute(model_dir), "weights_sha256": weights_sha256(model_dir)}
    tf.io.gfile.makedirs(f"{path}/{EXTRA_ASSETS}")
    folders.write(f"{path}/{EXTRA_ASSETS}/{SOURCE_FILE}", json.dumps(source, indent=1).encode())


def served_model(output: str) -> tuple[str, dict[str, str]] | None:
    """Returns the newest version's path and what it says of its model; None if there is none.

    Raises:
      InputError: the folder holds something else, or the version doesn't say it.
    """
    version = next_version(output) - 1
    if not version:
        return None
    path = f"{output}/{version}"
    try:
        source = json.loads(folders.read(f"{path}/{EXTRA_ASSETS}/{SOURCE_FILE}"))
        return path, {name: source[name] for name in ("model", "weights_sha256")}
    except (InputError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path}: doesn't say which model it is of (no {EXTRA_ASSETS}/{SOURCE_FILE}, which "
            "`beambert export` writes), so that nothing can be compared with it; serve from "
            "another folder"
        ) from error


def task_model(found: folders.ModelFolder) -> keras.Model:
    """Returns the fine-tuned model of a folder.

    Raises:
      InputError: its weights can't be read.
    """
    training = found.training
    freeze_encoder = training.get("freeze_encoder", False)
    model = build_model(training["kind"], found.config, len(training["labels"]), 0, freeze_encoder)
    folders.load_weights(model, found.path)
    return model


def next_version(output: str) -> int:
    """Returns the number after the greatest of a serving folder's versions.

    Raises:
      InputError: it holds something else.
    """
    if tf.io.gfile.exists(output) and not tf.io.gfile.isdir(output):
        raise InputError(f"--output={output}: is a file; give a folder of versions")
    names = tf.io.gfile.listdir(output) if tf.io.gfile.exists(output) else []
    names = [name.rstrip("/") for name in names]
    names = [name for name in names if not name.endswith(UNFINISHED_ENDING)]
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
      InputError: it is no classifier, or takes pairs of texts.
    """
    found = folders.open_model(model_dir, "--model")
    if found.training["kind"] != CLASSIFICATION:
        raise InputError(f"--text: {model_dir} gives a text no label; leave --text out")
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
