"""Going on from an encoder with a vocabulary that extends its own."""

import json

import numpy as np
import pytest
from support import small_pretraining
from tokenizers import BertWordPieceTokenizer

from beambert.errors import InputError
from beambert.pipelines.tokenizers.encoding import make_tokenizer
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.trainer.commands.export import main as export_main
from beambert.trainer.commands.pretrain import main as pretrain_main
from beambert.trainer.weights.adaptation import AVERAGE, PIECES, extends, fill_tokens, replaced_ids
from beambert.trainer.weights.initial import open_initial

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
        filled = fill_tokens(table, ids, count, count + 5, PIECES)
        assert filled.shape == (count + 5, *shape[1:]) and filled.dtype == np.float32
        np.testing.assert_array_equal(filled[:count], table[:count])
        z, y = vocabulary.id_of("##z"), vocabulary.id_of("##y")
        np.testing.assert_allclose(filled[count + 1], (2 * table[z] + table[y]) / 3, rtol=1e-5)
        mean = table[:count].mean(axis=0)
        np.testing.assert_allclose(filled[count + 2], mean, atol=1e-6)
        np.testing.assert_array_equal(filled[count + 3 :], 0)
        of_all = fill_tokens(table, ids, count, count + 3, AVERAGE)
        np.testing.assert_allclose(
            of_all[count:], np.broadcast_to(mean, of_all[count:].shape), atol=1e-6
        )


@pytest.mark.slow
@pytest.mark.parametrize("way", [None, AVERAGE])
def test_a_pre_training_goes_on_with_new_tokens(
    encoder_folder, make_records, vocabulary, extended, tmp_path, capsys, way
):
    """At a rate of almost nothing the weights are those that it begins with."""
    records = make_records(tmp_path / "records", vocabulary=extended)
    flags = small_pretraining.flags(
        records,
        None,
        tmp_path / "encoder",
        init=encoder_folder,
        init_tokens=way,
        learning_rate=1e-9,
        num_train_steps=1,
        eval_data=records,
    )
    pretrain_main(flags)
    assert f"3 new tokens (--init_tokens={way or PIECES})" in capsys.readouterr().out
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
        expected = fill_tokens(old[name], ids, len(vocabulary), len(extended), way or PIECES)
        np.testing.assert_allclose(new[name], expected, atol=1e-7)
    pretrain_main(flags)
    assert "already finished by the same command" in capsys.readouterr().out
    out = tmp_path / "hf"
    export_main([f"--model={tmp_path / 'encoder'}", "--to=huggingface", f"--output={out}"])
    assert json.loads((out / "config.json").read_text())["vocab_size"] == len(extended)
    # The new words are those of Hugging Face's tokenizer of that folder, too.
    texts = ["A Riverbank is fuzzy, ☃!", "The river bank, riverbanks and a fizzy (☃) one."]
    theirs = BertWordPieceTokenizer(str(out / "vocab.txt"), lowercase=True)
    found, _ = make_tokenizer(extended, True).tokenize_batch(texts)
    assert [n for text in texts for n in theirs.encode(text, add_special_tokens=False).ids] == [
        *map(int, found)
    ]
    assert {*range(len(vocabulary), len(extended))} < {*found}


def test_a_way_without_new_tokens_is_refused(encoder_folder, records_folder, tmp_path):
    flags = small_pretraining.flags(
        records_folder, None, tmp_path / "m", init=encoder_folder, init_tokens=AVERAGE
    )
    with pytest.raises(InputError, match="--init_tokens=average: the vocabulary of --data=.* has"):
        pretrain_main(flags)
    with pytest.raises(InputError, match="--init_tokens=average: needs --init"):
        pretrain_main(
            small_pretraining.flags(records_folder, "tiny", tmp_path / "m", init_tokens=AVERAGE)
        )
    assert not (tmp_path / "m").exists()
