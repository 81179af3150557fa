"""The retraining on Google Cloud: sets a project up, looks at it, and takes it down."""

import dataclasses
import sys
from collections.abc import Callable, Sequence
from typing import Any

from beambert.cli import COMMANDS, run_main
from beambert.config import add_settings, check_settings, read_settings, setting
from beambert.deploy import cloud
from beambert.deploy.retraining.runs import BEAM_SECTIONS, ENCODER, SECTIONS, RetrainingRun
from beambert.deploy.retraining.workspace import read_config
from beambert.deploy.settings import FILE, Deployment, Settings
from beambert.deploy.vertex import jobs, releases
from beambert.errors import InputError
from beambert.flags import FlagParser
from beambert.folders import BusyError


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProjectSettings:
    """The settings of `down`."""

    project: str = setting(metavar="PROJECT", help="the project of terraform.tfvars")
    yes: bool = setting(False, help="do not ask")

    def read(self) -> Settings:
        """Returns the settings of the project.

        Raises:
          InputError: they are of another project.
        """
        settings = Settings.read()
        if self.project != settings.project:
            raise InputError(
                f'--project={self.project}: {FILE} has project = "{settings.project}"; correct one '
                "of them"
            )
        return settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class UpSettings(ProjectSettings):
    """The settings of `up`."""

    config: str = setting(
        "deploy/trial.toml", metavar="FILE", help="configuration of the retraining"
    )
    release: str = setting("HEAD", metavar="COMMIT", help="commit to build and to deploy")


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobSettings:
    """The settings of `job`."""

    hours: int = setting(jobs.HOURS[ENCODER], minimum=1, help="longest time in hours")
    arguments: tuple[str, ...] = setting(
        is_positional=True, help="the command with its flags, after --"
    )

    def __post_init__(self) -> None:
        """Checks the flags of the command before a machine is paid for.

        Raises:
          InputError: a flag cannot be used.
        """
        check_settings(self)
        name, *others = self.arguments
        if name not in SECTIONS or name in BEAM_SECTIONS:
            raise InputError(f"{name}: does not run on the trainer; give pretrain or finetune")
        COMMANDS[name].build_parser().parse_args(others)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RetrainSettings:
    """The settings of `retrain`."""

    deployment: str = setting(metavar="FILE", help="deployment.json of a release")


def _retrain(given: RetrainSettings) -> None:
    """Does a run of the retraining; none if another one is at work."""
    from beambert.deploy.retraining import command
    from beambert.io import read_text

    deployment = Deployment.from_json(read_text(given.deployment, "--deployment"))
    config = read_config(deployment.config)

    def train(step: str, run: RetrainingRun) -> None:
        jobs.run_to_end(deployment.settings, jobs.step_job(deployment, config, run, step))

    try:
        command.retrain(config, dict.fromkeys(jobs.on_accelerators(deployment.settings), train))
    except BusyError as error:  # no failure of the pipeline
        print(error)


def _job(given: JobSettings) -> None:
    deployment = releases.in_use(Settings.read())
    request = jobs.job_by_hand(deployment, given.arguments, given.hours)
    jobs.run_to_end(deployment.settings, request)


def _up(given: UpSettings) -> None:
    cloud.up(given.read(), given.config, given.release, given.yes)


def _down(given: ProjectSettings) -> None:
    cloud.down(given.read(), given.yes)


# Name of a command -> its settings, or None, what does it with these or with those of the project,
# and its help.
_COMMANDS: dict[str, tuple[type | None, Callable[[Any], None], str]] = {
    "up": (UpSettings, _up, "set up the project, and put a release to use"),
    "down": (ProjectSettings, _down, "stop and delete everything"),
    "status": (None, releases.print_status, "print runs and the served version"),
    "start": (None, releases.start, "start the pipeline now"),
    "stop": (None, releases.stop, "end schedule, pipelines and jobs"),
    "job": (JobSettings, _job, "run pretrain or finetune on the trainer"),
    "retrain": (RetrainSettings, _retrain, "do a run, as the pipeline does"),
}


def build_parser() -> FlagParser:
    """Returns the parser of the command's flags."""
    parser = FlagParser(prog="python -m beambert.deploy", description=__doc__)
    kinds = parser.add_subparsers(dest="kind", metavar="COMMAND", required=True)
    for name, (settings, _, text) in _COMMANDS.items():
        parser_of_kind = kinds.add_parser(name, help=text)
        if settings:
            add_settings(parser_of_kind, settings)
    return parser


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: a flag or a setting cannot be used, or a step failed.
    """
    flags = build_parser().parse_args(list(argv))
    settings, act, _ = _COMMANDS[flags.kind]
    act(read_settings(settings, flags) if settings else Settings.read())


if __name__ == "__main__":
    sys.exit(run_main("deploy", main, sys.argv[1:]))
