"""The public names, for type checkers, editors and `__init__.py`."""

from beambert.embedding import EmbeddingJob as EmbeddingJob
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
from beambert.trainer.embedding.writing import embed_files as embed_files
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
