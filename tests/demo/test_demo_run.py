"""The demo's steps: real commands with real flags, run once, continued after a failure."""

import json
import os
import signal

import pytest

from beambert.cli import COMMANDS
from beambert.demo import run
from beambert.errors import InputError


def python_step(name, code, output):
    """A step that runs a bit of Python instead of a command."""
    module = f"step_{name}"
    (output.parent / f"{module}.py").write_text(code)
    return run.DemoStep(name, module, ("x",), output)


def test_every_planned_command_has_real_flags(tmp_path):
    (tmp_path / "classifier-random").mkdir()
    (tmp_path / "classifier-random" / "results.json").write_text('{"accuracy": 0.5}')
    commands = [*run.plan(tmp_path), *run.judge(tmp_path)]
    parsed = [c for c in commands if c.module == "beambert"]
    assert len(parsed) == 7
    for command in parsed:
        COMMANDS[command.arguments[0]].build_parser().parse_args(list(command.arguments[1:]))


def test_the_bar_is_what_random_weights_reach(tmp_path):
    (tmp_path / "classifier-random").mkdir()
    (tmp_path / "classifier-random" / "results.json").write_text('{"accuracy": 0.4321}')
    assert "--threshold=0.4321" in run.judge(tmp_path)[0].arguments


def test_the_summary_has_the_results_and_the_times(tmp_path):
    trained = {"masked_lm_accuracy": 0.175, "commonest_token_accuracy": 0.068}
    results = {
        "encoder": trained | {"next_sentence_accuracy": 0.78},
        "classifier": {"accuracy": 0.625, "baseline_accuracy": 0.125},
        "classifier-random": {"accuracy": 0.41},
    }
    for name, content in results.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.json").write_text(json.dumps(content))
    step = run.DemoStep("export", "beambert", ("export",), tmp_path / "serving")
    lines = run.summarize(tmp_path, [run.Done(step, 75.4)]).splitlines()
    assert lines[1].index("17.5%") == lines[2].index("78.0%")
    assert "41.0%" in lines[3] and "NOT_BLESSED" in lines[4] and "1 min 15 s" in lines[-1]


def test_a_done_step_is_not_run_again(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    output = tmp_path / "made"
    step = python_step("make", f"print('hello'); open({str(output)!r}, 'a').write('x')", output)
    first = run.Journal(tmp_path).run(step)
    second = run.Journal(tmp_path).run(step)
    assert output.read_text() == "x"
    assert first.seconds == second.seconds
    printed = capfd.readouterr().out
    assert printed.count("hello\n") == 1 and "already done" in printed


def test_a_failed_step_stops_the_demo_and_is_not_booked(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    step = python_step("fail", "raise SystemExit(3)", tmp_path / "made")
    with pytest.raises(InputError, match="fail: the step failed"):
        run.Journal(tmp_path).run(step)
    assert not (tmp_path / run.STEPS_FILE).exists()


def test_an_interrupted_step_ends_the_demo_as_an_interrupt(tmp_path, monkeypatch):
    """The step saves and says so first, as the training does."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    saved = tmp_path / "saved"
    code = f"""
import os, signal, sys, time
def save(*_):
    time.sleep(1)
    print("saved", flush=True)
    open({str(saved)!r}, "w").close()
    sys.exit(130)
for number in (signal.SIGINT, signal.SIGTERM):  # of the terminal, and of the demo
    signal.signal(number, save)
os.kill(os.getppid(), signal.SIGINT)
os.kill(os.getpid(), signal.SIGINT)
time.sleep(60)
"""
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run.Journal(tmp_path).run(python_step("interrupt", code, tmp_path / "made"))
    assert saved.exists()
    assert signal.getsignal(signal.SIGINT) is before


def test_a_journal_cut_short_leaves_the_earlier_one(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    run.Journal(tmp_path).run(python_step("one", "print(1)", tmp_path / "step_one.py"))
    before = (tmp_path / run.STEPS_FILE).read_text()

    def cut_short(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", cut_short)  # all is written to another file first
    journal, step = run.Journal(tmp_path), run.DemoStep("two", "step_one", ("y",), tmp_path)
    with pytest.raises(KeyboardInterrupt):
        journal.run(step)
    assert (tmp_path / run.STEPS_FILE).read_text() == before
