"""One run at a time in a workspace, by a lock that no killed run leaves behind."""

import contextlib
import dataclasses
import datetime
import fcntl
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

from pipelines.errors import InputError

LOCK_FILE = "LOCK"
# A lock on gs:// is a lease: who dies without a word loses it after so long.
LEASE = datetime.timedelta(minutes=5)
SECONDS_BETWEEN_RENEWALS = 60.0
# A Vertex pipeline ends by itself after a week (its longest run time).
PIPELINE_LEASE = datetime.timedelta(days=7)


class BusyError(InputError):
    """Somebody else is at work in the workspace."""


@contextlib.contextmanager
def one_at_a_time(workspace: str) -> Iterator[tuple[int, ...]]:
    """Holds a workspace's lock.

    Yields:
      descriptors that child processes must inherit, so that a child that outlives its killed
      parent still holds the lock.

    Raises:
      BusyError: another process holds it.
      InputError: the workspace can't be written.
    """
    if workspace.startswith("gs://"):
        lease = Lease(workspace)
        lease.acquire(f"process {os.getpid()} on {socket.gethostname()}", LEASE)
        try:
            with _renewed(lease):
                yield ()
        finally:
            lease.release()
        return
    path = os.path.join(workspace, LOCK_FILE)
    try:
        os.makedirs(workspace, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise InputError(f"workspace {workspace}: cannot be written ({error.strerror})") from error
    try:
        # The kernel gives it back when the last process that has the descriptor ends.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 1000).decode(errors="replace").strip() or "another process"
        os.close(descriptor)
        message = f"{workspace}: {holder} is at work there; wait for its end"
        raise BusyError(message) from None
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()} (or a step it began)\n".encode())
        yield (descriptor,)
    finally:
        os.close(descriptor)


@dataclasses.dataclass(frozen=True)
class Holder:
    """Who has a lease, and until when."""

    name: str
    expires: datetime.datetime

    def to_json(self) -> str:
        """Returns what the lock's object holds."""
        return json.dumps({"holder": self.name, "expires": self.expires.isoformat()})

    @classmethod
    def from_json(cls, text: str) -> "Holder":
        """Reads it."""
        found = json.loads(text)
        return cls(found["holder"], datetime.datetime.fromisoformat(found["expires"]))

    def excludes(self, name: str, now: datetime.datetime) -> bool:
        """Whether somebody of this name has to wait."""
        return self.name != name and now < self.expires


class Lease:
    """The lock of a workspace on gs://; every change names the generation that it replaces."""

    def __init__(self, workspace: str, client: Any = None):
        """Takes the workspace, and a client of the storage for one other than the default."""
        from google.cloud import storage

        client = client or storage.Client()
        bucket, _, folder = workspace.removeprefix("gs://").partition("/")
        name = f"{folder}/{LOCK_FILE}" if folder else LOCK_FILE
        self._blob = client.bucket(bucket).blob(name)
        self._path = f"gs://{bucket}/{name}"
        self._generation = 0
        self._holder = ""

    def acquire(self, holder: str, length: datetime.timedelta) -> None:
        """Takes the lease; one that is over, or is the holder's own, is taken over.

        Raises:
          BusyError: it is another's.
          InputError: the bucket can't be read or written.
        """
        from google.api_core import exceptions

        now = datetime.datetime.now(datetime.UTC)
        try:
            self._generation = 0  # of an object that isn't there
            with contextlib.suppress(exceptions.NotFound):
                found = Holder.from_json(self._blob.download_as_text())
                self._generation = self._blob.generation
                if found.excludes(holder, now):
                    raise self._busy(f"{found.name} (until {found.expires:%d %b %H:%M} UTC)")
            self._holder = holder
            self.renew(length)
        except exceptions.PreconditionFailed:
            raise self._busy("another run, begun in the same moment,") from None
        except (exceptions.GoogleAPICallError, OSError) as error:
            raise InputError(f"{self._path}: cannot be read and written ({error})") from error

    def _busy(self, whom: str) -> BusyError:
        return BusyError(
            f"{self._path}: {whom} is at work there; wait for its end, or delete the object if "
            "you know that it isn't running any more"
        )

    def renew(self, length: datetime.timedelta) -> None:
        """Sets when the lease is over.

        Raises:
          google.api_core.exceptions.PreconditionFailed: somebody else has it now.
        """
        holder = Holder(self._holder, datetime.datetime.now(datetime.UTC) + length)
        self._blob.upload_from_string(holder.to_json(), if_generation_match=self._generation)
        self._generation = self._blob.generation

    def release(self) -> None:
        """Gives the lease back, if it is still ours."""
        from google.api_core import exceptions

        with contextlib.suppress(exceptions.NotFound, exceptions.PreconditionFailed):
            self._blob.delete(if_generation_match=self._generation)


def release(workspace: str, holder: str) -> None:
    """Gives back the lease of a holder that took it in another process; another's stays."""
    lease = Lease(workspace)
    with contextlib.suppress(BusyError):
        lease.acquire(holder, LEASE)
        lease.release()


@contextlib.contextmanager
def _renewed(lease: Lease) -> Iterator[None]:
    """Renews a lease while a body runs; ends the process if somebody else has taken it over."""
    from google.api_core import exceptions

    stop = threading.Event()

    def keep() -> None:
        while not stop.wait(SECONDS_BETWEEN_RENEWALS):
            try:
                lease.renew(LEASE)
            except exceptions.PreconditionFailed:
                print("the lock is another's now; this run ends", file=sys.stderr, flush=True)
                os.kill(os.getpid(), signal.SIGTERM)  # a step gets it, too, and saves what it has
                return
            except Exception as error:  # of the network, mostly; it may be back in time
                print(f"the lock can't be renewed: {error}", file=sys.stderr, flush=True)

    thread = threading.Thread(target=keep, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
