"""What `explore` refuses and loads, and its page of other tokenizers than BERT's."""

import pathlib
import subprocess
import sys

import pytest
from packaging.requirements import Requirement
from support.sample_text import WORDS
from support.tokenizer_kinds import ALBERT, ROBERTA, train
from tokenizers import Tokenizer

from beambert import cli
from beambert.explore import showing
from beambert.explore.command import is_asked_here
from beambert.explore.material import Material
from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS, Vocabulary


def refusal(capsys, *arguments) -> str:
    assert cli.run(["explore", *map(str, arguments)]) == 2
    return capsys.readouterr().err


def test_refusals(folders, capsys, tmp_path):
    records = folders / "records"
    assert "--vocab_file: missing" in refusal(capsys)
    assert f"--records={tmp_path}/none:" in refusal(capsys, f"--records={tmp_path}/none")
    assert "--model=" in refusal(capsys, "--model", records)
    assert "is a fine-tuned model" in refusal(capsys, "--model", folders / "classifier")


def test_a_page_without_gradio_says_what_to_install(folders, capsys, monkeypatch):
    from beambert.explore import command

    monkeypatch.setattr(command.importlib.util, "find_spec", lambda name: None)
    assert "pip install -e '.[explore]'" in refusal(capsys, "--model", folders / "encoder")


@pytest.mark.parametrize("word", ["river", "River"])
def test_the_case_follows_from_the_vocabulary(tmp_path, word):
    vocabulary = Vocabulary((*SPECIAL_TOKENS, word, "city"))
    (tmp_path / "vocab.txt").write_bytes(vocabulary.serialize())
    assert Material(vocab_file=str(tmp_path / "vocab.txt")).do_lower_case == word.islower()


@pytest.mark.parametrize(
    ("host", "origin", "is_here"),
    [
        ("127.0.0.1:7860", None, True),
        ("localhost:7860", "http://localhost:7860", True),
        ("[::1]:7860", "http://[::1]:7860", True),
        ("192.168.0.7:7860", None, True),
        ("page.lan:7860", None, True),
        ("evil.example:7860", None, False),
        ("evil.example:7860", "http://evil.example:7860", False),
        ("127.0.0.1:7860", "http://evil.example", False),
        ("127.0.0.1:7860", "null", False),
        ("", None, False),
    ],
)
def test_only_requests_for_this_page_are_answered(host, origin, is_here):
    """A page elsewhere that gives its name this machine's address keeps its name in Host."""
    headers = {b"host": host.encode()} | ({b"origin": origin.encode()} if origin else {})
    assert is_asked_here(headers, "page.lan") == is_here


def test_nothing_large_is_loaded_before_the_page(folders):
    """The modules behind the page import no TensorFlow at their top."""

    code = "import sys; from beambert.explore import command, showing\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"tensorflow", "keras", "apache_beam", "gradio"} & set(done.stdout.split())


def test_the_constraints_of_the_lock_keep_their_conditions():
    """A package may stand there twice, for different Pythons."""
    root = pathlib.Path(__file__).parents[2]
    line = next(line for line in (root / "Makefile").read_text().split("\n") if "\tsed -nE" in line)
    command = line.strip().replace("$$", "$").partition(" >")[0]
    made = subprocess.run(command, shell=True, cwd=root, capture_output=True, text=True, check=True)
    found = [Requirement(line) for line in made.stdout.splitlines()]
    holding = [one.name for one in found if one.marker is None or one.marker.evaluate()]
    assert len(holding) == len(set(holding)) and "tensorflow" in holding


# Two answers that are asked for in the moment in which the page appears; see the page's handlers.
_TWO_AT_ONCE = """
import sys, threading
from beambert.explore.page import guarded
failures, found = [], []
threading.excepthook = lambda of: failures.append(of.exc_type.__name__)
def first():
    from beambert.pipelines.tokenizers.wordpiece import Tokenizer
    return Tokenizer.__name__
def second():
    from beambert.trainer.models import pretrained_model
    return pretrained_model.__name__
asked = [guarded(function) for function in (first, second)]
threads = [threading.Thread(target=lambda of=of: found.extend(of())) for of in asked]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sorted(found), failures)
"""


@pytest.mark.slow
def test_two_first_answers_at_once():
    pytest.importorskip("gradio", reason="Gradio is not installed: make explore")
    command = [sys.executable, "-c", _TWO_AT_ONCE]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert ended.stdout.strip() == "['Tokenizer', 'pretrained_model'] []"


def test_the_page_of_a_byte_level_bpe(tmp_path):
    folder = tmp_path / ROBERTA
    folder.mkdir()
    train(ROBERTA, [" ".join(WORDS)] * 3, 330).save(str(folder / "tokenizer.json"))
    material = Material(tokenizer=str(folder))
    text = "the river ended in the village"
    ids, _ = material.tokenizer.tokenize_batch([text])
    reference = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert ids.tolist() == reference.encode(text, add_special_tokens=False).ids
    assert material.token_ids.mask == reference.token_to_id("<mask>")
    page = showing.show_masking(material, text, showing.MaskingSettings())
    assert "[MASK]" in page and "Ġ" not in page


def test_the_case_of_text_is_that_of_the_tokenizer(tmp_path):
    for kind, lowers in ((ALBERT, True), (ROBERTA, False)):
        file = tmp_path / f"{kind}.json"
        train(kind, WORDS * 3, 300).save(str(file))
        assert Material(tokenizer=str(file)).do_lower_case is lowers
