"""The smoke test on Google Cloud: its calls are real ones, and the documents point at its steps."""

import json
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest

from beambert.commands import COMMANDS
from beambert.deploy import manifest, smoke
from beambert.deploy.retraining.runs import Retraining
from beambert.deploy.settings import Deployment, Release, Settings
from beambert.deploy.vertex import command as vertex
from beambert.pipelines.shared.errors import InputError

ROOT = pathlib.Path(__file__).parents[2]
SETTINGS = Settings("trial", "us-central1", "trial-bucket", "a@b", "0 3 * * *", "v5e-1")
STEPS = smoke.steps(SETTINGS, "abcdef")
CALLS = [call for step in STEPS for call in step.calls]


def commands_in(calls, program):
    """Returns the arguments of each call of a program, also within loops and substitutions."""
    for call in calls:
        for part in re.split(r" \|\| |; do |; |\)? && |\$\(", call):
            words = [word for word in shlex.split(part) if not re.match(r"[A-Z]+=", word)]
            if words[: len(program)] == program:
                yield words[len(program) :]


def test_commands_are_ours():
    found = list(commands_in(CALLS, ["beambert"]))
    found += [
        words[words.index("pretrain") :] for words in map(str.split, CALLS) if "pretrain" in words
    ]
    assert {name for name, *_ in found} == {"vocab", "pretrain"}
    for name, *arguments in found:
        _, others = COMMANDS[name].build_parser().parse_known_args(arguments)
        assert not others or name == "vocab"
    for words in commands_in(CALLS, [smoke.sys.executable, "-m", "beambert.deploy.vertex"]):
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


def test_the_configuration_is_one():
    text = (ROOT / "deploy" / "smoke.toml").read_text()
    config = Retraining.from_toml(Deployment(SETTINGS, Release("abc")).fill_in(text), "smoke.toml")
    assert config.workspace == "gs://trial-bucket-work/smoke"
    (arrival,) = (step for step in STEPS if step.name == "arrival")
    assert f"{config.workspace}/runs/000001/result.json" in " ".join(arrival.calls)


def test_a_dry_run_prints_every_call_and_its_cost(monkeypatch, capsys):
    monkeypatch.setattr(Settings, "read", classmethod(lambda cls: SETTINGS))
    monkeypatch.setattr(smoke, "run", lambda steps: pytest.fail("made a call"))
    smoke.main(["--project=trial", "--commit=abcdef", "--dry_run"])
    printed = capsys.readouterr().out
    for call in CALLS:
        assert call in printed
    costs = [float(cost) for cost in re.findall(r"^\[.*\(\$([\d.]+)", printed, re.MULTILINE)]
    (total,) = re.findall(r"about \$([\d.]+) in all", printed)
    assert len(costs) == len(STEPS) and sum(costs) == pytest.approx(float(total), abs=0.05)
    assert 1 < float(total) < 10
    smoke.main(["--project=trial", "--commit=abcdef", "--dry_run", "--start=teardown"])
    assert "[build]" not in capsys.readouterr().out


def test_it_stops_at_the_first_call_that_fails(tmp_path, capsys):
    made = tmp_path / "made"
    steps = [
        smoke.Step("one", "x", (f"echo 1 >> {made}", "exit 3", f"echo 2 >> {made}")),
        smoke.Step("two", "y", (f"echo 3 >> {made}",)),
    ]
    with pytest.raises(InputError, match="one: a call failed .status 3.; .*--start=one"):
        smoke.run(steps)
    assert made.read_text() == "1\n"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--project=mine"], "--project=mine: .*terraform.tfvars names trial"),
        (["--project=trial", "--start=x"], "--start=x: is no step; choose one of resources, build"),
    ],
)
def test_flags_that_are_wrong(monkeypatch, flags, message):
    monkeypatch.setattr(Settings, "read", classmethod(lambda cls: SETTINGS))
    with pytest.raises(InputError, match=message):
        smoke.main([*flags, "--commit=abc", "--dry_run"])


def test_the_table_of_missing_proofs_names_the_steps():
    text = (ROOT / "docs" / "limits.md").read_text().partition("## The cloud")[2]
    named = set(re.findall(r"--start=([a-z]+)", text))
    assert named == {step.name for step in STEPS if step.name not in ("corpus", "teardown")}


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
    for paths in (
        [],
        [str(tmp_path)],
        [str(tmp_path / "c")],
        ["/etc/hosts", str(tmp_path / "a.jsonl")],
    ):
        with pytest.raises(InputError, match="folder|is no file"):
            manifest.manifest(paths)
