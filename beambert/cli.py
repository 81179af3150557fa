"""`beambert COMMAND …`: lists the commands, or runs one and imports only what it needs."""

import contextlib
import dataclasses
import errno
import importlib
import os
import select
import sys
from collections.abc import Callable, Sequence

from beambert import process
from beambert.errors import InputError
from beambert.flags import FlagParser, meant
from beambert.io import check_utf8

# The status that a shell gives a program that SIGPIPE has ended.
_READER_GONE = 141
# What limits of the machine raise, among others.
_OF_MACHINE = (OSError, MemoryError, ImportError, RuntimeError)


@dataclasses.dataclass(frozen=True)
class Command:
    """A command. Its module is imported only when its flags are needed or it runs.

    Attributes:
      name: word after `beambert` on the command line.
      about: description for the list of commands.
      module: module that has `build_parser() -> FlagParser` and `main(argv) -> None`.
      resumes: True if the command, interrupted, continues what it has begun; the other commands
        begin anew.
    """

    name: str
    about: str
    module: str
    resumes: bool = False

    def build_parser(self) -> FlagParser:
        """Returns the parser of the command's flags."""
        return importlib.import_module(self.module).build_parser()

    def run(self, arguments: Sequence[str]) -> int:
        """Runs the command and returns its exit status."""
        process.set_message(interruption(self.name, self.resumes))
        main = importlib.import_module(self.module).main
        return run_main(self.name, main, arguments, self.resumes)


# The commands, in the order of the path from text to a served model.
_TABLE = (
    Command(
        "train",
        "text -> encoder in a given time, by the commands below",
        "beambert.training",
        resumes=True,
    ),
    Command(
        "vocab", "corpus -> vocabulary or tokenizer (Beam)", "beambert.pipelines.create_vocabulary"
    ),
    Command(
        "data",
        "corpus -> pre-training records (Beam)",
        "beambert.pipelines.create_pretraining_data",
    ),
    Command(
        "verify", "records -> statistics, faults and warnings (Beam)", "beambert.pipelines.verify"
    ),
    Command("pretrain", "records -> encoder", "beambert.trainer.commands.pretrain", resumes=True),
    Command(
        "finetune", "encoder + task -> model", "beambert.trainer.commands.finetune", resumes=True
    ),
    Command("glue", "encoder -> all of GLUE", "beambert.trainer.commands.glue", resumes=True),
    Command("evaluate", "model + task -> metrics, blessing (Beam)", "beambert.pipelines.evaluate"),
    Command("predict", "model + texts -> answers (Beam)", "beambert.pipelines.predict"),
    Command("fill", "encoder + texts -> what stands at [MASK]", "beambert.trainer.commands.fill"),
    Command("score", "encoder + texts -> how likely they are", "beambert.trainer.commands.score"),
    Command(
        "embed",
        "encoder + texts -> embeddings in Parquet files",
        "beambert.embedding",
        resumes=True,
    ),
    Command(
        "index", "embeddings -> an index of them and of words", "beambert.trainer.commands.index"
    ),
    Command("search", "index + queries -> passages", "beambert.trainer.commands.search"),
    Command(
        "judge",
        "index + judged queries -> nDCG, MRR, MAP, recall",
        "beambert.trainer.commands.judge",
    ),
    Command("compare", "models -> settings, results, curves", "beambert.trainer.commands.compare"),
    Command(
        "explore",
        "text, records, models -> a local page to look inside",
        "beambert.explore.command",
    ),
    Command("export", "model -> SavedModel on raw text", "beambert.trainer.commands.export"),
    Command(
        "retrain",
        "new files -> a new served version, if it is better",
        "beambert.deploy.retraining.command",
        resumes=True,
    ),
    Command(
        "demo", "all of the above on text that every machine has", "beambert.demo.run", resumes=True
    ),
)
COMMANDS = {command.name: command for command in _TABLE}


def usage() -> str:
    """Returns the help text, a list of the commands."""
    lines = "".join(f"  {name:<10}{command.about}\n" for name, command in COMMANDS.items())
    return (
        "usage: beambert COMMAND …\n\n"
        "From your own text to a BERT that is pre-trained, fine-tuned, evaluated and exported.\n\n"
        f"commands:\n{lines}\n"
        "`beambert COMMAND --help` lists a command's flags, with examples.\n"
        "`beambert --version` prints the version."
    )


def version() -> str:
    """Returns the installed version."""
    import importlib.metadata

    return importlib.metadata.version("beambert")


def main() -> int:
    """Runs the command of the command line as the work of this process; returns its exit status.

    It ends the process on signals, and soon after it returns; see `process`.
    """
    status: object = 1
    try:
        process.install()
        status = run(sys.argv[1:])
        sys.stdout.flush()
        return status
    except _OF_MACHINE as error:
        status = _status_of(error, "beambert")
        return status
    except SystemExit as end:
        status = end.code
        raise
    finally:
        process.finish(status)


def run(arguments: Sequence[str]) -> int:
    """Runs a command and returns its exit status.

    Args:
      arguments: name of the command, and its arguments.
    """
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    name, *rest = arguments
    if name == "--version":
        print(f"beambert {version()}")
        return 0
    if name not in COMMANDS:
        nearest = meant(name, COMMANDS)
        advice = f"did you mean {nearest}?" if nearest else "see beambert --help"
        print(f"beambert: no command {name!r}; {advice}", file=sys.stderr)
        return 2
    with process.temporary_folder():
        return COMMANDS[name].run(rest)


def interruption(command: str, resumes: bool) -> str:
    """Returns the message about a command that a signal has ended."""
    again = "continues it" if resumes else "begins it anew"
    return f"beambert {command}: interrupted; the same command {again}"


def run_main(
    command: str,
    main: Callable[[Sequence[str]], None],
    argv: Sequence[str],
    resumes: bool = False,
) -> int:
    """Runs a command's `main` and returns its exit status.

    An `InputError` becomes one line on stderr and status 2, and so does a limit of the machine. An
    interrupt becomes status 130. If nobody reads the output any more, the command ends without a
    word and with status 141. Any other exception is a fault of the program and keeps its traceback.

    Args:
      command: name of the command.
      main: function that runs it.
      argv: arguments of the command.
      resumes: see `Command.resumes`.
    """
    if main.__module__ == "__main__":  # by `python -m` with the module of the command
        process.install()
        process.set_message(interruption(command, resumes))
    try:
        for word in argv:
            check_utf8(word)
        main(argv)
    except InputError as error:
        print(f"beambert {command}: {error}", file=sys.stderr)
        return 2
    except _OF_MACHINE as error:
        return _status_of(error, f"beambert {command}")
    except KeyboardInterrupt:
        print(interruption(command, resumes), file=sys.stderr)
        return 130
    except process.Terminated as end:
        print(interruption(command, resumes), file=sys.stderr)
        return end.code
    return 0


def _status_of(error: Exception, name: str) -> int:
    """Returns the exit status of a command that a limit of the machine has ended.

    It prints the message about that, with a name before it. If nobody reads the output any more, as
    in `beambert … | head`, there is none. Any other error is raised again.
    """
    if isinstance(error, BrokenPipeError) and _reader_is_gone():
        return _READER_GONE
    if (fault := _fault_of_machine(error)) is None:
        raise error
    print(f"{name}: {fault}", file=sys.stderr)
    return 2


def _fault_of_machine(error: Exception) -> str | None:
    """Returns the message about memory, a disk or a limit of the system; None for another error."""
    # A library that doesn't fit is no MemoryError.
    if isinstance(error, MemoryError) or "map segment" in str(error):
        return "the memory is used up; give it more"
    if "can't start new thread" in str(error):
        return "no thread can be started; raise the limit of `ulimit -u`, or of the container"
    if not isinstance(error, OSError):
        return None
    where = error.filename or "stdout, or a temporary file"
    if error.errno in process.FULL:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        _drop_stdout()
        return f"{where}: cannot be written ({error.strerror}); {process.more_space()}"
    if error.errno in (errno.EIO, errno.ESTALE):
        return f"{where}: cannot be read or written ({error.strerror}); check the disk"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return f"{where}: cannot be opened ({error.strerror}); raise the limit of `ulimit -n`"
    return None


def _drop_stdout() -> None:
    """Sends what is left for stdout nowhere; Python flushes it once more at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _reader_is_gone() -> bool:
    """Returns whether nobody reads stdout any more, as in `beambert … | head`, and lets it be."""
    stdout = sys.stdout.fileno()
    poll = select.poll()
    poll.register(stdout, select.POLLOUT)
    if not any(event & select.POLLERR for _, event in poll.poll(0)):
        return False
    _drop_stdout()
    return True
