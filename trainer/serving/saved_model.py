"""SavedModels on raw text.

As a program it writes that of a folder whose model was fine-tuned by JAX, since Keras has one
engine in a process: `python -m beambert.trainer.serving.saved_model MODEL_DIR`.
"""

import sys
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from beambert import io
from beambert.model_files import SAVED_MODEL_FOLDER
from beambert.pipelines.tasks.task import LATE_INTERACTION
from beambert.pipelines.tasks.texts import InteractionFeatures, TextFeatures
from beambert.trainer.model_folders import ModelFolder, read_description
from beambert.trainer.models import task_model
from beambert.trainer.tasks.base import TaskObjective, objective_of_kind
from beambert.trainer.tasks.graph import TaskGraph


class _HiddenStates(TaskObjective):
    """The answers of an encoder, which has no task."""

    @classmethod
    def answer(cls, graph: TaskGraph, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        features = graph.text_features(*texts)
        sequence_output, pooled_output = graph.model(**features)
        pooled = {} if pooled_output is None else {"pooled_output": pooled_output}
        return {
            "sequence_output": sequence_output,
            **pooled,
            "input_mask": features["input_mask"],
        }


def encoder_graph(encoder: keras.Model, text_features: TextFeatures) -> TaskGraph:
    """Returns a graph that takes raw text and returns the hidden states of an encoder.

    Its `serving_default` takes `text`, string [n], or ids (see `IdFeatures`). It returns
    `sequence_output`, float32 [n, L, H], `pooled_output`, float32 [n, H], if the encoder has a
    pooler, and `input_mask`, int32 [n, L].
    """
    return TaskGraph(_HiddenStates, encoder, text_features, {"labels": [], "is_pair": False})


def save_task_model(
    model: keras.Model, text_features: TextFeatures, training: Mapping[str, Any], path: str
) -> None:
    """Writes a fine-tuned model as a SavedModel, replacing one at the same path.

    The inputs and outputs of its signature `serving_default` depend on the kind of the task. All
    kinds but span take `text`, string [n], and for pairs `text_b`, string [n].

    * Classification returns `label`, string [n], and `probabilities`, float32 [n, labels].
    * Multi-label classification returns `labels`, string [n, most labels of a text], with empty
      labels behind the last one, and `probabilities`, float32 [n, labels].
    * Regression and reranking return `score`, float32 [n]; a reranking's is from 0 to 1.
    * Embedding and similarity take `text` alone. They return `embedding`, float32 [n, H].
    * Late interaction returns `score`, float32 [n]. Its signatures `queries` and `documents` take
      `text` and return `embeddings`, float32 [n, L, D], one for each token; the second one also
      returns `counts`, int32 [n, L], 1 for the tokens that count in the score.
    * Choice also takes `choices`, string [n, N]. It returns `label`, string [n], and
      `probabilities`, float32 [n, N].
    * Tagging takes words separated by single spaces. It returns `tags`, string [n, most words],
      with empty tags behind the last word of a text.
    * Span takes `input_ids`, `input_mask` and `segment_ids` of windows, int32 [n, L], and returns
      `start_logits` and `end_logits`, float32 [n, L]. `text_models.TextModel` makes answers of
      them.

    With the tokenizer of a tokenizer.json, a model takes `input_ids`, `input_mask` and
    `segment_ids` in the place of texts, int32 [n, L], and for a choice [n, N, L]. Tagging also
    takes `first_pieces`, int32 [n, most words], as `TextFeatures.of_words` returns them.

    Args:
      model: fine-tuned model.
      text_features: makes the model's inputs, with the settings of its fine-tuning.
      training: content of the training.json in the model folder.
      path: path of the folder to write.

    Raises:
      InputError: the folder cannot be written.
    """
    _save(TaskGraph(objective_of_kind(training["kind"]), model, text_features, training), path)


def _save(module: TaskGraph, path: str) -> None:
    with io.temporary_path(path) as temporary:
        tf.saved_model.save(module, temporary, signatures=dict(module.functions))
        io.move(temporary, path)


def module_of(found: ModelFolder) -> TaskGraph:
    """Returns the module of a fine-tuned model that is saved, from the files of its folder.

    Raises:
      InputError: the weights cannot be read.
    """
    training = found.training
    given = found.vocabulary, found.do_lower_case, training["max_seq_length"]
    if training["kind"] == LATE_INTERACTION:
        features: TextFeatures = InteractionFeatures(*given, training["query_length"])
    else:
        features = TextFeatures(*given, training.get("windows", 1))
    return TaskGraph(objective_of_kind(training["kind"]), task_model(found), features, training)


if __name__ == "__main__":
    _folder = sys.argv[1]
    _save(module_of(read_description(_folder, "--model_dir")), f"{_folder}/{SAVED_MODEL_FOLDER}")
