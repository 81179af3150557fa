"""Names of the files in a model folder, and the checksum of its weights."""

import hashlib

CONFIG_FILE = "bert_config.json"
WEIGHTS_FILE = "model.weights.h5"
# The parameters and inputs of the training; it is written when the training starts.
TRAINING_FILE = "training.json"
# The metrics of the trained model.
RESULTS_FILE = "results.json"
# The learning curves: one line for each logged step.
CURVES_FILE = "metrics.jsonl"
# The labels of a classifier, one a line, in the order of its logits.
LABELS_FILE = "labels.txt"
SAVED_MODEL_FOLDER = "saved_model"
# The best run of a sweep: a model folder inside the folder of the sweep.
BEST_FOLDER = "best"
CHECKPOINTS_FOLDER, TENSORBOARD_FOLDER = "checkpoints", "tensorboard"
# These folders are large, and nobody needs them to use the model.
NOT_TO_USE = (CHECKPOINTS_FOLDER, TENSORBOARD_FOLDER)

# The weights of Keras and those of the SavedModel.
_PATTERNS = (WEIGHTS_FILE, f"{SAVED_MODEL_FOLDER}/variables/*.data-*", "variables/*.data-*")


def weights_sha256(folder: str) -> str:
    """Returns the SHA-256 of the weights in a model folder, on any file system of TensorFlow.

    It distinguishes the model that was evaluated from a later one in the same folder.

    Raises:
      InputError: the weights cannot be read.
    """
    # Commands import this module for their --help, which must not load TensorFlow.
    from beambert.pipelines.storage import tensorflow_files

    digest = hashlib.sha256()
    for pattern in _PATTERNS:
        for path in tensorflow_files.match(f"{folder.rstrip('/')}/{pattern}"):
            for chunk in tensorflow_files.read_chunks(path):
                digest.update(chunk)
    return digest.hexdigest()
