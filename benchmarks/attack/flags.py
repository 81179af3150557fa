"""Flags with odd values, several at a time, for every command that begins no long work."""

from beambert.commands import COMMANDS
from benchmarks.attack.trials import Family, Trial

VALUES = (
    "0", "-1", "1", "10" * 12, "1e400", "", "nan", "-inf", "0.5", "missing/file", "ü文 ",
    "\udcff", "a,b", ",", "=", "true", "None", "*", "[", "--", "a\nb", "\0", "../..",
    "x" * 5000, "9" * 5000, "1_0", "０",
)  # fmt: skip
# These commands end in a second or two.
QUICK = ("vocab", "data", "verify", "features")
# These commands would run all the others.
LEFT_OUT = ("demo", "glue")


def _attempt(trial: Trial) -> str:
    generator = trial.generator
    name = generator.choice([*(name for name in COMMANDS if name not in LEFT_OUT), *QUICK * 3])
    flags = COMMANDS[name].build_parser().flags
    values = {
        flag: known.choices[0] if known.choices else f"{trial.folder}/missing"
        for flag, known in flags.items()
        if known.is_required and generator.random() < 0.97
    }
    if "task" in values:
        values["task"] = "sst-2"
    if name in QUICK and generator.random() < 0.6:
        values |= _sound(trial, name)
    for flag in generator.sample(sorted(flags), min(len(flags), generator.choice((1, 1, 2, 4)))):
        known = flags[flag]
        choices = [
            *VALUES,
            str(trial.folder),
            str(trial.material / "vocab.txt"),
            *(known.choices or ()),
        ]
        values[flag] = generator.choice(choices)
    words = [value for flag, value in values.items() if flags[flag].is_positional]
    words += [f"--{n}={value}" for n, value in values.items() if not flags[n].is_positional]
    if generator.random() < 0.1:
        words.insert(generator.randrange(len(words) + 1), generator.choice(VALUES))
    # A null byte can't stand in a command line.
    ended = trial.call(name, *(word.replace("\0", "") for word in words))
    return "taken" if ended.status == 0 else "refused"


def _sound(trial: Trial, name: str) -> dict[str, str]:
    """Returns flags of a command that runs, so that odd values reach more than the parser."""
    material = trial.material
    text = {"input": f"{material}/text/1.jsonl"}
    vocab = {"vocab_file": f"{material}/vocab.txt", "max_seq_length": "24"}
    of = {
        "vocab": text | {"vocab_size": "300"},
        "data": text | vocab | {"num_shards": "1", "dupe_factor": "1"},
        "verify": {"inputs": f"{material}/records"},
        "features": vocab
        | {"task": "classification", "data_dir": f"{material}/tasks/classification"},
    }
    return of[name] | {"output": f"{trial.folder}/output"}


FAMILY = Family("flags", 0.3, _attempt)
