"""The Beam wiring: files -> compact documents by shard -> record files -> info.json and marker."""

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import apache_beam as beam
import numpy as np
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics

from pipelines.console import ProgressTally, quiet_stderr
from pipelines.documents import Document, Reject, Skip
from pipelines.errors import InputError
from pipelines.files import (
    CorruptFileError,
    InputFile,
    open_atomically,
    open_input,
)
from pipelines.formats import BYTE_ORDER_MARK, READERS, SAMPLE_BYTES, detect_format
from pipelines.masking import TokenIds
from pipelines.records import (
    Vocabulary,
    shard_name,
)
from pipelines.sentences import split_sentences
from pipelines.shards import (
    CompactDocuments,
    InstanceParameters,
    ShardCounts,
    build_instances,
    compact_documents,
)

# Text that is split and tokenized at a time: TensorFlow's call costs nothing beside it.
BATCH_BYTES = 1 << 20

# Tags of what reading gives besides its main output.
COUNTS, REJECTS = "counts", "rejects"


@dataclasses.dataclass(frozen=True)
class Split:
    """A records folder to write: all documents, or the part that is held out.

    Attributes:
      folder: where it goes.
      first_key: shards of all splits are numbered through; this split's first.
      num_shards: its number of shards.
    """

    folder: str
    first_key: int
    num_shards: int


@dataclasses.dataclass(frozen=True)
class ReadOptions:
    """How files become documents.

    Attributes:
      format: a key of `formats.READERS`, or "auto".
      language: for the sentence splitter.
      progress_folder: of a `ProgressDisplay`, or None.
    """

    format: str = "auto"
    language: str = "en"
    progress_folder: str | None = None


def read_batches(
    file: InputFile, options: ReadOptions, progress: ProgressTally
) -> Iterator[list[Document | Skip | Reject]]:
    """Streams a file's documents in batches of about `BATCH_BYTES` of text."""
    batch: list[Document | Skip | Reject] = []
    size, told = 0, 0
    for document in read_documents(file, options.format):
        batch.append(document)
        size += len(document.text) if isinstance(document, Document) else 0
        if size >= BATCH_BYTES:
            yield batch
            # Characters stand in for bytes; a compressed file's share is known at its end.
            step = 0 if file.is_compressed else min(size, file.bytes - told)
            progress.add(bytes=step, documents=len(batch))
            told += step
            batch, size = [], 0
    if batch:
        yield batch
    progress.add(bytes=file.bytes - told, documents=len(batch))


def read_documents(file: InputFile, format_name: str) -> Iterator[Document | Skip | Reject]:
    """Streams a file's documents; where a compressed file is corrupt, a last reject says so."""
    number = 0

    def lines(opened: BinaryIO) -> Iterator[bytes]:
        nonlocal number
        for number, line in enumerate(opened, 1):
            yield line if number > 1 else line.removeprefix(BYTE_ORDER_MARK)

    try:
        if format_name == "auto":
            with open_input(file) as opened:
                format_name = detect_format(opened.read(SAMPLE_BYTES))
        with open_input(file) as opened:
            yield from READERS[format_name](lines(opened))
    except CorruptFileError as error:
        yield Reject(number + 1, "corrupt_file", f"unreadable after line {number} ({error})")


def reject_row(file: InputFile, reject: Reject) -> str:
    """Returns the line of the rejects file."""
    row = {"file": file.path, **dataclasses.asdict(reject)}
    return json.dumps(row, ensure_ascii=False)


def check_rejects(rows: list[str], read: int, limit: float, where: str) -> None:
    """Fails the job if too much could not be read.

    Args:
      rows: see `reject_row`.
      read: documents in all.
      limit: the share of them that may be rejected.
      where: the rest of the rows can be seen.

    Raises:
      InputError: naming the first file.
    """
    if len(rows) > limit * read:
        row = json.loads(rows[0])
        raise InputError(
            f"{row['file']}: {row['detail']}; {len(rows)} of {read} documents cannot be read "
            f"({where}): mend them and choose another --output or delete this one, or allow a "
            "share with --max_reject_fraction"
        )


class TokenizeFiles(beam.DoFn):
    """InputFile -> (shard key, packed documents); counts and rejects as side outputs."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        do_lower_case: bool,
        options: ReadOptions,
        train: Split,
        evaluation: Split | None,
        eval_fraction: float,
    ):
        """Takes what every worker needs; the tokenizer itself is built there."""
        self._vocabulary = vocabulary
        self._do_lower_case = do_lower_case
        self._options = options
        self._train = train
        self._evaluation = evaluation
        self._eval_fraction = eval_fraction
        self._documents = Metrics.counter("beambert", "documents")

    def setup(self) -> None:
        """Builds the tokenizer, once a worker."""
        with quiet_stderr():
            from pipelines.tokenization import Tokenizer

        self._tokenizer = Tokenizer(self._vocabulary, self._do_lower_case)
        self._progress = ProgressTally(self._options.progress_folder)

    def process(self, file: InputFile) -> Iterator[Any]:
        """Reads, splits and tokenizes one file."""
        counts: Counter[str] = Counter()
        for batch in read_batches(file, self._options, self._progress):
            self._documents.inc(len(batch))
            counts["read"] += len(batch)
            documents = []
            for document in batch:
                if isinstance(document, Reject):
                    counts["rejected " + document.reason] += 1
                    yield beam.pvalue.TaggedOutput(REJECTS, reject_row(file, document))
                elif isinstance(document, Skip):
                    counts["dropped " + document.reason] += 1
                else:
                    documents.append(document)
            compact = self._compact(documents, counts)
            yield from self._by_shard(compact)
        yield beam.pvalue.TaggedOutput(COUNTS, counts)

    def _compact(self, documents: list[Document], counts: Counter[str]) -> CompactDocuments:
        """Splits and tokenizes documents; drops what has no token, counting it."""
        split = (split_sentences(d, self._options.language) for d in documents)
        sentences = [of for of in split if of]
        counts["dropped empty"] += len(documents) - len(sentences)
        tokens, lengths = self._tokenizer.tokenize_batch([s for of in sentences for s in of])
        compact = compact_documents(sentences, tokens, lengths, len(self._vocabulary))
        counts["dropped no_tokens"] += len(sentences) - len(compact.hashes)
        return compact

    def _by_shard(self, documents: CompactDocuments) -> Iterator[tuple[int, bytes]]:
        words = documents.hashes.view("<u8").reshape(-1, 2)
        keys = self._train.first_key + (words[:, 0] % self._train.num_shards).astype(np.int64)
        if self._evaluation:
            # The other half of the hash, so that the split says nothing about the shard.
            held_out = words[:, 1] < np.uint64(self._eval_fraction * 2**64)
            shards = (words[:, 0] % self._evaluation.num_shards).astype(np.int64)
            keys = np.where(held_out, self._evaluation.first_key + shards, keys)
        order = np.argsort(keys, kind="stable")
        for indices in np.split(order, np.flatnonzero(np.diff(keys[order])) + 1):
            if len(indices):
                yield int(keys[indices[0]]), documents.take(indices).pack()


class WriteShard(beam.DoFn):
    """(Shard key, packed documents) -> one record file; gives its entry for info.json."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        parameters: InstanceParameters,
        splits: list[Split],
        progress_folder: str | None,
    ):
        """Takes what every worker needs."""
        self._ids = TokenIds.of(vocabulary)
        self._parameters = parameters
        self._splits = splits
        self._progress_folder = progress_folder
        self._instances = Metrics.counter("beambert", "instances")

    def setup(self) -> None:
        """Loads the encoder and opens the worker's tally."""
        with quiet_stderr():
            import pipelines.encoding  # noqa: F401  (its import prints)

        self._progress = ProgressTally(self._progress_folder)

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Builds and writes one shard; yields (folder, entry)."""
        from pipelines.encoding import RecordWriter, encode_examples

        key, packed = element
        split = next(s for s in self._splits if 0 <= key - s.first_key < s.num_shards)
        documents = CompactDocuments.concatenate(CompactDocuments.unpack(data) for data in packed)
        name = shard_name(key - split.first_key, split.num_shards)
        counts = ShardCounts()
        with open_atomically(FileSystems.join(split.folder, name)) as file:
            writer = RecordWriter(file)
            for rows in build_instances(documents, self._ids, self._parameters, key, counts):
                writer.write(encode_examples(rows))
                self._instances.inc(len(rows["input_ids"]))
                self._progress.add(instances=len(rows["input_ids"]))
        self._progress.add(shards=1)
        entry = {"name": name, "instances": counts.instances}
        entry |= {"bytes": writer.bytes, "sha256": writer.sha256}
        yield split.folder, entry | {"counts": dataclasses.asdict(counts)}
