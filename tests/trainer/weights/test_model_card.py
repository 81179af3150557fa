"""The model card beside exported weights, as the Hugging Face Hub's own parser reads it."""

import hashlib
import json
import re
import shutil

import pytest
from support import data_command
from support.untrained_models import save_classifier, save_encoder

from beambert.cli import run_main
from beambert.model.objectives import OBJECTIVES
from beambert.pipelines.create_pretraining_data import main as data
from beambert.pipelines.tasks.declarations import KINDS
from beambert.trainer import model_folders
from beambert.trainer.commands.export import main as export
from beambert.trainer.weights import model_card

vocab_file = data_command.vocab_file


def exported(model, output, *flags) -> str:
    """Exports a folder; returns its card."""
    arguments = [f"--model={model}", "--to=huggingface", f"--output={output}", *flags]
    assert run_main("export", export, arguments) == 0
    return (output / "README.md").read_text("utf-8")


def rows(card: str) -> dict[str, str]:
    """The tables of a card: first column -> second."""
    return dict(re.findall(r"^\| (.*?) \| (.*?) \|", card, re.MULTILINE))


def edit(path, change) -> None:
    """Changes a file of JSON."""
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))


@pytest.fixture(scope="module")
def made(tmp_path_factory, vocabulary, vocab_file):
    """A folder with records and an encoder."""
    folder = tmp_path_factory.mktemp("made")
    text, blocklist = folder / "corpus.txt", folder / "words.txt"
    text.write_text("\n\n".join(f"The river {n}.\nIt ends in the city." for n in range(9)))
    blocklist.write_text("river 3\n")
    arguments = [f"--input={text}", f"--vocab_file={vocab_file}", f"--output={folder / 'records'}"]
    arguments += ["--max_seq_length=16", "--num_shards=1", f"--blocklist={blocklist}"]
    assert run_main("data", data, [*arguments, "--format=lines"]) == 0
    save_encoder(folder / "encoder", vocabulary)
    return folder


@pytest.fixture(scope="module")
def classifier(tmp_path_factory, vocabulary):
    return save_classifier(tmp_path_factory.mktemp("made") / "classifier", vocabulary)


@pytest.fixture
def encoder(tmp_path, made):
    """A copy, whose training.json names the records, with figures on held-out data."""
    records = shutil.copytree(made / "records", tmp_path / "records")
    folder = shutil.copytree(made / "encoder", tmp_path / "encoder")

    def add(training):
        training["data"] = [str(records)]
        training["optimizer"] = {"learning_rate": 0.0001, "num_train_steps": 1000}
        training["phases"] = [{"max_seq_length": 16, "records_sha256": ["a", "b"]}]
        training |= {"masking": "dynamic", "mask_rate": "0.3:0.15"}

    edit(folder / "training.json", add)
    (folder / "results.json").write_text('{"masked_lm_accuracy": 0.25123456789, "by_step": {}}')
    return folder


def test_it_tells_what_the_folders_know(tmp_path, encoder):
    card = exported(encoder, tmp_path / "out", "--license=cc-by-sa-4.0")
    found = rows(card)
    assert found["optimizer: learning_rate"] == "0.0001"
    assert found["optimizer: num_train_steps"] == "1,000"
    documents = [found[f"documents: {name}"] for name in ("read", "used", "dropped: blocklist")]
    assert documents == ["9", "8", "1"] and found["blocklist: phrases"] == "1"
    assert found["masked_lm_accuracy"] == "0.25123"
    assert (found["masking"], found["mask_rate"]) == ("dynamic", "0.3:0.15")
    assert (found["pairs"], found["masked_lm_prob"]) == ("next", "0.15")
    weights = (tmp_path / "out" / "model.safetensors").read_bytes()
    assert found["model.safetensors"] == hashlib.sha256(weights).hexdigest()
    joined = hashlib.sha256(b"a\nb").hexdigest()
    assert found["list of the checksums of the records of 16 tokens"] == joined
    assert str(tmp_path / "records") not in card


def test_the_hub_s_parser_reads_it(tmp_path, encoder, classifier):
    hub = pytest.importorskip("huggingface_hub")
    card = hub.ModelCard(exported(encoder, tmp_path / "out", "--license=apache-2.0"))
    assert card.data.license == "apache-2.0" and card.data.library_name == "transformers"
    assert card.data.pipeline_tag == "fill-mask" and card.data.tags == ["bert", "beambert"]
    assert card.text.lstrip().startswith("# BERT encoder")
    card = hub.ModelCard(exported(classifier, tmp_path / "other"))
    assert card.data.license is None and card.data.pipeline_tag == "text-classification"


def test_languages_and_signs_of_tables(tmp_path, encoder):
    """The languages that the text was kept in are the model's; a sign of a table is escaped."""

    def change(info):
        info["parameters"]["keep_languages"] = ["de", "no"]
        info["counts"]["sources"] = {"a|b: 'c'/*.txt": {"documents": 2, "tokens": 3}}

    edit(tmp_path / "records" / "info.json", change)
    card = exported(encoder, tmp_path / "out")
    assert 'language: ["de", "no"]' in card and "license" not in card
    assert "| sources: a\\|b: 'c'/*.txt: documents | 2 |\n" in card
    hub = pytest.importorskip("huggingface_hub")
    assert hub.ModelCard(card).data.language == ["de", "no"]


def test_no_folder_of_the_machine_is_told(tmp_path, encoder):
    def change(info):
        file = {"path": "/home/ann/glue/RTE/dev.tsv", "sha256": "0a"}
        info["parameters"]["decontaminate"] = {"files": [file]}
        info["counts"]["sources"] = {"/home/ann/corpus/*.txt": {"documents": 8, "tokens": 9}}

    edit(tmp_path / "records" / "info.json", change)
    card = exported(encoder, tmp_path / "out")
    found = rows(card)
    assert found["decontaminate: files: 1: path"] == "RTE/dev.tsv" and "/home/ann" not in card
    assert found["sources: corpus/*.txt: documents"] == "8"


def test_the_text_of_the_encoders_before(tmp_path, encoder):
    """Of an encoder that went on from another, whose own beginning is gone."""
    assert "from before" not in exported(encoder, tmp_path / "alone")
    last = tmp_path / "last"
    shutil.copytree(encoder, last)
    weights = hashlib.sha256((encoder / "model.weights.h5").read_bytes()).hexdigest()
    of_last = {"init": str(encoder), "init_sha256": weights, "data": []}
    edit(last / "training.json", lambda training: training.update(of_last))
    of_first = {"init": "/gone/encoder", "init_sha256": "0"}
    edit(encoder / "training.json", lambda training: training.update(of_first))
    card = exported(last, tmp_path / "out")
    assert "gone/encoder" not in card and str(tmp_path) not in card
    _, _, section = card.partition("## Text that it had learned from before\n\n")
    assert section.splitlines()[2:4] == [
        f"| {weights} | 16 | 8 |",
        "| 0 | not known here |  |",
    ]


@pytest.mark.parametrize("state", ["there", "other weights", "gone"])
def test_a_fine_tuned_model_tells_of_its_encoder(tmp_path, encoder, classifier, vocabulary, state):
    """Which text it has seen only the encoder's folder knows, if it is still the same one."""
    classifier = shutil.copytree(classifier, tmp_path / "classifier")
    weights = hashlib.sha256((encoder / "model.weights.h5").read_bytes()).hexdigest()
    init = {"init": str(encoder), "init_sha256": weights, "data_sha256": {"dev": "of-dev"}}
    edit(classifier / "training.json", lambda training: training.update(init))
    if state == "other weights":
        with (encoder / "model.weights.h5").open("ab") as file:
            file.write(b"more")
    elif state == "gone":
        shutil.rmtree(encoder)
    found = model_folders.ModelFolder(
        str(classifier), None, vocabulary, json.loads((classifier / "training.json").read_text())
    )
    text = "\n\n".join(model_card.training_sections(found))
    assert ("## Training of its encoder" in text) == (state == "there")
    assert ("| documents: read | 9 |" in text) == (state == "there")
    checksums = rows(model_card.checksums_section(found, "weights", "of-weights"))
    assert (checksums["weights"], checksums["examples (dev)"]) == ("of-weights", "of-dev")
    assert checksums["weights at the beginning"] == weights


def test_every_kind_has_a_name_on_the_hub():
    assert {*KINDS, *OBJECTIVES} == model_card._PIPELINES.keys()
