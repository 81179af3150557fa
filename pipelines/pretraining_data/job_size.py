"""What a job handles, and what follows from it: requests, bytes, serial seconds. Pure.

`beambert data --dry_run` and benchmarks/scale.py use this model.
"""

import dataclasses
import math

from beambert.pipelines.corpus.base import STORED_PART_BYTES
from beambert.storage import REQUEST_BYTES

# Bytes of the header of an element of the shuffle, see `Shuffle.send`. Where shards are many, an
# element has one document or one row of a band. Where they are few, headers are fewer than told.
ELEMENT_BYTES = 5
# Bytes that a document takes in the shuffle besides its ids: hash, source, piece and number of
# sentences, and the headers (see `CompactDocuments.pack`). A sentence takes four.
BYTES_PER_DOCUMENT = 16 + 3 * 4 + 16 + ELEMENT_BYTES
BYTES_PER_SENTENCE = 4
# Seconds of one core while nothing else can be done: for each input in the plan, and for each input
# and each shard in the last step. benchmarks/results/scale.json has them for 100,000 local files.
PLAN_SECONDS_PER_INPUT = 2.6e-5
FINISH_SECONDS_PER_FILE = 1.2e-5
# Requests that look at the bucket, at the folder and at its claim for each file that is written and
# renamed. An emulator of gs:// counted 7.9 to 8.0, also for held-out folders and those of sources.
LOOKS_PER_FILE = 8
# A request lists so many objects.
OBJECTS_IN_A_LISTING = 1000
# Seconds of such a request. Each says where the next one begins, so they come one after the other.
# Google has 0.053 to 0.091 for 0.6 to 18 million objects of gs:// ("Fast List Benchmark Results" of
# https://github.com/GoogleCloudPlatform/dataflux-client-python). For other storages it is assumed.
SECONDS_PER_LISTING = 0.06
# The inputs are listed in the plan, and in the last step to see that they are unchanged. The last
# step lists the records for what a folder has of temporary files, and for what the output has.
TIMES_LISTED = 2


@dataclasses.dataclass(frozen=True)
class JobSize:
    """What a job handles.

    Attributes:
      input_bytes: bytes of the input as stored.
      input_files: number of input files.
      documents, sentences: numbers of those used.
      id_bytes: bytes of the ids of their tokens, see `CompactDocuments`.
      band_bytes: bytes of the elements that find near duplicates; 0 if none are looked for.
      shards: number of shards.
      record_files: number of files with records, see `Layout.record_files`.
      record_bytes: bytes of these files.
      core_seconds: time of the work on one core without Beam.
      measures_sources: whether `MeasureSources` reads the grouped documents before the shards are
        written.
    """

    input_bytes: float
    input_files: int
    documents: float
    sentences: float
    id_bytes: float
    band_bytes: float
    shards: int
    record_files: int
    record_bytes: float
    core_seconds: float
    measures_sources: bool

    @property
    def document_bytes(self) -> float:
        """Bytes of the tokenized documents in the runner's shuffle."""
        sentences = BYTES_PER_SENTENCE * self.sentences
        return self.id_bytes + sentences + BYTES_PER_DOCUMENT * self.documents

    @property
    def shuffled_bytes(self) -> float:
        """Bytes that the runner's shuffle carries.

        The marks of near duplicates are left out: 21 bytes for each document that is dropped and
        each band in which it met the other one.
        """
        return self.document_bytes + self.band_bytes

    @property
    def shuffle_traffic(self) -> float:
        """Bytes that are written to the shuffle and read from it.

        What is grouped is read once. Where the sources are measured first, the documents are read
        again. It is an assumption that a runner reads them from the shuffle then, too; it may keep
        what it has read elsewhere.
        """
        return 2 * self.shuffled_bytes + self.measures_sources * self.document_bytes

    @property
    def read_requests(self) -> int:
        """Requests for ranges of objects, and those that look whether something is there."""
        parts = max(self.input_files, math.ceil(self.input_bytes / STORED_PART_BYTES))
        ranges = math.ceil(self.input_bytes / REQUEST_BYTES)
        return parts + ranges + LOOKS_PER_FILE * self.record_files

    @property
    def listings(self) -> int:
        """Requests that list objects."""
        pages = (
            math.ceil(files / OBJECTS_IN_A_LISTING)
            for files in (self.input_files, self.record_files)
        )
        return TIMES_LISTED * sum(pages)

    @property
    def write_requests(self) -> int:
        """Requests that write, copy or list objects: a file is written and renamed."""
        return 2 * self.record_files + self.listings

    @property
    def serial_seconds(self) -> float:
        """Seconds in which one core works or waits for object storage, and the others wait."""
        files = self.input_files + self.shards
        work = PLAN_SECONDS_PER_INPUT * self.input_files + FINISH_SECONDS_PER_FILE * files
        return work + SECONDS_PER_LISTING * self.listings
