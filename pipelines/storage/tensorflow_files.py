"""Files and folders through TensorFlow, local or gs://: all that accelerator hosts can use.

`pipelines.jobs.files` does the same through Beam; it says why. Functions of one name are alike
there and here, and both say what fails in the sentence of `claims.refusal`.

Nothing here asks TensorFlow's `isdir`: it says no where the storage doesn't answer, and a command
would take a folder that it can't see for one that isn't there.
"""

import contextlib
import os
import re
import tempfile
from collections.abc import Collection, Iterator

from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.shared.loading import loading
from beambert.pipelines.storage import claims

with loading():
    import tensorflow as tf

# What file systems raise, and Python's own functions on local files.
STORAGE_ERRORS = (tf.errors.OpError, OSError)
_BYTES_AT_A_TIME = 1 << 24


def reason(error: Exception) -> str:
    """Returns the first line of an error, without the names of TensorFlow's operations."""
    text = str(error).strip() or type(error).__name__
    # What happened in a graph comes after where, and before the operation.
    text = re.sub(r"^Graph execution error:.*\n(?=.*\n\t \[\[)", "", text, flags=re.DOTALL)
    line = text.splitlines()[0]
    return re.sub(r"\{\{.*?\}\} | \[Op:\w+\]", "", line)


@contextlib.contextmanager
def told(name: str, done: str, remedy: str = "") -> Iterator[None]:
    """Says in a sentence what storage refuses; see `claims.refusal`.

    Raises:
      InputError: it refuses something.
    """
    try:
        yield
    except STORAGE_ERRORS as error:
        raise claims.refusal(name, done, reason(error), remedy) from error


def exists(path: str) -> bool:
    """Whether a file or folder is there.

    Raises:
      InputError: nobody can tell.
    """
    with told(path, "read"):
        return tf.io.gfile.exists(path)


def is_folder(path: str) -> bool:
    """Whether a folder is there.

    Raises:
      InputError: nobody can tell.
    """
    with told(path, "read"):
        try:
            return tf.io.gfile.stat(path.rstrip("/")).is_directory
        except tf.errors.NotFoundError:
            return False


def size(path: str) -> int | None:
    """Returns how many bytes a file has; None if it isn't there.

    Raises:
      InputError: nobody can tell.
    """
    with told(path, "read"):
        try:
            return tf.io.gfile.stat(path).length
        except tf.errors.NotFoundError:
            return None


def modified(path: str) -> float:
    """Returns when a file was last written, in seconds since 1970.

    Raises:
      InputError: nobody can tell.
    """
    with told(path, "read"):
        return tf.io.gfile.stat(path).mtime_nsec / 1e9


def list_folder(path: str, remedy: str = "") -> list[str]:
    """Returns the names directly in a folder, in order; none if it isn't there.

    Args:
      path: of the folder.
      remedy: what to do if it can't be listed, for messages.

    Raises:
      InputError: it can't be listed.
    """
    with told(path, "listed", remedy):
        names = tf.io.gfile.listdir(path) if tf.io.gfile.exists(path) else []
    return sorted(name.rstrip("/") for name in names if name.rstrip("/"))


def match(pattern: str) -> list[str]:
    """Returns the paths that a pattern matches, in order.

    Raises:
      InputError: they can't be listed.
    """
    with told(pattern, "listed"):
        return sorted(tf.io.gfile.glob(pattern))


def read_bytes(path: str, flag: str = "") -> bytes:
    """Reads a small file whole.

    Args:
      path: of the file.
      flag: that it was given by, for messages.

    Raises:
      InputError: it can't be read.
    """
    with told(claims.named(path, flag), "read"), tf.io.gfile.GFile(path, "rb") as file:
        return file.read()


def read_text(path: str, flag: str = "") -> str:
    """Reads a small file of UTF-8, as `read_bytes`."""
    try:
        return read_bytes(path, flag).decode()
    except UnicodeDecodeError as error:
        raise claims.refusal(claims.named(path, flag), "read", str(error)) from error


def read_chunks(path: str) -> Iterator[bytes]:
    """Yields a large file in parts.

    Raises:
      InputError: it can't be read.
    """
    with told(path, "read"), tf.io.gfile.GFile(path, "rb") as file:
        while chunk := file.read(_BYTES_AT_A_TIME):
            yield chunk


def write_bytes(path: str, data: bytes) -> None:
    """Writes a small file whole or not at all, and makes the folders above it.

    Raises:
      InputError: it can't be written; what was there is as it was.
    """
    with written_aside(path) as temporary:
        with tf.io.gfile.GFile(temporary, "wb") as file:
            file.write(data)
        tf.io.gfile.rename(temporary, path, overwrite=True)


@contextlib.contextmanager
def written_aside(path: str, name: str = "") -> Iterator[str]:
    """Yields a path beside another, to write a file or folder to and then to rename.

    So nothing that is half-written is ever read. What could not be written whole is deleted.

    Args:
      path: of the file or folder that is to be there in the end.
      name: what to call it in messages, if not by its path.

    Raises:
      InputError: it can't be written.
    """
    temporary = claims.aside(path)
    try:
        with told(name or path, "written"):
            if folder := os.path.dirname(path):
                tf.io.gfile.makedirs(folder)
            yield temporary
    except BaseException:  # also an interrupt
        with contextlib.suppress(InputError):
            delete(temporary)
        raise


def leftovers(folder: str, final_name: str = "") -> list[str]:
    """Returns what killed commands have left beside a name in a folder, or others write now.

    Args:
      folder: where to look.
      final_name: what they were to become; of any name if there is none.

    Raises:
      InputError: the folder can't be listed.
    """
    names = [name for name in list_folder(folder) if claims.is_aside(name, final_name)]
    return [os.path.join(folder, name) for name in names]


def make_folder(path: str, flag: str = "") -> None:
    """Makes a folder and those above it, unless it is there.

    Raises:
      InputError: it can't be made.
    """
    with told(claims.named(path, flag), "made"):
        tf.io.gfile.makedirs(path)


def delete(path: str) -> None:
    """Deletes a file or folder, if it is there.

    Raises:
      InputError: it can't be deleted.
    """
    with told(path, "deleted"):
        if is_folder(path):
            tf.io.gfile.rmtree(path)
        elif tf.io.gfile.exists(path):
            tf.io.gfile.remove(path)


def move(source: str, target: str) -> None:
    """Puts a file or folder in the place of what is there, also on another file system.

    Raises:
      InputError: it can't be written.
    """
    with told(target, "written"):
        if is_folder(source):
            delete(target)  # no file system replaces a folder by renaming
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
      source: of what to copy.
      target: where to; a file that is there is replaced, a folder that is there filled.
      left_out: names directly in the folder.

    Raises:
      InputError: it can't be copied.
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
    """Yields a folder on this machine for libraries that read only such.

    It is the folder itself if that is here, else a copy that is deleted afterwards. An error that
    speaks of the copy is made to speak of the folder.

    Args:
      path: of the folder; if there is none, there is none where this says either.
      left_out: names directly in it that aren't needed.

    Raises:
      InputError: it can't be copied.
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
