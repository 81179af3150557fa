"""How amounts are written; hiding stderr from several threads: nobody waits, it is put back."""

import os
import subprocess
import sys
import threading

import pytest

from beambert.cli import run_main
from beambert.console import counted, size
from beambert.errors import InputError
from beambert.process import quiet_stderr


def test_an_error_is_one_line_that_no_terminal_obeys(capsys):
    """A name in it may hold anything that a file's name may."""

    def main(argv):
        raise InputError(f"--input={argv[0]}: is a folder")

    assert run_main("data", main, ["a\nb\x1b[2Jc\u202e é文 \u3000"]) == 2
    written = "a\\nb\\x1b[2Jc\\u202e é文 \u3000"
    assert capsys.readouterr().err == f"beambert data: --input={written}: is a folder\n"


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


def test_a_pipe_to_another_process_that_breaks_is_a_fault():
    def main(argv):
        raise BrokenPipeError("a worker is gone")

    with pytest.raises(BrokenPipeError, match="a worker is gone"):
        run_main("data", main, [])


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


def test_the_last_to_leave_puts_it_back(capfd):
    first, second = quiet_stderr(), quiet_stderr()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    os.write(2, b"hidden")
    second.__exit__(None, None, None)
    os.write(2, b"seen")
    assert capfd.readouterr().err == "seen"


def test_amounts_are_written_as_people_read_them():
    assert [counted(count, "file") for count in (0, 1, 2000)] == [
        "0 files",
        "1 file",
        "2,000 files",
    ]
    sizes = [
        size(number) for number in (0, 1, 999, 1000, 12_345, 999_949, 1_000_000, 2_345_678_901)
    ]
    assert sizes == [
        *("0 bytes", "1 byte", "999 bytes", "1.0 kB", "12.3 kB", "999.9 kB", "1.0 MB", "2345.7 MB"),
    ]


@pytest.mark.parametrize(
    "error",
    [MemoryError(), ImportError("libtensorflow_cc.so.2: failed to map segment from shared object")],
)
def test_memory_that_is_used_up_is_one_sentence(error, capsys, monkeypatch):
    def main(_):
        raise error

    monkeypatch.setattr("resource.getrlimit", lambda _: (-1, -1))
    assert run_main("data", main, []) == 2
    assert capsys.readouterr().err == "beambert data: the memory is used up; give it more\n"


def test_a_library_that_is_missing_is_no_matter_of_memory():
    def main(_):
        raise ImportError("No module named 'x'")

    with pytest.raises(ImportError, match="No module"):
        run_main("data", main, [])


def test_a_message_with_all_of_a_long_line_keeps_its_beginning_and_its_end():
    message = str(InputError(f"a.tsv: has no column 'text' (it has {'x ' * 500_000}); correct it"))
    assert message.startswith("a.tsv: has no column 'text' (it has x x")
    assert message.endswith("x x ); correct it")
    assert len(message) < 3000
