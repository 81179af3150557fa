"""Tests of what a configuration of retraining says, and of those that are refused."""

import pathlib
import re

import pytest
from support import growing_corpus as corpus
from support.cloud_samples import DEPLOYMENT

from beambert.cli import COMMANDS
from beambert.deploy.retraining import workspace
from beambert.deploy.retraining.runs import STEPS, Retraining, command, is_needed, next_run
from beambert.errors import InputError

ROOT = pathlib.Path(__file__).parents[3]

# what to replace in the configuration, by what -> what the message says
BAD = {
    ("[evaluate]", "[evaluates]"): "no such key: evaluates",
    ("vocab_file =", "tokenizer = 't'\nvocab_file ="): "needs vocab_file or tokenizer",
    ("[evaluate]", ""): "lacks evaluate",
    ("dupe_factor", "output = 'x'\ndupe_factor"): "data.output: is set by each run",
    ("learning_rate", "learn_rate"): "finetune.learn_rate: is no flag",
    ('task = "classification"', ""): "needs task and data_dir",
    ("[pretrain]", "[pretrain"): "is not TOML",
    ("vocab_file =", "manifests = [1]\nvocab_file ="): "manifests = ",
    ("dupe_factor = 1", "dupe_factor = [1, 2]"): "data.dupe_factor: must be one value",
    ("max_seq_length = 32", "max_seq_length = '8,16,32'"): "one length, or a short and a long one",
    ("vocab_file =", "alert_days = inf\nvocab_file ="): "alert_days",
    ("dupe_factor", "source = ['a=x']\ndupe_factor"): "data.source: is given with input",
    ("input =", "# input ="): "data.source: neither it nor input",
}


@pytest.mark.parametrize(("old", "new"), BAD)
def test_bad_configuration(tmp_path, old, new):
    text = corpus.write_config(tmp_path).read_text()
    assert old in text
    with pytest.raises(InputError, match=BAD[old, new]) as caught:
        Retraining.from_toml(text.replace(old, new), "my.toml")
    assert "my.toml" in str(caught.value) and "\n" not in str(caught.value)


def test_a_tokenizer_in_the_place_of_a_vocabulary(tmp_path):
    path = corpus.write_config(tmp_path)
    path.write_text(re.sub("vocab_file = .*", 'tokenizer = "t/tokenizer.json"', path.read_text()))
    config = workspace.read_config(str(path))
    corpus.deliver(tmp_path, 1)
    flags = command("records", config, next_run(config, [], 1, 1))
    assert "--tokenizer=t/tokenizer.json" in flags
    assert not any(flag.startswith("--vocab_file") for flag in flags)


def test_commands_of_the_example_have_real_flags():
    path = ROOT / "deploy" / "retrain.toml"
    config = Retraining.from_toml(DEPLOYMENT.fill_in(path.read_text()), str(path))
    one = next_run(config, (), 1, 1)
    two = next_run(config, ("w/runs/000001",), 2, 1)
    for run in (one, two):
        for step in STEPS:
            if is_needed(step, run):
                name, *arguments = command(step, config, run)
                _, others = COMMANDS[name].build_parser().parse_known_args(arguments)
                assert not others or name in ("data", "evaluate")
    encoder = COMMANDS["pretrain"].build_parser().parse_args(command("encoder", config, two)[1:])
    records = "gs://my-bucket-work/retraining/runs/000002/records"
    assert (encoder.data, encoder.long_data) == (f"{records}/128", f"{records}/512")
