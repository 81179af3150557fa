"""`beambert train`: from text to an encoder in one command, within a budget of time.

It looks at the text, chooses the settings of the ordinary commands, and runs these in order:
`vocab`, `data`, `pretrain` and, with a task, `finetune`, `evaluate` and `export`. `training_text`
looks at the text, `training_page` makes the page of the results.

What the choices rest on (benchmarks/results, docs/pretraining.md):

- Size, rate, batch, warm-up, decay and optimizer are those of a recipe. In 5, 15 and 45 minutes of
  one core `modern_tiny` with masks of 15 % came to held-out losses of 4.51, 4.05 and 3.76,
  `modern_mini` to 5.76, 4.79 and 4.24 (recipes_budgets.json). No more was measured, so every budget
  takes the smallest size. docs/journal.md has other rates, batches and vocabularies.
- The loss of `modern_tiny` on 101 MB of Wikipedia and novels in 10,000 pieces after s steps is
  3.19 + 1.03 (2226 / s) ** 0.446, fitted to s = 1,000 and 2,226. The exponent is that of masks of
  15 %, fitted to s = 2,226, 6,678 and 20,034. For other texts and goals there is no such law.
- Records with pairs have so many passes over the text that no sequence is read twice, but at most
  ten; in those without, the training draws new masks each time.
- Times are those of two cores.
"""

import contextlib
import dataclasses
import functools
import json
import math
import shlex
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from beambert import io
from beambert.config import (
    check_settings,
    read_settings,
    same_setting,
    setting,
    settings_parser,
)
from beambert.console import duration, size
from beambert.errors import InputError
from beambert.folders import BLESSED, REPORT_FILE, OutputFolder, claimed
from beambert.model_files import CONFIG_FILE, RESULTS_FILE, TRAINING_FILE
from beambert.pipelines.corpus.sources import InputSettings
from beambert.pipelines.records.contract import NONE
from beambert.pipelines.tasks.declarations import find_task
from beambert.pipelines.tasks.flags import TaskSettings
from beambert.pipelines.tasks.metrics import METRICS
from beambert.pipelines.text.languages import DEFAULT_LANGUAGE
from beambert.pipelines.tokenizers.vocabulary import VOCABULARY_FILE
from beambert.process import loading, run_apart
from beambert.trainer.loop.config import LoopConfig
from beambert.trainer.pretraining.job import parse_budget
from beambert.trainer.weights.given_path import check_weights

EXAMPLES = """examples:
  # an encoder of your text in half an hour, vocabulary and records included
  beambert train 'wiki/*/wiki_*' 'books/*.txt' --output=mine

  # what it would do, with documents as they are read
  beambert train 'books/*.txt' --output=books --budget=2h --dry_run

  # also fine-tune it on topics/train.tsv, evaluate it on topics/dev.tsv, export it if it is good
  beambert train 'reports/*.jsonl' --output=reports --budget=1h --task_data=topics

  # continue a published encoder
  beambert train 'law/*.jsonl' --output=law --init=bert-base-uncased --budget=12h

DIR/report.html shows the results. The same command continues one that was interrupted.
"""
JOURNAL_FILE = "steps.json"
PAIRS, WORDS, PAPER = "pairs", "words", "paper"
LEAST_BYTES, FEW_BYTES = 100_000, 5_000_000  # Less text is refused, or has a small vocabulary.
# Seconds of training that a budget must leave, and the greatest share of it for everything else.
LEAST_SECONDS, MOST_BESIDE = 120.0, 0.5
# Seconds of two cores: to start a command, and per MB of text to learn a vocabulary, to read, and
# for each pass of two lengths.
START, VOCABULARY_A_MB, READING_A_MB, PASS_A_MB = 8.0, 0.25, 0.07, 0.05
# Seconds of the page, and of a task: two fine-tunings, an evaluation and an export.
PAGE, TASK = 25.0, 155.0
MOST_PASSES = 10
MOST_PRINTED = 1000  # characters of a command
LEAST_GAIN = 1e-4  # A model that is only as good as what it is compared with is not blessed.


class Goal(NamedTuple):
    """What an encoder is for: the recipe, the lengths and `--pairs` of its records, its speed.

    `characters` are those of the text for each short sequence of a pass over it.
    """

    recipe: str
    lengths: tuple[int, int]
    pairs: str
    characters: int
    sequences_a_second: int


GOALS = {
    PAIRS: Goal("copying_tiny", (64, 128), "copy", 100, 530),
    WORDS: Goal("modern_tiny", (32, 128), NONE, 120, 580),
    PAPER: Goal("crammed_tiny", (32, 128), "next", 120, 640),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainJob:
    """A training from text. Its fields are the flags of `beambert train`."""

    input: tuple[str, ...] = setting(
        is_positional=True, metavar="TEXT", help="files to read, or patterns of their names"
    )
    output: str = setting(metavar="DIR", help="folder to make")
    budget: float = setting(
        1800.0,
        metavar="TIME",
        parse=parse_budget,
        help="time of the whole command, such as 10min or 6h; with --init the trainings on the "
        "task take their own (default: 30min)",
    )
    goal: str = setting(
        PAIRS,
        choices=GOALS,
        help="pairs: a ModernBERT for tasks, above all of two texts, by noisy copies; words: one "
        "that predicts words best; paper: a BERT by masked LM and next sentences",
    )
    init: str | None = setting(
        None, metavar="PATH", help="encoder to continue, with its own vocabulary"
    )
    task_data: str | None = setting(
        None, metavar="DIR", help="folder of a task to fine-tune on, evaluate and export"
    )
    task: str = setting("classification", help="name of the task, as of `beambert finetune`")
    text_columns: tuple[str, ...] | None = same_setting(TaskSettings, "text_columns")
    label_column: str | None = same_setting(TaskSettings, "label_column")
    format: str = same_setting(InputSettings, "format")
    text_column: str = same_setting(InputSettings, "text_column")
    layout: str = same_setting(InputSettings, "layout")
    encoding: str = same_setting(InputSettings, "encoding")
    language: str = setting(
        DEFAULT_LANGUAGE, help="ISO 639-1 code of the text's language, for the sentence splitter"
    )
    do_lower_case: bool = setting(
        True, help="whether text is lower-cased and loses its accents; --init decides it itself"
    )
    random_seed: int = same_setting(LoopConfig, "random_seed")

    def __post_init__(self) -> None:
        """Checks the values."""
        check_settings(self)
        object.__setattr__(self, "output", self.output.rstrip("/"))
        if self.init:
            check_weights(self.init, "--init")


class Step(NamedTuple):
    """A command of the training: its name, and the arguments of `beambert`."""

    name: str
    arguments: tuple[str, ...]


class TrainPlan(NamedTuple):
    """What follows from a text and a budget: choices, and seconds of the three parts."""

    vocab_size: int
    passes: int
    before: float
    training: float
    after: float


def plan(job: TrainJob, text_bytes: int) -> TrainPlan:
    """Returns the plan of a training on a text of a size.

    Raises:
      InputError: there is too little text, or the budget is too small for it.
    """
    if text_bytes < LEAST_BYTES:
        raise InputError(
            f"TEXT: {size(text_bytes)} are too little to learn from; add text (at least "
            f"{size(LEAST_BYTES)}, better {size(FEW_BYTES)}), or fine-tune a published encoder on "
            "your task with `beambert finetune --init`"
        )
    goal, megabytes = GOALS[job.goal], text_bytes / 1e6
    # How long an encoder that is given takes on the task follows from its size.
    of_task = TASK if job.task_data and not job.init else 0.0
    after = PAGE + of_task

    def before(passes: int) -> float:
        vocabulary = 0.0 if job.init else START + VOCABULARY_A_MB * megabytes
        return vocabulary + START + megabytes * (READING_A_MB + PASS_A_MB * passes)

    budget, least = job.budget, before(1) + after
    if budget < (needed := max(least / MOST_BESIDE, least + LEAST_SECONDS)):
        share = f", {duration(of_task)} of it for --task_data" if of_task else ""
        raise InputError(
            f"--budget={duration(budget)}: {size(text_bytes)} of text take {duration(least)} "
            f"besides the training{share}; give at least {math.ceil(needed / 60)}min"
        )
    read = goal.sequences_a_second * (budget - least)
    passes = min(math.ceil(read * goal.characters / text_bytes), MOST_PASSES)
    passes = 1 if pairs_of(job) == NONE else passes  # The masks are drawn anew each time.
    while before(passes) + after > MOST_BESIDE * budget:
        passes -= 1
    # 8,000 pieces were tried on 24 MB and 10,000 on 101 MB; little text has fewer words.
    pieces = 4000 if text_bytes < FEW_BYTES else 8000 if text_bytes < 50e6 else 10_000
    return TrainPlan(pieces, passes, before(passes), budget - before(passes) - after, after)


def describe(job: TrainJob, made: TrainPlan) -> list[str]:
    """Returns the lines that print a plan."""
    goal, lines = GOALS[job.goal], []
    if job.init:
        lines.append(f"  {job.init} is continued by masked LM, with its own vocabulary")
    else:
        lines.append(f"  vocabulary: {made.vocab_size:,} pieces")
        lines.append(f"  recipe: {goal.recipe}, {goal.lengths[0]}, then {goal.lengths[1]} tokens")
    lines += [
        f"  passes over the text: {made.passes}",
        f"  time: about {duration(made.before)} to make records, {duration(made.training)} of "
        f"training, {duration(made.after)} for the rest",
    ]
    if job.init and job.task_data:
        lines.append(f"  the two trainings of {job.init} on the task take their own time besides")
    if job.goal == WORDS and not job.init:
        steps = made.training * goal.sequences_a_second / 64
        loss = 3.19 + 1.03 * (2226 / steps) ** 0.446
        lines.append(
            f"  expected of two cores: {steps:,.0f} steps, which on 101 MB of Wikipedia and novels "
            f"made a held-out masked LM loss of {loss:.2f}"
        )
    return lines


def pairs_of(job: TrainJob) -> str:
    """Returns `--pairs` of the records."""
    return NONE if job.init else GOALS[job.goal].pairs


def reading(job: TrainJob) -> dict[str, str]:
    """Returns the settings of reading that are not the defaults, by their names."""
    names = {field.name for field in dataclasses.fields(InputSettings)} - {"input"}
    own = [field for field in dataclasses.fields(job) if field.name in names]
    values = ((field, getattr(job, field.name)) for field in own)
    return {field.name: value for field, value in values if value != field.default}


def seed(job: TrainJob) -> tuple[str, ...]:
    """Returns the flag of a seed that is not the default."""
    is_default = job.random_seed == LoopConfig.random_seed
    return () if is_default else (f"--random_seed={job.random_seed}",)


def commands(job: TrainJob, made: TrainPlan, seconds: float) -> list[Step]:
    """Returns the commands that make the encoder, the last of which trains for some seconds."""
    goal = GOALS[job.goal]
    training = (f"--model_dir={job.output}/encoder", f"--budget={seconds:.0f}s", *seed(job))
    vocabulary, records = f"{job.output}/{VOCABULARY_FILE}", f"{job.output}/records"
    case = () if job.do_lower_case else ("--do_lower_case=False",)
    text = ("--input", *job.input, *(f"--{n}={value}" for n, value in reading(job).items()))
    data = ("data", *text, f"--output={records}", "--eval_fraction=0.02")
    data += (f"--dupe_factor={made.passes}", f"--pairs={pairs_of(job)}", *seed(job))
    if pairs_of(job) == NONE:
        data += ("--masks=none",)
    if job.language != DEFAULT_LANGUAGE:
        data += (f"--language={job.language}",)
    short, long = goal.lengths
    if job.init:
        data += (f"--tokenizer={job.init}", f"--max_seq_length={long}")
        pretrain = ("pretrain", f"--init={job.init}", "--objective=mlm", f"--data={records}")
        return [Step("records", data), Step("pre-training", (*pretrain, *training))]
    learn = ("vocab", *text, f"--output={vocabulary}", *case)
    data += (f"--vocab_file={vocabulary}", *case, f"--max_seq_length={short},{long}")
    pretrain = ("pretrain", f"--recipe={goal.recipe}", f"--data={records}/{short}")
    return [
        Step("vocabulary", (*learn, f"--vocab_size={made.vocab_size}")),
        Step("records", data),
        Step("pre-training", (*pretrain, f"--long_data={records}/{long}", *training)),
    ]


def task_flags(job: TrainJob) -> tuple[str, ...]:
    """Returns the flags that name the task and its data."""
    columns = {"text_columns": ",".join(job.text_columns or ()), "label_column": job.label_column}
    given = (f"--{name}={value}" for name, value in columns.items() if value)
    return (f"--task={job.task}", f"--data_dir={job.task_data}", *given)


def task_commands(job: TrainJob) -> list[Step]:
    """Returns the commands that fine-tune the encoder and, to compare, what it began with."""
    encoder, case = f"{job.output}/encoder", () if job.do_lower_case else ("--do_lower_case=False",)
    finetune = ("finetune", *task_flags(job), *seed(job))
    random = ("--init=random", f"--model={encoder}/{CONFIG_FILE}")
    random += (f"--vocab_file={encoder}/{VOCABULARY_FILE}", *case)
    name, start = ("as it was", (f"--init={job.init}",)) if job.init else ("random weights", random)
    model, before = (f"--model_dir={job.output}/{folder}" for folder in ("model", "model-before"))
    return [
        Step("fine-tuning", (*finetune, f"--init={encoder}", model)),
        Step(f"fine-tuning, {name}", (*finetune, *start, before)),
    ]


def judging_commands(job: TrainJob, threshold: str) -> list[Step]:
    """Returns the commands that evaluate the model by its task's first metric and export it."""
    model, evaluation = f"--model={job.output}/model", f"{job.output}/evaluation"
    evaluate = ("evaluate", *task_flags(job), model)
    bar = (f"--metric={find_task(job.task).metrics[0]}", f"--threshold={threshold}")
    export = ("export", model, f"--evaluation={evaluation}", f"--output={job.output}/serving")
    return [Step("evaluation", (*evaluate, *bar, f"--output={evaluation}")), Step("export", export)]


def train(job: TrainJob, dry_run: bool = False) -> None:
    """Makes an encoder of text, and a page about it.

    Args:
      job: what is asked for.
      dry_run: whether to print the plan alone.

    Raises:
      InputError: the text, the budget or the task cannot be used, or a step failed.
    """
    started = time.monotonic()
    with loading():
        from beambert.training_text import check_task, look
    identity = {"kind": "beambert train", **dataclasses.asdict(job)}
    claim = claimed(job.output, identity)
    with contextlib.nullcontext() if dry_run else claim as folder:
        if folder and folder.is_finished:
            print(f"{job.output}: already finished by the same command, nothing to do")
            return
        check_task(job)
        text = look(job)
        made = plan(job, text.bytes)
        print("\n".join([*text.lines(), *describe(job, made)]), flush=True)
        print("each step is a command of its own; messages name the flags of that command")
        steps = commands(job, made, made.training)
        if folder is None:
            steps += [*task_commands(job), *judging_commands(job, "SCORE")] if job.task_data else []
            for step in steps:
                print(f"$ {shortened(f'beambert {shlex.join(step.arguments)}')}")
            if job.task_data:
                print("SCORE: the best of what the model is compared with, known only then")
            return
        seconds = job.budget - (time.monotonic() - started) - made.after
        journal = _Journal(folder)
        for step in steps[:-1]:
            seconds -= journal.run(step)
        seconds = max(seconds, LEAST_SECONDS)
        if not io.exists(f"{job.output}/encoder/{TRAINING_FILE}"):
            journal.steps.pop(steps[-1].name, None)  # It has not begun: the time is left anew.
        print(f"{duration(seconds)} are left to train, of {duration(made.training)} planned")
        journal.run(commands(job, made, seconds)[-1])
        if job.task_data:
            _run_task(job, journal)
        with loading():
            from beambert.training_page import make_page
        html, summary = make_page(job, text, journal.steps)
        folder.write(REPORT_FILE, html.encode())
    print(f"\n{summary}\n{job.output}/{REPORT_FILE}: these results and more on a page")


def shortened(line: str) -> str:
    """Returns a command as it is printed; a pattern without quotes makes hundreds of names."""
    return line if len(line) <= MOST_PRINTED else f"{line[:300]} … {line[-300:]}"


def _run_task(job: TrainJob, journal: "_Journal") -> None:
    for step in task_commands(job):
        journal.run(step)
    results = json.loads(io.read_bytes(f"{job.output}/model-before/{RESULTS_FILE}"))
    metric = find_task(job.task).metrics[0]
    others = [results[name] for name in (metric, f"words_{metric}") if name in results]
    is_greater = METRICS[metric].greater_is_better
    threshold = max(others) + LEAST_GAIN if is_greater else min(others) - LEAST_GAIN
    evaluate, export = judging_commands(job, f"{threshold:.4f}")
    journal.run(evaluate)
    if io.exists(f"{job.output}/evaluation/{BLESSED}"):
        journal.run(export)
    else:
        print("not exported: the evaluation did not bless the model")


class _Journal:
    """The steps of a folder that have begun, with their command lines and seconds, in a file."""

    def __init__(self, folder: OutputFolder):
        self._folder = folder
        there = io.exists(f"{folder.path}/{JOURNAL_FILE}")
        self.steps: dict[str, dict[str, Any]] = folder.read_json(JOURNAL_FILE) if there else {}

    def run(self, step: Step) -> float:
        """Runs a step unless it is done, and returns its seconds; a begun one keeps its line.

        Raises:
          InputError: the step failed, after printing its own message.
        """
        kept = self.steps.setdefault(step.name, {"line": f"beambert {shlex.join(step.arguments)}"})
        print(f"\n$ {shortened(kept['line'])}", flush=True)
        if "seconds" in kept:
            print(f"{step.name}: already done")
            return kept["seconds"]
        self._folder.write_json(JOURNAL_FILE, self.steps)
        started = time.monotonic()
        if run_apart(shlex.split(kept["line"])[1:]):
            if len(self.steps) == 1:  # Nothing is made, and other flags may be given.
                io.delete(f"{self._folder.path}/{JOURNAL_FILE}")
            raise InputError(f"{step.name}: failed; correct the error above and run it again")
        kept["seconds"] = round(time.monotonic() - started, 1)
        self._folder.write_json(JOURNAL_FILE, self.steps)
        return kept["seconds"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Trial:
    """Settings of the command that are not the job's."""

    dry_run: bool = setting(
        False, help="print the plan and some documents as they are read, and write nothing"
    )


build_parser = functools.partial(
    settings_parser,
    (TrainJob, _Trial),
    "train",
    "Makes an encoder of text in the time that it is given.",
    EXAMPLES,
)


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: a flag or a file cannot be used, or a step failed.
    """
    flags = build_parser().parse_args(list(argv))
    train(read_settings(TrainJob, flags), flags.dry_run)
