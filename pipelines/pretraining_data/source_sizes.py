"""Measures the sources of a corpus, on which the number of passes over each depends."""

from collections.abc import Iterable, Iterator, Sequence

import apache_beam as beam
import numpy as np

from beambert.pipelines.instances.building import DocumentCounts, InstanceCounts
from beambert.pipelines.instances.by_source import pair_sources
from beambert.pipelines.instances.compact_documents import CompactDocuments
from beambert.pipelines.instances.masking import TokenIds
from beambert.pipelines.instances.mixture import Amount, SourceSizes
from beambert.pipelines.instances.parameters import REFERENCE, InstanceParameters
from beambert.pipelines.pretraining_data.layout import Layout
from beambert.pipelines.pretraining_data.shard_writing import documents_of
from beambert.pipelines.pretraining_data.shuffle import Shuffle
from beambert.pipelines.tokenizers.vocabulary import Vocabulary


class MeasureSources(beam.DoFn):
    """Turns (group, values) into the sizes of the sources in the training shards of the group.

    A size is the number of tokens that one pass over the source gives the records. The first pass
    is paired, or packed, for it and written by nobody, which is much cheaper than masking and
    writing it. Equal documents are left out before, as in the records.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        layout: Layout,
        shuffle: Shuffle,
        duplicates: str,
    ):
        """Takes the settings."""
        self._ids = TokenIds.of(vocabulary, layout.lengths[0].pairs == REFERENCE)
        self._layout = layout
        self._shuffle = shuffle
        self._duplicates = duplicates

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[SourceSizes]:
        """Yields the sizes of each shard."""
        layout = self._layout
        for key, received in self._shuffle.receive(*element).items():
            if key < layout.num_shards:
                documents = documents_of(
                    [*map(CompactDocuments.unpack, received.packed)],
                    layout,
                    self._ids,
                    DocumentCounts(),
                    self._duplicates,
                    received.marks,
                )
                yield source_sizes(documents, layout.lengths, key, len(layout.sources))


def source_sizes(
    documents: CompactDocuments, lengths: Sequence[InstanceParameters], key: int, sources: int
) -> SourceSizes:
    """Returns the sizes of the sources in a shard.

    Args:
      documents: documents of the shard, see `shard_writing.documents_of`.
      lengths: parameters of each length.
      key: number of the shard.
      sources: number of sources.
    """
    text = np.bincount(documents.sources, documents.document_tokens(), minlength=sources)
    once = [Amount(passes=1)] * sources
    of_lengths = [
        pair_sources(documents, parameters, key, InstanceCounts(), once)[1]
        for parameters in lengths
    ]
    records = [[each.record_tokens for each in found] for found in of_lengths]
    return SourceSizes(text.astype(np.int64), np.array(records, np.int64))


def add_sizes(parts: Sequence[SourceSizes]) -> SourceSizes:
    """Returns the sum of sizes; of none, sizes without a shape."""
    none = np.zeros((), np.int64)
    return sum(parts, SourceSizes(none, none))
