"""What a configuration of retraining says, and what is refused before anything is spent."""

import pathlib
import re

import pytest
from support import growing_corpus as corpus
from support.cloud_samples import DEPLOYMENT

from beambert.cli import COMMANDS
from beambert.deploy.retraining import command as retrain
from beambert.deploy.retraining import planning, workspace
from beambert.deploy.retraining.runs import STEPS, Retraining, command, is_needed, next_run
from beambert.deploy.settings import Deployment
from beambert.errors import InputError

ROOT = pathlib.Path(__file__).parents[3]

# what to replace in the configuration, by what -> what the message says
BAD = {
    ("[evaluate]", "[evaluates]"): "no such key: evaluates",
    ("vocab_file =", "tokenizer = 't'\nvocab_file ="): "needs vocab_file, tokenizer or",
    ("dupe_factor", "output = 'x'\ndupe_factor"): "data.output: a run has its own",
    ('task = "classification"', ""): "needs task and data_dir",
    ("num_train_epochs = 6", "init = 'other'"): "finetune.init: a run has its own",
    ("[pretrain]", "[pretrain"): "is not TOML",
    ("dupe_factor = 1", "dupe_factor = [1, 2]"): "data.dupe_factor: must be one value",
    ("max_seq_length = 32", "max_seq_length = '8,16,32'"): "one length, or a short and a long one",
    ("input =", "# input ="): "neither input nor data.source names",
    ("[evaluate]", "[evaluate]\nhelp = true"): "evaluate.help: a run has its own",
    ("workspace =", "workspace = '/' #"): 'workspace = "/": ',
    ("vocab_file =", "settle_minutes = nan\nvocab_file ="): "settle_minutes = nan: must be",
    ("vocab_file =", "settle_minutes = true\nvocab_file ="): "settle_minutes = true: must be",
}


@pytest.mark.parametrize(("old", "new"), BAD)
def test_bad_configuration(tmp_path, old, new):
    text = corpus.write_config(tmp_path).read_text()
    assert old in text
    with pytest.raises(InputError, match=BAD[old, new]) as caught:
        Retraining.from_toml(text.replace(old, new), "my.toml")
    assert "my.toml" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "[" * 100_000, '{"settings": {}}', '{"settings": 3}'])
def test_a_damaged_deployment_is_named(text):
    with pytest.raises(InputError, match="deployment.json: is damaged"):
        Deployment.from_json(text)


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
    assert (config.data["runner"], config.data["project"]) == ("DataflowRunner", "my-project")
    one = next_run(config, (), 1, 1)
    two = next_run(config, ("w/runs/000001",), 2, 1)
    for run in (one, two):
        for step in STEPS:
            if is_needed(step, run):
                name, *arguments = command(step, config, run)
                _, others = COMMANDS[name].build_parser().parse_known_args(arguments)
                assert not others or name in ("data", "evaluate")
    encoder = COMMANDS["pretrain"].build_parser().parse_args(command("encoder", config, two)[1:])
    records = "gs://my-project-beambert-work/retraining/runs/000002/records"
    assert (encoder.data, encoder.long_data) == (f"{records}/128", f"{records}/512")


# what to replace in the configuration, by what -> what the message says
REFUSED = {
    ("max_seq_length = 32", "max_seq_length = '32,32'"): "data: --max_seq_length",
    ("train_batch_size = 8\n[pretrain.first]", "train_batch_size = 0\n[pretrain.first]"): (
        "pretrain: --train_batch_size=0"
    ),
    ("[pretrain]\n", "[pretrain]\ninit = 'e'\n"): "pretrain.init: ",
    ("[pretrain]\n", "[pretrain]\nrecipe = 'tiny'\n"): "pretrain.recipe: further runs would",
    ("[pretrain.further]", "[pretrain.further]\ninit = 'e'"): "pretrain.init: further runs contin",
    ("vocab_file =", "least = 7\nvocab_file ="): "evaluate: --threshold=7",
    ("[data]\n", "[data]\nsource = ['a=x']\n"): "data: --input=.*: cannot be given with --source",
    ("[data]\n", "[data]\nmax_num_worker = 5\n"): "data: --max_num_worker=5: no such flag",
}


@pytest.mark.parametrize(("old", "new"), REFUSED)
def test_values_that_a_step_refuses(tmp_path, commands, old, new):
    corpus.deliver(tmp_path, 1)
    path = corpus.write_config(tmp_path)
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    for flags in ([], ["--dry_run"]):
        with pytest.raises(InputError, match=f"^--config: {REFUSED[old, new]}"):
            retrain.main([f"--config={path}", *flags])
    assert not commands.ran and not list(pathlib.Path(tmp_path, "workspace").glob("runs/*"))


def test_a_first_encoder_is_that_of_the_first_run_only(tmp_path):
    path = corpus.write_config(tmp_path)
    model = re.search(r"model = .*\n", path.read_text())[0]
    path.write_text(path.read_text().replace(model, "init = 'published'\n"))
    config = workspace.read_config(str(path))
    planning.check_values(config)
    first, further = (
        [word for word in command("encoder", config, run) if word.startswith("--init=")]
        for run in (next_run(config, (), 1, 1), next_run(config, ("w/runs/000001",), 2, 1))
    )
    assert first == ["--init=published"] and further == ["--init=w/runs/000001/encoder"]
