"""Clients of Google Cloud's services, and their errors as one message."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from beambert.errors import InputError


def vertex_client(service: str, region: str) -> Any:
    """Returns a client of one of Vertex AI's services, such as JobService, in a region."""
    from google.cloud import aiplatform_v1

    options = {"api_endpoint": f"{region}-aiplatform.googleapis.com"}
    return getattr(aiplatform_v1, f"{service}Client")(client_options=options)


def session(project: str) -> Any:
    """Returns an HTTP session whose requests are made in a project's name.

    Raises:
      DefaultCredentialsError: there are no credentials on this machine.
    """
    import google.auth
    from google.auth.transport.requests import AuthorizedSession

    scopes = ["https://www.googleapis.com/auth/cloud-platform"]
    credentials, _ = google.auth.default(scopes=scopes, quota_project_id=project)
    return AuthorizedSession(credentials)


def dataflow_client() -> Any:
    """Returns a client of Dataflow's jobs."""
    from google.cloud import dataflow_v1beta3

    return dataflow_v1beta3.JobsV1Beta3Client()


def jobs_on_dataflow(project: str, region: str, **fields: str) -> list[Any]:
    """Returns the jobs on Dataflow that are at work or wait for it, by fields of the request."""
    where = {"project_id": project, "location": region, "view": "JOB_VIEW_ALL"}
    return list(dataflow_client().list_jobs({**where, "filter": "ACTIVE", **fields}))


# What services answer while the accounts that they act under are still being made, or while an API
# that was just enabled is not yet known everywhere; both take minutes in a new project.
_NOT_YET = ("being provisioned", "service agent", "has not been used", "SERVICE_DISABLED")
_TRIES, _SECONDS_BETWEEN_TRIES = 10, 30.0


def patiently(call: Callable[..., Any], **request: Any) -> Any:
    """Returns the answer to a request, which a new project may refuse for some minutes."""
    from google.api_core.exceptions import GoogleAPICallError

    for tries_left in reversed(range(_TRIES)):
        try:
            return call(**request)
        except GoogleAPICallError as error:
            is_early = any(words.lower() in str(error).lower() for words in _NOT_YET)
            if not (is_early and tries_left):
                raise
            print(f"not ready yet ({error.message.splitlines()[0]}); trying again", flush=True)
            time.sleep(_SECONDS_BETWEEN_TRIES)


@contextlib.contextmanager
def service_errors(
    subject: str, what: str, remedy: str = "check the account's roles and the service's quota"
) -> Iterator[None]:
    """Turns the error of a service into an `InputError`.

    Args:
      subject: name of the run, job or file that the error is about.
      what: what cannot be done, such as "cannot be started".
      remedy: advice for the message.

    Raises:
      InputError: a service refuses a request or cannot be reached, or there are no credentials.
    """
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError

    try:
        yield
    except DefaultCredentialsError as error:
        raise InputError(
            f"{subject}: {what}, as this machine has no credentials for Google Cloud; run `gcloud "
            "auth application-default login`, or check the file that "
            "GOOGLE_APPLICATION_CREDENTIALS names"
        ) from error
    except (GoogleAPIError, GoogleAuthError) as error:
        line = (str(error) or type(error).__name__).splitlines()[0]
        raise InputError(f"{subject}: {what} ({line}); {remedy}") from error
