"""What earlier starts have left on Google Cloud: jobs on Dataflow, and the lock of a pipeline.

A component that is lost leaves its job at work. Before a run deletes its unfinished records, or
sends a second job that would write the same files, it looks for such a job and waits for its end.
A pipeline that is cancelled leaves its lock for a week, unless the next one sees that it is over.
"""

import re
import time
from collections.abc import Sequence
from typing import Any

from beambert.deploy import google_cloud
from beambert.deploy.retraining.runs import Retraining, RetrainingRun, records_job

SECONDS_BETWEEN_LOOKS = 30.0


def await_records(config: Retraining, run: RetrainingRun) -> None:
    """Waits until no job that makes the records of a run is at work.

    Raises:
      InputError: Dataflow doesn't tell.
    """
    reported = None
    while live := live_records(config, run):
        if live != reported:
            print(
                f"{run.path}: waits for the Dataflow job {', '.join(live)} of an earlier start, "
                "which is still at work; cancel it on Dataflow's page to begin again",
                flush=True,
            )
            reported = live
        time.sleep(SECONDS_BETWEEN_LOOKS)


def live_records(config: Retraining, run: RetrainingRun) -> list[str]:
    """Returns the ids of the jobs at work that make the records of a run; none on other runners.

    Raises:
      InputError: Dataflow doesn't tell.
    """
    wanted = records_job(config, run)
    if wanted is None:
        return []
    remedy = "nothing was changed; correct the access and start again"
    what = f"Dataflow doesn't tell whether the job {wanted.name} is still at work"
    with google_cloud.service_errors(run.path, what, remedy):
        found = _list(wanted.project, wanted.region, wanted.name)
    return [job.id for job in found if job.name == wanted.name]


def _list(project: str, region: str, name: str) -> Sequence[Any]:
    """Returns Dataflow's jobs of a name that are at work or wait for it."""
    from google.cloud import dataflow_v1beta3 as dataflow

    request = dataflow.ListJobsRequest(
        project_id=project,
        location=region,
        name=name,
        filter=dataflow.ListJobsRequest.Filter.ACTIVE,
    )
    return list(google_cloud.dataflow_client().list_jobs(request=request))


def is_over(holder: str) -> bool:
    """Returns whether a lock's holder is a pipeline of Vertex AI that has ended.

    Raises:
      InputError: Vertex AI doesn't tell.
    """
    found = re.fullmatch(r"projects/[^/]+/locations/([^/]+)/pipelineJobs/[^/]+", holder)
    if not found:
        return False
    from google.api_core.exceptions import NotFound

    with google_cloud.service_errors(
        holder, "Vertex AI doesn't tell whether this pipeline is over"
    ):
        client = google_cloud.vertex_client("PipelineService", found[1])
        try:
            state = client.get_pipeline_job(name=holder).state.name
        except NotFound:  # it was deleted
            return True
    return state.removeprefix("PIPELINE_STATE_") in ("SUCCEEDED", "FAILED", "CANCELLED")
