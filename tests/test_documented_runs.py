"""The commands of the documents run as they stand, on small data under the names that they use.

Only sizes are reduced, by flags behind those of the document. Every command of every document is
either run here or stands in `NOT_RUN` with the reason.
"""

import json
import pathlib
import random
import re
import shlex

import pytest
from support.sample_text import make_document

from beambert import commands

ROOT = pathlib.Path(__file__).parents[1]
DOCUMENTS = sorted(f"docs/{path.name}" for path in ROOT.glob("docs/*.md"))
DOCUMENTS += ["README.md", "deploy/README.md"]

# Command -> flags that make it small.
SMALLER = {
    "vocab": ["--vocab_size=400"],
    "data": ["--dupe_factor=2"],
    "pretrain": ["--num_train_steps=20", "--train_batch_size=8", "--eval_steps=20"],
    "finetune": ["--num_train_epochs=6", "--train_batch_size=16", "--max_seq_length=32"],
}

CLOUD = "needs Google Cloud; tests/deploy submits such jobs to stand-ins"
# Document -> what a command has in it -> why it is not run here.
NOT_RUN = {
    "docs/data.md": {
        "--keep_languages": "needs extras; test_evaluation_texts.py runs small ones",
        "--scrub_model": "needs an extra and a model; make test-recognizer runs small ones",
        "s3://": "needs an extra; make test-storage runs small ones",
        "hdfs://": "see s3://",
        "bert/tf_examples": "the original script's records, as tests/pipelines/verification has",
        "biomedical": "needs weights of Google; test_new_tokens.py has small ones",
        "--tokenizer=roberta-base": "needs a published tokenizer; a learned one is run",
        "--runner=FlinkRunner": "needs Flink's job server: make test-flink",
        "--runner=SparkRunner": "needs Spark's job server: make test-runners",
        "--runner=PrismRunner": "needs Prism, which is built with Go",
    },
    "docs/pretraining.md": {
        "--recipe=bert_base": "trains BERT base for days",
        "--max_seq_length=128,512": "as the command of docs/data.md, which is run",
        "--finish": "tests/trainer/pretraining/test_revising.py ends and extends small trainings",
        "--extend": "see --finish",
        "--checkpoint=": "needs a training at work; tests/trainer/weights has one",
        "--budget": "tests/trainer/pretraining/test_budget.py keeps to small budgets",
        "--dry_run": "trains the real size of tiny for seconds; test_budget.py has a small one",
        "--strategy=auto": "for a machine with GPUs; elsewhere as the README's, which is run",
        "other-encoder": "needs a second encoder; tests/trainer/comparison has one",
        "--init=bert-base-uncased": "needs weights of Hugging Face; tests/trainer/weights has some",
        "--family=deberta-v2": "test_deberta_replaced_tokens.py trains a small one",
        "--distill_from=bert-base-uncased": "see --init",
        "--init=uncased_L-12": "needs the original release's weights",
    },
    "docs/languages.md": {"": "test_languages.py and test_character_coverage.py run small ones"},
    "docs/domain.md": {"": "tests/test_examples.py runs all of examples/domain/encoder.sh"},
    "docs/embeddings.md": {
        "": "tests of trainer/embedding and trainer/retrieval do it with small folders"
    },
    "docs/families.md": {
        "": "tests/trainer/pretraining/test_families.py trains small ones of each"
    },
    "docs/tasks.md": {
        "mrpc": "the README's path with a task whose learning rate needs a real encoder",
        "--task=sst-2": "needs the model of the README and a baseline; tests/pipelines/evaluation",
        "beambert glue": "trains on nine tasks: tests/trainer/finetuning/test_glue.py",
    },
    "docs/explore.md": {"": "a page until Ctrl-C; tests/explore opens it, and writes its file"},
    "docs/limits.md": {"": "a list of what is unproven and of what would prove it"},
    "docs/cloud.md": {"": CLOUD},
    "deploy/README.md": {"": CLOUD},
}


def documented(document) -> list[list[str]]:
    """The commands in a document's blocks of code, in order, each as its words."""
    text = (ROOT / document).read_text("utf-8")
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    found = [shlex.split(line, comments=True) for line in lines if line.startswith("beambert ")]
    return [words for words in found if words[1] in commands.COMMANDS]


def reason_not_to_run(document, words) -> str:
    line = " ".join(words)
    return next((why for part, why in NOT_RUN.get(document, {}).items() if part in line), "")


def to_run(document) -> list[list[str]]:
    return [words for words in documented(document) if not reason_not_to_run(document, words)]


def test_the_scan_sees_what_is_there():
    assert len(documented("README.md")) == len(to_run("README.md")) == 8
    path = ["vocab", "data", "verify"]
    found = [words[1] for words in to_run("docs/data.md")]
    assert found == [*path, "data", *path, "pretrain", "data"]
    assert len(to_run("docs/pretraining.md")) == 6


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_reason_is_of_a_command(document):
    lines = [" ".join(words) for words in documented(document)]
    text = (ROOT / document).read_text("utf-8")
    for part in NOT_RUN.get(document, {}):
        assert any(part in line for line in lines) or (not part and "beambert " in text), part


def lay_data(folder) -> None:
    """Small files under the names that the documents use."""
    generator = random.Random(0)

    def write(name, text):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    for number in range(4):
        pages = ["\n".join(make_document(generator, generator.randint(4, 9))) for _ in range(250)]
        page = '<doc id="{}" url="u" title="Title">\nTitle\n\n{}\n</doc>\n'
        text = "".join(page.format(i, body) for i, body in enumerate(pages))
        write(f"wiki/A{number % 2}/wiki_{number:02d}", text)
    for number in range(6):
        write(f"books/{number}.txt", "\n\n".join(make_document(generator, 120)))
        write(f"reviews/{number}.txt", "\n".join(make_document(generator, 4)) + "\n")
    for split, count in (("train", 400), ("dev", 80), ("test", 40)):
        rows = []
        for number in range(count):
            words = make_document(generator, 1)[0].lower().strip(".").split()[:6]
            label = number % 2
            # Words that the corpus has, so that the vocabulary knows them.
            rows.append((" ".join([("won", "lost")[label]] * 2 + words), label))
        if split == "test":
            lines = ["index\tsentence", *(f"{n}\t{text}" for n, (text, _) in enumerate(rows))]
        else:
            lines = ["sentence\tlabel", *(f"{text}\t{label}" for text, label in rows)]
        write(f"glue/SST-2/{split}.tsv", "\n".join(lines) + "\n")


def run(words, capfd) -> None:
    """Runs a command in this process; it must end with status 0."""
    name = words[1]
    line = [*words, *SMALLER.get(name, [])]
    try:
        status = commands.run(line[1:])
    except SystemExit as stop:
        status = stop.code
    printed = capfd.readouterr()
    assert not status, (" ".join(line), printed.out[-2000:], printed.err[-2000:])


def run_all(folder, documents, monkeypatch, capfd) -> None:
    lay_data(folder)
    monkeypatch.chdir(folder)
    for document in documents:
        for words in to_run(document):
            run(words, capfd)


@pytest.mark.slow
def test_from_text_to_answers(tmp_path, monkeypatch, capfd):
    documents = ("README.md", "docs/pretraining.md", "docs/tasks.md")
    run_all(tmp_path, documents, monkeypatch, capfd)
    assert (tmp_path / "encoder-hf" / "config.json").exists()
    assert list((tmp_path / "answers").iterdir()) and list((tmp_path / "serving").iterdir())
    assert json.loads((tmp_path / "evaluation" / "metrics.json").read_text())["blessed"]


@pytest.mark.slow
def test_from_text_to_records(tmp_path, monkeypatch, capfd):
    run_all(tmp_path, ["docs/data.md"], monkeypatch, capfd)
    found = json.loads((tmp_path / "verification" / "verification.json").read_text())
    assert found["faults"] == 0 and len(found["folders"]) == 4
