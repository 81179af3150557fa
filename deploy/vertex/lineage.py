"""Tells Vertex where the result of a pipeline's step lies, for the lineage that it draws of a run.

Vertex gives a component the description of its inputs and outputs, and reads a file in which the
component may describe its outputs itself:
https://github.com/kubeflow/pipelines/blob/master/api/v2alpha1/pipeline_spec.proto, ExecutorInput
and ExecutorOutput.
"""

import json
import pathlib
from typing import Any

from beambert.deploy.retraining import workspace
from beambert.deploy.retraining.runs import BASELINE, EVALUATION, SERVING, Run
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.storage.claims import METRICS_FILE


def describe(step: str, run: Run) -> tuple[str, dict[str, Any]]:
    """Returns the path of a step's result, and what is worth knowing of it.

    Raises:
      InputError: a file of the run cannot be read.
    """
    known: dict[str, Any] = {"run": run.number}
    if step == SERVING:
        result = workspace.read_json(f"{run.path}/{workspace.RESULT_FILE}")
        known |= {"outcome": result["outcome"], "version": str(result["version"])}
        if result["version"] is not None:
            return f"{run.path.rpartition('/runs/')[0]}/{SERVING}/{result['version']}", known
        return run.path, known
    if step in (BASELINE, EVALUATION) and workspace.is_done(step, run):
        overall = workspace.read_json(f"{run.folder(step)}/{METRICS_FILE}")["overall"]
        known |= {name: value for name, value in overall.items() if isinstance(value, float)}
    return run.folder(step), known


def write(step: str, run: Run, executor_input: str) -> None:
    """Writes the file that Vertex reads after a component.

    Raises:
      InputError: the description is none, or a file cannot be read or written.
    """
    uri, known = describe(step, run)
    try:
        outputs = json.loads(executor_input)["outputs"]
        path = pathlib.Path(outputs["outputFile"])
        (made,) = outputs["artifacts"]["made"]["artifacts"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"--executor_input: isn't what Vertex gives ({error})") from error
    found = {"artifacts": {"made": {"artifacts": [{**made, "uri": uri, "metadata": known}]}}}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found))
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error
