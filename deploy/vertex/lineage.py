"""Tells Vertex where the result of a pipeline's step lies, for the lineage that it draws of a run.

Vertex gives a component the description of its inputs and outputs, and reads a file in which the
component may describe its outputs itself:
https://github.com/kubeflow/pipelines/blob/master/api/v2alpha1/pipeline_spec.proto, ExecutorInput
and ExecutorOutput.
"""

import hashlib
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from beambert.deploy.retraining import workspace
from beambert.deploy.retraining.runs import CLASSIFIER, ENCODER, RECORDS, SERVING, RetrainingRun
from beambert.errors import InputError
from beambert.pipelines.records.contract import INFO_FILE, RecordsInfo
from beambert.pipelines.storage import tensorflow_files
from beambert.pipelines.storage.claims import METRICS_FILE, REPORT_FILE
from beambert.pipelines.storage.model_files import weights_sha256

# The artifacts of an evaluation besides its metrics: its page, and its confusion matrix.
REPORT, CLASSES = "report", "classes"
# An evaluation's metrics.json names its model by these.
_JUDGED = ("model", "weights_sha256", "model_sha256")


def describe(step: str, run: RetrainingRun) -> dict[str, tuple[str, dict[str, Any]]]:
    """Returns name of an artifact -> its path, and what is worth knowing of it.

    Raises:
      InputError: a file of the run cannot be read.
    """
    known: dict[str, Any] = {"run": run.number}
    if step == SERVING:
        result = workspace.read_json(f"{run.path}/{workspace.RESULT_FILE}")
        known |= {"outcome": result["outcome"], "version": str(result["version"])}
        if result["version"] is not None:
            known["weights_sha256"] = weights_sha256(run.folder(CLASSIFIER))
            serving = f"{run.path.rpartition('/runs/')[0]}/{SERVING}"
            return {"made": (f"{serving}/{result['version']}", known)}
        return {"made": (run.path, known)}
    folder = run.folder(step)
    if not workspace.is_done(step, run):
        return {"made": (folder, known)}
    if step == RECORDS:
        return {"made": (folder, known | _text(run))}
    if step in (ENCODER, CLASSIFIER):
        return {"made": (folder, known | {"weights_sha256": weights_sha256(folder)})}
    metrics = workspace.read_json(f"{folder}/{METRICS_FILE}")
    scores = {k: value for k, value in metrics["overall"].items() if isinstance(value, float)}
    scores |= {name: metrics[name] for name in _JUDGED if name in metrics}
    return {
        "made": (folder, known | scores),
        REPORT: (f"{folder}/{REPORT_FILE}", {}),
        CLASSES: (folder, _confusion(metrics)),
    }


def _text(run: RetrainingRun) -> dict[str, Any]:
    """Returns where the list of a run's text is, and what tells it from others.

    The records of two lengths are of the same text.

    Raises:
      InputError: the list cannot be read.
    """
    path = f"{run.records[0]}/{INFO_FILE}"
    data = tensorflow_files.read_bytes(path)
    info = RecordsInfo.from_json(data.decode(), path)
    inputs = info.inputs  # of more than 1,000 files only their number is there
    return {
        "info": path,
        "info_sha256": hashlib.sha256(data).hexdigest(),
        "vocabulary_sha256": info.vocabulary["sha256"],
        "text_files": inputs["files"] if isinstance(inputs, Mapping) else len(inputs),
    }


def _confusion(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the metadata of a ClassificationMetrics; none for a task without classes."""
    matrix = metrics.get("details", {}).get("confusion_matrix")
    if matrix is None:
        return {}
    specs = [{"displayName": str(label)} for label in metrics["labels"]]
    rows = [{"row": row} for row in matrix]
    return {"confusionMatrix": {"annotationSpecs": specs, "rows": rows}}


def write(step: str, run: RetrainingRun, executor_input: str) -> None:
    """Writes the file that Vertex reads after a component.

    Raises:
      InputError: the description is none, or a file cannot be read or written.
    """
    described, found = describe(step, run), {}
    try:
        outputs = json.loads(executor_input)["outputs"]
        path = pathlib.Path(outputs["outputFile"])
        for name in {"made"} | outputs["artifacts"].keys():
            (made,) = outputs["artifacts"][name]["artifacts"]
            uri, known = described.get(name, (made.get("uri", ""), {}))
            found[name] = {"artifacts": [{**made, "uri": uri, "metadata": known}]}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"--executor_input: isn't what Vertex gives ({error})") from error
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"artifacts": found}))
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error
