"""How fast are lines read from object storage, beside Beam's own reader of gs://?

    python -m benchmarks.object_storage --megabytes=64
    python -m benchmarks.object_storage --folder=gs://my-bucket/benchmark

Without `--folder`, an emulator on this machine holds the objects, in a process of its own. The
rates are megabytes of text for each second that a processor worked for this process: neither the
emulator nor other programs count. Beam's reader is measured on a part of 4 MB, for which it was
used before.
"""

import gzip
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

from benchmarks import measuring

EMULATOR = pathlib.Path(__file__).parents[1] / "tests" / "support" / "emulated_storage.py"
BEAM_PART_BYTES = 4 << 20


def make_text(megabytes: float) -> bytes:
    """Returns lines of made-up words, each as long as a paragraph."""
    draw = random.Random(1)
    words = ["".join(draw.choices("etaoinshrdlu", k=draw.randint(2, 9))) for _ in range(5000)]
    lines = [" ".join(draw.choices(words, k=draw.randint(5, 120))) for _ in range(2000)]
    text = "\n".join(lines).encode() + b"\n"
    return (text * (int(megabytes * 1e6) // len(text) + 1))[: int(megabytes * 1e6)]


def start_emulator(folder: str) -> subprocess.Popen:
    """Starts an emulator of gs://bucket, and lets this process use it."""
    command = [sys.executable, str(EMULATOR), folder]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    os.environ.update(json.loads(server.stdout.readline()))
    return server


class Traffic:
    """Counts the requests of Google's client and the bytes of their answers.

    Attributes:
      requests, bytes: numbers so far.
    """

    def __init__(self) -> None:
        """Begins to count."""
        import requests

        self.requests = self.bytes = 0
        send = requests.Session.request

        def counted(session: requests.Session, *given: object, **named: object) -> object:
            answer = send(session, *given, **named)
            self.requests += 1
            self.bytes += int(answer.headers.get("Content-Length", 0))
            return answer

        requests.Session.request = counted


def measure(read: Callable[[], Iterator[bytes]], traffic: Traffic) -> dict[str, float]:
    """Returns the speed and the traffic of a function that yields lines."""
    before = traffic.requests, traffic.bytes
    started = time.process_time()
    size = sum(map(len, read()))
    seconds = time.process_time() - started
    return {
        "megabytes": round(size / 1e6, 1),
        "megabytes_per_second": round(size / 1e6 / seconds, 1),
        "requests": traffic.requests - before[0],
        "megabytes_received": round((traffic.bytes - before[1]) / 1e6, 1),
    }


def lines_in(path: str, opened: BinaryIO, end: int) -> Iterator[bytes]:
    """Yields the lines of an open file that start before a position, decompressed."""
    from beambert.compression import decompress
    from beambert.pipelines.corpus.base import lines_of

    position = 0
    for line in lines_of(decompress(path, opened)):
        yield line
        position += len(line)
        if position >= end:
            return


def compare(folder: str, megabytes: float) -> dict[str, dict]:
    """Writes two objects, reads each with both readers, and returns the figures."""
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    from beambert.io import write_bytes
    from beambert.pipelines.input_files import match_inputs

    traffic, text, result = Traffic(), make_text(megabytes), {}
    for name, content in (("text.txt", text), ("text.gz", gzip.compress(text, 6))):
        path = f"{folder}/{name}"
        write_bytes(path, content)
        (file,) = match_inputs([path])
        part = min(len(text), BEAM_PART_BYTES) if name == "text.txt" else len(text)

        def read_beam(path: str = path, part: int = part) -> Iterator[bytes]:
            with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as opened:
                yield from lines_in(path, opened, part)

        def read_ours(path: str = path, file: object = file) -> Iterator[bytes]:
            with file.open() as opened:
                yield from lines_in(path, opened, len(text))

        figures = {"beam": measure(read_beam, traffic), "beambert": measure(read_ours, traffic)}
        speeds = [figures[reader]["megabytes_per_second"] for reader in ("beambert", "beam")]
        result[name] = figures | {"times_beam": round(speeds[0] / speeds[1], 2)}
    return result


def main(argv: Sequence[str]) -> None:
    """Measures and prints.

    Raises:
      InputError: the folder cannot be written.
    """
    parser = measuring.flag_parser("object_storage", __doc__)
    add = parser.add_argument
    add("--megabytes", type=float, default=64, help="text in each object (default: %(default)s)")
    add("--folder", help="folder on gs:// to write to (default: one of an emulator)")
    measuring.add_results_flag(parser)
    flags = parser.parse_args(list(argv))
    with tempfile.TemporaryDirectory() as temporary:
        server = None if flags.folder else start_emulator(temporary)
        try:
            result = compare(flags.folder or "gs://bucket/benchmark", flags.megabytes)
        finally:
            if server is not None:
                server.kill()
                server.wait()
    print(measuring.write_results(flags.results, parser, argv, result))


if __name__ == "__main__":
    measuring.run(main)
