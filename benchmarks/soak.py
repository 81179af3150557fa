"""Does the same stand in the end, however often a command was killed and its storage failed?

  # commands under signals for ten minutes; a later run with the same seed continues
  python -m benchmarks.soak --seed=1 --minutes=10 --work=/tmp/soak

  # some of them; the sums of all runs so far
  python -m benchmarks.soak --seed=2 --minutes=10 --work=/tmp/soak --only=data,pretrain@gs
  python -m benchmarks.soak

Small jobs on real text (20 KB of Wikipedia, CoLA) run as users run them. In each round a command
gets signals at random moments, most while it writes, and is run again until it has finished. Then
the SHA-256 of every file is compared with those of undisturbed runs, and what no finished command
leaves is counted: temporary files, locks, marks of unfinished work, processes. Not compared are
files that differ between two undisturbed runs. Jobs with `@gs` read from and write to an emulated
bucket, which also answers requests with 429 or 503, cuts their connections, or loses the answer of
what it has done. There a lease ends after 4 seconds. The others write to a small disk of their own,
which is full at times, if the user may mount one.

The processes are forks of one that has loaded all modules (`tests/support/forked.py`), but for
those on JAX.
"""

import collections
import contextlib
import dataclasses
import datetime
import hashlib
import json
import math
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from beambert import io
from beambert.errors import InputError
from benchmarks import measuring

ROOT = pathlib.Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests"))
from support import emulated_storage, forked, growing_corpus  # noqa: E402

RESULTS = ROOT / "benchmarks/results/soak.jsonl"
# Limits of a round.
MOST_SIGNALS, MOST_ATTEMPTS = 12, 40
SECONDS_TO_END = 300.0
SECONDS_OF_ORPHANS = 20.0
# Of signals that end the command; SIGSTOP is followed by SIGCONT.
SIGNALS = {"KILL": 5, "TERM": 2, "INT": 2, "STOP": 2}
STATUSES = {"KILL": {-9}, "TERM": {143, -15}, "INT": {130, -2}}
# What the storage does to a request, and the requests.
FAULTS = {
    "429": (429, "[A-Z]+ .*"),
    "503": (503, "[A-Z]+ .*"),
    "cut": (emulated_storage.CUT, "[A-Z]+ .*"),
    "answer lost": (emulated_storage.LOST, "(POST|PUT|DELETE) .*"),
}
# Bytes of the disk that the jobs write to, and what it leaves free of those when it is full.
DISK_BYTES, MOST_FREE_BYTES = 32 << 20, 200_000
DISK_IS_FULL = "full disk"
# Runs the command with a short lease.
SHORT_LEASE = """\
import datetime, sys
from beambert import process
process.install()
from beambert import folders
folders.LEASE = datetime.timedelta(seconds=4)
folders.SECONDS_BETWEEN_RENEWALS, folders.SECONDS_BETWEEN_TRIES = 1.0, 0.5
from beambert.cli import main
sys.exit(main())
"""
_DATA = (
    "data --input={made}/text.txt --vocab_file={made}/vocab.txt --output={out}/records "
    "--max_seq_length=32 --num_shards=3 --dupe_factor=2 --eval_fraction=0.1"
)
_PRETRAIN = (
    "pretrain --data={made}/records --recipe=tiny --model={made}/bert_config.json "
    "--train_batch_size=8 --num_train_steps=24 --save_checkpoints_steps=2 --model_dir={out}/encoder"
)
JOBS = {
    "vocab": "vocab --input={made}/text.txt --vocab_size=500 --output={out}/vocab.txt",
    "data": _DATA,
    "data_2_workers": _DATA + " --direct_num_workers=2",
    "pretrain": _PRETRAIN,
    "pretrain_mlm": _PRETRAIN + " --objective=mlm --masking=dynamic",
    "pretrain_rtd": _PRETRAIN + " --objective=rtd",
    "pretrain_jax": _PRETRAIN + " --engine=jax",
    "finetune": (
        "finetune --task=cola --data_dir={task} --init={made}/encoder --max_seq_length=24 "
        "--train_batch_size=8 --num_train_epochs=1 --save_checkpoints_steps=4 "
        "--model_dir={out}/classifier"
    ),
    "embed": "embed --model={made}/encoder --input={made}/lines.txt --output={out}/embeddings",
    "index": "index --embeddings={made}/embeddings --output={out}/index",
    "retrain": "retrain --config={made}/retrain.toml",
}
for _pairs in ("sop", "copy"):
    _records = f"/records_{_pairs}"
    JOBS[f"data_{_pairs}"] = f"{_DATA.replace('/records', _records)} --pairs={_pairs}"
    JOBS[f"pretrain_{_pairs}"] = f"{_PRETRAIN.replace('/records', _records)} --objective={_pairs}"
RETRAINING = """\
workspace = "{out}"
input = ["{made}/text.txt"]
vocab_file = "{made}/vocab.txt"
[data]
max_seq_length = 32
dupe_factor = 1
num_shards = 1
[pretrain]
train_batch_size = 8
save_checkpoints_steps = 4
[pretrain.first]
recipe = "tiny"
model = "{made}/bert_config.json"
num_train_steps = 16
[pretrain.further]
num_train_steps = 8
[finetune]
task = "cola"
data_dir = "{made}/task"
max_seq_length = 24
train_batch_size = 8
save_checkpoints_steps = 4
num_train_epochs = 1
[evaluate]
"""
ON_STORAGE = ("vocab", "data", "data_2_workers", "pretrain", "finetune", "embed")
NAMES = [*JOBS, *(f"{name}@gs" for name in ON_STORAGE)]


def build_parser():
    """Returns the parser of the flags."""
    parser = measuring.flag_parser("soak", __doc__)
    parser.add_argument("--seed", type=int, default=1, help="decides jobs, signals and moments")
    parser.add_argument("--minutes", type=float, default=0.0, help="0 prints the sums of all runs")
    parser.add_argument("--work", default="/tmp/beambert-soak", help="folder to work in")
    parser.add_argument("--text", default="../shared/data", help="folder of the real data")
    parser.add_argument("--only", help=f"some of {', '.join(NAMES)}")
    parser.add_argument("--results", default=str(RESULTS), help="log that each round is added to")
    return parser


@dataclasses.dataclass
class Bench:
    """Where the jobs of a seed run.

    Attributes:
      folder: folder of this seed.
      environment: variables of the commands, with those of the emulated bucket.
      has_disk: whether the jobs write to a disk of their own.
    """

    folder: pathlib.Path
    environment: dict[str, str]
    has_disk: bool = False

    @contextlib.contextmanager
    def disk(self) -> Iterator[None]:
        """Mounts a small disk for what the jobs write, if the user may."""
        (self.folder / "out").mkdir(exist_ok=True)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "soak", self.folder / "out"]
        self.has_disk = not subprocess.run(mount, capture_output=True).returncode
        try:
            yield
        finally:
            if self.has_disk:
                subprocess.run(["umount", self.folder / "out"], check=True)

    def fill_disk(self, free: int) -> None:
        """Leaves so many bytes of the disk, or more of a disk that is full already."""
        room = os.statvfs(self.folder / "out")
        with open(self.folder / "out/ballast", "wb") as file, contextlib.suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, max(1, room.f_bavail * room.f_bsize - free))

    def clear_disk(self) -> None:
        """Frees what `fill_disk` has taken."""
        (self.folder / "out/ballast").unlink(missing_ok=True)

    def start(self, name: str, text: str) -> subprocess.Popen:
        """Starts a job; `text` is its command line, without `beambert`."""
        settings = {
            "BEAMBERT_SOAK": str(self.folder),
            "CUDA_VISIBLE_DEVICES": "-1",
            "PYTHONPATH": str(ROOT),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            # Compiling a step takes longer than all else that the jobs do.
            "TF_XLA_FLAGS": f"--tf_xla_persistent_cache_directory={self.folder}/compiled",
            "TMPDIR": f"{self.folder}/temporary",
        }
        python = ["-c", SHORT_LEASE] if "gs://" in text else ["-m", "beambert"]
        popen = subprocess.Popen if name == "pretrain_jax" else forked.Popen
        with (self.folder / "printed.txt").open("wb") as printed:
            return popen(
                [sys.executable, *python, *text.split()],
                cwd=self.folder,
                env=os.environ | settings | self.environment,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                start_new_session=True,
            )

    def printed(self) -> str:
        """Returns what the last command has printed."""
        return (self.folder / "printed.txt").read_text(errors="replace")

    def processes(self) -> set[int]:
        """Returns the ids of all processes of the commands that are alive."""
        found, mark = set(), f"BEAMBERT_SOAK={self.folder}\0".encode()
        if forked._Server.process is not None:
            server = forked._Server.process.pid
            children = pathlib.Path(f"/proc/{server}/task/{server}/children").read_text()
            found |= {int(pid) for pid in children.split()}
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (path / "environ").read_bytes():
                    found.add(int(path.name))
        return found

    def send(self, process: subprocess.Popen, name: str, to_all: bool) -> None:
        """Sends a signal, as a user, a terminal (SIGINT) or the loss of the machine does."""
        for pid in self.processes() if to_all or name == "INT" else {process.pid}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.Signals[f"SIG{name}"])

    def command(self, name: str) -> tuple[str, str]:
        """Returns the command line of a job, and the folder that it fills."""
        job, _, storage = name.partition("@")
        root = "gs://bucket" if storage else str(self.folder)
        out = f"{root}/out/made"  # `out` itself is a disk
        task = self.folder / "made/task"  # which is read on this machine alone
        return JOBS[job].format(made=f"{root}/made", task=task, out=out), out

    def make(self, text: pathlib.Path) -> None:
        """Makes what the jobs read, each by the command before; copies it into the bucket."""
        made = self.folder / "made"
        if not (made / "done").exists():
            shutil.rmtree(made, ignore_errors=True)
            (made / "task").mkdir(parents=True)
            wiki = (text / "wiki_extracted/wiki_00").read_text()
            whole = wiki[: wiki.index("</doc>", 20_000) + 7]
            (made / "text.txt").write_text(whole)
            lines = [line for line in wiki[:60_000].splitlines() if len(line) > 40]
            (made / "lines.txt").write_text("\n".join(lines) + "\n")
            for split, rows in (("train", 160), ("dev", 64)):
                content = (text / f"glue/CoLA/{split}.tsv").read_text().splitlines(keepends=True)
                (made / f"task/{split}.tsv").write_text("".join(content[:rows]))
            config = growing_corpus.BERT_CONFIG | {"vocab_size": 500}
            (made / "bert_config.json").write_text(json.dumps(config))
            toml = RETRAINING.format(made=made, out=self.folder / "out/made")
            (made / "retrain.toml").write_text(toml)
            for name in ("vocab", "data", "data_sop", "data_copy", "pretrain", "embed"):
                line = JOBS[name].format(made=made, out=made)
                if self.start(name, line).wait(SECONDS_TO_END):
                    raise InputError(f"{line}: failed; {self.printed()}")
            (made / "done").touch()
        if self.environment:
            for path in made.rglob("*"):
                if path.is_file():
                    name = path.relative_to(self.folder)
                    io.write_bytes(f"gs://bucket/{name}", path.read_bytes())


# A round


def sums(out: str) -> dict[str, str]:
    """Returns the SHA-256 of each file in a folder, by its path in there."""
    if io.is_local(out):
        paths = [path for path in pathlib.Path(out).rglob("*") if path.is_file()]
        contents = {str(path.relative_to(out)): path.read_bytes() for path in paths}
    else:
        paths = [info.path for info in io._file_system(out).find(out)]
        contents = {
            # TensorFlow makes an object for each folder.
            path.removeprefix(out + "/"): b"" if path.endswith("/") else io.read_bytes(path)
            for path in paths
        }
    found = {}
    for name, content in contents.items():
        if name.endswith("/metrics.jsonl"):
            # Which steps have a line follows from the time, and so do the rates in it.
            rows = [row for row in content.splitlines() if row.startswith(b'{"split": "eval"')]
            content = b"\n".join(rows)
        if name.endswith("/saved_model.pb"):
            content = graph_without_numbers(content)
        if "tensorboard/" not in name:  # Each start adds a file, which has its time.
            found[name] = hashlib.sha256(content).hexdigest()
    return found


def graph_without_numbers(content: bytes) -> bytes:
    """Returns a SavedModel as text, without the numbers that follow from what was traced before."""
    from tensorflow.core.protobuf import saved_model_pb2

    lines = str(saved_model_pb2.SavedModel.FromString(content)).splitlines()
    return "\n".join(
        sorted(re.sub(r'(?<=[\w>])[_-]\d+\b|"\d+"', "", line) for line in lines)
    ).encode()


def differences(found: dict[str, str], expected: dict[str, str]) -> list[str]:
    """Returns the files that only one has, or that differ; an interrupted training has a step more.

    What it saves when it is told to end is a checkpoint, and the last three are kept.
    """
    steps = [
        {name.split("/ckpt-")[0] for name in one if "/ckpt-" in name} for one in (found, expected)
    ]
    alone = found.keys() ^ expected.keys()
    if steps[0] == steps[1]:
        alone = {name for name in alone if "/checkpoints/ckpt-" not in name}
    shared = found.keys() & expected.keys()
    return sorted(alone | {name for name in shared if found[name] != expected[name]})


def clear(out: str) -> None:
    """Deletes the folder of a round."""
    if io.is_local(out):
        shutil.rmtree(out, ignore_errors=True)
    elif paths := [info.path for info in io._file_system(out).find(out)]:
        io._file_system(out).delete_files(paths)


def writes(out: str) -> Iterator[bool]:
    """Yields whether a local folder has a name that it did not have before, but for locks."""
    seen = None
    while True:
        found = {
            os.path.join(folder, name)
            for folder, folders, files in os.walk(out)
            for name in (*folders, *files)
            if not name.startswith(io.LOCK_PREFIX)
        }
        seen = found if seen is None else seen
        yield bool(found - seen)
        seen |= found


@dataclasses.dataclass
class Round:
    """A job under signals until it has finished, and what stood in the end."""

    bench: Bench
    name: str
    generator: random.Random
    expected: dict
    signals: list[str] = dataclasses.field(default_factory=list)
    faults: list[str] = dataclasses.field(default_factory=list)
    unexpected: list[str] = dataclasses.field(default_factory=list)
    attempts: int = 0

    def run(self) -> dict:
        """Returns the row of the log."""
        text, out = self.bench.command(self.name)
        clear(out)
        count = self.generator.randint(1, MOST_SIGNALS)
        started = time.monotonic()
        while self._attempt(text, out, len(self.signals) < count):
            if self.attempts == MOST_ATTEMPTS:
                self._note("not finished")
                break
        seconds = time.monotonic() - started
        found = sums(out)
        compared = {name: one for name, one in found.items() if name not in self.expected["unlike"]}
        names = differences(compared, self.expected["files"])
        row = {"job": self.name, "signals": self.signals, "faults": self.faults}
        row |= {"seconds": round(seconds, 1), "undisturbed": self.expected["seconds"]}
        row |= {"attempts": self.attempts, "different": names, "left": self._left(found)}
        return row | {"unexpected": self.unexpected}

    def _left(self, found: Sequence[str]) -> list[str]:
        """Returns what no finished command leaves."""
        pattern = rf"(^|/)({io.TEMPORARY_PREFIX}|{io.LOCK_PREFIX}|{io.UNFINISHED_FILE})"
        left = [name for name in found if re.search(pattern, name)]
        temporary = self.bench.folder / "temporary"
        names = sorted(path.name for path in temporary.iterdir())
        # Nothing can delete the temporary folder of a process that SIGKILL ends.
        if not any(sent.startswith("KILL") for sent in self.signals):
            left += [f"TMPDIR/{name}" for name in names]
        shutil.rmtree(temporary)
        temporary.mkdir()
        return left

    def _attempt(self, text: str, out: str, is_disturbed: bool) -> bool:
        """Runs the command; returns whether it has to run again."""
        self.attempts += 1
        on_storage, is_full, draw = not io.is_local(out), False, self.generator
        process = self.bench.start(self.name, text)
        started, sent = time.monotonic(), ""
        longest = self.expected.get("latest", self.expected["seconds"])
        if on_storage and draw.random() < 0.7:
            time.sleep(draw.uniform(0.0, 0.8) * longest)
            fault, times = draw.choice(list(FAULTS)), draw.randint(1, 4)
            status, pattern = FAULTS[fault]
            emulated_storage.fail(pattern, status, times)
            self.faults.append(f"{fault} {times} times {time.monotonic() - started:.2f}")
        if self.bench.has_disk and not on_storage and is_disturbed and draw.random() < 0.1:
            time.sleep(draw.uniform(0.2, 0.8) * longest)
            self.bench.fill_disk(draw.randint(0, MOST_FREE_BYTES))
            self.faults.append(f"{DISK_IS_FULL} {time.monotonic() - started:.2f}")
            is_full = True
        while is_disturbed and sent in ("", "STOP") and process.poll() is None and not is_full:
            sent = self._disturb(process, out, started, longest)
        try:
            status = process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self.bench.send(process, "ABRT", to_all=True)  # It prints where its threads stand.
            status = process.wait()
            self._note(f"no end after {SECONDS_TO_END:.0f} s")
        if on_storage:
            emulated_storage.hold("")
            emulated_storage.fail("", 0, 0)
        if is_full:
            self.bench.clear_disk()
        # Children of a killed process end by themselves.
        deadline = time.monotonic() + SECONDS_OF_ORPHANS
        while (left := self.bench.processes()) and time.monotonic() < deadline:
            time.sleep(0.02)
        if left:
            self._note(f"{len(left)} processes live on")
            self.bench.send(process, "KILL", to_all=True)
        printed = self.bench.printed()
        if "Traceback" in printed:
            self._note(f"traceback, status {status}")
        # Where the storage fails, a command may end with a message.
        elif status not in (0, *STATUSES.get(sent, ()), *((2,) if on_storage or is_full else ())):
            self._note(f"status {status} after {sent or 'no signal'}")
        if status == 0 and sent in STATUSES:
            self.signals[-1] += " late"  # It had done all.
        elif status == 0:  # The machine may have more or less to do than it had before.
            self.expected["latest"] = time.monotonic() - started
        return status != 0

    def _disturb(self, process: subprocess.Popen, out: str, started: float, longest: float) -> str:
        """Sends signals in a moment; returns the last one that ends a process."""
        draw, is_done = self.generator, process.poll
        (name,) = draw.choices(list(SIGNALS), list(SIGNALS.values()))
        on_storage = not io.is_local(out)
        in_write = draw.random() < 0.65 and (name == "KILL" or not on_storage)
        moment = started + longest * draw.uniform(0.2, 0.9)
        if in_write and on_storage:
            # The request is held, as a write that is on its way.
            time.sleep(max(0.0, moment - time.monotonic()))
            emulated_storage.hold("(POST|PUT) .*")
            while is_done() is None and not emulated_storage.is_holding():
                time.sleep(0.01)
        elif in_write:
            nth = draw.randint(1, max(1, self.expected["writes"]))
            for is_new in writes(out):
                nth -= is_new
                if nth <= 0 or is_done() is not None:
                    break
                time.sleep(0.002)
            time.sleep(draw.choice((0.0, 0.001, 0.003, 0.01)))
        else:
            while is_done() is None and time.monotonic() < moment:
                time.sleep(0.005)
        if is_done() is not None:
            return ""
        to_all = name == "KILL" and draw.random() < 0.5
        sent = f"{name}{' all' * to_all} {time.monotonic() - started:.2f}"
        self.bench.send(process, name, to_all)
        self.signals.append(f"{sent} {'write' if in_write else 'time'}")
        if name == "STOP":
            time.sleep(draw.uniform(0.1, 1.5) if not on_storage else draw.uniform(0.1, 6.0))
            self.bench.send(process, "CONT", to_all=False)
        return name

    def _note(self, what: str) -> None:
        self.unexpected.append(what)
        with (self.bench.folder / "unexpected.txt").open("a") as file:
            file.write(f"\n{self.name}: {what}; {self.signals} {self.faults}\n")
            file.write(self.bench.printed())


def loaded_modules() -> tuple[str, ...]:
    """Returns the names of the modules of all commands, but for those on JAX."""
    packages = ("pipelines", "model", "trainer", "deploy")
    found = ["beambert.cli", "numba"]
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(("beambert", *path.relative_to(ROOT).with_suffix("").parts))
            if "jax" not in name and "vertex" not in name and path.stem != "__init__":
                found.append(name)
    return tuple(found)


def undisturbed(bench: Bench, name: str) -> dict:
    """Returns what a job makes without signals.

    Returns:
      the sums of `files`, the names of those that are `unlike` in two runs, seconds and the number
      of observed writes.
    """
    text, out = bench.command(name)
    found = []
    for _ in range(2):
        clear(out)
        started, process, seen = time.monotonic(), bench.start(name, text), 0
        watch = writes(out)
        while process.poll() is None:
            seen += next(watch)
            time.sleep(0.002)
        if process.returncode:
            raise InputError(f"{text}: failed; {bench.printed()}")
        found.append(sums(out))
    first, files = found
    unlike = sorted(
        name for name in first.keys() | files.keys() if first.get(name) != files.get(name)
    )
    files = {name: one for name, one in files.items() if name not in unlike}
    seconds = round(time.monotonic() - started, 1)
    return {"files": files, "unlike": unlike, "seconds": seconds, "writes": seen}


def summary(path: str) -> str:
    """Returns the table of all rounds in the log."""
    totals = collections.defaultdict(collections.Counter)
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    least = collections.defaultdict(lambda: math.inf)  # seconds of a job without a signal
    for row in rows:
        whole = row["undisturbed"] if row["signals"] else row["seconds"]
        least[row["job"]] = min(least[row["job"]], whole)
    for row in rows:
        for job in (row["job"], "all"):
            total = totals[job]
            total["rounds"] += 1
            ended = [sent for sent in row["signals"] if not sent.endswith(" late")]
            for sent in ended:
                total["pauses" if sent.startswith("STOP") else "kills"] += 1
                total["in writes"] += sent.endswith("write")
            total["faults"] += len(row["faults"])
            total["lost"] += row["seconds"] - least[row["job"]]
            for name in ("different", "left", "unexpected"):
                total[name] += bool(row[name])
    columns = ("rounds", "kills", "in writes", "pauses", "faults")
    heads = ["job", *columns, "seconds lost a kill", "different", "left", "other"]
    lines = [f"| {' | '.join(heads)} |"]
    lines.append("|---" * 10 + "|")
    for job, total in sorted(totals.items(), key=lambda item: (item[0] == "all", item[0])):
        lost = total["lost"] / max(1, total["kills"])
        cells = [job, *(total[name] for name in columns), f"{lost:.1f}"]
        cells += [total[name] for name in ("different", "left", "unexpected")]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def main(argv: Sequence[str]) -> None:
    """Runs rounds until the time is over, or prints the sums of all."""
    flags = build_parser().parse_args(argv)
    if not flags.minutes:
        print(summary(flags.results))
        return
    names = flags.only.split(",") if flags.only else [n for n in NAMES if n != "pretrain_jax"]
    if unknown := set(names) - set(NAMES):
        raise InputError(f"--only={unknown.pop()}: no such job; choose from {', '.join(NAMES)}")
    # A shell lets what it starts in the background ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    deadline = time.monotonic() + 60 * flags.minutes
    folder = pathlib.Path(flags.work).resolve() / str(flags.seed)
    (folder / "temporary").mkdir(parents=True, exist_ok=True)
    done = 0
    if os.path.exists(flags.results):
        with open(flags.results, encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        done = 1 + max((row["round"] for row in rows if row["seed"] == flags.seed), default=-1)
    with contextlib.ExitStack() as stack:
        bench = Bench(folder, {})
        if any("@" in name for name in names):
            emulated = emulated_storage.emulated_storage(folder)
            bench.environment = stack.enter_context(emulated)
            # TensorFlow tries as often as it does without this.
            del bench.environment["GCS_RETRY_CONFIG_MAX_RETRIES"]
            os.environ.update(bench.environment)
        stack.enter_context(bench.disk())
        forked.LIBRARIES += loaded_modules()
        os.environ |= {"PYTHONPATH": str(ROOT), "PYTHONFAULTHANDLER": "1"}
        forked._address()  # or the first job waits for the libraries
        bench.make(pathlib.Path(flags.text))
        known = folder / "expected.json"
        expected = json.loads(known.read_text()) if known.exists() else {}
        while time.monotonic() < deadline:
            generator = random.Random(f"{flags.seed} {done}")
            name = generator.choice(names)
            if name not in expected:
                expected[name] = undisturbed(bench, name)
                # Records name the times of what they were made from, which the next bucket changes.
                kept = {job: about for job, about in expected.items() if "@" not in job}
                known.write_text(json.dumps(kept))
            about = {"seed": flags.seed, "round": done}
            about |= {"time": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M:%S}"}
            row = about | Round(bench, name, generator, expected[name]).run()
            print(json.dumps(row), flush=True)
            with open(flags.results, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            done += 1


if __name__ == "__main__":
    measuring.run(main)
