"""Processes of Python that begin with the large libraries loaded, as loading them takes seconds.

`Popen` and `run` are those of `subprocess`, but for a new Python they fork a server, which has
imported the libraries and nothing of BeamBERT. The process has a number, signals, descriptors, an
environment and an exit status of its own, and what it starts itself is forked, too. But it is a
child of the server.

A test of how a process starts, of what it imports or of what it measures needs `subprocess` itself.
"""

import contextlib
import gc
import importlib
import inspect
import json
import os
import runpy
import select
import shlex
import signal
import socket
import subprocess
import sys

LIBRARIES = (
    "tensorflow",
    "keras",
    "tensorflow_text",
    "apache_beam",
    "tensorflow_model_analysis",
)
_LARGEST = 1 << 20
_SECONDS = 0.02  # between looks at whether a process has ended
_OPTIONS = {"-P", "-m", "-c"}
_ORIGINAL = subprocess.Popen
_SIGNATURE = inspect.signature(_ORIGINAL._execute_child)


class _Server:
    """The server of this process and of those that it forks."""

    address: str | None = None
    process: subprocess.Popen | None = None


class Popen(_ORIGINAL):
    """A process that the server forks, or a usual one if it is not of Python."""

    _connection = None

    def _execute_child(self, *arguments):
        given = _SIGNATURE.bind(self, *arguments).arguments
        words = given["args"]
        words = shlex.split(words) if given["shell"] else [os.fspath(word) for word in words]
        if words[0] != sys.executable or not set(words[1:2]) & _OPTIONS:
            return super()._execute_child(*arguments)
        request = {
            "words": words[1:],
            "folder": os.fspath(given["cwd"] or os.getcwd()),
            "environment": dict(os.environ if given["env"] is None else given["env"]),
            "is_new_session": given["start_new_session"],
        }
        ends = [given[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        ends = [number if end == -1 else end for number, end in enumerate(ends)]
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._connection.connect(_address())
        socket.send_fds(
            self._connection, [json.dumps(request).encode()], [*ends, *given["pass_fds"]]
        )
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(given[name] for name in pipes))
        self.pid = int(self._connection.recv(64))
        self._child_created = True

    def _try_wait(self, wait_flags):
        if self._connection is None:
            return super()._try_wait(wait_flags)
        if wait_flags & os.WNOHANG and not select.select([self._connection], [], [], 0)[0]:
            return 0, 0
        with self._connection:
            return self.pid, int(self._connection.recv(64))

    def poll(self):
        if self._connection is None:
            return super().poll()
        if self.returncode is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.wait(0)
        return self.returncode


def run(arguments, *, check=False, capture_output=False, **settings):
    """Is `subprocess.run`, without its rarer arguments."""
    if capture_output:
        settings |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Popen(arguments, **settings) as process:
        out, error = process.communicate()
    done = subprocess.CompletedProcess(process.args, process.returncode, out, error)
    if check:
        done.check_returncode()
    return done


def kill_all() -> None:
    """Kills all processes that are forked from the server, as the loss of their machine does."""
    if _Server.process is None:
        return
    server = _Server.process.pid
    with open(f"/proc/{server}/task/{server}/children") as children:
        for pid in children.read().split():
            os.kill(int(pid), signal.SIGKILL)


def _address() -> str:
    """Returns where the server listens; the first call starts it, and it ends with this process."""
    if _Server.address is None:
        environment = {"TF_CPP_MIN_LOG_LEVEL": "3"} | os.environ | {"CUDA_VISIBLE_DEVICES": "-1"}
        _Server.process = _ORIGINAL(
            [sys.executable, "-P", __file__, *LIBRARIES],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        _Server.address = "\0" + _Server.process.stdout.readline().strip()
    return _Server.address


def _serve() -> tuple[dict, list[int]]:
    """Forks for each request until stdin is closed.

    Returns:
      the request and its descriptors, in the new process alone.
    """
    for name in sys.argv[1:]:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(f"\0beambert-tests-{os.getpid()}")
    listening.listen(64)
    print(listening.getsockname()[1:].decode(), flush=True)
    _Server.address = listening.getsockname()
    connections = {}
    while True:
        ready, _, _ = select.select([0, listening], [], [], _SECONDS if connections else None)
        if 0 in ready:
            os._exit(0)
        if ready:
            connection, _ = listening.accept()
            request, descriptors, _, _ = socket.recv_fds(connection, _LARGEST, 16)
            pid = os.fork()
            if not pid:
                for other in (listening, connection, *connections.values()):
                    other.close()
                return json.loads(request), descriptors
            for descriptor in descriptors:
                os.close(descriptor)
            connections[pid] = connection
            connection.send(str(pid).encode())
        while connections:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            with connections.pop(pid) as connection, contextlib.suppress(OSError):
                connection.send(str(status).encode())


def _become(request: dict, descriptors: list[int]) -> None:
    """Makes this process the one that was asked for, and runs its module or code."""
    subprocess.Popen = Popen
    if request["is_new_session"]:
        os.setsid()
    for number, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, number)
        os.close(descriptor)
    # The server's own streams remember whether they could be positioned.
    sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))  # noqa: SIM115
    for descriptor in descriptors[3:]:
        os.set_inheritable(descriptor, True)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    words = request["words"]
    is_safe = words[0] == "-P"
    kind, what, *arguments = words[is_safe:]
    if not is_safe:
        sys.path.insert(0, os.getcwd() if kind == "-m" else "")
    sys.argv = [kind, *arguments]
    if kind == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    _become(*_serve())
