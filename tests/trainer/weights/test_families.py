"""Every family in and out, against transformers' own outputs in golden_families."""

import functools
import json
import math
import pathlib
import shutil

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf
from support.golden_arrays import features_of

from beambert.errors import InputError
from beambert.folders import finish_output
from beambert.model.families.debertav2 import WORD_EMBEDDINGS
from beambert.model.families.family import PRE_TRAINING
from beambert.model.families.table import FAMILIES, family_of, read_config
from beambert.model.objectives import BERT, MLM, RTD, SOP
from beambert.model.pretrainer import BertPretrainer
from beambert.model.replaced_tokens import ElectraPretrainer
from beambert.model.shapes import variable_shapes
from beambert.pipelines.tasks.task import CHOICE, SPAN, TAGGING
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.trainer import model_folders
from beambert.trainer.models import build_model
from beambert.trainer.tasks.base import objective_of_kind
from beambert.trainer.weights.export import (
    export_hugging_face,
    export_sentence_transformers,
    export_tensorflow,
)
from beambert.trainer.weights.initial import open_initial

GOLDEN = pathlib.Path(__file__).parents[1] / "golden_families"
OBJECTIVES = {
    "bert": BERT,
    "bert_masked_lm": MLM,
    "modernbert": MLM,
    "roberta": MLM,
    "distilbert": MLM,
    "albert": SOP,
    "deberta-v2": MLM,
    "electra": MLM,
    "electra_discriminator": RTD,
}
PAIRS = {"next_sentence_logits", "sentence_order_logits"}
# The share of the largest value by which float32 may differ. Processors sum in other orders: one of
# ELECTRA's logits, which are up to 2.9, differs by 1.4e-5 on an AMD EPYC.
TOLERANCE = 1e-5


def assert_close(actual, expected: np.ndarray, what: str = "") -> None:
    atol = TOLERANCE * max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(actual, expected, atol=atol, err_msg=what)


@functools.cache
def arrays_of(name: str) -> dict[str, np.ndarray]:
    return dict(np.load(GOLDEN / name / "arrays.npz"))


@functools.cache
def loaded(name: str):
    """The model with the golden weights, of which nothing may be missing or left over."""
    initial = open_initial(str(GOLDEN / name), "--init")
    if OBJECTIVES[name] == RTD:
        model = ElectraPretrainer(initial.config, 0.5)
        missing = [v.path for v in model.variables if not v.path.startswith("generator")]
        notes = initial.load_into(model, "--init")
        assert len(notes) == 1 and "no generator/" in notes[0], notes
        assert set(missing) <= initial.read().keys()
    else:
        model = BertPretrainer(initial.config, seed=9, objective=OBJECTIVES[name])
        assert initial.load_into(model, "--init") == []
    return model


def inputs_of(name: str):
    features = features_of(arrays_of(name))
    return [features[key] for key in ("input_ids", "input_mask", "segment_ids")]


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_hidden_states_are_those_of_transformers(name):
    golden, encoder = arrays_of(name), loaded(name).encoder
    layers = encoder.config.num_hidden_layers
    is_token = golden["features/input_mask"].reshape(-1) > 0
    states = encoder.encode(*inputs_of(name), last_layers=layers + 1).numpy()[is_token]
    for index, state in enumerate(np.split(states, layers + 1, axis=1)):
        expected = golden[f"hidden_states/{index}"].reshape(-1, encoder.config.hidden_size)
        # ELECTRA and ALBERT of transformers list the embeddings after their projection, too.
        assert_close(state, expected[is_token], str(index))


def loss_of(name, model, features):
    """The loss as transformers computes it."""
    inputs = [features[key] for key in ("input_ids", "input_mask", "segment_ids")]
    if OBJECTIVES[name] == RTD:
        logits = model.replaced_token_head(model.encoder.encode(*inputs))
        is_token = tf.reshape(tf.cast(inputs[1], tf.float32), [-1])
        labels = tf.reshape(tf.cast(features["is_replaced"], tf.float32), [-1])
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
        return tf.reduce_sum(is_token * losses) / tf.reduce_sum(is_token)
    logits, weights = model(features), features["masked_lm_weights"]
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
        features["masked_lm_ids"], logits["masked_lm_logits"]
    )
    loss = tf.reduce_sum(weights * losses) / tf.reduce_sum(weights)
    for pair in PAIRS & logits.keys():
        labels = features["next_sentence_labels"][:, 0]
        loss += tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits[pair]))
    return loss


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_logits_are_those_of_transformers(name):
    golden, model, features = arrays_of(name), loaded(name), features_of(arrays_of(name))
    is_token = golden["features/input_mask"] > 0
    if OBJECTIVES[name] == RTD:
        logits = model.replaced_token_head(model.encoder.encode(*inputs_of(name)))
        logits = np.reshape(logits, is_token.shape)
    else:
        length = is_token.shape[1]
        features["masked_lm_positions"] = tf.tile(tf.range(length)[None], [len(is_token), 1])
        outputs = model(features)
        logits = outputs["masked_lm_logits"].numpy()
        assert PAIRS & outputs.keys() == PAIRS & golden.keys()
        for pair in PAIRS & outputs.keys():
            assert_close(outputs[pair], golden[pair])
    assert np.abs(golden["logits"]).max() > 1
    assert_close(logits[is_token], golden["logits"][is_token])


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_loss_and_the_gradients_are_those_of_transformers(name):
    golden, model, features = arrays_of(name), loaded(name), features_of(arrays_of(name))
    variables = [v for v in model.trainable_variables if not v.path.startswith("generator")]
    with tf.GradientTape() as tape:
        loss = loss_of(name, model, features)
    gradients = tape.gradient(loss, [v.value for v in variables])
    assert_close(loss, golden["loss"])
    name_of = family_of(model.config).namer(PRE_TRAINING)
    seen = set()
    for variable, gradient in zip(variables, gradients, strict=True):
        theirs, is_transposed = name_of(variable.path)
        seen.add(theirs)
        expected = golden[f"gradients/{theirs}"]
        expected = expected.T if is_transposed else expected
        gradient = np.zeros_like(expected) if gradient is None else tf.convert_to_tensor(gradient)
        assert_close(gradient, expected, theirs)
    prefix = "gradients/"
    assert seen == {key.removeprefix(prefix) for key in golden if key.startswith(prefix)}


def finished(folder, model, **training):
    """A finished model folder with a model's weights."""
    folder.mkdir()
    training |= {"do_lower_case": True, "max_seq_length": 11, "trained_positions": 11}
    training |= {"pooling": None, "freeze_encoder": False, "loop": {"patience": None}}
    name = next(n for n in OBJECTIVES if n.startswith(model.config.family))
    vocabulary = Vocabulary.parse((GOLDEN / name / "vocab.txt").read_bytes(), "vocab.txt")
    model_folders.describe_model(str(folder), model.config, vocabulary, training)
    model_folders.save_weights(model, str(folder))
    (folder / "_UNFINISHED").write_bytes(b"")
    finish_output(str(folder), {})
    return folder


def own_folder(name, folder):
    training = {"kind": "pretraining", "objective": OBJECTIVES[name], "generator_size": 0.5}
    return finished(folder, loaded(name), **training)


def saved(folder):
    """The weights and the configuration of a folder."""
    config = json.loads((folder / "config.json").read_text())
    return safetensors.numpy.load_file(folder / "model.safetensors"), config


_SIZES = {
    *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    *("max_position_embeddings", "initializer_range"),
}
_BERT = {"hidden_act", "hidden_dropout_prob", "layer_norm_eps", "pad_token_id", "type_vocab_size"}
# The fields of each family's configuration in text-embeddings-inference 1.9.3 that have no default,
# and those without which its classes of classification fail.
NEEDED_FOR_SERVING = {
    "bert": _SIZES | _BERT,
    "roberta": _SIZES | _BERT,
    "distilbert": {
        *("vocab_size", "dim", "n_layers", "n_heads", "hidden_dim", "activation"),
        *("max_position_embeddings", "pad_token_id"),
    },
    "modernbert": _SIZES
    | {
        *("hidden_activation", "norm_eps", "norm_bias", "initializer_cutoff_factor"),
        *("pad_token_id", "eos_token_id", "bos_token_id", "cls_token_id", "sep_token_id"),
        *("global_rope_theta", "local_rope_theta", "global_attn_every_n_layers"),
        *("attention_bias", "attention_dropout", "local_attention", "classifier_activation"),
    },
    "deberta-v2": _SIZES
    | {
        *("hidden_act", "layer_norm_eps", "type_vocab_size", "relative_attention"),
        *("max_relative_positions", "position_biased_input", "pos_att_type"),
        *("pooler_hidden_size", "pooler_hidden_act"),
    },
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n.startswith("bert") else pytest.mark.slow) for n in OBJECTIVES],
)
def test_in_and_out_is_the_same_to_the_bit(name, tmp_path):
    own = own_folder(name, tmp_path / "own")
    export_hugging_face(str(own), str(tmp_path / "out"))
    (weights, mine), (expected, theirs) = saved(tmp_path / "out"), saved(GOLDEN / name)
    assert weights.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_array_equal(weights[key], value, err_msg=key)
    assert mine["architectures"] == theirs["architectures"]
    shared = mine.keys() & theirs.keys() - {"bos_token_id", "eos_token_id"}
    assert {key: mine[key] for key in shared} == {key: theirs[key] for key in shared}
    assert read_config(json.dumps(mine)) == read_config(json.dumps(theirs))
    if name in NEEDED_FOR_SERVING:
        assert mine.keys() >= NEEDED_FOR_SERVING[name]
    initial = open_initial(str(own), "--init")
    initial.check("--init")
    read = initial.read()
    for variable in loaded(name).variables:
        np.testing.assert_array_equal(read[variable.path], variable, err_msg=variable.path)
    if not name.startswith("bert"):
        with pytest.raises(InputError, match="--to=tf1: the original release has no"):
            export_tensorflow(str(own), str(tmp_path / "tf1"))


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n == "roberta" else pytest.mark.slow) for n in OBJECTIVES],
)
def test_servers_get_the_encoder_as_transformers_names_it(name, tmp_path):
    """AutoModel's class, which vLLM 0.32 knows, and its variables, which have no prefix."""
    own = own_folder(name, tmp_path / "own")
    export_sentence_transformers(str(own), str(tmp_path / "out"))
    (weights, mine), (expected, theirs) = saved(tmp_path / "out"), saved(GOLDEN / name)
    prefix = family_of(loaded(name).config).model_prefix
    bare = {k.removeprefix(prefix): v for k, v in expected.items() if k.startswith(prefix)}
    assert weights.keys() == bare.keys()
    for key, value in bare.items():
        np.testing.assert_array_equal(weights[key], value, err_msg=key)
    (its_class,) = theirs["architectures"]
    assert mine["architectures"] == [f"{its_class.partition('For')[0]}Model"]


KINDS = {
    "classification": "SequenceClassification",
    CHOICE: "MultipleChoice",
    TAGGING: "TokenClassification",
    SPAN: "QuestionAnswering",
}


# The discriminator's encoder is that of the other ELECTRA. Heads differ in classification most.
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pytest.param(name, kind, marks=() if is_fast else pytest.mark.slow)
        for name in sorted(OBJECTIVES.keys() - {"electra_discriminator", "bert_masked_lm"})
        for kind in KINDS
        for is_fast in [kind == "classification" or name in ("bert", "roberta")]
    ],
)
def test_a_task_model_computes_what_its_class_does(name, kind, tmp_path):
    """The head's weights come from transformers.

    That they go out under its names again is tried for RoBERTa, whose names differ the most.
    """
    golden = arrays_of(name)
    initial = open_initial(str(GOLDEN / name), "--init")
    model = build_model(kind, initial.config, 3, 1)
    initial.load_into(model, "--init")
    prefix = f"tasks/{KINDS[kind]}/weights/"
    heads = {key.removeprefix(prefix): golden[key] for key in golden if key.startswith(prefix)}
    its_class, used = objective_of_kind(kind).HUGGING_FACE_CLASS, set()
    name_of = family_of(initial.config).namer(its_class)
    for variable in model.variables:
        theirs, is_transposed = name_of(variable.path) or (None, False)
        if theirs in heads:
            used.add(theirs)
            variable.assign(heads[theirs].T if is_transposed else heads[theirs])
    assert used == heads.keys()
    features = features_of(golden)
    logits, expected = model(features), golden[f"tasks/{KINDS[kind]}/logits"]
    if kind in (TAGGING, SPAN):
        is_token = golden["features/input_mask"] > 0
        logits, expected = logits.numpy()[is_token], expected[is_token]
    assert_close(np.reshape(logits, expected.shape), expected)
    if name != "roberta":
        return
    own = finished(tmp_path / "own", model, kind=kind, labels=["a", "b", "c"])
    export_hugging_face(str(own), str(tmp_path / "out"))
    mine = safetensors.numpy.load_file(tmp_path / "out" / "model.safetensors")
    base = family_of(initial.config).model_prefix
    assert {key for key in mine if not key.startswith(base)} == {
        key for key in heads if not key.startswith(base)
    }
    for key, value in heads.items():
        np.testing.assert_array_equal(mine[key], value, err_msg=key)
    if kind == "classification":
        config = json.loads((tmp_path / "out" / "config.json").read_text())
        # text-embeddings-inference reads the one, `transformers` and vLLM the other.
        assert config["num_labels"] == len(config["id2label"]) == 3


COUNTS = json.loads((GOLDEN / "counts.json").read_text())


@pytest.mark.parametrize("name", COUNTS)
def test_published_sizes_have_the_published_numbers_of_weights(name):
    """Those that transformers counts; the discriminator's here has no head of a generator."""
    config = read_config(json.dumps(COUNTS[name]["config"]))
    shapes = variable_shapes(config)
    if name.startswith("electra"):
        shapes = {path: shape for path, shape in shapes.items() if not path.startswith("cls/")}
    assert sum(map(math.prod, shapes.values())) == COUNTS[name]["parameters"]


@pytest.mark.parametrize(
    ("family", "size", "name"),
    [
        ("modernbert", "base", "modernbert-base"),
        ("modernbert", "large", "modernbert-large"),
        ("roberta", "base", "roberta-base"),
        ("roberta", "large", "roberta-large"),
        ("distilbert", "base", "distilbert-base-uncased"),
        ("albert", "base", "albert-base-v2"),
        ("albert", "xxlarge", "albert-xxlarge-v2"),
        ("deberta-v2", "xsmall", "deberta-v3-xsmall"),
        ("deberta-v2", "small", "deberta-v3-small"),
        ("deberta-v2", "base", "deberta-v3-base"),
        ("deberta-v2", "large", "deberta-v3-large"),
        ("electra", "small", "electra-small-discriminator"),
        ("electra", "base", "electra-base-discriminator"),
    ],
)
def test_our_sizes_are_the_published_ones(family, size, name):
    published = COUNTS[name]["config"]
    config = FAMILIES[family].sized(size, published["vocab_size"], 1)
    assert config == read_config(json.dumps(published))


def test_the_head_of_debertas_original_names_is_read(tmp_path):
    """DebertaV2ForMaskedLM has them with `legacy` false; its other head is for replaced tokens."""
    folder = shutil.copytree(GOLDEN / "deberta-v2", tmp_path / "model")
    weights = safetensors.numpy.load_file(folder / "model.safetensors")
    names = {
        "cls.predictions.transform.": "lm_predictions.lm_head.",
        "cls.predictions.": "lm_predictions.lm_head.",
    }
    for before, after in names.items():
        weights = {key.replace(before, after): value for key, value in weights.items()}
    assert sum(key.startswith("lm_predictions.lm_head.") for key in weights) == 5
    weights["mask_predictions.dense.bias"] = np.zeros(16, np.float32)
    safetensors.numpy.save_file(weights, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"legacy": False}))
    initial = open_initial(str(folder), "--init")
    model = BertPretrainer(initial.config, seed=8, objective=MLM)
    (note,) = initial.load_into(model, "--init")
    assert "has mask_predictions/dense/bias, which the model does not use" in note
    for mine, theirs in zip(model.variables, loaded("deberta-v2").variables, strict=True):
        np.testing.assert_array_equal(mine, theirs, err_msg=mine.path)


VARIANTS = np.load(GOLDEN / "variants.npz")


@pytest.mark.parametrize("variant", VARIANTS)
def test_other_values_of_a_configuration_compute_what_transformers_does(variant, tmp_path):
    name, changes = variant.split(" ", 1)
    folder = shutil.copytree(GOLDEN / name, tmp_path / name)
    values = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(values | json.loads(changes)))
    initial = open_initial(str(folder), "--init")
    model = BertPretrainer(initial.config, objective=OBJECTIVES[name])
    initial.load_into(model, "--init")
    logits = model(features_of(arrays_of(name)))["masked_lm_logits"]
    assert_close(logits, VARIANTS[variant])


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("leaf", ["bias", "weight"])
def test_tied_arrays_are_read_by_their_other_names(name, leaf, tmp_path):
    """A file may have the bias or the embeddings by the names of the decoder alone."""
    folder = shutil.copytree(GOLDEN / name, tmp_path / name)
    weights = safetensors.numpy.load_file(folder / "model.safetensors")
    rename = family_of(loaded(name).config).namer(PRE_TRAINING)
    bias, table = "cls/predictions/output_bias", f"{loaded(name).config.family}/{WORD_EMBEDDINGS}"
    ours, head = rename(bias if leaf == "bias" else table)[0], rename(bias)[0].removesuffix("bias")
    nested = "decoder." if name.startswith(("bert", "roberta", "albert", "deberta")) else ""
    if ours in weights:  # A discriminator has no such bias.
        weights[f"{head}{nested}{leaf}"] = weights.pop(ours)
    safetensors.numpy.save_file(weights, folder / "model.safetensors")
    initial = open_initial(str(folder), "--init")
    read = initial.read()
    for variable in loaded(name).variables:
        if not variable.path.startswith("generator"):
            np.testing.assert_array_equal(read[variable.path], variable, err_msg=variable.path)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_bare_encoder_is_read(name, tmp_path):
    """As AutoModel of transformers saves it, without the prefix and the heads."""
    folder = shutil.copytree(GOLDEN / name, tmp_path / name)
    weights = safetensors.numpy.load_file(folder / "model.safetensors")
    prefix = family_of(loaded(name).config).model_prefix
    bare = {k.removeprefix(prefix): v for k, v in weights.items() if k.startswith(prefix)}
    safetensors.numpy.save_file(bare, folder / "model.safetensors")
    initial = open_initial(str(folder), "--init")
    initial.check("--init")
    read = initial.read()
    for variable in loaded(name).encoder.variables:
        if not variable.path.startswith("modernbert/head"):
            np.testing.assert_array_equal(read[variable.path], variable, err_msg=variable.path)
