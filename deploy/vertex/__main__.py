"""Sends jobs, schedules and models to Vertex AI; `make cloud` sets up what they need.

    python -m beambert.deploy.vertex --release=COMMIT deploy   puts a release to use
    python -m beambert.deploy.vertex start                     starts the pipeline now
    python -m beambert.deploy.vertex status                    prints runs and the served version
    python -m beambert.deploy.vertex stop                      ends schedule, pipelines, jobs
    python -m beambert.deploy.vertex serve --share=10          puts a version behind an endpoint
    python -m beambert.deploy.vertex withdraw                  serves the version before it again
    python -m beambert.deploy.vertex retrain                   does a run, as the pipeline does
    python -m beambert.deploy.vertex job -- pretrain --data=…  runs a command of the trainer

With --show after their names, `deploy` and `job` print their request and send nothing.
"""

import dataclasses
import json
import sys
from collections.abc import Sequence

from beambert.cli import COMMANDS, run_main
from beambert.config import add_settings, check_settings, read_settings, setting
from beambert.deploy.retraining.runs import BEAM_SECTIONS, ENCODER, SECTIONS, RetrainingRun
from beambert.deploy.retraining.workspace import read_config
from beambert.deploy.settings import Deployment, Release, Settings
from beambert.deploy.vertex import jobs, releases
from beambert.errors import InputError
from beambert.flags import FlagParser
from beambert.folders import BusyError


@dataclasses.dataclass(frozen=True, kw_only=True)
class CommonSettings:
    """The settings before the command."""

    release: str | None = setting(
        None, metavar="COMMIT", help="release to take (default: the one in use)"
    )
    deployment: str | None = setting(
        None,
        metavar="FILE",
        help="deployment.json of a release, which the pipeline reads (default: "
        "deploy/terraform/terraform.tfvars and --release)",
    )
    kind: str

    def __post_init__(self) -> None:
        """Checks the values.

        Raises:
          InputError: a flag is missing.
        """
        check_settings(self)
        if self.kind == "deploy" and not self.release:
            raise InputError("--release: is needed by `deploy`; name a commit that was built")

    def read_deployment(self, show: bool = False) -> Deployment:
        """Returns the deployment that the flags name.

        Args:
          show: True to look nowhere for the release.

        Raises:
          InputError: it cannot be read.
        """
        if self.deployment:
            from beambert.io import read_text

            text = read_text(self.deployment, "--deployment")
            return Deployment.from_json(text, f"--deployment={self.deployment}")
        settings = Settings.read()
        if show:
            return Deployment(settings, Release(self.release or "COMMIT"))
        if self.release:
            return releases.find(settings, self.release)
        return releases.in_use(settings)


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobSettings:
    """The settings of `job`."""

    show: bool = setting(False, help="print the request, send nothing")
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
        if name not in COMMANDS:
            raise InputError(f"{name}: is not a command of beambert; see beambert --help")
        parser = COMMANDS[name].build_parser()
        is_trainer = name in SECTIONS and name not in BEAM_SECTIONS
        (parser.parse_args if is_trainer else parser.parse_known_args)(others)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeploySettings:
    """The settings of `deploy`."""

    show: bool = setting(False, help="print the request, send nothing")
    config: str = setting(
        str(releases.FOLDER / "retrain.toml"),
        metavar="FILE",
        help="configuration of the retraining (default: deploy/retrain.toml)",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """The settings of `serve`."""

    version: int | None = setting(None, minimum=1, help="number of the version (default: newest)")
    share: int = setting(100, minimum=1, maximum=100, help="share of the requests in percent")


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoSettings:
    """The other commands have no settings."""


# Name of a command -> its settings and its help.
_KINDS = {
    "retrain": (NoSettings, "do a run: the trainings on accelerators, the rest here"),
    "job": (JobSettings, "run a command of the trainer"),
    "deploy": (DeploySettings, "put a release to use: configuration, pipeline, schedule"),
    "start": (NoSettings, "start the pipeline now, besides its schedule"),
    "status": (NoSettings, "print the runs, the newest pipeline and the served version"),
    "stop": (NoSettings, "end the schedule, and cancel pipelines and their jobs"),
    "serve": (ServeSettings, "put a version behind an endpoint"),
    "withdraw": (NoSettings, "take the newest version back: endpoint, registry and folder"),
}


def build_parser() -> FlagParser:
    """Returns the parser of the command's flags."""
    parser = FlagParser(prog="python -m beambert.deploy.vertex", description=__doc__)
    add_settings(parser, CommonSettings)
    kinds = parser.add_subparsers(dest="kind", metavar="COMMAND", required=True)
    for name, (settings, text) in _KINDS.items():
        add_settings(kinds.add_parser(name, help=text), settings)
    return parser


def _retrain(deployment: Deployment) -> None:
    """Does a run of the retraining; none if another one is at work."""
    from beambert.deploy.retraining import command

    config = read_config(deployment.config)

    def train(step: str, run: RetrainingRun) -> None:
        jobs.run_to_end(deployment.settings, jobs.step_job(deployment, config, run, step))

    try:
        command.retrain(config, dict.fromkeys(jobs.on_accelerators(deployment.settings), train))
    except BusyError as error:  # no failure of the pipeline
        print(error)


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: a flag or a setting cannot be used, or a job failed.
    """
    flags = build_parser().parse_args(list(argv))
    common = read_settings(CommonSettings, flags)
    own = read_settings(_KINDS[common.kind][0], flags)
    simple = {"start": releases.start, "status": releases.print_status, "stop": releases.stop}
    if common.kind in simple:
        simple[common.kind](Settings.read())
    elif common.kind == "deploy":
        releases.deploy(common.read_deployment(own.show), own.config, own.show)
    elif common.kind == "retrain":
        _retrain(common.read_deployment())
    elif common.kind in ("serve", "withdraw"):
        from beambert.deploy.vertex import serving

        deployment = common.read_deployment()
        config = read_config(deployment.config)
        if common.kind == "serve":
            serving.serve(deployment, config, own.version, own.share)
        else:
            serving.withdraw(deployment, config)
    else:
        deployment = common.read_deployment(own.show)
        request = jobs.job_by_hand(deployment, own.arguments, own.hours)
        if own.show:
            print(json.dumps(request, indent=1))
        else:
            jobs.run_to_end(deployment.settings, request)


if __name__ == "__main__":
    sys.exit(run_main("vertex", main, sys.argv[1:]))
