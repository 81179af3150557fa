"""A task's files to a served model, if it is better than the one that is served."""

import json

import numpy as np
import pytest

from beambert.deploy.deliver import deliver
from beambert.errors import InputError

WORDS = {"good": ("river", "city"), "bad": ("war", "died")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A task whose label one word gives away, and an encoder's configuration and vocabulary."""
    folder, random = tmp_path_factory.mktemp("deliver"), np.random.default_rng(3)
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "river", "city", "war", "died"]
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n")
    config = {"vocab_size": len(tokens), "hidden_size": 16, "num_hidden_layers": 1}
    config |= {"num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 16}
    (folder / "bert_config.json").write_text(json.dumps(config))
    (folder / "task").mkdir()
    for split, count in (("train", 160), ("dev", 40)):
        rows = ["text\tlabel"]
        for index in range(count):
            label = ("good", "bad")[index % 2]
            rows.append(f"the {random.choice(WORDS[label])} the\t{label}")
        (folder / "task" / f"{split}.tsv").write_text("\n".join(rows) + "\n")
    return folder


def run(folder, output, *more):
    return deliver(
        [
            *("--task=classification", f"--data_dir={folder / 'task'}", "--init=random"),
            *(f"--model={folder / 'bert_config.json'}", f"--vocab_file={folder / 'vocab.txt'}"),
            *(f"--output={folder / output}", f"--serving={folder / 'serving'}"),
            *("--max_seq_length=8", "--train_batch_size=16", *more),
        ]
    )


@pytest.mark.release
def test_a_good_model_is_served_and_a_worse_one_refused(folder, capsys):
    # There is nothing to be better than yet.
    assert run(
        folder, "first", "--num_train_epochs=10", "--learning_rate=1e-2", "--min_change=0.01"
    )
    assert [path.name for path in (folder / "serving").iterdir()] == ["1"]
    assert (folder / "first" / "evaluation" / "report.html").exists()
    assert run(folder, "first", "--num_train_epochs=10", "--learning_rate=1e-2")
    assert "nothing to do" in capsys.readouterr().out
    assert not run(folder, "second", "--num_train_epochs=1", "--learning_rate=1e-9")
    assert "refused (" in capsys.readouterr().out
    assert [path.name for path in (folder / "serving").iterdir()] == ["1"]
    served = str(folder / "first" / "model")
    metrics = json.loads((folder / "second" / "evaluation" / "metrics.json").read_text())
    assert metrics["baseline"]["model"] == served


def test_a_served_model_that_is_gone_is_no_reason_to_serve_anything(folder, tmp_path):
    extra = tmp_path / "serving" / "7" / "assets.extra"
    extra.mkdir(parents=True)
    with pytest.raises(InputError, match=r"serving/7: does not record its model"):
        run(folder, "third", f"--serving={tmp_path / 'serving'}", "--num_train_epochs=1")
    source = {"model": str(tmp_path / "gone"), "weights_sha256": "0"}
    (extra / "model.json").write_text(json.dumps(source))
    for _ in range(2):  # gone, then with other weights
        with pytest.raises(InputError, match=r"serving/7: the model .*gone, is gone or has other"):
            run(folder, "third", f"--serving={tmp_path / 'serving'}", "--num_train_epochs=1")
        (tmp_path / "gone").mkdir(exist_ok=True)
    assert not (folder / "third").exists()


@pytest.mark.parametrize(
    "flag", ["--metric=f1", "--threshold=80", "--min_change=nan", "--model_dir"]
)
def test_what_could_not_be_followed_is_refused_before_the_training(folder, flag):
    with pytest.raises(InputError, match=flag):
        run(folder, "third", flag)
    assert not (folder / "third").exists()
