"""Flags with fitting and odd values, several at a time, for commands that begin no long work."""

from beambert.commands import COMMANDS
from beambert.flags import Flag
from benchmarks.attack.trials import Family, Trial

VALUES = (
    "0", "-1", "1", "10" * 12, "1e400", "", "nan", "-inf", "0.5", "missing/file", "ü文 ",
    "\udcff", "a,b", ",", "=", "true", "None", "*", "[", "--", "a\nb", "\0", "../..",
    "x" * 5000, "9" * 5000, "1_0", "０",
)  # fmt: skip
_BOTH = ("True", "False")
# Values that a flag takes, by its name, beside its choices: they let a command run, so that odd
# values and odd company meet its work and not only its parser.
FITTING = {
    **{
        "do_lower_case": _BOTH,
        "do_whole_word_mask": _BOTH,
        "do_span_mask": _BOTH,
        "skip_bad_rows": _BOTH,
    },
    **{"encoding": ("auto", "utf-8", "cp1252", "utf-16"), "text_column": ("text",)},
    **{"max_reject_fraction": ("0", "0.5", "0.99"), "vocab_size": ("120", "300", "5000")},
    **{"language": ("en", "de", "ja"), "min_document_characters": ("0", "30", "300")},
    **{"keep_languages": ("en", "en,de"), "min_language_probability": ("0", "0.5", "0.99")},
    **{"scrub": ("email", "email,url,ip"), "phone_regions": ("US", "DE,GB")},
    **{"max_seq_length": ("8", "24", "32", "512"), "max_predictions_per_seq": ("1", "4", "24")},
    **{"masked_lm_prob": ("0.05", "0.5", "0.9"), "short_seq_prob": ("0", "0.5", "1")},
    **{"dupe_factor": ("1", "3"), "random_seed": ("0", "7", "123456789")},
    **{"num_shards": ("1", "2", "7"), "eval_fraction": ("0.1", "0.5"), "leave_out": ("",)},
    **{"vcpu_hour_price": ("0", "0.05"), "text_columns": ("text",), "label_column": ("label",)},
    **{"labels": ("music,town", "town,music"), "label_separator": (",", "|")},
    **{"budget": ("1s", "1e6flops"), "mask_rate": ("0.3", "0.3:0.15"), "device": ("v5e-1",)},
    **{"mask_replacements": ("100,0,0", "80,10,10")},
    **{"version": ("1", "12"), "text": ("a river",)},
}
# Stands between values that are words of their own.
_AND = "\0"
# These commands end in a second or two. Each occurs in about as many attempts as it is named.
QUICK = ("vocab", "data", "data", "verify", "features", "features", "predict", "export", "compare")
# These commands would run all the others.
LEFT_OUT = ("demo", "glue")


def _attempt(trial: Trial) -> str:
    generator = trial.generator
    is_whole = generator.random() < 0.8
    others = [name for name in COMMANDS if name not in LEFT_OUT]
    name = generator.choice(QUICK if is_whole else others)
    flags = COMMANDS[name].build_parser().flags
    values: dict[str, str | None] = dict(_sound(trial, name)) if is_whole else {}
    if not is_whole:
        values = {
            flag: known.choices[0] if known.choices else f"{trial.folder}/missing"
            for flag, known in flags.items()
            if known.is_required and generator.random() < 0.97
        }
        if "task" in values:
            values["task"] = "sst-2"
    for flag in generator.sample(sorted(flags), min(len(flags), generator.choice((1, 2, 3, 5)))):
        is_odd = generator.random() < (0.15 if is_whole else 0.8)
        known = flags[flag]
        if is_odd:
            values[flag] = generator.choice((*VALUES, *_places(trial), *(known.choices or ())))
        elif fitting := _fitting(known):
            values[flag] = generator.choice(fitting)
    # A flag without a value gets one only if the attempt is odd.
    words = [
        word
        for flag, value in values.items()
        if flags[flag].is_positional
        for word in (value.split(_AND) if flags[flag].takes_several else [value])
    ]
    words += [
        f"--{flag}" if value is None else f"--{flag}={value}"
        for flag, value in values.items()
        if not flags[flag].is_positional
    ]
    if generator.random() < 0.05:
        words.insert(generator.randrange(len(words) + 1), generator.choice(VALUES))
    # A null byte can't stand in a command line.
    ended = trial.call(name, *(word.replace("\0", "") for word in words))
    return f"{name} ran" if ended.status in (0, 1) else f"{name} refused"


def _fitting(flag: Flag) -> tuple:
    """Returns values that a flag takes; None stands for the flag alone."""
    return tuple(flag.choices or FITTING.get(flag.name, ())) if flag.takes_value else (None,)


def _places(trial: Trial) -> tuple[str, str, str]:
    """Returns a folder, a file and records, in the place of other values."""
    material = trial.material
    return str(trial.folder), f"{material}/vocab.txt", f"{material}/records"


def _sound(trial: Trial, name: str) -> dict[str, str]:
    """Returns flags of a command that runs."""
    material = trial.material
    text = {"input": f"{material}/text/1.jsonl"}
    vocab = {"vocab_file": f"{material}/vocab.txt", "max_seq_length": "24"}
    model = {"model": f"{material}/classifier"}
    (trial.folder / "texts.txt").write_text("a river\nan old song\n")
    flags_of = {
        "vocab": text | {"vocab_size": "300"},
        "data": text | vocab | {"num_shards": "1", "dupe_factor": "1"},
        "verify": {"inputs": f"{material}/records"},
        "features": vocab
        | {"task": "classification", "data_dir": f"{material}/tasks/classification"},
        "predict": model | {"input": f"{trial.folder}/texts.txt"},
        "export": model,
        "compare": {"runs": f"{material}/classifier{_AND}{material}/encoder"},
    }
    return flags_of[name] | {"output": f"{trial.folder}/output"}


FAMILY = Family("flags", 0.24, _attempt)
