"""Counts of records -> figures for people, and warnings. Pure functions.

A warning has a figure and a remedy. Records with a warning are valid and can be trained on, but the
model may be worse.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from beambert.console import counted
from beambert.pipelines.records.contract import (
    MASK_SHARE,
    MASKED_LM_PROB,
    NONE,
    RANDOM_SHARE,
    SAME_SHARE,
    SOP,
    RecordsInfo,
    label_words,
)
from beambert.pipelines.records.statistics import OPENING_TOKENS, HashCounts, RecordStatistics

# Number of standard errors by which a share may differ from its expected value. By chance it
# differs by more in 1 case of 16,000.
STANDARD_ERRORS = 4
# Spans of n tokens vary as if each were one draw and there were fewer: the mean of n² over that of
# n. It is 5.5 words for SpanBERT's lengths, and few texts have twice as many tokens as words.
MOST_ALIKE = 10
# Paper, section 3.1, task 1.
HIDDEN_AS = {"mask": MASK_SHARE, "other": RANDOM_SHARE, "same": SAME_SHARE}

# A larger share of random next has a single cause: almost every document has only one sentence.
ONE_SENTENCE_SHARE = 0.9
# The next-sentence head learns just as well from labels whose share differs from 0.5 by this.
BALANCE_TOLERANCE = 0.02
# With Google's vocabularies 0.1 % of English Wikipedia's tokens are [UNK], and 10 % or more if the
# case of the text is wrong.
MOST_UNKNOWN = 0.02
# Records of Wikipedia fill 83 % of 128 positions and 54 % of 512.
LEAST_FILLED = 0.4
MOST_LOST_PREDICTIONS = 0.02
# Every sequence has a token to predict but for words that are longer than all predictions together.
MOST_WITHOUT_PREDICTIONS = 0.01
MOST_REPEATED_RECORDS = 0.05
# The share is at most 0.1 % on Wikipedia, and 5 % if a third of the documents occur twice.
MOST_REPEATED_TEXT = 0.01
MOST_OVERLAP = 0.02


@dataclasses.dataclass(frozen=True)
class MadeWith:
    """The parameters that records were made with; None where a parameter is unknown.

    Attributes:
      masked_lm_prob: share of the filled positions to predict.
      passes: greatest number of passes over a document.
      documents: number of documents that the records are made of.
      vocab_size: number of tokens in the vocabulary.
      pairs: value of --pairs in info.json; `NONE` of any records without a label.
      eval_fraction: share of the text that was held out.
      duplicates: value of --duplicates.
      do_span_mask: whether spans of tokens are hidden alike.
    """

    masked_lm_prob: float | None = None
    passes: int | None = None
    documents: int | None = None
    vocab_size: int | None = None
    pairs: str | None = None
    eval_fraction: float | None = None
    duplicates: str | None = None
    do_span_mask: bool = False

    @classmethod
    def of(cls, info: RecordsInfo, vocab_size: int | None, has_label: bool = True) -> "MadeWith":
        """Returns the parameters of a records folder.

        Args:
          info: content of its info.json.
          vocab_size: number of tokens in its vocabulary.
          has_label: whether its records have a label.
        """
        given = info.parameters
        return cls(
            given.get("masked_lm_prob"),
            info.passes,
            info.documents,
            vocab_size,
            given.get("pairs") if has_label else NONE,
            given.get("eval_fraction"),
            given.get("duplicates"),
            bool(given.get("do_span_mask")),
        )

    @property
    def prediction_share(self) -> float:
        """The `masked_lm_prob`, or the paper's value if it is unknown."""
        return MASKED_LM_PROB if self.masked_lm_prob is None else self.masked_lm_prob


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 6) if whole else None


def figures(statistics: RecordStatistics, has_label: bool = True) -> dict[str, Any]:
    """Returns name -> shares and averages; None where there is nothing to divide by.

    Records without masks have no figures of predictions.

    Args:
      statistics: statistics of records.
      has_label: whether the records have a label. Those without one have figures of documents
        instead of pairs.
    """
    records, text = statistics.measured, text_tokens(statistics)
    length = len(statistics.mask_positions)
    filled, predictions = total(statistics.filled), total(statistics.predictions)
    with_vocabulary = statistics.with_vocabulary > 0
    hidden = {name: getattr(statistics, f"hidden_as_{name}") for name in ("mask", "other", "same")}
    of_hidden = sum(hidden.values())
    pairs = records if has_label else 0
    slots = len(statistics.predictions) - 1
    masked = records if slots else 0
    of_documents = {}
    if not has_label:
        # A record has [CLS], and a [SEP] for each document.
        documents = filled - text - records if with_vocabulary else 0
        of_documents["documents_average"] = _share(documents, records) if documents else None
    return of_documents | {
        "instances": statistics.instances,
        "max_seq_length": length,
        "max_predictions_per_seq": slots,
        "is_next_share": _share(pairs - statistics.random_next, pairs),
        "random_next_share": _share(statistics.random_next, pairs),
        "filled_share": _share(filled, records * length),
        "a_tokens_average": _share(total(statistics.a_tokens), records),
        "b_tokens_average": _share(total(statistics.b_tokens), pairs),
        "predictions_average": _share(predictions, masked),
        "predictions_at_maximum_share": _share(int(statistics.predictions[-1]), masked),
        "predictions_per_filled_position": _share(predictions, filled if masked else 0),
        "predictions_per_text_token": _share(predictions, text if masked else 0),
        "hidden_as_mask_share": _share(hidden["mask"], of_hidden),
        "hidden_as_other_share": _share(hidden["other"], of_hidden),
        "hidden_as_same_share": _share(hidden["same"], of_hidden),
        "reserved_replacement_share": _share(statistics.reserved_replacements, hidden["other"]),
        "unknown_share": _share(statistics.unknown_tokens, text) if with_vocabulary else None,
        "lowest_id": statistics.lowest_id if records else None,
        "highest_id": statistics.highest_id if records else None,
    }


def describe_source(source: Mapping[str, Any]) -> str:
    """Returns the line about a source of --source, from the counts in info.json."""
    asked = f" ({source['asked_share']:.2%} asked)" if "asked_share" in source else ""
    return (
        f"{source['share']:.2%} of the tokens{asked}, {source['passes']:.2f} passes over its text, "
        f"{counted(source['instances'], 'instance')}"
    )


def total(histogram: np.ndarray) -> int:
    """Returns the sum over all records, from the number of records that have each value."""
    return int(histogram @ np.arange(len(histogram)))


def text_tokens(statistics: RecordStatistics) -> int:
    """Returns the number of tokens of all segments, without [CLS] and [SEP]."""
    return total(statistics.a_tokens) + total(statistics.b_tokens)


def lost_predictions_share(statistics: RecordStatistics, masked_lm_prob: float) -> float | None:
    """Returns the share of the wanted predictions that max_predictions_per_seq leaves out.

    Returns None for records without masks.
    """
    most = len(statistics.predictions) - 1
    if not most:
        return None
    wanted = np.maximum(np.rint(np.arange(len(statistics.filled)) * masked_lm_prob), 1)
    lost = int(statistics.filled @ np.maximum(wanted - most, 0))
    return _share(lost, int(statistics.filled @ wanted))


def warn(
    statistics: RecordStatistics, repeats: Mapping[str, HashCounts], made_with: MadeWith
) -> list[str]:
    """Returns the warnings about a folder's records.

    Args:
      statistics: statistics of all records of the folder.
      repeats: result of `statistics.count_hashes`.
      made_with: parameters that the records were made with.
    """
    if not statistics.measured:
        return []
    found = [
        _pairs_warning(statistics, made_with),
        _hidden_warning(statistics, made_with),
        _unknown_warning(statistics),
        _filled_warning(statistics),
        _lost_predictions_warning(statistics, made_with),
        _no_predictions_warning(statistics),
        *_repeat_warnings(repeats, made_with),
    ]
    return [text for text in found if text]


def _pairs_warning(statistics: RecordStatistics, made_with: MadeWith) -> str:
    if made_with.pairs == NONE:
        return ""
    if made_with.pairs == SOP:  # B comes from A's own document.
        return _label_warning(statistics, made_with)
    return _single_document_warning(made_with) or _label_warning(statistics, made_with)


def _label_warning(statistics: RecordStatistics, made_with: MadeWith) -> str:
    share = statistics.random_next / statistics.measured
    first, second = label_words(made_with.pairs)
    tolerance = BALANCE_TOLERANCE + _bound(0.5, statistics.measured)
    if share >= ONE_SENTENCE_SHARE:
        return (
            f"{share:.1%} of the labels are {second}, so almost every document has one "
            "sentence, as if a blank line followed every sentence; put blank lines between "
            "documents only"
        )
    if share > 0.5 + tolerance:
        return (
            f"{share:.1%} of the labels are {second}, because too many chunks have only one "
            f"sentence, and a model that always predicts {second} would be right so often; make "
            "the records with `beambert data` without --pairs=reference, raise --max_seq_length "
            "or --dupe_factor, or give longer documents"
        )
    if share < 0.5 - tolerance:
        remedy = "make the records again with `beambert data`"
        if made_with.pairs != SOP:
            remedy = (
                "check that --format separates the documents, give more of them, or lower "
                "--num_shards, since B comes from A's shard"
            )
        return (
            f"only {share:.1%} of the labels are {second}, and a model that always predicts "
            f"{first} would be right about all others; {remedy}"
        )
    return ""


def _single_document_warning(made_with: MadeWith) -> str:
    if made_with.documents != 1:
        return ""
    return (
        "all records come from 1 document, so no B comes from another one, and sentences that need "
        "such a B are left out; check --format and what separates the documents in the input, or "
        "give --pairs=none, which leaves nothing out"
    )


def _hidden_warning(statistics: RecordStatistics, made_with: MadeWith) -> str:
    counts = {name: getattr(statistics, f"hidden_as_{name}") for name in HIDDEN_AS}
    predictions = sum(counts.values())
    if not predictions:
        return ""
    # One of vocab_size random replacements is the token itself, and one is [MASK].
    chance = HIDDEN_AS["other"] * 2 / (made_with.vocab_size or math.inf)
    shares = {name: count / predictions for name, count in counts.items()}
    draws = predictions / (MOST_ALIKE if made_with.do_span_mask else 1)
    bounds = {name: _bound(share, draws) + chance for name, share in HIDDEN_AS.items()}
    if all(abs(shares[name] - HIDDEN_AS[name]) <= bounds[name] for name in HIDDEN_AS):
        return ""
    return (
        f"{' / '.join(f'{share:.2%}' for share in shares.values())} of the {predictions:,} "
        "predicted tokens became [MASK] / became another token / stayed the same, not 80 / 10 / 10 "
        f"(± {' / '.join(f'{bound:.2%}' for bound in bounds.values())} by chance); if you want the "
        "paper's shares, make the records again with `beambert data`"
    )


def _unknown_warning(statistics: RecordStatistics) -> str:
    tokens = text_tokens(statistics)
    share = statistics.unknown_tokens / max(tokens, 1)
    if not statistics.with_vocabulary or share <= MOST_UNKNOWN:
        return ""
    return (
        f"{share:.1%} of the records' tokens are [UNK], so the vocabulary does not suit this "
        "text or its case; check --vocab_file and --do_lower_case, or learn a vocabulary with "
        "`beambert vocab`"
    )


def _filled_warning(statistics: RecordStatistics) -> str:
    length = len(statistics.mask_positions)
    share = total(statistics.filled) / (statistics.measured * length)
    if share >= LEAST_FILLED:
        return ""
    return (
        f"only {share:.1%} of the {length} positions are filled, and the rest is padding; choose a "
        "smaller --max_seq_length, or check that documents are not cut into pieces"
    )


def _lost_predictions_warning(statistics: RecordStatistics, made_with: MadeWith) -> str:
    wanted = made_with.prediction_share
    lost = lost_predictions_share(statistics, wanted) or 0.0
    if lost <= MOST_LOST_PREDICTIONS:
        return ""
    at_most = statistics.predictions[-1] / statistics.measured
    enough = math.ceil(wanted * len(statistics.mask_positions))
    return (
        f"{at_most:.1%} of the records have {len(statistics.predictions) - 1} predictions, the "
        f"most that fit, and {lost:.1%} of the wanted predictions (masked_lm_prob {wanted:g}) are "
        f"missing; raise --max_predictions_per_seq to {enough}"
    )


def _no_predictions_warning(statistics: RecordStatistics) -> str:
    share = statistics.predictions[0] / statistics.measured
    has_masks = len(statistics.predictions) > 1
    if not has_masks or share <= MOST_WITHOUT_PREDICTIONS:
        return ""
    return (
        f"{share:.1%} of the records have nothing to predict, as if one word took more than all "
        "predictions of a record; leave --masks=whole_word and --masks=span out, or name a "
        "--segmenter for scripts without spaces"
    )


def _repeat_warnings(repeats: Mapping[str, HashCounts], made_with: MadeWith) -> list[str]:
    warnings = []
    share = repeat_shares(repeats, made_with)
    if (same := share["repeated_records_share"] or 0.0) > MOST_REPEATED_RECORDS:
        warnings.append(
            f"{same:.1%} of the records equal an earlier one in every token and mask; remove "
            "duplicate inputs and documents, or lower --dupe_factor"
        )
    if (same := share["repeated_text_share"] or 0.0) > MOST_REPEATED_TEXT:
        warnings.append(
            f"at least {same:.1%} of the records repeat text of another document (their first "
            f"{OPENING_TOKENS} tokens occur more often than {made_with.passes} passes over it "
            "explain); leave them out by `beambert data --duplicates=near`"
        )
    return warnings


def repeat_shares(
    repeats: Mapping[str, HashCounts], made_with: MadeWith
) -> dict[str, float | None]:
    """Returns the shares of records that repeat others.

    In one pass over a corpus every token is in at most one A. So if an opening of A occurs more
    often than there were passes, its text is in the corpus more than once. The share of repeated
    text is a lower bound.
    """
    if not repeats:
        return dict.fromkeys(
            ("repeated_records_share", "repeated_sequences_share", "repeated_text_share")
        )
    records, sequences, openings = (repeats[k] for k in ("records", "sequences", "openings"))
    passes = made_with.passes
    return {
        "repeated_records_share": _share(records.beyond(1), records.total),
        "repeated_sequences_share": _share(sequences.beyond(1), sequences.total),
        "repeated_text_share": _share(openings.beyond(passes), openings.total) if passes else None,
    }


def overlap_shares(
    repeats: Mapping[str, HashCounts], of_training: Mapping[str, HashCounts]
) -> dict[str, float | None]:
    """Returns the shares of held-out records whose text is in the training records too."""
    if not repeats or not of_training:
        return {"sequences_also_in_training": None, "openings_also_in_training": None}
    return {
        f"{kind}_also_in_training": _share(
            repeats[kind].also_in(of_training[kind]), repeats[kind].total
        )
        for kind in ("sequences", "openings")
    }


def overlap_warning(shares: Mapping[str, float | None], made_with: MadeWith = MadeWith()) -> str:
    """Returns the warning about such shares, see `overlap_shares`; empty if they are small.

    Args:
      shares: the shares.
      made_with: parameters that the held-out records were made with.
    """
    sequences = shares["sequences_also_in_training"] or 0.0
    openings = shares["openings_also_in_training"] or 0.0
    if max(sequences, openings) <= MOST_OVERLAP:
        return ""
    remedies = []
    if not made_with.eval_fraction:
        remedies.append("split by document with --eval_fraction")
    if made_with.duplicates != "near":
        remedies.append("leave out similar documents with --duplicates=near")
    remedy = ", and ".join(remedies) or "look for passages that many of the documents share"
    return (
        f"{sequences:.1%} of the held-out records are whole in the training records, and "
        f"{openings:.1%} begin with the same {OPENING_TOKENS} tokens as a training record, so "
        f"results on them will look better than they are; {remedy}"
    )


def _bound(share: float, count: float) -> float:
    """Returns by how much a share of `count` draws may differ from its expected value by chance."""
    return STANDARD_ERRORS * math.sqrt(share * (1 - share) / count)
