"""Embeddings beside those of sentence-transformers, and the command that writes them."""

import json
import os
import pathlib
import shutil
import subprocess

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.numpy
import tokenizers
from support import untrained_models

from beambert.cli import run
from beambert.errors import InputError
from beambert.trainer.embedding import embedder as embedding
from beambert.trainer.embedding import writing
from beambert.trainer.embedding.embedder import Embedder, embed, open_embedder

GOLDEN = pathlib.Path(__file__).parents[1] / "golden_sentences"
FOUND = json.loads((GOLDEN / "embeddings.json").read_text("utf-8"))
TEXTS = FOUND["texts"]


@pytest.mark.parametrize("name", ["mean", "cls"])
@pytest.mark.slow
def test_a_folder_gives_the_embeddings_of_the_library(name):
    """The pooling, the length, the normalization and the default prompt are the folder's own."""
    vectors = embed(str(GOLDEN / name), TEXTS)
    np.testing.assert_allclose(vectors, FOUND["embeddings"][name], atol=1e-5)
    assert vectors.dtype == np.float32


@pytest.mark.slow
def test_flags_give_the_same_as_the_folder():
    """The encoder alone, with the settings of the folder that was made around it."""
    encoder = str(GOLDEN / "encoder")
    vectors = embed(encoder, TEXTS, normalize=True, max_seq_length=12)
    np.testing.assert_allclose(vectors, FOUND["embeddings"]["mean"], atol=1e-5)
    vectors = embed(encoder, TEXTS, pooling="cls", prefix="q: ", max_seq_length=12)
    np.testing.assert_allclose(vectors, FOUND["embeddings"]["cls"], atol=1e-5)


def test_batches_change_no_embedding(monkeypatch):
    together = embed(str(GOLDEN / "mean"), TEXTS)
    monkeypatch.setattr(embedding, "BATCH_TOKENS", 1)
    seen = []
    alone = embed(str(GOLDEN / "mean"), TEXTS, report=lambda *done: seen.append(done))
    np.testing.assert_allclose(together, alone, atol=1e-6)
    assert seen == [(count, 5) for count in range(1, 6)]


@pytest.mark.parametrize(("family", "graphs"), [("bert", 1), ("modernbert", 2)])
@pytest.mark.slow
def test_one_graph_takes_all_lengths_where_the_encoder_can(family, graphs, monkeypatch):
    traced, vectors = [], Embedder.vectors
    monkeypatch.setattr(Embedder, "vectors", lambda *given: traced.append(1) or vectors(*given))
    folder = GOLDEN / "encoder" if family == "bert" else GOLDEN.parent / "golden_families" / family
    embedder = open_embedder(str(folder))
    texts = ["a river", "a river of the north and the south of it in the city"]
    longest_first = [embedder.embed([text])[0][0] for text in reversed(texts)]
    assert len(traced) == graphs
    for text, vector in zip(reversed(texts), longest_first, strict=True):
        (row,), _ = embedder.token_ids([text])
        ids = row[None]
        sequence, _ = embedder.encoder(ids, np.ones_like(ids), np.zeros_like(ids))
        np.testing.assert_allclose(vector, np.mean(sequence[0], axis=0), atol=1e-5)


def test_texts_that_are_cut_are_counted():
    open_ = open_embedder(str(GOLDEN / "mean"))
    rows, cut = open_.token_ids(["a", "b " * 10, "b " * 11])
    assert [len(row) for row in rows] == [3, 12, 12] and cut == 1


@pytest.mark.slow
def test_a_fine_tuned_model_gives_its_encoder(untrained, vocabulary):
    """The vector of [CLS] is what the encoder inside the model computes."""
    folder = str(untrained("late_interaction"))
    vectors = embed(folder, ["the river", "a village of the north"], pooling="cls")
    from beambert.trainer import model_folders
    from beambert.trainer.models import task_model

    model = task_model(model_folders.open_model(folder, "--model"))
    ids = np.array([[2, *(vocabulary.id_of(word) for word in ("the", "river")), 3]], np.int32)
    sequence, _ = model.encoder(ids, np.ones_like(ids), np.zeros_like(ids))
    np.testing.assert_allclose(vectors[0], sequence[0, 0], atol=1e-6)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({"max_seq_length": 21}, "--max_seq_length=21: "),
        ({"texts": ["a", " "]}, "' ': is blank, and stands at place 2"),
    ],
)
def test_refusals(flags, told):
    with pytest.raises(InputError, match=told):
        embed(str(GOLDEN / "encoder"), **{"texts": ["a"]} | flags)


@pytest.mark.parametrize(
    ("file", "change", "told"),
    [
        ("modules.json", lambda modules: modules[::-1], "has the modules Normalize, Pooling"),
        (
            "modules.json",
            lambda modules: [modules[0], modules[1] | {"path": "../cls"}],
            "names '../cls', which is no file in its folder",
        ),
        ("sentence_bert_config.json", lambda of: of | {"max_seq_length": 2}, "reads 2 tokens"),
        ("1_Pooling/config.json", lambda of: of | {"pooling_mode": "max"}, "pools by max"),
        ("1_Pooling/config.json", lambda of: of | {"include_prompt": False}, "include_prompt"),
        ("config_sentence_transformers.json", lambda of: of | {"truncate_dim": 0}, "truncate_dim"),
        (
            "config_sentence_transformers.json",
            lambda of: of | {"default_prompt_name": "other"},
            "has no prompt 'other'",
        ),
    ],
)
def test_a_folder_that_is_not_supported(tmp_path, file, change, told):
    folder = shutil.copytree(GOLDEN / "mean", tmp_path / "mean")
    content = json.loads((folder / file).read_text("utf-8"))
    (folder / file).write_text(json.dumps(change(content)))
    with pytest.raises(InputError, match=told):
        open_embedder(str(folder))


def test_a_folder_may_cut_its_embeddings(tmp_path):
    """It does so after the module Normalize, as the library; --normalize scales what is left."""
    folder = shutil.copytree(GOLDEN / "mean", tmp_path / "mean")
    file = folder / "config_sentence_transformers.json"
    file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | {"truncate_dim": 3}))
    expected = np.array(FOUND["embeddings"]["mean"])[:, :3]
    assert open_embedder(str(folder)).width == 3
    np.testing.assert_allclose(embed(str(folder), TEXTS), expected, atol=1e-5)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(embed(str(folder), TEXTS, normalize=True), expected, atol=1e-5)


def test_a_fine_tuning_reports_what_the_new_model_lacks(tmp_path):
    folder = shutil.copytree(GOLDEN / "cls", tmp_path / "cls")
    file = folder / "config_sentence_transformers.json"
    file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | {"truncate_dim": 3}))
    prompt, cut = embedding.settings_notes(str(folder))
    assert "puts 'q: ' before each text" in prompt and "to 3 components (truncate_dim)" in cut
    assert not embedding.settings_notes(str(GOLDEN / "mean"))


def test_special_tokens_in_texts_are_those_of_transformers():
    """SPECTER gets title, [SEP] and abstract; an encoder of this package spells the token."""
    embedder = open_embedder(str(GOLDEN / "encoder"))
    ((row,), _), special = embedder.token_ids(["a [SEP] a [MASK]"]), embedder.vocabulary.special
    a = embedder.vocabulary.id_of("a")
    ends = special.classify, special.separate
    assert row.tolist() == [ends[0], a, special.separate, a, special.mask, ends[1]]


def test_a_prompt_is_lower_cased_as_the_texts_are(tmp_path):
    folder = shutil.copytree(GOLDEN / "cls", tmp_path / "cls")
    for name, change in (
        ("sentence_bert_config.json", {"do_lower_case": True}),
        ("tokenizer_config.json", {"do_lower_case": False}),
        ("config_sentence_transformers.json", {"prompts": {"query": "QUERY. "}}),
    ):
        file = folder / name
        file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | change))
    file = folder / "tokenizer.json"
    file.write_text(file.read_text("utf-8").replace('"lowercase": true', '"lowercase": false'))
    embedder = open_embedder(str(folder))
    (row,), _ = embedder.token_ids(["The River"])
    assert embedder.vocabulary.special.unknown not in row.tolist()


def test_older_folders_have_a_setting_for_each_pooling(tmp_path):
    folder = shutil.copytree(GOLDEN / "cls", tmp_path / "cls")
    modes = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (folder / "1_Pooling/config.json").write_text(json.dumps(modes))
    assert open_embedder(str(folder)).settings.pooling.mode == "cls"


SENTENCES = ["the river", "a village of the north", "people live there, in the city."]
# A Python interpreter that has sentence-transformers, for a release.
PEER = os.environ.get("BEAMBERT_SENTENCE_TRANSFORMERS_PYTHON")
ENCODE = """
import json, sys
from sentence_transformers import SentenceTransformer
print(json.dumps(SentenceTransformer(sys.argv[1], device="cpu").encode(sys.argv[2:]).tolist()))
"""


@pytest.fixture(scope="module")
def encoder(untrained):
    return str(untrained("encoder"))


@pytest.mark.slow
def test_the_folder_gives_the_vectors_of_the_encoder(encoder, tmp_path):
    out = tmp_path / "out"
    flags = ["--to=sentence-transformers", "--pooling=cls", "--normalize=False"]
    assert run(["export", f"--model={encoder}", f"--output={out}", *flags]) == 0
    expected = embed(encoder, SENTENCES, pooling="cls", normalize=False)
    np.testing.assert_allclose(embed(str(out), SENTENCES), expected, atol=1e-6)
    if PEER:
        done = subprocess.run(
            [PEER, "-c", ENCODE, out, *SENTENCES], capture_output=True, text=True, check=True
        )
        np.testing.assert_allclose(json.loads(done.stdout.splitlines()[-1]), expected, atol=1e-5)


def test_the_folder_has_what_a_server_of_embeddings_reads(encoder, tmp_path):
    """The files and keys of text-embeddings-inference: pooling, length and tokenizer."""
    out = tmp_path / "out"
    flags = ["--to=sentence-transformers", "--pooling=mean"]
    assert run(["export", f"--model={encoder}", f"--output={out}", *flags]) == 0
    modules = json.loads((out / "modules.json").read_text())
    assert [module["type"].rpartition(".")[2] for module in modules] == [
        "Transformer",
        "Pooling",
        "Normalize",
    ]
    pooling = json.loads((out / "1_Pooling" / "config.json").read_text())
    modes = {name: value for name, value in pooling.items() if name.startswith("pooling_mode_")}
    assert [name for name, value in modes.items() if value] == ["pooling_mode_mean_tokens"]
    config = json.loads((out / "config.json").read_text())
    assert config["model_type"] == "bert"
    assert config["position_embedding_type"] == "absolute"
    assert pooling["word_embedding_dimension"] == config["hidden_size"]
    length = json.loads((out / "sentence_bert_config.json").read_text())["max_seq_length"]
    assert 0 < length <= config["max_position_embeddings"]
    tokenizer = tokenizers.Tokenizer.from_file(str(out / "tokenizer.json"))
    assert tokenizer.get_vocab_size() <= config["vocab_size"]
    tokens = tokenizer.encode("the river").tokens
    assert tokens[0] == "[CLS]" and tokens[-1] == "[SEP]"


@pytest.mark.slow
def test_the_generator_of_replaced_tokens_stays_out(tmp_path, vocabulary):
    encoder, out = untrained_models.save_encoder(tmp_path / "e", vocabulary, "rtd"), tmp_path / "o"
    assert (
        run(["export", f"--model={encoder}", f"--output={out}", "--to=sentence-transformers"]) == 0
    )
    assert (out / "model.safetensors").is_file() and not (out / "generator").exists()
    expected = embed(str(encoder), SENTENCES, normalize=True)
    np.testing.assert_allclose(embed(str(out), SENTENCES), expected, atol=1e-6)


def test_static_embeddings(tmp_path, untrained, vocabulary):
    """Those of words alone, less the mean, weighted by Zipf's law; special tokens are zero."""
    model, out = untrained("embedding"), tmp_path / "static"
    assert run(["export", f"--model={model}", "--to=static", f"--output={out}"]) == 0
    table = safetensors.numpy.load_file(out / "model.safetensors")["embedding.weight"]
    assert len(table) == len(vocabulary) and not table[:5].any()
    all_ids, words = range(5, len(vocabulary)), ["the", "river", "city"]
    vectors = open_embedder(str(model)).of_tokens(all_ids)
    ids = np.array([vocabulary.id_of(word) for word in words])
    np.testing.assert_allclose(vectors[ids - 5], embed(str(model), words), atol=1e-6)
    shares = (1 / (ids - 4)) / sum(1 / rank for rank in range(1, len(all_ids) + 1))
    expected = (vectors[ids - 5] - vectors.mean(axis=0)) * (1e-3 / (1e-3 + shares))[:, None]
    np.testing.assert_allclose(table[ids], expected, atol=1e-6)
    assert json.loads((out / "modules.json").read_text())[0]["type"].endswith("StaticEmbedding")
    tokenizer = tokenizers.Tokenizer.from_file(str(out / "tokenizer.json"))
    assert tokenizer.encode("the river", add_special_tokens=False).ids == ids[:2].tolist()


MODEL = f"--model={GOLDEN / 'mean'}"


def command(folder, *flags):
    return run(["embed", MODEL, f"--output={folder / 'out'}", *map(str, flags)])


@pytest.mark.slow
def test_lines_and_columns(tmp_path, capsys):
    """Files in the order of their names, blank lines left out, identifiers where there are any."""
    (tmp_path / "b.txt").write_text("a river\n\n  a b \n")
    (tmp_path / "a.csv").write_text('body,number\n"a,\nb",7\nc,8\n')
    flags = ["--input", tmp_path / "a.csv", "--text_column=body", "--id_column=number"]
    assert command(tmp_path, *flags) == 0
    table = pq.read_table(tmp_path / "out")
    assert table.column_names == ["file", "line", "start", "id", "text", "embedding"]
    assert table["line"].to_pylist() == [2, 4] and table["id"].to_pylist() == ["7", "8"]
    assert table["text"].to_pylist() == ["a,\nb", "c"]
    assert table.schema.field("embedding").type == pa.list_(pa.float32(), 16)
    expected = embed(str(GOLDEN / "mean"), ["a,\nb", "c"])
    np.testing.assert_allclose(np.stack(table["embedding"].to_numpy()), expected, atol=1e-6)
    assert "out: embeddings of 2 texts, 16 wide\n" in capsys.readouterr().out

    other = tmp_path / "other"
    flags = [f"--input={tmp_path}/*.txt", "--max_seq_length=3"]
    assert command(other, *flags) == 0
    table = pq.read_table(other / "out")
    assert table.column_names == ["file", "line", "start", "text", "embedding"]
    assert table["line"].to_pylist() == [1, 3]
    assert table["file"].to_pylist() == [str(tmp_path / "b.txt")] * 2
    assert "2 texts, 16 wide; 2 texts cut to 3 tokens" in capsys.readouterr().out


def test_a_killed_command_goes_on(tmp_path, monkeypatch, capsys):
    """The second part is missing; the first and the third aren't made again."""
    monkeypatch.setattr(writing, "PART_TEXTS", 2)
    texts = tmp_path / "texts.txt"
    texts.write_text("".join(f"{letter} {letter * 12}\n" for letter in "abcde"))
    whole = tmp_path / "whole"
    assert command(whole, f"--input={texts}") == 0
    expected = pq.read_table(whole / "out")
    asked, ask = [], Embedder.embed

    def fails(self, texts, report):
        asked.append(list(texts))
        if len(asked) == 2:
            raise KeyboardInterrupt
        return ask(self, texts, report)

    monkeypatch.setattr(Embedder, "embed", fails)
    assert command(tmp_path, f"--input={texts}") == 130
    assert "continues it" in capsys.readouterr().err
    assert command(tmp_path, f"--input={texts}") == 0
    assert [each[0][0] for each in asked] == ["a", "c", "c", "e"]
    assert pq.read_table(tmp_path / "out").equals(expected)
    info, of_whole = ((to / "out/_info.json").read_text() for to in (tmp_path, whole))
    assert info == of_whole and json.loads(info)["cut"] == 5
    assert command(tmp_path, f"--input={texts}") == 0
    assert len(asked) == 4 and "nothing to do" in capsys.readouterr().out
    assert command(tmp_path, f"--input={texts}", "--pooling=cls") == 2
    assert 'settings.pooling.mode there "mean", here "cls"' in capsys.readouterr().err


@pytest.mark.parametrize("name", ["part-00000.parquet", "_info.json"])
def test_a_changed_bit_is_refused_or_changes_nothing(tmp_path, name):
    (tmp_path / "a.txt").write_text("a river\na b\n")
    assert command(tmp_path, f"--input={tmp_path}/a.txt") == 0
    path = tmp_path / "out" / name
    content, refused = path.read_bytes(), 0

    def read():
        folder = writing.open_embeddings(str(path.parent))
        about = {key: value for key, value in folder.info.items() if key != "cut"}
        return about, [(rows.to_pydict(), all_NH.tolist()) for rows, all_NH in folder.parts()]

    expected = read()
    for position in range(0, len(content), 11):
        changed = bytearray(content)
        changed[position] ^= 4
        path.write_bytes(changed)
        try:
            assert read() == expected
        except InputError:
            refused += 1
    assert refused > len(content) / 11 / 4


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("t.txt", "\n \n", "has no text"),
        ("t.csv", "text,id\na,1\n ,2\n", "t.csv, line 3: has an empty 'text'"),
        ("t.jsonl", '{"text": "a"}\n{"text": null}\n', "t.jsonl, line 2: has an empty 'text'"),
    ],
)
def test_bad_rows_are_refused_before_the_first_is_embedded(tmp_path, capsys, name, content, told):
    (tmp_path / name).write_text(content)
    assert command(tmp_path, f"--input={tmp_path / name}") == 2
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("content", ["", "a river\nmore\n", "another\n"])
def test_a_file_that_changes_meanwhile_is_refused(tmp_path, monkeypatch, capsys, content):
    """It is emptied, grows or is replaced after its rows have been counted."""
    texts, claimed = tmp_path / "t.txt", writing.folders.claimed
    texts.write_text("a river\n")

    def claim(*given):
        texts.write_text(content)
        return claimed(*given)

    monkeypatch.setattr(writing.folders, "claimed", claim)
    assert command(tmp_path, f"--input={texts}") == 2
    assert "t.txt: was changed while it was read" in capsys.readouterr().err
    assert not (tmp_path / "out/_SUCCESS").exists()


@pytest.mark.slow
def test_gs(gs, tmp_path, monkeypatch, capsys):
    """The same vectors as of files here; a command that was cut off goes on; an index of them."""
    import tensorflow as tf

    monkeypatch.setattr(writing, "PART_TEXTS", 2)
    contents = {"a.csv": "text,id\na river,7\na road,8\n", "b.csv": "text,id\na b c,9\n"}
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
        with tf.io.gfile.GFile(f"{gs}/texts/{name}", "w") as file:
            file.write(content)
    assert command(tmp_path, f"--input={tmp_path}/*.csv", "--id_column=id") == 0
    flags = [MODEL, f"--input={gs}/texts/*.csv", "--id_column=id", f"--output={gs}/embeddings"]
    ask = Embedder.embed

    def fails(embedder, texts, report):
        if len(texts) == 1:
            raise KeyboardInterrupt
        return ask(embedder, texts, report)

    with monkeypatch.context() as patched:
        patched.setattr(Embedder, "embed", fails)
        assert run(["embed", *flags]) == 130
    asked = []
    monkeypatch.setattr(Embedder, "embed", lambda *of: (asked.extend(of[1]), ask(*of))[1])
    assert run(["embed", *flags]) == 0 and asked == ["a b c"]
    assert run(["index", f"--embeddings={gs}/embeddings", f"--output={tmp_path / 'index'}"]) == 0
    passages = pa.ipc.open_file(tmp_path / "index/passages.arrow").read_all()
    here = pq.read_table(tmp_path / "out")
    assert passages["file"].to_pylist() == [f"{gs}/texts/{each}.csv" for each in "aab"]
    assert passages["text"].to_pylist() == here["text"].to_pylist()
    vectors = np.load(tmp_path / "index/vectors.npy")
    expected = np.stack(here["embedding"].to_numpy())
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
