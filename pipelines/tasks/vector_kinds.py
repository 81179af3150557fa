"""The kinds of tasks whose models make a vector of each text; `kinds` lists them."""

import dataclasses
import itertools
import math
import pathlib
import re
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, ClassVar

from beambert.errors import InputError
from beambert.pipelines.tasks.examples import VectorExample
from beambert.pipelines.tasks.ranking import text_id
from beambert.pipelines.tasks.table_task import TableTask
from beambert.pipelines.tasks.tables import BadRow
from beambert.pipelines.tasks.task import (
    EMBEDDING,
    LATE_INTERACTION,
    SIMILARITY,
    ExampleFile,
)

# Temperature by which cosines are divided: SimCSE's (Gao et al. 2021, arXiv 2104.08821, section 3),
# and 1 / 20, the scale of sentence-transformers' losses.
DEFAULT_TEMPERATURE = 0.05
# Number of tokens of a query in late interaction (Khattab and Zaharia 2020, arXiv 2004.12832,
# section 4.1).
DEFAULT_QUERY_LENGTH = 32
# How scores are learnt: CoSENT's loss by the order of the cosines (Su 2022,
# https://kexue.fm/archives/8847), or the squared error of the cosines.
COSENT, COSINE = "cosent", "cosine"
# Single texts of train learn to find themselves under another dropout; or a sentence of each learns
# to find the text that it was taken from; or a section of each learns to find the next one; or a
# decoder writes each again from the vector of some of its words (Wang et al. 2021, TSDAE, arXiv
# 2104.06979).
DROPOUT, CLOZE, ADJACENT, TSDAE = "dropout", "cloze", "adjacent", "tsdae"
SINGLE_TEXTS = (DROPOUT, CLOZE, ADJACENT, TSDAE)
# Share of the sentences that are taken out of their passages (Lee et al. 2019, arXiv 1906.00300,
# section 4); the others teach that the same words may stand in both.
_TAKEN_OUT = 0.9
# A sentence ends with one of these marks and a blank; those of Chinese and Japanese need no blank,
# and further marks or a closing bracket belong to the sentence.
_BETWEEN_SENTENCES = re.compile(r"((?<=[。！？])(?![。！？」』）]|$)\s*|(?<=[.!?…])\s+)")
# A section ends before an empty line.
_BETWEEN_SECTIONS = re.compile(r"\n\s*\n")
ONE_SENTENCE_REASON = "has one sentence"
_VECTOR_FLAGS = frozenset(
    {"temperature", "matryoshka_dims", "pooling", "gradient_cache_batch_size"}
)


@dataclasses.dataclass(frozen=True)
class VectorTask(TableTask):
    """A task whose model makes a vector of each text.

    A train file may have the first column alone. Each of its texts then learns to find itself under
    another dropout (SimCSE, Gao et al. 2021, arXiv 2104.08821).

    Attributes:
      temperature: number by which cosines are divided in the loss.
      matryoshka_dims: numbers of first components that are learnt to be vectors by themselves
        (Kusupati et al. 2022, arXiv 2205.13147); empty for whole vectors alone.
      pooling: what is taken of a text's tokens, `mean` or `cls`; None for what the encoder's folder
        says.
      gradient_cache_batch_size: number of texts that are encoded at a time while the loss sees the
        whole batch (Gao et al. 2021, arXiv 2101.06983); 0 for all at once.
    """

    text_b_is_optional: bool = True
    temperature: float = DEFAULT_TEMPERATURE
    matryoshka_dims: tuple[int, ...] = ()
    pooling: str | None = None
    gradient_cache_batch_size: int = 0

    HAS_LABELS: ClassVar[bool] = False
    COMPARES_TEXTS: ClassVar[bool] = True
    LEARNING_FLAGS = _VECTOR_FLAGS

    def _make(self, endings: tuple[str, ...], **fields: Any) -> VectorExample:
        return VectorExample(negatives=endings, **fields)

    def check_split(
        self, path: pathlib.Path, is_labelled: bool, examples: Sequence[Any], first: Any
    ) -> None:
        """Refuses a dev or test file of single texts, which nothing can be compared with."""
        if examples[0] is not first and examples[0].text_b is None:
            raise InputError(
                f"{path}: has no column {self.text_columns[1]!r}, without which vectors cannot be "
                "judged; only the train file may have single texts"
            )

    def label_names(self, example: VectorExample) -> Iterable[str]:
        """Returns nothing: there are no labels to count."""
        return ()

    def sequences(self, example: VectorExample) -> int:
        """Returns the number of texts of an example; a single one is encoded twice."""
        return max(len(example.sequences), 2)

    def learning_settings(self) -> dict[str, Any]:
        """Returns how the vectors are learnt."""
        found: dict[str, Any] = {"temperature": self.temperature}
        if self.matryoshka_dims:
            found["matryoshka_dims"] = list(self.matryoshka_dims)
        if self.gradient_cache_batch_size:
            found["gradient_cache_batch_size"] = self.gradient_cache_batch_size
        return found

    def _check_label(
        self, path: pathlib.Path, line: int, label: str, possible: Sequence[str] | None
    ) -> None:
        """Nothing: only `Similarity` has scores."""


@dataclasses.dataclass(frozen=True)
class RetrievalTask(VectorTask):
    """A task that asks for vectors by which a text finds the one that answers it.

    The columns are the text, the one that it must find, and any number of hard negatives.
    """

    choice_columns: tuple[str, ...] = ("negative*",)
    metrics: tuple[str, ...] = ("ndcg_at_10", "mrr_at_10", "recall_at_10")

    COLUMN_FLAGS = frozenset({"text_columns", "choice_columns"})

    def _example(
        self,
        path: pathlib.Path,
        line: int,
        row: dict[str, str] | BadRow,
        is_labelled: bool,
        labels: Sequence[str] | None,
    ) -> Any:
        """Refuses scores: a pair of the score 0 would be learnt as a right one."""
        is_pair = not isinstance(row, BadRow) and self.text_columns[1] in row
        if is_labelled and is_pair and self.label_column in row:
            raise InputError(
                f"{path}, line {line}: has a column {self.label_column!r}, and this task takes "
                "every pair for a right one; learn scores with --task=similarity, or rename the "
                "column"
            )
        return super()._example(path, line, row, is_labelled, labels)

    def _choice_columns(
        self, path: pathlib.Path, line: int, row: dict[str, str]
    ) -> tuple[str, ...]:
        return self._columns_of_choices(row)

    def _label(
        self,
        path: pathlib.Path,
        line: int,
        row: dict[str, str],
        possible: Sequence[str] | None,
    ) -> None:
        return None

    def check_file(self, path: pathlib.Path, examples: Sequence[VectorExample]) -> None:
        """Refuses rows of which only some have a second text, or as many negatives."""
        super().check_file(path, examples)
        if len({len(example.negatives) for example in examples}) > 1:
            raise InputError(
                f"{path}: has rows with different numbers of negatives; give every row as many"
            )
        if examples[0].negatives and examples[0].text_b is None:
            raise InputError(
                f"{path}: has negatives but no column {self.text_columns[1]!r}, the text that must "
                "be found; add it"
            )


@dataclasses.dataclass(frozen=True)
class LateInteraction(RetrievalTask):
    """A task that asks for vectors of tokens by which a text finds the one that answers it.

    The score of a document is the sum over the tokens of the query of the greatest cosine with any
    token of the document (Khattab and Zaharia 2020, ColBERT, arXiv 2004.12832, section 3.3).

    Attributes:
      query_length: number of tokens of every query; [MASK] fills up the shorter ones.
    """

    kind: str = dataclasses.field(default=LATE_INTERACTION, init=False)
    text_b_is_optional: bool = False
    # The paper's loss divides the scores by nothing (section 3.3).
    temperature: float = 1.0
    query_length: int = DEFAULT_QUERY_LENGTH

    LEARNING_FLAGS = frozenset({"temperature", "query_length", "gradient_cache_batch_size"})

    def learning_settings(self) -> dict[str, Any]:
        """Returns how the vectors are learnt."""
        return super().learning_settings() | {"query_length": self.query_length}


@dataclasses.dataclass(frozen=True)
class Embedding(RetrievalTask):
    """A task that asks for one vector of each text, by which it finds the one that answers it.

    Attributes:
      single_texts: what the texts of a train file without a second column learn, one of
        `SINGLE_TEXTS`.
    """

    kind: str = dataclasses.field(default=EMBEDDING, init=False)
    single_texts: str = DROPOUT

    LEARNING_FLAGS = _VECTOR_FLAGS | {"single_texts"}

    def read_to_learn(
        self, path: pathlib.Path, is_labelled: bool, labels: Sequence[str] | None
    ) -> ExampleFile:
        """Reads the rows, and makes pairs of single texts if that is how they are learnt."""
        file = super().read_to_learn(path, is_labelled, labels)
        if self.single_texts == DROPOUT or not file.examples:
            return file
        if file.examples[0].text_b is not None:
            raise InputError(
                f"--single_texts={self.single_texts}: {path} has a column "
                f"{self.text_columns[1]!r}; leave the flag out, or the column"
            )
        if self.single_texts == TSDAE:
            return file
        pairs_of = cloze if self.single_texts == CLOZE else adjacent
        pairs = [pairs_of(example) for example in file.examples]
        lost = sum(not of_one for of_one in pairs)
        if lost == len(pairs):
            raise InputError(
                f"--single_texts={self.single_texts}: no text of {path} has two sentences; give "
                "longer texts"
            )
        unlearnable = {ONE_SENTENCE_REASON: lost} if lost else {}
        learnt = list(itertools.chain.from_iterable(pairs))
        return dataclasses.replace(file, examples=learnt, unlearnable=unlearnable)

    def learning_settings(self) -> dict[str, Any]:
        """Returns how the vectors are learnt."""
        single = {"single_texts": self.single_texts} if self.single_texts != DROPOUT else {}
        return super().learning_settings() | single


def cloze(example: VectorExample) -> list[VectorExample]:
    """Returns a pair of a sentence of a text and the rest of it; none of a single sentence.

    That is the inverse cloze task (Lee et al. 2019, arXiv 1906.00300). The text alone decides which
    sentence it is, and whether it also stays where it was.
    """
    parts = _BETWEEN_SENTENCES.split(example.text.strip())
    sentences = parts[::2]  # What is between them comes after each but the last.
    if len(sentences) < 2:
        return []
    random = Random(text_id(example.text))
    taken = random.randrange(len(sentences))
    rest = example.text
    if random.random() < _TAKEN_OUT:
        rest = "".join(parts[: 2 * taken] + parts[2 * taken + 2 :]).strip()
    return [dataclasses.replace(example, text=sentences[taken], text_b=rest)]


def adjacent(example: VectorExample) -> list[VectorExample]:
    """Returns the pairs of a section of a text and the next one; none of a single sentence.

    Neighbouring pieces of texts are pairs as in Neelakantan et al. 2022 (arXiv 2201.10005). Empty
    lines divide the sections. A text without them is divided once, at the end of the sentence that
    is nearest to its middle.
    """
    text = example.text.strip()
    sections = _BETWEEN_SECTIONS.split(text)
    if len(sections) == 1:
        ends = [end.span() for end in _BETWEEN_SENTENCES.finditer(text)]
        if not ends:
            return []
        first, second = min(ends, key=lambda end: abs(end[0] - len(text) / 2))
        sections = [text[:first], text[second:]]
    return [
        dataclasses.replace(example, text=one.strip(), text_b=next_one.strip())
        for one, next_one in itertools.pairwise(sections)
    ]


@dataclasses.dataclass(frozen=True)
class Similarity(VectorTask):
    """A task that asks for vectors whose cosines follow the scores of pairs.

    Attributes:
      loss: `COSENT` or `COSINE`.
    """

    kind: str = dataclasses.field(default=SIMILARITY, init=False)
    metrics: tuple[str, ...] = ("spearman", "pearson")
    loss: str = COSENT

    LEARNING_FLAGS = _VECTOR_FLAGS | {"loss"}
    LOSSES = (COSENT, COSINE)

    def _example(
        self,
        path: pathlib.Path,
        line: int,
        row: dict[str, str] | BadRow,
        is_labelled: bool,
        labels: Sequence[str] | None,
    ) -> Any:
        is_single = isinstance(row, dict) and self.text_columns[1] not in row
        return super()._example(path, line, row, is_labelled and not is_single, labels)

    def check_file(self, path: pathlib.Path, examples: Sequence[VectorExample]) -> None:
        """Refuses also single texts with scores, which only a pair can have."""
        super().check_file(path, examples)
        if examples[0].text_b is None and any(example.label is not None for example in examples):
            raise InputError(
                f"{path}: has a column {self.label_column!r} but no column "
                f"{self.text_columns[1]!r}, the text that each score is about; add it, or name "
                "both texts in --text_columns"
            )

    def _check_label(
        self, path: pathlib.Path, line: int, label: str, possible: Sequence[str] | None
    ) -> None:
        try:
            score = float(label)
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            raise BadRow(path, line, f"has {label!r} for a score", "write a finite number")
        if self.loss == COSINE and not -1 <= score <= 1:
            reason = f"has the score {label}, which no cosine can be (--loss={COSINE})"
            remedy = f"scale the scores to -1 to 1, or take --loss={COSENT}"
            raise BadRow(path, line, reason, remedy)

    def learning_settings(self) -> dict[str, Any]:
        """Returns how the vectors are learnt."""
        return {"loss": self.loss} | super().learning_settings()
