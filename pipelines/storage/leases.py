"""A lock on gs://: a lease, which its holder renews and which expires when the holder is killed.

`locks` decides where a lease is taken.
"""

import contextlib
import dataclasses
import datetime
import json
import os
import pathlib
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from beambert.errors import InputError
from beambert.interrupts import set_sentence, undone_at_end

# A lease ends after this time unless its holder renews it.
LEASE = datetime.timedelta(minutes=5)
SECONDS_BETWEEN_RENEWALS = 60.0
# The lease of a Vertex pipeline, which runs for at most a week.
PIPELINE_LEASE = datetime.timedelta(days=7)


class BusyError(InputError):
    """Another command holds the lock."""


@dataclasses.dataclass(frozen=True)
class Owner:
    """Whose work a lease protects, so that it can be told from that of others.

    Attributes:
      job: the managed job, which restarts its process on another machine when one is taken away;
        "" outside of one.
      system: the running system in which process numbers mean something; "" if it is not known.
      process: the process there.
    """

    job: str = ""
    system: str = ""
    process: str = ""

    def may_take_from(self, there: "Owner") -> bool:
        """Returns whether a lease that has not expired is that of a dead process of our own."""
        if there.system and there.system == self.system:
            return not is_alive(there.process)
        return bool(there.job) and there.job == self.job


def this_process() -> Owner:
    """Returns the owner of what this process does."""
    return Owner(_managed_job(os.environ), _system(), _process(os.getpid()))


def _managed_job(environment: Mapping[str, str]) -> str:
    """Returns the job of Vertex AI that this process is a part of; "" if it is none.

    Vertex AI sets these variables in the containers of custom jobs and of tuning's trials.
    """
    job = environment.get("CLOUD_ML_JOB_ID")
    if not job:
        return ""
    # Which of several machines it is.
    cluster = environment.get("CLUSTER_SPEC") or environment.get("TF_CONFIG") or "{}"
    try:
        task = json.loads(cluster)["task"]
    except (ValueError, KeyError, TypeError):
        task = None
    return json.dumps([job, environment.get("CLOUD_ML_TRIAL_ID"), task], sort_keys=True)


def _system() -> str:
    # Containers share the boot of their machine, but neither its name nor its process numbers.
    with contextlib.suppress(OSError):
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()} {boot} {os.readlink('/proc/self/ns/pid')}"
    return ""


def _process(number: int) -> str:
    """Returns a process's number and when it began, as numbers are used again; "" if it is dead."""
    try:
        status = pathlib.Path(f"/proc/{number}/stat").read_text()
    except OSError:
        return ""
    # proc_pid_stat(5): behind the name in brackets come the state and, as field 22, the start.
    fields = status.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else f"{number} {fields[19]}"


def is_alive(process: str) -> bool:
    """Returns whether a process of this system is alive, see `Owner.process`."""
    number = process.partition(" ")[0]
    return not number.isdecimal() or _process(int(number)) == process


@dataclasses.dataclass(frozen=True)
class Holder:
    """The holder of a lease, and the length of the lease from the writing of its object."""

    name: str
    length: datetime.timedelta
    owner: Owner = Owner()

    def to_json(self) -> str:
        """Returns the content of the lock's object."""
        fields = {"holder": self.name, "seconds": self.length.total_seconds()}
        return json.dumps(fields | dataclasses.asdict(self.owner))

    @classmethod
    def from_json(cls, text: str) -> "Holder":
        """Returns the holder from the content of the lock's object."""
        found = json.loads(text)
        # Earlier versions wrote no owner.
        owner = Owner(*(str(found.get(field.name, "")) for field in dataclasses.fields(Owner)))
        return cls(found["holder"], datetime.timedelta(seconds=found["seconds"]), owner)


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
        self._generation, self._holder = 0, ""
        # Renewing and checking, each in a thread of its own, exclude each other.
        self._changing = threading.Lock()

    def acquire(self, holder: str, length: datetime.timedelta, owner: Owner | None = None) -> None:
        """Takes the lease if it is free, has expired, or is the holder's or of a dead own process.

        Args:
          holder: name of the holder.
          length: time after which the lease expires.
          owner: owner of the work; None if only the name tells it.

        Raises:
          BusyError: another holder has the lease.
          InputError: the bucket cannot be read or written.
        """
        from google.api_core import exceptions

        mine = Holder(holder, length, owner or Owner())
        self._holder = holder
        try:
            with self._changing, self._told():
                found = self._bucket.get_blob(self._name)
                generation = found.generation if found else 0
                if self._generation and not found:
                    # Who has taken it after it had expired may have filled the folder.
                    raise self._busy("another command, which has ended since,")
                if found:
                    there = self._read(found)
                    expires = found.updated + there.length
                    is_mine = there.name == holder or mine.owner.may_take_from(there.owner)
                    if not is_mine and self._now() < expires:
                        raise self._busy(f"{there.name} (until {expires:%d %b %H:%M} UTC)")
                blob = self._bucket.blob(self._name)
                blob.upload_from_string(mine.to_json(), if_generation_match=generation)
                self._generation = blob.generation
        except exceptions.PreconditionFailed:
            # The library repeats a request whose answer was lost, and the first may have succeeded.
            with self._changing, self._told():
                is_mine = self._is_mine()
            if not is_mine:
                raise self._busy("another command, which began at the same moment,") from None

    def _is_mine(self) -> bool:
        """Returns whether the object is the holder's, and remembers its generation then."""
        from google.api_core import exceptions

        try:
            found = self._bucket.get_blob(self._name)
            if found is None:
                return False
            if found.generation == self._generation or self._read(found).name == self._holder:
                self._generation = found.generation
                return True
        except exceptions.PreconditionFailed:
            pass  # It has changed again.
        return False

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
        except (exceptions.GoogleAPIError, GoogleAuthError, OSError) as error:
            line = (str(error) or type(error).__name__).splitlines()[0]
            raise InputError(f"{self._path}: cannot be read and written ({line})") from error

    def check(self) -> None:
        """Refuses to go on if another holder has taken the lease.

        Raises:
          BusyError: another holder has it.
          InputError: the storage cannot be reached.
        """
        with self._changing, self._told():
            is_mine = self._is_mine()
        if not is_mine:
            raise BusyError(
                f"{self._path}: another command has taken the lock, which this one has held too "
                "long without a sign of life; nothing more is written here; wait for its end"
            )

    def release(self) -> None:
        """Releases the lease, unless another holder has taken it.

        Raises:
          InputError: the storage cannot be reached.
        """
        from google.api_core import exceptions

        blob = self._bucket.blob(self._name)
        with self._told(), contextlib.suppress(exceptions.NotFound, exceptions.PreconditionFailed):
            blob.delete(if_generation_match=self._generation)
        self._generation = 0


def release(path: str, holder: str) -> None:
    """Releases a lease that was taken in another process, unless another holder has it."""
    lease = Lease(path)
    with contextlib.suppress(BusyError):
        lease.acquire(holder, LEASE)
        lease.release()


@contextlib.contextmanager
def held(path: str, holder: str) -> Iterator[Lease]:
    """Takes a lease and renews it while the body runs; yields it.

    Raises:
      BusyError: another holder has the lease.
      InputError: the storage cannot be read or written.
      ImportError: the library for the storage isn't installed.
    """
    lease, owner = Lease(path), this_process()
    lease.acquire(holder, LEASE, owner)

    def release() -> None:
        with contextlib.suppress(InputError):  # otherwise it expires
            lease.release()

    try:
        with undone_at_end(release), _renewed(lease, holder, owner):
            yield lease
    finally:
        release()


@contextlib.contextmanager
def _renewed(lease: Lease, holder: str, owner: Owner) -> Iterator[None]:
    """Renews a lease while the body runs; ends the process if the lease is lost.

    The body may handle the signal and raise an error that says the same.
    """
    stop = threading.Event()
    lost = ""

    def keep() -> None:
        nonlocal lost
        last = time.monotonic()
        while not stop.wait(SECONDS_BETWEEN_RENEWALS):
            begun = time.monotonic()
            try:
                lease.acquire(holder, LEASE, owner)
                last = begun
                continue
            except BusyError as error:
                lost = f"another command has taken the lock: {error}"
            except Exception as error:  # mostly of the network, which may recover in time
                lost = f"the lock cannot be renewed: {error}"
                if begun - last < LEASE.total_seconds():
                    print(lost, file=sys.stderr, flush=True)
                    continue
            set_sentence(f"beambert: {lost}")
            # What is at work gets the signal, too, and ends without writing.
            os.kill(os.getpid(), signal.SIGTERM)
            return

    thread = threading.Thread(target=keep, daemon=True)
    thread.start()
    try:
        yield
    except InputError:
        raise
    except BaseException:
        if lost:
            print(lost, file=sys.stderr, flush=True)
        raise
    finally:
        stop.set()
        thread.join()
