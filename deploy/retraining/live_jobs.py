"""The jobs that earlier starts have left on Dataflow.

A start that is killed leaves its job at work. Before a run deletes its unfinished records, or sends
a second job that would write the same files, it looks for such a job.
"""

from beambert.deploy import google_cloud
from beambert.deploy.retraining.runs import (
    Retraining,
    RetrainingRun,
    records_job,
    vocabulary_job,
)
from beambert.folders import BusyError


def check_records(config: Retraining, run: RetrainingRun) -> None:
    """Refuses to go on with a run while a job that makes its records is at work.

    Raises:
      BusyError: there is such a job.
      InputError: Dataflow doesn't tell.
    """
    if live := live_records(config, run):
        raise BusyError(
            f"{run.path}: the Dataflow job {', '.join(live)} of an earlier start is at work; start "
            "again after its end, or cancel it on Dataflow's page to begin again"
        )


def live_records(config: Retraining, run: RetrainingRun) -> list[str]:
    """Returns the ids of the jobs at work that make the records of a run, or the vocabulary.

    Raises:
      InputError: Dataflow doesn't tell.
    """
    from google.cloud import dataflow_v1beta3 as dataflow

    found = []
    for name in filter(None, (vocabulary_job(config), records_job(config, run))):
        request = dataflow.ListJobsRequest(
            project_id=str(config.data.get("project")),
            location=str(config.data.get("region")),
            name=name,
            filter=dataflow.ListJobsRequest.Filter.ACTIVE,
        )
        remedy = "nothing was changed; correct the access and start again"
        what = f"Dataflow doesn't tell whether the job {name} is still at work"
        with google_cloud.service_errors(run.path, what, remedy):
            jobs = list(google_cloud.dataflow_client().list_jobs(request=request))
        found += [job.id for job in jobs if job.name == name]
    return found
