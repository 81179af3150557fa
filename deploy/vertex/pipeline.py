"""The retraining as a pipeline of Vertex AI: the order of its steps and the machine of each.

Each component runs one step of `beambert retrain`, which makes all decisions. No component is
retried: a step that fails would be paid for again, and the next start continues where it stopped.
"""

import pathlib
import tempfile
from typing import Any

from beambert.deploy.retraining.command import NEW, PLAN
from beambert.deploy.retraining.runs import BASELINE, EVALUATION, SERVING, STEPS
from beambert.deploy.settings import Deployment

NAME = "beambert-retraining"
# Number of CPUs and memory of a component. Steps that evaluate or export load a model. The others
# wait for a job on Dataflow or on accelerators.
SMALL, LARGE = ("2", "8G"), ("8", "32G")
ON_LARGE = (BASELINE, EVALUATION, SERVING)


def compile_pipeline(deployment: Deployment) -> dict[str, Any]:
    """Returns the pipeline of a deployment, as Vertex AI takes it."""
    import yaml
    from kfp import compiler, dsl

    image = deployment.image("beam")
    words = ["python", "-m", "beambert.deploy.vertex", f"--deployment={deployment.file}", "step"]

    @dsl.container_component
    def plan(holder: str, outcome: dsl.OutputPath(str)):
        args = [f"--step={PLAN}", f"--holder={holder}", "--outcome_file", outcome]
        return dsl.ContainerSpec(image=image, command=words, args=args)

    @dsl.container_component
    def step(name: str, holder: str):
        args = [f"--step={name}", f"--holder={holder}"]
        return dsl.ContainerSpec(image=image, command=words, args=args)

    def place(task: dsl.PipelineTask, name: str) -> dsl.PipelineTask:
        cpus, memory = LARGE if name in ON_LARGE else SMALL
        task.set_caching_options(False).set_cpu_limit(cpus).set_memory_limit(memory)
        return task.set_display_name(name)

    @dsl.pipeline(name=NAME, description="New files -> a new served version, if it is better.")
    def retraining():
        holder = dsl.PIPELINE_JOB_RESOURCE_NAME_PLACEHOLDER
        planned = place(plan(holder=holder), PLAN)
        with dsl.If(planned.outputs["outcome"] == NEW):
            before = None
            for name in STEPS:
                task = place(step(name=name, holder=holder), name)
                if before:
                    task.after(before)
                before = task

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "pipeline.yaml")
        compiler.Compiler().compile(retraining, str(path))
        return yaml.safe_load(path.read_text("utf-8"))
