"""Weights from elsewhere that were made to harm: bombs, lies, pipes and paths to other folders."""

import json
import os
import pathlib
import resource
import shutil
import struct
import zipfile

import numpy as np
import pytest

from beambert.errors import InputError
from beambert.model.config import BertConfig
from beambert.pipelines.records.contract import RecordsInfo
from beambert.trainer.weights.initial import open_initial
from beambert.trainer.weights.torch_file import read_torch_file

GOLDEN = pathlib.Path(__file__).parents[1] / "golden_checkpoint"
MOST = 1 << 20


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


def write_torch(path, steps: bytes, numbers: bytes = bytes(4000), compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("archive/data.pkl", steps)
        archive.writestr("archive/data/0", numbers)


def torch_steps(*tensors: tuple[int, tuple[int, ...], tuple[int, ...]]) -> bytes:
    """The pickle of tensors on the same numbers, each with an offset, a shape and strides."""

    def integers(values) -> bytes:
        return b"(" + b"".join(b"J" + struct.pack("<i", value) for value in values) + b"t"

    def text(value: str) -> bytes:
        return b"X" + struct.pack("<I", len(value)) + value.encode()

    steps = b"\x80\x02}("
    for number, (offset, shape, strides) in enumerate(tensors):
        steps += text(f"t{number}") + b"ctorch._utils\n_rebuild_tensor_v2\n("
        steps += b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu")
        steps += b"J" + struct.pack("<i", 1000) + b"tQ"
        steps += b"J" + struct.pack("<i", offset) + integers(shape) + integers(strides)
        steps += b"\x89}tR"
    return steps + b"u."


def test_the_steps_of_these_tests_are_those_of_a_tensor(tmp_path):
    numbers = np.arange(1000, dtype="<f4")
    write_torch(tmp_path / "a.bin", torch_steps((1, (2, 3), (3, 1))), numbers.tobytes())
    found = read_torch_file(str(tmp_path / "a.bin"), MOST)
    np.testing.assert_array_equal(found["t0"], [[1, 2, 3], [4, 5, 6]])


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
def test_compressed_weights_are_refused(tmp_path, compression):
    write_torch(tmp_path / "a.bin", torch_steps((0, (1,), (1,))), bytes(1 << 20), compression)
    with pytest.raises(ValueError, match="has compressed parts"):
        read_torch_file(str(tmp_path / "a.bin"), MOST)


def test_a_few_numbers_make_no_large_tensor(tmp_path, little_memory):
    write_torch(tmp_path / "a.bin", torch_steps((0, (100_000, 100_000), (0, 0))))
    with pytest.raises(ValueError, match="reaches beyond its 1000 numbers"):
        read_torch_file(str(tmp_path / "a.bin"), MOST)


def test_many_tensors_of_the_same_numbers_take_no_more_memory(tmp_path, little_memory):
    """1,000 tensors of 4 MB."""
    tensors = torch_steps(*[(0, (1_000_000,), (1,))] * 1000)
    write_torch(tmp_path / "a.bin", tensors, bytes(4_000_000))
    assert len(read_torch_file(str(tmp_path / "a.bin"), 1 << 24)) == 1000


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        # It makes room for 2^31 objects.
        (b"\x80\x02}r\xff\xff\xff\x7f.", "damaged"),
        (b"\x80\x02cbuiltins\nprint\n.", "builtins.print, which is not a tensor"),
        (b"\x80\x02(ibuiltins\nprint\n.", "INST, which is not allowed"),
        (b"\x80\x02\x82\x01.", "EXT1, which is not allowed"),
        (b"\x80\x02}" + b"(" * 100_000, ""),
        # It sets attributes of the function that makes tensors, and of a class.
        (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n}X\x01\x00\x00\x00aK\x01sb.", "attribute"),
        (b"\x80\x02ctorch\nBFloat16Storage\nN}X\x01\x00\x00\x00aK\x01s\x86b.", "attribute"),
        (b"\x80\x02N.", "attribute"),
        (b"\x80\x02]Q.", ""),
        (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(K\x01K\x01K\x01K\x01tR.", "no numbers"),
    ],
)
def test_a_pickle_runs_only_what_tensors_need(tmp_path, little_memory, steps, reason):
    write_torch(tmp_path / "a.bin", steps)
    with pytest.raises(ValueError, match=reason):
        read_torch_file(str(tmp_path / "a.bin"), MOST)


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
