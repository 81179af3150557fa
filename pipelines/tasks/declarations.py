"""Tasks: which files, columns, labels and metrics a supervised data folder has.

A task is one declaration in `TASKS`; `pipelines.tasks.examples` reads
it. The standard library alone.
"""

import dataclasses
from collections.abc import Mapping

from beambert.pipelines.shared.errors import InputError

# What a task asks for: a label of a text or a pair; a number; one of several endings; a label of
# every word; an answer's place in a text.
CLASSIFICATION, REGRESSION, CHOICE, TAGGING, SPAN = KINDS = (
    "classification",
    "regression",
    "choice",
    "tagging",
    "span",
)
# Names of `pipelines.tasks.metrics` by kind, where a task doesn't declare its own.
DEFAULT_METRICS = {
    CLASSIFICATION: ("accuracy",),
    REGRESSION: ("pearson", "spearman"),
    CHOICE: ("accuracy",),
    TAGGING: ("entity_f1", "entity_precision", "entity_recall"),
    SPAN: ("squad_f1", "exact_match"),
}
TRAIN, DEV, TEST = "train", "dev", "test"
# Default length of the inputs where no pre-training says another, run_classifier.py's; and always
# of a question with a part of its context, run_squad.py's.
DEFAULT_LENGTH, DEFAULT_SPAN_LENGTH = 128, 384
# No shorter sequence has room for a text.
SHORTEST_LENGTH = 8


@dataclasses.dataclass(frozen=True)
class Task:
    """Where a task keeps its examples, and how its answers are judged.

    Attributes:
      name: what `--task=` takes.
      kind: one of `KINDS`.
      files: split -> file. A name without an ending stands for that name with any of the endings
        of its kind.
      text_columns: the column of the text and, for a pair, of the second text; of a choice, what
        its endings begin with.
      label_column: the column of the label; of a choice, the index of the right ending.
      labels: the labels in index order, or None to take those of the train split, sorted.
      choice_columns: of the endings; one that ends in `*` stands for all that begin like it.
      text_b_is_optional: the second text column counts only where the file has it.
      headerless_columns: names of the columns of train and dev where those files have no header
        line; the test file always has one.
      metrics: names of `pipelines.tasks.metrics`; the first is what a sweep and a threshold go by.
      positive_label: of what precision and recall are, where F1 is a metric.
      allows_no_answer: whether a question may have none, which then is what "" answers.
      title: of the leaderboard's files, for the tasks of GLUE.
    """

    name: str
    kind: str = CLASSIFICATION
    files: Mapping[str, str] = dataclasses.field(
        default_factory=lambda: {TRAIN: "train.tsv", DEV: "dev.tsv", TEST: "test.tsv"}
    )
    text_columns: tuple[str, ...] = ("sentence",)
    label_column: str = "label"
    labels: tuple[str, ...] | None = None
    choice_columns: tuple[str, ...] = ()
    text_b_is_optional: bool = False
    headerless_columns: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    positive_label: str | None = None
    allows_no_answer: bool = False
    title: str | None = None

    def __post_init__(self) -> None:
        """Fills in the kind's metrics."""
        if not self.metrics:
            object.__setattr__(self, "metrics", DEFAULT_METRICS[self.kind])


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
        # The user's own.
        Task(
            "classification",
            files=_own_files(),
            text_columns=("text", "text_b"),
            text_b_is_optional=True,
        ),
        Task(
            "regression",
            REGRESSION,
            _own_files(),
            text_columns=("text", "text_b"),
            text_b_is_optional=True,
        ),
        Task(
            "choice",
            CHOICE,
            _own_files(),
            text_columns=("text", "text_b"),
            choice_columns=("choice*",),
            text_b_is_optional=True,
        ),
        Task("tagging", TAGGING, _own_files()),
        Task("word_labels", TAGGING, _own_files(), metrics=("accuracy",)),
        # GLUE (Wang et al. 2019, arXiv 1804.07461, table 1), https://gluebenchmark.com/tasks.
        Task(
            "cola",
            labels=_YES_OR_NO,
            headerless_columns=("source", "label", "original_judgement", "sentence"),
            metrics=("matthews_correlation",),
            title="CoLA",
        ),
        Task(
            "mnli",
            files=_MNLI_FILES,
            text_columns=_PAIR,
            label_column="gold_label",
            labels=("contradiction", "entailment", "neutral"),
            title="MNLI",
        ),
        Task(
            "mrpc",
            text_columns=("#1 String", "#2 String"),
            label_column="Quality",
            labels=_YES_OR_NO,
            metrics=("f1", "accuracy"),
            positive_label="1",
            title="MRPC",
        ),
        Task("qnli", text_columns=("question", "sentence"), labels=_ENTAILMENT, title="QNLI"),
        Task(
            "qqp",
            text_columns=("question1", "question2"),
            label_column="is_duplicate",
            labels=_YES_OR_NO,
            metrics=("f1", "accuracy"),
            positive_label="1",
            title="QQP",
        ),
        Task("rte", text_columns=_PAIR, labels=_ENTAILMENT, title="RTE"),
        Task("sst-2", labels=_YES_OR_NO, title="SST-2"),
        Task("sts-b", REGRESSION, text_columns=_PAIR, label_column="score", title="STS-B"),
        Task("wnli", text_columns=_PAIR, labels=_YES_OR_NO, title="WNLI"),
        # Four endings (Zellers et al. 2018, arXiv 1808.05326; Chen et al. 2019, arXiv 1904.04365).
        Task(
            "swag",
            CHOICE,
            {TRAIN: "train.csv", DEV: "val.csv", TEST: "test.csv"},
            text_columns=("sent1", "sent2"),
            choice_columns=("ending0", "ending1", "ending2", "ending3"),
        ),
        Task(
            "codah",
            CHOICE,
            text_columns=("prompt",),
            choice_columns=("ending0", "ending1", "ending2", "ending3"),
            headerless_columns=(
                "category",
                "prompt",
                *("ending0", "ending1", "ending2", "ending3"),
                "label",
            ),
        ),
        # Named entities (Tjong Kim Sang and De Meulder 2003; Derczynski et al. 2017).
        Task("conll2003", TAGGING, {TRAIN: "eng.train", DEV: "eng.testa", TEST: "eng.testb"}),
        Task(
            "wnut17",
            TAGGING,
            {
                TRAIN: "wnut17train.conll",
                DEV: "emerging.dev.conll",
                TEST: "emerging.test.annotated",
            },
        ),
        # Rajpurkar et al. 2016 and 2018 (arXiv 1606.05250, 1806.03822).
        Task(
            "squad1.1",
            SPAN,
            {TRAIN: "train-v1.1.json", DEV: "dev-v1.1.json"},
            text_columns=("question", "context"),
        ),
        Task(
            "squad2.0",
            SPAN,
            {TRAIN: "train-v2.0.json", DEV: "dev-v2.0.json"},
            text_columns=("question", "context"),
            allows_no_answer=True,
        ),
    )
}
# Whose columns are the user's own.
OWN_TASKS = (CLASSIFICATION, REGRESSION, CHOICE, TAGGING, "word_labels")
# What the benchmark's average is over.
GLUE_TASKS = tuple(name for name, task in TASKS.items() if task.title)


def find_task(name: str) -> Task:
    """Returns the task of that name; case and hyphens do not matter.

    Raises:
      InputError: no task has that name.
    """
    by_plain_name = {_plain(known): task for known, task in TASKS.items()}
    if _plain(name) not in by_plain_name:
        raise InputError(f"--task={name} is not a task: choose one of {', '.join(TASKS)}.")
    return by_plain_name[_plain(name)]


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")
