"""The records, the model and the vocabulary that the command names.

Only what was named can be reached: the page sends text and numbers, never paths.
"""

import functools
import os
from typing import TYPE_CHECKING

from beambert import io
from beambert.errors import InputError
from beambert.io import check_folder, has_wildcard, is_local
from beambert.model.families.table import read_config
from beambert.model_files import CONFIG_FILE, PRETRAINING, TRAINING_FILE
from beambert.pipelines.tokenizers.folders import read_beside, read_given
from beambert.pipelines.tokenizers.vocabulary import TOKENIZER_FILE, VOCABULARY_FILE, Vocabulary
from beambert.process import loading

if TYPE_CHECKING:
    from beambert.model.pretrainer import BertPretrainer
    from beambert.model.replaced_tokens import ElectraPretrainer
    from beambert.pipelines.pretraining.masks import TokenIds
    from beambert.pipelines.tokenizers.compiled_pieces import Tokenizer
    from beambert.pipelines.verification.folders import FoundFolder


class Material:
    """What the page shows.

    Attributes:
      records: path or pattern of the records; None without any.
      model_path: folder of the model; None without one.
      config: sizes of its encoder; None without one.
      vocabulary: the vocabulary.
      do_lower_case: whether text is lower-cased and loses its accents.
    """

    def __init__(
        self,
        records: str | None = None,
        model: str | None = None,
        vocab_file: str | None = None,
        tokenizer: str | None = None,
    ):
        """Checks the paths and reads the small files.

        Raises:
          InputError: a path cannot be used, or none has a vocabulary.
        """
        given = {"records": records, "model": model, "vocab_file": vocab_file}
        for flag, path in (given | {"tokenizer": tokenizer}).items():
            if path == "":
                raise InputError(f"--{flag}=: is empty; name a path")
            if path and not is_local(path):
                raise InputError(
                    f"--{flag}={path}: is not on this machine; copy it here and name the copy"
                )
        if records and not os.path.exists(records) and not has_wildcard(records):
            raise InputError(f"--records={records}: no such folder or file; check the path")
        self.records, self.model_path, self.config = records, model, None
        self._given = vocab_file, tokenizer
        if model:
            check_folder(model, f"--model={model}")
            self._open_model(model)
        if tokenizer:
            self.vocabulary, self.do_lower_case = read_given(None, tokenizer, None)
        elif vocab_file:
            data = io.read_bytes(vocab_file, "--vocab_file")
            self._use(Vocabulary.parse(data, f"--vocab_file={vocab_file}"))
        elif not model:
            names = (VOCABULARY_FILE, TOKENIZER_FILE)
            if not records or not any(os.path.isfile(f"{records}/{name}") for name in names):
                raise InputError(
                    "--vocab_file: missing, and no other flag has a vocabulary; name a vocab.txt, "
                    "a model with --model, or a records folder with a vocab.txt with --records"
                )
            self._use(read_beside(records, ""))

    def _use(self, vocabulary: Vocabulary) -> None:
        """Takes a vocabulary with the case that it asks for."""
        self.vocabulary, self.do_lower_case = vocabulary, vocabulary.lower_cases
        if vocabulary.lower_cases is None:
            try:
                vocabulary.check_case(True)
                self.do_lower_case = True
            except InputError:
                self.do_lower_case = False

    def _open_model(self, path: str) -> None:
        """Reads the small files of a model folder.

        Raises:
          InputError: the folder is no model folder.
        """
        if not os.path.isfile(f"{path}/{TRAINING_FILE}"):
            raise InputError(
                f"--model={path}: not a model folder (no {TRAINING_FILE}); name a folder that "
                "`beambert pretrain` makes"
            )
        training = io.read_object(f"{path}/{TRAINING_FILE}", "do_lower_case", "kind")
        if training["kind"] != PRETRAINING:
            raise InputError(
                f"--model={path}: is a fine-tuned model, but the page shows the inside of "
                "pre-trained ones; name one of `beambert pretrain`, or ask this one with "
                "`beambert predict`"
            )
        self.config = read_config(io.read_text(f"{path}/{CONFIG_FILE}"))
        self.vocabulary = read_beside(path, "--model")
        self.do_lower_case = training["do_lower_case"]

    @functools.cached_property
    def tokenizer(self) -> "Tokenizer":
        """The tokenizer."""
        with loading():
            from beambert.pipelines.tokenizers.encoding import make_corpus_tokenizer

            return make_corpus_tokenizer(self.vocabulary, self.do_lower_case)

    @functools.cached_property
    def token_ids(self) -> "TokenIds":
        """The special ids of the vocabulary."""
        from beambert.pipelines.pretraining.masks import TokenIds

        return TokenIds.of(self.vocabulary)

    @functools.cached_property
    def model(self) -> "BertPretrainer | ElectraPretrainer | None":
        """The model with its weights; None without one.

        Its `pair_task` or `masked_lm_head` is None if it was pre-trained without.

        Raises:
          InputError: the folder or its weights cannot be used.
        """
        if self.model_path is None:
            return None
        with loading():
            from beambert.trainer import model_folders
            from beambert.trainer.models import pretrained_model

            return pretrained_model(model_folders.open_model(self.model_path, "--model"))

    @functools.cached_property
    def folders(self) -> "dict[str, FoundFolder]":
        """The folders of --records by path.

        Raises:
          InputError: there are no records that can be read.
        """
        with loading():
            from beambert.pipelines.verification.folders import find_folders

            found = find_folders([self.records], *self._given)
        readable = {folder.path: folder for folder in found if folder.features is not None}
        if not readable:
            raise InputError(
                f"--records={self.records}: has no record that can be read; see what "
                "`beambert verify` says of it"
            )
        return readable

    def warm_up(self) -> None:
        """Loads everything ahead of the first question.

        Raises:
          InputError: the model or the records cannot be used.
        """
        self.tokenizer.tokenize_batch(["a"])
        _ = self.model
        if self.records is not None:
            _ = self.folders
