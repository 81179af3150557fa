"""Weights from elsewhere that were made to harm: bombs, lies, pipes and paths to other folders."""

import json
import os
import pathlib
import resource
import shutil
import struct

import numpy as np
import pytest

from beambert.errors import InputError
from beambert.model.config import BertConfig
from beambert.pipelines.records.contract import RecordsInfo
from beambert.trainer.weights.initial import open_initial

GOLDEN = pathlib.Path(__file__).parents[1] / "golden_checkpoint"


@pytest.fixture
def golden(tmp_path):
    """A copy of the folder that transformers wrote, with model.safetensors only."""
    folder = shutil.copytree(GOLDEN, tmp_path / "golden")
    (folder / "pytorch_model.bin").unlink()
    return folder


@pytest.fixture
def little_memory():
    """What takes more than 2 GB more than there is now, fails."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (2 << 30), limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, limits)


def refusal(folder) -> str:
    with pytest.raises(InputError) as caught:
        open_initial(str(folder), "--init").check("--init")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400
    return str(caught.value)


def test_a_larger_file_than_the_configuration_says_is_not_read(golden):
    """A file of a terabyte that takes no room on the disk."""
    os.truncate(golden / "model.safetensors", 1 << 40)
    assert "model.safetensors: cannot be read (it has more than" in refusal(golden)


def safetensors(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


WORDS = "bert.embeddings.word_embeddings.weight"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        struct.pack("<Q", 1 << 60) + b"{}",
        safetensors(b"[" * 100_000),
        safetensors(
            {WORDS: {"dtype": "F32", "shape": [1 << 40, 8], "data_offsets": [0, 4]}}, b"1234"
        ),
        safetensors({WORDS: {"dtype": "F32", "shape": [1], "data_offsets": [0, 1 << 40]}}, b"1234"),
        safetensors(
            {
                WORDS: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
                "b": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
            },
            b"1234",
        ),
        safetensors({WORDS: {"dtype": "F8_E4M3", "shape": [4], "data_offsets": [0, 4]}}, b"1234"),
    ],
)
def test_lying_headers_are_refused(golden, little_memory, content):
    (golden / "model.safetensors").write_bytes(content)
    assert "model.safetensors: cannot be read (" in refusal(golden)


def test_weights_that_are_no_numbers_are_refused(golden):
    import safetensors.numpy

    weights = safetensors.numpy.load_file(golden / "model.safetensors")
    weights[WORDS] = weights[WORDS].copy()
    weights[WORDS][0, 0] = np.nan
    safetensors.numpy.save_file(weights, golden / "model.safetensors")
    message = refusal(golden)
    assert "word_embeddings has weights that are no finite numbers" in message


@pytest.mark.parametrize(
    "name", ["../golden/model.safetensors", "/etc/passwd", "..", "a/../b", "", 1]
)
def test_an_index_names_only_files_in_its_folder(golden, name):
    (golden / "model.safetensors").unlink()
    index = golden / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {WORDS: name}}))
    assert f"names {name!r}, which is no file in its folder" in refusal(golden)


def test_the_list_of_records_names_only_files_beside_it():
    fields = {"format_version": 1, "parameters": {}, "vocabulary": {}, "inputs": [], "counts": {}}
    fields |= {"versions": {}}
    for name in ("../../etc/passwd", "/dev/zero", ".."):
        text = json.dumps(fields | {"files": [{"name": name}]})
        with pytest.raises(InputError, match="not the info.json of a records folder"):
            RecordsInfo.from_json(text, "info.json")


@pytest.mark.parametrize(
    "name", ["model.safetensors", "config.json", "vocab.txt", "tokenizer_config.json"]
)
def test_a_pipe_is_no_file(golden, name):
    (golden / name).unlink(missing_ok=True)
    os.mkfifo(golden / name)
    assert f"{name}: cannot be read (it is not a regular file)" in refusal(golden)


def test_weights_that_are_a_folder_are_refused(golden):
    (golden / "model.safetensors").unlink()
    (golden / "model.safetensors").mkdir()
    assert "model.safetensors: cannot be read (it is not a regular file)" in refusal(golden)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"vocab_size": 1000000000}', "vocab_size must be at most 10,000,000"),
        (
            '{"vocab_size": 9, "num_hidden_layers": 100000}',
            "num_hidden_layers must be at most 1,000",
        ),
        ('{"vocab_size": 9, "hidden_size": 1000000000}', "hidden_size must be at most 32,768"),
        ('{"vocab_size": 9, "type_vocab_size": 1e9}', "type_vocab_size must be a positive integer"),
        ('{"vocab_size": [9]}', "vocab_size must be a positive integer"),
        (f'{{"vocab_size": 1{"0" * 4000}}}', "vocab_size must be at most"),
        (f'{{"vocab_size": 1{"0" * 9000}}}', "not valid JSON"),
        ('{"vocab_size": 9, "hidden_dropout_prob": NaN}', r"hidden_dropout_prob must be in \[0, 1"),
        ('{"vocab_size": 9, "initializer_range": Infinity}', "initializer_range must be positive"),
        ('{"vocab_size": 9, "hidden_act": ["gelu"]}', "hidden_act must be one of"),
        (f'{{"vocab_size": 9, "model_type": "{"b" * 9999}"}}', "has model_type 'bbb"),
        ('{"vocab_size": 9, "vocab_size": 8}', "'vocab_size' twice"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_configurations_have_bounds(text, reason):
    with pytest.raises(ValueError, match=reason) as caught:
        BertConfig.from_json(text)
    assert len(str(caught.value)) < 300


def write_tokenizer(folder, normalizer=None, vocab=None):
    (folder / "vocab.txt").unlink(missing_ok=True)
    (folder / "tokenizer_config.json").unlink(missing_ok=True)
    vocab = vocab or ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    model = {"type": "WordPiece", "vocab": {token: number for number, token in enumerate(vocab)}}
    value = {"model": model, "normalizer": normalizer}
    (folder / "tokenizer.json").write_text(json.dumps(value))


@pytest.mark.parametrize("normalizer", [{"normalizers": 5}, {"normalizers": [5]}, [1], "a"])
def test_a_normalizer_that_is_no_list_of_steps_is_refused(golden, normalizer):
    write_tokenizer(golden, normalizer)
    assert "tokenizer.json: its normalizer is not a list of steps" in refusal(golden)


def test_tokens_of_half_a_character_are_refused(golden):
    write_tokenizer(golden, vocab=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "\ud800"])
    assert "tokenizer.json: a token has half a character" in refusal(golden)


def test_a_token_of_two_lines_moves_no_other(golden):
    write_tokenizer(golden, vocab=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a\nb", "c"])
    assert "tokenizer.json: a token has a line break in it" in refusal(golden)


def test_a_case_must_be_true_or_false(golden):
    (golden / "tokenizer_config.json").write_text('{"do_lower_case": "false"}')
    assert "do_lower_case 'false', which is neither true nor false" in refusal(golden)


def test_a_vocabulary_of_too_many_lines_is_refused(golden):
    (golden / "vocab.txt").write_bytes(b"\n" * 10_000_001)
    assert "vocab.txt: has 10,000,001 lines" in refusal(golden)
