"""Encoders on longer sequences, and with a vocabulary that extends their own."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from support import small_pretraining
from tokenizers import BertWordPieceTokenizer

from beambert.errors import InputError
from beambert.pipelines.tokenizers.encoding import make_tokenizer
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.trainer.commands.export import main as export_main
from beambert.trainer.commands.pretrain import main as pretrain_main
from beambert.trainer.finetuning import job
from beambert.trainer.weights.adaptation import (
    extends,
    fill_tokens,
    replaced_ids,
    tile_positions,
)
from beambert.trainer.weights.initial import open_initial

POSITIONS = "bert/embeddings/position_embeddings"


def test_tiles_repeat_the_trained_positions():
    table = np.arange(10, dtype=np.float32).reshape(5, 2)
    filled = tile_positions(table, trained=3, length=7)
    np.testing.assert_array_equal(filled, table[[0, 1, 2, 0, 1, 2, 0]])
    # Rows beyond the needed ones stay.
    np.testing.assert_array_equal(tile_positions(table, 2, 4), table[[0, 1, 0, 1, 4]])


def test_untrained_positions_are_named(encoder_folder, small_config):
    """The encoder has 32 positions, all of them trained."""
    initial = open_initial(str(encoder_folder), "--init")
    assert initial.with_positions(32, "keep").notes == ()
    assert initial.with_positions(32, "tile") is initial
    longer = initial.with_positions(50, "tile")
    assert longer.config == dataclasses.replace(small_config, max_position_embeddings=50)
    table, before = longer.read()[POSITIONS], initial.read()[POSITIONS]
    np.testing.assert_array_equal(table, before[np.arange(50) % 32])
    assert "positions 33 to 50 were not trained" in longer.notes[0] and "tile" in longer.notes[0]


def test_positions_that_were_never_seen_are_named_but_kept(encoder_folder, tmp_path):
    """As in an encoder of 512 positions that was trained on 128 tokens."""
    folder = shutil.copytree(encoder_folder, tmp_path / "encoder")
    (folder / "_SUCCESS").write_text("{}")
    training = json.loads((folder / "training.json").read_text())
    shorter = training | {"max_seq_length": 20, "trained_positions": 20}
    (folder / "training.json").write_text(json.dumps(shorter))
    initial = open_initial(str(folder), "--init")
    kept = initial.with_positions(32, "keep")
    assert "positions 21 to 32 were not trained" in kept.notes[0]
    assert "--init_positions=tile" in kept.notes[0]
    np.testing.assert_array_equal(kept.read()[POSITIONS], initial.read()[POSITIONS])
    # A later training on shorter sequences forgets nothing.
    (folder / "training.json").write_text(json.dumps(shorter | {"trained_positions": 32}))
    assert open_initial(str(folder), "--init").with_positions(32, "keep").notes == ()


def test_a_task_may_ask_for_more_positions_than_there_are(encoder_folder):
    def start(way):
        return job._start(
            job.FinetuningJob(
                task=None,
                data_dir="data",
                init=str(encoder_folder),
                output=None,
                max_seq_length=48,
                init_positions=way,
            )
        )

    with pytest.raises(InputError, match=r"--max_seq_length=48: .*at most 32.*--init_positions"):
        start("keep")
    config, *_ = start("tile")
    assert config.max_position_embeddings == 48


NEW = ("riverbank", "##zzy", "☃")
TABLE = "bert/embeddings/word_embeddings"


@pytest.fixture(scope="module")
def extended(vocabulary) -> Vocabulary:
    return Vocabulary((*vocabulary.tokens, *NEW))


def test_what_extends_what(vocabulary, extended):
    assert extends(extended, vocabulary)
    assert not extends(vocabulary, extended) and not extends(vocabulary, vocabulary)
    first, second, *rest = extended.tokens[5:]
    assert not extends(Vocabulary((*extended.tokens[:5], second, first, *rest)), vocabulary)


def test_new_tokens_begin_as_the_mean_of_what_they_replace(vocabulary, extended):
    tokens = [[vocabulary.tokens[n] for n in ids] for ids in replaced_ids(extended, vocabulary)]
    assert tokens == [["river", "##b", "##a", "##n", "##k"], ["##z", "##z", "##y"], []]
    count = len(vocabulary)
    for shape in ((count + 2, 4), (count + 2,)):  # the table has two rows more than are used
        table = np.random.default_rng(1).normal(size=shape).astype(np.float32)
        ids = replaced_ids(extended, vocabulary)
        filled = fill_tokens(table, ids, count, count + 5)
        assert filled.shape == (count + 5, *shape[1:]) and filled.dtype == np.float32
        np.testing.assert_array_equal(filled[:count], table[:count])
        z, y = vocabulary.id_of("##z"), vocabulary.id_of("##y")
        np.testing.assert_allclose(filled[count + 1], (2 * table[z] + table[y]) / 3, rtol=1e-5)
        mean = table[:count].mean(axis=0)
        np.testing.assert_allclose(filled[count + 2], mean, atol=1e-6)
        np.testing.assert_array_equal(filled[count + 3 :], 0)


@pytest.mark.slow
def test_a_pre_training_goes_on_with_new_tokens(
    encoder_folder, make_records, vocabulary, extended, tmp_path, capsys
):
    """At a rate of almost nothing the weights are those that it begins with."""
    records = make_records(tmp_path / "records", vocabulary=extended)
    flags = small_pretraining.flags(
        records,
        None,
        tmp_path / "encoder",
        init=encoder_folder,
        learning_rate=1e-9,
        num_train_steps=1,
        eval_data=records,
    )
    pretrain_main(flags)
    assert "3 new tokens" in capsys.readouterr().out
    rows = map(json.loads, (tmp_path / "encoder" / "metrics.jsonl").read_text().splitlines())
    first, last = (row["masked_lm_loss"] for row in rows if row["split"] == "eval")
    assert first == pytest.approx(last, abs=1e-3)
    before, after = (
        open_initial(str(path), "--init") for path in (encoder_folder, tmp_path / "encoder")
    )
    assert after.config.vocab_size == len(extended) and after.vocabulary.tokens == extended.tokens
    old, new = before.read(), after.read()
    assert old.keys() == new.keys()
    for name, value in old.items():
        np.testing.assert_allclose(new[name][: len(value)], value, atol=1e-7, err_msg=name)
    ids = replaced_ids(extended, vocabulary)
    for name in (TABLE, "cls/predictions/output_bias"):
        expected = fill_tokens(old[name], ids, len(vocabulary), len(extended))
        np.testing.assert_allclose(new[name], expected, atol=1e-7)
    pretrain_main(flags)
    assert "already finished by the same command" in capsys.readouterr().out
    out = tmp_path / "hf"
    export_main([f"--model={tmp_path / 'encoder'}", "--to=huggingface", f"--output={out}"])
    assert json.loads((out / "config.json").read_text())["vocab_size"] == len(extended)
    # The mean with the encoder that it went on from.
    mean, given = tmp_path / "mean", f"--average_with={encoder_folder}"
    export_main([f"--model={tmp_path / 'encoder'}", given, "--to=huggingface", f"--output={mean}"])
    halfway = open_initial(str(mean), "--init").read()
    start = before.with_vocabulary(after.vocabulary).read()
    for name, value in halfway.items():
        np.testing.assert_allclose(value, (new[name] + start[name]) / 2, atol=1e-7, err_msg=name)
    vectors, to = tmp_path / "vectors", "--to=sentence-transformers"
    export_main([f"--model={tmp_path / 'encoder'}", given, to, f"--output={vectors}"])
    np.testing.assert_array_equal(
        open_initial(str(vectors), "--init").read()[TABLE], halfway[TABLE]
    )
    with pytest.raises(InputError, match="--average_with=.*mean: is of another vocabulary"):
        export_main(
            [f"--model={encoder_folder}", f"--average_with={mean}", "--to=tf1", "--output=o"]
        )
    # The new words are those of Hugging Face's tokenizer of that folder, too.
    texts = ["A Riverbank is fuzzy, ☃!", "The river bank, riverbanks and a fizzy (☃) one."]
    theirs = BertWordPieceTokenizer(str(out / "vocab.txt"), lowercase=True)
    found, _ = make_tokenizer(extended, True).tokenize_batch(texts)
    assert [n for text in texts for n in theirs.encode(text, add_special_tokens=False).ids] == [
        *map(int, found)
    ]
    assert {*range(len(vocabulary), len(extended))} < {*found}
