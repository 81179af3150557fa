"""Damaged and unfit weights are refused, and so are those that were made to harm."""

import json
import os
import pathlib
import resource
import struct
import sys

import numpy as np
import pytest
from support.golden_checkpoint import GOLDEN, load

from beambert.errors import InputError
from beambert.model.families.table import read_config
from beambert.pipelines.records.contract import RecordsInfo
from beambert.trainer.weights.initial import open_initial


def change_config(folder, **values) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | values))


def test_a_variable_of_another_shape_is_named(golden):
    change_config(golden, intermediate_size=13)
    with pytest.raises(InputError, match=r"intermediate/dense/kernel has shape \(16, 24\)"):
        load(golden)


def test_missing_layers_are_named(golden):
    change_config(golden, num_hidden_layers=4)
    with pytest.raises(InputError, match=r"lacks bert/encoder/layer_3/attention.* and 11 more"):
        load(golden)


def test_truncated_weights_are_refused(golden):
    data = (GOLDEN / "model.safetensors").read_bytes()
    (golden / "model.safetensors").write_bytes(data[: len(data) // 2])
    with pytest.raises(
        InputError, match=r"model.safetensors: cannot be read \(.+\); copy it again"
    ):
        load(golden)


def test_a_torch_file_without_torch_names_both_ways_out(golden, monkeypatch):
    (golden / "model.safetensors").rename(golden / "pytorch_model.bin")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r"pytorch_model\.bin: .*pip install torch.*safetensors"):
        load(golden)


def test_a_pickle_that_asks_for_more_than_tensors_runs_nothing(golden, tmp_path):
    torch = pytest.importorskip("torch")

    class Evil:
        def __reduce__(self):
            return (pathlib.Path.touch, (tmp_path / "ran",))

    (golden / "model.safetensors").unlink()
    torch.save({"a": Evil()}, golden / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"pytorch_model\.bin: cannot be read"):
        load(golden)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("remove", ["config.json", "vocab.txt", "model.safetensors"])
def test_what_is_missing_is_said(golden, remove):
    (golden / remove).unlink()
    with pytest.raises(InputError, match=r"has no|holds no"):
        open_initial(str(golden), "--init")


@pytest.mark.parametrize("name", ["spm.model", "vocab.json"])
def test_a_tokenizer_in_another_form_is_named(golden, name):
    """As DeBERTa-v3 is published: its folder has spm.model and no tokenizer.json."""
    (golden / "vocab.txt").unlink()
    (golden / name).write_bytes(b"")
    with pytest.raises(InputError) as caught:
        open_initial(str(golden), "--init")
    assert f"--init={golden}: its tokenizer is {name} and not a tokenizer.json" in str(caught.value)
    assert f"AutoTokenizer.from_pretrained('{golden}')" in str(caught.value)


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


@pytest.mark.parametrize("name", ["../golden/model.safetensors", "/etc/passwd", 1])
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


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "vocab.txt"])
def test_a_pipe_is_no_file(golden, name):
    (golden / name).unlink(missing_ok=True)
    os.mkfifo(golden / name)
    assert f"{name}: cannot be read (it is not a regular file)" in refusal(golden)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"vocab_size": [9]}', "vocab_size must be a positive integer"),
        (f'{{"vocab_size": 1{"0" * 9000}}}', "not valid JSON"),
        ('{"vocab_size": 9, "hidden_dropout_prob": NaN}', "hidden_dropout_prob must be in"),
        (f'{{"vocab_size": 9, "model_type": "{"b" * 9999}"}}', "model_type 'bbb"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_configurations_have_bounds(text, reason):
    with pytest.raises(ValueError, match=reason) as caught:
        read_config(text)
    assert len(str(caught.value)) < 300


def test_a_case_must_be_true_or_false(golden):
    (golden / "tokenizer_config.json").write_text('{"do_lower_case": "false"}')
    assert "do_lower_case 'false', which is neither true nor false" in refusal(golden)
