"""Embeddings and similarities: learnt, judged, and the same vectors wherever the model runs."""

import json

import pytest

from beambert.errors import InputError
from beambert.model.config import BertConfig
from beambert.pipelines.tasks.declarations import find_task
from beambert.pipelines.tasks.reading import read_file
from beambert.trainer.commands.finetune import main as finetune_main

PAIR = {"text": "the river", "text_b": "a city"}
ROWS = {"embedding": PAIR, "single": {"text": "the river"}, "similarity": PAIR | {"label": 5}}


def written(folder, split, *rows):
    folder.mkdir(exist_ok=True)
    (folder / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(folder)


def refused(task, rows, config, vocabulary, folder, *flags) -> str:
    """What `finetune` says, from random weights."""
    for split, row in (("train", ROWS[rows]), ("dev", PAIR | ROWS[rows])):
        written(folder / "data", split, *[row] * 32)
    (folder / "vocab.txt").write_bytes(vocabulary.serialize())
    given = [f"--task={task}", f"--data_dir={folder}/data", "--init=random", f"--model={config}"]
    given += [f"--vocab_file={folder}/vocab.txt", f"--model_dir={folder}/model", *flags]
    with pytest.raises(InputError) as caught:
        finetune_main(given)
    return str(caught.value)


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
        ("embedding", ["--freeze_encoder"], "--freeze_encoder=True: "),
        ("similarity", ["--loss=cosine"], "has the score 5, which no cosine can be"),
    ],
)
def test_settings_that_cannot_be_used(small_config_file, vocabulary, tmp_path, task, flags, said):
    assert said in refused(task, task, small_config_file, vocabulary, tmp_path, *flags)


def test_single_texts_need_dropout(vocabulary, tmp_path):
    """As ModernBERT's encoders have none by default."""
    config = BertConfig(
        vocab_size=len(vocabulary.tokens),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
    ).with_dropout(0.0)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config.to_values()))
    said = refused("embedding", "single", path, vocabulary, tmp_path)
    assert "has no dropout, under which " in said and "; add a column 'text_b' to train" in said
