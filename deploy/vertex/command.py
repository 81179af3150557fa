"""Sends jobs, schedules and models to Vertex AI.

    python -m beambert.deploy.vertex --release=COMMIT deploy   puts a release to use
    python -m beambert.deploy.vertex rollback COMMIT           puts an earlier one to use again
    python -m beambert.deploy.vertex stop --endpoint           ends the schedule and the serving
    python -m beambert.deploy.vertex step --step=encoder       does a step of the open run
    python -m beambert.deploy.vertex job -- pretrain --data=…  runs a command of the trainer
    python -m beambert.deploy.vertex upload RUN                registers the model of a run
    python -m beambert.deploy.vertex serve RUN --share=10      gives it a share of the requests
    python -m beambert.deploy.vertex canary RUN --share=10     the same, unless it does worse

With --show, the command prints the request, or what it would do, and changes nothing.
"""

import argparse
import json
import pathlib
import shlex
from collections.abc import Sequence

from beambert.commands import COMMANDS
from beambert.deploy.retraining.command import PLAN, RELEASE
from beambert.deploy.retraining.runs import BEAM_SECTIONS, ENCODER, SECTIONS, STEPS
from beambert.deploy.settings import Deployment, Release, Settings
from beambert.deploy.vertex import canary, jobs, registry, releases, requests
from beambert.errors import InputError
from beambert.flags import FlagParser


def build_parser() -> FlagParser:
    """Returns the parser of the command's flags."""
    parser = FlagParser(prog="python -m beambert.deploy.vertex", description=__doc__)
    add = parser.add_argument
    add("--show", action="store_true", help="print the request and change nothing")
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
    add("--executor_input", metavar="JSON", help="Vertex's description of the pipeline's component")
    job = kinds.add_parser("job", help="run a command of the trainer")
    hours = requests.HOURS[ENCODER]
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
    stop = kinds.add_parser("stop", help="end the schedule; runs that have begun go on")
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
    canary = kinds.add_parser(
        "canary", help="give a registered model a share of the requests, unless it does worse"
    )
    canary.add_argument("run", help="folder of the run")
    canary.add_argument(
        "--share", type=int, metavar="PERCENT", required=True,
        help="its share of the requests in percent",
    )  # fmt: skip
    return parser


def _check(flags: argparse.Namespace) -> None:
    """Refuses what no request could be made of, and a job that would end at its start.

    Raises:
      InputError: a flag is missing, or has a value that cannot be used.
    """
    if flags.kind == "deploy" and not flags.release:
        raise InputError("--release: is needed by `deploy`; name a commit that was built")
    looks_up = flags.kind == "step" and flags.step in (*requests.ON_ACCELERATORS, registry.REGISTER)
    if flags.show and looks_up and not (flags.release or flags.deployment):
        raise InputError(
            f"--show: `step --step={flags.step}` reads the configuration of a release; name it "
            "with --release, or with --deployment"
        )
    if flags.kind == "upload" and not flags.run.startswith("gs://"):
        raise InputError(
            f"{flags.run}: is on this machine, and Vertex AI takes models from buckets; name a run "
            "under gs://"
        )
    if flags.kind == "canary" and flags.show:
        raise InputError("--show: `canary` acts on answers; show `serve` with the same --share")
    if flags.kind in ("serve", "canary"):
        least, most = (0, 100) if flags.kind == "serve" else (1, 99)
        if not least <= flags.share <= most:
            raise InputError(f"--share={flags.share}: must be from {least} to {most}")
    if flags.kind == "job":
        if flags.hours < 1:
            raise InputError(f"--hours={flags.hours}: must be at least 1")
        name, *others = flags.arguments
        if name not in COMMANDS:
            raise InputError(f"{name}: is no command that a job could run; see beambert --help")
        parser = COMMANDS[name].build_parser()
        is_trainer = name in SECTIONS and name not in BEAM_SECTIONS
        (parser.parse_args if is_trainer else parser.parse_known_args)(others)


def read_deployment(flags: argparse.Namespace) -> Deployment:
    """Returns the deployment that the flags name.

    Raises:
      InputError: it cannot be read.
    """
    if flags.deployment:
        from beambert.pipelines.storage.tensorflow_files import read_text

        text = read_text(flags.deployment, "--deployment")
        return Deployment.from_json(text, f"--deployment={flags.deployment}")
    settings = Settings.read()
    if flags.show:
        return Deployment(settings, Release(flags.release or "COMMIT"))
    if flags.release:
        return releases.find(settings, flags.release)
    return releases.in_use(settings)


def _step(deployment: Deployment, flags: argparse.Namespace) -> None:
    """Does a step of the retraining: on accelerators as a job, otherwise here."""
    from beambert.deploy.retraining import command, workspace
    from beambert.deploy.vertex import lineage

    step, settings = flags.step, deployment.settings
    arguments = requests.step_arguments(deployment.config, step)[1:]
    for name in ("holder", "outcome_file"):
        if getattr(flags, name):
            arguments.append(f"--{name}={getattr(flags, name)}")
    if flags.show and step not in (*requests.ON_ACCELERATORS, registry.REGISTER):
        print(f"beambert retrain {shlex.join(arguments)}")
        return
    config = workspace.read_config(deployment.config)
    if step == registry.REGISTER:
        registered = registry.register_last(deployment, config.workspace, flags.show)
        share = settings.canary_share
        if registered and share and not flags.show:
            canary.try_out(settings, config, registered, share)
        return
    run = workspace.read_history(config.workspace).open
    if step in requests.ON_ACCELERATORS:
        if run is None:
            raise InputError(f"--step={step}: there is no open run in {config.workspace}; plan one")
        if not workspace.is_done(step, run) or flags.show:
            _send(deployment, requests.step_job(deployment, config, run, step), flags.show)
        if flags.show:
            return
    else:
        if step == RELEASE and run is not None and command.is_held(config, flags.holder):
            # A component that was lost has left its accelerators at work.
            for each in requests.ON_ACCELERATORS:
                name = requests.step_job(deployment, config, run, each)["display_name"]
                jobs.cancel(settings, name)
        command.main(arguments)
    if flags.executor_input and run is not None:
        lineage.write(step, run, flags.executor_input)


def _send(deployment: Deployment, request: dict, show: bool) -> None:
    if show:
        print(json.dumps(request, indent=1))
    else:
        jobs.run_to_end(deployment.settings, request)


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: a flag or a setting cannot be used, or a job failed.
    """
    flags = build_parser().parse_args(list(argv))
    _check(flags)
    from beambert.deploy.retraining import workspace

    if flags.kind == "rollback":
        releases.rollback(Settings.read(), flags.commit, flags.show)
    elif flags.kind == "stop":
        settings = Settings.read()
        releases.stop(settings, flags.show)
        if flags.endpoint:
            registry.delete_endpoint(settings, flags.show)
    elif flags.kind == "serve":
        registry.serve(Settings.read(), flags.run, flags.share, flags.show)
    elif flags.kind == "canary":
        deployment = read_deployment(flags)
        config = workspace.read_config(deployment.config)
        canary.try_out(deployment.settings, config, flags.run, flags.share)
    elif flags.kind == "deploy":
        releases.deploy(read_deployment(flags), flags.config, flags.show)
    elif flags.kind == "upload":
        registry.upload(read_deployment(flags), flags.run, flags.show)
    elif flags.kind == "step":
        _step(read_deployment(flags), flags)
    else:
        deployment = read_deployment(flags)
        request = requests.job_by_hand(deployment, flags.arguments, flags.hours)
        _send(deployment, request, flags.show)
