"""Checks that an evaluation blessed a model."""

from beambert import storage
from beambert.errors import InputError
from beambert.folders import BLESSED, METRICS_FILE, REPORT_FILE
from beambert.model_files import model_sha256
from beambert.storage import parse_object


def check_blessing(evaluation: str, model_dir: str) -> None:
    """Refuses a model that `beambert evaluate` did not bless.

    Raises:
      InputError: there is no evaluation, it is of other files, or it did not bless the model.
    """
    evaluation = evaluation.rstrip("/")
    metrics_file = f"{evaluation}/{METRICS_FILE}"
    if not storage.exists(metrics_file):
        raise InputError(f"--evaluation={evaluation}: holds no evaluation; run `beambert evaluate`")
    try:
        metrics = parse_object(storage.read_bytes(metrics_file))
        model, evaluated = metrics["model"], metrics["model_sha256"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"--evaluation={evaluation}: its {METRICS_FILE} cannot be read; "
            "evaluate the model again"
        ) from error
    if evaluated != model_sha256(model_dir):
        raise InputError(
            f"--evaluation={evaluation}: is of {model} and evaluated other files than those that "
            f"are in --model={model_dir} now; evaluate again"
        )
    if not storage.exists(f"{evaluation}/{BLESSED}"):
        raise InputError(
            f"--evaluation={evaluation}: did not bless {model_dir} (see its {REPORT_FILE}); "
            "leave --evaluation out to export it anyway"
        )
