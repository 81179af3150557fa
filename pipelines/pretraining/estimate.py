"""Estimates the records of a corpus from a sample, for `beambert data --dry_run`."""

import dataclasses
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest

import numpy as np

from beambert.console import counted, duration
from beambert.errors import InputError
from beambert.pipelines.corpus.base import FilePart
from beambert.pipelines.corpus.documents import Document, Reject, count_read
from beambert.pipelines.corpus.reading import (
    ReadOptions,
    counts_by_reason,
    read_part,
    split_file,
    spread,
)
from beambert.pipelines.corpus.sources import describe_changes
from beambert.pipelines.input_files import InputFile
from beambert.pipelines.pretraining.documents import CompactDocuments
from beambert.pipelines.pretraining.graph import describe_dropped
from beambert.pipelines.pretraining.instances import (
    REFERENCE,
    DocumentCounts,
    InstanceCounts,
    build_instances,
    order_documents,
    pair_documents,
)
from beambert.pipelines.pretraining.masks import TokenIds
from beambert.pipelines.pretraining.plan import Plan
from beambert.pipelines.pretraining.tokenizing import DocumentTokenizer
from beambert.pipelines.records.contract import OVERLAP
from beambert.pipelines.text.preparation import TextOptions, prepare_documents
from beambert.pipelines.text.sentences import SplitText

# Number of positions in the corpus to read at, and number of characters to read at each. These are
# 16 MB in all, which take 10 s of a processor.
SAMPLES = 16
CHARACTERS_PER_SAMPLE = 1 << 20
# Greatest number of positions where files are smaller than that.
MOST_SAMPLES = 100
# Number of documents to show, and of characters of a sentence.
EXAMPLES, _SHOWN = 10, 150


@dataclasses.dataclass
class Estimate:
    """Estimated counts of some files, from a sample of them.

    Attributes:
      sampled_share: share of the files' bytes that are in the sample.
      sampled_documents: number of documents in the sample.
      rejects: the rejected documents of the sample, as "file: detail".
      dropped, scrubbed: number of documents of the sample that were dropped, by reason, and of
        placeholders, by name.
      documents, used, tokens: estimated number of documents, of those used, and of their tokens.
      records: max_seq_length -> estimated number of instances, and bytes of the records.
      seconds: estimated time of the work on one processor.
      examples: some documents of the sample, with the paths of their files.
    """

    sampled_share: float
    sampled_documents: int
    rejects: list[str]
    dropped: dict[str, int]
    scrubbed: dict[str, int]
    documents: float
    used: float
    tokens: float
    records: dict[int, tuple[float, float]]
    seconds: float
    examples: list[tuple[str, Document]]


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
    """Returns up to `samples` parts at positions evenly spread over the bytes of the corpus."""
    total = sum(file.bytes for file in inputs)
    targets = [total * (2 * n + 1) / (2 * samples) for n in range(samples)]
    chosen, position = [], 0
    for file in inputs:
        here = [t - position for t in targets if position <= t < position + file.bytes]
        parts = split_file(file, options) if here else []
        # Each position belongs to the last part that starts at or before it.
        found = {max((p for p in parts if p.start <= t), key=lambda p: p.start) for t in here}
        chosen += sorted(found, key=lambda part: part.start)
        position += file.bytes
    return chosen


def estimate(plan: Plan) -> Estimate:
    """Makes instances of a sample of the corpus without writing them.

    The shares of --source are left out: with them the records have as many tokens.

    Raises:
      InputError: a file cannot be read.
    """
    files, most = plan.inputs, CHARACTERS_PER_SAMPLE
    vocabulary, options = plan.vocabulary, plan.text_options
    tokenizer = DocumentTokenizer(vocabulary, options)
    tokenizer.tokenize([SplitText(["The first call is slow."])])
    started = time.process_time()  # Other processes of the machine don't count.
    total = max(1, sum(file.bytes for file in files))
    samples = max(SAMPLES, min(MOST_SAMPLES, SAMPLES * most * len(files) // total))
    counts: Counter[str] = Counter()
    rejects: list[str] = []
    progress, batches = _ByteCount(), [CompactDocuments.empty()]
    # Documents in a byte of each part, and number of positions in it.
    densities, weights = [], []
    parts = choose_parts(files, plan.read_options(), samples)
    # Few parts are read further, since the beginning of a sorted file is unlike its rest.
    most = max(most, SAMPLES * most // max(1, len(parts)))
    shown = spread(parts, EXAMPLES)
    examples: list[list[tuple[str, Document]]] = []
    for part in parts:
        sample, characters = [], 0
        documents_before, bytes_before = counts["read"], progress.bytes
        for document in read_part(part, plan.read_options(), progress):
            count_read(document, counts)
            if isinstance(document, Document):
                sample.append(document)
                characters += len(document.text)
            elif isinstance(document, Reject):
                rejects.append(f"{part.file.path}: {document.detail}")
            if characters >= most:
                break
        if read := progress.bytes - bytes_before:
            densities.append((counts["read"] - documents_before) / read)
            weights.append(max(1, part.bytes * samples / total))
        if part in shown:
            with_text = [(part.file.path, each) for each in sample if each.text.strip()]
            examples.append(with_text[:EXAMPLES])
        if plan.evaluation:
            overlaps = plan.evaluation.find([document.text for document in sample])
            counts["dropped " + OVERLAP] += len(overlaps)
            sample = [each for number, each in enumerate(sample) if number not in overlaps]
        if prepared := prepare_documents(sample, options, counts):
            batches.append(tokenizer.tokenize(prepared))
    used, scale, records = DocumentCounts(), total / max(1, progress.bytes), {}
    ids = TokenIds.of(vocabulary, plan.job.pairs == REFERENCE)
    documents = order_documents(CompactDocuments.concatenate(batches), ids, used)
    for parameters in plan.layout.lengths:
        from beambert.pipelines.records.encoding import RecordWriter, encode_examples

        made, writer = InstanceCounts(), RecordWriter(_Nowhere(), plan.job.compression)
        pairs = pair_documents(documents, parameters, 0, made)
        marks = documents.begins_word
        for rows in build_instances(documents.tokens, pairs, ids, parameters, 0, made, marks):
            writer.write(encode_examples(rows))
        records[parameters.max_seq_length] = scale * made.instances, scale * writer.bytes
    # Large files are in the sample more often than small ones.
    in_all = total * np.average(densities, weights=weights) if densities else 0.0
    return Estimate(
        sampled_share=progress.bytes / total,
        sampled_documents=counts["read"],
        rejects=rejects,
        dropped=counts_by_reason(counts, "dropped "),
        scrubbed=counts_by_reason(counts, "scrubbed "),
        documents=in_all,
        used=in_all * used.documents / max(1, counts["read"]),
        tokens=scale * used.tokens,
        records=records,
        seconds=scale * (time.process_time() - started),
        examples=[each for each in chain(*zip_longest(*examples)) if each][:EXAMPLES],
    )


def describe_examples(
    examples: Sequence[tuple[str, Document]], options: TextOptions
) -> Iterator[str]:
    """Yields lines about documents as they are split: their first, middle and last sentence."""
    for path, document in examples:
        dropped: Counter[str] = Counter()
        (sentences, _), *_ = [*prepare_documents([document], options, dropped), ((), ())]
        of_document = ", ".join(dropped) or counted(len(sentences), "sentence")
        yield f"{path}: {of_document}{describe_changes('cleaned', document.cleaned)}"
        for sentence in (*spread(sentences[:-1], 2), *sentences[-1:]):
            shown = sentence if len(sentence) <= _SHOWN else f"{sentence[: _SHOWN - 1]}…"
            yield f"  {shown}"


def describe(found: Estimate, plan: Plan) -> str:
    """Returns the lines about the records that the corpus would make, and some documents.

    Raises:
      InputError: no document of the sample can be used.
    """
    lines = [*describe_examples(found.examples, plan.text_options)]
    documents = counted(found.sampled_documents, "document")
    left_out = describe_dropped({"dropped": found.dropped, "rejected": {}})
    if found.rejects:
        lines.append(
            f"{len(found.rejects)} of {documents} in a sample cannot be read (first: "
            f"{found.rejects[0]}); fix them, or allow a share with --max_reject_fraction"
        )
    if not found.used:
        first = f", first: {found.rejects[0]}" if found.rejects else ""
        raise InputError(
            f"--input: no document to use in a sample of {documents} ({left_out}{first}); check "
            "--format, the files and the flags that leave documents out"
        )
    lines += [
        f"estimated for the whole corpus from a sample of {found.sampled_share:.1%} of it:",
        f"  {found.documents:,.0f} documents, {found.used:,.0f} of them used, "
        f"{found.tokens:,.0f} tokens",
        f"  of {documents} in the sample {left_out}{describe_changes('replaced', found.scrubbed)}",
        *(
            f"  {instances:,.0f} instances of {length} tokens, {size / 1e9:,.2f} GB"
            for length, (instances, size) in found.records.items()
        ),
        f"  {counted(plan.layout.total_shards, 'shard')}, {duration(found.seconds)} on one "
        "processor like this one",
    ]
    return "\n".join(lines)
