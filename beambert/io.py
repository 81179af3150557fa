"""Files and folders, on this machine or on other storage: the one module that opens and lists them.

A path with a scheme is on other storage: gs:// through Google's client, whose preconditions the
locks need and which reads fastest; s3://, hdfs:// and all others through fsspec. All other paths
are on this machine. A path is a name; only `match_files`, `match_in` and `match_inputs` take
patterns. A function that the storage refuses raises an `InputError` that names the path and says
why. Importing this module loads no client.
"""

import contextlib
import dataclasses
import datetime
import errno
import glob
import hashlib
import io
import json
import os
import re
import shutil
import stat
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from beambert.errors import InputError
from beambert.process import undone_at_end

# Prefix of files and folders that are being written; a killed run may leave some behind.
TEMPORARY_PREFIX = "_tmp-"
# Prefix of the names of lock files, which are temporary too, see `locks`.
LOCK_PREFIX = f"{TEMPORARY_PREFIX}lock"
# A command writes this mark into its output folder first and removes it last, see `folders`.
UNFINISHED_FILE = "_UNFINISHED"
# Storages where a file appears when it is complete, so that it needs no temporary name.
_UPLOADING = ("gs://", "s3://")
# Remedies for a folder that is missing.
CHECK, FINETUNE = "check the path", "name a folder that `beambert finetune` finished"
_CORRECT = "correct that and give the same command again"
# The files that describe models and data are far smaller than this.
MOST_BYTES = 1 << 28
_BYTES_AT_A_TIME = 1 << 24
# Greatest number of deletions in one request to gs://, by its documentation.
_DELETIONS_A_REQUEST = 100
# A storage that has not answered before is tried for this time, as it may not be reachable.
FIRST_SECONDS = 10.0
# Number of bytes to copy at a time from what a request has brought.
_BUFFER_BYTES = 1 << 18
# Number of bytes to request at a time where the end of what is wanted is not near.
REQUEST_BYTES = 16 << 20
# Number of bytes to request beyond the expected end, where the last document of a part may end.
# Each further request there asks for twice as many.
BYTES_BEYOND = 64 << 10
# Exceptions of storage that are not `OSError`, by the module that defines them. Only those of
# loaded modules can occur.
_FOREIGN_ERRORS = (
    ("botocore.exceptions", "BotoCoreError"),
    ("google.api_core.exceptions", "GoogleAPIError"),
    ("google.auth.exceptions", "GoogleAuthError"),
    ("google.cloud.storage.exceptions", "InvalidResponse"),
    ("requests.exceptions", "RequestException"),
    ("tensorflow", "errors.OpError"),
)


# Names and messages


def is_local(path: str) -> bool:
    """Returns whether a path is on this machine."""
    return "://" not in path


def absolute(path: str) -> str:
    """Returns the absolute path of a file or folder, which all spellings of it share."""
    return os.path.abspath(path) if is_local(path) else path.rstrip("/")


def has_wildcard(path: str) -> bool:
    """Returns whether a path is a pattern."""
    return bool(set(path) & set("*?["))


def absolute_pattern(pattern: str) -> str:
    """Returns the absolute path of a file or folder, or a pattern of absolute paths."""
    if not is_local(pattern) or os.path.lexists(pattern) or not has_wildcard(pattern):
        return absolute(pattern)
    # The working folder is a name, whatever characters it has.
    return os.path.normpath(os.path.join(glob.escape(os.getcwd()), pattern))


def expression_of(pattern: str) -> str:
    """Returns a pattern of paths as a regular expression; only `**` matches a slash."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^]]+\])", pattern)
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(
        known.get(part, part.replace("[!", "[^") if part.startswith("[") else re.escape(part))
        for part in parts
    )


def check_utf8(name: str) -> None:
    """Raises an error for a name that no JSON file and no storage can hold.

    Raises:
      InputError: it has a byte that is not UTF-8.
    """
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{name}: the name is not UTF-8; rename the file") from error


def temporary_name(path: str) -> str:
    """Returns a new path in the folder of a path, to write to and then to rename."""
    folder, name = os.path.split(path)
    # In the same folder, the rename stays on one file system.
    return os.path.join(folder, f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}-{name}")


def is_temporary(name: str, final_name: str = "") -> bool:
    """Returns whether a name is from `temporary_name`; `final_name` limits it to that name."""
    if not final_name:
        return name.startswith(TEMPORARY_PREFIX)
    pattern = f"{TEMPORARY_PREFIX}[0-9a-f]{{32}}-{re.escape(final_name)}"
    return re.fullmatch(pattern, name) is not None


def named(path: str, flag: str = "") -> str:
    """Returns a path as messages name it: `--flag=path`, or the path alone without a flag."""
    return f"{flag}={path}" if flag else path


def short_names(paths: Sequence[str], flag: str = "") -> list[str]:
    """Returns distinct names of folders: as many of the last parts of their paths as needed.

    Args:
      paths: paths of the folders.
      flag: flag that names them, for messages.

    Raises:
      InputError: a folder is named twice.
    """
    whole = [absolute(path) for path in paths]
    for number, path in enumerate(whole):
        if path in whole[:number]:
            raise InputError(f"{named(paths[number], flag)}: is named twice; name each folder once")
    divided = [path.split("/") for path in whole]
    for parts in range(1, max(map(len, divided), default=0) + 1):
        names = ["/".join(path[-parts:]) for path in divided]
        if len(set(names)) == len(names):
            return names
    return []


def refusal(name: str, done: str, reason: str, remedy: str = "") -> InputError:
    """Returns the error for an operation that the storage refuses.

    Args:
      name: file or folder as messages name it, see `named`.
      done: participle of the operation: "read", "written", …
      reason: message of the storage.
      remedy: advice to the user; "" for a general one.
    """
    return InputError(f"{name}: cannot be {done} ({reason}); {remedy or _CORRECT}")


def storage_errors() -> tuple[type[Exception], ...]:
    """Returns the exceptions that file systems and their clients raise."""
    found: list[type[Exception]] = [OSError]
    for module, name in _FOREIGN_ERRORS:
        error: Any = sys.modules.get(module)
        for part in name.split("."):
            error = getattr(error, part, None)
        if error is not None:
            found.append(error)
    return tuple(found)


def reason(error: BaseException) -> str:
    """Returns the part of a storage's or TensorFlow's exception that helps a user, on one line."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error).strip() or type(error).__name__
    # In an error of a graph the cause stands between a traceback and the name of the operation.
    text = re.sub(r"^Graph execution error:.*\n(?=.*\n\t \[\[)", "", text, flags=re.DOTALL)
    return re.sub(r"\{\{.*?\}\} | \[Op:\w+\]", "", text.splitlines()[0])


@contextlib.contextmanager
def translate_errors(name: str, done: str, remedy: str = "") -> Iterator[None]:
    """Turns the exceptions of storage into the error of `refusal`.

    Raises:
      InputError: the storage refuses an operation.
    """
    try:
        yield
    except InputError:
        raise
    except storage_errors() as error:
        raise refusal(name, done, reason(error), remedy) from error


# The file systems


@dataclasses.dataclass(frozen=True)
class FileInfo:
    """What a storage knows of a file or folder.

    Attributes:
      path: its path.
      bytes: size of a file as stored.
      modified: time of the last change in seconds since 1970; 0 if the storage does not know it.
      is_folder: whether it is a folder.
    """

    path: str
    bytes: int = 0
    modified: float = 0.0
    is_folder: bool = False

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rstrip("/").rpartition("/")[2]


class _Local:
    """The file systems of this machine; the other storages have the same methods.

    `info` returns None for what does not exist, `ls` nothing for a folder that does not exist.
    `create` makes the folders above a file, `move` replaces a file, `delete` takes a folder with
    its content, `delete_files` those files that exist. Only `glob` takes a pattern.
    """

    def info(self, path: str) -> FileInfo | None:
        try:
            found = os.stat(path)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                raise
            return None
        return FileInfo(path, found.st_size, found.st_mtime, os.path.isdir(path))

    def ls(self, path: str) -> list[FileInfo]:
        if not os.path.isdir(path):
            return []
        found = []
        for name in os.listdir(path):
            inner = os.path.join(path, name)
            found.append(self.info(inner) or FileInfo(inner))  # a link to nothing or itself
        return found

    def glob(self, pattern: str) -> list[FileInfo]:
        paths = glob.glob(pattern, recursive=True)
        return [self.info(path) or FileInfo(path) for path in paths]

    def open(self, path: str, size: int | None = None, end: int | None = None) -> BinaryIO:
        return open(path, "rb")

    def read_range(self, path: str, start: int, size: int) -> bytes:
        with open(path, "rb") as file:
            file.seek(start)
            return file.read(size)

    def create(self, path: str) -> BinaryIO:
        self.make_folder(os.path.dirname(path))
        return open(path, "wb")

    def make_folder(self, path: str) -> None:
        os.makedirs(path or ".", exist_ok=True)

    def copy_file(self, source: str, target: str) -> None:
        self.make_folder(os.path.dirname(target))
        temporary = temporary_name(target)
        try:
            shutil.copyfile(source, temporary)
            self.move(temporary, target)
        except BaseException:
            self.delete_files([temporary])
            raise

    def move(self, source: str, target: str) -> None:
        moved = os.lstat(source)
        try:
            os.replace(source, target)
        except OSError:
            # NFS repeats a request whose answer was lost, and reports that the second one failed.
            if not os.path.lexists(target) or not os.path.samestat(moved, os.lstat(target)):
                raise

    def delete(self, path: str) -> None:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)

    def delete_files(self, paths: Sequence[str]) -> None:
        for path in paths:
            with contextlib.suppress(OSError):
                os.unlink(path)


class _Remote:
    """What storages of objects have in common. They have no folders that need to be made."""

    def open(self, path: str, size: int | None = None, end: int | None = None) -> BinaryIO:
        """Opens an object to read it by ranges, see `RangedFile`."""
        if size is None:
            info = self.info(path)
            if info is None or info.is_folder:
                raise FileNotFoundError(2, "No such file or directory", path)
            size = info.bytes

        def read(start: int, count: int) -> bytes:
            with translate_errors(path, "read", "correct that or leave it out"):
                return self.read_range(path, start, count)

        return io.BufferedReader(RangedFile(read, size, end), _BUFFER_BYTES)

    def make_folder(self, path: str) -> None:
        pass

    def move(self, source: str, target: str) -> None:
        info = self.info(source)
        if info is None:
            raise FileNotFoundError(2, "No such file or directory", source)
        source, target = source.rstrip("/"), target.rstrip("/")
        inner = [file.path for file in self.find(source)] if info.is_folder else [source]
        for path in inner:
            self.copy_file(path, target + path.removeprefix(source))
        self.delete_files(inner)

    def delete(self, path: str) -> None:
        path = path.rstrip("/")
        self.delete_files([path, *(file.path for file in self.find(path))])


class _GoogleStorage(_Remote):
    """gs://, which has objects and no folders: a folder exists as long as objects are in it."""

    def __init__(self) -> None:
        self._of_thread = threading.local()  # A client keeps its connection and is not shared.
        self._has_answered = False

    def _bucket(self, path: str) -> tuple[Any, str]:
        """Returns the client's bucket of a path, and the name of the object in it."""
        if not hasattr(self._of_thread, "client"):
            # Where there are no credentials, their server is not searched for half a minute.
            os.environ.setdefault("GCE_METADATA_DETECT_RETRIES", "2")
            from google.auth.exceptions import DefaultCredentialsError
            from google.cloud import storage

            try:
                client = storage.Client(project=None)
            except DefaultCredentialsError:  # Public buckets can be read all the same.
                client = storage.Client.create_anonymous_client()
            self._of_thread.client = client
        bucket, _, name = path.removeprefix("gs://").partition("/")
        try:
            return self._of_thread.client.bucket(bucket), name
        except (ValueError, IndexError) as error:  # the second for an empty name
            raise OSError(errno.EINVAL, f"{bucket!r} is no bucket's name") from error

    def _blob(self, path: str) -> Any:
        bucket, name = self._bucket(path)
        return bucket.blob(name)

    def _retry(self) -> Any:
        """Returns how long a request is tried: two minutes, less before the first answer."""
        from google.cloud.storage.retry import DEFAULT_RETRY

        return DEFAULT_RETRY if self._has_answered else DEFAULT_RETRY.with_timeout(FIRST_SECONDS)

    def _list(self, path: str, prefix: str, **wanted: Any) -> list[FileInfo]:
        bucket, _ = self._bucket(path)
        fields = "items(name,size,updated),prefixes,nextPageToken"
        found = bucket.list_blobs(prefix=prefix, fields=fields, retry=self._retry(), **wanted)
        files = [
            FileInfo(f"gs://{bucket.name}/{blob.name}", blob.size, blob.updated.timestamp())
            for blob in found
            # A folder may have an object of its own name, which is not in it.
            if not (blob.name == prefix and prefix.endswith("/") and "delimiter" in wanted)
        ]
        self._has_answered = True
        folders = (f"gs://{bucket.name}/{name.rstrip('/')}" for name in found.prefixes)
        return [*files, *(FileInfo(folder, is_folder=True) for folder in folders)]

    def info(self, path: str) -> FileInfo | None:
        path = path.rstrip("/")
        bucket, name = self._bucket(path)
        blob = bucket.get_blob(name, retry=self._retry()) if name else None
        if blob is not None:
            return FileInfo(path, blob.size, blob.updated.timestamp())
        has_objects = self._list(path, f"{name}/" if name else "", max_results=1)
        return FileInfo(path, is_folder=True) if has_objects else None

    def ls(self, path: str) -> list[FileInfo]:
        _, name = self._bucket(path.rstrip("/"))
        return self._list(path, f"{name}/" if name else "", delimiter="/")

    def find(self, path: str) -> list[FileInfo]:
        return self._list(path, f"{self._bucket(path)[1]}/")

    def glob(self, pattern: str) -> list[FileInfo]:
        _, name = self._bucket(pattern)
        prefix = re.split(r"[*?\[]", name)[0]
        # Whatever is in a folder beyond the pattern need not be listed.
        inner = name[len(prefix) :]
        wanted = {} if "/" in inner or "**" in inner else {"delimiter": "/"}
        matches = re.compile(expression_of(name)).fullmatch
        root = pattern.removesuffix(name)
        found = self._list(pattern, prefix, **wanted)
        return [info for info in found if matches(info.path.removeprefix(root))]

    def read_range(self, path: str, start: int, size: int) -> bytes:
        """Returns at most `size` bytes of an object from `start` on, with one request."""
        from google.api_core.exceptions import RequestRangeNotSatisfiable

        last = start + size - 1
        try:
            return self._blob(path).download_as_bytes(
                start=start, end=last, raw_download=True, checksum=None
            )
        except RequestRangeNotSatisfiable:
            return b""  # The object ends before.

    def create(self, path: str) -> BinaryIO:
        return self._blob(path).open("wb", ignore_flush=True)

    def copy_file(self, source: str, target: str) -> None:
        blob, new, token = self._blob(source), self._blob(target), None
        while True:  # A large object takes several calls.
            token, *_ = new.rewrite(blob, token=token)
            if token is None:
                return

    def delete_files(self, paths: Sequence[str]) -> None:
        from google.api_core.exceptions import NotFound

        if len(paths) == 1:
            with contextlib.suppress(NotFound):
                self._blob(paths[0]).delete()
            return
        for start in range(0, len(paths), _DELETIONS_A_REQUEST):
            blobs = [self._blob(path) for path in paths[start : start + _DELETIONS_A_REQUEST]]
            with self._of_thread.client.batch(raise_exception=False):
                for blob in blobs:
                    blob.delete()

    def content(self, path: str) -> bytes | None:
        from google.api_core.exceptions import PreconditionFailed

        while True:
            with contextlib.suppress(PreconditionFailed):  # It was written again meanwhile.
                return self._content(path)[0]

    def _content(self, path: str) -> tuple[bytes | None, int]:
        """Returns the content of an object and its generation; None and 0 if it is missing."""
        from google.api_core.exceptions import NotFound

        bucket, name = self._bucket(path)
        with contextlib.suppress(NotFound):
            if found := bucket.get_blob(name, retry=self._retry()):
                # The download sets it anew, to None if the answer lacks it.
                generation = found.generation
                return found.download_as_bytes(if_generation_match=generation), generation
        return None, 0

    def replace(self, path: str, old: bytes | None, new: bytes | None) -> bool:
        from google.api_core.exceptions import NotFound, PreconditionFailed

        try:
            found, generation = self._content(path)
            if found != old:
                return False
            if new is None:
                with contextlib.suppress(NotFound):
                    self._blob(path).delete(if_generation_match=generation)
            else:
                self._blob(path).upload_from_string(new, if_generation_match=generation)
            return True
        except PreconditionFailed:
            # The library repeats a request whose answer was lost: the first may have succeeded.
            return self.content(path) == new


def _web_hdfs(path: str) -> Any:
    """Returns the file system of HDFS that a path names, with all its errors as an `OSError`."""
    from fsspec.implementations.webhdfs import WebHDFS

    class Hdfs(WebHDFS):
        def _call(self, *given: Any, **named: Any) -> Any:
            try:
                return super()._call(*given, **named)
            except (RuntimeError, ValueError) as error:
                raise OSError(0, str(error)) from error

    return Hdfs(**WebHDFS._get_kwargs_from_urls(path), use_listings_cache=False)


class _Others(_Remote):
    """s3://, hdfs:// and other storages, through fsspec."""

    def __init__(self, path: str) -> None:
        """Finds the file system of a path."""
        import fsspec

        self._renames = path.startswith("hdfs://")
        try:
            if self._renames:
                self._fs = _web_hdfs(path)
            else:
                self._fs, _ = fsspec.core.url_to_fs(path, use_listings_cache=False)
        except ImportError as error:
            raise OSError(0, f"its client is missing: {error}") from error
        except ValueError as error:
            raise OSError(0, f"fsspec has no such storage: {error}") from error
        # What stands before a name of fsspec in a path.
        self._before = path.rstrip("/").removesuffix(self._at(path))

    def _at(self, path: str) -> str:
        return self._fs._strip_protocol(path.rstrip("/"))

    def _known(self, found: Mapping[str, Any]) -> FileInfo:
        time = found.get("LastModified") or found.get("modificationTime") or found.get("created")
        seconds = time.timestamp() if isinstance(time, datetime.datetime) else (time or 0) / 1000
        name = self._before + found["name"].rstrip("/")
        return FileInfo(name, found["size"] or 0, seconds, found["type"] == "directory")

    def info(self, path: str) -> FileInfo | None:
        with contextlib.suppress(FileNotFoundError):
            found = self._known(self._fs.info(self._at(path)))
            return dataclasses.replace(found, path=path.rstrip("/"))
        return None

    def ls(self, path: str) -> list[FileInfo]:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            found = map(self._known, self._fs.ls(self._at(path), detail=True))
            return [info for info in found if info.path != path.rstrip("/")]
        return []

    def find(self, path: str) -> list[FileInfo]:
        return [self._known(file) for file in self._fs.find(self._at(path), detail=True).values()]

    def glob(self, pattern: str) -> list[FileInfo]:
        return [
            self._known(file) for file in self._fs.glob(self._at(pattern), detail=True).values()
        ]

    def read_range(self, path: str, start: int, size: int) -> bytes:
        return self._fs.cat_file(self._at(path), start=start, end=start + size)

    def create(self, path: str) -> BinaryIO:
        return self._fs.open(self._at(path), "wb")

    def copy_file(self, source: str, target: str) -> None:
        if self._renames:
            self.delete_files([target])
        self._fs.cp_file(self._at(source), self._at(target))

    def move(self, source: str, target: str) -> None:
        if not self._renames:
            super().move(source, target)
        elif self.info(source) is None:
            raise FileNotFoundError(2, "No such file or directory", source)
        else:
            # HDFS refuses a name that is taken, perhaps by a worker that was too slow, and doesn't
            # say so.
            if self.info(target):
                self.delete(target)
            self._fs.mv(self._at(source), self._at(target))
            if self.info(source):
                raise FileExistsError(17, "it cannot be renamed", target)

    def delete(self, path: str) -> None:
        if not self._renames:
            super().delete(path)
            return
        self._fs.rm(self._at(path), recursive=True)

    def delete_files(self, paths: Sequence[str]) -> None:
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                self._fs.rm_file(self._at(path))

    def content(self, path: str) -> bytes | None:
        with contextlib.suppress(FileNotFoundError):
            return self._fs.cat_file(self._at(path))
        return None

    def replace(self, path: str, old: bytes | None, new: bytes | None) -> bool:
        if old is not None and self.content(path) != old:
            return False
        with contextlib.suppress(FileExistsError):
            if new is None:
                self._fs.rm_file(self._at(path))
            else:
                mode = "create" if old is None else "overwrite"
                self._fs.pipe_file(self._at(path), new, mode=mode)
        return self.content(path) == new


_LOCAL, _GOOGLE_STORAGE = _Local(), _GoogleStorage()


def _file_system(path: str) -> Any:
    if is_local(path):
        return _LOCAL
    return _GOOGLE_STORAGE if path.startswith("gs://") else _Others(path)


class RangedFile(io.RawIOBase):
    """A file that is read by ranges of bytes; put an `io.BufferedReader` around it."""

    def __init__(self, read: Callable[[int, int], bytes], size: int, end: int | None = None):
        """Requests nothing yet.

        Args:
          read: function that returns the bytes of a range, by its first position and its size.
          size: size of the file in bytes.
          end: position after the last byte that will probably be wanted; None for the end of the
            file.
        """
        self._read = read
        self._size = size
        self._end = size if end is None else end
        self._beyond = BYTES_BEYOND
        self._position = 0
        self._first, self._data = 0, memoryview(b"")

    def readable(self) -> bool:
        """Returns True."""
        return True

    def seekable(self) -> bool:
        """Returns True."""
        return True

    def tell(self) -> int:
        """Returns the position."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Changes the position and returns it."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def readinto(self, buffer: memoryview) -> int:
        """Reads up to as many bytes as fit; 0 at the end of the file."""
        if self._position >= self._size:
            return 0
        if not self._first <= self._position < self._first + len(self._data):
            self._request(self._position)
        offset = self._position - self._first
        size = min(len(buffer), len(self._data) - offset)
        buffer[:size] = self._data[offset : offset + size]
        self._position += size
        return size

    def _request(self, start: int) -> None:
        wanted = REQUEST_BYTES
        if start + wanted >= self._end:
            wanted = max(self._end - start, 0) + self._beyond
            if start >= self._end:
                self._beyond = min(2 * self._beyond, REQUEST_BYTES)
        self._data = memoryview(b"")  # The old bytes need not stay meanwhile.
        size = min(wanted, self._size - start)
        self._first, self._data = start, memoryview(self._read(start, size))


# Looking: each raises InputError if the storage does not answer


def info(path: str) -> FileInfo | None:
    """Returns what the storage knows of a file or folder; None if it does not exist."""
    with translate_errors(path, "read"):
        return _file_system(path).info(path)


def exists(path: str) -> bool:
    """Returns whether a file or folder exists."""
    return info(path) is not None


def is_folder(path: str) -> bool:
    """Returns whether a folder exists."""
    found = info(path)
    return found is not None and found.is_folder


def sizes(folder: str, names: Sequence[str]) -> list[int | None]:
    """Returns the size in bytes of each file in a folder; None for a file that doesn't exist.

    It lists the folder: to request each of thousands of shards would keep accelerators waiting.

    Args:
      folder: path of the folder.
      names: names of files in it.

    Raises:
      InputError: the storage doesn't answer.
    """
    with translate_errors(folder, "listed"):
        found = {info.name: info.bytes for info in _file_system(folder).ls(folder)}
    return [found.get(name) for name in names]


def list_folder(path: str, remedy: str = "") -> list[str]:
    """Returns the sorted names of the files and folders in a folder; none if it doesn't exist.

    Args:
      path: path of the folder.
      remedy: advice for the message if the folder cannot be listed.

    Raises:
      InputError: the folder cannot be listed.
    """
    with translate_errors(path, "listed", remedy):
        return sorted(info.name for info in _file_system(path).ls(path))


def match_in(folder: str, pattern: str) -> list[str]:
    """Returns the sorted paths in a folder that match a pattern.

    Args:
      folder: path of the folder, in which *, ? and [ have no meaning.
      pattern: pattern of paths from the folder on.
    """
    found = match_files(f"{glob.escape(folder.rstrip('/'))}/{pattern}")
    return [info.path for info in found]


def match_files(pattern: str, name: str = "", remedy: str = "") -> list[FileInfo]:
    """Returns what matches a pattern, sorted by path.

    Args:
      pattern: pattern of paths.
      name: the pattern as messages name it.
      remedy: advice for the message if the files cannot be listed.
    """
    with translate_errors(name or pattern, "listed", remedy):
        return sorted(_file_system(pattern).glob(pattern), key=lambda info: info.path)


def match_inputs(patterns: Sequence[str], flag: str = "--input") -> list[FileInfo]:
    """Returns the files that a user names or whose paths match a pattern, sorted, each once.

    A name that exists is that file, even if it would also be a pattern.

    Args:
      patterns: names and patterns.
      flag: flag that gave them, for messages.

    Raises:
      InputError: a pattern matches no file, or it names something other than regular files.
    """
    found: dict[str, FileInfo] = {}
    for pattern in patterns:
        if not pattern:
            raise InputError(f"{flag}: is empty; name the files to read")
        if is_local(pattern) and os.path.isdir(pattern):
            files = f"{glob.escape(pattern.rstrip('/'))}/*"
            raise InputError(f"{named(pattern, flag)}: is a folder; name its files: '{files}'")
        matched = _named_or_matched(pattern, flag)
        if not matched:
            # The original's --input_file takes several patterns with commas between them.
            several = "," in pattern
            remedy = "give blanks between patterns" if several else "check the path and the quotes"
            raise InputError(f"{named(pattern, flag)}: matches no file; {remedy}")
        for file in matched:
            found.setdefault(absolute(file.path), file)
    return [found[path] for path in sorted(found)]


def _named_or_matched(pattern: str, flag: str) -> list[FileInfo]:
    if is_local(pattern) and os.path.lexists(pattern):
        return [_regular_file(pattern, flag)]
    name, remedy = named(pattern, flag), "check the path and your access"
    if not is_local(pattern) and has_wildcard(pattern):
        with translate_errors(name, "listed", remedy):
            file = _file_system(pattern).info(pattern)
        if file and not file.is_folder:
            return [file]
    matched = [info for info in match_files(pattern, name, remedy) if not info.is_folder]
    return [_regular_file(info.path, flag) for info in matched] if is_local(pattern) else matched


def _regular_file(path: str, flag: str) -> FileInfo:
    """Returns a regular file on this machine.

    Raises:
      InputError: it is no regular file, or its name is not UTF-8.
    """
    check_utf8(named(path, flag))
    try:
        status = os.stat(path)
    except OSError as error:
        is_link = os.path.islink(path)
        why = f"is a link to {os.readlink(path)}, which cannot be read" if is_link else "is gone"
        raise InputError(
            f"{named(path, flag)}: {why} ({error.strerror}); correct that or leave it out"
        ) from error
    if not stat.S_ISREG(status.st_mode):
        raise InputError(
            f"{named(path, flag)}: is not a regular file; write its content to one and name that"
        )
    return FileInfo(path, status.st_size, status.st_mtime)


def check_new(path: str) -> None:
    """Raises an error for an output that exists, which is never replaced.

    Raises:
      InputError: it exists, or the storage doesn't answer.
    """
    if os.path.lexists(path) if is_local(path) else exists(path):
        raise InputError(f"--output={path}: already exists; choose another name")


def check_folder(path: str, where: str, remedy: str = CHECK) -> None:
    """Raises an error for a folder that does not exist on this machine; others are not looked at.

    Args:
      path: path of the folder.
      where: the flag with its value, or the path, for the error message.
      remedy: what to do about it.

    Raises:
      InputError: there is no such folder.
    """
    if is_local(path) and not os.path.isdir(path):
        raise InputError(f"{where}: no such folder; {remedy}")


def check_regular(path: str, flag: str = "", most: int | None = None) -> None:
    """Raises an error unless a file on this machine is a regular one and not too large.

    A pipe would let a command wait for ever, and a device may never end.

    Args:
      path: path of a file; one that doesn't exist, or is on other storage, passes.
      flag: flag that names the file, for messages.
      most: greatest number of bytes; None for any.

    Raises:
      InputError: it is another thing than a file, or the file is larger.
    """
    if not is_local(path) or not os.path.exists(path):
        return
    if not os.path.isfile(path):
        raise refusal(named(path, flag), "read", "it is not a regular file", "name one")
    if most is not None and os.path.getsize(path) > most:
        raise refusal(
            named(path, flag), "read", f"it has more than {most:,} bytes", "copy it again"
        )


# Reading


def open_file(path: str, size: int | None = None, end: int | None = None) -> BinaryIO:
    """Opens a file to read its bytes as stored; the result is seekable.

    Args:
      path: path of the file.
      size: size of the file in bytes; None if it is not known.
      end: position after the last byte that will probably be wanted; None for the end of the file.

    Raises:
      InputError: the file cannot be opened. On other storage, reading from it raises the same.
    """
    with translate_errors(path, "read", "correct that or leave it out"):
        return _file_system(path).open(path, size, end)


def read_range(path: str, start: int, size: int) -> bytes:
    """Returns some bytes of a file as stored, with one request on other storage.

    Args:
      path: path of the file.
      start: position of the first byte.
      size: number of bytes; the file must have them.

    Raises:
      EOFError: the file ends earlier.
    """
    if not size:
        return b""
    data = _file_system(path).read_range(path, start, size)
    if len(data) < size:
        raise EOFError(f"{path}: ends at byte {start + len(data)} of {start + size}")
    return data


def read_bytes(path: str, flag: str = "", most: int | None = MOST_BYTES) -> bytes:
    """Returns the content of a file, as stored.

    Args:
      path: path of the file.
      flag: flag that names the file, for messages.
      most: greatest number of bytes that it may have; None for any, as of weights.

    Raises:
      InputError: the file cannot be read, is no regular file or is too large.
    """
    check_regular(path, flag, most)
    with translate_errors(named(path, flag), "read", CHECK), _file_system(path).open(path) as file:
        return b"".join(iter(lambda: file.read(_BYTES_AT_A_TIME), b""))


def read_text(path: str, flag: str = "") -> str:
    """Returns the content of a small UTF-8 file, see `read_bytes`."""
    try:
        return read_bytes(path, flag).decode()
    except UnicodeDecodeError as error:
        raise refusal(named(path, flag), "read", str(error), "save it as UTF-8") from error


def read_chunks(path: str) -> Iterator[bytes]:
    """Yields the content of a large file, 16 MB at a time.

    Raises:
      InputError: the file cannot be read, or is no regular file.
    """
    check_regular(path)
    with open_file(path) as file, translate_errors(path, "read"):
        while chunk := file.read(_BYTES_AT_A_TIME):
            yield chunk


def sha256_of(path: str) -> str:
    """Returns the SHA-256 of a file of any size.

    Raises:
      InputError: the file cannot be read, or is no regular file.
    """
    digest = hashlib.sha256()
    for chunk in read_chunks(path):
        digest.update(chunk)
    return digest.hexdigest()


def parse_object(data: bytes | str) -> dict[str, Any]:
    """Returns a JSON object.

    Raises:
      ValueError: the data is not JSON, is nested too deeply, names a key twice or is no object.
    """
    try:
        value = json.loads(data, object_pairs_hook=_object)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"it is a {type(value).__name__}, not an object")
    return value


def read_object(
    path: str, *names: str, flag: str = "", remedy: str = "copy its folder again or make it again"
) -> dict[str, Any]:
    """Returns the JSON object in a file of a folder that BeamBERT made.

    Args:
      path: path of the file.
      *names: keys that it must have.
      flag: flag that named the folder, for messages.
      remedy: advice for a damaged file.

    Raises:
      InputError: the file cannot be read, or is damaged.
    """
    data = read_bytes(path, flag)
    try:
        value = parse_object(data)
        if missing := [name for name in names if name not in value]:
            raise ValueError(f"it has no {missing[0]}")
    except ValueError as error:
        raise InputError(f"{named(path, flag)}: is damaged ({error}); {remedy}") from error
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"it has the key {twice!r} twice")
    return value


def check_names(names: Iterable[Any]) -> None:
    """Raises an error for files of a list that are not in the folder of the list.

    Args:
      names: the names, each a path from the folder.

    Raises:
      ValueError: a path leaves the folder, or is that of no file.
    """
    for name in names:
        if not isinstance(name, str) or not re.fullmatch(r"(?:\w[\w.-]*/)*\w[\w.-]*", name):
            raise ValueError(f"it names {name!r}, which is no file in its folder")


# Writing


def write_bytes(path: str, data: bytes) -> None:
    """Writes a small file completely or not at all, and makes the folders above it.

    Raises:
      InputError: the file cannot be written; an older file of that name is unchanged.
    """
    with open_atomically(path) as file:
        file.write(data)


@contextlib.contextmanager
def open_atomically(path: str) -> Iterator[BinaryIO]:
    """Opens a file for writing. It gets its name only when it is complete.

    Raises:
      InputError: the file cannot be written, for example because the disk is full.
    """
    made = path.rstrip("/")
    if not path.startswith(_UPLOADING):
        made = temporary_name(made)
    with create(made, path) as file:
        yield file
        file.close()
        if not path.startswith(_UPLOADING):
            _file_system(path).move(made, path)


@contextlib.contextmanager
def create(
    path: str,
    name: str | None = None,
    remedy: str = "",
) -> Iterator[BinaryIO]:
    """Opens a new file for writing, of which nothing is left on any failure.

    Args:
      path: path of the file; the folders above it are made.
      name: name of the file in messages (default: its path).
      remedy: what to do, in messages; "" for a general advice.

    Raises:
      InputError: the file cannot be written, for example because the disk is full.
    """
    begun = [] if path.startswith(_UPLOADING) else [path]
    try:
        with (
            undone_at_end(lambda: delete_quietly(begun)),
            translate_errors(name or path, "written", remedy),
        ):
            file = _file_system(path).create(path)
            try:
                yield file
                file.close()
            except BaseException:
                _give_up(file)
                raise
    except BaseException:  # This includes an interrupt and errors of the caller.
        delete_quietly(begun)
        raise


def _give_up(file: Any) -> None:
    """Closes a file that is not complete, and sends nothing more of it.

    A writer on gs:// that is left open would send the rest, and try it for two minutes, whenever
    Python deletes it.
    """
    with contextlib.suppress(*storage_errors(), ValueError, AttributeError):
        if hasattr(file, "discard"):  # of fsspec, which otherwise sends the rest when it is closed
            file.closed = True
            file.discard()
        elif hasattr(file, "terminate"):
            file.terminate()
        else:
            file.close()
    if isinstance(buffer := getattr(file, "_buffer", None), io.IOBase):
        buffer.close()


def content_of(path: str) -> bytes | None:
    """Returns the content of a small object as it is now; None if it does not exist.

    Raises:
      InputError: the storage refuses that.
    """
    with translate_errors(path, "read"):
        return _file_system(path).content(path)


def replace_content(path: str, old: bytes | None, new: bytes | None) -> bool:
    """Changes a small object if it has the content that is expected, and returns whether it had.

    On gs:// nobody can change it in between; other storages promise that only for a new object.

    Args:
      path: path of the object, which is not on this machine.
      old: expected content; None if there must be no object.
      new: new content, different from those of all others; None to delete the object.

    Raises:
      InputError: the storage refuses that.
    """
    with translate_errors(path, "read and written"):
        return _file_system(path).replace(path, old, new)


@contextlib.contextmanager
def temporary_path(path: str, name: str = "") -> Iterator[str]:
    """Yields a temporary path, to write a file or folder to that the caller then moves.

    So no command ever reads a half-written file. The temporary file is deleted on any failure.

    Args:
      path: final path of the file or folder.
      name: name of the file or folder in messages (default: its path).

    Raises:
      InputError: the file or folder cannot be written.
    """
    temporary = temporary_name(path)

    def undo() -> None:
        with contextlib.suppress(InputError):
            delete(temporary)

    try:
        with undone_at_end(undo), translate_errors(name or path, "written"):
            if folder := os.path.dirname(path):
                _file_system(folder).make_folder(folder)
            yield temporary
    except BaseException:  # This includes an interrupt.
        undo()
        raise


def make_folder(path: str, flag: str = "") -> None:
    """Makes a folder and the folders above it, unless it exists or the storage has no folders.

    Raises:
      InputError: the folder cannot be made.
    """
    with translate_errors(named(path, flag), "made"):
        _file_system(path).make_folder(path)


def move(source: str, target: str) -> None:
    """Moves a file or folder, also to another file system, and replaces an existing target.

    Raises:
      InputError: the target cannot be written.
    """
    with translate_errors(target, "written"):
        if is_folder(source):
            delete(target)  # No file system replaces a folder by renaming another one.
        if source.partition("://")[:2] == target.partition("://")[:2] or (
            is_local(source) and is_local(target)
        ):
            try:
                _file_system(source).move(source, target)
                return
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
        copy(source, target)
        delete(source)


def copy(source: str, target: str, left_out: Collection[str] = ()) -> None:
    """Copies a file or folder, also to another file system.

    Args:
      source: path of the file or folder.
      target: path of the copy. An existing file is replaced; an existing folder gets the files.
      left_out: names in the source folder that are not copied.

    Raises:
      InputError: the file or folder cannot be copied.
    """
    if is_folder(source):
        make_folder(target)
        for name in list_folder(source):
            if name not in left_out:
                copy(f"{source}/{name}", f"{target}/{name}")
        return
    with translate_errors(source, "copied"):
        system = _file_system(source)
        if type(system) is type(_file_system(target)):
            system.copy_file(source, target)
            return
        with system.open(source) as there, create(target) as here:
            shutil.copyfileobj(there, here, _BYTES_AT_A_TIME)


def delete(path: str) -> None:
    """Deletes a file or folder, if it exists.

    Raises:
      InputError: the file or folder cannot be deleted.
    """
    with translate_errors(path, "deleted"):
        system = _file_system(path)
        if os.path.lexists(path) if is_local(path) else system.info(path):
            system.delete(path)


def delete_quietly(paths: Sequence[str]) -> None:
    """Deletes files, and ignores failures, such as that of a file that does not exist."""
    with contextlib.suppress(*storage_errors()):
        if paths:
            _file_system(paths[0]).delete_files(list(paths))


def delete_prefixed(folder: str, prefix: str) -> None:
    """Deletes the files in a folder whose names start with a prefix, but no lock."""
    names = list_folder(folder)
    found = [n for n in names if n.startswith(prefix) and not n.startswith(LOCK_PREFIX)]
    delete_quietly([f"{folder}/{name}" for name in found])


def leftovers(folder: str, final_name: str = "") -> list[str]:
    """Returns the temporary paths in a folder, left by killed commands or in use by others.

    The lock of the folder is not among them.

    Args:
      folder: folder to search.
      final_name: name that the files were to get; "" for any name.

    Raises:
      InputError: the folder cannot be listed.
    """
    names = [name for name in list_folder(folder) if is_temporary(name, final_name)]
    return [os.path.join(folder, n) for n in names if not n.startswith(LOCK_PREFIX)]


@contextlib.contextmanager
def local_copy(path: str, left_out: Collection[str] = ()) -> Iterator[str]:
    """Yields the path of a file or folder on this machine, for libraries that read only local ones.

    A local one is used as it is. Any other is copied, and the copy is deleted afterwards. Errors
    about the copy name the original instead.

    Args:
      path: path of the file or folder. If it doesn't exist, the yielded path doesn't either.
      left_out: names in the folder that are not copied.

    Raises:
      InputError: the file or folder cannot be copied.
    """
    if is_local(path):
        yield path
        return
    path = path.rstrip("/")
    with tempfile.TemporaryDirectory(prefix="beambert-") as root:
        here = os.path.join(root, os.path.basename(path))
        if exists(path):
            copy(path, here, left_out)
        try:
            yield here
        except InputError as error:
            raise InputError(str(error).replace(here, path)) from error
