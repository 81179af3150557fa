"""What the command refuses, and what it loads."""

import json
import shutil
import subprocess
import sys

import pytest

from beambert import cli
from beambert.errors import InputError
from beambert.explore import material as material_module
from beambert.explore.material import Material, is_uncased
from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS, Vocabulary


def refusal(capsys, *arguments) -> str:
    assert cli.run(["explore", *map(str, arguments)]) == 2
    return capsys.readouterr().err


def test_refusals(folders, capsys, tmp_path):
    records = folders / "records"
    assert "--vocab_file: missing" in refusal(capsys)
    assert "--port=0: must be" in refusal(capsys, f"--records={records}", "--port=0")
    assert f"--records={tmp_path}/none: no such folder" in refusal(
        capsys, f"--records={tmp_path}/none"
    )
    assert "gs://b: is not on this machine" in refusal(capsys, "--records=gs://b")
    assert "no training.json" in refusal(capsys, "--model", records)
    assert "no such folder" in refusal(capsys, "--model", "nowhere")
    encoder = folders / "encoder"
    assert "is named twice" in refusal(capsys, "--model", encoder, f"{encoder}/")
    assert "--vocab_file=none: none cannot be read" in refusal(capsys, "--vocab_file=none")
    other = shutil.copytree(encoder, tmp_path / "other")
    config = json.loads((other / "bert_config.json").read_text()) | {"model_type": "roberta"}
    (other / "bert_config.json").write_text(json.dumps(config))
    assert "is a RoBERTa, but the page shows what a BERT computes" in refusal(
        capsys, "--model", other
    )


def test_a_page_without_gradio_says_what_to_install(folders, capsys, monkeypatch):
    from beambert.explore import command

    monkeypatch.setattr(command.importlib.util, "find_spec", lambda name: None)
    assert "pip install 'beambert[explore]'" in refusal(capsys, "--model", folders / "encoder")


def test_models_have_short_names(folders):
    found = Material(models=[str(folders / "encoder"), str(folders / "classifier")])
    assert (found.pretrained, found.finetuned) == (["encoder"], ["classifier"])
    assert not found.models["classifier"].takes_two
    assert not found.models["classifier"].takes_endings


def test_the_case_follows_from_the_vocabulary():
    assert is_uncased(Vocabulary((*SPECIAL_TOKENS, "river", "city")))
    assert not is_uncased(Vocabulary((*SPECIAL_TOKENS, "River", "city")))


def test_a_thing_is_made_once_and_an_error_again(folders):
    found = Material(models=[str(folders / "encoder")])
    made = []
    assert found._once("a", lambda: made.append(1) or 5) == found._once("a", lambda: 6) == 5
    with pytest.raises(InputError):
        found._once("b", lambda: (_ for _ in ()).throw(InputError("--x: no; do")))
    assert found._once("b", lambda: 7) == 7 and made == [1]


def test_documents_are_drawn_from_a_corpus(folders, tmp_path):
    for number in range(9):
        (tmp_path / f"{number}.txt").write_text(f"The river {number}. It was long. It ended.")
    found = Material(models=[str(folders / "encoder")], corpus=[f"{tmp_path}/*.txt"])
    drawn = found.draw_documents(1)
    assert drawn == found.draw_documents(1) != found.draw_documents(2)
    assert 1 < len(drawn) <= material_module.DRAWN_DOCUMENTS
    assert all("river" in " ".join(document) for document in drawn)


def test_nothing_large_is_loaded_before_the_page(folders):
    """The modules behind the page import no TensorFlow at their top."""

    code = (
        "import sys; from beambert.explore import browsing, command, inside, playgrounds\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"tensorflow", "keras", "apache_beam", "gradio"} & set(done.stdout.split())
