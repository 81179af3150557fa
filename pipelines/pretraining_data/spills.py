"""Passes tokenized documents to their shards through temporary files in the output folder.

Runners keep grouped data in memory (FnApiRunner takes several times its size), or bill it by the
byte. So workers write tokenized documents to files, in the order of the shards. Only the positions
of each shard's bytes in these files are grouped. They are tiny, so that a run of any size takes the
same memory on every runner. A retried worker writes new files. Files that no shard refers to are
deleted at the end.
"""

import uuid
from collections.abc import Iterable, Iterator

from apache_beam.io.filesystems import FileSystems

from beambert.pipelines.jobs.files import create, open_uncompressed
from beambert.pipelines.storage.claims import TEMPORARY_PREFIX

# Number of token ids that a worker holds before it writes a file: 64 MB, at two bytes each.
SPILL_TOKENS = 32 << 20

# Path, position of the first byte, number of bytes. It is a plain tuple because the coders of every
# runner know this type.
Segment = tuple[str, int, int]


def write_spill(
    folder: str, run: str, items: Iterable[tuple[int, bytes]]
) -> list[tuple[int, Segment]]:
    """Writes the bytes of several keys to one new file.

    Args:
      folder: folder of the file.
      run: name of the run, which becomes a part of the file's name.
      items: pairs of key and bytes.

    Returns:
      Pairs of key and segment.

    Raises:
      InputError: the file cannot be written.
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
    """Returns the prefix of the names of a run's files."""
    return f"{TEMPORARY_PREFIX}documents-{run}-"
