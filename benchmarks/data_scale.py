"""Does memory stay the same when the corpus doubles? Are two workers nearly twice as fast as one?

    python -m benchmarks.data_scale --input='wiki_*' --vocab_file=vocab.txt --megabytes=500,1000
    python -m benchmarks.data_scale --input='wiki_*' --vocab_file=vocab.txt --workers=1,2

The corpus (WikiExtractor output) is repeated until it has so many megabytes. In each copy a
document with text gets another last line. Every run is `beambert data` in a process of its own. Its
peak memory is the largest sum of its processes' memory (PSS, which counts shared pages once),
measured five times a second. Ratios are to the first run.
"""

import glob
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from beambert.errors import InputError
from beambert.io import match_inputs
from benchmarks import measuring

FILE_BYTES = 32 << 20
LAST_LINE = re.compile(rb"\.\n\n</doc>")


def repeat_corpus(paths: list[str], megabytes: int, folder: pathlib.Path) -> None:
    """Writes copies of the files until they have so many megabytes."""
    written, copy = 0, 0
    while written < megabytes * 1e6:
        for path in paths:
            text = pathlib.Path(path).read_bytes()
            text = LAST_LINE.sub(b".\nThis is copy number %d.\n\n</doc>" % copy, text)
            name = folder / f"wiki_{written // FILE_BYTES:04d}"
            with open(name, "ab") as file:
                file.write(text)
            written += len(text)
            if written >= megabytes * 1e6:
                break
        copy += 1


def memory_bytes(pid: int) -> int:
    """Returns the memory of a process and all its descendants."""
    try:
        rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
        own = int(re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)[1]) * 1024
        tasks = glob.glob(f"/proc/{pid}/task/*/children")
        children = [child for task in tasks for child in pathlib.Path(task).read_text().split()]
    except (OSError, TypeError):  # the process has ended
        return 0
    return own + sum(memory_bytes(int(child)) for child in children)


def run(corpus: pathlib.Path, vocab_file: str, dupe_factor: int, workers: int) -> dict:
    """Runs the command once; returns its figures."""
    with tempfile.TemporaryDirectory() as temporary:
        command = [sys.executable, "-m", "beambert", "data", f"--input={corpus}/*"]
        command += [f"--vocab_file={vocab_file}", f"--output={temporary}/records"]
        command += [f"--dupe_factor={dupe_factor}"]
        if workers > 1:
            command += [f"--direct_num_workers={workers}"]
        started, peak = time.monotonic(), 0
        log = pathlib.Path(temporary, "log")
        with open(log, "wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
            while process.poll() is None:
                peak = max(peak, memory_bytes(process.pid))
                time.sleep(0.2)
        if process.returncode:
            raise InputError(f"{corpus}: `beambert data` failed on it:\n{log.read_text()}")
        text = log.read_text()
        about = json.loads(pathlib.Path(temporary, "records", "info.json").read_text())
    return {
        "megabytes": round(sum(file["bytes"] for file in about["inputs"]) / 1e6),
        "workers": workers,
        "dupe_factor": dupe_factor,
        "documents": about["counts"]["documents"]["read"],
        "instances": about["counts"]["instances"],
        "peak_gigabytes": round(peak / 1e9, 2),
        "seconds_with_start": round(time.monotonic() - started, 1),
        "megabytes_per_second": float(re.search(r"done in .*, ([0-9.]+) MB/s", text)[1]),
    }


def beside_first(runs: list[dict]) -> list[dict]:
    """Adds to each run the ratios of its memory and speed to those of the first run."""
    first = runs[0]
    return [
        figures
        | {
            "peak_times_first": round(figures["peak_gigabytes"] / first["peak_gigabytes"], 2),
            "speed_times_first": round(
                (figures["megabytes"] / figures["seconds_with_start"])
                / (first["megabytes"] / first["seconds_with_start"]),
                2,
            ),
        }
        for figures in runs
    ]


def numbers(text: str) -> list[int]:
    """Returns the numbers in a text, with commas between them; for argparse's `type=`."""
    return [int(part) for part in text.split(",")]


def main(argv: Sequence[str]) -> None:
    """Measures and prints.

    Raises:
      InputError: no file matches, or a run failed.
    """
    parser = measuring.flag_parser("data_scale", __doc__)
    add = parser.add_argument
    add("--input", required=True, metavar="GLOB", help="files of WikiExtractor")
    add("--vocab_file", required=True, metavar="FILE", help="vocabulary of the records")
    add(
        "--megabytes",
        type=numbers,
        default=[100],
        help="sizes of the corpus, with commas (default: 100)",
    )
    add(
        "--workers",
        type=numbers,
        default=[1],
        help="numbers of workers, with commas (default: 1)",
    )
    add("--dupe_factor", type=int, default=5, help="passes over it (default: %(default)s)")
    measuring.add_results_flag(parser)
    flags = parser.parse_args(list(argv))
    paths = [file.path for file in match_inputs([flags.input])]
    runs = []
    for megabytes in flags.megabytes:
        with tempfile.TemporaryDirectory() as temporary:
            repeat_corpus(paths, megabytes, pathlib.Path(temporary))
            for workers in flags.workers:
                figures = run(pathlib.Path(temporary), flags.vocab_file, flags.dupe_factor, workers)
                print(json.dumps(figures), file=sys.stderr, flush=True)
                runs.append(figures)
    print(measuring.write_results(flags.results, parser, argv, beside_first(runs)))


if __name__ == "__main__":
    measuring.run(main)
