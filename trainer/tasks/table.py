"""The Keras half of each kind of task; its NumPy half is in `declarations.KINDS`."""

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
from beambert.trainer.tasks.base import TaskObjective
from beambert.trainer.tasks.labels import (
    ChoiceObjective,
    ClassificationObjective,
    MultiLabelObjective,
)
from beambert.trainer.tasks.late_interaction import InteractionObjective
from beambert.trainer.tasks.numbers import RegressionObjective, RelevanceObjective
from beambert.trainer.tasks.span import SpanObjective
from beambert.trainer.tasks.tagging import TaggingObjective
from beambert.trainer.tasks.vectors import VectorObjective

OBJECTIVES: dict[str, type[TaskObjective]] = {
    CLASSIFICATION: ClassificationObjective,
    MULTI_LABEL: MultiLabelObjective,
    REGRESSION: RegressionObjective,
    RERANK: RelevanceObjective,
    CHOICE: ChoiceObjective,
    TAGGING: TaggingObjective,
    SPAN: SpanObjective,
    EMBEDDING: VectorObjective,
    SIMILARITY: VectorObjective,
    LATE_INTERACTION: InteractionObjective,
}
