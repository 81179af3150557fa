"""The configuration of a retraining, its runs, and the commands of their steps.

All functions here are pure. A workspace is a folder, local or on gs://:

    runs/000001/    folder of a run: run.json (the plan), records/, encoder/, classifier/,
                    baseline/, evaluation/ and, at the end, result.json
    serving/1/ …    versions of the blessed models; TensorFlow Serving takes the highest one
    LOCK            lock with the name of its holder
"""

import dataclasses
import hashlib
import math
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from beambert.cli import COMMANDS
from beambert.deploy.settings import check_keys
from beambert.errors import InputError
from beambert.pipelines.corpus.sources import parse_sources

PUBLISHED = "published"
REFUSED = "refused"

# The least gain in the task's first metric. A model that is only as good as the served one is
# refused.
LEAST_CHANGE = 1e-4

RECORDS, ENCODER, CLASSIFIER = "records", "encoder", "classifier"
BASELINE, EVALUATION, SERVING = "baseline", "evaluation", "serving"
# The steps in their order. Each makes the folder of its name.
STEPS = (RECORDS, ENCODER, CLASSIFIER, BASELINE, EVALUATION, SERVING)

# The sections of the configuration, named after commands, with the flags that each run sets itself,
# or that would keep it from its end.
SECTIONS = {
    "data": frozenset(
        {
            *("input", "since", "leave_out", "vocab_file", "tokenizer", "output"),
            *("dry_run", "job_name", "help"),
        }
    ),
    "pretrain": frozenset({"data", "long_data", "model_dir", "dry_run"}),
    "finetune": frozenset({"init", "model_dir"}),
    "evaluate": frozenset(
        {
            *("task", "data_dir", "model", "output", "metric", "threshold", "baseline"),
            *("exit_status", "help"),
        }
    ),
}
# The section that may stand in the place of the key vocab_file.
VOCAB = "vocab"
VOCAB_FLAGS = frozenset({"input", "source", "output", "kind", "extend", "add"})
# The sections whose unknown flags are passed to Beam.
BEAM_SECTIONS = ("data", "evaluate")
# The tables of [pretrain] with flags for the first run only, and for all further runs.
FIRST, FURTHER = "first", "further"

Flags = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Retraining:
    """The content of the configuration file; `deploy/retrain.toml` explains the keys.

    Attributes:
      workspace: folder of all runs, local or on gs://.
      input: globs of the growing corpus; empty if `data` has sources.
      vocab_file: vocabulary of all runs; "" with `tokenizer`.
      vocab: flags of `beambert vocab`, with which the first run makes `vocab_file`; None if it was
        made before.
      tokenizer: tokenizer.json of all runs, or its folder; "" with `vocab_file`.
      settle_minutes: least age in minutes of the newest file, so that none is half-written, and a
        run takes several deliveries in a row together.
      leave_out: globs of files that no run takes.
      least: least value of the task's first metric; None for the value of the best constant
        prediction.
      data, pretrain, finetune, evaluate: flags of the commands of these names.
    """

    workspace: str
    data: Flags
    pretrain: Flags
    finetune: Flags
    evaluate: Flags
    input: tuple[str, ...] = ()
    vocab_file: str = ""
    tokenizer: str = ""
    vocab: Flags | None = None
    leave_out: tuple[str, ...] = ()
    settle_minutes: float = 0.0
    least: float | None = None

    @classmethod
    def from_toml(cls, text: str, path: str) -> "Retraining":
        """Returns the configuration in a TOML text, after checking it.

        Args:
          text: content of the file.
          path: path of the file, for messages.

        Raises:
          InputError: the text is not TOML, or a key is missing, unknown, wrong or not allowed.
        """
        try:
            found = tomllib.loads(text.removeprefix("\ufeff"))  # some editors write such a mark
        except (ValueError, RecursionError) as error:  # a number may have too many digits
            raise InputError(f"--config={path}: is not TOML ({error}); correct it") from error
        try:
            check_keys(cls, found)
            if len({"vocab_file", "tokenizer", VOCAB} & found.keys()) != 1:
                raise InputError("needs vocab_file, tokenizer or [vocab]; give one of them")
            for section in (*SECTIONS, *{VOCAB} & found.keys()):
                _check_section(section, found[section])
            if VOCAB in found:
                found["vocab_file"] = f"{found['workspace'].rstrip('/')}/vocab.txt"
            lists = {name: tuple(found.get(name, ())) for name in ("input", "leave_out")}
            config = cls(**found | lists | {"workspace": found["workspace"].rstrip("/")})
            if not (config.input or config.sources):
                raise InputError("neither input nor data.source names the text; give one of them")
            if not config.workspace:
                raise InputError(f'workspace = "{found["workspace"]}": must be a folder of its own')
            if not 0 <= config.settle_minutes < math.inf:
                raise InputError(f"settle_minutes = {config.settle_minutes}: must be at least 0")
        except InputError as error:
            raise InputError(f"--config={path}: {error}") from error
        return config

    @property
    def sources(self) -> dict[str, tuple[str, ...]]:
        """Name -> globs of each source of `data.source`; empty if `input` has the corpus."""
        given = self.data.get("source", [])
        return parse_sources([given] if isinstance(given, str) else [*map(str, given)])


def _check_section(section: str, flags: Flags) -> None:
    """Refuses keys that are no flags of the section's command, or that each run sets itself."""
    known = COMMANDS[section].build_parser().flags
    given = list(flags.items())
    if section == "pretrain":
        parts = {part: flags.get(part, {}) for part in (FIRST, FURTHER)}
        for part, value in parts.items():
            if not isinstance(value, dict):
                raise InputError(f"pretrain.{part}: must be a table, such as [pretrain.{part}]")
        given = [(name, value) for name, value in given if name not in parts]
        given += [item for value in parts.values() for item in value.items()]
    for name, value in given:
        if name in (VOCAB_FLAGS if section == VOCAB else SECTIONS[section]):
            raise InputError(f"{section}.{name}: a run has its own; leave it out")
        flag = known.get(name)  # of the others, the step's parser refuses what Beam lacks, too
        if isinstance(value, dict):
            raise InputError(f"{section}.{name}: must not be a table; give one value")
        takes_list = flag is None or flag.takes_several or flag.is_repeatable
        if isinstance(value, list) and not takes_list:
            raise InputError(f"{section}.{name}: must be one value, not a list")
    if section == "finetune" and not {"task", "data_dir"} <= set(flags):
        raise InputError(f"{section}: needs task and data_dir; give both")
    lengths = str(flags.get("max_seq_length", "")).split(",")
    is_pair = len(lengths) == 2 and all(length.strip().isdecimal() for length in lengths)
    if section == "data" and len(lengths) > 1 and not is_pair:
        raise InputError("data.max_seq_length: must be one length, or a short and a long one")


def beam_flags(section: str, flags: Flags) -> list[str]:
    """Returns those flags of a section that are passed to Beam."""
    known = COMMANDS[section].build_parser().flags
    return to_arguments(section, {n: value for n, value in flags.items() if n not in known})


@dataclasses.dataclass(frozen=True)
class RetrainingRun:
    """The plan of a run, the content of its run.json.

    Attributes:
      path: folder of the run.
      new_files: number of new files when the run began.
      records: folders of the records to train on: one, or those of the short and the long length.
      since: records folders that the encoder to continue from was trained on.
      encoder: folder of the encoder to continue from; None for the first run.
      served: folder of the served classifier to compare with; None for the first run.
      left_out: paths of files of the corpus that the run doesn't take.
    """

    path: str
    new_files: int
    records: tuple[str, ...]
    since: tuple[str, ...] = ()
    encoder: str | None = None
    served: str | None = None
    left_out: tuple[str, ...] = ()

    @property
    def number(self) -> str:
        """Number of the run as its folder has it, such as 000001."""
        return self.path.rpartition("/")[2]

    @property
    def left_out_file(self) -> str:
        """Path of the file that `beambert data --leave_out` reads."""
        return f"{self.path}/left_out.txt"

    def folder(self, step: str) -> str:
        """Returns the folder of a step's result."""
        return f"{self.path}/{step}"


@dataclasses.dataclass(frozen=True)
class RunResult:
    """The end of a run, the content of its result.json.

    Attributes:
      outcome: PUBLISHED or REFUSED.
      version: number of the version that the run has published; None if it was refused.
      reasons: those of the evaluation.
      finished: time of the end, by ISO 8601.
    """

    outcome: str
    version: int | None
    reasons: tuple[str, ...] = ()
    finished: str = ""


def next_run(
    config: Retraining,
    published: Sequence[str],
    number: int,
    new_files: int,
    left_out: Sequence[str] = (),
) -> RetrainingRun:
    """Returns the plan of a new run.

    The run continues from the last *published* run, and takes all files that the published runs
    have not taken. It takes the files of refused runs again, together with the new ones. So the
    served model has been trained on each file exactly once.

    Args:
      config: configuration of the retraining.
      published: folders of the published runs, oldest first.
      number: number of the new run.
      new_files: number of files that no finished run has taken.
      left_out: paths of files of the corpus that the run doesn't take.
    """
    path = f"{config.workspace}/runs/{number:06d}"
    return RetrainingRun(
        path,
        new_files,
        records=record_folders(config, path),
        since=tuple(f"{run}/{RECORDS}" for run in published),
        encoder=f"{published[-1]}/{ENCODER}" if published else None,
        served=f"{published[-1]}/{CLASSIFIER}" if published else None,
        left_out=tuple(left_out),
    )


def is_needed(step: str, run: RetrainingRun) -> bool:
    """Whether a run has the step. The first run has no baseline."""
    return step != BASELINE or run.served is not None


def record_folders(config: Retraining, run_path: str) -> tuple[str, ...]:
    """Returns the folders that `beambert data` makes: one, or one of each length, short first."""
    records = f"{run_path}/{RECORDS}"
    lengths = str(config.data.get("max_seq_length", "")).split(",")
    if len(lengths) == 1:
        return (records,)
    return tuple(f"{records}/{length}" for length in sorted(map(int, lengths)))


def command(step: str, config: Retraining, run: RetrainingRun) -> list[str]:
    """Returns the arguments of `beambert` for a step.

    Args:
      step: one of `STEPS`.
      config: configuration of the retraining.
      run: the run that the step belongs to.
    """
    if step == RECORDS:
        since = ["--since", *run.since] if run.since else []
        job = records_job(config, run)
        return [
            *("data", *(["--input", *config.input] if config.input else []), *since),
            *([f"--leave_out={run.left_out_file}"] if run.left_out else []),
            f"--tokenizer={config.tokenizer}"
            if config.tokenizer
            else f"--vocab_file={config.vocab_file}",
            f"--output={run.folder(RECORDS)}",
            *to_arguments("data", config.data),
            *([f"--job_name={job}"] if job else []),
        ]
    if step == ENCODER:
        parts = {FIRST, FURTHER}
        common = {name: value for name, value in config.pretrain.items() if name not in parts}
        more = config.pretrain.get(FURTHER if run.encoder else FIRST, {})
        return [
            *("pretrain", *map("--{}={}".format, ("data", "long_data"), run.records)),
            *([f"--init={run.encoder}"] if run.encoder else []),
            f"--model_dir={run.folder(ENCODER)}",
            *to_arguments("pretrain", common | more),
        ]
    if step == CLASSIFIER:
        return [
            *("finetune", f"--init={run.folder(ENCODER)}"),
            f"--model_dir={run.folder(CLASSIFIER)}",
            *to_arguments("finetune", config.finetune),
        ]
    if step in (BASELINE, EVALUATION):
        model = run.served if step == BASELINE else run.folder(CLASSIFIER)
        bounds = []
        # The baseline is no candidate, and the first candidate has nothing to be compared with.
        compares = step == EVALUATION and run.served is not None
        given = {n: v for n, v in config.evaluate.items() if compares or n != "min_change"}
        if step == EVALUATION and config.least is not None:
            bounds.append(f"--threshold={config.least!r}")
        if compares:
            bounds.append(f"--baseline={run.folder(BASELINE)}")
            if "min_change" not in given:
                bounds.append(f"--min_change={LEAST_CHANGE!r}")
        return [
            *("evaluate", f"--task={config.finetune['task']}"),
            *(f"--data_dir={config.finetune['data_dir']}", f"--model={model}"),
            f"--output={run.folder(step)}",
            *to_arguments("evaluate", given),
            *bounds,
        ]
    return [
        *("export", f"--model={run.folder(CLASSIFIER)}", f"--output={config.workspace}/{SERVING}"),
        f"--evaluation={run.folder(EVALUATION)}",
    ]


def vocabulary_command(config: Retraining) -> list[str]:
    """Returns the arguments of `beambert` that make the vocabulary.

    The text is read as for the records, and by the same runner.
    """
    known = COMMANDS[VOCAB].build_parser().flags
    given = {name: value for name, value in config.data.items() if name in known} | config.vocab
    beam, job = beam_flags("data", config.data), vocabulary_job(config)
    return [
        *(VOCAB, *(["--input", *config.input] if config.input else [])),
        *(f"--output={config.vocab_file}", *to_arguments(VOCAB, given), *beam),
        *([f"--job_name={job}"] if job else []),
    ]


def records_job(config: Retraining, run: RetrainingRun) -> str | None:
    """Returns the name of the Dataflow job that makes a run's records; None for other runners.

    A job outlives the command that sent it. A continued run must not write at the same time. It
    finds the job by its name, and Dataflow refuses a second job of the same name.
    """
    return f"records-{run.number}-{workspace_hash(config)}" if _is_on_dataflow(config) else None


def vocabulary_job(config: Retraining) -> str | None:
    """Returns the name of the Dataflow job that makes the vocabulary; None for other runners."""
    if config.vocab is None or not _is_on_dataflow(config):
        return None
    return f"vocabulary-{workspace_hash(config)}"


def _is_on_dataflow(config: Retraining) -> bool:
    return config.data.get("runner") == "DataflowRunner"


def workspace_hash(config: Retraining) -> str:
    """Returns eight letters and digits that tell the jobs of a workspace from those of others."""
    return hashlib.sha256(config.workspace.encode()).hexdigest()[:8]


def to_arguments(section: str, flags: Flags) -> list[str]:
    """Returns the flags of a section as arguments; each value of a list repeats the flag."""
    known = COMMANDS[section].build_parser().flags
    arguments = []
    for name, value in flags.items():
        # Boolean flags of Beam, and some of ours, take no value.
        is_bare = name not in known or not known[name].takes_value
        if isinstance(value, bool) and is_bare:
            arguments += [f"--{name}"] if value else []
        else:
            values = value if isinstance(value, list) else [value]
            arguments += [f"--{name}={each}" for each in values]
    return arguments
