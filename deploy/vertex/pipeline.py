"""The retraining as a pipeline for Vertex AI: the order of its steps and the machine of each.

    python -m beambert.deploy.vertex.pipeline       writes deploy/retraining_pipeline.yaml

Each component runs one step of `beambert retrain`, which makes all decisions. The pipeline is
compiled for the project in deploy/terraform/terraform.tfvars.
"""

import pathlib
import sys
from collections.abc import Callable, Sequence

from kfp import compiler, dsl

from beambert.deploy.retraining.command import NEW, PLAN, RELEASE
from beambert.deploy.retraining.runs import (
    BASELINE,
    CLASSIFIER,
    ENCODER,
    EVALUATION,
    RECORDS,
    SERVING,
)
from beambert.deploy.settings import Settings
from beambert.deploy.vertex.jobs import step_arguments
from beambert.pipelines.shared.console import run_main

FILE = pathlib.Path(__file__).parents[1] / "retraining_pipeline.yaml"
NAME = "beambert-retraining"
# These steps wait for a job on accelerators. The others run in the component or wait for Dataflow.
ON_ACCELERATORS = (ENCODER, CLASSIFIER)
# Number of CPUs and memory of a component. Steps that evaluate or export load a model.
SMALL, LARGE = ("2", "8G"), ("8", "32G")
RESOURCES = {BASELINE: LARGE, EVALUATION: LARGE, SERVING: LARGE}
# The number of retries after the loss of a machine. A step continues where it was interrupted.
RETRIES = 2


def command(settings: Settings, step: str) -> list[str]:
    """Returns the command line of a step's component."""
    if step in ON_ACCELERATORS:
        return ["python", "-m", "beambert.deploy.vertex", "train", f"--step={step}"]
    return ["beambert", *step_arguments(settings, step)]


def build(settings: Settings) -> Callable[[], None]:
    """Returns the pipeline as a function for the compiler of kfp."""
    image = settings.image("beam")

    def component(step: str) -> Callable[..., dsl.PipelineTask]:
        words = command(settings, step)

        def wait() -> dsl.ContainerSpec:
            return dsl.ContainerSpec(image=image, command=words[:1], args=words[1:])

        def run(holder: str) -> dsl.ContainerSpec:
            args = [*words[1:], f"--holder={holder}"]
            return dsl.ContainerSpec(image=image, command=words[:1], args=args)

        body = wait if step in ON_ACCELERATORS else run
        body.__name__ = step
        return dsl.container_component(body)

    @dsl.container_component
    def plan(holder: str, outcome: dsl.OutputPath(str)):
        words = command(settings, PLAN)
        args = [*words[1:], f"--holder={holder}", "--outcome_file", outcome]
        return dsl.ContainerSpec(image=image, command=words[:1], args=args)

    def place(task: dsl.PipelineTask, step: str) -> dsl.PipelineTask:
        cpus, memory = RESOURCES.get(step, SMALL)
        task.set_caching_options(False).set_cpu_limit(cpus).set_memory_limit(memory)
        return task

    @dsl.pipeline(name=NAME, description="New files -> a new served version, if it is better.")
    def retraining() -> None:
        holder = dsl.PIPELINE_JOB_RESOURCE_NAME_PLACEHOLDER
        with dsl.ExitHandler(place(component(RELEASE)(holder=holder), RELEASE)):
            planned = place(plan(holder=holder), PLAN)
            with dsl.If(planned.outputs["outcome"] == NEW):
                before = None
                for step in (RECORDS, ENCODER, CLASSIFIER, BASELINE, EVALUATION, SERVING):
                    inputs = {} if step in ON_ACCELERATORS else {"holder": holder}
                    task = place(component(step)(**inputs), step).set_retry(RETRIES)
                    if before is not None:
                        task.after(before)
                    before = task

    return retraining


def compile_to(path: pathlib.Path, settings: Settings) -> None:
    """Writes the pipeline as YAML."""
    compiler.Compiler().compile(build(settings), str(path))


def main(_: Sequence[str]) -> None:
    """Compiles the pipeline."""
    compile_to(FILE, Settings.read())
    print(FILE)


if __name__ == "__main__":
    sys.exit(run_main("pipeline", main, sys.argv[1:]))
