"""BeamBERT: pre-trains BERT on one's own text with Apache Beam and Keras.

The functions and classes for Python programs are attributes of this package: `beambert.pretrain`,
`beambert.PretrainingJob`. Importing the package loads nothing heavy. An attribute loads its library
when it is first asked for, so those of the trainer also work where Apache Beam is not installed.
docs/python.md shows them.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the same names as in the table below, for type checkers and editors
    from beambert.embedding import EmbeddingJob as EmbeddingJob
    from beambert.embedding import embed_files as embed_files
    from beambert.embedding_in_beam import Embed as Embed
    from beambert.errors import InputError as InputError
    from beambert.pipelines.corpus.transforms import DocumentRow as DocumentRow
    from beambert.pipelines.corpus.transforms import ReadDocuments as ReadDocuments
    from beambert.pipelines.corpus.transforms import RejectRow as RejectRow
    from beambert.pipelines.evaluation.measures import Threshold as Threshold
    from beambert.pipelines.evaluation.run import evaluate as evaluate
    from beambert.pipelines.prediction import Predict as Predict
    from beambert.pipelines.prediction import predict as predict
    from beambert.pipelines.pretraining.graph import (
        CreatePretrainingData as CreatePretrainingData,
    )
    from beambert.pipelines.pretraining.job import PretrainingDataJob as PretrainingDataJob
    from beambert.pipelines.pretraining.run import (
        create_pretraining_data as create_pretraining_data,
    )
    from beambert.pipelines.records.batches import read_records as read_records
    from beambert.pipelines.task_jobs import EvaluationJob as EvaluationJob
    from beambert.pipelines.task_jobs import PredictionJob as PredictionJob
    from beambert.pipelines.tasks.declarations import find_task as find_task
    from beambert.pipelines.verification.job import VerificationJob as VerificationJob
    from beambert.pipelines.verification.run import VerifyRecords as VerifyRecords
    from beambert.pipelines.verification.run import verify_records as verify_records
    from beambert.pipelines.vocabulary_learning.graph import LearnVocabulary as LearnVocabulary
    from beambert.pipelines.vocabulary_learning.job import VocabularyJob as VocabularyJob
    from beambert.pipelines.vocabulary_learning.run import learn_vocabulary as learn_vocabulary
    from beambert.trainer.asking import fill as fill
    from beambert.trainer.asking import score as score
    from beambert.trainer.comparing import compare as compare
    from beambert.trainer.embedding.embedder import embed as embed
    from beambert.trainer.finetuning.job import FinetuningJob as FinetuningJob
    from beambert.trainer.finetuning.run import finetune as finetune
    from beambert.trainer.loaded_model import load as load
    from beambert.trainer.loop.config import LoopConfig as LoopConfig
    from beambert.trainer.loop.config import OptimizerConfig as OptimizerConfig
    from beambert.trainer.loop.config import TrainingFolders as TrainingFolders
    from beambert.trainer.pretraining.job import PretrainingJob as PretrainingJob
    from beambert.trainer.pretraining.run import pretrain as pretrain
    from beambert.trainer.retrieval.indexing import make_index as make_index
    from beambert.trainer.retrieval.judging import judge as judge
    from beambert.trainer.retrieval.searching import Searcher as Searcher
    from beambert.trainer.serving.versions import export as export
    from beambert.training import TrainJob as TrainJob
    from beambert.training import train as train

# name -> the module that has it
_MODULES = {
    "CreatePretrainingData": "beambert.pipelines.pretraining.graph",
    "DocumentRow": "beambert.pipelines.corpus.transforms",
    "Embed": "beambert.embedding_in_beam",
    "EmbeddingJob": "beambert.embedding",
    "EvaluationJob": "beambert.pipelines.task_jobs",
    "FinetuningJob": "beambert.trainer.finetuning.job",
    "InputError": "beambert.errors",
    "LearnVocabulary": "beambert.pipelines.vocabulary_learning.graph",
    "LoopConfig": "beambert.trainer.loop.config",
    "OptimizerConfig": "beambert.trainer.loop.config",
    "Predict": "beambert.pipelines.prediction",
    "PredictionJob": "beambert.pipelines.task_jobs",
    "PretrainingDataJob": "beambert.pipelines.pretraining.job",
    "PretrainingJob": "beambert.trainer.pretraining.job",
    "ReadDocuments": "beambert.pipelines.corpus.transforms",
    "RejectRow": "beambert.pipelines.corpus.transforms",
    "Searcher": "beambert.trainer.retrieval.searching",
    "Threshold": "beambert.pipelines.evaluation.measures",
    "TrainJob": "beambert.training",
    "TrainingFolders": "beambert.trainer.loop.config",
    "VerificationJob": "beambert.pipelines.verification.job",
    "VerifyRecords": "beambert.pipelines.verification.run",
    "VocabularyJob": "beambert.pipelines.vocabulary_learning.job",
    "compare": "beambert.trainer.comparing",
    "create_pretraining_data": "beambert.pipelines.pretraining.run",
    "embed": "beambert.trainer.embedding.embedder",
    "embed_files": "beambert.embedding",
    "evaluate": "beambert.pipelines.evaluation.run",
    "export": "beambert.trainer.serving.versions",
    "fill": "beambert.trainer.asking",
    "find_task": "beambert.pipelines.tasks.declarations",
    "finetune": "beambert.trainer.finetuning.run",
    "judge": "beambert.trainer.retrieval.judging",
    "learn_vocabulary": "beambert.pipelines.vocabulary_learning.run",
    "load": "beambert.trainer.loaded_model",
    "make_index": "beambert.trainer.retrieval.indexing",
    "predict": "beambert.pipelines.prediction",
    "pretrain": "beambert.trainer.pretraining.run",
    "read_records": "beambert.pipelines.records.batches",
    "score": "beambert.trainer.asking",
    "train": "beambert.training",
    "verify_records": "beambert.pipelines.verification.run",
}
__all__ = list(_MODULES)

if not TYPE_CHECKING:  # a type checker would take any name for one that is there

    def __getattr__(name: str) -> object:
        """Loads what is asked for, quietly."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from beambert.process import loading

        with loading():
            found = getattr(importlib.import_module(_MODULES[name]), name)
        globals()[name] = found  # the next time this function is not called
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
