"""Tokenized documents on their way to their shards, as files beside the output.

Runners move what is grouped through memory (FnApiRunner keeps all of it, at several times its
size) or bill it by the byte. Here workers write what they tokenized to files, in the order of the
shards, and only say which bytes of which file belong to which shard: what is grouped is tiny, and
a run of any size takes the same memory on every runner. A retried worker writes files of its own;
those that nobody was told of are deleted at the end.
"""

import uuid
from collections.abc import Iterable, Iterator

from apache_beam.io.filesystems import FileSystems

from beambert.pipelines.jobs.files import create, open_uncompressed
from beambert.pipelines.storage.claims import TEMPORARY_PREFIX

# Token ids that a worker holds before it writes a file: 64 MB of the usual two bytes each.
SPILL_TOKENS = 32 << 20

# (path, first byte, bytes): plain, so that every runner's coders know it.
Segment = tuple[str, int, int]


def write_spill(
    folder: str, run: str, items: Iterable[tuple[int, bytes]]
) -> list[tuple[int, Segment]]:
    """Writes what belongs to some keys to one file.

    Args:
      folder: to write to.
      run: names the run in the file's name.
      items: (key, bytes).

    Returns:
      (key, where its bytes are) of each.

    Raises:
      InputError: the file can't be written.
    """
    path = FileSystems.join(folder, f"{spill_prefix(run)}{uuid.uuid4().hex}")
    segments, offset = [], 0
    with create(path) as file:
        for key, data in items:
            file.write(data)
            segments.append((key, (path, offset, len(data))))
            offset += len(data)
    return segments


def read_segments(segments: Iterable[Segment]) -> Iterator[bytes]:
    """Yields the bytes of each segment."""
    for path, offset, size in segments:
        with open_uncompressed(path) as file:
            file.seek(offset)
            yield file.read(size)


def spill_prefix(run: str) -> str:
    """Returns what the names of a run's files start with."""
    return f"{TEMPORARY_PREFIX}documents-{run}-"
