"""The Beam transforms of the project and their jobs, for custom pipelines."""

from beambert.pipelines.features import CreateTaskFeatures
from beambert.pipelines.prediction import Predict
from beambert.pipelines.pretraining.graph import CreatePretrainingData
from beambert.pipelines.pretraining.job import PretrainingDataJob
from beambert.pipelines.pretraining.record_parts import MakeBertInstances, WriteRecords
from beambert.pipelines.pretraining.text_parts import (
    Deduplicate,
    DocumentRow,
    InstanceRow,
    ReadDocuments,
    RejectRow,
    SentencesRow,
    SplitSentences,
    Tokenize,
    TokenizedRow,
)
from beambert.pipelines.task_jobs import FeaturesJob, PredictionJob
from beambert.pipelines.verification.job import VerificationJob
from beambert.pipelines.verification.run import VerifyRecords
from beambert.pipelines.vocabulary_learning.graph import LearnVocabulary
from beambert.pipelines.vocabulary_learning.job import VocabularyJob

__all__ = [
    "CreatePretrainingData",
    "CreateTaskFeatures",
    "Deduplicate",
    "DocumentRow",
    "FeaturesJob",
    "InstanceRow",
    "LearnVocabulary",
    "MakeBertInstances",
    "Predict",
    "PredictionJob",
    "PretrainingDataJob",
    "ReadDocuments",
    "RejectRow",
    "SentencesRow",
    "SplitSentences",
    "Tokenize",
    "TokenizedRow",
    "VerificationJob",
    "VerifyRecords",
    "VocabularyJob",
    "WriteRecords",
]
