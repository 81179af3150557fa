"""`beambert deliver`: fine-tunes a model on a task and serves it if it is good enough.

It fine-tunes (or sweeps), then evaluates the new model and the served one on the same examples. A
blessed model becomes the next version. Each step is a command that can also be run by hand.
"""

import argparse
import shlex
from collections.abc import Callable, Mapping, Sequence

from beambert.config import add_settings
from beambert.errors import InputError
from beambert.flags import FlagParser
from beambert.folders import BLESSED, NOT_BLESSED
from beambert.model_files import BEST_FOLDER, weights_sha256
from beambert.pipelines import evaluate
from beambert.pipelines.tasks.flags import TaskSettings, task_arguments
from beambert.process import loading
from beambert.trainer.commands import export, finetune

MODEL, BASELINE, EVALUATION = "model", "baseline", "evaluation"
# The flags that are passed to the evaluation. Unknown flags are passed to `finetune`.
_THRESHOLDS = ("metric", "threshold", "min_change")

EXAMPLES = """examples:
  # serve a model that beats the most common label and is no worse than the served model
  beambert deliver --task=sst-2 --data_dir=glue/SST-2 --init=encoder \\
      --output=runs/monday --serving=serving

  # with any flag of `finetune`, and the thresholds of `evaluate`
  beambert deliver --task=mrpc --data_dir=glue/MRPC --init=encoder --sweep=paper \\
      --output=runs/mrpc --serving=mrpc-serving --metric=f1 --threshold=0.8
"""


def build_parser() -> FlagParser:
    """Returns the parser of the command's own flags; all others belong to `finetune`."""
    parser = FlagParser(
        prog="beambert deliver",
        description="Fine-tunes and evaluates a model, and exports it if it is blessed. Takes "
        "these flags and all flags of `beambert finetune` but --model_dir.",
        examples=EXAMPLES,
    )
    add = parser.add_argument
    add_settings(parser, TaskSettings)
    add("--output", required=True, metavar="DIR", help="folder for model, evaluation and baseline")
    add("--serving", required=True, metavar="DIR", help="serving folder for the next version")
    add("--metric", action="append", help="metric to bound, see `beambert evaluate`")
    add("--threshold", action="append", help="least value, see `beambert evaluate`")
    add("--min_change", help="least gain over the served model, see `beambert evaluate`")
    return parser


def deliver(argv: Sequence[str]) -> bool:
    """Does the steps that are not done yet, and returns whether the model is served.

    Raises:
      InputError: a flag or a file cannot be used.
    """
    flags, others = build_parser().parse_known_args(list(argv))
    if any(each.partition("=")[0] == "--model_dir" for each in others):
        raise InputError(f"--model_dir: the model goes to --output, in {MODEL}/; leave it out")
    output, serving = flags.output.rstrip("/"), flags.serving.rstrip("/")
    model, of_task = f"{output}/{MODEL}", task_arguments(flags)
    bounds = [f"--{name}={value}" for name in _THRESHOLDS for value in _values(flags, name)]
    with loading():
        from beambert import storage
        from beambert.trainer.serving import versions
    # The flags are checked before anything is computed.
    served = versions.served_model(serving)
    compared = f"--baseline={output}/{BASELINE}"
    evaluate.parse([*of_task, f"--model={model}", f"--output={output}", *bounds, compared])
    if served:
        _check_source(*served)
    _run("finetune", finetune.main, [*of_task, *others, f"--model_dir={model}"])
    if storage.is_folder(f"{model}/{BEST_FOLDER}"):  # the model of a sweep
        model = f"{model}/{BEST_FOLDER}"
    if served and served[1]["weights_sha256"] == weights_sha256(model):
        print(f"{served[0]}: already serves {model}, nothing to do")
        return True
    if served:
        _evaluate(of_task, served[1]["model"], f"{output}/{BASELINE}", [])
        bounds.append(compared)
    else:  # no served model to compare with
        bounds = [bound for bound in bounds if not bound.startswith("--min_change=")]
    _evaluate(of_task, model, f"{output}/{EVALUATION}", bounds)
    if not storage.exists(f"{output}/{EVALUATION}/{BLESSED}"):
        reasons = storage.read_text(f"{output}/{EVALUATION}/{NOT_BLESSED}").splitlines()
        print(f"refused ({'; '.join(reasons)}); {serving} is unchanged")
        return False
    arguments = [f"--model={model}", f"--evaluation={output}/{EVALUATION}"]
    _run("export", export.main, [*arguments, f"--output={serving}"])
    return True


def _check_source(version: str, source: Mapping[str, str]) -> None:
    """Refuses a served version whose model cannot be evaluated any more.

    Raises:
      InputError: the model is gone, or has been trained again.
    """
    from beambert import storage

    model = source["model"]
    if not storage.is_folder(model) or weights_sha256(model) != source["weights_sha256"]:
        raise InputError(
            f"{version}: the model that it was made from, {model}, is gone or has other weights "
            "now, so no model can be compared with it; restore it, or serve from another folder"
        )


def _values(flags: argparse.Namespace, name: str) -> list[str]:
    value = getattr(flags, name)
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _evaluate(of_task: Sequence[str], model: str, output: str, given: Sequence[str]) -> None:
    _run("evaluate", evaluate.main, [*of_task, f"--model={model}", f"--output={output}", *given])


def _run(name: str, main_: Callable[[Sequence[str]], None], arguments: Sequence[str]) -> None:
    print(f"$ beambert {shlex.join([name, *arguments])}", flush=True)
    main_(arguments)


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: a flag or a file cannot be used.
    """
    deliver(argv)
