"""Answers that need no model: each word's usual tag in the training file.

A tagging has no constant answer that means something: always O finds no entity. The usual tag of
each word is the most frequent class baseline of Jurafsky and Martin (Speech and Language
Processing, 3rd edition, chapter on sequence labeling).
"""

import collections
from collections.abc import Iterable, Mapping, Sequence

from beambert.pipelines.evaluation.job import EvaluationJob
from beambert.pipelines.evaluation.outcomes import OUTCOMES, Outcomes
from beambert.pipelines.tasks.examples import TaggedExample, read_file
from beambert.pipelines.tasks.files import has_split
from beambert.pipelines.tasks.task import TAGGING, TRAIN

USUAL_TAGS = "each word's usual tag in train"


def answers_of_train(job: EvaluationJob, examples: Sequence[TaggedExample]) -> dict[str, Outcomes]:
    """Returns the outcomes of the answers that the training file gives without a model, by name.

    There are none for kinds other than tagging, without a training file, or on the training file.

    Args:
      job: the evaluation, with a local folder of data.
      examples: the examples of the split.

    Raises:
      InputError: the training file cannot be read.
    """
    task = job.task
    if task.kind != TAGGING or job.split == TRAIN or not has_split(task, job.data_dir, TRAIN):
        return {}
    train = read_file(task, job.data_dir, TRAIN, skip_bad_rows=True).examples
    if any(example.tags is None for example in train):
        return {}
    tag_of = usual_tags(train)
    usual = usual_tag(tag for example in train for tag in example.tags)
    records = [
        {
            "tags": example.tags,
            "predicted_tags": [tag_of.get(word, usual) for word in example.words],
        }
        for example in examples
    ]
    return {USUAL_TAGS: OUTCOMES[TAGGING].of_records(records)}


def usual_tags(train: Iterable[TaggedExample]) -> Mapping[str, str]:
    """Returns word -> its commonest tag; the first in the alphabet among equally common ones."""
    tags = collections.defaultdict(list)
    for example in train:
        for word, tag in zip(example.words, example.tags, strict=True):
            tags[word].append(tag)
    return {word: usual_tag(of_word) for word, of_word in tags.items()}


def usual_tag(tags: Iterable[str]) -> str:
    """Returns the commonest tag; the first in the alphabet among equally common ones."""
    counts = collections.Counter(tags)
    return min(counts, key=lambda tag: (-counts[tag], tag))
