"""Model folders as every room sees them: the names in one, and which weights it holds."""

import hashlib

CONFIG_FILE = "bert_config.json"
WEIGHTS_FILE = "model.weights.h5"
# What the model was made with, there from the start of its training.
TRAINING_FILE = "training.json"
# How well the model does.
RESULTS_FILE = "results.json"
# The curves of its training, a line for every logged step.
CURVES_FILE = "metrics.jsonl"
# The names of a classifier's outputs, a line each, in their order.
LABELS_FILE = "labels.txt"
SAVED_MODEL_FOLDER = "saved_model"
# The best run of a sweep, a model folder in that of the sweep.
BEST_FOLDER = "best"
CHECKPOINTS_FOLDER, TENSORBOARD_FOLDER = "checkpoints", "tensorboard"
# They are large, and who uses the model needs none of them.
NOT_TO_USE = (CHECKPOINTS_FOLDER, TENSORBOARD_FOLDER)

# Keras's weights, and those of the SavedModel.
_PATTERNS = (WEIGHTS_FILE, f"{SAVED_MODEL_FOLDER}/variables/*.data-*", "variables/*.data-*")


def weights_sha256(folder: str) -> str:
    """Returns the SHA-256 of a model folder's weights, on any file system TensorFlow knows.

    It tells an evaluated model from a later one.

    Raises:
      InputError: they can't be read.
    """
    from beambert.pipelines.storage import tensorflow_files  # commands import this for their --help

    digest = hashlib.sha256()
    for pattern in _PATTERNS:
        for path in tensorflow_files.match(f"{folder.rstrip('/')}/{pattern}"):
            for chunk in tensorflow_files.read_chunks(path):
                digest.update(chunk)
    return digest.hexdigest()
