"""`beambert deliver`: a task from its files to a served model, if it is good enough.

Fine-tunes (or sweeps), evaluates the result, and beside it the model that is served now, on the
same examples; what is blessed becomes the next version. The commands are those that one would give
by hand.
"""

import argparse
import json
import pathlib
import shlex
import sys
from collections.abc import Callable, Sequence

from pipelines import evaluate
from pipelines.console import FlagParser, run_main
from pipelines.errors import InputError
from pipelines.evaluate import BLESSED, NOT_BLESSED
from pipelines.task_flags import add_task_flags
from trainer import finetune_command, task

MODEL, BASELINE, EVALUATION = "model", "baseline", "evaluation"
# Of the evaluation; all flags that aren't the command's own are `finetune`'s.
_THRESHOLDS = ("metric", "threshold", "min_change")

EPILOG = """examples:
  # served if it is better than always the commonest label, and no worse than what is served
  beambert deliver --task=sst-2 --data_dir=glue/SST-2 --init=encoder \\
      --output=runs/monday --serving=serving

  # any flag of `finetune`, and the thresholds of `evaluate`
  beambert deliver --task=mrpc --data_dir=glue/MRPC --init=encoder --sweep=paper \\
      --output=runs/mrpc --serving=mrpc-serving --metric=f1 --threshold=0.8
"""


def build_parser() -> FlagParser:
    """Returns the command's own flags; all others are those of `finetune`."""
    parser = FlagParser(
        prog="beambert deliver",
        description="Fine-tunes, evaluates and, if blessed, exports a model: all flags of "
        "`beambert finetune` but --model_dir, and these.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add_task_flags(parser)
    add("--output", required=True, metavar="DIR", help="gets model, evaluation and baseline")
    add("--serving", required=True, metavar="DIR", help="gets the next version, if blessed")
    add("--metric", action="append", help="see `beambert evaluate`")
    add("--threshold", action="append", help="see `beambert evaluate`")
    add("--min_change", help="see `beambert evaluate`")
    return parser


def deliver(argv: Sequence[str]) -> bool:
    """Runs what isn't done yet; returns whether the model is served.

    Raises:
      InputError: something given can't be used.
    """
    flags, others = build_parser().parse_known_args(list(argv))
    output = flags.output.rstrip("/")
    of_task = _of_task(argv)
    served = _served(flags.serving)  # told before anything is spent
    _run(
        "finetune",
        finetune_command.finetune_main,
        [*of_task, *others, f"--model_dir={output}/{MODEL}"],
    )
    model = f"{output}/{MODEL}"
    if pathlib.Path(model, "best").is_dir():  # of a sweep
        model = f"{model}/best"
    if served and pathlib.Path(served).resolve() == pathlib.Path(model).resolve():
        print(f"{flags.serving}: serves {model} already, nothing to do")
        return True
    given = [f"--{name}={value}" for name in _THRESHOLDS for value in _values(flags, name)]
    if served:
        _evaluate(of_task, served, f"{output}/{BASELINE}", [])
        given.append(f"--baseline={output}/{BASELINE}")
    _evaluate(of_task, model, f"{output}/{EVALUATION}", given)
    if not pathlib.Path(output, EVALUATION, BLESSED).exists():
        reasons = pathlib.Path(output, EVALUATION, NOT_BLESSED).read_text("utf-8").strip()
        print(f"refused ({reasons}); {flags.serving} stays as it is")
        return False
    arguments = [f"--model={model}", f"--evaluation={output}/{EVALUATION}"]
    _run("export", task.export_main, [*arguments, f"--output={flags.serving}"])
    _served_file(flags.serving).write_text(
        json.dumps({"model": str(pathlib.Path(model).resolve())})
    )
    return True


def _of_task(argv: Sequence[str]) -> list[str]:
    """Returns the flags of the task as they were given."""
    parser = FlagParser(add_help=False, allow_abbrev=False)
    add_task_flags(parser)
    _, others = parser.parse_known_args(list(argv))
    rest = list(others)
    kept = []
    for argument in argv:
        if argument in rest:
            rest.remove(argument)
        else:
            kept.append(argument)
    return kept


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


def _served_file(serving: str) -> pathlib.Path:
    # Beside the folder, in which there are versions alone.
    return pathlib.Path(f"{serving.rstrip('/')}.json")


def _served(serving: str) -> str | None:
    """Returns the folder of the model that is served, if it is still there."""
    file = _served_file(serving)
    if not file.is_file():
        return None
    try:
        model = json.loads(file.read_text("utf-8"))["model"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file}: is damaged; delete it to deliver without comparing") from error
    if not pathlib.Path(model).is_dir():
        raise InputError(
            f"{file}: the model that is served, {model}, is gone; delete the file to deliver "
            "without comparing"
        )
    return model


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: something given can't be used.
    """
    deliver(argv)


if __name__ == "__main__":
    sys.exit(run_main("deliver", main, sys.argv[1:]))
