"""How a process ends on a signal: at once, with one sentence, whatever its main thread does."""

import os
import signal
import subprocess
import sys
import time

import pytest

# Ready when it prints; then the body runs.
BEGIN = """
import atexit, os, signal, subprocess, sys, threading, time
from beambert import cli, process
process.install()
process.set_message("beambert test: interrupted")
def ready(*what):
    print("ready", *what, flush=True)
"""
SWALLOWS = """
ready()
while True:
    try:
        time.sleep(60)
    except BaseException:
        print("caught", flush=True)
"""
HIDES_STDERR = """
with process.quiet_stderr():
    ready()
    time.sleep(60)
"""
# Waits in native code, as libraries do.
IN_NATIVE_CODE = """
import ctypes
ready()
ctypes.CDLL(None).sleep(60)
"""
WAITS_FOR_A_THREAD = """
threading.Thread(target=time.sleep, args=(60,)).start()
ready()
"""


def start(body, **settings):
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN + body],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **settings,
    )
    line = process.stdout.readline().split()
    assert line[:1] == ["ready"], process.communicate()[1]
    return process, line[1:]


def end(process, *numbers):
    """Sends signals; returns the status and what the process printed from then on."""
    for number in numbers:
        process.send_signal(number)
    status = process.wait(timeout=20)
    return status, process.stdout.read(), process.stderr.read()


@pytest.mark.parametrize(
    "body, numbers, status",
    [
        (SWALLOWS, [signal.SIGTERM], 143),
        (HIDES_STDERR, [signal.SIGHUP], 129),
        (IN_NATIVE_CODE, [signal.SIGINT, signal.SIGINT], 130),
        (WAITS_FOR_A_THREAD, [signal.SIGTERM], 143),
    ],
)
@pytest.mark.usefixtures("heeds_hangup")
def test_a_signal_ends_the_process_at_once(body, numbers, status):
    process, _ = start(body)
    started = time.monotonic()
    assert end(process, *numbers) == (status, "", "beambert test: interrupted\n")
    assert time.monotonic() - started < 5


def test_what_must_not_stay_is_undone_and_what_was_printed_is_not_lost(tmp_path):
    """The newest first, also if one of them fails; nothing of what is over already."""
    body = f"""
def note(text):
    with open({str(tmp_path / "undone")!r}, "a") as file:
        file.write(text)
with process.undone_at_end(lambda: note("over")):
    pass
with process.undone_at_end(lambda: note("1")), process.undone_at_end(lambda: 1 / 0):
    with process.undone_at_end(lambda: note("2")):
        ready()
        sys.stdout.write("in the buffer")
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
"""
    process, _ = start(body)
    status, out, err = end(process)
    assert (status, out, err) == (143, "in the buffer", "beambert test: interrupted\n")
    assert (tmp_path / "undone").read_text() == "21"


def test_nothing_stays_of_a_file_or_folder_that_is_being_written(tmp_path):
    body = f"""
from beambert import io
with (
    io.open_atomically({str(tmp_path / "file")!r}) as file,
    io.temporary_path({str(tmp_path / "folder")!r}) as made,
):
    io.write_bytes(made + "/inner", b"some")
    ready()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
"""
    process, _ = start(body)
    assert end(process)[0] == 143 and os.listdir(tmp_path) == []


def test_another_handler_decides_alone():
    body = """
received = []
signal.signal(signal.SIGTERM, lambda *_: received.append("saved"))
ready()
while not received:
    time.sleep(0.01)
time.sleep(0.5)  # nothing else ends it
print(received)
"""
    process, _ = start(body)
    assert end(process, signal.SIGTERM) == (0, "['saved']\n", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_an_ignored_signal_stays_ignored(number):
    """As of a command that a shell runs in the background, or behind `nohup`."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        process, _ = start("ready()\ntime.sleep(0.5)\nprint('done')")
    finally:
        signal.signal(number, before)
    assert end(process, number) == (0, "done\n", "")


@pytest.mark.parametrize(
    "kept",
    [
        "process.SECONDS_TO_FINISH = 0.5; threading.Thread(target=time.sleep, args=(60,)).start()",
        # As an iterator of TensorFlow, whose thread cannot run any more when it is deleted.
        "kept = type('Kept', (), {'__del__': lambda self, sleep=time.sleep: sleep(60)})()",
    ],
)
def test_nothing_of_a_library_keeps_a_finished_process(kept):
    body = f"{kept}\natexit.register(print, 'end')\nready()\nprocess.finish(3)"
    process, _ = start(body)
    started = time.monotonic()
    assert process.wait(timeout=20) == 3
    assert time.monotonic() - started < 5
    # Libraries have tidied up, unless one of them waits.
    assert process.communicate() == ("" if "Thread" in kept else "end\n", "")


IN_OWN_FOLDER = """
import tempfile
with process.temporary_folder():
    ready(tempfile.mkdtemp())
    sys.stdin.read()
"""


def own_folder(tmp_path):
    process, (inside,) = start(
        IN_OWN_FOLDER, stdin=subprocess.PIPE, env=os.environ | {"TMPDIR": str(tmp_path)}
    )
    return process, inside


def test_no_temporary_folder_stays(tmp_path):
    """Of a process that has ended, one that a signal has ended, and one that was killed."""
    living, inside = own_folder(tmp_path)
    interrupted, _ = own_folder(tmp_path)
    assert end(interrupted, signal.SIGINT)[0] == 130
    killed, left = own_folder(tmp_path)
    end(killed, signal.SIGKILL)
    for folder in map(os.path.dirname, (inside, left)):
        os.utime(folder, (0, 0))
    later, _ = own_folder(tmp_path)
    assert os.path.isdir(inside)  # it is in use
    assert not os.path.isdir(left)
    later.communicate("")
    living.communicate("")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT])
def test_a_signal_while_the_process_prepares_for_it(number):
    """It comes as soon as its handler is there."""
    code = f"""
import os, signal
from beambert import process
set_handler = signal.signal
def set_and_meet(number, handler):
    set_handler(number, handler)
    if number == {int(number)}:
        os.kill(os.getpid(), number)
signal.signal = set_and_meet
process.install()
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 128 + number
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("beambert: interrupted")


def test_what_a_terminal_that_is_gone_would_get_is_dropped():
    """And no more: files get all that is printed."""
    body = """
import pty
terminal, output = pty.openpty()
os.dup2(output, 1)
os.close(output)
os.close(terminal)
process.leave_terminal()
print("lost", flush=True)
print("kept", file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", BEGIN + body], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "kept\n")
