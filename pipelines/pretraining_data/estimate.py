"""Estimates the records of a corpus from a sample, for `beambert data --dry_run`."""

import dataclasses
import time
from collections import Counter
from collections.abc import Sequence

import numpy as np

from beambert.pipelines.corpus.documents import Document, Reject
from beambert.pipelines.corpus.parts import FilePart
from beambert.pipelines.corpus.reading import ReadOptions, read_part, split_file
from beambert.pipelines.instances.building import (
    DocumentCounts,
    InstanceCounts,
    build_instances,
    order_documents,
    pair_documents,
)
from beambert.pipelines.instances.compact_documents import CompactDocuments, compact_documents
from beambert.pipelines.instances.masking import TokenIds
from beambert.pipelines.instances.parameters import REFERENCE
from beambert.pipelines.jobs.input_files import InputFile
from beambert.pipelines.pretraining_data.job_size import JobSize
from beambert.pipelines.pretraining_data.layout import Layout
from beambert.pipelines.records.encoding import RecordWriter, encode_examples
from beambert.pipelines.shared.console import counted, duration
from beambert.pipelines.text.preparation import TextOptions, prepare_documents
from beambert.pipelines.tokenizers.building import make_tokenizer, tokenize_documents
from beambert.pipelines.wordpiece.vocabulary import Vocabulary

# Number of places in the corpus to read at, and number of characters to read at each. These are 16
# MB in all, which take 10 s of a processor.
SAMPLES = 16
CHARACTERS_PER_SAMPLE = 1 << 20


@dataclasses.dataclass(frozen=True)
class Estimate:
    """The counts of a sample, and its share of the corpus.

    Attributes:
      share: share of the corpus in the sample, by bytes as stored.
      documents: number of documents read.
      corpus_documents: number of documents that the corpus has by this sample. Large files are more
        often in it than small ones, so that it isn't `documents` divided by `share`.
      rejects: the rejected documents, as "file: detail".
      used: number of documents used.
      sentences, tokens: number of sentences and tokens in the used documents.
      instances: max_seq_length -> number of instances.
      bytes: max_seq_length -> size of the records in bytes.
      seconds: time of the work on one processor without Beam, in seconds.
    """

    share: float
    documents: int
    corpus_documents: float
    rejects: Sequence[str]
    used: int
    sentences: int
    tokens: int
    instances: dict[int, int]
    bytes: dict[int, int]
    seconds: float

    @property
    def corpus_used(self) -> float:
        """Number of documents of the corpus that would be used."""
        return self.corpus_documents * self.used / max(1, self.documents)


class _ByteCount:
    """Counts the bytes read, in place of a `ProgressTally`."""

    bytes = 0

    def add(self, **counts: int) -> None:
        self.bytes += counts.get("bytes", 0)


class _Nowhere:
    """A file that discards what is written."""

    def write(self, data: bytes) -> int:
        return len(data)


def choose_parts(inputs: Sequence[InputFile], options: ReadOptions) -> list[FilePart]:
    """Returns up to `SAMPLES` parts at places evenly spread over the bytes of the corpus."""
    total = sum(file.bytes for file in inputs)
    targets = [total * (2 * n + 1) / (2 * SAMPLES) for n in range(SAMPLES)]
    chosen, position = [], 0
    for file in inputs:
        here = [t - position for t in targets if position <= t < position + file.bytes]
        parts = split_file(file, options) if here else []
        # Each place belongs to the last part that starts at or before it. A part is taken once.
        found = {max((p for p in parts if p.start <= t), key=lambda p: p.start) for t in here}
        chosen += sorted(found, key=lambda part: part.start)
        position += file.bytes
    return chosen


def estimate(
    inputs: Sequence[InputFile],
    vocabulary: Vocabulary,
    read_options: ReadOptions,
    text_options: TextOptions,
    layout: Layout,
) -> Estimate:
    """Makes instances of a sample of the corpus without writing them, and returns the counts.

    Raises:
      InputError: a file cannot be read.
    """
    tokenizer = make_tokenizer(vocabulary, text_options.do_lower_case)
    ids = TokenIds.of(vocabulary, layout.lengths[0].pairs == REFERENCE)
    tokenizer.tokenize_batch(["first"])  # It takes long once, which mustn't be multiplied.
    started = time.process_time()  # Other processes of the machine don't count.
    counts: Counter[str] = Counter()
    size, batches, rejects = _ByteCount(), [], []
    total = sum(file.bytes for file in inputs)
    densities, weights = [], []  # documents in a byte of each part, and places in it
    for part in choose_parts(inputs, read_options):
        sample, characters = [], 0
        documents_before, bytes_before = counts["read"], size.bytes
        for document in read_part(part, read_options, size):
            counts["read"] += 1
            if isinstance(document, Document):
                sample.append(document)
                characters += len(document.text)
            elif isinstance(document, Reject):
                rejects.append(f"{part.file.path}: {document.detail}")
            if characters >= CHARACTERS_PER_SAMPLE:
                break
        if read := size.bytes - bytes_before:
            densities.append((counts["read"] - documents_before) / read)
            weights.append(max(1, part.bytes * SAMPLES / total))
        sentences = prepare_documents(sample, text_options, counts)
        if sentences:
            given = sentences, vocabulary.space_before
            tokens, lengths = tokenize_documents(tokenizer, *given)
            batches.append(compact_documents(sentences, tokens, lengths, len(vocabulary)))
    documents = CompactDocuments.concatenate([CompactDocuments.empty(), *batches])
    used = DocumentCounts()
    documents = order_documents(documents, ids, used)
    instances, written = {}, {}
    for parameters in layout.lengths:
        made, writer = InstanceCounts(), RecordWriter(_Nowhere(), layout.compression)
        pairs = pair_documents(documents, parameters, 0, made)
        for rows in build_instances(documents.tokens, pairs, ids, parameters, 0, made):
            writer.write(encode_examples(rows))
        instances[parameters.max_seq_length] = made.instances
        written[parameters.max_seq_length] = writer.bytes
    return Estimate(
        share=size.bytes / max(1, total),
        documents=counts["read"],
        corpus_documents=total * np.average(densities, weights=weights) if densities else 0.0,
        rejects=rejects,
        used=used.documents,
        sentences=used.sentences,
        tokens=used.tokens,
        instances=instances,
        bytes=written,
        seconds=time.process_time() - started,
    )


def job_size(
    found: Estimate,
    scale: float,
    input_bytes: float,
    input_files: int,
    shards: int,
    record_files: int,
) -> JobSize:
    """Returns what a job on a whole corpus handles.

    Args:
      found: counts of a sample.
      scale: the corpus as a multiple of the sample.
      input_bytes, input_files, shards, record_files: see `JobSize`.
    """
    return JobSize(
        input_bytes,
        input_files,
        found.corpus_used,
        scale * found.sentences,
        scale * found.tokens,
        shards,
        record_files,
        scale * sum(found.bytes.values()),
        scale * found.seconds,
    )


def describe(found: Estimate, layout: Layout) -> str:
    """Returns the text about the records that the corpus would make."""
    lines = []
    documents = counted(found.documents, "document")
    if found.rejects:
        lines.append(
            f"{len(found.rejects)} of {documents} in a sample cannot be read (first: "
            f"{found.rejects[0]}); mend them, or allow a share with --max_reject_fraction"
        )
    if not found.share or not found.used:
        lines.append(f"no document to use in a sample of {documents}; check --format and the files")
        return "\n".join(lines)
    scale = 1 / found.share
    lines += [
        f"estimated for the whole corpus from a sample of {found.share:.1%} of it:",
        f"  {found.corpus_documents:,.0f} documents, {found.corpus_used:,.0f} of them used, "
        f"{scale * found.tokens:,.0f} tokens",
    ]
    lines += [
        f"  {scale * count:,.0f} instances of {length} tokens, "
        f"{scale * found.bytes[length] / 1e9:,.2f} GB"
        for length, count in found.instances.items()
    ]
    seconds, shards = duration(scale * found.seconds), counted(layout.total_shards, "shard")
    lines.append(f"  {shards}, {seconds} on one processor like this one")
    return "\n".join(lines)
