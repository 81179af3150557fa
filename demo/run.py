"""`beambert demo`: `beambert train` on the documentation of the machine, with a task of it."""

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path

from beambert.config import read_settings, setting, settings_parser
from beambert.demo import corpus
from beambert.trainer.pretraining.job import parse_budget
from beambert.training import WORDS, TrainJob, train

EXAMPLES = """example:
  beambert demo --output=demo-output

The same command continues an interrupted demo. demo-output/trained/report.html shows the results.
"""
# In the few hundred steps of these minutes the paper's objectives hardly leave their plateau: a
# loss of 5.7 after 600 steps, where this has 4.8.
GOAL = WORDS
TASK = "tagging"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DemoJob:
    """A demonstration. Its fields are the flags of `beambert demo`."""

    output: str = setting("demo-output", metavar="DIR", help="output folder")
    budget: float = setting(
        480.0,
        metavar="TIME",
        parse=parse_budget,
        help="time of `beambert train`, after the text is made (default: 8min)",
    )


build_parser = functools.partial(
    settings_parser,
    DemoJob,
    "demo",
    "Runs all steps on the documentation of the installed packages.",
    EXAMPLES,
)


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: a step failed.
    """
    job = read_settings(DemoJob, build_parser().parse_args(list(argv)))
    folder = Path(job.output)
    print(f"$ python -m beambert.demo.corpus --output={folder}", flush=True)
    corpus.make_corpus(folder)
    made = TrainJob(
        input=(f"{folder}/corpus/*.jsonl",),
        output=f"{folder}/trained",
        budget=job.budget,
        goal=GOAL,
        task_data=f"{folder}/task",
        task=TASK,
    )
    print(
        f"\n$ beambert train '{made.input[0]}' --output={made.output} --goal={made.goal} "
        f"--budget={made.budget:.0f}s --task_data={made.task_data} --task={made.task}",
        flush=True,
    )
    train(made)
