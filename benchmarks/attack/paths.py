"""Odd names and kinds of files in the place of every input and output."""

import os
import pathlib
import shutil

from benchmarks.attack.material import DATA
from benchmarks.attack.trials import Ended, Family, Trial

NAMES = (
    "a b", "it's", 'say "a"', "line\nfeed", "tab\t", "ünïcode 文", "x" * 200, "x" * 300, "*",
    "[a]", "?", "a,b", "-a", "--help", "~", "$HOME", "a;b", "a|b", "%s", "{0}", "\udcff", ".",
    "..", ".hidden", "a\\b", "<b>&", "a/" * 100 + "b", "gs:", "file:", "nul\x01", "é" * 120, " ",
    "a ", "\u202e",
)  # fmt: skip
NOBODY = 65534


def _attempt(trial: Trial) -> str:
    generator = trial.generator
    command = generator.choice(("vocab", "data", "data", "verify", "features"))
    sound = {
        "input": trial.material / "corpora" / "rows.jsonl",
        "vocab_file": trial.material / "vocab.txt",
        "records": trial.material / "records",
        "data_dir": trial.material / "tasks" / "classification",
        "output": trial.folder / "output",
    }
    reads = {
        "vocab": ["input"],
        "data": ["input", "vocab_file"],
        "verify": ["records"],
        "features": ["data_dir", "vocab_file"],
    }
    flag = generator.choice([*reads[command], "output"])
    place = trial.folder / "odd"
    place.mkdir()
    value = _odd(trial, place, sound[flag], flag == "output")
    values = sound | {flag: value}
    flags = {
        "vocab": [f"--input={values['input']}", "--vocab_size=200"],
        "data": [f"--input={values['input']}", f"--vocab_file={values['vocab_file']}", *DATA],
        "verify": [str(values["records"])],
        "features": [
            *("--task=classification", f"--data_dir={values['data_dir']}"),
            f"--vocab_file={values['vocab_file']}",
        ],
    }
    arguments = [command, *flags[command], f"--output={values['output']}"]
    if flag == "output" and generator.random() < 0.2 and os.getuid() == 0:
        return _as_nobody(trial, place, arguments)
    return _outcome(trial.call(*arguments))


def _outcome(ended: Ended) -> str:
    return "used" if ended.status in (0, 1) else "refused"


def _odd(trial: Trial, place: pathlib.Path, sound: pathlib.Path, is_output: bool) -> str:
    """Returns an odd path, at which the sound file or folder stands if that is possible."""
    generator = trial.generator
    kind = generator.choice(
        ("name", "name", "name", "fifo", "loop", "zero", "dangling", "link", "file", "folder")
    )
    path = place / "odd"
    if kind == "name":
        path = f"{place}/{generator.choice(NAMES)}"
        try:
            if not is_output and not os.path.lexists(path):
                os.makedirs(os.path.dirname(path), exist_ok=True)
                (shutil.copytree if sound.is_dir() else shutil.copy)(sound, path)
        except OSError:
            pass
        return path
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "file":
        path.write_bytes(generator.choice((b"", b"a\n", b"\0" * 5000)))
    elif kind == "folder":
        path.mkdir()
        (path / "thesis.tex").write_text("mine")
    else:
        target = {"loop": path, "zero": "/dev/zero", "dangling": place / "gone", "link": sound}[
            kind
        ]
        if kind == "link" and is_output:
            target = place / "target"
            target.mkdir()
        path.symlink_to(target)
    return str(path)


def _as_nobody(trial: Trial, place: pathlib.Path, arguments: list[str]) -> str:
    """Runs the command as a user who may not write there."""
    for path in (trial.temporary, trial.folder / "out"):
        path.mkdir(exist_ok=True)
        os.chown(path, NOBODY, NOBODY)
    for name in ("stdout.log", "stderr.log", "command.txt"):
        (trial.folder / name).touch()
        os.chown(trial.folder / name, NOBODY, NOBODY)
    os.seteuid(NOBODY)
    try:
        return _outcome(trial.call(*arguments))
    finally:
        os.seteuid(0)


FAMILY = Family("paths", 0.06, _attempt)
