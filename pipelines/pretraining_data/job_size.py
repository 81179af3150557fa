"""What a job handles, and what follows from it: requests, bytes, serial seconds. Pure.

`beambert data --dry_run` and benchmarks/scale.py use this model.
"""

import dataclasses
import math

from beambert.pipelines.corpus.parts import STORED_PART_BYTES
from beambert.pipelines.files.ranged_files import REQUEST_BYTES

# Bytes that a document takes in the shuffle besides two for each token: hash, source, piece and
# number of sentences, and the headers of an element with one document (see `CompactDocuments.pack`
# and `Shuffle.send`). A sentence takes four.
BYTES_PER_DOCUMENT = 16 + 3 * 4 + 16 + 5
BYTES_PER_SENTENCE = 4
# Seconds of one core while nothing else can be done: for each input in the plan, and for each input
# and each shard in the last step. benchmarks/results/scale.json has them for 100,000 local files.
PLAN_SECONDS_PER_INPUT = 3.4e-5
FINISH_SECONDS_PER_FILE = 1.4e-5
# Requests that look at the bucket, at the folder and at its claim for each file that is written and
# renamed. An emulator of gs:// counted 7.9 to 8.0, also for held-out folders and those of sources.
LOOKS_PER_FILE = 8
# A request lists so many objects.
OBJECTS_IN_A_LISTING = 1000


@dataclasses.dataclass(frozen=True)
class JobSize:
    """What a job handles.

    Attributes:
      input_bytes: bytes of the input as stored.
      input_files: number of input files.
      documents, sentences, tokens: numbers of those used.
      shards: number of shards.
      record_files: number of files with records; a shard has one for each length.
      record_bytes: bytes of these files.
      core_seconds: time of the work on one core without Beam.
    """

    input_bytes: float
    input_files: int
    documents: float
    sentences: float
    tokens: float
    shards: int
    record_files: int
    record_bytes: float
    core_seconds: float

    @property
    def shuffled_bytes(self) -> float:
        """Bytes that the runner's shuffle carries."""
        tokens = 2 * self.tokens  # of a vocabulary of at most 65,536 tokens
        sentences = BYTES_PER_SENTENCE * self.sentences
        return tokens + sentences + BYTES_PER_DOCUMENT * self.documents

    @property
    def read_requests(self) -> int:
        """Requests for ranges of objects, and those that look whether something is there."""
        parts = max(self.input_files, math.ceil(self.input_bytes / STORED_PART_BYTES))
        ranges = math.ceil(self.input_bytes / REQUEST_BYTES)
        return parts + ranges + LOOKS_PER_FILE * self.record_files

    @property
    def write_requests(self) -> int:
        """Requests that write, copy or list objects: a file is written and renamed."""
        listings = math.ceil(self.input_files / OBJECTS_IN_A_LISTING)
        listings += math.ceil(self.record_files / OBJECTS_IN_A_LISTING)
        return 2 * self.record_files + 2 * listings

    @property
    def serial_seconds(self) -> float:
        """Seconds in which one core works and the others wait."""
        files = self.input_files + self.shards
        return PLAN_SECONDS_PER_INPUT * self.input_files + FINISH_SECONDS_PER_FILE * files
