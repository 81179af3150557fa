"""The parameters of a job that makes pre-training records."""

import dataclasses
import math
from collections.abc import Collection

from beambert.errors import InputError
from beambert.flags import check_minimum, check_shares, settle_fields
from beambert.pipelines.corpus.documents import check_language
from beambert.pipelines.corpus.sources import JobInput
from beambert.pipelines.pretraining.instances import (
    CORPUS,
    MASKS,
    NEXT,
    PAIRS,
    SOURCE,
    SPAN,
    WHOLE_WORD,
    InstanceParameters,
)
from beambert.pipelines.pretraining.mixture import Mixture, parse_weights
from beambert.pipelines.records.contract import LONGEST_SEQUENCE, MASK_PARAMETERS, NONE
from beambert.pipelines.text.languages import MIN_PROBABILITY, check_languages
from beambert.pipelines.text.scrubbing import DEFAULT_REGIONS, check_scrubbing
from beambert.pipelines.text.sentences import check_segmenter

# Least number of tokens in an instance: two in A, two in B, and the special ones.
SHORTEST_SEQUENCE = 8
# Greatest number of passes. What is more was mistyped, and would write for years.
MOST_PASSES = 10_000
# Greatest number of files to write. A million of the usual size hold ten terabytes of text.
MOST_SHARDS = 1_000_000
_DEFAULTS = InstanceParameters()


@dataclasses.dataclass(frozen=True)
class PretrainingDataJob(JobInput):
    """Records to make. The fields have the names and values of the flags of `beambert data`.

    Attributes:
      vocab_file: WordPiece vocabulary, one token a line; None with `tokenizer`.
      output: path of the records folder to make.
      input: patterns of the files to read; none if a pipeline provides the documents, or if
        `source` has them.
      source: sources of the files to read, each a text "NAME=PATTERN,PATTERN".
      weights: share of the records' tokens of each source, "NAME=0.3,NAME=0.7"; "" for none.
      temperature, max_epochs_per_source: see `mixture.Mixture`; None for none.
      format, text_column: see `reading.ReadOptions`.
      encoding: encodings of text files, see `corpus.encodings.parse_encodings`.
      max_reject_fraction: share of the documents that may be unreadable.
      since: patterns of records folders whose files are left out.
      leave_out: path of a text file with the paths of input files to leave out; "" for none.
      do_lower_case: True for an uncased vocabulary (default), False for a cased one; None with
        `tokenizer`, which has its own rules.
      language, sentences, duplicates, segmenter: see `preparation.TextOptions`.
      language_column: column that names the language of each document; "" for none.
      min_document_characters: least number of characters; shorter documents are dropped.
      quality_filter: "none" or "gopher".
      keep_languages, min_language_probability: see `filters.FilterSettings`.
      blocklist: path of a text file with phrases, see `filters.read_blocklist`; "" for none.
      decontaminate: patterns of evaluation files, see `evaluation_texts`.
      scrub, phone_regions, scrub_model: see `scrubbing.scrub`.
      max_seq_length: number of tokens in an instance; several lengths make a folder each.
      max_predictions_per_seq: one number for each length; None for the share `masked_lm_prob` of
        the length, rounded up.
      masked_lm_prob, short_seq_prob, dupe_factor, random_seed:
        see `instances.InstanceParameters`.
      random_next: "corpus" or "source"; None for "source" with `source`, and "corpus" without.
      masks: "static", "whole_word", "span", or "none" to leave the masks to the trainer.
      do_whole_word_mask: the original script's flag for `masks="whole_word"`.
      pairs: "next", "reference", "none", "sop" or "copy".
      num_shards: number of files to write; None for the default, see `plan.default_num_shards`.
      eval_fraction, compression: see `layout.Layout`.
      tokenizer: tokenizer.json of another kind of tokenizer, or its folder; None for word pieces.
      shuffle: "auto", "runner" or "files", see `shuffle.choose`; the records are the same.

    Raises:
      InputError: a value is out of range.
    """

    vocab_file: str | None
    output: str
    input: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    weights: str = ""
    temperature: float | None = None
    max_epochs_per_source: float | None = None
    format: str = "auto"
    text_column: str = "text"
    encoding: str = "utf-8"
    max_reject_fraction: float = 0.0
    since: tuple[str, ...] = ()
    leave_out: str = ""
    do_lower_case: bool | None = None
    language: str = "en"
    language_column: str = ""
    sentences: str = "sentencex"
    min_document_characters: int = 0
    quality_filter: str = "none"
    keep_languages: tuple[str, ...] = ()
    min_language_probability: float = MIN_PROBABILITY
    blocklist: str = ""
    decontaminate: tuple[str, ...] = ()
    scrub: tuple[str, ...] = ()
    phone_regions: tuple[str, ...] = DEFAULT_REGIONS
    scrub_model: str = ""
    duplicates: str = "keep"
    max_seq_length: tuple[int, ...] = (_DEFAULTS.max_seq_length,)
    max_predictions_per_seq: tuple[int, ...] | None = None
    masked_lm_prob: float = _DEFAULTS.masked_lm_prob
    short_seq_prob: float = _DEFAULTS.short_seq_prob
    dupe_factor: int = _DEFAULTS.dupe_factor
    do_whole_word_mask: bool = False
    masks: str = _DEFAULTS.masks
    segmenter: str = "none"
    pairs: str = NEXT
    random_next: str | None = None
    random_seed: int = _DEFAULTS.random_seed
    num_shards: int | None = None
    eval_fraction: float = 0.0
    compression: str = "none"
    shuffle: str = "auto"
    tokenizer: str | None = None

    def __post_init__(self) -> None:
        """Checks the values."""
        settle_fields(self)
        check_minimum(self, 0, "random_seed", "min_document_characters")
        check_language(self.language)
        check_shares(self, "min_language_probability")
        check_languages(self.keep_languages)
        if not self.keep_languages and self.min_language_probability != MIN_PROBABILITY:
            raise InputError(
                f"--min_language_probability={self.min_language_probability}: has no effect "
                "without --keep_languages; leave it out or add that"
            )
        check_scrubbing(self.scrub, self.phone_regions, self.scrub_model)
        for length in self.max_seq_length:
            if not SHORTEST_SEQUENCE <= length <= LONGEST_SEQUENCE:
                raise InputError(
                    f"--max_seq_length={length}: must be from {SHORTEST_SEQUENCE} to "
                    f"{LONGEST_SEQUENCE}"
                )
        if len(set(self.max_seq_length)) < len(self.max_seq_length):
            raise InputError("--max_seq_length: names a length twice; name each once")
        predictions = self.max_predictions_per_seq
        if predictions and len(predictions) != len(self.max_seq_length):
            raise InputError(
                f"--max_predictions_per_seq: has {len(predictions)} numbers but --max_seq_length "
                f"has {len(self.max_seq_length)}; give one for each length, or leave the flag out"
            )
        for number in predictions or ():
            if number < 1:
                raise InputError(f"--max_predictions_per_seq={number}: must be at least 1")
        for length, number in zip(self.max_seq_length, predictions or (), strict=False):
            if number > length:
                raise InputError(
                    f"--max_predictions_per_seq={number}: must be at most --max_seq_length, which "
                    f"is {length}"
                )
        check_minimum(self, 1, "dupe_factor", "num_shards")
        if self.num_shards and self.num_shards > MOST_SHARDS:
            raise InputError(f"--num_shards={self.num_shards}: must be at most {MOST_SHARDS:,}")
        if self.dupe_factor > MOST_PASSES:
            raise InputError(f"--dupe_factor={self.dupe_factor}: must be at most {MOST_PASSES:,}")
        check_shares(
            self, "masked_lm_prob", "short_seq_prob", "eval_fraction", "max_reject_fraction"
        )
        self._check_masks()
        check_segmenter(self.segmenter, self.language, self.language_column, self.hides_words)
        self._check_pairs()
        self._check_sources()

    def _check_sources(self) -> None:
        self.check_input()
        names = list(self.sources)
        parse_weights(self.weights, names)
        for name in ("weights", "temperature"):
            if getattr(self, name) not in ("", None) and not names:
                raise InputError(
                    f"--{name}={getattr(self, name)}: needs --source; leave it out, or name the "
                    "sources"
                )
        if self.temperature is not None:
            if self.weights:
                raise InputError(
                    f"--temperature={self.temperature}: cannot be given with --weights, which "
                    "has the shares; leave one of them out"
                )
            if not 0 <= self.temperature <= 1:
                raise InputError(
                    f"--temperature={self.temperature}: must be from 0 to 1, as it is the exponent "
                    "of the sizes; in place of an exponent 1/T give 1/T"
                )
        most = self.max_epochs_per_source
        if most is None:
            return
        if not self.mixture or not self.mixture.needs_sizes:
            raise InputError(
                f"--max_epochs_per_source={most:g}: needs --weights or --temperature; leave it out"
            )
        if not self.dupe_factor <= most < math.inf:
            raise InputError(
                f"--max_epochs_per_source={most:g}: must be at least --dupe_factor, which is "
                f"{self.dupe_factor}; lower that, or raise this"
            )

    @property
    def mixture(self) -> Mixture | None:
        """How the sources of `source` are mixed; None without it."""
        if not self.source:
            return None
        names = tuple(self.sources)
        weights = parse_weights(self.weights, names)
        return Mixture(names, weights, self.temperature, self.max_epochs_per_source)

    def of_sources(self, names: Collection[str]) -> "PretrainingDataJob":
        """Returns the same job on some of its sources, whose weights keep their proportions."""
        source = tuple(text for text in self.source if text.partition("=")[0] in names)
        given = parse_weights(self.weights, [*self.sources])
        weights = {name: each for name, each in given.items() if name in names}
        total = math.fsum(weights.values())
        shares = ",".join(f"{name}={weight / total!r}" for name, weight in weights.items())
        return dataclasses.replace(self, source=source, weights=shares)

    @property
    def hides_words(self) -> bool:
        """Whether the masks in the records hide whole words."""
        return self.do_whole_word_mask or self.masks in (WHOLE_WORD, SPAN)

    def _check_masks(self) -> None:
        if self.masks not in MASKS:
            raise InputError(f"--masks={self.masks}: must be one of {', '.join(MASKS)}")
        if self.do_whole_word_mask and self.masks == SPAN:
            raise InputError(
                "--do_whole_word_mask: cannot be given with --masks=span, whose words are whole "
                "anyway; leave it out"
            )
        if self.masks != NONE:
            return
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in MASK_PARAMETERS and value != field.default:
                given = ",".join(map(str, value)) if isinstance(value, tuple) else value
                raise InputError(
                    f"--{field.name}={given}: cannot be given with --masks=none, which leaves "
                    "the masks to `beambert pretrain`; leave it out, and see --mask_rate there"
                )

    def _check_pairs(self) -> None:
        if self.pairs not in PAIRS:
            raise InputError(f"--pairs={self.pairs}: must be one of {', '.join(PAIRS)}")
        if self.pairs != NONE:
            return
        if self.random_next not in (None, CORPUS):
            raise InputError(
                f"--random_next={self.random_next}: cannot be given with --pairs=none, which "
                "draws no B; leave it out"
            )
        if self.short_seq_prob not in (0.0, _DEFAULTS.short_seq_prob):
            raise InputError(
                f"--short_seq_prob={self.short_seq_prob}: cannot be given with --pairs=none, "
                "which fills all records, as RoBERTa does; leave it out"
            )

    def lengths(self) -> tuple[InstanceParameters, ...]:
        """Returns the parameters of every sequence length."""
        predictions = self.max_predictions_per_seq or [
            max(1, math.ceil(length * self.masked_lm_prob)) for length in self.max_seq_length
        ]
        names = {field.name for field in dataclasses.fields(InstanceParameters)}
        names -= {"max_seq_length", "max_predictions_per_seq"}
        if self.masks == NONE:
            predictions = [0] * len(self.max_seq_length)
        same = {name: getattr(self, name) for name in names}
        if self.random_next is None:
            by_source = self.source and self.pairs != NONE
            same["random_next"] = SOURCE if by_source else CORPUS
        if self.do_whole_word_mask:
            same["masks"] = WHOLE_WORD
        if self.pairs == NONE:
            # RoBERTa (arXiv 1907.11692), section 3.1: "we do not randomly inject short sequences".
            same["short_seq_prob"] = 0.0
        return tuple(
            InstanceParameters(max_seq_length=length, max_predictions_per_seq=most, **same)
            for length, most in zip(self.max_seq_length, predictions, strict=True)
        )
