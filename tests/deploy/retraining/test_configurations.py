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
    ("vocab_file =", "vocabulary ="): "no such key: vocabulary",
    ("vocab_file =", "leave_out ="): "lacks vocab_file",
    ("vocab_file =", "tokenizer = 't'\nvocab_file ="): "has both vocab_file and tokenizer",
    ("[evaluate]", ""): "lacks evaluate",
    ("dupe_factor", "output = 'x'\ndupe_factor"): "data.output: is set by each run",
    ("learning_rate", "learn_rate"): "finetune.learn_rate: is no flag",
    ("[pretrain.further]", "[pretrain.further]\nsteps = 1"): "pretrain.steps: is no flag",
    ('task = "classification"', ""): "needs task and data_dir",
    ('task = "classification"', 'task = "sst2x"'): "finetune: --task=sst2x: not a task; did you",
    ('task = "classification"', 'task = "rte"\nlabels = "a,b"'): "finetune: --labels: rte has its",
    ('workspace = "', 'workspace = "/" # "'): "workspace: must be a path",
    ("[pretrain]", "[pretrain"): "is not TOML",
    ('workspace = "', 'workspace = 5 # "'): "workspace: must be a path",
    ("vocab_file =", "settle_minutes = '10'\nvocab_file ="): "settle_minutes: must be a number",
    ("vocab_file =", "manifests = [1]\nvocab_file ="): "manifests: must be a list of paths",
    ("vocab_file =", "finetune = 'x'\nvocab_file ="): "is not TOML",
    ("dupe_factor = 1", "dupe_factor = [1, 2]"): "data.dupe_factor: must be one value",
    ("dupe_factor = 1", "dupe_factor = 'ten'"): "data: --dupe_factor=ten: must be an integer",
    ("max_seq_length = 32", "max_seq_length = '8,16,32'"): "one length, or a short and a long one",
    ('recipe = "tiny"', 'recipe = "huge"'): "pretrain: --recipe=huge: choose one of tiny, ",
    ("num_train_steps = 10", "num_train_steps = 'x'"): "pretrain: --num_train_steps",
    ("[pretrain.first]", "further = 3\n[pretrain.first]"): "is not TOML|must be a table",
    ("learning_rate = 0.003", "learning_rate = 'fast'"): "finetune: --learning_rate",
    ("[evaluate]", "[evaluate]\nmin_change = inf"): "evaluate: --min_change=inf: must be a number",
    ("vocab_file =", "least = 7\nvocab_file ="): "evaluate: --threshold=7: cannot be reached",
    ("max_seq_length = 32", "max_seq_length = 'a,b'"): "one length, or a short and a long one",
    ("vocab_file =", f"least = {'[' * 9999}\nvocab_file ="): "is not TOML",
    ("vocab_file =", f"least = {'1' * 9999}\nvocab_file ="): "is not TOML",
    ("[evaluate]", "[evaluate]\nmin_change = 'much'"): "min_change=much: must be a number",
    ("[evaluate]", "[evaluate]\nmetric = 'f1'"): "is set by each run",
    ("vocab_file =", "alert_days = true\nvocab_file ="): "alert_days: must be a number",
    ("vocab_file =", "alert_days = inf\nvocab_file ="): "alert_days = inf: must be a number from 0",
    ("vocab_file =", "settle_minutes = -5\nvocab_file ="): "settle_minutes = -5: must be a number",
    ("vocab_file =", "settle_minutes = nan\nvocab_file ="): "settle_minutes = nan: must be a num",
    ("vocab_file =", "leave_out = 'x'\nvocab_file ="): "leave_out: must be a list of paths",
    ("dupe_factor", "source = ['a=x']\ndupe_factor"): "data.source: is given with input",
    ("dupe_factor", "temperature = 0.5\ndupe_factor"): "data.temperature: needs data.source",
    ("input =", "# input ="): "data.source: neither it nor input",
    ("dupe_factor", "leave_out = 'x'\ndupe_factor"): "data.leave_out: is set by each run",
    ('workspace = "', 'workspace = "gs://BUCKET-work/r" # "'): (
        "workspace = gs://BUCKET-work/r: has the placeholder BUCKET; write a value of your own"
    ),
    ("input =", "input = ['x', 'gs://BUCKET-text/*'] #"): "input = gs://BUCKET-text/.* BUCKET;",
    ("dupe_factor", "project = 'PROJECT'\ndupe_factor"): "data.project = PROJECT: has the placeh",
    ("dupe_factor", "subnetwork = 'regions/REGION/subnetworks/x'\ndupe_factor"): "der REGION;",
    ("dupe_factor", "service_account_email = 'a@PROJECT.iam'\ndupe_factor"): "holder PROJECT;",
    ("dupe_factor", "sdk_container_image = 'BEAM_IMAGE'\ndupe_factor"): "holder BEAM_IMAGE;",
    ("dupe_factor", "dataflow_kms_key = 'KMS_KEY'\ndupe_factor"): "placeholder KMS_KEY;",
    ("[pretrain.further]", "[pretrain.further]\ninit = '/gcs/BUCKET-config/e'"): (
        "pretrain.further.init = /gcs/BUCKET-config/e: has the placeholder BUCKET"
    ),
}


@pytest.mark.parametrize(("old", "new"), BAD)
def test_bad_configuration(tmp_path, old, new):
    text = corpus.write_config(tmp_path).read_text()
    assert old in text
    with pytest.raises(InputError, match=BAD[old, new]) as caught:
        Retraining.from_toml(text.replace(old, new), "my.toml")
    assert "my.toml" in str(caught.value) and "\n" not in str(caught.value)


def test_a_byte_order_mark(tmp_path):
    text = corpus.write_config(tmp_path).read_text()
    assert Retraining.from_toml(f"\ufeff{text}", "c") == Retraining.from_toml(text, "c")


def test_a_tokenizer_in_the_place_of_a_vocabulary(tmp_path):
    path = corpus.write_config(tmp_path)
    path.write_text(re.sub("vocab_file = .*", 'tokenizer = "t/tokenizer.json"', path.read_text()))
    config = workspace.read_config(str(path))
    corpus.deliver(tmp_path, 1)
    flags = command("records", config, next_run(config, [], 1, 1))
    assert "--tokenizer=t/tokenizer.json" in flags
    assert not any(flag.startswith("--vocab_file") for flag in flags)


def test_input_must_be_a_list(tmp_path):
    text = corpus.write_config(tmp_path).read_text()
    with pytest.raises(InputError, match="must be a list"):
        Retraining.from_toml(text.replace("[" + f'"{tmp_path}/text/*.jsonl"' + "]", '"x"'), "c")


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
