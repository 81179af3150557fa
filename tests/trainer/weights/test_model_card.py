"""The model card next to exported weights, as the Hugging Face Hub's own parser reads it."""

import hashlib
import json
import re
import shutil

import pytest

from beambert.cli import run_main
from beambert.trainer import model_folders
from beambert.trainer.commands.export import main as export
from beambert.trainer.model_folders import ModelFolder
from beambert.trainer.weights import model_card as model_card_module
from beambert.trainer.weights.model_card import model_card

OTHER_MACHINE = "/home/ann/corpus"


def exported(model, output, *flags) -> str:
    """Exports a folder; returns its card."""
    arguments = [f"--model={model}", "--to=huggingface", f"--output={output}", *flags]
    assert run_main("export", export, arguments) == 0
    return (output / "README.md").read_text("utf-8")


def sections(card: str) -> dict[str, dict]:
    """The sections of a card with a block of JSON."""
    found = re.findall(r"^## ([^\n]*)\n\n```json\n(.*?)\n```", card, re.MULTILINE | re.DOTALL)
    return {title: json.loads(text) for title, text in found}


def edit(path, **values) -> None:
    """Changes a file of JSON."""
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.fixture
def encoder(tmp_path, make_records, untrained):
    """A copy, whose training.json names records, with figures on held-out data."""
    records = make_records(tmp_path / "records")
    folder = shutil.copytree(untrained("encoder"), tmp_path / "encoder")
    phases = [{"max_seq_length": 16, "records_sha256": ["a", "b"]}]
    edit(folder / "training.json", data=[str(records)], mask_rate="0.3:0.15", phases=phases)
    (folder / "results.json").write_text('{"masked_lm_accuracy": 0.25, "by_step": {}}')
    parameters = {"max_seq_length": 16, "masked_lm_prob": 0.15, "keep_languages": ["de", "no"]}
    parameters["decontaminate"] = {"files": [{"path": f"{OTHER_MACHINE}/dev.tsv"}]}
    documents = {"read": 9, "used": 8, "dropped": {"blocklist": 1}}
    counts = {"documents": documents, "sources": {f"{OTHER_MACHINE}/*.txt": {"documents": 8}}}
    edit(records / "info.json", parameters=parameters, counts=counts)
    return folder


def test_it_has_what_the_folders_know(tmp_path, encoder):
    card = exported(encoder, tmp_path / "out", "--license=cc-by-sa-4.0")
    found = sections(card)
    text = found["Text of the records of 16 tokens"]
    documents = text["counts"]["documents"]
    assert (documents["read"], documents["used"]) == (9, 8)
    assert documents["dropped"] == {"blocklist": 1}
    assert text["parameters"]["masked_lm_prob"] == 0.15
    assert found["Results on held-out data"] == {"masked_lm_accuracy": 0.25}
    assert found["Training"]["mask_rate"] == "0.3:0.15"
    weights = (tmp_path / "out" / "model.safetensors").read_bytes()
    sums = found["Checksums (SHA-256)"]
    assert sums["model.safetensors"] == hashlib.sha256(weights).hexdigest()
    joined = hashlib.sha256(b"a\nb").hexdigest()
    assert found["Training"]["phases"][0]["records_sha256"] == joined
    # Folders of the machine are nobody else's business.
    assert str(tmp_path / "records") not in card and "/home/ann" not in card
    assert text["counts"]["sources"] == {"corpus/*.txt": {"documents": 8}}


def test_the_hub_s_parser_reads_it(tmp_path, encoder, untrained):
    hub = pytest.importorskip("huggingface_hub")
    card = hub.ModelCard(exported(encoder, tmp_path / "out", "--license=apache-2.0"))
    assert card.data.license == "apache-2.0" and card.data.library_name == "transformers"
    assert card.data.pipeline_tag == "fill-mask" and card.data.tags == ["bert", "beambert"]
    assert card.data.language == ["de", "no"]
    assert card.text.lstrip().startswith("# BERT encoder")
    card = hub.ModelCard(exported(untrained("classifier"), tmp_path / "other"))
    assert card.data.license is None and card.data.pipeline_tag == "text-classification"


@pytest.mark.parametrize("state", ["there", "other weights", "gone"])
def test_a_fine_tuned_model_has_the_text_of_its_encoder(encoder, untrained, vocabulary, state):
    """Which text it has seen only the encoder's folder knows, if it is still the same one."""
    weights = hashlib.sha256((encoder / "model.safetensors").read_bytes()).hexdigest()
    if state == "other weights":
        with (encoder / "model.safetensors").open("ab") as file:
            file.write(b"more")
    elif state == "gone":
        shutil.rmtree(encoder)
    found = model_folders.open_model(str(untrained("classifier")), "--model")
    training = found.training | {"init": str(encoder), "init_sha256": weights}
    found = model_folders.ModelFolder(found.path, found.config, vocabulary, training)
    text = f"Text of the records of 16 tokens of the encoder {weights[:12]}"
    assert (text in sections(model_card(found, "weights", "0"))) == (state == "there")


def test_nothing_in_it_is_obeyed(untrained, vocabulary):
    """No terminal, no reader of Markdown and no bidirectional display obeys a label or a name."""
    found = model_folders.open_model(str(untrained("classifier")), "--model")
    labels, task = ["a\u202eb", "c\x1b[2J", "d\n```\n# e"], "t\x1b]0;\n# u"
    training = found.training | {"labels": labels, "task": task}
    card = model_card(
        model_folders.ModelFolder(found.path, found.config, vocabulary, training), "weights", "0"
    )
    assert sections(card)["Training"]["labels"] == labels
    assert not {"\u202e", "\x1b"} & {*card} and "\n# e" not in card and "\n# u" not in card


def test_the_card_says_which_steps_were_kept(tmp_path):
    """A training that stops early, or keeps earlier weights, is shorter than its settings say."""
    rows = [(10, "train", 1.0), (10, "eval", 3.0), (20, "eval", 2.0), (30, "eval", 2.5)]
    lines = [json.dumps({"step": step, "split": split, "loss": loss}) for step, split, loss in rows]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    training = {
        "loop": {"patience": 1, "best_metric": "loss"},
        "optimizer": {"num_train_steps": 99},
    }
    found = model_card_module._steps_of(ModelFolder(str(tmp_path), None, None, training))
    assert found == {"planned": 99, "trained": 30, "kept": 20}
    training["loop"]["patience"] = None
    assert model_card_module._steps_of(ModelFolder(str(tmp_path), None, None, training)) == {}
