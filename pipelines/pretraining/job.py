"""The parameters of a job that makes pre-training records."""

import dataclasses
import math
from collections.abc import Collection

from beambert.config import check_settings, refuse_given, setting
from beambert.errors import InputError
from beambert.pipelines.corpus.cleaning import AUTO, SENTENCES
from beambert.pipelines.corpus.formats import FORMATS
from beambert.pipelines.corpus.sources import InputSettings
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
from beambert.pipelines.records.contract import EVAL_FOLDER, LONGEST_SEQUENCE, MASK_PARAMETERS, NONE
from beambert.pipelines.text.preparation import SENTENCEX, TextSettings
from beambert.pipelines.text.sentences import NO_SEGMENTER, SEGMENTERS, check_segmenter
from beambert.pipelines.tokenizers.folders import TokenizerSettings

# Least number of tokens in an instance: two in A, two in B, and the special ones.
SHORTEST_SEQUENCE = 8
# Greatest number of passes. What is more was mistyped, and would write for years.
MOST_PASSES = 10_000
# Greatest number of files to write. A million of the usual size hold ten terabytes of text.
MOST_SHARDS = 1_000_000
_DEFAULTS = InstanceParameters()


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingDataJob(TokenizerSettings, TextSettings, InputSettings):
    """Records to make, the settings of `beambert data`.

    `input` and `source` are empty if a pipeline provides the documents.

    Raises:
      InputError: a value is out of range.
    """

    max_seq_length: tuple[int, ...] = setting(
        (_DEFAULTS.max_seq_length,),
        group="instances",
        minimum=SHORTEST_SEQUENCE,
        maximum=LONGEST_SEQUENCE,
        metavar="N[,N]",
        help="number of tokens in an instance; several numbers make one folder each, DIR/N",
    )
    masks: str = setting(
        _DEFAULTS.masks,
        choices=MASKS,
        help="static: the records contain masks, which differ between passes; whole_word: the same "
        "with all pieces of a word or none; span: spans of whole words, 3.8 words long in the "
        "mean, as SpanBERT has them; none: the records contain no masks, and `beambert "
        "pretrain` draws them",
    )
    segmenter: str = setting(
        NO_SEGMENTER,
        choices=SEGMENTERS,
        help="how --masks=whole_word and span find words in scripts without spaces, which the "
        "tokens do not show; icu: Chinese, Japanese, Thai, Lao, Khmer, Burmese; sudachi: Japanese, "
        "better (default: none; needs the extra segmenters)",
    )
    max_predictions_per_seq: tuple[int, ...] | None = setting(
        None,
        minimum=1,
        metavar="N[,N]",
        help="greatest number of masked tokens in an instance, one for each length (default: "
        "max_seq_length * masked_lm_prob, rounded up)",
    )
    masked_lm_prob: float = setting(
        _DEFAULTS.masked_lm_prob, minimum=0, below=1, help="share of the tokens to mask"
    )
    short_seq_prob: float = setting(
        _DEFAULTS.short_seq_prob,
        minimum=0,
        below=1,
        help="share of the documents whose instances are made shorter than max_seq_length; none "
        "with --pairs=none",
    )
    dupe_factor: int = setting(
        _DEFAULTS.dupe_factor,
        minimum=1,
        maximum=MOST_PASSES,
        help="number of passes over the corpus, each with other pairs and masks",
    )
    do_whole_word_mask: bool = setting(
        False, help="the original script's flag for --masks=whole_word"
    )
    pairs: str = setting(
        NEXT,
        choices=PAIRS,
        help="rules for pairs and masks; next: half of the pairs are next sentences, and [UNK] and "
        "other special tokens are neither predicted nor put in place of a masked token; reference: "
        "the rules of the original script, including its flaws; none: no pairs and no label, but "
        "full sentences of one or more documents, as RoBERTa has them; sop: half of the pairs are "
        "in order and half swapped, as ALBERT has them; copy: B is a noisy copy of A, or of a "
        "segment of another document",
    )
    random_next: str | None = setting(
        None,
        choices=[CORPUS, SOURCE],
        help="where the B of a random next pair comes from; corpus: any other document; source: "
        "another document of the same --source or pattern of --input, so that the topic does "
        "not reveal the label (default: source with --source, else corpus)",
    )
    random_seed: int = setting(_DEFAULTS.random_seed, minimum=0, help="seed of all random choices")
    weights: str = setting(
        "",
        group="files",
        metavar="NAME=SHARE[,NAME=SHARE]",
        help="share of the records' tokens that each --source has; they add up to 1. A source is "
        "gone over more often, or less, than --dupe_factor says, and the records have as many "
        "tokens as without this flag",
    )
    temperature: float | None = setting(
        None,
        minimum=0,
        maximum=1,
        metavar="EXPONENT",
        help="in place of --weights: shares proportional to the tokens of each --source to the "
        "power of this number (1/T where T is a temperature); 1: as they are; 0.7: multilingual "
        "BERT; 0.3: XLM-R; 0: equal shares",
    )
    max_epochs_per_source: float | None = setting(
        None,
        metavar="N",
        help="greatest number of passes over a --source, at least --dupe_factor; what it then "
        "lacks of its share the other sources have",
    )
    since: tuple[str, ...] = setting(
        (), metavar="GLOB", help="records folders of earlier runs, whose input files are left out"
    )
    leave_out: str = setting(
        "",
        metavar="FILE",
        help="text file with the paths of input files to leave out, one a line",
    )
    output: str = setting(group="output", metavar="DIR", help="records folder to write")
    num_shards: int | None = setting(
        None,
        minimum=1,
        maximum=MOST_SHARDS,
        help="number of files to write (default: one per 8 MB of text; beyond 34 GB shards grow to "
        "64 MB)",
    )
    eval_fraction: float = setting(
        0.0,
        minimum=0,
        below=1,
        help=f"share of the text to hold out in DIR/{EVAL_FOLDER}; a long document is divided, and "
        "some of its parts are held out",
    )
    compression: str = setting(
        "none",
        choices=["none", "gzip"],
        help="compression of the files; gzip: a third of the size, but slower to write and read",
    )
    shuffle: str = setting(
        "auto",
        choices=["auto", "runner", "files"],
        help="how tokenized documents reach their shard, with the same records either way; runner: "
        "through the runner's shuffle; files: through temporary files in --output, for runners "
        "that keep what they shuffle in memory; auto: runner on Dataflow, Flink and Spark, files "
        "elsewhere",
    )

    def __post_init__(self) -> None:
        """Checks the values."""
        self.take_mappings()
        check_settings(self)
        decided = FORMATS[self.format].layout if self.format != AUTO else AUTO
        if self.sentences != SENTENCEX and SENTENCES in (self.layout, decided):
            given = "format" if decided == SENTENCES else "layout"
            raise InputError(
                f"--sentences={self.sentences}: has no effect with --{given}="
                f"{getattr(self, given)}, whose lines are sentences; leave one of them out"
            )
        self.check_text()
        if len(set(self.max_seq_length)) < len(self.max_seq_length):
            raise InputError("--max_seq_length: names a length twice; name each once")
        predictions = self.max_predictions_per_seq
        if predictions and len(predictions) != len(self.max_seq_length):
            raise InputError(
                f"--max_predictions_per_seq: has {len(predictions)} numbers but --max_seq_length "
                f"has {len(self.max_seq_length)}; give one for each length, or leave the flag out"
            )
        for length, number in zip(self.max_seq_length, predictions or (), strict=False):
            if number > length:
                raise InputError(
                    f"--max_predictions_per_seq={number}: must be at most --max_seq_length, which "
                    f"is {length}"
                )
        if self.masks == SPAN:
            refuse_given(
                self, ("do_whole_word_mask",), "the words of --masks=span are whole anyway"
            )
        if self.masks == NONE:
            reason = "--masks=none leaves the masks to `beambert pretrain`, see --mask_rate there"
            refuse_given(self, MASK_PARAMETERS, reason)
        check_segmenter(self.segmenter, self.language, self.language_column, self.hides_words)
        if self.pairs == NONE:
            allowed = {"random_next": CORPUS, "short_seq_prob": 0.0}
            names = [name for name, value in allowed.items() if getattr(self, name) != value]
            refuse_given(self, names, "--pairs=none draws no B, and fills all records")
        self._check_sources()

    def _check_sources(self) -> None:
        self.check_input()
        names = list(self.sources)
        if not names:
            refuse_given(self, ("weights", "temperature"), "needs --source")
        parse_weights(self.weights, names)
        if self.weights:
            refuse_given(self, ("temperature",), "--weights has the shares")
        elif self.temperature is None:
            refuse_given(self, ("max_epochs_per_source",), "needs --weights or --temperature")
        most = self.max_epochs_per_source
        if most is None:
            return
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
