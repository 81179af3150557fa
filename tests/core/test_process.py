"""Errors, flags and amounts as they are shown; stderr, logging, memory and loading of a process."""

import gc
import logging
import os
import pathlib
import subprocess
import sys
import threading
import warnings

import absl.logging
import pytest

import beambert
from beambert import process
from beambert.cli import COMMANDS, run_main
from beambert.errors import InputError
from beambert.flags import FlagParser
from beambert.pipelines.running import beam_options, works_here
from beambert.process import free_bytes, loading, logging_restored, quiet_stderr


def test_an_error_is_one_line_that_no_terminal_obeys(capsys):
    """A name in it may hold anything that a file's name may."""

    def main(argv):
        raise InputError(f"--input={argv[0]}: is a folder")

    assert run_main("data", main, ["a\nb\x1b[2Jc\u202e é文 \u3000नमी\u200cها"]) == 2
    written = "a\\nb\\x1b[2Jc\\u202e é文 \u3000नमी\u200cها"
    assert capsys.readouterr().err == f"beambert data: --input={written}: is a folder\n"


def test_a_terminal_obeys_nothing_that_a_command_prints():
    """Names, texts and labels may hold anything, and a locale may not have their letters."""
    program = (
        "import os, sys; from beambert import process; process.install()\n"
        "text = 'a\\x1b[2Jb\\u202e é\\udcff\\nc'\n"
        "print(text, flush=True); print(text, file=sys.stderr)\n"
        "os._exit(0)"  # The end of a command does not wait for the threads of libraries.
    )
    for encoding, letter in (("utf-8", "é"), ("ascii", "\\xe9")):
        environment = os.environ | {"PYTHONIOENCODING": encoding}
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, env=environment, check=True
        )
        written = f"a\\x1b[2Jb\\u202e {letter}\\udcff\nc\n".encode()
        assert (done.stdout, done.stderr) == (written, written)


def test_a_name_that_is_not_utf8_is_refused_by_every_command(capsys):
    def main(argv):
        raise AssertionError

    assert run_main("verify", main, ["records", "--output=a\udcff"]) == 2
    message = "beambert verify: --output=a\\udcff: the name is not UTF-8; rename the file\n"
    assert capsys.readouterr().err == message


def test_a_reader_that_has_seen_enough_ends_the_command_without_a_word():
    """As `beambert … | head -1` does."""
    program = (
        "import sys; from beambert.cli import run_main\n"
        "def main(argv):\n"
        "    for number in range(100_000): print(number)\n"
        "sys.exit(run_main('fill', main, []))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"0\n"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_a_thread_does_not_wait_for_another_that_hides(capfd):
    entered = threading.Event()

    def hide():
        with quiet_stderr():
            entered.set()

    with quiet_stderr():
        worker = threading.Thread(target=hide, daemon=True)
        worker.start()
        assert entered.wait(timeout=10)
        worker.join(timeout=10)
        os.write(2, b"hidden")
    os.write(2, b"seen")
    assert capfd.readouterr().err == "seen"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            ImportError("libtensorflow_cc.so.2: failed to map segment"),
            "the memory is used up; give",
        ),
        (MemoryError(), "the memory is used up; give"),
        (RuntimeError("can't start new thread"), "no thread can be started; raise"),
    ],
)
def test_a_limit_of_the_machine_is_one_sentence(capsys, error, message):
    def main(_):
        raise error

    assert run_main("data", main, []) == 2
    assert capsys.readouterr().err.startswith(f"beambert data: {message}")


def test_a_message_with_all_of_a_long_line_keeps_its_beginning_and_its_end():
    message = str(InputError(f"a.tsv: has no column 'text' (it has {'x ' * 500_000}); correct it"))
    assert message.startswith("a.tsv: has no column 'text' (it has x x")
    assert message.endswith("x x ); correct it")
    assert len(message) < 3000


@pytest.mark.parametrize("own", [[], [logging.NullHandler()]])
def test_handlers_and_levels_are_put_back(own, monkeypatch, capsys):
    monkeypatch.setattr(logging.root, "handlers", list(own))
    verbosity, level = absl.logging.get_verbosity(), logging.getLogger("absl").level

    @logging_restored()
    def work():
        absl.logging.set_verbosity(absl.logging.ERROR)
        absl.logging.error("adds a handler to a root logger without one")
        assert logging.root.handlers and logging.getLogger("absl").level != level
        return "done"

    assert work() == "done"
    assert logging.root.handlers == own
    assert logging.getLogger("absl").level == level
    absl.logging.set_verbosity(verbosity)


@pytest.fixture
def system(tmp_path):
    """A system with 9 GB free, and a function that writes its files."""

    def write(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    write("proc/meminfo", f"MemTotal: 1 kB\nMemAvailable:   {9 << 20} kB\n")
    return tmp_path, write


def test_the_memory_of_the_machine(system):
    assert free_bytes(system[0]) == 9 << 30
    assert free_bytes(system[0] / "nothing") is None


def test_limits_of_control_groups(system):
    """Of a container, whose own group is the root."""
    root, write = system
    write("sys/fs/cgroup/memory.max", "max\n")
    write("sys/fs/cgroup/memory.current", "1\n")
    assert free_bytes(root) == 9 << 30
    write("sys/fs/cgroup/memory.max", f"{6 << 30}\n")
    write("sys/fs/cgroup/memory.current", f"{3 << 30}\n")
    write("sys/fs/cgroup/memory.stat", f"anon 1\ninactive_file {1 << 30}\n")
    assert free_bytes(root) == 4 << 30
    # Version 1.
    write("sys/fs/cgroup/memory/memory.limit_in_bytes", f"{2 << 30}\n")
    write("sys/fs/cgroup/memory/memory.usage_in_bytes", f"{3 << 30}\n")
    assert free_bytes(root) == 0


def test_only_a_command_keeps_what_is_there_for_good(monkeypatch):
    """The collector of a notebook goes on looking through all objects, and nothing is hidden."""
    gc.unfreeze()
    with loading():
        assert sys.modules.get("matplotlib", "not loaded") is not None
    assert gc.get_freeze_count() == 0 and gc.isenabled()
    with monkeypatch.context() as patched:
        patched.setattr(process._Ending, "stderr", 2)
        with loading():
            pass
        assert gc.get_freeze_count() > 0 and gc.isenabled()
    gc.unfreeze()
    with loading():
        pass
    assert gc.get_freeze_count() == 0


def test_filters_of_warnings_that_a_library_adds_are_gone():
    before = list(warnings.filters)
    with loading():
        warnings.simplefilter("once")
    assert warnings.filters == before


def test_a_failing_import_raises_and_all_is_as_before():
    before = set(sys.modules)
    with pytest.raises(ModuleNotFoundError, match="no_such_library"), loading():
        import no_such_library  # noqa: F401
    assert gc.isenabled() and set(sys.modules) == before


# Commands whose unknown flags go to Beam.
BEAM = ("data", "verify", "vocab")


def refusal(command: str, *arguments: str) -> str:
    """What a command says about arguments that it refuses, as its `main` parses them."""
    parser = COMMANDS[command].build_parser()
    with pytest.raises(InputError) as error:
        if command in BEAM:
            _, others = parser.parse_known_args(arguments)
            beam_options(others, parser.flags)
        else:
            parser.parse_args(arguments)
    return str(error.value)


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        ("vocab", ["--inptu", "x"], "--inptu: no such flag; did you mean --input?"),
        (
            "vocab",
            ["--input=x", "--output=y", "--vocab=9"],
            "--vocab=9: no such flag; did you",
        ),
        (
            "vocab",
            ["--input=x", "--output=y", "--runer=R"],
            "--runer=R: no such flag; did you",
        ),
        ("data", ["--inputs=x", "--vocab_file=v", "--output=y"], "--inputs=x: no such flag; did"),
        ("finetune", ["--epochs=3"], "--epochs=3: no such flag; did you mean --num_train_epochs?"),
        ("vocab", ["--input=x", "--output=y", "z.txt"], "z.txt: is neither a flag nor the value"),
        ("vocab", ["--input=x", "--output=y", "-qqqqq"], "-qqqqq: no such flag; see --help"),
        ("vocab", ["--input=y", "--region=us-east1"], "--output: missing; see --help"),
        ("vocab", ["--input", "a", "gs:/b", "--output=c"], "--input=gs:/b: lacks a slash"),
        ("vocab", ["--vocab_size=1e4"], "--vocab_size=1e4: must be an integer"),
        ("vocab", ["--output=o", "--input"], "--input: needs a value; see --help"),
        ("verify", ["--input", "y"], "--input: no such flag; give the inputs without a flag"),
        ("pretrain", ["--gpus=2", "--model_dir=y"], "--gpus=2: no such flag; see --help"),
        ("pretrain", ["--data=a", "--model_dir="], "--model_dir=: is empty; give a path"),
        ("index", ["--embeddings=a", "--output=//"], "--output=//: is the root; give a path"),
    ],
)
def test_a_wrong_flag_is_named_with_the_nearest(command, arguments, message):
    assert refusal(command, *arguments).startswith(message)


def test_several_workers_are_processes():
    threads = ["--direct_num_workers=2", "--direct_running_mode=multi_threading"]
    assert works_here(beam_options([])) and works_here(beam_options(threads))
    assert not works_here(beam_options(["--direct_num_workers=2"]))


@pytest.mark.parametrize("name", ["output", "fraction"])
def test_two_dashes_are_no_value(name):
    parser = FlagParser(prog="x")
    parser.add_argument("--output")
    parser.add_argument("--fraction", type=float)
    for parse in (parser.parse_args, parser.parse_known_args):
        with pytest.raises(InputError, match=f"^--{name}: -- is no value; see --help$"):
            parse([f"--{name}=--"])


TASK = beambert.find_task("sst-2")


@pytest.mark.parametrize(
    "kind, as_given, meant",
    [
        (
            beambert.PretrainingDataJob,
            {"vocab_file": pathlib.Path("v.txt"), "output": pathlib.Path("o"), "input": "a*"}
            | {"max_seq_length": 64, "max_predictions_per_seq": 9, "scrub": ["email"]},
            {"vocab_file": "v.txt", "output": "o", "input": ("a*",)}
            | {"max_seq_length": (64,), "max_predictions_per_seq": (9,), "scrub": ("email",)},
        ),
        (
            beambert.EvaluationJob,
            {"task": TASK, "data_dir": pathlib.Path("d"), "model": "m", "output": "e"}
            | {"thresholds": beambert.Threshold("accuracy")},
            {"task": TASK, "data_dir": "d", "model": "m", "output": "e"}
            | {"thresholds": (beambert.Threshold("accuracy"),)},
        ),
    ],
)
def test_jobs_are_those_of_the_tuples(kind, as_given, meant):
    job = kind(**as_given)
    assert job == kind(**meant)
    assert {name: getattr(job, name) for name in meant} == meant


@pytest.mark.parametrize(
    "given, meant",
    [
        ({"num_shards": "four"}, "--num_shards=four"),
        ({"eval_fraction": "0.1"}, "--eval_fraction=0.1"),
        ({"do_lower_case": "True"}, "--do_lower_case=True"),
        ({"max_seq_length": ["32"]}, "--max_seq_length=32"),
    ],
)
def test_a_text_is_no_number(given, meant):
    with pytest.raises(InputError, match=f"^{meant}:"):
        beambert.PretrainingDataJob(vocab_file="vocab.txt", output="out", **given)
