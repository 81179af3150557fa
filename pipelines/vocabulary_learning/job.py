"""The parameters of a vocabulary job."""

import dataclasses
import posixpath

from beambert.config import check_settings, refuse_given, setting
from beambert.errors import InputError
from beambert.pipelines.corpus.sources import InputSettings
from beambert.pipelines.tokenizers.vocabulary import TOKENIZER_FILE

# Values of --kind.
WORDPIECE, BPE, UNIGRAM = "wordpiece", "bpe", "unigram"
KINDS = (WORDPIECE, BPE, UNIGRAM)
# Least number of tokens of a byte-level BPE: its 256 bytes, its special tokens, and some words.
FEWEST_OF_BPE = 300


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabularyJob(InputSettings):
    """A vocabulary to learn, the settings of `beambert vocab`.

    `input` and `source` are empty if a pipeline provides the documents.

    Raises:
      InputError: a value is out of range.
    """

    output: str = setting(
        metavar="FILE",
        help="file to write: a vocabulary with one token a line; for other kinds a tokenizer.json",
    )
    kind: str = setting(
        WORDPIECE,
        choices=KINDS,
        help="wordpiece: BERT's word pieces; bpe: byte-level BPE, as RoBERTa and ModernBERT have "
        "it; unigram: as ALBERT and XLM-R have it",
    )
    # The size of the original release's uncased English vocabulary.
    vocab_size: int = setting(30522, minimum=100, help="number of tokens")
    character_coverage: float | None = setting(
        None,
        above=0,
        maximum=1,
        metavar="SHARE",
        help="share of all characters in the text that tokens spell, such as 0.9995 for Chinese "
        "and Japanese and 1 for alphabets; rarer ones become [UNK] (default: all that are as "
        "frequent as the last word, and at least a thirtieth of the tokens; for unigram: all)",
    )
    extend: str | None = setting(
        None,
        metavar="PATH",
        help="vocab.txt, or folder of a model that has one, to add pieces to: its tokens keep "
        "their ids, so that `beambert pretrain --init` can go on from that model",
    )
    add: int | None = setting(
        None,
        minimum=1,
        metavar="N",
        help="with --extend: number of new pieces, those that save most tokens of the text",
    )
    do_lower_case: bool | None = setting(
        None, help="False keeps case and accents (default: True for word pieces, else False)"
    )

    def __post_init__(self) -> None:
        """Checks the values."""
        self.take_mappings()
        check_settings(self)
        self.check_input()
        if (self.extend is None) != (self.add is None):
            lacks = f"--add={self.add}: needs --extend, the vocabulary to add to"
            if self.add is None:
                lacks = f"--extend={self.extend}: needs --add, the number of new pieces"
            raise InputError(f"{lacks}; certain pieces can be lines at the end of vocab.txt")
        if self.extend is not None:
            names = ("vocab_size", "kind", "character_coverage")
            refuse_given(self, names, "--extend adds word pieces to tokens that all stay")
        if self.kind == BPE:
            reason = f"the bytes of --kind={BPE} spell every character"
            refuse_given(self, ("character_coverage",), reason)
        if self.kind == BPE and self.vocab_size < FEWEST_OF_BPE:
            raise InputError(
                f"--vocab_size={self.vocab_size}: must be at least {FEWEST_OF_BPE} with "
                f"--kind={self.kind}, since all 256 bytes are tokens"
            )
        file = "vocab.txt" if self.kind == WORDPIECE else TOKENIZER_FILE
        if (posixpath.basename(self.output) == TOKENIZER_FILE) != (file == TOKENIZER_FILE):
            raise InputError(
                f"--output={self.output}: --kind={self.kind} makes a {file}; name a file so"
            )

    @property
    def lower_cases(self) -> bool:
        """Whether the text is lower-cased and loses its accents."""
        return self.kind == WORDPIECE if self.do_lower_case is None else self.do_lower_case
