"""Late interaction."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import keras
from keras import ops

from beambert.errors import InputError
from beambert.model.classifier import Head
from beambert.model.config import EncoderConfig
from beambert.model.sentence_encoder import TokenEncoder
from beambert.pipelines.tasks.late_interaction import DOCUMENTS, KEPT, QUERIES, LateInteraction
from beambert.pipelines.tasks.saved_models import ID_INPUTS
from beambert.pipelines.tasks.texts import InteractionFeatures
from beambert.pipelines.tokenizers.vocabulary import TokenizerVocabulary
from beambert.trainer.loop.objectives import Features, Sums, Tensor, example_weights
from beambert.trainer.tasks.base import TaskObjective
from beambert.trainer.tasks.vectors import (
    VectorData,
    VectorObjective,
    contrast,
    first_seed,
)

if TYPE_CHECKING:
    from beambert.trainer.tasks.graph import TaskGraph

# The cosine of a token that does not count; no cosine is less than -1.
_LESS_THAN_COSINES = -2.0


def max_sim(queries_BQH: Tensor, documents_CLH: Tensor, counts_CL: Tensor) -> Tensor:
    """Returns the score of each document for each query by late interaction, float32 [B, C].

    It is the sum over the tokens of the query of the greatest cosine with any token of the document
    (Khattab and Zaharia 2020, ColBERT, arXiv 2004.12832, section 3.3).

    Args:
      queries_BQH: vectors of the tokens of queries, of length 1.
      documents_CLH: vectors of the tokens of documents, of length 1.
      counts_CL: whether a token of a document counts, bool.
    """
    _, tokens, width = queries_BQH.shape
    length = documents_CLH.shape[1]
    flat = ops.reshape(queries_BQH, [-1, width]), ops.reshape(documents_CLH, [-1, width])
    shape = [-1, tokens, ops.shape(documents_CLH)[0], length]
    cosines_BQCL = ops.reshape(ops.matmul(flat[0], ops.transpose(flat[1])), shape)
    cosines_BQCL = ops.where(counts_CL, cosines_BQCL, _LESS_THAN_COSINES)
    return ops.sum(ops.max(cosines_BQCL, axis=-1), axis=1)


class TokenVectors(NamedTuple):
    """The vectors of a batch.

    Attributes:
      queries: float32 [B, Q, H].
      documents: float32 [B, S - 1, L, H].
      counts: whether a token of a document counts, bool [B, S - 1, L].
    """

    queries: Tensor
    documents: Tensor
    counts: Tensor


class InteractionData(VectorData):
    """Queries that must find documents by the vectors of their tokens."""

    # A query and a document have no sequence in common.
    HAS_SEGMENTS = False

    def text_features(self, job: Any, *given: Any) -> InteractionFeatures:
        """Returns what makes the inputs of queries and documents."""
        vocabulary, _, max_seq_length = given
        length = self.task.query_length
        if length > max_seq_length:
            raise InputError(
                f"--query_length={length}: must be at most {max_seq_length}, the number of "
                "tokens of a document (--max_seq_length)"
            )
        if isinstance(vocabulary, TokenizerVocabulary):
            raise InputError(
                f"--task={self.task.name}: needs an encoder of word pieces, and that of "
                f"--init={job.init} has a tokenizer.json; give another encoder"
            )
        return InteractionFeatures(*given, length)

    @property
    def _room(self) -> str:
        return f"{super()._room} and --query_length={self.task.query_length}"


class InteractionObjective(VectorObjective):
    """The in-batch loss of the scores of documents.

    Each query must find its document among all documents of the batch, hard negatives included. The
    paper has one negative for each query (section 3.3), and ColBERTv2 adds those of the batch
    (Santhanam et al. 2022, arXiv 2112.01488, section 3.2).
    """

    DATA = InteractionData
    ONNX_OUTPUT = "embeddings"
    # `transformers` loads the encoder alone; ColBERT's own code and MultiVectorEncoder of
    # sentence-transformers 6 read the rest.
    HUGGING_FACE_CONFIG = {"architectures": ["HF_ColBERT"]}
    NOT_FOR_SENTENCES = (
        "makes vectors of tokens; export it with --to=huggingface, whose folder "
        "MultiVectorEncoder of sentence-transformers loads"
    )

    def __init__(
        self, lengths: Sequence[int], task: LateInteraction, text_features: InteractionFeatures
    ):
        """Takes the lengths, see `TaskObjective`, the task and the converter of its texts."""
        super().__init__(lengths, task, text_features.query_length)
        self._text_features = text_features

    @classmethod
    def of_data(cls, data: InteractionData, lengths: Sequence[int]) -> TaskObjective:
        """Returns the objective for the examples of a task."""
        return cls(lengths, data.task, data.converter)

    @staticmethod
    def model(config: EncoderConfig, num_labels: int, seed: int, head: Head) -> keras.Model:
        """Returns an encoder of tokens."""
        return TokenEncoder(config, seed)

    def logits(
        self, model: keras.Model, features: Features, dropout_seed: Tensor | None
    ) -> TokenVectors:
        """Returns the vectors of the tokens."""
        given = {name: features[name] for name in ID_INPUTS}
        length = given["input_ids"].shape[2]
        size = self._text_features.query_length
        missing = [[0, 0], [0, 0], [0, max(size - length, 0)]]
        first = {name: ops.pad(each[:, :1, :size], missing) for name, each in given.items()}
        others = {name: each[:, 1:] for name, each in given.items()}
        seed = first_seed(dropout_seed)
        queries = self._encoded(model, self._text_features.expanded(first, ops), seed)
        documents = self._encoded(model, others, dropout_seed)
        return TokenVectors(queries[:, 0], documents, self._text_features.counting(others, ops))

    def sums_of(self, logits: TokenVectors, features: Features) -> Sums:
        """Returns the sums over the examples of the loss (nats) and of the texts that are found."""
        rows = example_weights(features)
        _, _, length, width = logits.documents.shape
        # The right documents of all examples come first, then the first negatives of all.
        documents = ops.reshape(ops.transpose(logits.documents, [1, 0, 2, 3]), [-1, length, width])
        counts = ops.reshape(ops.transpose(logits.counts, [1, 0, 2]), [-1, length])
        scores = max_sim(logits.queries, documents, counts)
        losses, is_found = contrast(scores / self._task.temperature, features["text_ids"], rows)
        return {
            "cross_entropy": ops.sum(rows * losses),
            "in_batch_accuracy": ops.sum(rows * is_found),
        }

    def outputs_of(self, logits: TokenVectors) -> dict[str, Tensor]:
        """Returns the vectors by name, as 16 bits, and which of them count.

        Those of documents are padded to the greatest length, as all ways return equal shapes.
        """
        spare = [[0, 0], [0, 0], [0, self.lengths[-1] - logits.counts.shape[2]]]
        return {
            "queries": ops.cast(logits.queries, KEPT),
            "documents": ops.pad(ops.cast(logits.documents, KEPT), [*spare, [0, 0]]),
            "counts": ops.pad(logits.counts, spare),
        }

    @classmethod
    def signatures(cls, graph: "TaskGraph") -> dict[str, Any]:
        """Returns also functions of the vectors of the tokens of queries and of documents."""
        import tensorflow as tf

        from beambert.trainer.tasks.graph import TEXT, traced

        xp = tf.experimental.numpy

        def queries(text: Tensor) -> dict[str, Tensor]:
            features = graph.text_features.expanded(graph.text_features.queries(text), xp)
            return {"embeddings": graph.model(features)}

        def documents(text: Tensor) -> dict[str, Tensor]:
            features = graph.text_features.documents(text)
            counts = tf.cast(graph.text_features.counting(features, xp), tf.int32)
            return {"embeddings": graph.model(features), "counts": counts}

        def answer(text: Tensor, text_b: Tensor) -> dict[str, Tensor]:
            found = documents(text_b)
            # The cosines [n, query length, length] of each query with its own document.
            cosines = tf.matmul(queries(text)["embeddings"], found["embeddings"], transpose_b=True)
            cosines = tf.where(found["counts"][:, None] > 0, cosines, _LESS_THAN_COSINES)
            return {"score": tf.reduce_sum(tf.reduce_max(cosines, axis=2), axis=1)}

        return {
            "serving_default": traced(answer, *graph.inputs),
            QUERIES: traced(queries, TEXT),
            DOCUMENTS: traced(documents, TEXT),
        }
