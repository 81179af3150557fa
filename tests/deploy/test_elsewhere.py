"""The retraining by a timer of systemd, by cron and on Kubernetes."""

import configparser
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import typing

import pytest
import yaml
from support import growing_corpus as corpus

from beambert.commands import COMMANDS
from beambert.deploy.retraining.command import STATUS_OF_BUSY

FOLDER = pathlib.Path(__file__).parents[2] / "deploy" / "elsewhere"
MANIFEST = yaml.safe_load((FOLDER / "cronjob.yaml").read_text())


def strange(value, kind: str, path: str = "") -> list[str]:
    """Returns the fields that Kubernetes' own model of an object doesn't have or can't take."""
    from kubernetes import client

    if inner := re.fullmatch(r"list\[(.*)\]", kind):
        assert isinstance(value, list), path
        return [f for n, v in enumerate(value) for f in strange(v, inner[1], f"{path}[{n}]")]
    if kind.startswith("dict("):
        return [] if isinstance(value, dict) else [path]
    if not kind.startswith("V1"):
        types = {"str": str, "int": int, "bool": bool, "object": object}
        return [] if isinstance(value, types[kind]) else [f"{path}: {value!r} is no {kind}"]
    model = getattr(client, kind)
    names = {outside: inside for inside, outside in model.attribute_map.items()}
    found = [f"{path}.{name}" for name in value if name not in names]
    known = {names[name]: each for name, each in value.items() if name in names}
    try:
        model(**known)  # refuses what lacks a required field
    except ValueError as error:
        found.append(f"{path}: {error}")
    for name, each in known.items():
        found += strange(each, model.openapi_types[name], f"{path}.{name}")
    return found


def test_the_cron_job_is_what_kubernetes_takes():
    assert strange(MANIFEST, "V1CronJob") == []
    wrong = {**MANIFEST, "spec": {**MANIFEST["spec"], "schedule": 5, "shedule": ""}}
    assert len(strange(wrong, "V1CronJob")) == 2


def test_the_cron_job_runs_the_command():
    pod = MANIFEST["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"][:2] == ["beambert", "retrain"]
    COMMANDS["retrain"].build_parser().parse_args(container["command"][2:])
    policy = MANIFEST["spec"]["jobTemplate"]["spec"]["podFailurePolicy"]["rules"][0]
    assert policy["onExitCodes"]["values"] == [2, STATUS_OF_BUSY]
    assert pod["restartPolicy"] == "Never"  # which the policy needs
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}


def unit(name: str) -> typing.Any:
    found = configparser.ConfigParser(strict=False, interpolation=None)
    found.optionxform = str
    found.read(FOLDER / name)
    return found


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_units_are_what_systemd_takes(tmp_path):
    """With a program that exists here in place of the installed one."""
    for path in FOLDER.glob("beambert-retrain.*"):
        text = path.read_text().replace("/srv/beambert/.venv/bin/beambert", "/bin/true")
        (tmp_path / path.name).write_text(text.replace("User=beambert\n", ""))
    files = [str(tmp_path / f"beambert-retrain.{kind}") for kind in ("service", "timer")]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *files],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    ours = [line for line in done.stderr.splitlines() if "beambert" in line]
    assert (done.returncode, ours) == (0, []), done.stderr
    when = unit("beambert-retrain.timer")["Timer"]["OnCalendar"]
    subprocess.run(["systemd-analyze", "calendar", when], check=True, capture_output=True)


def test_the_service_runs_the_command():
    service = unit("beambert-retrain.service")["Service"]
    program, *arguments = service["ExecStart"].split()
    assert program.endswith("/.venv/bin/beambert") and arguments[0] == "retrain"
    COMMANDS["retrain"].build_parser().parse_args(arguments[1:])
    # `systemctl stop` and a shutdown are no failures.
    stopped = 128 + signal.SIGTERM
    assert service["SuccessExitStatus"].split() == [str(STATUS_OF_BUSY), str(stopped)]


@pytest.mark.slow
def test_the_line_of_crontab(tmp_path):
    """cron gives a short PATH, /bin/sh and no terminal; the line's log has what happened."""
    text = (FOLDER / "beambert-retrain.timer").read_text()
    (line,) = re.findall(r"^#   0 3 \* \* \* +(.*)$", text, re.MULTILINE)
    (tmp_path / "text").mkdir()
    corpus.make(tmp_path)
    (tmp_path / "text" / "1.jsonl").write_text("")
    corpus.write_config(tmp_path, more=f'manifests = ["{tmp_path}/text/*.manifest"]\n')
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    script = tmp_path / ".venv" / "bin" / "beambert"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m beambert "$@"\n')
    script.chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", "-c", line.replace("/srv/beambert", str(tmp_path))],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "SHELL": "/bin/sh"},
        stdin=subprocess.DEVNULL,
        check=False,
    )
    log = (tmp_path / "retrain.log").read_text()
    assert done.returncode == 0, log
    assert "no manifest matches" in log and "nothing new" in log
