"""The declarations of all tasks: the files, columns, labels and metrics of each.

A task is one entry of `TASKS`, an instance of a kind; `reading` reads its files. A kind is a
subclass of `Task` in a module of its own, an entry of `KINDS`, and one of `TaskObjective` in
`trainer.tasks`. See CONTRIBUTING.md for how to add one.

This module needs no TensorFlow.
"""

from beambert.errors import InputError
from beambert.flags import meant
from beambert.pipelines.tasks.choice import Choice
from beambert.pipelines.tasks.classification import Classification
from beambert.pipelines.tasks.late_interaction import LateInteraction
from beambert.pipelines.tasks.multi_label import MultiLabel
from beambert.pipelines.tasks.regression import Regression, Rerank
from beambert.pipelines.tasks.span import Span
from beambert.pipelines.tasks.tagging import Tagging
from beambert.pipelines.tasks.task import (
    CHOICE,
    CLASSIFICATION,
    DEV,
    EMBEDDING,
    LATE_INTERACTION,
    MULTI_LABEL,
    REGRESSION,
    RERANK,
    SIMILARITY,
    SPAN,
    TAGGING,
    TEST,
    TRAIN,
    Task,
)
from beambert.pipelines.tasks.vectors import Embedding, Similarity


def _own_files() -> dict[str, str]:
    return {TRAIN: "train", DEV: "dev", TEST: "test"}


_PAIR = ("sentence1", "sentence2")
_ENTAILMENT = ("entailment", "not_entailment")
_YES_OR_NO = ("0", "1")
_MNLI_FILES = {
    TRAIN: "train.tsv",
    DEV: "dev_matched.tsv",
    "dev_mismatched": "dev_mismatched.tsv",
    TEST: "test_matched.tsv",
    "test_mismatched": "test_mismatched.tsv",
}
TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        # Tasks on the user's own data.
        Classification(
            "classification",
            files=_own_files(),
            text_columns=("text", "text_b"),
            text_b_is_optional=True,
        ),
        MultiLabel(
            "multi_label",
            _own_files(),
            text_columns=("text", "text_b"),
            text_b_is_optional=True,
        ),
        Regression(
            "regression",
            _own_files(),
            text_columns=("text", "text_b"),
            text_b_is_optional=True,
        ),
        Choice(
            "choice",
            _own_files(),
            text_columns=("text", "text_b"),
            choice_columns=("choice*",),
            text_b_is_optional=True,
        ),
        Tagging("tagging", _own_files()),
        Tagging("word_labels", _own_files(), metrics=("accuracy",)),
        Embedding("embedding", _own_files(), text_columns=("text", "text_b")),
        Similarity("similarity", _own_files(), text_columns=("text", "text_b")),
        Rerank("rerank", _own_files(), text_columns=("text", "text_b")),
        LateInteraction("late_interaction", _own_files(), text_columns=("text", "text_b")),
        # The tasks of GLUE (Wang et al. 2019, arXiv 1804.07461, table 1), https://gluebenchmark.com/tasks.
        Classification(
            "cola",
            labels=_YES_OR_NO,
            headerless_columns=("source", "label", "original_judgement", "sentence"),
            metrics=("matthews_correlation",),
            title="CoLA",
        ),
        Classification(
            "mnli",
            files=_MNLI_FILES,
            text_columns=_PAIR,
            label_column="gold_label",
            labels=("contradiction", "entailment", "neutral"),
            title="MNLI",
        ),
        Classification(
            "mrpc",
            text_columns=("#1 String", "#2 String"),
            label_column="Quality",
            labels=_YES_OR_NO,
            metrics=("f1", "accuracy"),
            positive_label="1",
            title="MRPC",
        ),
        Classification(
            "qnli", text_columns=("question", "sentence"), labels=_ENTAILMENT, title="QNLI"
        ),
        Classification(
            "qqp",
            text_columns=("question1", "question2"),
            label_column="is_duplicate",
            labels=_YES_OR_NO,
            metrics=("f1", "accuracy"),
            positive_label="1",
            title="QQP",
        ),
        Classification("rte", text_columns=_PAIR, labels=_ENTAILMENT, title="RTE"),
        Classification("sst-2", labels=_YES_OR_NO, title="SST-2"),
        Regression("sts-b", text_columns=_PAIR, label_column="score", title="STS-B"),
        Classification("wnli", text_columns=_PAIR, labels=_YES_OR_NO, title="WNLI"),
        # Choices among four endings: Zellers et al. 2018 (arXiv 1808.05326), Chen et al. 2019
        # (arXiv 1904.04365).
        Choice(
            "swag",
            {TRAIN: "train.csv", DEV: "val.csv", TEST: "test.csv"},
            text_columns=("sent1", "sent2"),
            choice_columns=("ending0", "ending1", "ending2", "ending3"),
        ),
        Choice(
            "codah",
            text_columns=("prompt",),
            choice_columns=("ending0", "ending1", "ending2", "ending3"),
            headerless_columns=(
                "category",
                "prompt",
                *("ending0", "ending1", "ending2", "ending3"),
                "label",
            ),
        ),
        # Named entity recognition (Tjong Kim Sang and De Meulder 2003; Derczynski et al. 2017).
        Tagging(
            "conll2003",
            {
                TRAIN: ("eng.train", "train.txt"),
                DEV: ("eng.testa", "valid.txt", "dev.txt"),
                TEST: ("eng.testb", "test.txt"),
            },
        ),
        Tagging(
            "wnut17",
            {
                TRAIN: "wnut17train.conll",
                DEV: "emerging.dev.conll",
                TEST: "emerging.test.annotated",
            },
        ),
        # SQuAD: Rajpurkar et al. 2016 and 2018 (arXiv 1606.05250, 1806.03822).
        Span(
            "squad1.1",
            {TRAIN: "train-v1.1.json", DEV: "dev-v1.1.json"},
            text_columns=("question", "context"),
        ),
        Span(
            "squad2.0",
            {TRAIN: "train-v2.0.json", DEV: "dev-v2.0.json"},
            text_columns=("question", "context"),
            allows_no_answer=True,
        ),
    )
}
# The tasks on the user's own data: the flags can name their columns.
OWN_TASKS = (
    *(CLASSIFICATION, MULTI_LABEL, REGRESSION, CHOICE, TAGGING, "word_labels"),
    *(EMBEDDING, SIMILARITY, RERANK, LATE_INTERACTION),
)
# The tasks in GLUE's average score.
GLUE_TASKS = tuple(name for name, task in TASKS.items() if task.title)


def find_task(name: str) -> Task:
    """Returns the task with a name; case, hyphens and underscores do not matter.

    Raises:
      InputError: no task has that name.
    """
    by_plain_name = {_plain(known): task for known, task in TASKS.items()}
    if _plain(name) not in by_plain_name:
        nearest = meant(name, TASKS)
        advice = f"did you mean {nearest}? Or choose" if nearest else "choose"
        raise InputError(f"--task={name}: not a task; {advice} one of {', '.join(TASKS)}")
    return by_plain_name[_plain(name)]


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


KINDS: dict[str, type[Task]] = {
    CLASSIFICATION: Classification,
    MULTI_LABEL: MultiLabel,
    REGRESSION: Regression,
    RERANK: Rerank,
    CHOICE: Choice,
    TAGGING: Tagging,
    SPAN: Span,
    EMBEDDING: Embedding,
    SIMILARITY: Similarity,
    LATE_INTERACTION: LateInteraction,
}
