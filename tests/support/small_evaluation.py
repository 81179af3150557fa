"""What the tests of `evaluate` share: rows whose answers a stand-in model is known to give.

A test module takes the fixtures by assigning them: `data = small_evaluation.data`.
"""

import pytest

from support.stand_in_models import save

# text, label, source
ROWS = [
    ("a good film", "positive", "web"),
    ("good <b>only</b> in parts", "negative", "web"),
    ("a bad film with a cast of people who deserve much better than this", "negative", "print"),
    ("bad", "negative", "print"),
    ("bad in a way that I like a lot, which I had not expected at all", "positive", "print"),
    ("no opinion", "negative", "web"),
    ("nothing to say", "positive", "web"),
    ("good good good", "positive", "print"),
    ("so good", "positive", "web"),
    ("bad bad bad", "negative", "web"),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model folder."""
    return save(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def pair_model(tmp_path_factory):
    """A model folder whose model takes two texts."""
    return save(tmp_path_factory.mktemp("pair_model"), pairs=True)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data folder."""
    folder = tmp_path_factory.mktemp("data")
    lines = ["text\tlabel\tsource", *("\t".join(row) for row in ROWS)]
    (folder / "dev.tsv").write_text("\n".join(lines) + "\n")
    (folder / "test.tsv").write_text("text\nx\n")
    return folder


def arguments(data, model, output, *more):
    """Returns a command line."""
    return [
        "--task=classification",
        f"--data_dir={data}",
        f"--model={model}",
        f"--output={output}",
        *more,
    ]
