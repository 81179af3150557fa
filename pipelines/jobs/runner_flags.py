"""Checks Beam's flags of runners, their servers and workers before anything is listed or sent."""

import difflib
import os
import urllib.parse
from typing import TYPE_CHECKING

from beambert.errors import InputError

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

# Beam's names of where workers live; others begin with `beam:env:`.
ENVIRONMENTS = ("DOCKER", "PROCESS", "EXTERNAL", "LOOPBACK")


def check_runner(options: "PipelineOptions") -> None:
    """Checks the flags of the runner, and makes its name and the path of Prism what Beam takes.

    Raises:
      InputError: there is no such runner, job server or place for workers, or a flag is missing.
    """
    from apache_beam.options.pipeline_options import (
        FlinkRunnerOptions,
        PortableOptions,
        PrismRunnerOptions,
        SparkRunnerOptions,
        StandardOptions,
    )

    standard, portable = options.view_as(StandardOptions), options.view_as(PortableOptions)
    if standard.runner:
        standard.runner = _whole_name(standard.runner)
    place = portable.environment_type
    if place and place not in ENVIRONMENTS and not place.startswith("beam:env:"):
        raise InputError(
            f"--environment_type={place}: Beam has no such environment; choose one of "
            + ", ".join(ENVIRONMENTS)
        )
    if standard.runner == "PortableRunner" and not portable.job_endpoint:
        raise InputError(
            "--runner=PortableRunner: takes a job server; name its host and port by "
            "--job_endpoint, or choose FlinkRunner, SparkRunner or PrismRunner, which start one"
        )
    flink, spark = options.view_as(FlinkRunnerOptions), options.view_as(SparkRunnerOptions)
    prism = options.view_as(PrismRunnerOptions)
    for flag, server in (
        ("flink_job_server_jar", flink.flink_job_server_jar),
        ("spark_job_server_jar", spark.spark_job_server_jar),
        ("prism_location", prism.prism_location),
    ):
        if server and not urllib.parse.urlsplit(server).scheme and not os.path.isfile(server):
            raise InputError(f"--{flag}={server}: there is no such file; name one that is there")
    if prism.prism_location and os.path.isfile(prism.prism_location):
        # Without a folder in it, the path would be looked for among the system's programs.
        prism.prism_location = os.path.abspath(prism.prism_location)


def _whole_name(name: str) -> str:
    """Returns the name of one of Beam's runners as Beam writes it; one of others has a module.

    Raises:
      InputError: there is no such runner.
    """
    from apache_beam.options.pipeline_options import StandardOptions

    known = {each.lower(): each for each in StandardOptions.KNOWN_RUNNER_NAMES}
    for lower in (name.lower(), f"{name.lower()}runner"):
        if lower in known:
            return known[lower]
    if "." in name:
        return name
    near = difflib.get_close_matches(name, known.values(), 1)
    raise InputError(
        f"--runner={name}: Beam has no such runner; "
        + (f"did you mean {near[0]}?" if near else f"choose one of {', '.join(known.values())}")
    )
