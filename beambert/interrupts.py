"""How a command ends on Ctrl-C, SIGTERM and SIGHUP: one sentence, and nothing left behind.

Python would raise `KeyboardInterrupt` in the main thread. Libraries lose, wrap or print it there,
and native code delays it. So a thread of its own ends the process: it prints the sentence, undoes
what `undone_at_end` names, and exits with the status that shells give, 128 plus the number of the
signal. The main thread stands still meanwhile.

Whoever sets another handler by `signal.signal`, as the training loop does to save its state first,
decides alone what the signal does.
"""

import contextlib
import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Time in which the process ends, even if something cannot be undone. Beam takes five seconds to end
# a job server that ignores SIGINT, as it does if the shell runs the command in the background.
SECONDS_TO_UNDO = 8.0
# Time in which a process ends whose work is done, even if a thread of a library still waits.
SECONDS_TO_FINISH = 10.0


class Terminated(SystemExit):
    """The process has got SIGTERM or SIGHUP, and its children have ended."""


class _Interruption:
    """The state of this process.

    Attributes:
      stderr: copy of the descriptor of stderr, which `quiet_stderr` may hide; -1 if not installed.
      sentence: what is printed at the end.
      undoing: functions that undo what is not to be left behind.
    """

    stderr = -1
    sentence = "beambert: interrupted; give the same command again"
    undoing: list[Callable[[], object]] = []


def install() -> None:
    """Lets the signals end this process as this module describes; once is enough.

    Call it in the main thread of a process that runs a command. A signal that the process ignores,
    as one in the background of a shell does, or behind `nohup`, stays ignored.
    """
    if _Interruption.stderr >= 0:
        return
    _Interruption.stderr = os.dup(2)
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    # Were it started later, a signal in between would hold the main thread for ever.
    threading.Thread(target=_watch, args=(readable,), daemon=True).start()
    for number in _not_ignored():
        signal.signal(number, _stand_still)


def _not_ignored() -> list[signal.Signals]:
    return [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]


def set_sentence(sentence: str) -> None:
    """Sets what is printed when a signal ends the process."""
    _Interruption.sentence = sentence


@contextlib.contextmanager
def undone_at_end(undo: Callable[[], object]) -> Iterator[None]:
    """Calls a function if a signal ends the process while the body runs.

    The function runs in another thread while the main thread stands still, so it must not wait for
    the main thread. The newest function is called first.
    """
    _Interruption.undoing.append(undo)
    try:
        yield
    finally:
        _Interruption.undoing.remove(undo)


@contextlib.contextmanager
def passed_on(terminate: Callable[[], object]) -> Iterator[None]:
    """Passes the signals on to child processes, and ends only after them.

    Args:
      terminate: function that sends SIGTERM to the children. A terminal's Ctrl-C reaches them, too,
        but a second Ctrl-C would end a training without saving.

    Raises:
      KeyboardInterrupt, Terminated: the process has got SIGINT or another signal, and the body has
        ended.
    """
    received: list[int] = []

    def pass_on(number: int, _: object) -> None:
        received.append(number)
        terminate()

    previous = {number: signal.signal(number, pass_on) for number in _not_ignored()}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        if received:
            interrupt = KeyboardInterrupt()
            raise interrupt if received[0] == signal.SIGINT else Terminated(128 + received[0])


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
    if _Interruption.stderr < 0:
        return
    for number in SIGNALS:
        # From here on Python takes itself apart, and nothing is left to be interrupted.
        signal.signal(number, signal.SIG_IGN)
    code = status if isinstance(status, int) else int(status is not None)
    threading.Thread(target=_end_later, args=(code,), daemon=True).start()


def _end_later(status: int) -> None:
    time.sleep(SECONDS_TO_FINISH)
    os._exit(status)


def _stand_still(*_: object) -> None:
    """Holds the main thread until the process ends."""
    while True:
        time.sleep(SECONDS_TO_UNDO)


def _watch(readable: int) -> None:
    """Ends the process on the first signal that nobody else handles."""
    while received := os.read(readable, 1):
        if signal.getsignal(received[0]) is _stand_still:
            _end(received[0])


def _end(number: int) -> None:
    """Prints the sentence, undoes what is to be undone, and ends the process."""
    with contextlib.suppress(OSError):  # nobody may read it any more
        os.write(_Interruption.stderr, (_Interruption.sentence + "\n").encode())
    with contextlib.suppress(OSError):
        # What other threads print about connections that break is of no use.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    undoing = threading.Thread(target=_undo, daemon=True)
    undoing.start()
    undoing.join(SECONDS_TO_UNDO)
    os._exit(128 + number)


def _undo() -> None:
    if "multiprocessing" in sys.modules:
        for child in sys.modules["multiprocessing"].active_children():
            child.kill()
    for undo in reversed(_Interruption.undoing):
        with contextlib.suppress(Exception):
            undo()
    with contextlib.suppress(Exception):
        sys.stdout.flush()
