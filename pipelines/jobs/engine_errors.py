"""The errors of engines and their workers, as sentences for whoever can mend the cause."""

import contextlib
import importlib.metadata
import re
from collections.abc import Iterator

from beambert.console import input_error_in
from beambert.errors import InputError

# The local runner's message when one of its worker processes has ended.
WORKER_GONE = "Channel closed prematurely"
# Beam's messages about a missing option, and about a job of the same name that is still running.
MENDABLE = ("Pipeline has validations errors", "There is already active job named")
# The operating system's messages for a failed write, which Beam's sinks pass on unchanged.
_UNWRITABLE = "No space left on device|File too large|Disk quota exceeded|Read-only file system"
# Beam's workers compare their versions with those that made the job, as pickled functions differ
# between minor versions of Python.
_OTHER_PYTHON = (
    r"Submission environment: \S*beam_python([\d.]+)_sdk:(\S+?)\.? "
    r"Runtime environment: \S*beam_python([\d.]+)_sdk:(\S*[^\s.])"
)
# An exception of Flink's or Spark's own. That of a worker has Python's traceback in it.
_OF_ENGINE = r"failed in state \w+: (?:[a-z]\w*\.)+\w+(?:Exception|Error): (.+)"


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """Turns exceptions of runners and workers into an `InputError` where the user can mend them.

    Raises:
      InputError: the user can mend the cause; all other exceptions pass unchanged.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, InputError) and "[while running " not in str(error):
            raise
        found = explain(error)
        if found is None:
            raise
        raise found from error


def explain(error: Exception) -> InputError | None:
    """Returns the sentence about an exception that the user can mend; None for all others."""
    import grpc
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError

    text = " ".join(str(error).split())
    if found := input_error_in(error):
        return found
    if WORKER_GONE in text:
        return InputError(
            "--direct_num_workers: a worker was killed, did not start or ran out of memory; "
            "give the same command again, with fewer workers if memory ran out (nothing is lost)"
        )
    if isinstance(error, (GoogleAPIError, GoogleAuthError)) or any(w in text for w in MENDABLE):
        return InputError(text)
    if other := re.search(_OTHER_PYTHON, text):
        return InputError(
            f"--sdk_container_image: the image has Python {other[3]} and Beam {other[4]}, and "
            f"the job comes from Python {other[1]} and Beam {other[2]}; give the command in an "
            "environment with the image's versions"
        )
    if unwritable := re.search(_UNWRITABLE, text):
        return InputError(
            f"--output: cannot be written ({unwritable[0]}); make room or choose another, then "
            "give the same command again"
        )
    if isinstance(error, grpc.RpcError):
        return _job_server_gone(error)
    if (failed := re.search(_OF_ENGINE, text)) and "Traceback" not in text:
        return InputError(
            f"--runner: the engine gave the job up ({failed[1].rstrip('.')}); change its settings, "
            "then give the same command again"
        )
    return None


def _job_server_gone(error: Exception) -> InputError:
    """Returns the sentence about a job server that broke off or didn't understand."""
    why = " ".join(str(error).split())
    if hasattr(error, "code"):
        why = f"{error.code().name}: {' '.join(str(error.details()).split())}"
    return InputError(
        f"--runner: the job server broke off ({why}); look into its log, and whether its "
        f"version of Beam goes with {importlib.metadata.version('apache-beam')} here, then give "
        "the same command again"
    )
