"""Files and folders through TensorFlow, local or gs://."""

import contextlib
import os
import re
from collections.abc import Collection, Iterator

import tensorflow as tf

from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.storage import claims, tensorflow_files
from beambert.pipelines.storage.claims import UNFINISHED_ENDING


def exists(path: str) -> bool:
    """Whether a file or folder is there.

    Raises:
      InputError: nobody can tell.
    """
    with _told(path, "read"):
        return tf.io.gfile.exists(path)


def read_text(path: str, what: str | None = None) -> str:
    """Reads a file.

    Args:
      path: of the file.
      what: to call it in messages, if not by its path.

    Raises:
      InputError: it can't be read.
    """
    with _told(what or path, "read"), tf.io.gfile.GFile(path) as file:
        return file.read()


def write_text(path: str, text: str) -> None:
    """Writes a file whole or not at all, and the folders above it.

    Raises:
      InputError: it can't be written.
    """
    with _told(path, "written"):
        tf.io.gfile.makedirs(os.path.dirname(path))
        aside = f"{path}{UNFINISHED_ENDING}"
        with tf.io.gfile.GFile(aside, "w") as file:
            file.write(text)
        tf.io.gfile.rename(aside, path, overwrite=True)


@contextlib.contextmanager
def _told(path: str, what: str) -> Iterator[None]:
    """Says in a sentence what can't be done with a path."""
    try:
        yield
    except (tf.errors.OpError, UnicodeDecodeError) as error:
        line = (str(error) or type(error).__name__).splitlines()[0]
        raise InputError(f"{path}: cannot be {what} ({line})") from error


def copy_folder(source: str, target: str, left_out: Collection[str] = ()) -> None:
    """Copies a folder, on any file system TensorFlow knows, but for some names directly in it.

    Raises:
      InputError: it can't be copied.
    """
    import tensorflow as tf

    try:
        tf.io.gfile.makedirs(target)
        for name in (name.rstrip("/") for name in tf.io.gfile.listdir(source)):
            if name in left_out:
                continue
            path = f"{source}/{name}"
            if tf.io.gfile.isdir(path):
                copy_folder(path, f"{target}/{name}")
            elif name:
                tf.io.gfile.copy(path, f"{target}/{name}", overwrite=True)
    except tf.errors.OpError as error:
        raise InputError(f"{source}: cannot be copied ({error.message.splitlines()[0]})") from error


def absolute(path: str) -> str:
    """Returns a path that means the same from any working directory."""
    return path if "://" in path else os.path.abspath(path)


def make(path: str, flag: str) -> None:
    """Makes a folder, unless it is there.

    Raises:
      InputError: it can't be made.
    """
    try:
        tf.io.gfile.makedirs(path)
    except tf.errors.OpError as error:
        raise InputError(f"{flag}={path}: cannot be made ({reason(error)})") from error


def reason(error: Exception) -> str:
    """Returns the first line of an error, without the names of TensorFlow's operations."""
    text = str(error).strip() or type(error).__name__
    # What happened in a graph comes after where, and before the operation.
    text = re.sub(r"^Graph execution error:.*\n(?=.*\n\t \[\[)", "", text, flags=re.DOTALL)
    line = text.splitlines()[0]
    return re.sub(r"\{\{.*?\}\} | \[Op:\w+\]", "", line)


def write(path: str, data: bytes) -> None:
    """Writes a file, whole or not at all: what was there stays until all is written.

    Raises:
      InputError: it can't be written.
    """
    folder, _, name = path.rpartition("/")
    temporary = f"{folder}/{claims.TEMPORARY_PREFIX}{name}"
    try:
        with tf.io.gfile.GFile(temporary, "wb") as file:
            file.write(data)
        tf.io.gfile.rename(temporary, path, overwrite=True)
    except tf.errors.OpError as error:
        raise InputError(f"{path}: cannot be written ({reason(error)})") from error


def read(path: str) -> bytes:
    """Reads a small file.

    Raises:
      InputError: it can't be read.
    """
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            return file.read()
    except tf.errors.OpError as error:
        raise InputError(f"{path}: cannot be read ({error.message})") from error


def _is_there(folder: str) -> bool:
    try:
        return tf.io.gfile.exists(folder)
    except tf.errors.OpError as error:
        raise InputError(
            f"{folder}: cannot be looked for ({tensorflow_files.reason(error)})"
        ) from error
