"""The parameters of a vocabulary job."""

import dataclasses
import posixpath

from beambert.errors import InputError
from beambert.flags import check_minimum, check_shares, settle_fields
from beambert.pipelines.corpus.sources import JobInput
from beambert.pipelines.tokenizers.vocabulary import TOKENIZER_FILE

# Values of --kind.
WORDPIECE, BPE, UNIGRAM = "wordpiece", "bpe", "unigram"
KINDS = (WORDPIECE, BPE, UNIGRAM)
# Least number of tokens of a byte-level BPE: its 256 bytes, its special tokens, and some words.
FEWEST_OF_BPE = 300


@dataclasses.dataclass(frozen=True)
class VocabularyJob(JobInput):
    """A vocabulary to learn.

    Attributes:
      output: path of the vocab.txt or tokenizer.json to write; the parameters and counts go into a
        file next to it.
      input: patterns of the files to read; none if a pipeline provides the documents, or if
        `source` has them.
      vocab_size: number of tokens. The default is that of the original release's uncased English
        vocabulary.
      do_lower_case: True to lower-case the text and strip its accents; None for the default of the
        kind, which is True for word pieces and False for the others.
      format: format of the files, a key of `formats.FORMATS` or `formats.AUTO`.
      text_column: column of JSON Lines and Parquet that holds the documents.
      encoding: encodings of text files, see `corpus.encodings.parse_encodings`.
      max_reject_fraction: share of the documents that may be unreadable.
      extend: path of a vocab.txt, or of a folder that has one, whose tokens keep their ids; None to
        learn a new vocabulary.
      add: number of pieces to add to `extend`: those that save most tokens of the text.
      add_pieces: path of a list of pieces to add instead, one a line.
      character_coverage: share of the characters' occurrences that tokens cover; None to choose
        as many characters as fit.
      kind: "wordpiece"; "bpe" for a byte-level BPE as RoBERTa's; "unigram" as ALBERT's.
      source: sources of the files to read, each as "NAME=PATTERN,PATTERN". All text counts as
        often as it occurs, whatever the source.

    Raises:
      InputError: a value is out of range.
    """

    output: str
    input: tuple[str, ...] = ()
    vocab_size: int = 30522
    do_lower_case: bool | None = None
    format: str = "auto"
    text_column: str = "text"
    encoding: str = "utf-8"
    max_reject_fraction: float = 0.0
    kind: str = WORDPIECE
    extend: str | None = None
    add: int | None = None
    add_pieces: str | None = None
    character_coverage: float | None = None
    source: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Checks the values."""
        settle_fields(self)
        check_minimum(self, 100, "vocab_size")
        check_shares(self, "max_reject_fraction")
        self.check_input()
        if self.kind not in KINDS:
            raise InputError(f"--kind={self.kind}: must be one of {', '.join(KINDS)}")
        self._check_extension()
        self._check_coverage()
        if self.kind == BPE and self.vocab_size < FEWEST_OF_BPE:
            raise InputError(
                f"--vocab_size={self.vocab_size}: must be at least {FEWEST_OF_BPE} with "
                f"--kind={self.kind}, since all 256 bytes are tokens"
            )
        if self.kind != WORDPIECE and posixpath.basename(self.output) != TOKENIZER_FILE:
            raise InputError(
                f"--output={self.output}: --kind={self.kind} makes a {TOKENIZER_FILE}; name a file "
                "of that name, in a folder for itself"
            )
        if self.kind == WORDPIECE and posixpath.basename(self.output) == TOKENIZER_FILE:
            raise InputError(
                f"--output={self.output}: --kind={self.kind} makes a vocabulary, one token a line; "
                "name the file vocab.txt"
            )

    def _check_coverage(self) -> None:
        coverage = self.character_coverage
        if coverage is None:
            return
        flag = f"--character_coverage={coverage:g}"
        if not 0 < coverage <= 1:
            raise InputError(f"{flag}: must be more than 0 and at most 1")
        if self.kind == BPE:
            raise InputError(
                f"{flag}: has no effect with --kind={BPE}, whose bytes spell every character; "
                "leave it out"
            )
        if self.extend is not None:
            raise InputError(
                f"{flag}: cannot be given with --extend, whose characters all stay; leave it out"
            )

    def _check_extension(self) -> None:
        if self.extend is None:
            for name in ("add", "add_pieces"):
                if (value := getattr(self, name)) is not None:
                    raise InputError(
                        f"--{name}={value}: needs --extend, the vocabulary to add to; give it too"
                    )
            return
        if self.kind != WORDPIECE:
            raise InputError(
                f"--extend={self.extend}: only word pieces can be extended; leave --kind out"
            )
        if (self.add is None) == (self.add_pieces is None):
            raise InputError(
                f"--extend={self.extend}: give either --add, a number of pieces, or --add_pieces, "
                "a list of them"
            )
        check_minimum(self, 1, "add")
        if self.vocab_size != VocabularyJob.vocab_size:
            raise InputError(
                f"--vocab_size={self.vocab_size}: cannot be given with --extend, whose tokens "
                "all stay; give --add, the number of new ones"
            )

    @property
    def lower_cases(self) -> bool:
        """Whether the text is lower-cased and loses its accents."""
        return self.kind == WORDPIECE if self.do_lower_case is None else self.do_lower_case
