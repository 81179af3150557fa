"""Checkpoints of others, in and out; transformers loads every export and computes the same.

    BEAMBERT_TRANSFORMERS=VENV/bin/python pytest tests/trainer/weights/test_checkpoints.py

The interpreter needs torch and transformers (tried with 2.15.0 and 5.23.0), which this repository's
environment does not have.
"""

import json
import os
import pathlib
import shutil
import subprocess

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf
from support.golden_arrays import features_of
from support.golden_checkpoint import GOLDEN, load

from beambert import io
from beambert.cli import run as main
from beambert.errors import InputError
from beambert.folders import finish_output
from beambert.model.checkpoint_names import original_name
from beambert.model.classifier import BertClassifier
from beambert.model.families.table import FAMILIES, read_config
from beambert.model.pretrainer import BertPretrainer
from beambert.model.replaced_tokens import ElectraPretrainer
from beambert.model.shapes import variable_shapes
from beambert.pipelines.tasks.task import CHOICE, SPAN, TAGGING
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.trainer import model_folders
from beambert.trainer.commands.export import main as export_main
from beambert.trainer.commands.pretrain import main as pretrain_main
from beambert.trainer.models import build_model, build_pretrainer
from beambert.trainer.weights.export import export_hugging_face, export_tensorflow
from beambert.trainer.weights.initial import open_initial

GOLDEN_ELECTRA = GOLDEN.parents[1] / "golden_electra"


def assert_golden_outputs(model) -> None:
    golden = dict(np.load(GOLDEN / "arrays.npz"))
    is_token = golden["features/input_mask"] > 0
    positions = np.tile(np.arange(is_token.shape[1]), (len(is_token), 1))
    logits = model(features_of(golden) | {"masked_lm_positions": positions})
    expected = golden["logits"][is_token]
    assert np.abs(expected).max() > 1
    np.testing.assert_allclose(logits["masked_lm_logits"].numpy()[is_token], expected, atol=1e-5)
    np.testing.assert_allclose(
        logits["next_sentence_logits"], golden["next_sentence_logits"], atol=1e-5
    )


def test_a_torch_file_holds_the_same(golden):
    torch = pytest.importorskip("torch")
    weights = safetensors.numpy.load_file(golden / "model.safetensors")
    (golden / "model.safetensors").unlink()
    tensors = {name: torch.tensor(value) for name, value in weights.items()}
    torch.save(tensors, golden / "pytorch_model.bin")
    assert_golden_outputs(load(golden))


def test_names_of_old_versions_are_known(golden):
    """gamma and beta, no prefix, the position numbers, the tied decoder, half precision."""
    old = {}
    for name, value in safetensors.numpy.load_file(golden / "model.safetensors").items():
        name = name.replace("LayerNorm.weight", "LayerNorm.gamma").removeprefix("bert.")
        old[name.replace("LayerNorm.bias", "LayerNorm.beta")] = value
    old["cls.predictions.decoder.weight"] = old["embeddings.word_embeddings.weight"]
    old["embeddings.position_ids"] = np.arange(12)[None]
    safetensors.numpy.save_file(old, golden / "model.safetensors")
    assert_golden_outputs(load(golden))


@pytest.fixture
def sharded(golden):
    """The same in two files and an index, as transformers writes what is large."""
    whole = safetensors.numpy.load_file(golden / "model.safetensors")
    weight_map = {
        name: f"model-0000{1 + i % 2}-of-00002.safetensors" for i, name in enumerate(whole)
    }
    for file in set(weight_map.values()):
        part = {name: value for name, value in whole.items() if weight_map[name] == file}
        safetensors.numpy.save_file(part, golden / file)
    (golden / "model.safetensors").unlink()
    index = {"metadata": {"total_size": 1}, "weight_map": weight_map}
    (golden / "model.safetensors.index.json").write_text(json.dumps(index))
    return golden


def test_shards_are_one_model(sharded):
    assert_golden_outputs(load(sharded))


@pytest.mark.parametrize("text", ["{", "{}", '{"weight_map": {"a": []}}'])
def test_a_damaged_index_is_named(sharded, text):
    (sharded / "model.safetensors.index.json").write_text(text)
    with pytest.raises(InputError, match=r"model\.safetensors\.index\.json: "):
        open_initial(str(sharded), "--init")


DEFAULTS = {"objective": "bert", "pooling": None, "freeze_encoder": False, "do_lower_case": True}
DEFAULTS["loop"] = {"patience": None}


def make_folder(golden, folder, model, config=None, **training) -> pathlib.Path:
    """A finished model folder of ours with a model's weights."""
    initial = open_initial(str(golden), "--init")
    folder.mkdir()
    training = DEFAULTS | {"max_seq_length": 12, "trained_positions": 12} | training
    config = config or initial.config
    model_folders.describe_model(str(folder), config, initial.vocabulary, training)
    model_folders.save_weights(model, str(folder))
    (folder / "_UNFINISHED").write_bytes(b"")
    finish_output(str(folder), {})
    return folder


@pytest.fixture
def own_folder(golden, tmp_path):
    """The golden weights as a model folder of ours."""
    return make_folder(golden, tmp_path / "own", load(golden), kind="pretraining")


def test_replaced_token_detection_is_electra(tmp_path):
    """The discriminator's weights by name and its configuration, as transformers wrote them."""
    config = json.loads((GOLDEN_ELECTRA / "config.json").read_text()) | {"model_type": "bert"}
    model = ElectraPretrainer(read_config(json.dumps(config)), generator_size=0.5)
    theirs = safetensors.numpy.load_file(GOLDEN_ELECTRA / "model.safetensors")
    for variable in model.variables:
        if renamed := FAMILIES["bert"].discriminator_name(variable.path):
            value = theirs[renamed[0]]
            variable.assign(value.T if renamed[1] else value)
    training = {"kind": "pretraining", "objective": "rtd", "generator_size": 0.5}
    own = make_folder(GOLDEN, tmp_path / "own", model, **training, config=model.config)
    export_hugging_face(str(own), str(tmp_path / "out"))
    mine = safetensors.numpy.load_file(tmp_path / "out" / "model.safetensors")
    assert mine.keys() == theirs.keys()
    for name, value in theirs.items():
        np.testing.assert_array_equal(mine[name], value, err_msg=name)
    mine, theirs = (
        json.loads((folder / "config.json").read_text())
        for folder in (tmp_path / "out", GOLDEN_ELECTRA)
    )
    unequal = {name for name in mine if name in theirs and mine[name] != theirs[name]}
    assert not unequal and mine["architectures"] == theirs["architectures"]
    assert (tmp_path / "out" / "vocab.txt").exists()


def test_tensorflow_and_back(own_folder, tmp_path):
    export_tensorflow(str(own_folder), str(tmp_path / "out"))
    assert_golden_outputs(load(tmp_path / "out"))
    assert_golden_outputs(load(tmp_path / "out" / "bert_model.ckpt"))
    shapes = dict(tf.train.list_variables(str(tmp_path / "out" / "bert_model.ckpt")))
    # modeling.py and run_pretraining.py of the original.
    assert shapes["cls/seq_relationship/output_weights"] == [2, 16]
    assert shapes["bert/encoder/layer_1/output/LayerNorm/gamma"] == [16]
    assert shapes["cls/predictions/output_bias"] == [58]


def test_of_several_checkpoints_one_is_to_be_named(own_folder, tmp_path):
    """As run_pretraining.py leaves them."""
    export_tensorflow(str(own_folder), str(tmp_path / "out"))
    for path in list((tmp_path / "out").glob("bert_model.ckpt.*")):
        shutil.copy(path, str(path).replace("bert_model.ckpt", "model.ckpt-2000"))
    with pytest.raises(
        InputError, match=r"holds 2 checkpoints; name one, such as .*/model\.ckpt-2000"
    ):
        open_initial(str(tmp_path / "out"), "--init")
    assert_golden_outputs(load(tmp_path / "out" / "model.ckpt-2000"))


def test_weights_may_be_larger_than_other_files(golden, own_folder, tmp_path, monkeypatch):
    """A published base model takes 440 MB, where a vocabulary or a configuration is refused."""
    most = (golden / "model.safetensors").stat().st_size - 1
    monkeypatch.setattr(io.read_bytes, "__defaults__", ("", most))
    assert open_initial(str(golden), "--init").read()
    export_hugging_face(str(own_folder), str(tmp_path / "out"))
    assert (tmp_path / "out" / "model.safetensors").stat().st_size > most


def test_a_classifier_gets_its_head_and_labels(golden, tmp_path):
    model = BertClassifier(open_initial(str(golden), "--init").config, 3, seed=4)
    labels = ["no", "so so", "yes"]
    make_folder(golden, tmp_path / "own", model, kind="classification", labels=labels)
    export_hugging_face(str(tmp_path / "own"), str(tmp_path / "out"))
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert config["id2label"] == {"0": "no", "1": "so so", "2": "yes"}
    weights = safetensors.numpy.load_file(tmp_path / "out" / "model.safetensors")
    kernel = {v.path: v.numpy() for v in model.variables}["classifier/kernel"]
    assert weights["classifier.weight"].shape == (3, 16)
    np.testing.assert_array_equal(weights["classifier.weight"], kernel.T)


def test_the_released_checkpoints_names_and_shapes(shared_data):
    """Google's own Chinese base model."""
    folder = shared_data / "checkpoints" / "google_bert_chinese_index_only"
    theirs = dict(tf.train.list_variables(str(folder / "bert_model.ckpt")))
    config = read_config((folder / "bert_config.json").read_text())
    names = {original_name(path)[0] for path in variable_shapes(config)}
    assert names == set(theirs) and len(names) == 206
    message = r"bert_model\.ckpt: cannot be read \(.*data-00000-of-00001.*\); copy it again"
    with pytest.raises(InputError, match=message):
        open_initial(str(folder), "--init").read()


@pytest.mark.parametrize("name", ["coldfire_tiny_bert", "jammi_tiny_bert", "keras_bert_tf1_tiny"])
def test_checkpoints_found_in_the_wild(shared_data, name):
    initial = open_initial(str(shared_data / "checkpoints" / name), "--init")
    model = BertPretrainer(initial.config, seed=1)
    before = [variable.numpy() for variable in model.encoder.encoder_layers[0].variables]
    notes = initial.load_into(model, "--init")
    is_whole = name == "keras_bert_tf1_tiny"
    assert bool(notes) != is_whole
    if not is_whole:
        assert "has no pooler" in notes[0]
    for variable, old in zip(model.encoder.encoder_layers[0].variables, before, strict=True):
        if variable.path.endswith("kernel"):
            assert not np.array_equal(variable.numpy(), old)


@pytest.mark.slow
def test_pre_training_goes_on_from_it(golden, make_records, tmp_path, capsys):
    initial = open_initial(str(golden), "--init")
    config = json.loads((golden / "config.json").read_text())
    (golden / "config.json").write_text(json.dumps(config | {"hidden_dropout_prob": 0.0}))
    records = make_records(tmp_path / "records", vocabulary=initial.vocabulary, length=12)
    arguments = [f"--data={records}", f"--init={golden}", f"--model_dir={tmp_path / 'model'}"]
    arguments += ["--num_train_steps=2", "--train_batch_size=8", "--learning_rate=1e-9"]
    pretrain_main(arguments)
    assert str(golden) in capsys.readouterr().out
    assert_golden_outputs(load(tmp_path / "model"))
    with pytest.raises(InputError, match="--model=tiny: --init"):
        pretrain_main([*arguments, "--model=tiny"])


def test_records_of_another_vocabulary_are_refused(golden, records_folder, tmp_path):
    arguments = [f"--data={records_folder}", f"--init={golden}", f"--model_dir={tmp_path / 'm'}"]
    with pytest.raises(InputError, match=r"--data=.*: its vocabulary is \w+, that of --init=.* is"):
        pretrain_main(arguments)
    assert not (tmp_path / "m").exists()


def test_an_output_that_is_there_is_kept(own_folder, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    status = main(
        ["export", f"--model={own_folder}", f"--output={tmp_path / 'out'}", "--to=huggingface"]
    )
    assert status == 2 and "already exists" in capsys.readouterr().err


@pytest.fixture
def running(encoder_folder, tmp_path):
    """The folder of a pre-training that has not ended."""
    folder = shutil.copytree(encoder_folder, tmp_path / "encoder")
    (folder / "_SUCCESS").rename(folder / "_UNFINISHED")
    (folder / "model.safetensors").unlink()
    return folder


def test_a_checkpoint_of_a_running_training_is_exported(running, encoder_folder, tmp_path):
    """The last checkpoint has the weights of the finished model."""
    out = tmp_path / "out"
    flags = [f"--model={running}", "--to=huggingface", f"--output={out}"]
    export_main([*flags, "--checkpoint=150"])
    finished = tmp_path / "finished"
    export_main([f"--model={encoder_folder}", "--to=huggingface", f"--output={finished}"])
    mine, theirs = (
        safetensors.numpy.load_file(folder / "model.safetensors") for folder in (out, finished)
    )
    assert mine.keys() == theirs.keys()
    for name, value in theirs.items():
        assert (mine[name] == value).all()
    assert open_initial(str(out), "--init").config.hidden_size == 32


def test_all_checkpoints_are_exported(running, tmp_path):
    flags = [f"--model={running}", "--to=tf1", f"--output={tmp_path / 'out'}", "--checkpoint=all"]
    for _ in range(2):  # those that are there already are left
        export_main(flags)
    made = {path.parent.name for path in (tmp_path / "out").glob("*/*.ckpt.index")}
    assert made == {path.name for path in (running / "checkpoints").glob("ckpt-*")}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--checkpoint=7", "--to=tf1"], r"--checkpoint=7: .* choose one of its steps"),
        (["--checkpoint=150"], "--checkpoint=150: needs --to=huggingface"),
    ],
)
def test_what_cannot_be_exported_is_refused(running, tmp_path, flags, message):
    with pytest.raises(InputError, match=message):
        export_main([f"--model={running}", f"--output={tmp_path / 'out'}", *flags])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        ("google/bert_x.y", "`hf download google/bert_x.y --local-dir bert_x.y`"),
        ("/no/such/folder", None),
    ],
)
def test_a_name_of_the_hub_is_not_downloaded(path, advice, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tensorflow.io.gfile.exists", lambda _: False)
    with pytest.raises(InputError, match=f"^--init={path}: no such folder or checkpoint") as caught:
        open_initial(path, "--init")
    assert ("nothing is downloaded" in str(caught.value)) is (advice is not None)
    assert (advice or "check the path") in str(caught.value)


PYTHON = os.environ.get("BEAMBERT_TRANSFORMERS")
SCRIPT = pathlib.Path(__file__).parents[1] / "load_with_transformers.py"
BATCH = pathlib.Path(__file__).parents[1] / "golden_families" / "modernbert" / "arrays.npz"
LABELS = ["a", "b", "c"]


def random_weights(model):
    """A model whose biases and norms are random, too."""
    random = np.random.default_rng(3)
    for variable in model.variables:
        noise = 0.1 * random.standard_normal(variable.shape).astype(np.float32)
        variable.assign(variable.numpy() + noise)
    return model


def cases(config):
    """Yields name, training.json and model for each objective and kind of task of a family."""
    for objective in FAMILIES[config.family].objectives:
        if objective != "rtd":
            training = {"kind": "pretraining", "objective": objective}
            yield objective, training, random_weights(build_pretrainer(training, config))
    for kind in ("classification", CHOICE, TAGGING, SPAN):
        model = random_weights(build_model(kind, config, len(LABELS), 1))
        yield kind, {"kind": kind, "labels": LABELS}, model


def logits_of(model, features):
    """The logits of all places, or of the task."""
    rows, length = features["input_ids"].shape
    features["masked_lm_positions"] = tf.tile(tf.range(length)[None], [rows, 1])
    outputs = model(features)
    return (outputs["masked_lm_logits"] if isinstance(outputs, dict) else outputs).numpy()


@pytest.mark.slow
@pytest.mark.skipif(not PYTHON, reason="BEAMBERT_TRANSFORMERS names no interpreter")
@pytest.mark.parametrize("family", FAMILIES)
def test_transformers_loads_every_export_and_computes_the_same(family, tmp_path):
    described, features = FAMILIES[family], features_of(np.load(BATCH))
    tokens = (BATCH.parent / "vocab.txt").read_text().split("\n")[:-1]
    vocabulary = Vocabulary(tuple(tokens))
    sizes = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2}
    sizes |= {"intermediate_size": 24, "max_position_embeddings": 20, "hidden_act": "gelu"}
    sizes |= {"embedding_size": 8} if family in ("albert", "electra") else {}
    sizes |= {"local_attention": 4} if family == "modernbert" else {}
    sizes |= {"position_buckets": 8} if family == "deberta-v2" else {}
    sizes |= {"pad_token_id": vocabulary.id_of("[PAD]")} if family == "roberta" else {}
    config = described.config(len(tokens), **sizes)
    folders = []
    for name, training, model in cases(config):
        own, out = tmp_path / f"{name}-own", tmp_path / name
        own.mkdir()
        training = DEFAULTS | {"max_seq_length": 11, "trained_positions": 11} | training
        model_folders.describe_model(str(own), config, vocabulary, training)
        model_folders.save_weights(model, str(own))
        finish_output(str(own), {})
        export_hugging_face(str(own), str(out))
        arrays = {key: features[key] for key in ("input_ids", "input_mask", "segment_ids")}
        np.savez(out / "ours.npz", logits=logits_of(model, dict(features)), **arrays)
        folders.append(out)
    done = subprocess.run([PYTHON, SCRIPT, *folders], check=True, stdout=subprocess.PIPE, text=True)
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(answers) == len(folders)
    for folder, answer in zip(folders, answers, strict=True):
        assert answer["issues"] == {} and answer["is_tied"], (folder.name, answer)
        assert answer["difference"] < 1e-5, (folder.name, answer)
