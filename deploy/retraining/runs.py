"""What a retraining does: its configuration, its commands, and what to do next. Pure.

A workspace is a folder, local or gs://:

    runs/000001/    a run: run.json (what was planned), records/, encoder/, classifier/,
                    baseline/ and evaluation/, and, last of all, result.json
    serving/1/ …    what was blessed; TensorFlow Serving takes the highest version
    LOCK            who is at work
"""

import dataclasses
import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from beambert.commands import COMMANDS
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.storage.claims import BLESSED, MARKER_FILE, NOT_BLESSED

PUBLISHED = "published"
REFUSED = "refused"

# Of the task's first metric: as good as what is served is not better.
LEAST_CHANGE = 1e-4

RECORDS, ENCODER, CLASSIFIER = "records", "encoder", "classifier"
BASELINE, EVALUATION, SERVING = "baseline", "evaluation", "serving"
# Each makes the folder of its name. In this order.
STEPS = (RECORDS, ENCODER, CLASSIFIER, BASELINE, EVALUATION, SERVING)

# section of the configuration, by the name of its command -> the flags that a run sets itself
SECTIONS = {
    "data": frozenset({"input", "since", "vocab_file", "output", "dry_run"}),
    "pretrain": frozenset({"data", "long_data", "model_dir", "checkpoint_dir", "tensorboard_dir"}),
    "finetune": frozenset({"init", "model_dir", "checkpoint_dir", "tensorboard_dir"}),
    "evaluate": frozenset(
        {"task", "data_dir", "model", "output", "metric", "threshold", "baseline"}
    ),
}
# The other flags of these go to Beam.
BEAM_SECTIONS = ("data", "evaluate")
# Of [pretrain]: what holds for the first run only, and for those that go on from its encoder.
FIRST, FURTHER = "first", "further"

Flags = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Retraining:
    """The configuration, as its TOML file has it; `deploy/retrain.toml` explains the keys.

    Attributes:
      workspace: folder of all runs, local or gs://.
      input: globs of the growing corpus.
      vocab_file: the vocabulary, the same for all runs.
      manifests: globs of files that say which objects a delivery has; none to take what is there.
      settle_minutes: how old the newest manifest must be: of several that arrive one after the
        other, the last one's trigger takes them all.
      least: what any model must reach in the task's first metric; None: more than the best answer
        that is always the same.
      data, pretrain, finetune, evaluate: flags of the commands of these names.
    """

    workspace: str
    input: tuple[str, ...]
    vocab_file: str
    data: Flags
    pretrain: Flags
    finetune: Flags
    evaluate: Flags
    manifests: tuple[str, ...] = ()
    settle_minutes: float = 0.0
    least: float | None = None

    @classmethod
    def from_toml(cls, text: str, path: str) -> "Retraining":
        """Reads a configuration.

        Raises:
          InputError: it isn't TOML, or a key is missing, unknown or not to be given.
        """
        try:
            found = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"--config={path}: is not TOML ({error})") from error
        fields = {field.name: field for field in dataclasses.fields(cls)}
        for name in found:
            if name not in fields:
                raise InputError(f"--config={path}: no such key: {name}")
        for name, field in fields.items():
            if name not in found and field.default is dataclasses.MISSING:
                raise InputError(f"--config={path}: lacks {name}")
        try:
            for name, value in found.items():
                _check_type(name, value)
            for section in SECTIONS:
                _check_section(section, found[section])
            lists = {name: tuple(found.get(name, ())) for name in ("input", "manifests")}
            workspace = found["workspace"].rstrip("/")
            config = cls(**found | lists | {"workspace": workspace})
            _check_commands(config)
        except InputError as error:
            raise InputError(f"--config={path}: {error}") from error
        return config


def _check_type(name: str, value: Any) -> None:
    """Refuses a value of a key of the configuration that is of the wrong type."""
    if name in ("workspace", "vocab_file"):
        if not isinstance(value, str) or not value:
            raise InputError(f'{name} must be a path, as {name} = "…"')
    elif name in ("input", "manifests"):
        if not isinstance(value, list) or not all(isinstance(of, str) for of in value):
            raise InputError(f'{name} must be a list of paths, as {name} = ["…"]')
        if name == "input" and not value:
            raise InputError("input is empty")
    elif name in SECTIONS:
        if not isinstance(value, dict):
            raise InputError(f"{name} must be a table, as [{name}]")
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{name} must be a number")


def _check_section(section: str, flags: Flags) -> None:
    """Refuses what isn't a flag of a section's command, or is the run's to set."""
    known = COMMANDS[section].build_parser().flags
    given = list(flags.items())
    if section == "pretrain":
        parts = {part: flags.get(part, {}) for part in (FIRST, FURTHER)}
        for part, value in parts.items():
            if not isinstance(value, dict):
                raise InputError(f"pretrain.{part} must be a table, as [pretrain.{part}]")
        given = [(name, value) for name, value in given if name not in parts]
        given += [item for value in parts.values() for item in value.items()]
    for name, value in given:
        if name in SECTIONS[section]:
            raise InputError(f"{section}.{name} is set by each run; leave it out")
        flag = known.get(name)
        if flag is None and section not in BEAM_SECTIONS:
            raise InputError(f"{section}.{name} is no flag of beambert {section}")
        if isinstance(value, dict):
            raise InputError(f"{section}.{name} is no table")
        takes_list = flag is None or flag.takes_several or flag.is_repeatable
        if isinstance(value, list) and not takes_list:
            raise InputError(f"{section}.{name} takes one value, no list")
    if section == "finetune" and not {"task", "data_dir"} <= set(flags):
        raise InputError("finetune needs task and data_dir")
    if section == "data" and str(flags.get("max_seq_length", "")).count(",") > 1:
        raise InputError("data.max_seq_length must be one length, or a short and a long one")


def _check_commands(config: Retraining) -> None:
    """Refuses values that a command wouldn't take: hours later it would be too late."""
    steps = {"data": RECORDS, "pretrain": ENCODER, "finetune": CLASSIFIER, "evaluate": EVALUATION}
    for run in (Run("run", 1), Run("run", 1, ("records",), "encoder", "classifier")):
        for section, step in steps.items():
            try:
                arguments = command(step, config, run)[1:]
                COMMANDS[section].build_parser().parse_known_args(arguments)
            except InputError as error:
                raise InputError(f"[{section}] {error}") from error


def beam_flags(section: str, flags: Flags) -> list[str]:
    """Returns what of a section's flags goes to Beam."""
    known = COMMANDS[section].build_parser().flags
    return to_arguments(section, {n: value for n, value in flags.items() if n not in known})


@dataclasses.dataclass(frozen=True)
class Run:
    """What a run is to do; its run.json.

    Attributes:
      path: its folder.
      new_files: how many files it was begun for.
      since: records folders that the model it goes on from has learned from.
      encoder: what to go on from; None for the first run.
      served: the classifier to be better than; None for the first run.
    """

    path: str
    new_files: int
    since: tuple[str, ...] = ()
    encoder: str | None = None
    served: str | None = None

    def folder(self, step: str) -> str:
        """Returns where a step's result lies."""
        return f"{self.path}/{step}"

    @classmethod
    def from_fields(cls, found: Mapping[str, Any]) -> "Run":
        """Returns what run.json holds."""
        return cls(**found | {"since": tuple(found["since"])})


def next_run(config: Retraining, published: Sequence[str], number: int, new_files: int) -> Run:
    """Plans a run.

    It goes on from the last *published* run and takes all files that this one and those before it
    have not learned from. A refused run's files are thus taken again, together with what is new:
    what is served has seen each file of its line exactly once.

    Args:
      config: of the retraining.
      published: folders of the published runs, oldest first.
      number: of the new run.
      new_files: files that no finished run has taken.
    """
    path = f"{config.workspace}/runs/{number:06d}"
    if not published:
        return Run(path, new_files)
    return Run(
        path,
        new_files,
        since=tuple(f"{run}/{RECORDS}" for run in published),
        encoder=f"{published[-1]}/{ENCODER}",
        served=f"{published[-1]}/{CLASSIFIER}",
    )


def is_needed(step: str, run: Run) -> bool:
    """Whether a run has the step: the first has nothing to compare with."""
    return step != BASELINE or run.served is not None


def markers(step: str, run: Run) -> tuple[str, ...]:
    """Returns files of which one exists as soon as a step is done."""
    if step == SERVING:
        return (f"{run.path}/result.json",)
    names = (BLESSED, NOT_BLESSED) if step in (BASELINE, EVALUATION) else (MARKER_FILE,)
    return tuple(f"{run.folder(step)}/{name}" for name in names)


def command(step: str, config: Retraining, run: Run) -> list[str]:
    """Returns the arguments of `beambert` that do a step.

    Args:
      step: one of `STEPS`.
      config: of the retraining.
      run: what it is a step of.
    """
    if step == RECORDS:
        since = ["--since", *run.since] if run.since else []
        return [
            *("data", "--input", *config.input, *since),
            *(f"--vocab_file={config.vocab_file}", f"--output={run.folder(RECORDS)}"),
            *to_arguments("data", config.data),
            *_job_name(config, run),
        ]
    if step == ENCODER:
        parts = {FIRST, FURTHER}
        common = {name: value for name, value in config.pretrain.items() if name not in parts}
        more = config.pretrain.get(FURTHER if run.encoder else FIRST, {})
        return [
            *("pretrain", *_record_folders(config, run)),
            *([f"--init={run.encoder}"] if run.encoder else []),
            f"--model_dir={run.folder(ENCODER)}",
            *to_arguments("pretrain", common | more),
        ]
    if step == CLASSIFIER:
        return [
            *("finetune", f"--init={run.folder(ENCODER)}", f"--model_dir={run.folder(CLASSIFIER)}"),
            *to_arguments("finetune", config.finetune),
        ]
    if step in (BASELINE, EVALUATION):
        model = run.served if step == BASELINE else run.folder(CLASSIFIER)
        bounds = []
        if step == EVALUATION and config.least is not None:
            bounds.append(f"--threshold={config.least!r}")
        if step == EVALUATION and run.served:
            bounds.append(f"--baseline={run.folder(BASELINE)}")
            if "min_change" not in config.evaluate:
                bounds.append(f"--min_change={LEAST_CHANGE!r}")
        return [
            *("evaluate", f"--task={config.finetune['task']}"),
            *(f"--data_dir={config.finetune['data_dir']}", f"--model={model}"),
            f"--output={run.folder(step)}",
            *to_arguments("evaluate", config.evaluate),
            *bounds,
        ]
    return [
        *("export", f"--model={run.folder(CLASSIFIER)}", f"--output={config.workspace}/{SERVING}"),
        f"--evaluation={run.folder(EVALUATION)}",
    ]


def _job_name(config: Retraining, run: Run) -> list[str]:
    """Returns the name of a run's job on Dataflow, which refuses a second one of it.

    A job outlives the command that sent it: a run that is continued must not write beside it.
    """
    if config.data.get("runner") != "DataflowRunner" or "job_name" in config.data:
        return []
    workspace = hashlib.sha256(config.workspace.encode()).hexdigest()[:8]
    return [f"--job_name=records-{run.path.rpartition('/')[2]}-{workspace}"]


def _record_folders(config: Retraining, run: Run) -> list[str]:
    """Returns what to pre-train on: short sequences, and long ones if records have both."""
    records = run.folder(RECORDS)
    lengths = str(config.data.get("max_seq_length", "")).split(",")
    if len(lengths) == 1:
        return [f"--data={records}"]
    short, long = sorted(lengths, key=int)
    return [f"--data={records}/{short}", f"--long_data={records}/{long}"]


def to_arguments(section: str, flags: Flags) -> list[str]:
    """Returns a section's flags as a command line has them; a list repeats its flag."""
    known = COMMANDS[section].build_parser().flags
    arguments = []
    for name, value in flags.items():
        # Beam's flags for yes and no take no value, as some of ours.
        is_bare = name not in known or not known[name].takes_value
        if isinstance(value, bool) and is_bare:
            arguments += [f"--{name}"] if value else []
        else:
            values = value if isinstance(value, list) else [value]
            arguments += [f"--{name}={each}" for each in values]
    return arguments
