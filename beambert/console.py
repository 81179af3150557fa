"""What commands print: errors on one line, durations, and no notices of loading libraries."""

import contextlib
import os
import re
import resource
import select
import sys
import threading
from collections.abc import Callable, Iterator, Sequence

from beambert import interrupts
from beambert.errors import InputError

# `beambert evaluate` of a tiny model had 4.4 GB of addresses, most of them TensorFlow's.
_LEAST_ADDRESSES = 5_000_000_000
# The status that a shell gives a program that SIGPIPE has ended.
_READER_GONE = 141


class _Quiet:
    """Counts the threads that hide stderr right now; all threads share the process's one stderr.

    The first thread saves the descriptor and the last one puts it back. No thread waits for the
    work of another.
    """

    lock = threading.Lock()
    depth = 0
    saved = -1


_quiet = _Quiet()


def interruption(command: str, resumes: bool) -> str:
    """Returns the sentence about a command that a signal has ended."""
    again = "continues it" if resumes else "begins it anew"
    return f"beambert {command}: interrupted; the same command {again}"


def run_main(
    command: str,
    main: Callable[[Sequence[str]], None],
    argv: Sequence[str],
    resumes: bool = False,
) -> int:
    """Runs a command's `main` and returns its exit status.

    An `InputError` becomes one line on stderr and status 2, and so does memory that is used up. An
    interrupt becomes status 130. If nobody reads the output any more, the command ends without a
    word and with status 141. Any other exception is a fault of the program and keeps its traceback.

    Args:
      command: name of the command.
      main: function that runs it.
      argv: arguments of the command.
      resumes: see `Command.resumes`.
    """
    if main.__module__ == "__main__":  # by `python -m` with the module of the command
        interrupts.install()
        interrupts.set_sentence(interruption(command, resumes))
    limit = memory_limit()
    if limit and not {"-h", "--help"}.intersection(argv):
        # Native libraries end a process without a message when its memory is used up.
        print(f"beambert {command}: {limit}", file=sys.stderr, flush=True)
    try:
        _check_words(argv)
        main(argv)
    except InputError as error:
        print(f"beambert {command}: {error}", file=sys.stderr)
        return 2
    except (MemoryError, ImportError) as error:
        # A library that doesn't fit raises the second.
        if not isinstance(error, MemoryError) and "map segment" not in str(error):
            raise
        print(f"beambert {command}: the memory is used up; give it more", file=sys.stderr)
        return 2
    except BrokenPipeError:
        if not _reader_is_gone():
            raise
        return _READER_GONE
    except KeyboardInterrupt:
        print(interruption(command, resumes), file=sys.stderr)
        return 130
    except interrupts.Terminated as end:
        print(interruption(command, resumes), file=sys.stderr)
        return end.code
    return 0


def _reader_is_gone() -> bool:
    """Returns whether nobody reads stdout any more, as in `beambert … | head`, and lets it be."""
    stdout = sys.stdout.fileno()
    poll = select.poll()
    poll.register(stdout, select.POLLOUT)
    if not any(event & select.POLLERR for _, event in poll.poll(0)):
        return False
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stdout)  # Python flushes it once more at its end.
    os.close(nowhere)
    return True


def _check_words(argv: Sequence[str]) -> None:
    """Refuses names that no JSON file and no storage could hold.

    Raises:
      InputError: an argument has a byte that is not UTF-8.
    """
    for word in argv:
        try:
            word.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"{word}: the name is not UTF-8; rename the file") from error


def memory_limit() -> str:
    """Returns the sentence about a limit that is too small for the libraries; "" without one."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY or limit >= _LEAST_ADDRESSES:
        return ""
    return (
        f"this process may have {limit / 1e9:.1f} GB of addresses (ulimit -v), and its libraries "
        f"take up to {_LEAST_ADDRESSES / 1e9:.0f} GB; raise the limit with `ulimit -v unlimited`"
    )


@contextlib.contextmanager
def quiet_stderr() -> Iterator[None]:
    """Hides what native libraries print while they load. Put heavy imports inside.

    TensorFlow logs its probes for CUDA before any log level applies. A failing import still
    raises its exception, so nothing important is hidden.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stderr.flush()
    with _quiet.lock:
        _quiet.depth += 1
        if _quiet.depth == 1:
            _quiet.saved = os.dup(2)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 2)
            os.close(nowhere)
    try:
        yield
    finally:
        with _quiet.lock:
            _quiet.depth -= 1
            if _quiet.depth == 0:
                os.dup2(_quiet.saved, 2)
                os.close(_quiet.saved)


def input_error_in(error: BaseException) -> InputError | None:
    """Returns the `InputError` in a runner's exception, which holds it only as text, or None."""
    text = f"InputError: {error}" if isinstance(error, InputError) else str(error)
    pattern = (
        r"^(?:beambert\.errors\.)?(?:InputError|LostClaimError): "
        r"(.+?)(?: \[while running .*)?$"
    )
    found = re.findall(pattern, text, re.MULTILINE)
    return InputError(found[-1]) if found else None


def counted(count: int, noun: str) -> str:
    """Returns a count with its noun: 1 file, 2,000 files."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def size(number: int) -> str:
    """Formats a number of bytes as people read it: 12 bytes, 3.4 kB, 5.6 MB."""
    if number < 1000:
        return counted(number, "byte")
    return f"{number / 1e3:.1f} kB" if number < 1e6 else f"{number / 1e6:.1f} MB"


def duration(seconds: float) -> str:
    """Formats seconds as people read them: 42 s, 3 min 05 s, 2 h 10 min."""
    seconds = int(seconds + 0.5)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"
