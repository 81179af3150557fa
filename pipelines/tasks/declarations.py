"""The declarations of all tasks: the files, columns, labels and metrics of each.

A task is one entry of `TASKS`, an instance of a kind; `reading` reads its files. A kind is a
subclass of `Task`, and of `TaskObjective` for Keras. CONTRIBUTING.md adds one.

This module needs no TensorFlow.
"""

import importlib.metadata

from beambert.errors import InputError
from beambert.flags import meant
from beambert.pipelines.tasks.choice import Choice
from beambert.pipelines.tasks.classification import Classification
from beambert.pipelines.tasks.late_interaction import LateInteraction
from beambert.pipelines.tasks.multi_label import MultiLabel
from beambert.pipelines.tasks.regression import Regression, Rerank
from beambert.pipelines.tasks.span import Span
from beambert.pipelines.tasks.sparse import Sparse
from beambert.pipelines.tasks.tagging import Tagging
from beambert.pipelines.tasks.task import DEV, KINDS, OWN_FILES, TEST, TRAIN, Task
from beambert.pipelines.tasks.vectors import Embedding, Similarity

# Entry points of other packages whose loading defines kinds.
KINDS_GROUP = "beambert.kinds"


def own_task(kind: type[Task]) -> Task:
    """Returns the task of a kind on the user's own data, which has the name of the kind."""
    return kind(kind.kind, OWN_FILES, **kind.OWN)


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
        *map(own_task, (Classification, MultiLabel, Regression, Choice, Tagging)),
        Tagging("word_labels", OWN_FILES, metrics=("accuracy",)),
        *map(own_task, (Embedding, Similarity, Rerank, LateInteraction, Sparse)),
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
# The tasks in GLUE's average score.
GLUE_TASKS = tuple(name for name, task in TASKS.items() if task.title)


def find_task(name: str) -> Task:
    """Returns the task with a name; case, hyphens and underscores do not matter.

    Raises:
      InputError: no task has that name.
    """
    by_plain_name = {_plain(known): task for known, task in TASKS.items()}
    if _plain(name) not in by_plain_name:
        _load_others()
        if name in KINDS and KINDS[name].OWN is not None:
            return own_task(KINDS[name])
        nearest = meant(name, TASKS)
        advice = f"did you mean {nearest}? Or choose" if nearest else "choose"
        raise InputError(f"--task={name}: not a task; {advice} one of {', '.join(TASKS)}")
    return by_plain_name[_plain(name)]


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def kind_of(name: str) -> type[Task]:
    """Returns the kind with a name.

    Raises:
      InputError: no kind has that name.
    """
    if name not in KINDS:
        _load_others()
    if name not in KINDS:
        raise InputError(
            f"--task: {name!r} is not a kind of task here; install the package that defines it, "
            f"with an entry point of the group {KINDS_GROUP}"
        )
    return KINDS[name]


def _load_others() -> None:
    for entry in importlib.metadata.entry_points(group=KINDS_GROUP):
        entry.load()
