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
import time
import uuid
from collections.abc import Iterator
from typing import Any

from beambert.pipelines.shared.errors import InputError

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
        # Processes in containers are often of the same number, on hosts of the same name.
        holder = f"process {os.getpid()} on {socket.gethostname()} ({uuid.uuid4().hex[:8]})"
        lease.acquire(holder, LEASE)
        try:
            with _renewed(lease, holder):
                yield ()
        finally:
            with contextlib.suppress(InputError):  # it is over by itself
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
    except OSError as error:  # some network file systems know no locks
        os.close(descriptor)
        raise InputError(f"{path}: cannot be locked ({error.strerror})") from error
    try:
        with contextlib.suppress(OSError):  # only to tell who it is; a full disk has no room for it
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} (or a step it began)\n".encode())
        yield (descriptor,)
    finally:
        os.close(descriptor)


@dataclasses.dataclass(frozen=True)
class Holder:
    """Who has a lease, and for how long after its object was written."""

    name: str
    length: datetime.timedelta

    def to_json(self) -> str:
        """Returns what the lock's object holds."""
        return json.dumps({"holder": self.name, "seconds": self.length.total_seconds()})

    @classmethod
    def from_json(cls, text: str) -> "Holder":
        """Reads it."""
        found = json.loads(text)
        return cls(found["holder"], datetime.timedelta(seconds=found["seconds"]))


class Lease:
    """The lock of a workspace on gs://; every change names the generation that it replaces.

    All times are the storage's own: machines whose clocks differ agree on when a lease is over.
    """

    def __init__(self, workspace: str):
        """Takes the workspace.

        Raises:
          InputError: nobody here may use the storage.
        """
        from google.cloud import storage

        bucket, _, folder = workspace.removeprefix("gs://").partition("/")
        self._name = f"{folder}/{LOCK_FILE}" if folder else LOCK_FILE
        self._path = f"gs://{bucket}/{self._name}"
        with self._told():
            self._bucket = storage.Client().bucket(bucket)
        self._generation = 0

    def acquire(self, holder: str, length: datetime.timedelta) -> None:
        """Takes the lease; one that is over, or is the holder's own, is taken over.

        Raises:
          BusyError: it is another's.
          InputError: the bucket can't be read or written.
        """
        from google.api_core import exceptions

        try:
            with self._told():
                found = self._bucket.get_blob(self._name)
                generation = found.generation if found else 0
                if found:
                    there = self._read(found)
                    expires = found.updated + there.length
                    if there.name != holder and self._now() < expires:
                        raise self._busy(f"{there.name} (until {expires:%d %b %H:%M} UTC)")
                blob = self._bucket.blob(self._name)
                text = Holder(holder, length).to_json()
                blob.upload_from_string(text, if_generation_match=generation)
                self._generation = blob.generation
        except exceptions.PreconditionFailed:
            raise self._busy("another run, begun in the same moment,") from None

    def _read(self, blob: Any) -> Holder:
        """Reads an object of the lock, of the generation that was found."""
        from google.api_core import exceptions

        try:
            text = blob.download_as_text(if_generation_match=blob.generation)
        except exceptions.NotFound as error:  # given back since
            raise exceptions.PreconditionFailed("gone") from error
        try:
            return Holder.from_json(text)
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{self._path}: is damaged; delete it if no run is at work") from error

    def _now(self) -> datetime.datetime:
        """Returns the storage's time, which it gives to what is written."""
        from google.api_core import exceptions

        probe = self._bucket.blob(f"{self._name}.clock")
        probe.upload_from_string("what time is it?")
        with contextlib.suppress(exceptions.NotFound):  # another has asked, too
            probe.delete()
        return probe.updated

    def _busy(self, whom: str) -> BusyError:
        return BusyError(
            f"{self._path}: {whom} is at work there; wait for its end, or delete the object if "
            "you know that it isn't running any more"
        )

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Says in a sentence what the storage refuses."""
        from google.api_core import exceptions
        from google.auth.exceptions import GoogleAuthError

        try:
            yield
        except exceptions.PreconditionFailed:
            raise
        except (exceptions.GoogleAPICallError, GoogleAuthError, OSError) as error:
            line = (str(error) or type(error).__name__).splitlines()[0]
            raise InputError(f"{self._path}: cannot be read and written ({line})") from error

    def release(self) -> None:
        """Gives the lease back, if it is still ours.

        Raises:
          InputError: the storage can't be reached.
        """
        from google.api_core import exceptions

        blob = self._bucket.blob(self._name)
        with self._told(), contextlib.suppress(exceptions.NotFound, exceptions.PreconditionFailed):
            blob.delete(if_generation_match=self._generation)


def release(workspace: str, holder: str) -> None:
    """Gives back the lease of a holder that took it in another process; another's stays."""
    lease = Lease(workspace)
    with contextlib.suppress(BusyError):
        lease.acquire(holder, LEASE)
        lease.release()


@contextlib.contextmanager
def _renewed(lease: Lease, holder: str) -> Iterator[None]:
    """Renews a lease while a body runs; ends the process once it is lost."""
    stop = threading.Event()

    def keep() -> None:
        last = time.monotonic()
        while not stop.wait(SECONDS_BETWEEN_RENEWALS):
            begun = time.monotonic()
            try:
                lease.acquire(holder, LEASE)
                last = begun
                continue
            except BusyError as error:
                print(f"the lock is another's now: {error}", file=sys.stderr, flush=True)
            except Exception as error:  # of the network, mostly; it may be back in time
                print(f"the lock can't be renewed: {error}", file=sys.stderr, flush=True)
                if begun - last < LEASE.total_seconds():
                    continue
            os.kill(os.getpid(), signal.SIGTERM)  # a step gets it, too, and saves what it has
            return

    thread = threading.Thread(target=keep, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
