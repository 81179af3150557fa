"""Encoders with a byte-level BPE, from records to answers: the tokenizer goes all the way."""

import json
import pathlib

import numpy as np
import pytest
from support import small_finetuning, small_pretraining
from support.sample_text import WORDS
from support.tokenizer_kinds import MODERNBERT, ROBERTA, train

from beambert.errors import InputError
from beambert.model.config import BertConfig
from beambert.pipelines.create_pretraining_data import main as data_main
from beambert.trainer.commands.finetune import main as finetune_main
from beambert.trainer.commands.pretrain import main as pretrain_main
from beambert.trainer.model_folders import open_model

pytestmark = pytest.mark.slow
LENGTH = 32


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> pathlib.Path:
    """Records of two tokenizers, and an encoder of the first."""
    root = tmp_path_factory.mktemp("tokenizers")
    random = np.random.default_rng(1)
    documents = [" ".join(random.choice(WORDS, 40)).capitalize() + "." for _ in range(150)]
    lines = "".join(json.dumps({"text": text}) + "\n" for text in documents)
    (root / "text.jsonl").write_text(lines)
    for kind in (ROBERTA, MODERNBERT):
        (root / kind).mkdir()
        train(kind, documents, 400).save(str(root / kind / "tokenizer.json"))
        data_main(
            [
                *(f"--input={root / 'text.jsonl'}", f"--tokenizer={root / kind}"),
                *(f"--output={root / f'{kind}-records'}", f"--max_seq_length={LENGTH}"),
                *("--dupe_factor=2", "--max_predictions_per_seq=5", "--num_shards=1"),
            ]
        )
    config = BertConfig(400, 16, 1, 2, 32, max_position_embeddings=64)
    (root / "bert_config.json").write_text(config.to_json())
    pretrain_main(flags(root, "encoder"))
    return root


def flags(root, folder, **others) -> list[str]:
    records, config = root / f"{ROBERTA}-records", root / "bert_config.json"
    given = {"masking": "dynamic"} | others
    return small_pretraining.flags(records, config, root / folder, **given)


def test_the_encoder_has_the_tokenizer_of_its_records(root):
    found = open_model(str(root / "encoder"), "--model")
    given = (root / ROBERTA / "tokenizer.json").read_bytes()
    assert (root / "encoder" / "tokenizer.json").read_bytes() == given
    assert found.vocabulary.tokens_by_role()["mask"] == "<mask>"
    assert not found.do_lower_case


def test_records_of_another_tokenizer_are_refused(root, tmp_path):
    records = root / f"{MODERNBERT}-records"
    given = flags(root, tmp_path / "other", data=records, init=root / "encoder", model=None)
    with pytest.raises(InputError, match=r"--data=.*: its tokenizer is \w{12}, that of --init=.*"):
        pretrain_main(given)
    assert not list(tmp_path.iterdir())


def test_random_weights_with_a_tokenizer(root, tmp_path):
    data_dir = small_finetuning.write_task(tmp_path / "task", pairs=False)
    given = data_dir, "random", tmp_path / "model"
    others = {"model": root / "bert_config.json", "num_train_epochs": 1, "max_seq_length": 16}
    finetune_main(small_finetuning.flags(*given, tokenizer=root / ROBERTA, **others))
    found = open_model(str(tmp_path / "model"), "--model")
    assert found.vocabulary.sha256 == open_model(str(root / "encoder"), "--model").vocabulary.sha256
