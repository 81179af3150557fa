"""A record file of a records folder while it is written, with the statistics of its records."""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from apache_beam.io.filesystems import FileSystems

from beambert.pipelines.pretraining_data.layout import RecordsFolder
from beambert.pipelines.records.statistics import RecordStatistics
from beambert.storage import open_atomically

if TYPE_CHECKING:
    from beambert.pipelines.records.encoding import RecordWriter


@dataclasses.dataclass
class ShardFile:
    """A record file.

    Attributes:
      name: name of the file in its folder.
      writer: writer of its bytes.
      statistics: statistics of the records, to which whoever writes them adds.
      instances: number of records that are written.
    """

    name: str
    writer: "RecordWriter"
    statistics: RecordStatistics
    instances: int = 0

    def write(self, examples: Sequence[bytes] | pa.LargeBinaryArray) -> None:
        """Appends records."""
        self.writer.write(examples)
        self.instances += len(examples)

    @property
    def entry(self) -> tuple[str, int, int, str]:
        """The entry of `FolderCounts.files`, once the file is complete."""
        return self.name, self.instances, self.writer.bytes, self.writer.sha256


@contextlib.contextmanager
def open_shard_file(folder: RecordsFolder, name: str, compression: str) -> Iterator[ShardFile]:
    """Opens a record file for writing. After an error in the block there is no file.

    Args:
      folder: folder of the file.
      name: name of the file.
      compression: "none" or "gzip".
    """
    from beambert.pipelines.records.encoding import RecordWriter

    lengths = (folder.parameters.max_seq_length, folder.parameters.max_predictions_per_seq)
    with open_atomically(FileSystems.join(folder.path, name)) as file:
        made = ShardFile(name, RecordWriter(file, compression), RecordStatistics.empty(*lengths))
        yield made
        made.writer.finish()
