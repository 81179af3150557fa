"""Embedding and similarity: one vector for each text."""

import dataclasses
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from beambert.errors import InputError
from beambert.pipelines.tasks.metrics import (
    best_by_vectors,
    commonest,
    retrieval_scores,
    text_id,
)
from beambert.pipelines.tasks.regression import (
    NumberKind,
    NumberOutcomes,
    is_number,
    numbers_of,
)
from beambert.pipelines.tasks.saved_models import Model, check_signature
from beambert.pipelines.tasks.table_task import TableTask, TextExample, tokens_of
from beambert.pipelines.tasks.tables import TableRow
from beambert.pipelines.tasks.task import (
    EMBEDDING,
    SIMILARITY,
    ArrayOutcomes,
    Mistake,
    Record,
    Row,
    TaskFeatures,
    check_finite,
    column,
    excerpt,
)
from beambert.saved_models import call_on_texts

if TYPE_CHECKING:  # It imports TensorFlow.
    from beambert.pipelines.tasks.texts import TextFeatures


@dataclasses.dataclass(frozen=True)
class VectorExample(TextExample):
    """Texts that each become a vector: one, a pair, or a pair with texts that are no answer.

    The first text searches; it must find the second, or is compared with it. The label is the score
    of the pair.

    Attributes:
      negatives: texts that it must not find.
    """

    negatives: tuple[str, ...] = ()

    @property
    def truth(self) -> str | None:
        """The score, or the text that must be found; None in a single text."""
        return self.text_b if self.label is None else self.label

    @property
    def sequences(self) -> tuple[str, ...]:
        """All texts, each of which becomes a vector."""
        return (self.text, *(() if self.text_b is None else (self.text_b, *self.negatives)))


def text_ids_of(examples: Sequence[VectorExample]) -> NDArray[np.int64]:
    """Returns the ids of the texts of examples, [examples, texts]."""
    ids = [[text_id(text) for text in example.sequences] for example in examples]
    return np.array(ids, np.int64)


@dataclasses.dataclass(frozen=True)
class RankingOutcomes(ArrayOutcomes):
    """The outcomes of an embedding.

    Attributes:
      text_ids: ids of the query and of the text that it must find, [examples, 2].
      ndcg_at_10: nDCG of the first ten texts, [examples].
      mrr_at_10: reciprocal rank of the first right one of them, [examples].
      recall_at_10: share of the right texts among them, [examples].
    """

    text_ids: NDArray[np.int64]
    ndcg_at_10: NDArray[np.float64]
    mrr_at_10: NDArray[np.float64]
    recall_at_10: NDArray[np.float64]

    FEATURES = ("text_ids", "ndcg_at_10", "mrr_at_10", "recall_at_10")
    METRICS = ("ndcg_at_10", "mrr_at_10", "recall_at_10")

    @classmethod
    def of_records(cls, records: Sequence[Record]) -> Self:
        """Returns the outcomes of prediction records."""
        text_ids = np.array([record["text_ids"][:2] for record in records], np.int64)
        return cls(text_ids, *(column(records, name) for name in cls.METRICS))

    def scores(self, names: Sequence[str], positive: int) -> dict[str, float]:
        """Returns metrics by name."""
        return {name: float(getattr(self, name).mean()) for name in names}

    def constants(self) -> list[tuple[str, Self]]:
        """Returns the ranking that no query changes: the texts that most queries must find."""
        best = [commonest(self.text_ids)] * len(self)
        return [("the commonest texts", self.of_ranking(self.text_ids, best))]

    @classmethod
    def of_ranking(cls, text_ids_NS: NDArray[np.int64], ranked: Sequence[Sequence[int]]) -> Self:
        """Returns the outcomes of what queries found, see `retrieval_scores`."""
        scores = retrieval_scores(text_ids_NS, ranked)
        return cls(text_ids_NS[:, :2], *(scores[name] for name in cls.METRICS))


class CosineOutcomes(NumberOutcomes):
    """The outcomes of a similarity; errors say nothing, as scores need not be cosines."""

    METRICS = ("spearman", "pearson")


# Greatest number of characters of a text in a report.
_MOST_OF_TEXT = 280


def _ranks(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the first and the last rank of each number, from 1; equal ones share their ranks."""
    in_order = np.sort(numbers)
    return np.searchsorted(in_order, numbers) + 1, np.searchsorted(in_order, numbers, "right")


# Temperature by which cosines are divided: SimCSE's (Gao et al. 2021, arXiv 2104.08821, section 3),
# and 1 / 20, the scale of sentence-transformers' losses.
DEFAULT_TEMPERATURE = 0.05
# How scores are learnt: CoSENT's loss by the order of the cosines (Su 2022,
# https://kexue.fm/archives/8847), or the squared error of the cosines.
COSENT, COSINE = "cosent", "cosine"
_VECTOR_FLAGS = frozenset({"temperature", "matryoshka_dims", "pooling"})


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
    """

    text_b_is_optional: bool = True
    temperature: float = DEFAULT_TEMPERATURE
    matryoshka_dims: tuple[int, ...] = ()
    pooling: str | None = None

    HAS_LABELS: ClassVar[bool] = False
    OWN: ClassVar[Mapping[str, Any] | None] = {"text_columns": ("text", "text_b")}
    COMPARES_TEXTS: ClassVar[bool] = True
    # Whether a vector is made of those of the tokens, as `pooling` says.
    POOLS: ClassVar[bool] = True
    LEARNING_FLAGS = _VECTOR_FLAGS
    OUTPUTS = ("embedding",)

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

    def is_pair(self, example: VectorExample) -> bool:
        """Returns False: each text is a sequence by itself."""
        return False

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
        return found

    def _check_label(self, row: TableRow, label: str, possible: Sequence[str] | None) -> None:
        """Nothing: only `Similarity` has scores."""

    @classmethod
    def features(
        cls, examples: Sequence[Any], labels: Sequence[str], text_features: "TextFeatures"
    ) -> TaskFeatures:
        """See `Task.features`."""
        texts = [text for example in examples for text in example.sequences]
        count = len(examples[0].sequences)
        return TaskFeatures(*tokens_of(text_features, [texts]), cls._targets(examples), {}, count)

    @staticmethod
    def _targets(examples: Sequence[VectorExample]) -> dict[str, np.ndarray]:
        return {"text_ids": text_ids_of(examples)}

    @staticmethod
    def answer(
        labels: Sequence[str], example: Any, outputs: Mapping[str, Any], i: int
    ) -> dict[str, Any]:
        """Returns the vector."""
        return {"embedding": outputs["embedding"][i].tolist()}

    def check_model(self, model: Model, example: Any) -> None:
        """Refuses a model that takes anything else than one text, or gives no embedding."""
        check_signature(model, self.OUTPUTS, ["text"])

    def _vectors(
        self, loaded: Any, rows: Sequence[Row], output: str = "embedding"
    ) -> list[np.ndarray]:
        """Returns an output of the model for the texts of each row, [texts, H] each."""
        texts = [text for row in rows for text in row.example.sequences]
        # Texts of like length cost less together; equal ones are computed once.
        distinct = sorted(set(texts), key=lambda text: (len(text), text))
        found: dict[str, np.ndarray] = {}
        for start in range(0, len(distinct), len(rows)):
            some = distinct[start : start + len(rows)]
            outputs = call_on_texts(loaded, [{"text": text} for text in some])
            found |= dict(zip(some, outputs[output], strict=True))
        return [np.stack([found[text] for text in row.example.sequences]) for row in rows]


@dataclasses.dataclass(frozen=True)
class RetrievalTask(VectorTask):
    """A task that asks for vectors by which a text finds the one that answers it.

    The columns are the text, the one that it must find, and any number of hard negatives.
    """

    choice_columns: tuple[str, ...] = ("negative*",)
    metrics: tuple[str, ...] = ("ndcg_at_10", "mrr_at_10", "recall_at_10")

    COLUMN_FLAGS = frozenset({"text_columns", "choice_columns"})
    OUTCOMES = RankingOutcomes
    FINITE = "ndcg_at_10"  # Vectors that are not finite have no measures that are.
    WEIGHT = ("missed", "whose right text has the worst rank")
    FOLDER: ClassVar[str] = "vectors"
    # Features of a record that only the ranking needs.
    VECTORS: ClassVar[tuple[str, ...]] = ("vectors",)
    WITHOUT_MODEL = "the texts that most queries must find"

    def outcomes(
        self, examples: Sequence[Any], labels: Sequence[str], outputs: Mapping[str, Any]
    ) -> RankingOutcomes:
        """Returns the outcomes of `vectors`, float32 [examples, texts, H]."""
        text_ids = text_ids_of(examples)
        ranked = best_by_vectors(text_ids, outputs["vectors"])
        return RankingOutcomes.of_ranking(text_ids, ranked.tolist())

    def baseline(
        self, train: Sequence[Any], examples: Sequence[Any], labels: Sequence[str]
    ) -> RankingOutcomes:
        """Returns the outcomes of the texts that most queries must find, in the same order."""
        text_ids = text_ids_of(examples)
        return RankingOutcomes.of_ranking(text_ids, [commonest(text_ids)] * len(examples))

    def _choice_columns(self, row: TableRow) -> tuple[str, ...]:
        return self._columns_of_choices(row)

    def _label(self, row: TableRow, possible: Sequence[str] | None) -> None:
        """Refuses scores: a pair of the score 0 would be learnt as a right one."""
        if self.label_column in row and self.text_columns[1] in row:
            reason = f"has a column {self.label_column!r}, and this task takes every pair for a "
            remedy = "learn scores with --task=similarity, or rename the column"
            raise InputError(str(row.bad(f"{reason}right one", remedy)))

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

    @staticmethod
    def truth_of(example: VectorExample, labels: Sequence[str]) -> dict[str, list[Any]]:
        """Returns the ids of the texts."""
        return {"text_ids": [text_id(text) for text in example.sequences]}

    @staticmethod
    def mistake(record: Record, example: VectorExample) -> Mistake:
        """Returns a mistake whose weight is 1 less the reciprocal rank of the first right text."""
        found = record["found"][0].decode()
        return Mistake(
            example.text,
            excerpt(example.text_b, _MOST_OF_TEXT),
            excerpt(found, _MOST_OF_TEXT),
            1 - record["mrr_at_10"][0],
        )

    def _best(self, model: Model, text_ids: np.ndarray, records: Sequence[Record]) -> np.ndarray:
        """Returns the texts that each row's query finds, see `ranking.best_of`.

        Raises:
          InputError: a vector has a component that is not a finite number.
        """
        raise NotImplementedError

    def completed(
        self, model: Model, rows: Sequence[Row], records: Sequence[Record]
    ) -> list[Record]:
        """Returns the records with what their queries find among the texts of all rows.

        Raises:
          InputError: a vector has a component that is not a finite number.
        """
        text_ids = np.array([record["text_ids"] for record in records], np.int64)
        ranked = self._best(model, text_ids, records)
        scores = retrieval_scores(text_ids, ranked.tolist())
        texts = {
            number: text
            for row, ids in zip(rows, text_ids.tolist(), strict=True)
            for number, text in zip(ids, row.example.sequences, strict=True)
        }
        found = []
        for number, record in enumerate(records):
            kept = {name: values for name, values in record.items() if name not in self.VECTORS}
            kept |= {name: [float(values[number])] for name, values in scores.items()}
            kept["found"] = [texts[int(ranked[number, 0])].encode()]
            found.append(kept)
        return found


@dataclasses.dataclass(frozen=True)
class Embedding(RetrievalTask):
    """A task that asks for one vector of each text, by which it finds the one that answers it."""

    kind: ClassVar[str] = EMBEDDING
    OBJECTIVE: ClassVar[str] = "beambert.trainer.tasks.vectors:VectorObjective"

    def predict(self, model: Model, loaded: Any, rows: Sequence[Row]) -> list[Record]:
        """Returns the vectors; `completed` makes rankings of all."""
        return [{"vectors": vectors.ravel().tolist()} for vectors in self._vectors(loaded, rows)]

    def _best(self, model: Model, text_ids: np.ndarray, records: Sequence[Record]) -> np.ndarray:
        vectors = np.array([record["vectors"] for record in records], np.float32)
        check_finite(vectors, "embeddings", model)
        return best_by_vectors(text_ids, vectors.reshape(*text_ids.shape, -1))


@dataclasses.dataclass(frozen=True)
class Similarity(VectorTask, NumberKind):
    """A task that asks for vectors whose cosines follow the scores of pairs.

    Attributes:
      loss: `COSENT` or `COSINE`.
    """

    OUTCOMES = CosineOutcomes

    kind: ClassVar[str] = SIMILARITY
    OBJECTIVE: ClassVar[str] = "beambert.trainer.tasks.vectors:VectorObjective"
    metrics: tuple[str, ...] = ("spearman", "pearson")
    loss: str = COSENT

    LEARNING_FLAGS = _VECTOR_FLAGS | {"loss"}
    WEIGHT = ("difference of ranks", "whose rank by the cosine is furthest from that by the label")
    WITHOUT_MODEL = "the same cosine for all"

    def outcomes(
        self, examples: Sequence[Any], labels: Sequence[str], outputs: Mapping[str, Any]
    ) -> CosineOutcomes:
        """Returns the outcomes of the cosines of `vectors`, float32 [examples, 2, H]."""
        vectors_NSH = outputs["vectors"]
        lengths = np.linalg.norm(vectors_NSH, axis=-1, keepdims=True)
        units = vectors_NSH / np.maximum(lengths, 1e-12)
        cosines = (units[:, 0] * units[:, 1]).sum(axis=-1)
        return CosineOutcomes(numbers_of(examples), cosines.astype(float))

    def _needs_label(self, row: dict[str, str]) -> bool:
        return self.text_columns[1] in row

    def check_file(self, path: pathlib.Path, examples: Sequence[VectorExample]) -> None:
        """Refuses also single texts with scores, which only a pair can have."""
        super().check_file(path, examples)
        if examples[0].text_b is None and any(example.label is not None for example in examples):
            raise InputError(
                f"{path}: has a column {self.label_column!r} but no column "
                f"{self.text_columns[1]!r}, the text that each score is about; add it, or name "
                "both texts in --text_columns"
            )

    def _check_label(self, row: TableRow, label: str, possible: Sequence[str] | None) -> None:
        if not is_number(label):
            raise row.bad(f"has {label!r} for a score", "write a finite number")
        if self.loss == COSINE and not -1 <= float(label) <= 1:
            reason = f"has the score {label}, which no cosine can be (--loss={COSINE})"
            remedy = f"scale the scores to -1 to 1, or take --loss={COSENT}"
            raise row.bad(reason, remedy)

    def learning_settings(self) -> dict[str, Any]:
        """Returns how the vectors are learnt."""
        return {"loss": self.loss} | super().learning_settings()

    @staticmethod
    def _targets(examples: Sequence[VectorExample]) -> dict[str, np.ndarray]:
        targets = VectorTask._targets(examples)
        if examples[0].label is not None:
            scores = [float(example.label) for example in examples]
            targets["label_ids"] = np.array(scores, np.float32)
        return targets

    @classmethod
    def mistakes(cls, records: Sequence[Record], examples: Sequence[TextExample]) -> list[Mistake]:
        """Returns mistakes whose weight is the distance from the ranks of the label.

        Examples with the same label may have its ranks in any order.
        """
        labels, scores = (
            np.array([record[name][0] for record in records]) for name in ("number", "score")
        )
        first, last = _ranks(labels)
        ranks = np.mean(_ranks(scores), axis=0)
        weights = np.maximum(np.maximum(first - ranks, ranks - last), 0.0)
        found = super().mistakes(records, examples)
        return [
            dataclasses.replace(mistake, weight=weight)
            for mistake, weight in zip(found, weights.tolist(), strict=True)
        ]

    def predict(self, model: Model, loaded: Any, rows: Sequence[Row]) -> list[Record]:
        """Returns the cosines of the vectors of pairs."""
        found = []
        for vectors in self._vectors(loaded, rows):
            score = vectors[0] @ vectors[1] / max(np.prod(np.linalg.norm(vectors, axis=1)), 1e-12)
            found.append({"score": [float(score)]})
        return found
