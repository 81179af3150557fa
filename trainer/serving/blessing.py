"""Whether an evaluation blessed a model."""

import json

import tensorflow as tf

from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.storage.weights import weights_sha256


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
