"""Signals at random moments: each command ends at once, with one sentence, and leaves nothing.

Most of these processes begin with the large libraries loaded, so that the moments are of the work.
The moments are drawn with a seed. `BEAMBERT_INTERRUPTIONS=50` draws as many for each command, in
place of one, and `BEAMBERT_INTERRUPTIONS_SEED` draws others.
"""

import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from support import forked, growing_corpus
from support.data_command import TWO_PROCESSES

from beambert import cli

ROOT = pathlib.Path(__file__).parents[1]
MOMENTS = int(os.environ.get("BEAMBERT_INTERRUPTIONS", "1"))
SEED = int(os.environ.get("BEAMBERT_INTERRUPTIONS_SEED", "0"))
# A busy machine takes a while to end a process.
SECONDS_TO_END = 15.0
# A training first ends the graph call that is running, or even compiles it, and saves its state.
SECONDS_TO_SAVE = 60.0
SAVING = ("pretrain", "finetune")
# Signals, and the statuses that may follow. A second Ctrl-C comes a moment after the first.
WAYS = {
    "Ctrl-C": ([signal.SIGINT], 130),
    "twice": ([signal.SIGINT, signal.SIGINT], 130),
    "SIGTERM": ([signal.SIGTERM], 143),
}

_TASK = "--task=classification --data_dir={made}/task"
_DATA = (
    "data --input={made}/text/*.jsonl --vocab_file={made}/vocab.txt --max_seq_length=32 "
    "--num_shards=2 --dupe_factor=2 --output={out}/records"
)
# Each reads from one folder and writes to another.
COMMANDS = {
    "vocab": "vocab --input={made}/text/*.jsonl --vocab_size=200 --output={out}/vocabulary.txt",
    "data": _DATA,
    "data in two processes": f"{_DATA} {' '.join(TWO_PROCESSES)}",
    "verify": "verify {made}/records --output={out}/verification",
    "pretrain": "pretrain --data={made}/records --recipe=tiny --model={made}/bert_config.json "
    "--train_batch_size=8 --num_train_steps=20 --model_dir={out}/encoder",
    "finetune": f"finetune {_TASK} --init={{made}}/encoder --max_seq_length=24 "
    "--train_batch_size=8 --num_train_epochs=2 --model_dir={out}/classifier",
    "predict": "predict --model={made}/classifier --input={made}/texts.txt --output={out}/answers",
    "evaluate": f"evaluate {_TASK} --model={{made}}/classifier --output={{out}}/evaluation",
    "fill": "fill --model={made}/encoder --input={made}/masked.txt --output={out}/answers.jsonl",
    "score": "score --model={made}/encoder --input={made}/texts.txt --output={out}/scores.jsonl",
    "embed": "embed --model={made}/encoder --input={made}/texts.csv --id_column=id "
    "--output={out}/embeddings",
    "index": "index --embeddings={made}/embeddings --output={out}/index",
    "search": "search --index={made}/index --by=words --input={made}/texts.txt "
    "--output={out}/hits.jsonl",
    "judge": "judge --index={made}/index --by=words --data_dir={made}/beir",
    "compare": "compare {made}/encoder {made}/classifier",
    "export": "export --model={made}/classifier --output={out}/serving",
}


def environment(folder):
    quiet = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3", "TMPDIR": str(folder)}
    return os.environ | quiet


def start(name, made, out, folder):
    """Starts a command in a process group, as a shell does."""
    folder.mkdir(parents=True, exist_ok=True)
    words = COMMANDS[name].format(made=made, out=out).split()
    return forked.Popen(
        [sys.executable, "-m", "beambert", *words],
        cwd=ROOT,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """What the commands read, each made by the command before."""
    root = tmp_path_factory.mktemp("made")
    growing_corpus.make(root)
    growing_corpus.deliver(root, 2, documents=4000)
    (root / "texts.txt").write_text("a river in a village\n" * 2000)
    rows = "".join(f"a river in a village,{n}\n" for n in range(2000))
    (root / "texts.csv").write_text(f"text,id\n{rows}")
    (root / "masked.txt").write_text("a [MASK] in a village\n" * 2000)
    (root / "beir/qrels").mkdir(parents=True)
    queries = "".join(f'{{"_id": "{n}", "text": "a river {n}"}}\n' for n in range(500))
    (root / "beir/queries.jsonl").write_text(queries)
    rows = "".join(f"{n}\t{n}\t1\n" for n in range(500))
    (root / "beir/qrels/test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{rows}")
    for name in ("data", "pretrain", "finetune", "embed", "index"):
        finish(start(name, root, root, root / "temporary"))
    return root


def finish(process):
    _, error = process.communicate(timeout=300)
    assert (process.returncode, error) == (0, "")


def wait_until_installed(process):
    """Waits until the command handles SIGTERM; before, Python itself is starting."""
    while process.poll() is None:
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
        if int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.001)


def interrupt(process, seconds, numbers):
    """Interrupts a command; returns its status, stdout, stderr and the time to its end."""
    wait_until_installed(process)
    time.sleep(seconds)
    for number in numbers:
        # The terminal sends Ctrl-C to the workers, too.
        try:
            (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
        except ProcessLookupError:
            break
        time.sleep(0.05)
    sent = time.monotonic()
    try:
        out, error = process.communicate(timeout=2 * SECONDS_TO_SAVE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        pytest.fail(f"hangs {seconds:.2f} s after its start")
    return process.returncode, out, error, time.monotonic() - sent


def check_end(name, ended, expected, folder, out):
    """Checks how a command has ended, and that it has left nothing."""
    status, printed, error, took = ended
    what = f"{name}: status {status}, {took:.1f} s\n{error}"
    assert "Traceback" not in error, what
    assert took < (SECONDS_TO_SAVE if name in SAVING else SECONDS_TO_END), what
    if status == 0:  # The signal came when all was done.
        shutil.rmtree(out, ignore_errors=True)  # Some write nothing.
    else:
        assert status == expected, what
        # The training says where it has stopped on stdout, with its progress.
        assert re.search("the same command (begins|continues|again)", printed + error), what
        assert error.count("\n") <= 2, what
    assert list(folder.iterdir()) == [], what
    assert not list(out.rglob("_tmp-*")), what


@pytest.mark.release
@pytest.mark.parametrize("name", COMMANDS)
def test_a_signal_at_any_moment(name, made, tmp_path):
    generator = random.Random(f"{SEED} {name}")
    temporary, out = tmp_path / "temporary", tmp_path / "out"
    started = time.monotonic()
    finish(start(name, made, tmp_path / "whole", temporary))
    longest = time.monotonic() - started
    for _ in range(MOMENTS):
        way = generator.choice(list(WAYS))
        seconds = longest * generator.random()
        signals, expected = WAYS[way]
        print(f"{name}: {way} after {seconds:.2f} of {longest:.2f} s")
        ended = interrupt(start(name, made, out, temporary), seconds, signals)
        check_end(name, ended, expected, temporary, out)
    finish(start(name, made, out, temporary))


def test_every_command_is_interrupted():
    """But for those that run the others in processes of their own, or in a row."""
    of_others = {"glue", "retrain", "demo", "train"}
    of_others |= {"explore"}  # It shows a page until it is interrupted.
    assert {name.split()[0] for name in COMMANDS} == set(cli.COMMANDS) - of_others
