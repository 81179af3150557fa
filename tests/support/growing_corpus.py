"""A small growing corpus with a task, and the configuration of its retraining."""

import json
import pathlib
import random

from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS
from support.sample_text import WORDS, make_document

RETRAINING = """\
workspace = "{root}/workspace"
input = ["{root}/text/*.jsonl"]
vocab_file = "{root}/vocab.txt"
{more}
[data]
max_seq_length = 32
dupe_factor = 1
num_shards = 1
{data}
[pretrain]
train_batch_size = 8
[pretrain.first]
recipe = "tiny"
model = "{root}/bert_config.json"
num_train_steps = 20
[pretrain.further]
num_train_steps = 10
[finetune]
task = "classification"
data_dir = "{root}/task"
max_seq_length = 24
train_batch_size = 8
learning_rate = {learning_rate}
num_train_epochs = {epochs}
[evaluate]
"""
SENTENCE_OF_A_CLASS = {
    "music": ["song", "album", "music", "played"],
    "town": ["river", "village", "church", "school"],
}

# Vocabulary, encoder and amounts as small as they can be.
BERT_CONFIG = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 32,
    "vocab_size": 0,
}


def write_config(root: pathlib.Path, **values: object) -> pathlib.Path:
    """Writes the configuration and, unless they are there, its task and vocabulary.

    Args:
      root: folder of the configuration.
      **values: `more` and `data` are lines.
    """
    if not (root / "vocab.txt").exists():
        (root / "vocab.txt").write_text("\n".join(SPECIAL_TOKENS) + "\n")
    for split in ("train", "dev"):
        if not (root / "task" / f"{split}.tsv").exists():
            write_task(root, split, 8)
    values = {"more": "", "data": "", "learning_rate": 3e-3, "epochs": 6} | values
    path = root / "retrain.toml"
    path.write_text(RETRAINING.format(root=root, **values))
    return path


def deliver(root: pathlib.Path, number: int, documents: int = 20) -> pathlib.Path:
    """Adds a file of text."""
    generator = random.Random(number)
    rows = [{"text": " ".join(make_document(generator, 8))} for _ in range(documents)]
    path = root / "text" / f"{number}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_task(root: pathlib.Path, split: str, examples: int) -> None:
    """Writes a split of a task that any encoder learns in some updates, also from random weights.

    Two thirds of the words are of the text's class, and no other text has them.
    """
    generator = random.Random(examples)
    others = [word for word in WORDS if word not in sum(SENTENCE_OF_A_CLASS.values(), [])]
    lines = ["text\tlabel"]
    for number in range(examples):
        label = ("music", "town")[number % 2]
        words = generator.choices(others, k=3) + generator.choices(SENTENCE_OF_A_CLASS[label], k=6)
        generator.shuffle(words)
        lines.append(f"{' '.join(words)}\t{label}")
    path = root / "task" / f"{split}.tsv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def make(root: pathlib.Path) -> None:
    """Makes what every retraining needs, with a first delivery."""
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    pieces = [*letters, *(f"##{letter}" for letter in letters), ".", ","]
    vocabulary = [*SPECIAL_TOKENS, *dict.fromkeys([*pieces, *WORDS])]
    (root / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    config = BERT_CONFIG | {"vocab_size": len(vocabulary)}
    (root / "bert_config.json").write_text(json.dumps(config))
    deliver(root, 1)
    write_task(root, "train", 64)
    write_task(root, "dev", 200)
