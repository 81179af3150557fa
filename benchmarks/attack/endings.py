"""Full disks, killed commands, and two commands that fill one folder at the same time."""

import hashlib
import os
import pathlib
import shutil
import signal
import time

from beambert import commands, interrupts
from benchmarks.attack import trials, workers
from benchmarks.attack.material import DATA
from benchmarks.attack.trials import Family, FoundError, Trial

SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
# A command is interrupted in its first seconds.
LONGEST = 2.5
SECONDS_TO_END = 100.0


def _arguments(trial: Trial, name: str, output: pathlib.Path) -> list[str]:
    """Returns a command that makes the folder or file `output`."""
    vocab = f"--vocab_file={trial.material}/vocab.txt"
    text = f"--input={trial.material}/text/1.jsonl"
    task = ["--task=classification", f"--data_dir={trial.material}/tasks/classification"]
    flags = {
        "vocab": [text, "--vocab_size=300"],
        "data": [text, vocab, *DATA],
        "verify": [f"{trial.material}/records"],
        "features": [*task, vocab, "--max_seq_length=24"],
    }
    return [name, *flags[name], f"--output={output}"]


NAMES = ("vocab", "data", "data", "verify", "features")


def _full_disk(trial: Trial) -> str:
    """No file may grow beyond a random size; afterwards the same command must succeed."""
    output = trial.folder / "out" / "put"
    arguments = _arguments(trial, trial.generator.choice(NAMES), output)
    # The files that get what the command prints are bounded, too.
    workers.limit_files(int(4096 * 2 ** trial.generator.uniform(0, 5)))
    try:
        ended = trial.call(*arguments)
    finally:
        workers.limit_files(-1)
    if left := trials.leftovers(trial.folder):
        raise FoundError("leftovers", ", ".join(left))
    again = trial.call(*arguments)
    if again.status:
        raise FoundError("not continued", again.error)
    return "refused, then done" if ended.status else "done"


def _start(arguments: list[str], trial: Trial, name: str) -> int:
    """Starts a command in a forked process, as `beambert` does; returns the process."""
    folder = trial.folder / name
    folder.mkdir(exist_ok=True)
    trial.temporary.mkdir(exist_ok=True)
    process = os.fork()
    if process:
        return process
    status: object = 1
    try:
        os.environ["TMPDIR"] = str(trial.temporary)
        trials.tempfile.tempdir = str(trial.temporary)
        for number, log in ((1, "stdout.log"), (2, "stderr.log")):
            os.dup2(os.open(folder / log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        interrupts.install()
        try:
            status = commands.run(arguments)
        except SystemExit as end:
            status = end.code
        interrupts.finish(status)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        trials.sys.stdout.flush()
        os._exit(status if isinstance(status, int) else 1)


def _wait(process: int, arguments: list[str], trial: Trial, name: str) -> trials.Ended:
    """Waits for a command; its status is negative if it died by a signal."""
    end = time.monotonic() + SECONDS_TO_END
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > end:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            raise FoundError("hang", " ".join(arguments))
        time.sleep(0.02)
    read = [
        (trial.folder / name / log).read_text("utf-8", "replace")
        for log in ("stdout.log", "stderr.log")
    ]
    return trials.Ended(arguments, os.waitstatus_to_exitcode(status), *read)


def _kill(trial: Trial) -> str:
    """Kills a command at one or two random moments; the same command then gives the same bytes."""
    generator = trial.generator
    name = generator.choice(NAMES)
    output = trial.folder / "out" / "put"
    arguments = _arguments(trial, name, output)
    outcome = "done before"
    for round_ in range(generator.choice((1, 1, 2))):
        number = generator.choice(SIGNALS)
        process = _start(arguments, trial, f"killed{round_}")
        time.sleep(generator.uniform(0.05, LONGEST))
        os.kill(process, number)
        ended = _wait(process, arguments, trial, f"killed{round_}")
        if "Traceback" in ended.error:
            raise FoundError("traceback", ended.error[-3000:])
        if ended.status not in (0, -number, 128 + number):
            raise FoundError("status", f"{ended.status} after {number!r}: {ended.error[-1000:]}")
        if ended.status:
            outcome = f"{signal.Signals(number).name}, then the same bytes"
        if number != signal.SIGKILL and (left := trials.leftovers(trial.folder)):
            raise FoundError("leftovers", f"after {number!r}: {', '.join(left)}")
    last = _wait(_start(arguments, trial, "again"), arguments, trial, "again")
    if last.status:
        raise FoundError("not continued", last.error[-2000:])
    _compare(trial, arguments, output)
    return outcome


def _two(trial: Trial) -> str:
    """Starts one command twice at almost the same time."""
    output = trial.folder / "out" / "put"
    arguments = _arguments(trial, trial.generator.choice(NAMES), output)
    first = _start(arguments, trial, "first")
    time.sleep(trial.generator.choice((0.0, trial.generator.uniform(0, LONGEST))))
    second = _start(arguments, trial, "second")
    ends = [
        _wait(process, arguments, trial, name)
        for process, name in ((first, "first"), (second, "second"))
    ]
    for ended in ends:
        trials.judged(ended)
    if all(ended.status for ended in ends):
        raise FoundError("both refused", "".join(ended.error for ended in ends))
    _compare(trial, arguments, output)
    return "one refused" if any(ended.status for ended in ends) else "both done"


def _compare(trial: Trial, arguments: list[str], output: pathlib.Path) -> None:
    """Compares the output with that of a run that nobody disturbed."""
    found = hashes(output)
    shutil.rmtree(output.parent)
    trials.judged(_wait(_start(arguments, trial, "whole"), arguments, trial, "whole"))
    if (whole := hashes(output)) != found:
        different = sorted(k for k in found.keys() | whole.keys() if found.get(k) != whole.get(k))
        raise FoundError("other bytes", ", ".join(different))


def hashes(path: pathlib.Path) -> dict[str, str]:
    """Returns name -> SHA-256 of a file, or of each file in a folder."""
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    return {str(p.relative_to(path)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


FAMILIES = (
    Family("disk", 0.025, _full_disk),
    Family("kills", 0.02, _kill, is_fresh=True),
    Family("two", 0.025, _two, is_fresh=True),
)
