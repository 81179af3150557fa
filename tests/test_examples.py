"""The scripts of examples/: what they read and write, and all commands of the domain's example."""

import json
import os
import pathlib
import random
import subprocess
import sys

import pytest
from support import untrained_models
from support.sample_text import WORDS, make_document

ROOT = pathlib.Path(__file__).parents[1]
TEXT, ENCODER = (ROOT / "examples" / "domain" / name for name in ("text.sh", "encoder.sh"))


def run(*command: object, **environment: str) -> subprocess.CompletedProcess:
    # The command stands beside the interpreter, as an installation leaves it.
    path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        [*map(str, command)],
        env=os.environ | {"PATH": path} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def write_columns(path: pathlib.Path, sentences: list[str], ends: str = "\n\n") -> None:
    """Writes sentences as the corpora have them: a word and its tag on each line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ("\n".join(f"{word}\tO" for word in sentence.split()) for sentence in sentences)
    path.write_text("\n\n".join(lines) + ends)


@pytest.mark.parametrize("ends", ["\n\n", "\n", ""])
def test_text_has_each_sentence_once_and_none_of_the_task(tmp_path, ends):
    data = tmp_path / "corpora" / "data"
    for split in ("train", "devel", "test"):
        write_columns(data / "NCBI-disease-IOB" / f"{split}.tsv", [f"Of the {split} ."], ends)
    write_columns(data / "A-IOB" / "train.tsv", [f"Sentence {n} ." for n in range(23)], ends)
    again = ["Sentence 3 .", "Of the test .", "Another one ."]
    write_columns(data / "B-IOB" / "train.tsv", again, ends)
    write_columns(data / "B-IOBES" / "train.tsv", ["With other tags ."], ends)
    done = run("sh", TEXT, tmp_path / "corpora", tmp_path / "made")
    assert done.returncode == 0, done.stderr
    documents = (tmp_path / "made" / "text.txt").read_text().rstrip("\n").split("\n\n")
    numbers = [range(10), range(10, 20), range(20, 23)]
    expected = ["\n".join(f"Sentence {n} ." for n in number) for number in numbers]
    assert documents == [*expected, "Another one ."]
    task = tmp_path / "made" / "task"
    assert sorted(path.name for path in task.iterdir()) == [
        "dev.conll",
        "test.conll",
        "train.conll",
    ]
    devel = data / "NCBI-disease-IOB" / "devel.tsv"
    assert (task / "dev.conll").read_text() == devel.read_text()


@pytest.mark.release
def test_a_domain_encoder(tmp_path, vocabulary, monkeypatch):
    """All commands in two steps each, on made-up words that the vocabulary spells by letters."""
    monkeypatch.setattr(untrained_models, "LENGTH", 64)
    generator = random.Random(5)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(generator.choices(letters, k=8)) for _ in range(1500)]

    def sentence() -> str:
        return " ".join(generator.choices(words, k=9)) + " ."

    texts = ["\n".join(sentence() for _ in range(10)) for _ in range(300)]
    (tmp_path / "domain.txt").write_text("\n\n".join(texts))
    general = ["\n".join(make_document(generator, 10)) for _ in range(300)]
    (tmp_path / "general.txt").write_text("\n\n".join(general))
    for split, count in (("train", 60), ("dev", 20), ("test", 20)):
        lines = []
        for _ in range(count):
            name, others = generator.choice(words), generator.choices(WORDS, k=14)
            lines += [f"{name}\tB-Disease", *(f"{word}\tO" for word in others), ""]
        if split == "dev":  # A word with more letters than the encoder has positions isn't scored.
            lines += ["x" * 150 + "\tO", ""]
        path = tmp_path / "task" / f"{split}.conll"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines))
    (tmp_path / "encoder").mkdir()
    untrained_models.save_encoder(tmp_path / "encoder", vocabulary, max_seq_length=64)
    names = ("encoder", "domain.txt", "general.txt", "task", "run")
    arguments = [tmp_path / name for name in names]
    done = run("sh", ENCODER, *arguments, STEPS="2", LENGTH="64")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    made = tmp_path / "run"
    assert len((made / "vocab.txt").read_text().splitlines()) == len(vocabulary) + 1000
    results = {
        name: json.loads((made / "encoders" / name / "results.json").read_text())
        for name in ("old-words", "new-words", "domain-alone")
    }
    of_domain = {name: result["domain/characters_per_token"] for name, result in results.items()}
    assert of_domain["new-words"] == of_domain["domain-alone"] > 2 * of_domain["old-words"]
    for name in ("before", *results):
        scores = (made / f"scores-{name}.jsonl").read_text().splitlines()
        assert len(scores) == 40 and json.loads(scores[0])["loss_per_character"] > 0
        metrics = json.loads((made / "evaluation" / name / "metrics.json").read_text())
        assert metrics["split"] == "test"
    card = (made / "domain-encoder" / "README.md").read_text()
    assert 'license: "apache-2.0"' in card and "domain/masked_lm_loss_per_character" in card
