"""The retraining as a pipeline of Vertex AI, which the schedule starts.

Its only component does a whole run, and waits for its jobs on Dataflow and on accelerators. It is
not retried: a step that fails would be paid for again, and the next start continues where it
stopped. The format is that of the Kubeflow Pipelines SDK's compiler, which is no dependency as it
pins other versions of what Google's clients need.
"""

from typing import Any

from beambert.deploy.settings import Deployment

NAME = "beambert-retraining"
# The component waits most of its time, and evaluates and exports models: e2-highmem-2.
CPUS, GIBIBYTES = 2, 16


def make_pipeline(deployment: Deployment) -> dict[str, Any]:
    """Returns the pipeline of a deployment, as Vertex AI takes it."""
    words = ["python", "-m", "beambert.deploy", "retrain", f"--deployment={deployment.file}"]
    container = {
        "image": deployment.image("component"),
        "command": words,
        # The numbers are of the deprecated fields, which the strings replace.
        "resources": {
            **{"cpuLimit": float(CPUS), "resourceCpuLimit": str(CPUS)},
            **{"memoryLimit": GIBIBYTES * 2**30 / 1e9, "resourceMemoryLimit": f"{GIBIBYTES}Gi"},
        },
    }
    task = {"cachingOptions": {}, "componentRef": {"name": "comp-retrain"}}
    return {
        "components": {"comp-retrain": {"executorLabel": "exec-retrain"}},
        "deploymentSpec": {"executors": {"exec-retrain": {"container": container}}},
        "pipelineInfo": {"name": NAME},
        "root": {"dag": {"tasks": {"retrain": {**task, "taskInfo": {"name": "retrain"}}}}},
        "schemaVersion": "2.1.0",
        "sdkVersion": "kfp-2.17.3",
    }
