"""Runs every command with every flag at its limits; prints what is not refused with a sentence.

    python -m support.flags_at_their_limits (light|whole) [COMMAND …]

The required flags name what doesn't exist, so that no command does any work. `light` stops a
command where it would load a large library or start a process, so it takes seconds.
"""

import contextlib
import importlib.abc
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import traceback

from beambert.commands import COMMANDS
from beambert.pipelines.verify import STATUS_OF_FAULTS

HEAVY = {"tensorflow", "keras", "apache_beam", "tfx_bsl", "tensorflow_model_analysis", "gradio"}
# An undecodable byte of a command line is a surrogate.
VALUES = ("0", "-1", str(10**12), "1e400", "", "nan", "-inf", "missing/file", "ü文 ", "\udcff")


class TooHeavyError(BaseException):
    """The command has taken all flags and begins its work."""


class Block(importlib.abc.MetaPathFinder):
    """Ends a command that imports a large library."""

    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in HEAVY:
            raise TooHeavyError
        return None


def stop(*_, **__):
    raise TooHeavyError


def given(flags, value_of) -> list[str]:
    """The command line with these values, each flag as it is given."""
    words = [value_of[name] for name in value_of if flags[name].is_positional]
    return words + [f"--{n}={v}" for n, v in value_of.items() if not flags[n].is_positional]


def cases(command, folder):
    """Yields the arguments of a command with one flag after the other at each limit."""
    flags = command.build_parser().flags
    required = {
        n: flag.choices[0] if flag.choices else f"{folder}/missing"
        for n, flag in flags.items()
        if flag.is_required
    }
    if "task" in required:
        required["task"] = "sst-2"
    for name in flags:
        for value in (*VALUES, str(folder), str(folder / "file")):
            yield given(flags, required | {name: value})


def run(command, arguments):
    """Returns the exit status, what the command says on stderr and whether it began its work."""
    error = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(error):
        try:
            return command.run(arguments), error.getvalue()
        except TooHeavyError:
            return None, ""
        except SystemExit as end:
            return end.code, error.getvalue()
        except BaseException:
            return 1, traceback.format_exc()


def is_refused(name, status, error) -> bool:
    """Whether a command ended with one sentence and status 2.

    `verify` took a file that holds no records, and found its faults.
    """
    if (name, status, error) == ("verify", STATUS_OF_FAULTS, ""):
        return True
    return status == 2 and error.count("\n") == 1 and error.startswith(f"beambert {name}: ")


def main():
    mode, *names = sys.argv[1:]
    is_light = mode == "light"
    subprocess.Popen = stop
    if is_light:
        sys.meta_path.insert(0, Block())
    count = 0
    with tempfile.TemporaryDirectory() as root:
        os.chdir(root)
        folder = pathlib.Path(root) / "folder"
        folder.mkdir()
        (folder / "file").write_text("a file")
        for name in names or COMMANDS:
            for arguments in cases(COMMANDS[name], folder):
                count += 1
                status, error = run(COMMANDS[name], arguments)
                is_stopped = status is None
                if not is_stopped and not is_refused(name, status, error):
                    print(ascii([name, *arguments]), status, ascii(error[-600:]))
    print(f"{count} command lines")


if __name__ == "__main__":
    main()
