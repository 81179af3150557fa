"""The demonstration: its text and task, and their order."""

import json
import random
import re
import shutil
from pathlib import Path

import pytest

from beambert.demo import corpus, prose, run
from beambert.errors import InputError
from beambert.folders import folders_held
from beambert.training import WORDS

NOUNS = [
    *("tensor", "matrix", "river", "sentence", "kernel", "widget", "parser", "schedule"),
    *("ticket", "bucket", "planet", "violin", "market", "garden", "letter", "engine"),
]
VERBS = ["returns", "computes", "merges", "splits", "orders", "reads", "writes", "repeats"]


def sentence(generator: random.Random) -> str:
    words = [generator.choice(VERBS if place % 4 == 1 else NOUNS) for place in range(16)]
    return " ".join(words).capitalize() + "."


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """A folder of two packages with 60 modules each, and files that must be left out."""
    root = tmp_path_factory.mktemp("site-packages")
    generator = random.Random(1)
    for package, alias in (("alphalib", "al"), ("betakit", "bk")):
        (root / package / "tests").mkdir(parents=True)
        (root / package / "tests" / "more.py").write_text('"""Testing is not documentation."""')
        for number in range(60):
            body = "\n\n".join(sentence(generator) for _ in range(4))
            text = (
                f'"""{body}\n\nThe {package.title()} package and {alias}.array hold ten of all the '
                f"{sentence(generator)}\n\nThis notice stands in every single module of them all.\n"
                f'"""\nimport {package} as {alias}\n'
            )
            (root / package / f"module_{number}.py").write_text(text)
    (root / "alphalib" / "broken.py").write_text('"""Not finished."""\ndef f(:\n')
    (root / "pipelines").mkdir()
    (root / "pipelines" / "own.py").write_text(f'"""{sentence(generator)}"""')
    return root


@pytest.fixture(scope="module")
def made(root, tmp_path_factory) -> tuple[Path, dict]:
    output = tmp_path_factory.mktemp("made")
    return output, make(root, output)


def make(root: Path, output: Path) -> dict:
    return corpus.make_corpus(output, roots=[root], workers=1)


def read_documents(output: Path) -> dict[str, str]:
    files = sorted((output / "corpus").glob("*.jsonl"))
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return {line["id"]: line["text"] for line in lines}


def read_task(output: Path, split: str) -> list[list[tuple[str, ...]]]:
    text = (output / "task" / f"{split}.conll").read_text().rstrip("\n")
    return [[tuple(line.split("\t")) for line in lines.split("\n")] for lines in text.split("\n\n")]


def paragraphs_of(docstring: str) -> list[str]:
    text = prose.module_text("m", f'"""{docstring}"""')
    return [paragraph for paragraph, _ in text.paragraphs]


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        ("One sentence that\n    was wrapped by hand.", ["One sentence that was wrapped by hand."]),
        ("Words before the code.\n\n>>> f(1)\nall of this is output\n\nAnd words come after it.",
         ["Words before the code.", "And words come after it."]),
        ("See the code below::\n\n    this is not a sentence at all\n\nAnd words come after it.",
         ["See the code below:", "And words come after it."]),
        ("Words before the code.\n```\nthis is not a sentence\n```\nAnd words come after it.",
         ["Words before the code.", "And words come after it."]),
        ("A heading of words\n==================\n\nAnd words come after it.",
         ["And words come after it."]),
        ("Adds.\n\nArgs:\n  left (int): The number on the\n    left of it.\n  right: The other.",
         ["The number on the left of it."]),
        ("Parameters\n----------\nx, y : array_like\n    The points to draw the curve through.",
         ["The points to draw the curve through."]),
        (":param str x: The name of that thing.\n:rtype: a list of many things",
         ["The name of that thing."]),
        ("- The first of two things.\n- The second of them all.",
         ["The first of two things.", "The second of them all."]),
        (".. note::\n   Keep all of these words.\n\n.. code-block::\n\n   drop all of these words",
         ["Keep all of these words."]),
        ("Uses :class:`~a.Thing` and ``x`` of **all** `the docs <https://a.b>`_ [1]_.",
         ["Uses a.Thing and x of all the docs."]),
    ],
)  # fmt: skip
def test_docstring_becomes_prose(docstring, expected):
    assert paragraphs_of(docstring) == expected


def test_what_is_not_prose_is_counted():
    source = '"""a1 + b2 = c3 (d4)\n\nToo short.\n\nThis one is kept."""'
    text = prose.module_text("m", source)
    assert [paragraph for paragraph, _ in text.paragraphs] == ["This one is kept."]
    assert text.dropped == {"not prose": 1, "few words": 1}


def test_docstrings_come_in_source_order():
    source = (
        '# A comment.\n"""One."""\nclass A:  # Why.\n  r"""T\\\nwo."""\n  x = """not this"""\n'
        '  if True:\n    async def f():\n      # A comment.\n      """Thr\\\nee."""\n'
        'def g(\n):\n  """Four."""\n  return """nor this"""\n'
    )
    assert list(prose.docstrings(source)) == ["One.", "T\\\nwo.", "Three.", "Four."]
    assert list(prose.docstrings('import os\n"""No docstring."""')) == []


def test_documents_and_counts(made):
    output, info = made
    documents = read_documents(output)
    assert len(documents) == info["documents"]
    assert (
        info["documents"] + info["held_out_documents"] == info["modules"] - 1
    )  # Without broken.py.
    assert info["bytes_after"] == sum(len(text.encode()) for text in documents.values())
    assert not any(name.startswith("pipelines") or "tests" in name for name in documents)
    # The notice is in all 120 modules; it is kept where it comes first.
    assert info["paragraphs_dropped"]["duplicate"] == 119
    assert sum("This notice stands" in text for text in documents.values()) <= 1
    assert json.loads((output / "corpus" / "info.json").read_text())["documents"] == len(documents)


def test_the_task_is_of_the_corpus_and_its_dev_part_is_not(made):
    output, info = made
    documents = read_documents(output)
    assert not any(corpus.is_held_out(name) for name in documents)
    letters = re.compile(r"[^a-z ]")
    everything = letters.sub("", " ".join(documents.values()).lower().replace("\n", " "))
    for split in ("train", "dev"):
        examples = read_task(output, split)
        assert 0 < len(examples) == info["examples"][split]
        assert {len(example) for example in examples} == {corpus.WORDS_IN_EXAMPLE}
        assert {tag for example in examples for _, tag in example} >= {"O", "B-stop"}
        texts = [letters.sub("", " ".join(word for word, _ in each)) for each in examples]
        assert len(set(texts)) == len(texts)
        assert all((text in everything) == (split == "train") for text in texts)


def test_marks_become_tags():
    found = corpus.tagged(
        "If so (or not), the file's e.g. kept: 'yes'. Really? - Version 1.2, too!"
    )
    assert [word for word, tag in found if tag == "B-stop"] == ["e.g", "yes", "really", "too"]
    assert [word for word, tag in found if tag == "B-comma"] == ["not", "1.2"]
    assert [word for word, tag in found if tag == "O"] == (
        ["if", "so", "or", "the", "file's", "kept", "version"]
    )


def test_same_bytes_whatever_the_workers(root, made, tmp_path):
    corpus.make_corpus(tmp_path, roots=[root], workers=2)
    files = sorted(file.relative_to(made[0]) for file in made[0].rglob("*.*"))
    assert len(files) == 7
    for file in files:
        assert (tmp_path / file).read_bytes() == (made[0] / file).read_bytes()


def test_another_is_at_work_or_has_left_a_damaged_file(made, tmp_path):
    held = folders_held([str(tmp_path / "corpus")], "--output")
    with held, pytest.raises(InputError, match="is at work"):
        make(Path("/nowhere"), tmp_path)
    shutil.copytree(made[0] / "corpus", tmp_path / "corpus")
    (tmp_path / "corpus/info.json").write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        make(Path("/nowhere"), tmp_path)


def test_output_in_the_way_is_not_destroyed(root, tmp_path):
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="task: already holds something else"):
        make(root, tmp_path)
    assert (tmp_path / "task" / "mine.txt").read_text() == "mine"


def test_too_little_text_is_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr(corpus, "installed_roots", lambda: [tmp_path / "empty"])
    with pytest.raises(InputError, match="too few installed modules"):
        corpus.main([f"--output={tmp_path / 'out'}"])
    assert not (tmp_path / "out" / "corpus").exists()


def test_the_text_is_made_before_the_training(tmp_path, monkeypatch, capsys):
    made = []
    monkeypatch.setattr(run.corpus, "make_corpus", made.append)
    monkeypatch.setattr(run, "train", made.append)
    run.main([f"--output={tmp_path}", "--budget=5min"])
    assert made[0] == tmp_path
    job = made[1]
    assert job.input == (f"{tmp_path}/corpus/*.jsonl",) and job.task_data == f"{tmp_path}/task"
    assert job.task == "tagging"
    assert (job.goal, job.budget) == (WORDS, 300)
    assert f"beambert train '{tmp_path}/corpus/*.jsonl'" in capsys.readouterr().out
