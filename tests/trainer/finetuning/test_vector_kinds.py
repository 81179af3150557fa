"""Embeddings and similarities: learnt, judged, and the same vectors wherever the model runs."""

import json

import numpy as np
import pytest

from beambert.errors import InputError
from beambert.model.config import BertConfig
from beambert.pipelines.tasks.declarations import find_task
from beambert.pipelines.tasks.reading import read_file
from beambert.trainer.commands.finetune import main as finetune_main

# A word of a question and the words of its answer.
TOPICS = {
    "river": ("city", "people"),
    "war": ("died", "year"),
    "music": ("song", "house"),
    "north": ("village", "there"),
}
FILLER = ("the", "a", "in", "of", "and", "was", "is")


def phrase(random, *words) -> str:
    together = [*random.choice(FILLER, random.integers(1, 4)), *words]
    random.shuffle(together)
    return " ".join(together)


def pair(random) -> tuple[str, str, str]:
    """A question, its answer, and the answer of another question."""
    topic, other = random.choice(list(TOPICS), 2, replace=False)
    answers = (phrase(random, *random.choice(TOPICS[t], 2)) for t in (topic, other))
    return phrase(random, topic), *answers


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root, random = tmp_path_factory.mktemp("vectors"), np.random.default_rng(4)
    for kind in ("embedding", "triplets", "single", "similarity"):
        (root / kind).mkdir()
    for split, count in (("train", 320), ("dev", 48)):
        found = [pair(random) for _ in range(count)]
        pairs = [{"text": text, "text_b": answer} for text, answer, _ in found]
        triplets = [
            row | {"negative": other} for row, (_, _, other) in zip(pairs, found, strict=True)
        ]
        scored = [
            {"text": text, "text_b": (answer, other)[i % 2], "label": 5 - 4 * (i % 2)}
            for i, (text, answer, other) in enumerate(found)
        ]
        single = pairs if split == "dev" else [{"text": text} for text, _, _ in found]
        for kind, rows in (
            ("embedding", pairs),
            ("triplets", triplets),
            ("single", single),
            ("similarity", scored),
        ):
            lines = "".join(f"{json.dumps(row)}\n" for row in rows)
            (root / kind / f"{split}.jsonl").write_text(lines)
    return root


def finetune(task, folder, init, model_dir, *flags):
    common = ("--train_batch_size=16", "--learning_rate=2e-3", "--num_train_epochs=3")
    finetune_main(
        [
            f"--task={task}",
            f"--data_dir={folder}",
            f"--init={init}",
            f"--model_dir={model_dir}",
            *(flag for flag in common if flag.partition("=")[0] not in " ".join(flags)),
            *flags,
        ]
    )
    return json.loads((model_dir / "results.json").read_text())


def written(folder, split, *rows):
    folder.mkdir(exist_ok=True)
    (folder / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(folder)


PAIR = {"text": "the river", "text_b": "a city"}


@pytest.mark.parametrize(
    ("task", "rows", "said"),
    [
        ("similarity", [PAIR | {"label": "NaN"}], "'NaN' for a score"),
        ("similarity", [{"text": "a", "label": "1"}], "no column 'text_b'"),
        ("embedding", [PAIR, {"text": "a"}], "has 'text_b' in some rows only"),
        ("embedding", [PAIR | {"label": "0"}], "--task=similarity"),
        ("embedding", [PAIR | {"negative": "a"}, PAIR], "different numbers of negatives"),
        ("embedding", [{"text": "a", "negative": "b"}], "has negatives but no column 'text_b'"),
    ],
)
def test_rows_that_cannot_be_learnt(tmp_path, task, rows, said):
    with pytest.raises(InputError, match=said.replace("'", ".")):
        read_file(find_task(task), written(tmp_path / "data", "train", *rows), "train")


@pytest.mark.parametrize(
    ("task", "flags", "said"),
    [
        ("embedding", ["--matryoshka_dims=64,999"], "--matryoshka_dims=64,999: "),
        ("embedding", ["--train_batch_size=1"], "--train_batch_size=1: leaves one example"),
        ("embedding", ["--single_texts=cloze"], "has a column .text_b."),
        ("embedding", ["--freeze_encoder"], "--freeze_encoder=True: "),
        ("similarity", ["--loss=cosine"], "has the score 5, which no cosine can be"),
    ],
)
def test_settings_that_cannot_be_used(
    data, small_config_file, vocabulary, tmp_path, task, flags, said
):
    (tmp_path / "vocab.txt").write_bytes(vocabulary.serialize())
    encoder = [f"--model={small_config_file}", f"--vocab_file={tmp_path / 'vocab.txt'}"]
    with pytest.raises(InputError, match=said):
        finetune(task, data / task, "random", tmp_path / "model", *encoder, *flags)


def test_single_texts_need_dropout(data, vocabulary, tmp_path):
    """As ModernBERT's encoders have none by default."""
    config = BertConfig(
        vocab_size=len(vocabulary.tokens),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
    ).with_dropout(0.0)
    (tmp_path / "config.json").write_text(json.dumps(config.to_values()))
    flags = [f"--model={tmp_path / 'config.json'}", f"--vocab_file={tmp_path / 'vocab.txt'}"]
    (tmp_path / "vocab.txt").write_bytes(vocabulary.serialize())
    said = (
        "has no dropout, under which .*; add a column .text_b. to train.* by --single_texts=cloze"
    )
    with pytest.raises(InputError, match=said):
        finetune("embedding", data / "single", "random", tmp_path / "model", *flags)
