"""A lock on gs://: a lease, which its holder renews and which expires when the holder is killed.

`locks` decides where a lease is taken.
"""

import contextlib
import dataclasses
import datetime
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.shared.interrupts import undone_at_end

# A lease ends after this time unless its holder renews it.
LEASE = datetime.timedelta(minutes=5)
SECONDS_BETWEEN_RENEWALS = 60.0
# The lease of a Vertex pipeline, which runs for at most a week.
PIPELINE_LEASE = datetime.timedelta(days=7)


class BusyError(InputError):
    """Another command holds the lock."""


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
    """A lock on gs://.

    Every change names the generation of the object that it replaces, so that two commands cannot
    both succeed. All times are taken from the storage, because the clocks of machines may differ.
    """

    def __init__(self, path: str):
        """Opens the storage.

        Args:
          path: path of the lock's object.

        Raises:
          InputError: there are no credentials for the storage.
          ImportError: the library for the storage isn't installed.
        """
        from google.cloud import storage

        self._path = path
        bucket, _, self._name = path.removeprefix("gs://").partition("/")
        with self._told():
            self._bucket = storage.Client(project=None).bucket(bucket)
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
            raise self._busy("another command, which began at the same moment,") from None

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
            raise InputError(
                f"{self._path}: is damaged; delete it if no command is at work"
            ) from error

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
            "you know that it has ended"
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


def release(path: str, holder: str) -> None:
    """Releases a lease that was taken in another process, unless another holder has it."""
    lease = Lease(path)
    with contextlib.suppress(BusyError):
        lease.acquire(holder, LEASE)
        lease.release()


@contextlib.contextmanager
def held(path: str, holder: str) -> Iterator[None]:
    """Takes a lease and renews it while the body runs.

    Raises:
      BusyError: another holder has the lease.
      InputError: the storage cannot be read or written.
      ImportError: the library for the storage isn't installed.
    """
    lease = Lease(path)
    lease.acquire(holder, LEASE)

    def release() -> None:
        with contextlib.suppress(InputError):  # otherwise it expires
            lease.release()

    try:
        with undone_at_end(release), _renewed(lease, holder):
            yield
    finally:
        release()


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
                print(f"another command has taken the lock: {error}", file=sys.stderr, flush=True)
            except Exception as error:  # mostly of the network, which may recover in time
                print(f"the lock cannot be renewed: {error}", file=sys.stderr, flush=True)
                if begun - last < LEASE.total_seconds():
                    continue
            # What is at work gets the signal, too, and may save its state.
            os.kill(os.getpid(), signal.SIGTERM)
            return

    thread = threading.Thread(target=keep, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
