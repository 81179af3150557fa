"""`beambert train`: its plan and its commands; what is run, continued and refused; its page."""

import json
import os
import re
import signal
import sys

import pytest

from beambert import training
from beambert.cli import COMMANDS
from beambert.errors import InputError
from beambert.training import (
    GOALS,
    Step,
    TrainJob,
    commands,
    judging_commands,
    plan,
    task_commands,
)


def job_of(minutes=30.0, **given):
    given = {"input": ("a.txt",), "output": "out", "budget": 60.0 * minutes} | given
    return TrainJob(**given)


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("minutes", [5, 30, 600])
@pytest.mark.parametrize("megabytes", [0.2, 20, 150])
def test_the_parts_of_a_plan_are_the_budget(goal, minutes, megabytes):
    made = plan(job_of(minutes, goal=goal), int(megabytes * 1e6))
    assert made.before + made.training + made.after == pytest.approx(60 * minutes)
    assert made.training >= 60 and 1 <= made.passes <= 10


def test_a_task_takes_nothing_of_the_time_of_an_encoder_that_is_given():
    """How long its trainings take follows from its size."""
    own, given = (
        [plan(job_of(30, task_data=task, init=init), 20_000_000).after for task in (None, "x")]
        for init in (None, ".")
    )
    assert own[0] < own[1] and given[0] == given[1]


def test_more_time_takes_more_passes_and_more_text_fewer():
    passes = [plan(job_of(minutes), 30_000_000).passes for minutes in (5, 30, 120)]
    assert passes == sorted(passes) and passes[0] < passes[-1]
    passes = [plan(job_of(30), int(size * 1e6)).passes for size in (1, 20, 100, 1000)]
    assert passes == sorted(passes, reverse=True) and passes[-1] == 1


def test_a_refusal_names_a_budget_that_is_enough():
    for size in (200_000, 20_000_000, 3_000_000_000):
        with pytest.raises(InputError, match="^--budget=") as refused:
            plan(job_of(1, task_data="x"), size)
        enough = int(re.search(r"at least (\d+)min", str(refused.value))[1])
        plan(job_of(enough, task_data="x"), size)
        with pytest.raises(InputError):
            plan(job_of(enough - 1, task_data="x"), size)


def test_too_little_text_is_refused():
    with pytest.raises(InputError, match="^TEXT: 99.0 kB"):
        plan(job_of(), 99_000)


@pytest.mark.parametrize("given", [{"goal": goal} for goal in GOALS] + [{"init": "."}])
def test_every_command_has_real_flags(given):
    columns = {"text_columns": ("sentence",), "label_column": "class"}
    job = job_of(
        task_data="task", language="de", do_lower_case=False, random_seed=7, **columns, **given
    )
    steps = [
        *commands(job, plan(job, 20_000_000), 60.0),
        *task_commands(job),
        *judging_commands(job, "0.5"),
    ]
    assert len(steps) == (6 if "init" in given else 7)
    for step in steps:
        command, *rest = step.arguments
        parser = COMMANDS[command].build_parser()
        _, unknown = parser.parse_known_args(rest)
        assert not unknown
        if command == "vocab" or (command == "data" and "init" not in given):
            assert "--do_lower_case=False" in rest
        assert ("--random_seed=7" in rest) == (command in ("data", "pretrain", "finetune"))
        if command in ("finetune", "evaluate"):
            assert {"--text_columns=sentence", "--label_column=class"} <= {*rest}


@pytest.fixture
def folder(tmp_path):
    return training.OutputFolder(str(tmp_path), is_finished=False)


def module(tmp_path, monkeypatch, code):
    """A stand-in for the package that runs some code with the arguments of a command."""
    (tmp_path / "beambert.py").write_text(code)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    run = (
        f"#!/bin/sh\nshift 3\nexec {os.path.realpath('/proc/self/exe')} {tmp_path}/beambert.py $@\n"
    )
    (tmp_path / "python").write_text(run)
    (tmp_path / "python").chmod(0o755)


def test_a_done_step_is_not_run_again(folder, tmp_path, monkeypatch):
    module(tmp_path, monkeypatch, f"open({str(tmp_path / 'ran')!r}, 'a').write('x')")
    first = training._Journal(folder).run(Step("one", ("x",)))
    assert training._Journal(folder).run(Step("one", ("x",))) == first
    assert (tmp_path / "ran").read_text() == "x"


def test_a_step_that_has_begun_keeps_its_arguments(folder, tmp_path, monkeypatch):
    """So that a training keeps the time that was left when it began."""
    module(tmp_path, monkeypatch, "")
    training._Journal(folder).run(Step("none", ()))
    module(tmp_path, monkeypatch, "raise SystemExit(3)")
    with pytest.raises(InputError, match="^one: failed"):
        training._Journal(folder).run(Step("one", ("--budget=60s",)))
    ran = tmp_path / "ran"
    module(tmp_path, monkeypatch, f"import sys; open({str(ran)!r}, 'w').write(sys.argv[1])")
    training._Journal(folder).run(Step("one", ("--budget=90s",)))
    assert ran.read_text() == "--budget=60s"


def test_a_first_step_that_fails_leaves_nothing(folder, tmp_path, monkeypatch):
    """Then the same folder can be given with other flags."""
    module(tmp_path, monkeypatch, "raise SystemExit(3)")
    with pytest.raises(InputError, match="^one: failed"):
        training._Journal(folder).run(Step("one", ()))
    assert not (tmp_path / training.JOURNAL_FILE).exists()


def test_how_the_text_is_read_is_passed_on():
    job = TrainJob(input="t.csv", output="out", text_column="body", budget="1h")
    for step in training.commands(job, training.plan(job, 10_000_000), 60.0)[:2]:
        assert "--text_column=body" in step.arguments
        assert not any(each.startswith("--encoding") for each in step.arguments)


def test_an_interrupted_step_saves_first(folder, tmp_path, monkeypatch):
    saved = tmp_path / "saved"
    code = f"""
import os, signal, sys, time
def save(*_):
    time.sleep(0.2)
    open({str(saved)!r}, "w").close()
    sys.exit(130)
signal.signal(signal.SIGTERM, save)
os.kill(os.getppid(), signal.SIGINT)
time.sleep(60)
"""
    module(tmp_path, monkeypatch, code)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        training._Journal(folder).run(Step("one", ("x",)))
    assert saved.exists() and signal.getsignal(signal.SIGINT) is before
    assert "seconds" not in json.loads((tmp_path / training.JOURNAL_FILE).read_text())["one"]


def test_a_dry_run_writes_nothing(tmp_path, capsys):
    text, task = tmp_path / "text.txt", tmp_path / "task"
    text.write_text("Es regnete. Der Fluß stieg über die Dämme.\n\n" * 4000)
    task.mkdir()
    for name in ("train", "dev"):
        (task / f"{name}.tsv").write_text("sentence\tclass\na\tb\nc\td\n")
    given = [f"--task_data={task}", "--text_columns=sentence", "--label_column=class"]
    for flags, steps in ([], 3), (given, 7):
        training.main([str(text), f"--output={tmp_path}/out", "--dry_run", *flags])
        printed = capsys.readouterr().out
        assert "Es regnete." in printed and printed.count("$ beambert") == steps
        assert printed.count("--do_lower_case=False") == 1
    assert sorted(os.listdir(tmp_path)) == ["task", "text.txt"]


def test_a_finished_folder_is_refused_before_anything_is_looked_at(tmp_path):
    kept = {"kind": "beambert train", "input": ["a.txt"], "budget": 60.0}
    (tmp_path / "_SUCCESS").write_text(json.dumps(kept))
    with pytest.raises(InputError, match=rf"--init={tmp_path}/encoder continues it"):
        training.train(job_of(output=str(tmp_path)))


def test_a_task_of_another_kind_is_found_before_the_training(tmp_path):
    (tmp_path / "text.txt").write_text("It rained. The river rose.\n\n" * 4000)
    (tmp_path / "train.tsv").write_text("question\tanswer\na\tb\n")
    with pytest.raises(InputError):
        training.main(
            [f"{tmp_path}/text.txt", f"--output={tmp_path}/out", f"--task_data={tmp_path}"]
        )
    assert not (tmp_path / "out").exists()
