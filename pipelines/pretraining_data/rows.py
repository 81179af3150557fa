"""The rows between the parts of the data job, in pipelines of one's own.

They are named tuples with Beam schemas. Their coders are deterministic, and Beam SQL and Beam YAML
see their columns.
"""

from collections.abc import Sequence
from typing import NamedTuple

import apache_beam as beam


class DocumentRow(NamedTuple):
    """The text of a document.

    Attributes:
      text: paragraphs (or, if `is_split`, sentences) separated by line feeds.
      path: path of the document's file; "" if there is none.
      source: number of the pattern that names the file, for `random_next="source"`.
      is_split: whether each line is one sentence already.
      language: code of the document's language, or a tag of BCP 47; "" for that of the job.
    """

    text: str
    path: str = ""
    source: int = 0
    is_split: bool = False
    language: str = ""


class RejectRow(NamedTuple):
    """A part of a file that cannot be read as a document.

    Attributes:
      path: path of the file.
      line: number of the part's first line in the file, from 1.
      reason: a word or two.
      detail: message that helps a person to mend it.
    """

    path: str
    line: int
    reason: str
    detail: str


class SentencesRow(NamedTuple):
    """The sentences of a document.

    Attributes:
      sentences: at least one sentence.
      path, source: see `DocumentRow`.
      unspaced: numbers of the sentences that no white space separates from the one before, counted
        from 0. Only tokenizers that mark words by spaces need them.
    """

    sentences: Sequence[str]
    path: str = ""
    source: int = 0
    unspaced: Sequence[int] = ()


class TokenizedRow(NamedTuple):
    """The tokens of a document.

    Attributes:
      hash: 16 bytes, see `compact_documents.document_hash`. They decide the document's shard.
      token_ids: the ids of each sentence.
      path, source: see `DocumentRow`.
    """

    hash: bytes
    token_ids: Sequence[Sequence[int]]
    path: str = ""
    source: int = 0


class InstanceRow(NamedTuple):
    """An instance. Its features are those of the records, under their names.

    Attributes:
      shard: number of its shard, see `layout.Layout`.
      place: its place in the file, from 0.
      input_ids, input_mask, segment_ids: one number for each of `max_seq_length` positions.
      masked_lm_positions, masked_lm_ids, masked_lm_weights: one number for each of
        `max_predictions_per_seq` predictions; none with `masks="none"`.
      next_sentence_labels: one number, 0 if B follows A and 1 if B is random or, with
        `pairs="sop"`, if A follows B; with `pairs="copy"` 0 for a copy and 1 for another text; none
        where there are no pairs.
    """

    shard: int
    place: int
    input_ids: Sequence[int]
    input_mask: Sequence[int]
    segment_ids: Sequence[int]
    masked_lm_positions: Sequence[int] = ()
    masked_lm_ids: Sequence[int] = ()
    masked_lm_weights: Sequence[float] = ()
    next_sentence_labels: Sequence[int] = ()


for _kind in (DocumentRow, RejectRow, SentencesRow, TokenizedRow, InstanceRow):
    beam.coders.registry.register_row(_kind)
