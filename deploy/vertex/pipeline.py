"""The retraining as a pipeline for Vertex AI: the order of its steps and the machine of each.

    python -m beambert.deploy.vertex.pipeline       writes deploy/retraining_pipeline.yaml

Each component runs one step of `beambert retrain`, which makes all decisions. The pipeline has
placeholders for the names of a project; `python -m beambert.deploy.vertex deploy` fills them in.
"""

import pathlib
import sys
from collections.abc import Callable, Sequence

from kfp import compiler, dsl

from beambert.console import run_main
from beambert.deploy.retraining.command import NEW, PLAN, RELEASE
from beambert.deploy.retraining.runs import (
    BASELINE,
    CLASSIFIER,
    ENCODER,
    EVALUATION,
    RECORDS,
    SERVING,
    STEPS,
)
from beambert.deploy.vertex.lineage import CLASSES, REPORT
from beambert.deploy.vertex.registry import REGISTER

FILE = pathlib.Path(__file__).parents[1] / "retraining_pipeline.yaml"
NAME = "beambert-retraining"
# The placeholders, see `Deployment.fill_in`.
IMAGE, DEPLOYMENT = "BEAM_IMAGE", "DEPLOYMENT_FILE"
# Number of CPUs and memory of a component. Steps that evaluate or export load a model. The others
# wait for a job on Dataflow or on accelerators.
SMALL, LARGE = ("2", "8G"), ("8", "32G")
RESOURCES = {BASELINE: LARGE, EVALUATION: LARGE, SERVING: LARGE}
# The number of retries after the loss of a machine. A step continues where it was interrupted.
RETRIES = 2
# A step makes an artifact of this type, for the lineage that Vertex draws of a run.
MADE = {
    **{RECORDS: dsl.Dataset, ENCODER: dsl.Model, CLASSIFIER: dsl.Model},
    **{BASELINE: dsl.Metrics, EVALUATION: dsl.Metrics, SERVING: dsl.Model},
}
# A step makes these artifacts, too, for a person to look at. `lineage` has their names.
SHOWN = {EVALUATION: {REPORT: dsl.HTML, CLASSES: dsl.ClassificationMetrics}}
# The earlier steps whose results a step uses.
USES = {
    ENCODER: (RECORDS,),
    CLASSIFIER: (ENCODER,),
    BASELINE: (),
    EVALUATION: (CLASSIFIER, BASELINE),
    SERVING: (CLASSIFIER, EVALUATION),
}


def command(step: str) -> list[str]:
    """Returns the command line of a step's component."""
    words = ["python", "-m", "beambert.deploy.vertex", f"--deployment={DEPLOYMENT}"]
    return [*words, "step", f"--step={step}"]


def _component(step: str) -> Callable[..., dsl.PipelineTask]:
    """Returns the component of a step; its inputs and its output are those of `USES` and `MADE`."""
    words = command(step)
    uses, makes = USES.get(step, ()), step in MADE

    def body(holder, **artifacts):
        args = [*words[1:], f"--holder={holder}"]
        if makes:
            args += ["--executor_input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER]
        if step == PLAN:
            args += ["--outcome_file", artifacts["outcome"]]
        return dsl.ContainerSpec(image=IMAGE, command=words[:1], args=args)

    types = {"holder": str} | {name: dsl.Input[MADE[name]] for name in uses}
    if makes:
        types["made"] = dsl.Output[MADE[step]]
    types |= {name: dsl.Output[kind] for name, kind in SHOWN.get(step, {}).items()}
    if step == PLAN:
        types["outcome"] = dsl.OutputPath(str)
    return dsl.container_component(_with_parameters(body, step, types))


def _with_parameters(body: Callable, name: str, types: dict) -> Callable:
    """Returns a function of a name and parameters, as kfp reads them from its signature."""
    import inspect

    def function(*values, **named):
        return body(**inspect.Signature(parameters).bind(*values, **named).arguments)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(p, kind, annotation=t) for p, t in types.items()]
    function.__name__ = name
    function.__signature__ = inspect.Signature(parameters, return_annotation=dsl.ContainerSpec)
    function.__annotations__ = dict(types)
    return function


def _place(task: dsl.PipelineTask, step: str) -> dsl.PipelineTask:
    cpus, memory = RESOURCES.get(step, SMALL)
    return task.set_caching_options(False).set_cpu_limit(cpus).set_memory_limit(memory)


def retraining() -> None:
    """The steps, one after the other, if the plan finds anything to do."""
    holder = dsl.PIPELINE_JOB_RESOURCE_NAME_PLACEHOLDER
    with dsl.ExitHandler(_place(_component(RELEASE)(holder=holder), RELEASE)):
        planned = _place(_component(PLAN)(holder=holder), PLAN)
        with dsl.If(planned.outputs["outcome"] == NEW):
            done: dict[str, dsl.PipelineTask] = {}
            for step in (*STEPS, REGISTER):
                inputs = {name: done[name].outputs["made"] for name in USES.get(step, ())}
                task = _component(step)(holder=holder, **inputs)
                if done:
                    task.after(*list(done.values())[-1:])
                done[step] = _place(task, step).set_retry(RETRIES)


def compile_to(path: pathlib.Path) -> None:
    """Writes the pipeline as YAML."""
    # Here, as kfp calls the function at once, and takes seconds in a process of many modules.
    described = dsl.pipeline(
        name=NAME, description="New files -> a new served version, if it is better."
    )(retraining)
    compiler.Compiler().compile(described, str(path))


def main(_: Sequence[str]) -> None:
    """Compiles the pipeline."""
    compile_to(FILE)
    print(FILE)


if __name__ == "__main__":
    sys.exit(run_main("pipeline", main, sys.argv[1:]))
