"""What a command does with its process: how it loads libraries, and how it ends.

On Ctrl-C, SIGTERM and SIGHUP a command prints one message and leaves nothing behind. Python would
raise `KeyboardInterrupt` in the main thread, where libraries lose, wrap or print it and native code
delays it. So another thread ends the process: it prints the message, calls what `undone_at_end`
names, and exits with the status that shells give, 128 plus the number of the signal. The main
thread waits meanwhile. Whoever sets another handler by `signal.signal`, as the training loop does
to save its state first, decides alone what the signal does.
"""

import atexit
import contextlib
import ctypes
import errno
import fcntl
import gc
import importlib.util
import io
import logging
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence

from beambert.errors import InputError, one_line

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Time in which the process ends, even if something cannot be undone.
SECONDS_TO_UNDO = 8.0
# Time in which a process ends whose work is done, even if a thread of a library still waits.
SECONDS_TO_FINISH = 10.0
_TEMPORARY_PREFIX = "beambert-run-"
# Time in which a process has locked the temporary folder that it has made.
_SECONDS_TO_LOCK = 60.0
# Errors of a disk without space, of a user who has used up his share, or of `ulimit -f`.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Variables of malloc in glibc, and options of mallopt(3): no array is mapped, of what is freed all
# is kept but the end beyond 2 GB, and the threads share it.
_KEEPING_MEMORY = {
    "MALLOC_MMAP_MAX_": (-4, 0),
    "MALLOC_TRIM_THRESHOLD_": (-1, 2**31 - 1),
    "MALLOC_ARENA_MAX": (-8, 1),
}
# Keras and the client of BigQuery import these where they are installed. Each takes half a second,
# and no command uses them.
_NOT_USED = ("matplotlib", "IPython")


# The end of a process


class Terminated(SystemExit):
    """The process has received SIGTERM or SIGHUP, and its children have ended."""


class _Ending:
    """How this process ends.

    Attributes:
      stderr: copy of the descriptor of stderr, which `quiet_stderr` may hide; -1 if not installed.
      message: what is printed at the end.
      undoing: functions that undo what is not to be left behind.
      status: exit status of a process whose work is done.
    """

    stderr = -1
    message = "beambert: interrupted; run the same command again"
    undoing: list[Callable[[], object]] = []
    status: int | None = None


def install() -> None:
    """Lets the signals end this process as this module describes, and malloc keep freed memory.

    Once is enough. Call it in the main thread of a process that runs a command. A signal that the
    process ignores, as one in the background of a shell does, or behind `nohup`, stays ignored.
    """
    if _Ending.stderr >= 0:
        return
    atexit.register(_exit)  # It comes last, after what the libraries register.
    keep_freed_memory()  # before the first thread, which would get memory of its own
    _open_closed_streams()
    sys.stdout, sys.stderr = _Printed(sys.stdout), _Printed(sys.stderr)
    _Ending.stderr = os.dup(2)
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    # If it were started later, a signal in between would hold the main thread for ever.
    threading.Thread(target=_watch, args=(readable,), daemon=True).start()
    for number in _not_ignored():
        signal.signal(number, _wait_for_end)


def _open_closed_streams() -> None:
    """Opens a standard stream that a shell has closed, as `2>&-` does; its output goes nowhere."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, open(number, "w" if number else "r"))  # noqa: SIM115


class _Printed(io.TextIOWrapper):
    """A standard stream whose control characters are written out, so that no terminal obeys them.

    Names of files, texts and labels may have some.
    """

    def __init__(self, stream: io.TextIOWrapper):
        super().__init__(
            stream.buffer,
            stream.encoding,
            "backslashreplace",
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        self._kept = stream  # It would close their buffer.

    def write(self, text: str) -> int:
        """Writes a text, of which only the line ends are kept."""
        return super().write("\n".join(map(one_line, text.split("\n"))))


def _not_ignored() -> list[signal.Signals]:
    return [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]


def set_message(message: str) -> None:
    """Sets what is printed when a signal ends the process."""
    _Ending.message = message


@contextlib.contextmanager
def undone_at_end(undo: Callable[[], object]) -> Iterator[None]:
    """Calls a function if a signal ends the process while the body runs.

    The function runs in another thread while the main thread waits, so it must not wait for the
    main thread. The newest function is called first.
    """
    _Ending.undoing.append(undo)
    try:
        yield
    finally:
        _Ending.undoing.remove(undo)


def leave_terminal() -> None:
    """Drops what is printed to a terminal from now on, which fails once that is gone."""
    for output in (1, 2):
        if stat.S_ISCHR(os.fstat(output).st_mode):
            os.dup2(os.open(os.devnull, os.O_WRONLY), output)


def finish(status: object) -> None:
    """Makes sure that the process ends soon, now that its work is done.

    Args:
      status: exit status, as `sys.exit` takes it.
    """
    if _Ending.stderr < 0:
        return
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # Nothing is left to be interrupted.
    _Ending.status = status if isinstance(status, int) else int(status is not None)

    def end_later() -> None:
        time.sleep(SECONDS_TO_FINISH)
        os._exit(_Ending.status)

    with contextlib.suppress(RuntimeError):  # There is no memory for a thread.
        threading.Thread(target=end_later, daemon=True).start()


def _exit() -> None:
    """Ends a process whose work is done before Python deletes its objects.

    Those of TensorFlow may then wait for a thread that waits for Python, for ever.
    """
    if _Ending.status is not None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):
                stream.flush()
        os._exit(_Ending.status)


def _wait_for_end(*_: object) -> None:
    while True:
        time.sleep(SECONDS_TO_UNDO)


def _watch(readable: int) -> None:
    """Ends the process on the first signal that nobody else handles."""
    while received := os.read(readable, 1):
        if signal.getsignal(received[0]) is not _wait_for_end:
            continue
        with contextlib.suppress(OSError):  # Nobody may read it any more.
            os.write(_Ending.stderr, (_Ending.message + "\n").encode())
            # What other threads print about connections that break is of no use.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        undoing = threading.Thread(target=_undo, daemon=True)
        try:
            undoing.start()
            undoing.join(SECONDS_TO_UNDO)
        except RuntimeError:  # Python 3.12 starts none while it waits for the last threads.
            _undo()
        os._exit(128 + received[0])


def _undo() -> None:
    # A child that lives on may make again what is deleted here.
    for children in pathlib.Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in children.read_text().split():
                os.kill(int(child), signal.SIGKILL)
    for undo in reversed(_Ending.undoing):
        with contextlib.suppress(Exception):
            undo()
    with contextlib.suppress(Exception):
        sys.stdout.flush()


# Temporary files and memory


@contextlib.contextmanager
def temporary_folder() -> Iterator[None]:
    """Lets `tempfile` use a folder of this process alone, which is deleted at the end.

    Folders that killed processes have left are deleted first. A process locks its own as long as it
    lives.
    """
    before = tempfile.tempdir
    _delete_left(tempfile.gettempdir())
    folder = tempfile.mkdtemp(prefix=_TEMPORARY_PREFIX)
    lock = os.open(folder, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    tempfile.tempdir = folder

    def delete() -> None:
        shutil.rmtree(folder, ignore_errors=True)

    try:
        with undone_at_end(delete):
            yield
    finally:
        tempfile.tempdir = before
        delete()
        os.close(lock)


def _delete_left(parent: str) -> None:
    """Deletes the temporary folders that killed processes of this user have left in a folder."""
    for folder in pathlib.Path(parent).glob(f"{_TEMPORARY_PREFIX}*"):
        with contextlib.suppress(OSError):
            found = folder.stat()
            is_new = time.time() - found.st_mtime < _SECONDS_TO_LOCK
            if is_new or found.st_uid != os.getuid():
                continue
            lock = os.open(folder, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def more_space() -> str:
    """Returns the advice to a user whose folder for temporary files is full."""
    folder = pathlib.Path(tempfile.gettempdir())
    parent = folder.parent if folder.name.startswith(_TEMPORARY_PREFIX) else folder
    return f"free some space in {parent}, or name another folder in the environment variable TMPDIR"


def free_bytes(root: str = "/") -> int | None:
    """Returns the memory that this process can still take; None if the system does not say.

    That is what the machine has available, or what the limit of the container leaves if that is
    less.

    Args:
      root: folder with `proc` and `sys`.
    """
    found = [_number(pathlib.Path(root, "proc/meminfo"), r"MemAvailable:\s+(\d+)")]
    found = [kilobytes * 1024 for kilobytes in found if kilobytes is not None]
    for folder, limit_file, used_file in (  # control groups of version 2 and 1
        ("", "memory.max", "memory.current"),
        ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        group = pathlib.Path(root, "sys/fs/cgroup", folder)
        limit, used = _number(group / limit_file), _number(group / used_file)
        if limit is not None and used is not None:
            # The system gives back the cache of files before it refuses memory.
            cache = _number(group / "memory.stat", r"^(?:total_)?inactive_file (\d+)$") or 0
            found.append(max(limit - used + cache, 0))
    return min(found, default=None)


def _number(path: pathlib.Path, pattern: str = r"^(\d+)$") -> int | None:
    try:
        found = re.search(pattern, path.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) if found else None


# Loading libraries


class _Quiet:
    """Counts the threads that hide stderr; all threads share the process's one stderr.

    The first thread saves the descriptor and the last one puts it back.
    """

    lock = threading.Lock()
    depth = 0
    saved = -1


@contextlib.contextmanager
def quiet_stderr() -> Iterator[None]:
    """Hides what native libraries print while they load.

    TensorFlow logs its search for CUDA before any log level applies. A failing import still raises
    its exception, so nothing important is hidden.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if _TPU_VARIABLES[0] in os.environ:
        yield  # libtpu ends the process where another one has the chips, and must be heard
        return
    sys.stderr.flush()
    with _Quiet.lock:
        _Quiet.depth += 1
        if _Quiet.depth == 1:
            _Quiet.saved = os.dup(2)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 2)
            os.close(nowhere)
    try:
        yield
    finally:
        with _Quiet.lock:
            _Quiet.depth -= 1
            if _Quiet.depth == 0:
                os.dup2(_Quiet.saved, 2)
                os.close(_Quiet.saved)


# TensorFlow loads libtpu by these at its import, which takes the chips for the life of the process.
_TPU_VARIABLES = (
    *("PJRT_DEVICE", "NEXT_PLUGGABLE_DEVICE_USE_C_API", "TF_PLUGGABLE_DEVICE_LIBRARY_PATH"),
)
_NO_LIBTPU = "TPU_LOAD_LIBRARY"
_held_for_children: dict[str, str] = {}


def leave_chips_to_children() -> None:
    """Keeps TensorFlow from taking a TPU's chips in this process; call it before the import."""
    if _TPU_VARIABLES[0] in os.environ:
        found = {name: os.environ.pop(name) for name in _TPU_VARIABLES if name in os.environ}
        _held_for_children.update(found)
        os.environ[_NO_LIBTPU] = "0"


@contextlib.contextmanager
def chips_for_children() -> Iterator[None]:
    """Lets a process that is started in the body have the chips."""
    if not _held_for_children:
        yield
        return
    os.environ.update(_held_for_children)
    del os.environ[_NO_LIBTPU]
    try:
        yield
    finally:
        leave_chips_to_children()


def run_apart(arguments: Sequence[str]) -> int:
    """Runs `beambert` in a process of its own; returns its exit status, negative for a signal.

    A signal to this process is passed on, so that the command saves its state before both end.

    Args:
      arguments: name of the command, and its arguments.

    Raises:
      KeyboardInterrupt, Terminated: this process has received SIGINT or another signal, and the
        command has ended.
    """
    received: list[int] = []

    def pass_on(number: int, _: object) -> None:
        # A terminal's Ctrl-C reaches the child, too, but a second one would end a training without
        # saving.
        received.append(number)
        child.terminate()

    with chips_for_children():
        child = subprocess.Popen([sys.executable, "-P", "-m", "beambert", *arguments])
    with child:
        previous = {number: signal.signal(number, pass_on) for number in _not_ignored()}
        try:
            status = child.wait()
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
    if received:
        raise KeyboardInterrupt if received[0] == signal.SIGINT else Terminated(128 + received[0])
    return status


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Makes imports quiet and quick. Import TensorFlow, Keras and Beam in its body.

    What libraries print to stderr while they load is hidden. An import makes hundreds of thousands
    of objects that stay, so the garbage collector waits; it took a third of a second each time. In
    a process that runs a command it does not look at them later either. A failing import still
    raises.
    """
    is_collecting, is_command = gc.isenabled(), _Ending.stderr >= 0
    gc.disable()
    try:
        # Beam adds filters of its own to those of warnings.
        with warnings.catch_warnings(), quiet_stderr(), hidden(*_NOT_USED if is_command else ()):
            yield
    finally:
        if is_collecting:
            if is_command:
                gc.freeze()
            gc.enable()


@contextlib.contextmanager
def needs(flag: str, packages: str, extra: str) -> Iterator[None]:
    """Raises InputError if the body cannot import the packages of an extra, which a flag needs."""
    try:
        yield
    except ImportError as error:
        raise InputError(
            f"{flag}: needs {packages}; install it with `pip install -e '.[{extra}]'`, also for "
            "workers elsewhere"
        ) from error


def is_installed(library: str) -> bool:
    """Returns whether a library can be imported; a folder with its name does not count."""
    if library in sys.modules:
        return sys.modules[library] is not None
    found = importlib.util.find_spec(library)
    return found is not None and found.origin is not None


@contextlib.contextmanager
def hidden(*names: str) -> Iterator[None]:
    """Makes libraries that are not loaded yet look as if they were not installed."""
    absent = [name for name in names if name not in sys.modules]
    # Importing a module that is None here fails, and whoever wants one of these is ready for that.
    sys.modules.update(dict.fromkeys(absent))
    try:
        yield
    finally:
        for name in absent:
            sys.modules.pop(name, None)  # Of two threads, the first to end removes it.


@contextlib.contextmanager
def logging_restored() -> Iterator[None]:
    """Undoes what TensorFlow and Beam change in logging; a decorator of functions, too.

    The library absl adds a handler to a root logger that has none as soon as it logs anything.
    Writing a SavedModel changes the level of absl's logger.
    """
    root, absl = logging.root, logging.getLogger("absl")
    handlers, level = list(root.handlers), absl.level
    try:
        yield
    finally:
        for handler in [added for added in root.handlers if added not in handlers]:
            root.removeHandler(handler)
        absl.setLevel(level)


def keep_freed_memory() -> None:
    """Makes glibc's malloc keep freed memory for later use, here and in the children.

    By default large arrays are mapped and given back one by one, so that the system clears all
    pages of a training step's arrays in each step, which takes up to a third of the time.
    """
    libc = ctypes.CDLL(None)
    for name, (option, value) in _KEEPING_MEMORY.items():
        if name not in os.environ and hasattr(libc, "mallopt"):
            libc.mallopt(option, value)
            os.environ[name] = str(value)
