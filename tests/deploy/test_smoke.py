"""The smoke test on Google Cloud: its calls are real ones, and the documents point at its steps."""

import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from beambert.commands import COMMANDS
from beambert.deploy import manifest, smoke, smoke_steps
from beambert.deploy.retraining.runs import Retraining
from beambert.deploy.settings import Deployment, Release, Settings
from beambert.deploy.vertex import command as vertex
from beambert.errors import InputError

ROOT = pathlib.Path(__file__).parents[2]
SETTINGS = Settings("trial", "us-central1", "trial-bucket", "a@b", "0 3 * * *", "v5e-1")
STEPS = smoke_steps.steps(SETTINGS, "abcdef")
CALLS = [call for step in STEPS for call in step.calls]


def commands_in(calls, program):
    """Returns the arguments of each call of a program, also within loops and substitutions."""
    for call in calls:
        for part in re.split(r" \|\| | \| |; do |; |\)? && |\$\(", call):
            words = [word for word in shlex.split(part) if not re.match(r"[A-Z]+=", word)]
            if words[: len(program)] == program:
                yield words[len(program) :]


def test_commands_are_ours():
    found = list(commands_in(CALLS, ["beambert"]))
    found += [
        words[words.index("pretrain") :] for words in map(str.split, CALLS) if "pretrain" in words
    ]
    assert {name for name, *_ in found} == {"vocab", "pretrain", "retrain"}
    for name, *arguments in found:
        _, others = COMMANDS[name].build_parser().parse_known_args(arguments)
        assert not others or name == "vocab"
    for words in commands_in(CALLS, [sys.executable, "-m", "beambert.deploy.vertex"]):
        vertex.build_parser().parse_args(words)


def gcloud_calls():
    readme = (ROOT / "deploy" / "README.md").read_text() + (ROOT / "docs" / "cloud.md").read_text()
    readme = readme.replace("\\\n", " ").replace("…", "x").replace("$(git rev-parse HEAD)", "x")
    lines = [line for line in readme.splitlines() if line.startswith("gcloud ")]
    lines += re.findall(r"`(gcloud [^`]*)`", readme)
    calls = [*CALLS, *(line.partition(" && ")[0].partition("  #")[0] for line in lines)]
    return [re.sub(r"\$[A-Z]+", "name", call) for call in calls]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcloud") is None, reason="needs gcloud")
def test_calls_of_gcloud_are_what_it_takes(tmp_path):
    """gcloud checks commands and flags without sending anything."""
    calls = {shlex.join(["gcloud", *words]) for words in commands_in(gcloud_calls(), ["gcloud"])}
    assert len(calls) > 20
    file = tmp_path / "calls.json"
    file.write_text(json.dumps([{"command_string": call} for call in sorted(calls)]))
    done = subprocess.run(
        ["gcloud", "meta", "lint-gcloud-commands", f"--commands-file={file}"],
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout)
    assert len(found) == len(calls), done.stderr
    assert [(f["command_string"], f["error_message"]) for f in found if not f["success"]] == []


def test_the_configurations_are_two_of_one_workspace():
    """The first run's any machine may have; the second one's is the pipeline's."""
    deploy = ROOT / "deploy"
    text = (deploy / "smoke.toml").read_text()
    config = Retraining.from_toml(Deployment(SETTINGS, Release("abc")).fill_in(text), "smoke.toml")
    (call,) = (call for call in CALLS if call.startswith("sed "))
    first = subprocess.run(
        ["bash", "-c", call.partition(" > ")[0]], cwd=ROOT, capture_output=True, check=True
    ).stdout.decode()
    first = Retraining.from_toml(first, "smoke_first.toml")
    assert config.workspace == first.workspace == "gs://trial-bucket-work/smoke"
    assert (config.input, config.vocab_file) == (first.input, first.vocab_file)
    for name in ("max_seq_length", "dupe_factor"):
        assert config.data[name] == first.data[name]
    # The first one needs neither Dataflow nor accelerators, nor a manifest.
    assert "runner" not in first.data and not first.manifests and config.manifests
    assert "tpu" not in first.pretrain and "tpu" not in first.finetune
    calls = {step.name: " ".join(step.calls) for step in STEPS}
    assert f"{config.workspace}/runs/000001 " in calls["serving"]
    assert f"{config.workspace}/runs/000002/result.json" in calls["arrival"]
    assert f"{config.workspace}/runs/000002 " in calls["canary"]


def test_a_step_is_listed_after_those_that_it_needs():
    """`--start` counts on it; the last one needs all."""
    before = set()
    for step in STEPS:
        assert set(step.after) <= before, step.name
        before.add(step.name)
    assert STEPS[-1].name == "teardown" and set(STEPS[-1].after) == before - {"teardown"}


def test_times_add_up_along_the_longest_way():
    def step(name, minutes, *after):
        return smoke_steps.SmokeStep(name, "x", (), minutes, after=after)

    steps = [step("a", 1), step("b", 5, "a"), step("c", 2, "a"), step("d", 4, "b", "c")]
    assert smoke_steps.expected_minutes(steps) == 10
    assert smoke_steps.expected_minutes(steps[2:]) == 6  # as after --start=c
    assert smoke_steps.expected_minutes([]) == 0


def test_a_dry_run_prints_every_call_and_its_cost(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Settings, "read", classmethod(lambda cls: SETTINGS))
    monkeypatch.setattr(smoke, "run", lambda steps, record: pytest.fail("made a call"))
    smoke.main(["--project=trial", "--commit=abcdef", "--dry_run"])
    printed = capsys.readouterr().out
    for call in CALLS:
        assert call in printed
    costs = [float(cost) for cost in re.findall(r"^\[.*\$([\d.]+)", printed, re.MULTILINE)]
    ((total, minutes),) = re.findall(r"about \$([\d.]+) and (\d+) minutes in all", printed)
    assert len(costs) == len(STEPS) and sum(costs) == pytest.approx(float(total), abs=0.05)
    assert 1 < float(total) < 5 and 30 < int(minutes) < 60
    smoke.main(["--project=trial", "--commit=abcdef", "--dry_run", "--start=teardown"])
    assert "[build]" not in capsys.readouterr().out
    # What a run has recorded as done is not done again.
    (tmp_path / "smoke-output").mkdir()
    (tmp_path / "smoke-output" / "abcdef.done").write_text("resources\nbuild\n")
    smoke.main(["--project=trial", "--commit=abcdef", "--dry_run"])
    printed = capsys.readouterr().out
    assert "[build]" not in printed and "[corpus]" in printed
    smoke.main(["--project=trial", "--commit=another", "--dry_run"])
    assert "[build]" in capsys.readouterr().out


def test_steps_run_side_by_side_and_go_on_after_a_failure(tmp_path, capfd):
    """A step waits for those that it needs alone, and what has worked is not done again."""
    made, record = tmp_path / "made", tmp_path / "output" / "commit.done"
    there = "for i in $(seq 100); do test -e {} && break; sleep 0.1; done; test -e {}"

    def step(name, *calls, after=()):
        return smoke_steps.SmokeStep(name, "x", (*calls, f"echo {name} >> {made}"), 1, after=after)

    steps = [
        step("one", there.format(tmp_path / "two", tmp_path / "two")),
        step("two", f"touch {tmp_path / 'two'}"),
        step("bad", there.format(made, made), f"exit $(cat {tmp_path / 'status'})", after=("two",)),
        step("next", after=("bad",)),
        step("teardown", after=("one", "two", "bad", "next")),
    ]
    (tmp_path / "status").write_text("3")
    with pytest.raises(InputError, match="bad: a call failed .status 3.; .* same command again"):
        smoke.run(steps, record)
    assert sorted(made.read_text().split()) == sorted(record.read_text().split()) == ["one", "two"]
    printed = capfd.readouterr().out
    assert "[two] $ touch" in printed and "[next]" not in printed
    (tmp_path / "status").write_text("0")
    smoke.run(steps[2:], record)
    assert made.read_text().split()[2:] == ["bad", "next", "teardown"]
    assert not record.exists()


def test_a_pipe_that_breaks_is_a_failure(tmp_path):
    step = smoke_steps.SmokeStep("one", "x", ("false | cat",), 1)
    with pytest.raises(InputError, match="one: a call failed"):
        smoke.run([step], tmp_path / "done")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--project=mine"], "--project=mine: .*terraform.tfvars names trial"),
        (["--project=trial", "--start=x"], "--start=x: is no step; choose one of resources, "),
    ],
)
def test_flags_that_are_wrong(monkeypatch, flags, message):
    monkeypatch.setattr(Settings, "read", classmethod(lambda cls: SETTINGS))
    with pytest.raises(InputError, match=message):
        smoke.main([*flags, "--commit=abc"])


def test_a_dry_run_needs_no_settings_of_the_project(monkeypatch, capsys, tmp_path):
    """Whoever wants to know what it costs has no project yet."""
    monkeypatch.chdir(tmp_path)
    smoke.main(["--project=not-yet-there", "--commit=abc", "--dry_run"])
    printed = capsys.readouterr().out
    named = Settings.read()
    calls = [call for step in smoke_steps.steps(named, "abc") for call in step.calls]
    for call in calls:
        assert re.sub(rf"\b{named.project}(?!-)", "not-yet-there", call) in printed
    assert printed.splitlines()[-1].startswith("before the calls are made, write not-yet-there")


def test_the_table_of_missing_proofs_names_the_steps():
    text = (ROOT / "docs" / "limits.md").read_text().partition("## The cloud")[2]
    named = set(re.findall(r"--start=([a-z]+)", text))
    assert named == {step.name for step in STEPS if step.name not in ("corpus", "teardown")}


def test_the_table_of_mended_faults_names_real_tests():
    text = (ROOT / "docs" / "limits.md").read_text().partition("| fault | test |")[2]
    rows = [line for line in text.partition("\n\n")[0].splitlines() if " in [" in line]
    assert len(rows) > 20
    for row in rows:
        found = re.findall(r"((?:`test_\w+`(?: and )?)+) in \[[^]]*\]\(\.\./([^)]+)\)", row)
        assert found, row
        for names, path in found:
            for name in re.findall(r"`(test_\w+)`", names):
                assert f"def {name}(" in (ROOT / path).read_text(), name


@pytest.mark.parametrize("flags", [[], ["--dry_run"]])
def test_make_without_a_project(capsys, flags):
    with pytest.raises(InputError, match="--project: is empty; give the project for trials"):
        smoke.main(["--project=", *flags])
    assert not capsys.readouterr().out


def test_a_manifest_of_files(tmp_path, capsys, monkeypatch):
    (tmp_path / "b.jsonl").write_text("{}\n")
    (tmp_path / "a.jsonl").write_text("")
    manifest.main([str(tmp_path / name) for name in ("b.jsonl", "a.jsonl")])
    found = json.loads(capsys.readouterr().out)["files"]
    assert found == [{"path": "a.jsonl", "bytes": 0}, {"path": "b.jsonl", "bytes": 3}]
    # Where the manifest lies apart from its files.
    manifest.main(["--folder=gs://b-text", str(tmp_path / "a.jsonl")])
    found = json.loads(capsys.readouterr().out)["files"]
    assert found == [{"path": "gs://b-text/a.jsonl", "bytes": 0}]
    for paths, message in (
        ([str(tmp_path)], "is no file on this machine"),
        (["gs://b-text/a.jsonl"], "gs://b-text/a.jsonl: is no file on this machine"),
        (["/etc/hosts", str(tmp_path / "a.jsonl")], "lie in several folders; write a manifest for"),
    ):
        with pytest.raises(InputError, match=message):
            manifest.manifest(paths)
    with pytest.raises(InputError, match="FILE: missing"):
        manifest.main(["--folder=gs://b-text"])
