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
    """Refuses to go on with a run while a job that makes its records or vocabulary is at work.

    Raises:
      BusyError: there is such a job.
      InputError: Dataflow doesn't tell.
    """
    for name in filter(None, (vocabulary_job(config), records_job(config, run))):
        project, region = str(config.data.get("project")), str(config.data.get("region"))
        remedy = "nothing was changed; correct the access and start again"
        what = f"Dataflow doesn't tell whether the job {name} is still at work"
        with google_cloud.service_errors(run.path, what, remedy):
            found = google_cloud.jobs_on_dataflow(project, region, name=name)
        if live := [job.id for job in found if job.name == name]:
            raise BusyError(
                f"{run.path}: the Dataflow job {live[0]} of an earlier start is at work; start "
                "again after its end, or cancel it on Dataflow's page to begin again"
            )
