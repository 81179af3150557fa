"""A lock of a workspace for one run at a time; it ends when its holder is killed."""

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
# A lock on gs:// is a lease, which ends after this time unless its holder renews it.
LEASE = datetime.timedelta(minutes=5)
SECONDS_BETWEEN_RENEWALS = 60.0
# The lease of a Vertex pipeline, which runs for at most a week.
PIPELINE_LEASE = datetime.timedelta(days=7)


class BusyError(InputError):
    """Another run holds the lock of the workspace."""


@contextlib.contextmanager
def one_at_a_time(workspace: str) -> Iterator[tuple[int, ...]]:
    """Holds the lock of a workspace.

    Yields:
      file descriptors that child processes must inherit. A child that outlives its killed parent
      then still holds the lock.

    Raises:
      BusyError: another process holds the lock.
      InputError: the workspace cannot be written.
    """
    if workspace.startswith("gs://"):
        lease = Lease(workspace)
        # The random part is needed because containers often share process ids and host names.
        holder = f"process {os.getpid()} on {socket.gethostname()} ({uuid.uuid4().hex[:8]})"
        lease.acquire(holder, LEASE)
        try:
            with _renewed(lease, holder):
                yield ()
        finally:
            with contextlib.suppress(InputError):  # otherwise it expires
                lease.release()
        return
    path = os.path.join(workspace, LOCK_FILE)
    try:
        os.makedirs(workspace, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise InputError(f"{workspace}: workspace cannot be written ({error.strerror})") from error
    try:
        # The kernel releases the lock when the last process with the descriptor ends.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 1000).decode(errors="replace").strip() or "another process"
        os.close(descriptor)
        message = f"{workspace}: {holder} is at work there; wait for its end"
        raise BusyError(message) from None
    except OSError as error:  # some network file systems have no locks
        os.close(descriptor)
        raise InputError(f"{path}: cannot be locked ({error.strerror})") from error
    try:
        with contextlib.suppress(OSError):  # the text only informs; the disk may be full
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} (or a step it began)\n".encode())
        yield (descriptor,)
    finally:
        os.close(descriptor)


@dataclasses.dataclass(frozen=True)
class Holder:
    """The holder of a lease, and the length of the lease from the writing of its object."""

    name: str
    length: datetime.timedelta

    def to_json(self) -> str:
        """Returns the content of the lock's object."""
        return json.dumps({"holder": self.name, "seconds": self.length.total_seconds()})

    @classmethod
    def from_json(cls, text: str) -> "Holder":
        """Returns the holder from the content of the lock's object."""
        found = json.loads(text)
        return cls(found["holder"], datetime.timedelta(seconds=found["seconds"]))


class Lease:
    """The lock of a workspace on gs://.

    Every change names the generation of the object that it replaces, so that two runs cannot both
    succeed. All times are taken from the storage, because the clocks of machines may differ.
    """

    def __init__(self, workspace: str):
        """Opens the storage of a workspace.

        Raises:
          InputError: there are no credentials for the storage.
        """
        from google.cloud import storage

        bucket, _, folder = workspace.removeprefix("gs://").partition("/")
        self._name = f"{folder}/{LOCK_FILE}" if folder else LOCK_FILE
        self._path = f"gs://{bucket}/{self._name}"
        with self._told():
            self._bucket = storage.Client().bucket(bucket)
        self._generation = 0

    def acquire(self, holder: str, length: datetime.timedelta) -> None:
        """Takes the lease if it is free, has expired, or already belongs to the holder.

        Raises:
          BusyError: another holder has the lease.
          InputError: the bucket cannot be read or written.
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
            raise self._busy("another run, which began at the same moment,") from None

    def _read(self, blob: Any) -> Holder:
        """Returns the holder in the lock's object, in the generation that was found."""
        from google.api_core import exceptions

        try:
            text = blob.download_as_text(if_generation_match=blob.generation)
        except exceptions.NotFound as error:  # released in the meantime
            raise exceptions.PreconditionFailed("gone") from error
        try:
            return Holder.from_json(text)
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{self._path}: is damaged; delete it if no run is at work") from error

    def _now(self) -> datetime.datetime:
        """Returns the storage's time, which is that of an object that was just written."""
        from google.api_core import exceptions

        probe = self._bucket.blob(f"{self._name}.clock")
        probe.upload_from_string("what time is it?")
        with contextlib.suppress(exceptions.NotFound):  # another run has deleted it
            probe.delete()
        return probe.updated

    def _busy(self, whom: str) -> BusyError:
        return BusyError(
            f"{self._path}: {whom} is at work there; wait for its end, or delete the object if "
            "you know that the run has ended"
        )

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Turns errors of the storage into an `InputError`."""
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
        """Releases the lease, unless another holder has taken it.

        Raises:
          InputError: the storage cannot be reached.
        """
        from google.api_core import exceptions

        blob = self._bucket.blob(self._name)
        with self._told(), contextlib.suppress(exceptions.NotFound, exceptions.PreconditionFailed):
            blob.delete(if_generation_match=self._generation)


def release(workspace: str, holder: str) -> None:
    """Releases a lease that was taken in another process, unless another holder has it."""
    lease = Lease(workspace)
    with contextlib.suppress(BusyError):
        lease.acquire(holder, LEASE)
        lease.release()


@contextlib.contextmanager
def _renewed(lease: Lease, holder: str) -> Iterator[None]:
    """Renews a lease while the body runs; ends the process if the lease is lost."""
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
                print(f"another run has taken the lock: {error}", file=sys.stderr, flush=True)
            except Exception as error:  # mostly of the network, which may recover in time
                print(f"the lock cannot be renewed: {error}", file=sys.stderr, flush=True)
                if begun - last < LEASE.total_seconds():
                    continue
            os.kill(
                os.getpid(), signal.SIGTERM
            )  # a running step gets the signal, too, and saves its state
            return

    thread = threading.Thread(target=keep, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
