"""Runs of a retraining, with stand-ins for the steps, and the configurations that are refused."""

import json
import os
import pathlib
import re

import pytest
from support import growing_corpus as corpus
from support.cloud_samples import DEPLOYMENT
from support.stand_in_commands import KilledError, served

from beambert import folders
from beambert.cli import COMMANDS
from beambert.deploy.retraining import command as retrain
from beambert.deploy.retraining import planning, workspace
from beambert.deploy.retraining.runs import STEPS, Retraining, command, is_needed, next_run
from beambert.deploy.settings import Deployment
from beambert.errors import InputError

ROOT = pathlib.Path(__file__).parents[3]


@pytest.fixture
def config(tmp_path):
    corpus.deliver(tmp_path, 1)
    return workspace.read_config(str(corpus.write_config(tmp_path)))


def test_a_year_of_runs(tmp_path, config, commands, capsys):
    """First, nothing new, better, worse, and better again with the refused one's text."""
    commands.accuracies = {"000001": 0.8, "000002": 0.9, "000003": 0.9, "000004": 0.95}
    retrain.retrain(config)
    one = f"{config.workspace}/runs/000001"
    assert served(config) == {"1": f"{one}/classifier"}
    assert [step for step, _ in commands.ran] == [step for step in STEPS if step != "baseline"]
    assert not commands.ran[1][1].init and not commands.ran[0][1].since
    # Later runs go on from the models, and checkpoints of base have 1.3 GB each.
    for step in ("encoder", "classifier"):
        assert sorted(path.name for path in pathlib.Path(one, step).iterdir()) == ["_SUCCESS"]

    commands.ran.clear()
    retrain.retrain(config)
    assert commands.ran == [] and "nothing new" in capsys.readouterr().out

    corpus.deliver(tmp_path, 2)
    retrain.retrain(config)
    flags = dict(commands.ran)
    assert [step for step, _ in commands.ran] == list(STEPS)
    assert flags["records"].since == [f"{one}/records"]
    assert flags["encoder"].init == f"{one}/encoder"
    assert flags["baseline"].model == f"{one}/classifier"
    two = f"{config.workspace}/runs/000002"
    assert flags["evaluation"].baseline == f"{two}/baseline"
    assert 0 < flags["evaluation"].min_change < 1e-3
    assert sorted(served(config)) == ["1", "2"]

    # As good as what is served is not better.
    corpus.deliver(tmp_path, 3)
    retrain.retrain(config)
    assert sorted(served(config)) == ["1", "2"]
    assert "000003: refused: accuracy 0.9" in capsys.readouterr().out
    commands.ran.clear()
    retrain.retrain(config)
    assert commands.ran == []

    corpus.deliver(tmp_path, 4)
    retrain.retrain(config)
    flags = dict(commands.ran)
    assert flags["encoder"].init == f"{two}/encoder"
    assert flags["records"].since == [f"{one}/records", f"{two}/records"]
    info = json.loads(pathlib.Path(config.workspace, "runs/000004/records/info.json").read_text())
    assert [pathlib.Path(one_input["path"]).name for one_input in info["inputs"]] == [
        "3.jsonl",
        "4.jsonl",
    ]
    assert served(config)["3"] == f"{config.workspace}/runs/000004/classifier"


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("when", ["half-way", "after"])
def test_killed_at_any_step(tmp_path, config, commands, step, when):
    """The next start ends as if nothing had been, and repeats at most the step that was cut."""
    retrain.retrain(config)
    corpus.deliver(tmp_path, 2)
    commands.ran.clear()
    commands.kill = (step, when)
    with pytest.raises(KilledError):
        retrain.retrain(config)
    is_exported = (step, when) == ("serving", "after")
    assert sorted(served(config)) == (["1", "2"] if is_exported else ["1"])
    retrain.retrain(config)
    assert [name for name, _ in commands.ran] == list(STEPS)
    assert sorted(served(config)) == ["1", "2"]
    assert workspace.read_history(config.workspace).published[-1].endswith("000002")


@pytest.mark.parametrize("left", ["_UNFINISHED", "_tmp-lock"])
def test_a_step_that_was_killed_while_it_tidied_up_is_run_again(config, commands, left):
    commands.kill = ("evaluation", "after")
    with pytest.raises(KilledError):
        retrain.retrain(config)
    pathlib.Path(config.workspace, "runs/000001/evaluation", left).touch()
    retrain.retrain(config)
    assert [step for step, _ in commands.ran].count("evaluation") == 2


def test_half_a_version_is_made_again(tmp_path, config, commands):
    """On gs:// a version appears file by file, the graph last."""
    commands.kill = ("serving", "after")
    with pytest.raises(KilledError):
        retrain.retrain(config)
    version = pathlib.Path(config.workspace, "serving", "1")
    (version / "saved_model.pb").unlink()
    retrain.retrain(config)
    assert (version / "saved_model.pb").exists() and sorted(served(config)) == ["1"]


def test_cut_in_the_records_takes_what_came_since(tmp_path, config, commands):
    commands.kill = ("records", "half-way")
    with pytest.raises(KilledError):
        retrain.retrain(config)
    corpus.deliver(tmp_path, 2)
    retrain.retrain(config)
    info = json.loads(pathlib.Path(config.workspace, "runs/000001/records/info.json").read_text())
    assert len(info["inputs"]) == 2


@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_fails_leaves_what_is_served(tmp_path, config, commands, step):
    retrain.retrain(config)
    corpus.deliver(tmp_path, 2)
    commands.fail = step
    with pytest.raises(InputError, match=step):
        retrain.retrain(config)
    assert sorted(served(config)) == ["1"]
    commands.fail = None
    retrain.retrain(config)
    assert sorted(served(config)) == ["1", "2"]


def test_dry_run_changes_nothing(tmp_path, config, commands, capsys):
    retrain.main([f"--config={tmp_path / 'retrain.toml'}", "--dry_run"])
    assert commands.ran == [] and not pathlib.Path(config.workspace).exists()
    assert "[encoder] beambert pretrain --data=" in capsys.readouterr().out


def test_two_at_once(tmp_path, config, commands):
    arguments = [f"--config={tmp_path / 'retrain.toml'}"]
    with folders.lock_held(f"{config.workspace}/LOCK", config.workspace):
        with pytest.raises(SystemExit) as stopped:
            retrain.main(arguments)
        assert stopped.value.code == retrain.STATUS_OF_BUSY
        with pytest.raises(folders.BusyError, match=f"process {os.getpid()} "):
            retrain.retrain(config)
    retrain.retrain(config)
    assert sorted(served(config)) == ["1"]


def test_sources_in_the_place_of_input(tmp_path, commands, capsys):
    sources = [f"wiki={tmp_path}/text/1*.jsonl", f"law={tmp_path}/text/2*.jsonl"]
    data = f"source = {json.dumps(sources)}\nweights = 'wiki=0.25,law=0.75'"
    path = corpus.write_config(tmp_path, data=data)
    path.write_text(re.sub(r"(?m)^input = .*$", "", path.read_text()))
    for number in (1, 2):
        corpus.deliver(tmp_path, number)
    config = workspace.read_config(str(path))
    retrain.retrain(config)
    flags = dict(commands.ran)["records"]
    assert not flags.input and (flags.weights, flags.source) == ("wiki=0.25,law=0.75", sources)
    commands.ran.clear()
    retrain.retrain(config)
    assert commands.ran == [] and "nothing new" in capsys.readouterr().out
    corpus.deliver(tmp_path, 21)
    retrain.retrain(config)
    flags = dict(commands.ran)["records"]
    # The command leaves the other source out, which has no new file.
    assert (flags.since, flags.source) == ([f"{config.workspace}/runs/000001/records"], sources)


@pytest.mark.parametrize("split", ["train", "dev"])
def test_a_task_whose_files_are_missing(tmp_path, config, commands, split):
    """It is told before the records and the training of the encoder, not after them."""
    (tmp_path / "task" / f"{split}.tsv").unlink()
    message = f"--config: finetune: --data_dir=.*: has no {split}.tsv"
    with pytest.raises(InputError, match=message):
        retrain.main([f"--config={tmp_path / 'retrain.toml'}"])
    assert commands.ran == [] and not list(tmp_path.glob("workspace/runs/*"))


def test_a_least_gain_is_for_runs_with_something_to_compare(tmp_path, commands):
    """The first run has no baseline, and `evaluate` refuses --min_change without one."""
    corpus.deliver(tmp_path, 1)
    path = corpus.write_config(tmp_path)
    path.write_text(path.read_text() + "min_change = 0.05\n")
    config = workspace.read_config(str(path))
    commands.accuracies = {"000001": 0.8, "000002": 0.84, "000003": 0.86}
    for number in (1, 2, 3):
        corpus.deliver(tmp_path, number)
        retrain.retrain(config)
    gains = [flags.min_change for step, flags in commands.ran if step == "evaluation"]
    assert gains == [None, 0.05, 0.05]
    assert all(flags.min_change is None for step, flags in commands.ran if step == "baseline")
    assert sorted(served(config)) == ["1", "2"]


def test_records_of_two_lengths(commands, tmp_path):
    """The step is done once both lengths are, and a further run knows what the first has taken."""
    corpus.deliver(tmp_path, 1)
    text = corpus.write_config(tmp_path).read_text()
    path = tmp_path / "retrain.toml"
    path.write_text(text.replace("max_seq_length = 32", 'max_seq_length = "32, 16"'))
    config = workspace.read_config(str(path))
    commands.kill = "between lengths"
    with pytest.raises(KilledError):
        retrain.retrain(config)
    retrain.retrain(config)
    records = f"{config.workspace}/runs/000001/records"
    (encoder,) = (flags for step, flags in commands.ran if step == "encoder")
    assert (encoder.data, encoder.long_data) == (f"{records}/16", f"{records}/32")
    assert retrain.plan(config) is None
    corpus.deliver(tmp_path, 2)
    retrain.retrain(config)
    assert sorted(served(config)) == ["1", "2"]


def test_a_job_on_dataflow_has_the_name_of_its_run(tmp_path):
    """A second one of that name is refused while the first, of a cut start, is at work."""
    data = 'runner = "DataflowRunner"'
    config = workspace.read_config(str(corpus.write_config(tmp_path, data=data)))
    names = {
        argument
        for run in (next_run(config, (), number, 1) for number in (1, 1, 2))
        for argument in command("records", config, run)
        if argument.startswith("--job_name=")
    }
    assert len(names) == 2
    # https://cloud.google.com/dataflow/docs/reference/rest/v1b3/projects.jobs
    assert all(re.fullmatch("--job_name=[a-z]([-a-z0-9]*[a-z0-9])?", name) for name in names)


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
    ("[pretrain.further]", "[pretrain.further]\nx = 1"): "pretrain: --x=1: no such flag",
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
