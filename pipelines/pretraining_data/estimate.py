"""Estimates the records of a corpus from a sample, for `beambert data --dry_run`."""

import dataclasses
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from beambert.console import counted, duration
from beambert.pipelines.corpus.base import FilePart
from beambert.pipelines.corpus.documents import Document, Reject, count_read
from beambert.pipelines.corpus.reading import ReadOptions, counts_by_reason, read_part, split_file
from beambert.pipelines.input_files import InputFile
from beambert.pipelines.instances.building import (
    DocumentCounts,
    InstanceCounts,
    build_instances,
    order_documents,
    pair_documents,
)
from beambert.pipelines.instances.by_source import SourceRecords
from beambert.pipelines.instances.compact_documents import CompactDocuments
from beambert.pipelines.instances.masking import TokenIds
from beambert.pipelines.instances.mixture import Mixture
from beambert.pipelines.instances.packing import SPECIAL_TOKENS_A_RECORD
from beambert.pipelines.instances.pairs import SPECIAL_TOKENS_A_PAIR
from beambert.pipelines.instances.parameters import REFERENCE
from beambert.pipelines.pretraining_data.evaluation_texts import OVERLAP, EvaluationTexts
from beambert.pipelines.pretraining_data.finishing import describe_dropped
from beambert.pipelines.pretraining_data.job_size import ELEMENT_BYTES, JobSize
from beambert.pipelines.pretraining_data.layout import Layout
from beambert.pipelines.pretraining_data.near_duplicates import distinct_rows, rows_of_documents
from beambert.pipelines.pretraining_data.source_shares import source_shares
from beambert.pipelines.pretraining_data.source_sizes import source_sizes
from beambert.pipelines.pretraining_data.tokenizing import DocumentTokenizer
from beambert.pipelines.pretraining_data.transforms import near_duplicate_settings
from beambert.pipelines.records.contract import NONE
from beambert.pipelines.records.encoding import RecordWriter, encode_examples
from beambert.pipelines.text.preparation import (
    NEAR,
    TextOptions,
    describe_scrubbing,
    prepare_documents,
)
from beambert.pipelines.text.sentences import SplitText
from beambert.pipelines.tokenizers.vocabulary import Vocabulary

# Number of places in the corpus to read at, and number of characters to read at each. These are 16
# MB in all, which take 10 s of a processor.
SAMPLES = 16
# Greatest number of places where files are so small that a place has less than its characters.
MOST_SAMPLES = 100
# Least number of places in each source of --source.
FEWEST_SAMPLES = 4
CHARACTERS_PER_SAMPLE = 1 << 20
# The same where names are recognized, which takes a hundred times as long, and number of places.
NAMES_CHARACTERS_PER_SAMPLE, NAMES_SAMPLES = 1 << 17, 4


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
      corpus_used: number of documents of the corpus that would be used.
      dropped, scrubbed: number of documents dropped, by reason, and of placeholders, by name.
      sentences, tokens: number of sentences and tokens in the used documents.
      id_bytes: bytes of these tokens in the shuffle, see `CompactDocuments`.
      corpus_band_bytes: bytes of the elements that find near duplicates in the corpus, if each has
        one row of a band; 0 if the job looks for none.
      instances: max_seq_length -> number of instances.
      record_tokens: max_seq_length -> number of their tokens, special ones and padding not counted.
      bytes: max_seq_length -> size of the records in bytes.
      seconds: time of the work on one processor without Beam, in seconds.
    """

    share: float
    documents: int
    corpus_documents: float
    rejects: Sequence[str]
    used: int
    corpus_used: float
    dropped: Mapping[str, int]
    scrubbed: Mapping[str, int]
    sentences: int
    tokens: int
    id_bytes: float
    corpus_band_bytes: float
    instances: dict[int, float]
    record_tokens: dict[int, float]
    bytes: dict[int, float]
    seconds: float


class _ByteCount:
    """Counts the bytes read, in place of a `ProgressTally`."""

    bytes = 0

    def add(self, **counts: int) -> None:
        self.bytes += counts.get("bytes", 0)


class _Nowhere:
    """A file that discards what is written."""

    def write(self, data: bytes) -> int:
        return len(data)


def choose_parts(
    inputs: Sequence[InputFile], options: ReadOptions, samples: int = SAMPLES
) -> list[FilePart]:
    """Returns up to `samples` parts at places evenly spread over the bytes of the corpus."""
    total = sum(file.bytes for file in inputs)
    targets = [total * (2 * n + 1) / (2 * samples) for n in range(samples)]
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
    evaluation: EvaluationTexts | None = None,
    samples: int = SAMPLES,
    measures_sources: bool = False,
) -> Estimate:
    """Makes instances of a sample of the corpus without writing them, and returns the counts.

    Args:
      inputs: the files of the corpus.
      vocabulary: vocabulary of the records.
      read_options, text_options: options of the job.
      layout: layout of the job.
      evaluation: texts that no document may share a passage with; None for none.
      samples: number of places to read at; it is up to `MOST_SAMPLES` where files are small.
      measures_sources: whether the job measures its sources before it writes shards.

    Raises:
      InputError: a file cannot be read.
    """
    tokenizer = DocumentTokenizer(vocabulary, text_options)
    ids = TokenIds.of(vocabulary, layout.lengths[0].pairs == REFERENCE)
    near = near_duplicate_settings(layout) if text_options.duplicates == NEAR else None
    # The first text takes long, which mustn't be multiplied.
    first = [SplitText(["A shingle has five words."])]
    tokenizer.tokenize(first)
    if near:
        rows_of_documents(first, [0], near)
    started = time.process_time()  # Other processes of the machine don't count.
    counts: Counter[str] = Counter()
    size, batches, rejects = _ByteCount(), [], []
    most = CHARACTERS_PER_SAMPLE
    if text_options.scrub_model:
        most, samples = NAMES_CHARACTERS_PER_SAMPLE, min(samples, NAMES_SAMPLES)
    total = sum(file.bytes for file in inputs)
    as_large = samples * most * len(inputs) // max(1, total)  # number of files of that size in all
    samples = max(samples, min(MOST_SAMPLES, as_large))
    band_bytes = 0
    densities, weights = [], []  # documents in a byte of each part, and places in it
    for part in choose_parts(inputs, read_options, samples):
        sample, characters = [], 0
        documents_before, bytes_before = counts["read"], size.bytes
        for document in read_part(part, read_options, size):
            count_read(document, counts)
            if isinstance(document, Document):
                sample.append(document)
                characters += len(document.text)
            elif isinstance(document, Reject):
                rejects.append(f"{part.file.path}: {document.detail}")
            if characters >= most:
                break
        if read := size.bytes - bytes_before:
            densities.append((counts["read"] - documents_before) / read)
            weights.append(max(1, part.bytes * samples / total))
        if evaluation:
            overlaps = evaluation.find([document.text for document in sample])
            counts["dropped " + OVERLAP] += len(overlaps)
            sample = [each for number, each in enumerate(sample) if number not in overlaps]
        prepared = prepare_documents(sample, text_options, counts)
        if prepared:
            batches.append(tokenizer.tokenize(prepared))
        if prepared and near:
            rows = distinct_rows(rows_of_documents(prepared, [0] * len(prepared), near))
            band_bytes += rows.nbytes + ELEMENT_BYTES * len(rows)
    documents = CompactDocuments.concatenate([CompactDocuments.empty(), *batches])
    if measures_sources:  # The job does it in a pass over the documents of its own.
        source_sizes(order_documents(documents, ids, DocumentCounts()), layout.lengths, 0, 1)
    used = DocumentCounts()
    documents = order_documents(documents, ids, used)
    instances, in_records, written = {}, {}, {}
    for parameters in layout.lengths:
        made, writer = InstanceCounts(), RecordWriter(_Nowhere(), layout.compression)
        pairs = pair_documents(documents, parameters, 0, made)
        marks = documents.begins_word
        for rows in build_instances(documents.tokens, pairs, ids, parameters, 0, made, marks):
            writer.write(encode_examples(rows))
        instances[parameters.max_seq_length] = made.instances
        special = SPECIAL_TOKENS_A_RECORD if parameters.pairs == NONE else SPECIAL_TOKENS_A_PAIR
        in_records[parameters.max_seq_length] = made.filled_tokens - special * made.instances
        written[parameters.max_seq_length] = writer.bytes
    corpus_documents = total * np.average(densities, weights=weights) if densities else 0.0
    return Estimate(
        share=size.bytes / max(1, total),
        documents=counts["read"],
        corpus_documents=corpus_documents,
        rejects=rejects,
        used=used.documents,
        corpus_used=corpus_documents * used.documents / max(1, counts["read"]),
        dropped=counts_by_reason(counts, "dropped "),
        scrubbed=counts_by_reason(counts, "scrubbed "),
        sentences=used.sentences,
        tokens=used.tokens,
        id_bytes=documents.id_bytes,
        corpus_band_bytes=corpus_documents * band_bytes / max(1, counts["read"]),
        instances=instances,
        record_tokens=in_records,
        bytes=written,
        seconds=time.process_time() - started,
    )


def estimate_sources(
    inputs: Sequence[Sequence[InputFile]], mixture: Mixture, layout: Layout, **options: Any
) -> tuple[Estimate, dict[str, Any]]:
    """Makes instances of a sample of every source of --source.

    Args:
      inputs: the files of each source.
      mixture: how the sources are mixed.
      layout: layout of the job.
      **options: further arguments of `estimate`.

    Returns:
      the counts of all samples together, with the numbers of passes that the mixture asks for, and
      name -> counts and shares of each source in the records of the first length, see
      `source_shares.source_shares`.

    Raises:
      InputError: a file cannot be read, or the sample of a source has no instance.
    """
    samples = max(FEWEST_SAMPLES, SAMPLES // len(inputs))
    options |= {"layout": layout, "samples": samples, "measures_sources": mixture.needs_sizes}
    found = [estimate(one_input, **options) for one_input in inputs]
    total = sum(file.bytes for one_input in inputs for file in one_input)
    share = sum(
        each.share * sum(file.bytes for file in files)
        for each, files in zip(found, inputs, strict=True)
    ) / max(1, total)
    # The sample of each source stands for the same share of it as all samples for the corpus.
    scales = [share / each.share if each.share else 0.0 for each in found]
    by_length: dict[str, dict[int, float]] = {"instances": {}, "record_tokens": {}, "bytes": {}}
    sources: dict[str, Any] = {}
    for parameters in layout.lengths:
        length, dupe_factor = parameters.max_seq_length, parameters.dupe_factor
        sizes = [
            round(scale * each.record_tokens[length] / max(share, 1e-9) / dupe_factor)
            for each, scale in zip(found, scales, strict=True)
        ]
        passes = mixture.passes(sizes, dupe_factor)
        more = [scale * n / dupe_factor for scale, n in zip(scales, passes, strict=True)]
        for name, values in by_length.items():
            values[length] = sum(
                times * getattr(each, name)[length] for each, times in zip(found, more, strict=True)
            )
        records = [
            SourceRecords(
                round(times * each.instances[length] / max(share, 1e-9)),
                round(times * each.record_tokens[length] / max(share, 1e-9)),
            )
            for each, times in zip(found, more, strict=True)
        ]
        sources = sources or source_shares(mixture, records, sizes, dupe_factor, has_label=False)
    sums = {
        name: sum(scale * getattr(each, name) for each, scale in zip(found, scales, strict=True))
        for name in ("sentences", "tokens", "id_bytes", "seconds")
    }
    return Estimate(
        share=share,
        documents=sum(each.documents for each in found),
        corpus_documents=sum(each.corpus_documents for each in found),
        rejects=[text for each in found for text in each.rejects],
        used=sum(each.used for each in found),
        # Each source counts by itself: one may be used nearly whole, and another one hardly.
        corpus_used=sum(each.corpus_used for each in found),
        dropped=sum((Counter(each.dropped) for each in found), Counter()),
        scrubbed=sum((Counter(each.scrubbed) for each in found), Counter()),
        corpus_band_bytes=sum(each.corpus_band_bytes for each in found),
        **sums,
        **by_length,
    ), sources


def job_size(
    found: Estimate,
    scale: float,
    input_bytes: float,
    input_files: int,
    shards: int,
    record_files: int,
    measures_sources: bool = False,
) -> JobSize:
    """Returns what a job on a whole corpus handles.

    Args:
      found: counts of a sample.
      scale: the corpus as a multiple of the sample.
      input_bytes, input_files, shards, record_files, measures_sources: see `JobSize`.
    """
    return JobSize(
        input_bytes,
        input_files,
        found.corpus_used,
        scale * found.sentences,
        scale * found.id_bytes,
        found.corpus_band_bytes,
        shards,
        record_files,
        scale * sum(found.bytes.values()),
        scale * found.seconds,
        measures_sources,
    )


def describe(found: Estimate, layout: Layout) -> str:
    """Returns the text about the records that the corpus would make."""
    lines = []
    documents = counted(found.documents, "document")
    left_out = describe_dropped({"dropped": found.dropped, "rejected": {}})
    if found.rejects:
        lines.append(
            f"{len(found.rejects)} of {documents} in a sample cannot be read (first: "
            f"{found.rejects[0]}); mend them, or allow a share with --max_reject_fraction"
        )
    if not found.share or not found.used:
        lines.append(
            f"no document to use in a sample of {documents} ({left_out}); check --format, the "
            "files and the flags that leave documents out"
        )
        return "\n".join(lines)
    scale = 1 / found.share
    lines += [
        f"estimated for the whole corpus from a sample of {found.share:.1%} of it:",
        f"  {found.corpus_documents:,.0f} documents, {found.corpus_used:,.0f} of them used, "
        f"{scale * found.tokens:,.0f} tokens",
        f"  of {documents} in the sample {left_out}{describe_scrubbing(found.scrubbed)}",
    ]
    lines += [
        f"  {scale * count:,.0f} instances of {length} tokens, "
        f"{scale * found.bytes[length] / 1e9:,.2f} GB"
        for length, count in found.instances.items()
    ]
    seconds, shards = duration(scale * found.seconds), counted(layout.total_shards, "shard")
    lines.append(f"  {shards}, {seconds} on one processor like this one")
    return "\n".join(lines)
