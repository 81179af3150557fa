"""How many requests does a server of deploy/serving answer, and how long does each wait?

    python -m benchmarks.serving --model=serving --mlserver=.venv-serving/bin/mlserver \\
        --texts='dev.tsv'

Starts the server with the settings of deploy/serving, with dynamic batching and without, and sends
it single texts from one client and from several at once, each of which waits for its answer before
it sends the next. Server and clients share the machine. Prints requests a second and the median and
the 99th percentile of the time that a request takes.
"""

import concurrent.futures
import contextlib
import http.client
import itertools
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence

import numpy as np

from beambert.deploy.serving.client import request_of
from beambert.errors import InputError
from benchmarks import measuring

_SERVING = pathlib.Path(__file__).parent.parent / "deploy" / "serving"
_PATIENCE = 120  # Seconds for the server to load its model.


def free_port() -> int:
    """Returns a port that nobody listens to."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@contextlib.contextmanager
def server(mlserver: str, model: str, max_batch_size: int) -> Iterator[int]:
    """Runs a server; gives its port once it has loaded the model.

    Raises:
      InputError: it does not get ready.
    """
    with tempfile.TemporaryDirectory() as folder:
        app = pathlib.Path(folder)
        shutil.copy(_SERVING / "runtime.py", app)
        settings = json.loads((_SERVING / "settings.json").read_text())
        ports = {name: free_port() for name in ("http_port", "grpc_port", "metrics_port")}
        (app / "settings.json").write_text(json.dumps(settings | {"host": "127.0.0.1"} | ports))
        of_model = json.loads((_SERVING / "model-settings.json").read_text())
        of_model["parameters"]["uri"] = os.path.abspath(model)
        of_model["max_batch_size"] = max_batch_size
        (app / "model-settings.json").write_text(json.dumps(of_model))
        with (app / "log").open("w") as log:
            process = subprocess.Popen([mlserver, "start", folder], stdout=log, stderr=log, cwd=app)
        try:
            _wait(process, ports["http_port"], app / "log")
            yield ports["http_port"]
        finally:
            process.terminate()
            process.wait()


def _wait(process: subprocess.Popen, port: int, log: pathlib.Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        with contextlib.suppress(OSError):
            connection.request("GET", "/v2/models/beambert/ready")
            if connection.getresponse().status == 200:
                return
        connection.close()
        time.sleep(0.5)
    raise InputError(f"--mlserver: the server did not get ready; its log ends: {_end(log)}")


def _end(log: pathlib.Path) -> str:
    return log.read_text(errors="replace")[-500:]


def latencies(
    port: int, name: str, texts: Sequence[str], seconds: float, first: int
) -> list[float]:
    """Returns the seconds of each request of a client that asks for some time.

    Raises:
      InputError: a request was refused.
    """
    connection, found = http.client.HTTPConnection("127.0.0.1", port), []
    headers = {"Content-Type": "application/json"}
    end = time.perf_counter() + seconds
    for number in itertools.count(first):
        started = time.perf_counter()
        if started > end:
            return found
        body = json.dumps(request_of({name: [texts[number % len(texts)]]}))
        connection.request("POST", "/v2/models/beambert/infer", body, headers)
        response = connection.getresponse()
        answer = response.read()
        if response.status != 200:
            raise InputError(f"--model: the server refused a request ({answer.decode()[:200]})")
        found.append(time.perf_counter() - started)
    raise AssertionError


def measured(
    port: int, name: str, texts: Sequence[str], clients: int, seconds: float
) -> dict[str, float]:
    """Returns requests a second and milliseconds a request of some clients at once."""
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        begun = time.perf_counter()
        # Each client begins at another text.
        starts = [len(texts) * number // clients for number in range(clients)]
        of_clients = [pool.submit(latencies, port, name, texts, seconds, at) for at in starts]
        found = np.concatenate([client.result() for client in of_clients])
        took = time.perf_counter() - begun
    p50, p99 = 1000 * np.percentile(found, (50, 99))
    return {
        "requests_per_second": round(len(found) / took, 1),
        "p50_milliseconds": round(p50, 1),
        "p99_milliseconds": round(p99, 1),
    }


def main(argv: Sequence[str]) -> None:
    """Serves, asks and prints.

    Raises:
      InputError: a flag cannot be used, or the server does not answer.
    """
    parser = measuring.flag_parser("serving", __doc__)
    add = parser.add_argument
    add("--model", required=True, metavar="DIR", help="folder of exported versions, or one of them")
    add("--mlserver", default="mlserver", metavar="FILE", help="the program of MLServer")
    add("--texts", required=True, nargs="+", metavar="GLOB", help="files; each line is a text")
    add("--input_name", default="text", help="input of the model (default: %(default)s)")
    add("--clients", nargs="+", type=int, default=[1, 8], help="default: %(default)s")
    add(
        "--seconds",
        type=float,
        default=20.0,
        help="seconds of each measurement (default: %(default)s)",
    )
    measuring.add_results_flag(parser)
    flags = parser.parse_args(list(argv))
    found = shutil.which(flags.mlserver)
    if not found:
        raise InputError(
            f"--mlserver={flags.mlserver}: cannot be run; `make .venv-serving/.installed` makes it"
        )
    mlserver = os.path.abspath(found)  # It starts in another folder.
    lines = (
        line.strip()
        for path in measuring.files_of("--texts", flags.texts)
        for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines()
    )
    texts = [line for line in lines if line]
    batch = json.loads((_SERVING / "model-settings.json").read_text())["max_batch_size"]
    result = []
    for max_batch_size in (0, batch):
        with server(mlserver, flags.model, max_batch_size) as port:
            measured(port, flags.input_name, texts, max(flags.clients), flags.seconds / 4)
            for clients in flags.clients:
                row = {"max_batch_size": max_batch_size, "clients": clients}
                times = measured(port, flags.input_name, texts, clients, flags.seconds)
                result.append(row | times)
    print(measuring.write_results(flags.results, parser, argv, result))


if __name__ == "__main__":
    measuring.run(main)
