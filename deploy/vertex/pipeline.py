"""The retraining as a pipeline of Vertex AI, which the schedule starts.

Its only component does a whole run, and waits for its jobs on Dataflow and on accelerators. It is
not retried: a step that fails would be paid for again, and the next start continues where it
stopped.
"""

import pathlib
import tempfile
from typing import Any

from beambert.deploy.settings import Deployment

NAME = "beambert-retraining"
# The component evaluates and exports models itself.
CPUS, MEMORY = "8", "32G"


def compile_pipeline(deployment: Deployment) -> dict[str, Any]:
    """Returns the pipeline of a deployment, as Vertex AI takes it."""
    import yaml
    from kfp import compiler, dsl

    words = ["python", "-m", "beambert.deploy.vertex", f"--deployment={deployment.file}", "retrain"]

    @dsl.container_component
    def retrain():
        return dsl.ContainerSpec(image=deployment.image("beam"), command=words)

    @dsl.pipeline(name=NAME, description="New files -> a new served version, if it is better.")
    def retraining():
        task = retrain().set_caching_options(False)
        task.set_cpu_limit(CPUS).set_memory_limit(MEMORY)

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "pipeline.yaml")
        compiler.Compiler().compile(retraining, str(path))
        return yaml.safe_load(path.read_text("utf-8"))
