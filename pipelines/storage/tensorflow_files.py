"""Files and folders through TensorFlow, local or on gs://, for hosts that have no Beam.

`pipelines.files.beam_files` does the same through Beam and explains why both exist. Functions of
the same name behave the same in both modules, and both raise the error of `claims.refusal`.

This module never calls TensorFlow's `isdir`. It returns False when the storage doesn't answer, so
a command would take a folder that it cannot see for one that doesn't exist.
"""

import concurrent.futures
import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Collection, Iterator, Sequence

from beambert.errors import InputError
from beambert.loading import loading
from beambert.pipelines.storage import claims

with loading():
    import tensorflow as tf

# The exceptions of TensorFlow's file systems and of Python's functions on local files.
STORAGE_ERRORS = (tf.errors.OpError, OSError)
_BYTES_AT_A_TIME = 1 << 24
# The files that describe models and data are far smaller than this.
MOST_BYTES = 1 << 28
_SIMULTANEOUS_REQUESTS = 32


def reason(error: Exception) -> str:
    """Returns the first line of an error, without the names of TensorFlow's operations."""
    text = str(error).strip() or type(error).__name__
    # In an error of a graph the cause stands between a traceback and the name of the operation.
    text = re.sub(r"^Graph execution error:.*\n(?=.*\n\t \[\[)", "", text, flags=re.DOTALL)
    line = text.splitlines()[0]
    return re.sub(r"\{\{.*?\}\} | \[Op:\w+\]", "", line)


@contextlib.contextmanager
def told(name: str, done: str, remedy: str = "") -> Iterator[None]:
    """Turns the exceptions of file systems into the error of `claims.refusal`.

    Raises:
      InputError: the file system refuses an operation.
    """
    try:
        name.encode()
    except UnicodeEncodeError as error:  # TensorFlow raises other errors for other operations
        raise claims.refusal(name, done, "the name is not UTF-8", "rename it") from error
    try:
        yield
    except STORAGE_ERRORS as error:
        raise claims.refusal(name, done, reason(error), remedy) from error


def exists(path: str) -> bool:
    """Returns whether a file or folder exists.

    Raises:
      InputError: the storage doesn't answer.
    """
    with told(path, "read"):
        return tf.io.gfile.exists(path)


def is_folder(path: str) -> bool:
    """Returns whether a folder exists.

    Raises:
      InputError: the storage doesn't answer.
    """
    with told(path, "read"):
        try:
            return tf.io.gfile.stat(path.rstrip("/")).is_directory
        except tf.errors.NotFoundError:
            return False


def size(path: str) -> int | None:
    """Returns the size of a file in bytes; None if it doesn't exist.

    Raises:
      InputError: the storage doesn't answer.
    """
    with told(path, "read"):
        try:
            return tf.io.gfile.stat(path).length
        except tf.errors.NotFoundError:
            return None


def sizes(folder: str, names: Sequence[str]) -> list[int | None]:
    """Returns the size in bytes of each file in a folder; None for a file that doesn't exist.

    On gs:// one request lists a thousand files. To ask for each of thousands of shards would keep
    accelerators waiting.

    Args:
      folder: path of the folder.
      names: names of files in it.

    Raises:
      InputError: the storage doesn't answer.
    """
    found = _listed_sizes(folder) if folder.startswith("gs://") else None
    if found is not None:
        return [found.get(name) for name in names]
    with concurrent.futures.ThreadPoolExecutor(_SIMULTANEOUS_REQUESTS) as pool:
        return list(pool.map(size, [f"{folder}/{name}" for name in names]))


def _listed_sizes(folder: str) -> dict[str, int] | None:
    """Returns the size of each file in a folder on gs://; None where only TensorFlow can look.

    TensorFlow lists names without sizes. It also reads public buckets without an account, which
    Google's library does not do by itself.

    Raises:
      InputError: the storage doesn't answer.
    """
    try:
        from google.api_core.exceptions import GoogleAPIError
        from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
        from google.cloud import storage
    except ImportError:
        return None
    bucket, _, name = folder.removeprefix("gs://").partition("/")
    wanted = {"prefix": f"{name}/", "fields": "items(name,size),nextPageToken"}
    try:
        blobs = storage.Client(project=None).list_blobs(bucket, delimiter="/", **wanted)
        return {blob.name.rpartition("/")[2]: blob.size for blob in blobs}
    except DefaultCredentialsError:
        return None
    except (GoogleAPIError, GoogleAuthError, OSError) as error:
        raise claims.refusal(folder, "listed", reason(error)) from error


def modified(path: str) -> float:
    """Returns the time at which a file was last written, in seconds since 1970.

    Raises:
      InputError: the file doesn't exist, or the storage doesn't answer.
    """
    with told(path, "read"):
        return tf.io.gfile.stat(path).mtime_nsec / 1e9


def list_folder(path: str, remedy: str = "") -> list[str]:
    """Returns the sorted names of the files and folders in a folder; none if it doesn't exist.

    Args:
      path: path of the folder.
      remedy: advice for the message if the folder cannot be listed.

    Raises:
      InputError: the folder cannot be listed.
    """
    with told(path, "listed", remedy):
        names = tf.io.gfile.listdir(path) if tf.io.gfile.exists(path) else []
    return sorted(name.rstrip("/") for name in names if name.rstrip("/"))


def match(pattern: str) -> list[str]:
    """Returns the sorted paths that match a pattern.

    Raises:
      InputError: the files cannot be listed.
    """
    with told(pattern, "listed"):
        return sorted(tf.io.gfile.glob(pattern))


def check_regular(path: str, flag: str = "", most: int | None = None) -> None:
    """Refuses what is no regular file, see `claims.check_regular`, and files that are too large.

    Args:
      path: path of a file; nothing is said of one that doesn't exist.
      flag: flag that names the file, for messages.
      most: greatest number of bytes; None for any.

    Raises:
      InputError: it is another thing than a file, or the file is larger.
    """
    claims.check_regular(path, flag)
    if most is not None and (size(path) or 0) > most:
        problem = f"it has more than {most:,} bytes"
        raise claims.refusal(claims.named(path, flag), "read", problem, "copy it again")


def read_bytes(path: str, flag: str = "", most: int = MOST_BYTES) -> bytes:
    """Returns the content of a file.

    Args:
      path: path of the file.
      flag: flag that names the file, for messages.
      most: greatest number of bytes that it may have.

    Raises:
      InputError: the file cannot be read, is no regular file or is too large.
    """
    check_regular(path, flag, most)
    with told(claims.named(path, flag), "read"), tf.io.gfile.GFile(path, "rb") as file:
        return file.read()


def read_start(path: str, count: int) -> bytes:
    """Returns the first bytes of a file, at most `count`.

    Raises:
      InputError: the file cannot be read.
    """
    with told(path, "read", "check its permissions"), tf.io.gfile.GFile(path, "rb") as file:
        return file.read(count)


def read_text(path: str, flag: str = "") -> str:
    """Returns the text of a small UTF-8 file, see `read_bytes`."""
    try:
        return read_bytes(path, flag).decode()
    except UnicodeDecodeError as error:
        name = claims.named(path, flag)
        raise claims.refusal(name, "read", str(error), "save it as UTF-8") from error


def read_chunks(path: str) -> Iterator[bytes]:
    """Yields the content of a large file, 16 MB at a time.

    Raises:
      InputError: the file cannot be read, or is no regular file.
    """
    check_regular(path)
    with told(path, "read"), tf.io.gfile.GFile(path, "rb") as file:
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


def write_bytes(path: str, data: bytes) -> None:
    """Writes a small file completely or not at all, and makes the folders above it.

    Raises:
      InputError: the file cannot be written; an older file of that name is unchanged.
    """
    with written_aside(path) as temporary:
        with tf.io.gfile.GFile(temporary, "wb") as file:
            file.write(data)
        tf.io.gfile.rename(temporary, path, overwrite=True)


@contextlib.contextmanager
def written_aside(path: str, name: str = "") -> Iterator[str]:
    """Yields a temporary path, to write a file or folder to that the caller then renames.

    So no command ever reads a half-written file. The temporary file is deleted on any failure.

    Args:
      path: final path of the file or folder.
      name: name of the file or folder in messages (default: its path).

    Raises:
      InputError: the file or folder cannot be written.
    """
    temporary = claims.aside(path)
    try:
        with told(name or path, "written"):
            if folder := os.path.dirname(path):
                tf.io.gfile.makedirs(folder)
            yield temporary
    except BaseException:  # This includes an interrupt.
        with contextlib.suppress(InputError):
            delete(temporary)
        raise


def leftovers(folder: str, final_name: str = "") -> list[str]:
    """Returns the temporary paths in a folder, left by killed commands or in use by others.

    The lock of the folder is not among them.

    Args:
      folder: folder to search.
      final_name: name that the files were to get; "" for any name.

    Raises:
      InputError: the folder cannot be listed.
    """
    names = [name for name in list_folder(folder) if claims.is_aside(name, final_name)]
    return [os.path.join(folder, n) for n in names if not n.startswith(claims.LOCK_PREFIX)]


def make_folder(path: str, flag: str = "") -> None:
    """Makes a folder and the folders above it, unless it exists.

    Raises:
      InputError: the folder cannot be made.
    """
    with told(claims.named(path, flag), "made"):
        tf.io.gfile.makedirs(path)


def delete(path: str) -> None:
    """Deletes a file or folder, if it exists.

    Raises:
      InputError: the file or folder cannot be deleted.
    """
    with told(path, "deleted"):
        if is_folder(path):
            tf.io.gfile.rmtree(path)
        elif tf.io.gfile.exists(path):
            tf.io.gfile.remove(path)


def move(source: str, target: str) -> None:
    """Moves a file or folder, also to another file system, and replaces an existing target.

    Raises:
      InputError: the target cannot be written.
    """
    with told(target, "written"):
        if is_folder(source):
            delete(target)  # No file system replaces a folder by renaming another one.
        if _file_system(source) == _file_system(target):
            tf.io.gfile.rename(source, target, overwrite=True)
            return
        copy(source, target)
        delete(source)


def _file_system(path: str) -> str:
    return path.partition("://")[0] if "://" in path else ""


def copy(source: str, target: str, left_out: Collection[str] = ()) -> None:
    """Copies a file or folder, also to another file system.

    Args:
      source: path of the file or folder.
      target: path of the copy. An existing file is replaced; an existing folder gets the files.
      left_out: names in the source folder that are not copied.

    Raises:
      InputError: the file or folder cannot be copied.
    """
    if not is_folder(source):
        with told(source, "copied"):
            tf.io.gfile.copy(source, target, overwrite=True)
        return
    make_folder(target)
    for name in list_folder(source):
        if name not in left_out:
            copy(f"{source}/{name}", f"{target}/{name}")


@contextlib.contextmanager
def local_folder(path: str, left_out: Collection[str] = ()) -> Iterator[str]:
    """Yields the path of a folder on this machine, for libraries that read only local files.

    A local folder is used as it is. Any other is copied, and the copy is deleted afterwards. Errors
    about the copy name the folder instead.

    Args:
      path: path of the folder. If it doesn't exist, the yielded path doesn't exist either.
      left_out: names in the folder that are not copied.

    Raises:
      InputError: the folder cannot be copied.
    """
    if "://" not in path:
        yield path
        return
    path = path.rstrip("/")
    with tempfile.TemporaryDirectory(prefix="beambert-") as root:
        here = os.path.join(root, os.path.basename(path))
        if is_folder(path):
            copy(path, here, left_out)
        try:
            yield here
        except InputError as error:
            raise InputError(str(error).replace(here, path)) from error


@contextlib.contextmanager
def local_file(path: str) -> Iterator[str]:
    """Yields the path of a file on this machine; see `local_folder`."""
    if "://" not in path:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="beambert-") as root:
        here = os.path.join(root, os.path.basename(path))
        copy(path, here)
        try:
            yield here
        except InputError as error:
            raise InputError(str(error).replace(here, path)) from error
