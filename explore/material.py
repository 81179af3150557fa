"""The records, models and vocabulary that the command names.

Everything is checked when the command starts and loaded when it is first needed. Only what was
named can be reached: the page sends names and numbers, never paths.
"""

import contextlib
import dataclasses
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from beambert import storage
from beambert.errors import InputError
from beambert.model.config import EncoderConfig
from beambert.model.families.table import family_of, read_config
from beambert.model_files import CONFIG_FILE, PRETRAINING, TRAINING_FILE
from beambert.pipelines.tokenizers.folders import read_beside, read_given
from beambert.pipelines.tokenizers.vocabulary import TOKENIZER_FILE, VOCABULARY_FILE, Vocabulary
from beambert.process import loading
from beambert.storage import check_folder, has_wildcard, is_local, parse_object

if TYPE_CHECKING:
    from beambert.explore.records import RecordBrowser
    from beambert.model.pretrainer import BertPretrainer
    from beambert.model.replaced_tokens import ElectraPretrainer
    from beambert.pipelines.pretraining.masks import TokenIds
    from beambert.pipelines.records.figures import MadeWith
    from beambert.pipelines.tokenizers.wordpiece import Tokenizer


Thing = TypeVar("Thing")

# Name of the choice without a model.
NO_MODEL = "no model"
_LOCK = threading.RLock()
_loaded = threading.Event()


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Lets one thread at a time import large libraries, which belong inside.

    TensorFlow's and Keras's modules import each other in circles. Two threads that import them at
    the same time can wait for each other; Python ends that with an error, after which a part of the
    modules stays unusable.
    """
    with _LOCK, loading():
        yield


def load_libraries() -> None:
    """Loads TensorFlow and Keras, before the first answer of any tab."""
    if not _loaded.is_set():
        with importing():
            from beambert.explore import layers  # noqa: F401
        _loaded.set()


@dataclasses.dataclass(frozen=True)
class Tokenization:
    """How text becomes tokens.

    Attributes:
      vocabulary: the vocabulary.
      do_lower_case: whether text is lower-cased and loses its accents.
    """

    vocabulary: Vocabulary
    do_lower_case: bool


@dataclasses.dataclass(frozen=True)
class NamedModel:
    """A model folder as far as its training.json tells.

    Attributes:
      path: path of the folder.
      config: sizes of the encoder.
      language: its vocabulary and case.
    """

    path: str
    config: EncoderConfig
    language: Tokenization


class Material:
    """The things that the page shows; several threads may use it."""

    def __init__(
        self,
        records: str | None = None,
        models: Sequence[str] = (),
        vocab_file: str | None = None,
        tokenizer: str | None = None,
    ):
        """Checks the paths and reads the small files.

        Raises:
          InputError: a path cannot be used, or none has a vocabulary.
        """
        self.records = records
        self.vocab_file = vocab_file
        self.tokenizer_file = tokenizer
        self._made: dict[Any, Any] = {}
        self._locks: dict[Any, threading.Lock] = {}
        self._lock = threading.Lock()
        if records is not None:
            _check_here(records, "--records")
            if not os.path.exists(records) and not has_wildcard(records):
                raise InputError(f"--records={records}: no such folder or file; check the path")
        for path in models:
            _check_here(path, "--model")
            check_folder(path, f"--model={path}")
        names = storage.short_names(models, "--model")
        self.models = {name: _open(path) for name, path in zip(names, models, strict=True)}
        self.language = self._own_language()

    def _own_language(self) -> Tokenization:
        """Returns the vocabulary of the page itself: the given one, the records' or a model's."""
        if self.tokenizer_file:
            _check_here(self.tokenizer_file, "--tokenizer")
            given = self.vocab_file, self.tokenizer_file, None
            return Tokenization(*read_given(*given, _read, os.path.exists))
        if self.vocab_file:
            _check_here(self.vocab_file, "--vocab_file")
            vocabulary = _read_vocabulary(self.vocab_file, f"--vocab_file={self.vocab_file}")
            return Tokenization(vocabulary, is_uncased(vocabulary))
        if self.models:
            return next(iter(self.models.values())).language
        names = (VOCABULARY_FILE, TOKENIZER_FILE)
        if self.records and any(os.path.isfile(f"{self.records}/{name}") for name in names):
            vocabulary = read_beside(self.records, "", _read, os.path.exists)
            return Tokenization(vocabulary, is_uncased(vocabulary))
        raise InputError(
            "--vocab_file: missing, and no other flag has a vocabulary; name a vocab.txt, a model "
            "with --model, or a records folder with a vocab.txt with --records"
        )

    @property
    def pretrained(self) -> list[str]:
        """Names of the models."""
        return [*self.models]

    def language_of(self, name: str) -> Tokenization:
        """Returns how text becomes tokens for a model, or for `NO_MODEL`."""
        return self.models[name].language if name in self.models else self.language

    def tokenizer(self, name: str) -> "Tokenizer":
        """Returns the tokenizer of a model, or of `NO_MODEL`."""
        language = self.language_of(name)

        def make() -> "Tokenizer":
            with importing():
                from beambert.pipelines.tokenizers.encoding import make_tokenizer
            return make_tokenizer(language.vocabulary, language.do_lower_case)

        return self._once(("tokenizer", language.vocabulary.name, language.do_lower_case), make)

    def token_ids(self, name: str) -> "TokenIds":
        """Returns the special ids of a model's vocabulary, or of that of `NO_MODEL`."""
        from beambert.pipelines.pretraining.masks import TokenIds

        vocabulary = self.language_of(name).vocabulary
        return self._once(("ids", vocabulary.name), lambda: TokenIds.of(vocabulary))

    def model(self, name: str) -> "BertPretrainer | ElectraPretrainer | None":
        """Returns a pre-trained model with its weights; None for `NO_MODEL`.

        Its `pair_task` or `masked_lm_head` is None if it was pre-trained without.

        Raises:
          InputError: the folder or its weights cannot be used.
        """
        if name not in self.pretrained:
            return None

        def make() -> "BertPretrainer | ElectraPretrainer":
            with importing():
                from beambert.trainer import model_folders
                from beambert.trainer.models import pretrained_model
            return pretrained_model(model_folders.open_model(self.models[name].path, "--model"))

        return self._once(("model", name), make)

    def browsers(self) -> "dict[str, tuple[RecordBrowser, MadeWith]]":
        """Returns the folders of --records by name.

        Raises:
          InputError: there are no records that can be read.
        """

        def make() -> "dict[str, tuple[RecordBrowser, MadeWith]]":
            with importing():
                from beambert.explore.records import RecordBrowser
                from beambert.pipelines.records.statistics import VocabularyIds
                from beambert.pipelines.verification.folders import find_folders
            found = {}
            for folder in find_folders([self.records], self.vocab_file, self.tokenizer_file):
                if folder.features is None:
                    continue
                vocabulary = folder.vocabulary
                browser = RecordBrowser(
                    list(folder.files),
                    folder.features,
                    vocabulary.pieces if vocabulary else None,
                    VocabularyIds.of(vocabulary) if vocabulary else None,
                )
                found[folder.path] = (browser, folder.made_with)
            if not found:
                raise InputError(
                    f"--records={self.records}: has no record that can be read; see what "
                    "`beambert verify` says of it"
                )
            return found

        return self._once("browsers", make)

    def warm_up(self) -> None:
        """Loads TensorFlow and the first model ahead of the first question."""
        load_libraries()
        self.tokenizer(NO_MODEL).tokenize_batch(["a"])
        if self.pretrained:
            self.model(self.pretrained[0])
        if self.records is not None:
            self.browsers()

    def _once(self, key: Any, make: Callable[[], Thing]) -> Thing:
        """Returns what a function makes, which is called once; others wait for it."""
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self._made:
                self._made[key] = make()
            return self._made[key]


def is_uncased(vocabulary: Vocabulary) -> bool:
    """Returns whether a vocabulary asks for lower-cased text."""
    if vocabulary.lower_cases is not None:
        return vocabulary.lower_cases
    try:
        vocabulary.check_case(True)
    except InputError:
        return False
    return True


def _open(path: str) -> NamedModel:
    """Reads the small files of a model folder.

    Raises:
      InputError: the folder is no model folder.
    """
    file = f"{path}/{TRAINING_FILE}"
    if not os.path.isfile(file):
        raise InputError(
            f"--model={path}: not a model folder (no {TRAINING_FILE}); name a folder that "
            "`beambert pretrain` makes"
        )
    try:
        with open(file, "rb") as opened:
            training = parse_object(opened.read())
        case = training["do_lower_case"]
        kind = training["kind"]
        file = f"{path}/{CONFIG_FILE}"
        with open(file, encoding="utf-8") as opened:
            config = read_config(opened.read())
    except (ValueError, KeyError, OSError) as error:
        raise InputError(f"{file}: cannot be read ({error}); copy the folder again") from error
    if kind != PRETRAINING:
        raise InputError(
            f"--model={path}: is a fine-tuned model, but the page shows the inside of pre-trained "
            "ones; name one of `beambert pretrain`, or ask this one with `beambert predict`"
        )
    if config.family != "bert":
        raise InputError(
            f"--model={path}: is a {family_of(config).title}, but the page shows what a BERT "
            "computes; name a BERT"
        )
    if os.path.isfile(f"{path}/{TOKENIZER_FILE}"):
        vocabulary = read_beside(path, "--model", _read, os.path.exists)
    else:
        vocabulary = _read_vocabulary(f"{path}/{VOCABULARY_FILE}", f"--model={path}")
    return NamedModel(path, config, Tokenization(vocabulary, case))


def _read_vocabulary(path: str, where: str) -> Vocabulary:
    return Vocabulary.parse(_read(path, where), path)


def _read(path: str, where: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"{where}: {path} cannot be read ({reason}); check the path") from error


def _check_here(path: str, flag: str) -> None:
    if not path:
        raise InputError(f"{flag}=: is empty; name a path")
    if not is_local(path):
        raise InputError(f"{flag}={path}: is not on this machine; copy it here and name the copy")
