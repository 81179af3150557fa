"""Sends jobs, schedules and models to Vertex AI.

    python -m beambert.deploy.vertex --release=COMMIT deploy   puts a release to use
    python -m beambert.deploy.vertex rollback COMMIT           puts an earlier one to use again
    python -m beambert.deploy.vertex start                     starts the pipeline now
    python -m beambert.deploy.vertex stop --endpoint           ends schedule, pipelines and serving
    python -m beambert.deploy.vertex step --step=encoder       does a step of the open run
    python -m beambert.deploy.vertex job -- pretrain --data=…  runs a command of the trainer
    python -m beambert.deploy.vertex upload RUN                registers the model of a run
    python -m beambert.deploy.vertex serve RUN --share=10      gives it a share of the requests

With --show, `deploy` and `job` print their request and send nothing.
"""

import argparse
import json
import pathlib
import sys
from collections.abc import Sequence

from beambert.cli import COMMANDS, run_main
from beambert.deploy.retraining.command import PLAN, RELEASE
from beambert.deploy.retraining.runs import BEAM_SECTIONS, ENCODER, SECTIONS, STEPS
from beambert.deploy.settings import Deployment, Release, Settings
from beambert.deploy.vertex import jobs, registry, releases
from beambert.errors import InputError
from beambert.flags import FlagParser


def build_parser() -> FlagParser:
    """Returns the parser of the command's flags."""
    parser = FlagParser(prog="python -m beambert.deploy.vertex", description=__doc__)
    add = parser.add_argument
    add("--show", action="store_true", help="with deploy or job: print the request, send nothing")
    add("--release", metavar="COMMIT", help="release to take (default: the one in use)")
    add(
        "--deployment",
        metavar="FILE",
        help="deployment.json of a release, which the steps of a pipeline read (default: "
        "deploy/terraform/terraform.tfvars and --release)",
    )
    kinds = parser.add_subparsers(dest="kind", metavar="COMMAND", required=True)
    step = kinds.add_parser("step", help="do a step of the open run, on the machine that it needs")
    add = step.add_argument
    add(
        "--step", required=True, choices=(PLAN, *STEPS, registry.REGISTER, RELEASE),
        help="step of `beambert retrain`; register: the registry gets what the last run published",
    )  # fmt: skip
    add("--holder", help="see `beambert retrain --help`")
    add("--outcome_file", metavar="FILE", help="see `beambert retrain --help`")
    job = kinds.add_parser("job", help="run a command of the trainer")
    hours = jobs.HOURS[ENCODER]
    job.add_argument(
        "--hours", type=int, default=hours, help="longest time in hours (default: %(default)s)"
    )
    job.add_argument("arguments", nargs="+", help="the command with its flags, after --")
    deploy = kinds.add_parser(
        "deploy", help="put a release to use: configuration, pipeline, schedule"
    )
    deploy.add_argument(
        "--config",
        type=pathlib.Path,
        default=releases.FOLDER / "retrain.toml",
        metavar="FILE",
        help="configuration of the retraining (default: deploy/retrain.toml)",
    )
    rollback = kinds.add_parser("rollback", help="put an earlier release to use again")
    rollback.add_argument("commit", help="commit of the release")
    kinds.add_parser("start", help="start the pipeline now, besides its schedule")
    stop = kinds.add_parser("stop", help="end the schedule and cancel pipelines at work")
    stop.add_argument(
        "--endpoint", action="store_true", help="delete the endpoint, too; its requests then fail"
    )
    upload = kinds.add_parser("upload", help="register the model that a run published")
    upload.add_argument("run", help="folder of the run")
    serve = kinds.add_parser("serve", help="give a registered model a share of the requests")
    serve.add_argument("run", help="folder of the run")
    serve.add_argument(
        "--share", type=int, metavar="PERCENT", required=True,
        help="its share of the requests in percent, 0 to take it from the endpoint",
    )  # fmt: skip
    return parser


def _check(flags: argparse.Namespace) -> None:
    """Checks the flags before anything is sent, and those of a job before its machine is paid for.

    Raises:
      InputError: a flag is missing, or has a value that cannot be used.
    """
    if flags.show and flags.kind not in ("deploy", "job"):
        raise InputError(f"--show: is for deploy and job, not for {flags.kind}; leave it out")
    if flags.kind == "deploy" and not flags.release:
        raise InputError("--release: is needed by `deploy`; name a commit that was built")
    if flags.kind == "upload" and not flags.run.startswith("gs://"):
        raise InputError(
            f"{flags.run}: is on this machine, and Vertex AI takes models from buckets; name a run "
            "under gs://"
        )
    if flags.kind == "serve" and not 0 <= flags.share <= 100:
        raise InputError(f"--share={flags.share}: must be from 0 to 100")
    if flags.kind == "job":
        if flags.hours < 1:
            raise InputError(f"--hours={flags.hours}: must be at least 1")
        name, *others = flags.arguments
        if name not in COMMANDS:
            raise InputError(f"{name}: is not a command of beambert; see beambert --help")
        parser = COMMANDS[name].build_parser()
        is_trainer = name in SECTIONS and name not in BEAM_SECTIONS
        (parser.parse_args if is_trainer else parser.parse_known_args)(others)


def read_deployment(flags: argparse.Namespace) -> Deployment:
    """Returns the deployment that the flags name.

    Raises:
      InputError: it cannot be read.
    """
    if flags.deployment:
        from beambert.storage import read_text

        text = read_text(flags.deployment, "--deployment")
        return Deployment.from_json(text, f"--deployment={flags.deployment}")
    settings = Settings.read()
    if flags.show:
        return Deployment(settings, Release(flags.release or "COMMIT"))
    if flags.release:
        return releases.find(settings, flags.release)
    return releases.in_use(settings)


def _step(deployment: Deployment, flags: argparse.Namespace) -> None:
    """Does a step of the retraining: on accelerators as a job, otherwise in this process."""
    from beambert.deploy.retraining import command, workspace

    step, settings = flags.step, deployment.settings
    config = workspace.read_config(deployment.config)
    if step == registry.REGISTER:
        registry.register_last(deployment, config.workspace)
        return
    run = workspace.read_history(config.workspace).open
    if step in jobs.ON_ACCELERATORS:
        if run is None:
            raise InputError(f"--step={step}: there is no open run in {config.workspace}; plan one")
        if not workspace.is_done(step, run):
            jobs.run_to_end(settings, jobs.step_job(deployment, config, run, step))
        return
    if step == RELEASE and run is not None and command.is_held(config, flags.holder):
        # A component that was lost has left its accelerators at work.
        for each in jobs.ON_ACCELERATORS:
            jobs.cancel(settings, jobs.step_job(deployment, config, run, each)["display_name"])
    arguments = jobs.step_arguments(deployment.config, step)[1:]
    for name in ("holder", "outcome_file"):
        if getattr(flags, name):
            arguments.append(f"--{name}={getattr(flags, name)}")
    command.main(arguments)


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: a flag or a setting cannot be used, or a job failed.
    """
    flags = build_parser().parse_args(list(argv))
    _check(flags)
    if flags.kind == "rollback":
        releases.rollback(Settings.read(), flags.commit)
    elif flags.kind == "start":
        releases.start(Settings.read())
    elif flags.kind == "stop":
        settings = Settings.read()
        releases.stop(settings)
        if flags.endpoint:
            registry.delete_endpoint(settings)
    elif flags.kind == "serve":
        registry.serve(Settings.read(), flags.run, flags.share)
    elif flags.kind == "deploy":
        releases.deploy(read_deployment(flags), flags.config, flags.show)
    elif flags.kind == "upload":
        registry.upload(read_deployment(flags), flags.run)
    elif flags.kind == "step":
        _step(read_deployment(flags), flags)
    else:
        deployment = read_deployment(flags)
        request = jobs.job_by_hand(deployment, flags.arguments, flags.hours)
        if flags.show:
            print(json.dumps(request, indent=1))
        else:
            jobs.run_to_end(deployment.settings, request)


if __name__ == "__main__":
    sys.exit(run_main("vertex", main, sys.argv[1:]))
