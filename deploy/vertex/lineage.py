"""Tells Vertex where the result of a pipeline's step lies, for the lineage that it draws of a run.

Vertex gives a component the description of its inputs and outputs, and reads a file in which the
component may describe its outputs itself:
https://github.com/kubeflow/pipelines/blob/master/api/v2alpha1/pipeline_spec.proto, ExecutorInput
and ExecutorOutput.
"""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

from beambert.deploy.retraining import workspace
from beambert.deploy.retraining.runs import BASELINE, EVALUATION, SERVING, Run
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.storage.claims import METRICS_FILE, REPORT_FILE

# The artifacts of an evaluation besides its metrics: its page, and its confusion matrix.
REPORT, CLASSES = "report", "classes"


def describe(step: str, run: Run) -> dict[str, tuple[str, dict[str, Any]]]:
    """Returns name of an artifact -> its path, and what is worth knowing of it.

    Raises:
      InputError: a file of the run cannot be read.
    """
    known: dict[str, Any] = {"run": run.number}
    if step == SERVING:
        result = workspace.read_json(f"{run.path}/{workspace.RESULT_FILE}")
        known |= {"outcome": result["outcome"], "version": str(result["version"])}
        if result["version"] is not None:
            serving = f"{run.path.rpartition('/runs/')[0]}/{SERVING}"
            return {"made": (f"{serving}/{result['version']}", known)}
        return {"made": (run.path, known)}
    folder = run.folder(step)
    if step not in (BASELINE, EVALUATION) or not workspace.is_done(step, run):
        return {"made": (folder, known)}
    metrics = workspace.read_json(f"{folder}/{METRICS_FILE}")
    scores = {k: value for k, value in metrics["overall"].items() if isinstance(value, float)}
    return {
        "made": (folder, known | scores),
        REPORT: (f"{folder}/{REPORT_FILE}", {}),
        CLASSES: (folder, _confusion(metrics)),
    }


def _confusion(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the metadata of a ClassificationMetrics; none for a task without classes."""
    matrix = metrics.get("details", {}).get("confusion_matrix")
    if matrix is None:
        return {}
    specs = [{"displayName": str(label)} for label in metrics["labels"]]
    rows = [{"row": row} for row in matrix]
    return {"confusionMatrix": {"annotationSpecs": specs, "rows": rows}}


def write(step: str, run: Run, executor_input: str) -> None:
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
