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

from beambert.cli import COMMANDS

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


def environment(folder):
    quiet = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3", "TMPDIR": str(folder)}
    return os.environ | quiet


def start(arguments, folder, popen=forked.Popen):
    """Starts a command in a process group, as a shell does."""
    folder.mkdir(parents=True, exist_ok=True)
    return popen(
        [sys.executable, "-m", "beambert", *map(str, arguments)],
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
    of_names = commands(root, root)
    for name in ("data", "pretrain", "finetune", "embed", "index"):
        process = start(of_names[name], root / "temporary")
        _, error = process.communicate(timeout=300)
        assert (process.returncode, error) == (0, "")
    return root


def commands(made, out) -> dict[str, list]:
    """The arguments of each command, which reads from one folder and writes to another."""
    vocabulary = f"--vocab_file={made / 'vocab.txt'}"
    text = f"--input={made}/text/*.jsonl"
    task = ["--task=classification", f"--data_dir={made / 'task'}"]
    data = ["data", text, vocabulary, "--max_seq_length=32", "--num_shards=2", "--dupe_factor=2"]
    tiny = ["--recipe=tiny", f"--model={made / 'bert_config.json'}", "--train_batch_size=8"]
    finetune = ["--max_seq_length=24", "--train_batch_size=8", "--num_train_epochs=2"]
    return {
        "vocab": ["vocab", text, "--vocab_size=200", f"--output={out / 'vocabulary.txt'}"],
        "data": [*data, f"--output={out / 'records'}"],
        "data in two processes": [*data, f"--output={out / 'records'}", *TWO_PROCESSES],
        "verify": ["verify", made / "records", f"--output={out / 'verification'}"],
        "pretrain": [
            *("pretrain", f"--data={made / 'records'}", *tiny, "--num_train_steps=20"),
            f"--model_dir={out / 'encoder'}",
        ],
        "finetune": [
            *("finetune", *task, f"--init={made / 'encoder'}", *finetune),
            f"--model_dir={out / 'classifier'}",
        ],
        "predict": [
            *("predict", f"--model={made / 'classifier'}", f"--input={made / 'texts.txt'}"),
            f"--output={out / 'answers'}",
        ],
        "evaluate": [
            *("evaluate", *task, f"--model={made / 'classifier'}"),
            f"--output={out / 'evaluation'}",
        ],
        "fill": [
            *("fill", f"--model={made / 'encoder'}", f"--input={made / 'masked.txt'}"),
            f"--output={out / 'answers.jsonl'}",
        ],
        "score": [
            *("score", f"--model={made / 'encoder'}", f"--input={made / 'texts.txt'}"),
            f"--output={out / 'scores.jsonl'}",
        ],
        "embed": [
            *("embed", f"--model={made / 'encoder'}", f"--input={made / 'texts.csv'}"),
            *("--id_column=id", f"--output={out / 'embeddings'}"),
        ],
        "index": [
            *("index", f"--embeddings={made / 'embeddings'}", f"--output={out / 'index'}"),
        ],
        "search": [
            *("search", f"--index={made / 'index'}", "--by=words", f"--input={made / 'texts.txt'}"),
            f"--output={out / 'hits.jsonl'}",
        ],
        "judge": [
            *("judge", f"--index={made / 'index'}", "--by=words", f"--data_dir={made / 'beir'}"),
        ],
        "compare": ["compare", made / "encoder", made / "classifier"],
        "export": ["export", f"--model={made / 'classifier'}", f"--output={out / 'serving'}"],
    }


NAMES = list(commands(ROOT, ROOT))


def wait_until_installed(process):
    """Waits until the command handles SIGTERM; before, Python itself is starting."""
    while process.poll() is None:
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
        if int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.001)


def interrupt(arguments, folder, seconds, numbers, popen=forked.Popen):
    """Interrupts a command; returns its status, stdout, stderr and the time to its end."""
    process = start(arguments, folder, popen)
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
        pytest.fail(f"{arguments[0]} hangs {seconds:.2f} s after its start")
    return process.returncode, out, error, time.monotonic() - sent


def check_end(name, ended, expected, folder, out):
    """Checks how a command has ended, and that it has left nothing."""
    status, printed, error, took = ended
    what = f"{name}: status {status}, {took:.1f} s\n{error}"
    assert "Traceback" not in error, what
    assert took < (SECONDS_TO_SAVE if name in SAVING else SECONDS_TO_END), what
    if status == 0:  # The signal came when all was done.
        shutil.rmtree(out)
    else:
        assert status == expected, what
        # The training says where it has stopped on stdout, with its progress.
        assert re.search("the same command (begins|continues|again)", printed + error), what
        assert error.count("\n") <= 2, what
    assert list(folder.iterdir()) == [], what
    assert not list(out.rglob("_tmp-*")), what


@pytest.mark.release
@pytest.mark.parametrize("name", NAMES)
def test_a_signal_at_any_moment(name, made, tmp_path):
    generator = random.Random(f"{SEED} {name}")
    temporary, out = tmp_path / "temporary", tmp_path / "out"
    started = time.monotonic()
    whole = start(commands(made, tmp_path / "whole")[name], temporary)
    _, error = whole.communicate(timeout=300)
    assert (whole.returncode, error) == (0, "")
    longest = time.monotonic() - started
    for _ in range(MOMENTS):
        way = generator.choice(list(WAYS))
        seconds = longest * generator.random()
        signals, expected = WAYS[way]
        print(f"{name}: {way} after {seconds:.2f} of {longest:.2f} s")
        ended = interrupt(commands(made, out)[name], temporary, seconds, signals)
        check_end(name, ended, expected, temporary, out)
    again = start(commands(made, out)[name], temporary)
    _, error = again.communicate(timeout=300)
    assert (again.returncode, error) == (0, "")


def test_every_command_is_interrupted():
    """But for those that run the others in processes of their own, or in a row."""
    of_others = {"glue", "retrain", "demo", "train"}
    of_others |= {"explore"}  # It shows a page until it is interrupted.
    assert {name.split()[0] for name in NAMES} == set(COMMANDS) - of_others
