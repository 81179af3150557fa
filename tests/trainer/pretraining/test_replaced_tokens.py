"""`beambert pretrain --objective=rtd` from end to end, and the use of its models."""

import json

import numpy as np
import pytest
import tensorflow as tf
from support import small_finetuning, small_pretraining

from beambert.errors import InputError
from beambert.model.replaced_tokens import ElectraPretrainer
from beambert.trainer.asking import fill
from beambert.trainer.commands.export import main as export_main
from beambert.trainer.commands.finetune import main as finetune_main
from beambert.trainer.commands.pretrain import main as pretrain_main
from beambert.trainer.comparing import compare
from beambert.trainer.weights.initial import open_initial

SIZE = 0.5


def flags(records, config, model_dir, **others) -> list[str]:
    given = {"objective": "rtd", "generator_size": SIZE} | others
    return small_pretraining.flags(records, config, model_dir, **given)


@pytest.fixture(scope="module")
def electra_folder(records_folder, small_config_file, tmp_path_factory):
    """A finished encoder of replaced token detection."""
    folder = tmp_path_factory.mktemp("rtd") / "encoder"
    pretrain_main(flags(records_folder, small_config_file, folder))
    return folder


@pytest.mark.slow
def test_results_are_those_of_the_saved_weights(
    electra_folder, records_folder, read_rows, small_config, vocabulary
):
    """All held-out records in the batches of the evaluation, counted with numpy."""
    rows = read_rows(records_folder / "eval")
    model = ElectraPretrainer(small_config, SIZE, seed=99)
    model.load_weights(electra_folder / "model.weights.h5")
    found = {name: [] for name in ("scores", "replaced", "nll", "right")}
    for first in range(0, len(rows), 8):
        part = rows[first : first + 8]
        features = {name: np.stack([row[name] for row in part]) for name in part[0]}
        padding = [(0, 8 - len(part)), (0, 0)]
        features = {name: np.pad(value, padding) for name, value in features.items()}
        used = features["masked_lm_weights"] > 0
        row, _ = np.nonzero(used)
        features["input_ids"][row, features["masked_lm_positions"][used]] = vocabulary.id_of(
            "[MASK]"
        )
        answer = {n: value.numpy() for n, value in model(features).items()}
        is_token = answer["is_token"] > 0
        found["scores"].append(answer["replaced_token_logits"][is_token])
        found["replaced"].append(answer["is_replaced"][is_token] > 0)
        logits, labels = answer["masked_lm_logits"][used.ravel()], features["masked_lm_ids"][used]
        log_probabilities = tf.nn.log_softmax(logits).numpy()
        found["nll"].append(-log_probabilities[np.arange(len(labels)), labels])
        found["right"].append(logits.argmax(-1) == labels)
    scores, replaced, nll, right = (np.concatenate(values) for values in found.values())
    assert 0 < replaced.mean() < 0.2
    called = scores > 0
    losses = np.logaddexp(0, np.where(replaced, -scores, scores))
    results = json.loads((electra_folder / "results.json").read_text())
    expected = {
        "masked_lm_loss": nll.mean(),
        "masked_lm_accuracy": right.mean(),
        "replaced_token_loss": losses.mean(),
        "replaced_token_accuracy": (called == replaced).mean(),
        "replaced_token_precision": (called & replaced).sum() / max(called.sum(), 1),
        "replaced_token_recall": (called & replaced).sum() / replaced.sum(),
        "loss": nll.mean() + 50 * losses.mean(),
        "masked_lm_perplexity": np.exp(nll.mean()),
    }
    assert {name: results[name] for name in expected} == pytest.approx(expected, rel=1e-4)


@pytest.mark.slow
def test_the_settings_belong_to_the_training(
    electra_folder, encoder_folder, records_folder, small_config_file, capsys
):
    training = json.loads((electra_folder / "training.json").read_text())
    assert (training["objective"], training["generator_size"]) == ("rtd", SIZE)
    pretrain_main(flags(records_folder, small_config_file, electra_folder))
    assert "already finished by the same command" in capsys.readouterr().out
    with pytest.raises(InputError, match=r"--generator_size there 0\.5, here 0\.25"):
        pretrain_main(flags(records_folder, small_config_file, electra_folder, generator_size=0.25))
    found = compare([str(electra_folder), str(encoder_folder)])
    assert found.settings["objective"] == ["rtd", "bert"]
    assert found.settings["generator_size"] == [SIZE, None]


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"generator_size": 0.0}, "=0.0: must be more than 0 and at most 1"),
        ({"generator_size": 1.5}, "=1.5: must be more than 0 and at most 1"),
        ({"generator_size": 0.001}, "=0.001: no generator can be made so .hidden_size must be a"),
        ({"objective": "mlm"}, "=0.5: needs --objective=rtd; leave it out"),
    ],
)
def test_impossible_generators_are_refused(
    others, message, records_folder, small_config_file, tmp_path
):
    with pytest.raises(InputError, match=f"^--generator_size{message}"):
        pretrain_main(flags(records_folder, small_config_file, tmp_path / "m", **others))
    assert not (tmp_path / "m").exists()


@pytest.mark.slow
def test_it_fills_no_masks(electra_folder):
    with pytest.raises(InputError, match="lacks the head cls/predictions"):
        fill(str(electra_folder), ["the [MASK] of a"])


@pytest.mark.slow
def test_exports(electra_folder, tmp_path):
    """The encoder is the same in both formats."""
    own, *exported = (open_initial(str(electra_folder), "--init").read(), {}, {})
    for format_, found in zip(("tf1", "huggingface"), exported, strict=True):
        out = tmp_path / format_
        export_main([f"--model={electra_folder}", f"--to={format_}", f"--output={out}"])
        for name, value in open_initial(str(out), "--init").read().items():
            found[name.removeprefix("bert/").removeprefix("electra/")] = value
    for name, value in own.items():
        if name.startswith("bert/"):
            for found in exported:
                np.testing.assert_array_equal(found[name.removeprefix("bert/")], value, name)


@pytest.mark.release
def test_it_is_fine_tuned_and_exported_as_a_bert(electra_folder, task_folder, tmp_path, capsys):
    folder, out = tmp_path / "classifier", tmp_path / "out"
    finetune_main(small_finetuning.flags(task_folder, electra_folder, folder))
    assert f"{electra_folder}: has no pooler" in capsys.readouterr().out
    assert small_finetuning.results(folder)["accuracy"] > 0.5
    export_main([f"--model={folder}", "--to=huggingface", f"--output={out}"])
    config = json.loads((out / "config.json").read_text())
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert config["model_type"] == "bert" and "embedding_size" not in config
