"""`beambert pretrain` on every family: from random weights, from a folder, and what is refused."""

import dataclasses
import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
from support import small_finetuning, small_pretraining
from support.small_pretraining import assert_same_weights, interrupted_and_continued, weights_of

from beambert.errors import InputError
from beambert.model.families.table import FAMILIES
from beambert.model.pretrainer import BertPretrainer
from beambert.trainer.commands.finetune import main as finetune_main
from beambert.trainer.commands.pretrain import main as pretrain_main
from beambert.trainer.loop.config import TrainingFolders
from beambert.trainer.loop.optimization import is_hidden_matrix, uses_weight_decay
from beambert.trainer.model_folders import model_config
from beambert.trainer.pretraining.job import PretrainingJob
from beambert.trainer.pretraining.plan import make_plan
from beambert.trainer.weights.initial import open_initial

GOLDEN = pathlib.Path(__file__).parents[1] / "golden_families"
OTHERS = [name for name in FAMILIES if name != "bert"]
# Fields of all families by the names of BERT's.
SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
}


@pytest.fixture
def config_of(tmp_path, vocabulary):
    """Writes the configuration file of a small encoder of a family."""

    def write(family: str, **fields) -> pathlib.Path:
        config = FAMILIES[family].config
        further = {"embedding_size": 8} if family in ("albert", "electra") else {}
        further |= {"local_attention": 8} if family == "modernbert" else {}
        further |= {"position_buckets": 8} if family == "deberta-v2" else {}
        path = tmp_path / f"{family}.json"
        path.write_text(config(len(vocabulary), **SMALL | further | fields).to_json())
        return path

    return write


def flags(records, config, model_dir, **others) -> list[str]:
    return small_pretraining.flags(records, config, model_dir, **({"objective": "mlm"} | others))


# With dropout, and Muon, whose matrices and the others have different states.
MUON = {"dropout": 0.2, "optimizer": "muon"}
RESUMED = {
    **{family: (family, MUON) for family in ("albert", "modernbert", "deberta-v2")},
    "mlm": ("bert", {}),
    "rtd": ("bert", {"objective": "rtd", "generator_size": 0.5}),
    "rtd of DeBERTa": ("deberta-v2", {"objective": "rtd"}),
}


@pytest.mark.release
@pytest.mark.parametrize("name", RESUMED)
def test_an_interrupted_training_ends_with_the_same_weights(
    name, config_of, records_folder, tmp_path, monkeypatch
):
    family, others = RESUMED[name]
    config = config_of(family)
    pretrain_main(flags(records_folder, config, tmp_path / "straight", **others))
    folder = tmp_path / "resumed"
    interrupted_and_continued(flags(records_folder, config, folder, **others), folder, monkeypatch)
    assert_same_weights(folder, tmp_path / "straight")
    assert all(np.isfinite(value).all() for value in weights_of(folder).values())


@pytest.mark.slow
def test_a_finetuning_goes_on_from_another_family(config_of, records_folder, tmp_path):
    pretrain_main(flags(records_folder, config_of("modernbert"), tmp_path / "encoder"))
    data = small_finetuning.write_task(tmp_path / "data", pairs=False)
    finetune_main(
        small_finetuning.flags(
            data, tmp_path / "encoder", tmp_path / "model", max_seq_length=16, num_train_epochs=12
        )
    )
    found = small_finetuning.results(tmp_path / "model")
    assert found["accuracy"] > found["baseline_accuracy"] + 0.2
    served = tf.saved_model.load(str(tmp_path / "model" / "saved_model"))
    answer = served.signatures["serving_default"]
    answered = answer(text=tf.constant(["The river!", "A war!"]))
    assert [label.decode() for label in answered["label"].numpy()] == ["good", "bad"]


@pytest.mark.parametrize(
    ("family", "objective", "others"),
    [
        ("roberta", "bert", "mlm"),
        ("deberta-v2", "bert", "mlm or rtd"),
        ("distilbert", "rtd", "mlm"),
        ("albert", "bert", "sop or mlm"),
    ],
)
def test_an_objective_that_a_family_has_no_head_for_is_refused(
    family, objective, others, config_of, records_folder, tmp_path
):
    config = config_of(family)
    with pytest.raises(InputError, match=f"--objective={objective}: .* give --objective={others}"):
        pretrain_main(flags(records_folder, config, tmp_path / "m", objective=objective))
    assert not (tmp_path / "m").exists()


def test_a_family_beside_what_sets_it_is_refused(config_of, records_folder, tmp_path):
    init = flags(records_folder, None, tmp_path / "m", family="roberta", init=GOLDEN / "roberta")
    with pytest.raises(InputError, match="--family=roberta: --init decides it"):
        pretrain_main(init)
    config = config_of("distilbert")
    with pytest.raises(InputError, match="--family=roberta: --model=.* of the family distilbert"):
        pretrain_main(flags(records_folder, config, tmp_path / "m", family="roberta"))
    folders = TrainingFolders(str(tmp_path / "m"))
    with pytest.raises(InputError, match="--family=nomic: must be one of bert, roberta"):
        make_plan(PretrainingJob(data=records_folder, family="nomic", output=folders))
    with pytest.raises(InputError, match="--model=xlarge: unknown model size 'xlarge'; choose one"):
        pretrain_main(flags(records_folder, "xlarge", tmp_path / "m", family="roberta"))


@pytest.mark.parametrize("family", FAMILIES)
def test_norms_and_biases_do_not_decay_and_muon_takes_the_layers_matrices(family):
    config = FAMILIES[family].config(50, **SMALL)
    objective = "mlm"
    model = BertPretrainer(config, objective=objective)
    for variable in model.variables:
        is_vector = len(variable.shape) == 1
        assert uses_weight_decay(variable.path) != is_vector, variable.path
        is_in_layer = "/layer_" in variable.path and not is_vector
        assert is_hidden_matrix(variable.path) == is_in_layer, variable.path
    matrices = sum(is_hidden_matrix(v.path) for v in model.variables)
    layers = {"albert": 1}.get(family, 3)
    assert matrices == layers * (4 if family == "modernbert" else 6)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_dropout_of_a_model_has_a_site_of_its_own(family, monkeypatch):
    """ALBERT's one layer has another seed each time, which is another site."""
    sites = []

    def record(x, rate, seed, site):
        if rate:
            sites.append(int(site) + int(seed[0]))
        return x

    for module in ("deberta", "layers", "modernbert_encoder"):
        monkeypatch.setattr(f"beambert.model.{module}.dropout", record)
    config = FAMILIES[family].config(50, **SMALL).with_dropout(0.1)
    ids = np.ones((1, 6), "int64")
    FAMILIES[family].encoder(config).encode(ids, ids, ids - 1, tf.constant([0, 2]))
    # DistilBERT drops nothing behind attention's output, and DeBERTa also embeddings of distances.
    a_layer = {"distilbert": 2, "deberta-v2": 4}.get(family, 3)
    assert len(sites) == len(set(sites)) == 1 + 3 * a_layer


def test_positions_of_a_table_grow_behind_the_first(tmp_path):
    initial = open_initial(str(GOLDEN / "roberta"), "--init")
    assert initial.config.longest_sequence == 12
    grown = initial.with_positions(20, "tile")
    assert grown.config.max_position_embeddings == 22
    path = "roberta/embeddings/position_embeddings"
    before, after = initial.read()[path], grown.read()[path]
    np.testing.assert_array_equal(after[:14], before)
    np.testing.assert_array_equal(after[14:], before[2:10])


def test_positions_without_a_table_are_not_made(tmp_path):
    initial = open_initial(str(GOLDEN / "modernbert"), "--init")
    with pytest.raises(InputError, match="--init_positions=tile: .* computes positions and has no"):
        initial.with_positions(20, "tile")


def changed(name, folder, **values) -> str:
    shutil.copytree(GOLDEN / name, folder)
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))
    return str(folder)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("roberta", {"hidden_act": "mish"}),
        ("roberta", {"position_embedding_type": "relative_key"}),
        ("roberta", {"pad_token_id": None}),
        ("roberta", {"model_type": "xlnet"}),
        ("modernbert", {"layer_types": ["full_attention", "linear_attention"]}),
        ("modernbert", {"layer_types": ["full_attention"] * 2 + ["sliding_attention"]}),
        ("modernbert", {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}),
        ("modernbert", {"rope_parameters": {"full_attention": {"type": "linear"}}}),
        ("modernbert", {"rope_parameters": [1]}),
        ("modernbert", {"sliding_window": 3}),
        ("modernbert", {"local_attention": 1}),
        ("modernbert", {"norm_bias": True}),
        ("modernbert", {"num_attention_heads": 16}),
        ("modernbert", {"classifier_pooling": "max"}),
        ("deberta-v2", {"conv_kernel_size": 3}),
        ("deberta-v2", {"share_att_key": False}),
        ("deberta-v2", {"pos_att_type": "c2p"}),
        ("deberta-v2", {"position_biased_input": True}),
        ("deberta-v2", {"max_relative_positions": 9}),
        ("deberta-v2", {"norm_rel_ebd": "none"}),
        ("deberta-v2", {"position_buckets": 1}),
        ("deberta-v2", {"embedding_size": 8}),
        ("deberta-v2", {"attention_head_size": 4}),
        ("albert", {"num_hidden_groups": 2}),
        ("electra", {"embedding_size": 0}),
    ],
)
def test_a_configuration_that_cannot_be_computed_is_refused(name, values, tmp_path):
    """By the name of its field, whatever it comes from."""
    (field,) = values
    others = {"num_attention_heads": "rotary positions", "rope_parameters": "rope_"}
    message = others.get(field, field)
    with pytest.raises(InputError, match=message):
        open_initial(changed(name, tmp_path / "folder", **values), "--init")
    path = tmp_path / "folder" / "config.json"
    with pytest.raises(InputError, match=f"^--model={path}: .*{message}.*; correct the file$"):
        model_config(str(path), open_initial(str(GOLDEN / name), "--init").vocabulary)


@pytest.mark.parametrize(
    ("family", "remedy"),
    [("bert", ", or give --init with --init_positions=tile"), ("deberta-v2", "")],
)
def test_records_that_are_longer_than_the_model_reads(
    family, remedy, records_folder, vocabulary, tmp_path
):
    """A family without a table of positions has none to repeat."""
    config = dataclasses.replace(
        FAMILIES[family].sized("tiny", len(vocabulary), 0), max_position_embeddings=8
    )
    file = tmp_path / "config.json"
    file.write_text(config.to_json())
    message = f"max_position_embeddings is 8; make shorter records or choose another model{remedy}$"
    with pytest.raises(InputError, match=message):
        pretrain_main(flags(records_folder, file, tmp_path / "model"))


def test_a_configuration_without_a_family_is_taken_for_a_bert(tmp_path):
    folder = changed("roberta", tmp_path / "folder", layer_norm_eps=1e-5)
    file = tmp_path / "folder" / "config.json"
    values = json.loads(file.read_text())
    del values["model_type"]
    file.write_text(json.dumps(values))
    with pytest.raises(InputError, match="--init="):
        open_initial(folder, "--init").check("--init")


def test_code_in_a_folder_is_not_run(tmp_path):
    folder = changed("roberta", tmp_path / "folder", auto_map={"AutoModel": "--modeling_x.Model"})
    (tmp_path / "folder" / "modeling_x.py").write_text("raise SystemExit('was run')")
    with pytest.raises(InputError, match=r"modeling_x.py"):
        open_initial(folder, "--init")
