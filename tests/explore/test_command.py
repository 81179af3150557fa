"""What `explore` refuses and loads, and its page of other tokenizers than BERT's."""

import html
import re
import threading
import urllib.error
import urllib.request

import pytest
from support.sample_text import WORDS
from support.tokenizer_kinds import ROBERTA, train
from tokenizers import Tokenizer

from beambert import cli
from beambert.explore.command import PageServer, is_asked_here
from beambert.explore.material import Material
from beambert.explore.showing import Masking
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
        ("[::1", None, False),
        ("localhost", "http://[", False),
    ],
)
def test_only_requests_for_this_page_are_answered(host, origin, is_here):
    """A page elsewhere that gives its name this machine's address keeps its name in Host."""
    headers = {"Host": host} | ({"Origin": origin} if origin else {})
    assert is_asked_here(headers, "page.lan") == is_here


@pytest.fixture(scope="module")
def address(material):
    server = PageServer(material, "127.0.0.1", 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with server:
        assert "loads" in ask(server.address).read().decode()
        server.is_loaded = True
        yield server.address
        server.shutdown()


def ask(address: str, **headers: str):
    return urllib.request.urlopen(urllib.request.Request(address, headers=headers))


@pytest.mark.parametrize(
    ("path", "shows"),
    [
        ("", "to predict of"),
        ("masking?text=river+river+river+river&masked_lm_prob=0.5", "3 tokens to predict of 6"),
        ("masking?text=", "--text: has no word"),
        ("masking?masked_lm_prob=2", "--masked_lm_prob=2.0: must be more than 0"),
        ("masking?of=", "--of=: no such flag"),
        (f"records?record={10**20}", "--record=1"),
        ("pairs", "documents gave"),
        ("pairs?label=is+next&pair=2", "Label IsNext"),
        ("records", "Record 1 of part-0"),
        ("records?folder=1&file=2&record=6", "Record 6 of part-1"),
    ],
)
def test_the_page_shows_what_a_form_asks_for(address, path, shows):
    answer = ask(address + path)
    page = answer.read().decode()
    assert shows in html.unescape(page)
    # Each control has its label around it, and what was given in it.
    controls = re.findall(r"<label[^>]*>\w+<(?:select|input|textarea) name=\"\w+\"", page)
    assert len(controls) == page.count("<label") > 0
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("", {"Host": "evil.example"}, 403),
        ("", {"Origin": "http://evil.example"}, 403),
        *((path, {}, 404) for path in ("file=/etc/passwd", "../../etc/passwd", "%2e%2e/setup.py")),
    ],
)
def test_nothing_else_is_served(address, path, headers, status):
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(address + path, **headers)
    assert refused.value.code == status


def test_a_port_in_use_is_refused(address, folders, capsys):
    port = address.rstrip("/").rpartition(":")[2]
    vocabulary = folders / "records" / "vocab.txt"
    assert f"--port={port}: cannot be used" in refusal(
        capsys, f"--vocab_file={vocabulary}", f"--port={port}"
    )


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
    page = Masking(text=text).show(material)
    assert "[MASK]" in page and "Ġ" not in page
