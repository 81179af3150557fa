"""What computes the answers of each kind of model."""

from beambert.pipelines.evaluation.predictions import Predictor
from beambert.pipelines.evaluation.span_predictions import SpanPredictor
from beambert.pipelines.evaluation.vector_predictions import (
    CosinePredictor,
    InteractionPredictor,
    RankingPredictor,
)
from beambert.pipelines.tasks.task import (
    CHOICE,
    CLASSIFICATION,
    EMBEDDING,
    LATE_INTERACTION,
    MULTI_LABEL,
    REGRESSION,
    RERANK,
    SIMILARITY,
    SPAN,
    TAGGING,
)

PREDICTORS: dict[str, type[Predictor]] = {
    CLASSIFICATION: Predictor,
    MULTI_LABEL: Predictor,
    REGRESSION: Predictor,
    RERANK: Predictor,
    CHOICE: Predictor,
    TAGGING: Predictor,
    SPAN: SpanPredictor,
    EMBEDDING: RankingPredictor,
    SIMILARITY: CosinePredictor,
    LATE_INTERACTION: InteractionPredictor,
}
