"""All of GLUE by one command: the table and the average."""

import json

import numpy as np
import pytest

from beambert.errors import InputError
from beambert.trainer.commands.glue import main as glue_main

pytestmark = pytest.mark.slow  # each needs an encoder and several trainings

WORDS = ("the", "river", "war", "city", "people", "died")
LABELS = ("neutral", "entailment", "contradiction")


def write_glue(folder):
    """SST-2, STS-B and MNLI in the release's layout, a few rows each."""
    random = np.random.default_rng(0)

    def text() -> str:
        return " ".join(random.choice(WORDS, random.integers(1, 8)))

    def write(title, name, header, row, count):
        (folder / title).mkdir(exist_ok=True, parents=True)
        rows = ["\t".join(row(index)) for index in range(count)]
        (folder / title / name).write_text("\n".join(["\t".join(header), *rows]) + "\n")

    for name, count in (("train", 40), ("dev", 12), ("dev_mismatched", 10)):
        names = ("sentence1", "sentence2", "gold_label")
        file = "dev_matched.tsv" if name == "dev" else f"{name}.tsv"
        write("MNLI", file, names, lambda i: (text(), text(), LABELS[i % 3]), count)
        if name == "dev_mismatched":
            continue
        write("SST-2", f"{name}.tsv", ("sentence", "label"), lambda i: (text(), str(i % 2)), count)
        names = ("index", "sentence1", "sentence2", "score")
        write("STS-B", f"{name}.tsv", names, lambda i: ("0", text(), text(), str(i % 6)), count)
    return folder


@pytest.mark.release
def test_the_table(encoder_folder, tmp_path, capfd):
    data = write_glue(tmp_path / "glue")
    flags = [
        *(f"--data_dir={data}", f"--init={encoder_folder}", f"--output={tmp_path / 'out'}"),
        *("--train_batch_size=8", "--num_train_epochs=1"),
    ]
    glue_main(flags)
    printed, noise = capfd.readouterr()
    assert "oneDNN" not in noise  # what TensorFlow prints when a process loads it
    for title in (
        "SST-2 | accuracy",
        "STS-B | pearson",
        "STS-B | spearman",
        "MNLI | accuracy",
        "MNLI | accuracy mismatched",
    ):
        assert f"| {title} | " in printed
    assert "tasks without data, not in the average: CoLA, MRPC, QNLI, QQP, RTE, WNLI" in printed
    summary = json.loads((tmp_path / "out" / "glue.json").read_text())
    tasks = summary["tasks"]
    sts_b = (tasks["sts-b"]["pearson"] + tasks["sts-b"]["spearman"]) / 2
    mnli = (tasks["mnli"]["accuracy"] + tasks["mnli"]["accuracy_mismatched"]) / 2
    expected = np.mean([tasks["sst-2"]["accuracy"], mnli, sts_b])
    assert tasks["mnli"]["baseline_accuracy_mismatched"] == 0.4  # 4 of 10 are the commonest
    assert summary["average"] == pytest.approx(expected)
    glue_main(flags)
    assert capfd.readouterr().out.count("already finished") == 3


@pytest.mark.release
def test_all_files_are_read_before_anything_is_trained(encoder_folder, tmp_path):
    data = write_glue(tmp_path / "glue")
    flags = [f"--data_dir={data}", f"--init={encoder_folder}", f"--output={tmp_path / 'out'}"]
    for file in ("MNLI/dev_mismatched.tsv", "MNLI/train.tsv"):
        path = data / file
        text = path.read_text()
        path.write_text(text + "7\n")
        with pytest.raises(InputError, match=rf"{path.name}, line \d+: needs 3 fields"):
            glue_main(flags)
        path.write_text(text)
    assert not (tmp_path / "out").exists()


def test_a_file_that_it_would_overwrite_is_its_own(tmp_path):
    data = write_glue(tmp_path / "glue")
    (tmp_path / "glue.json").write_text("{}")
    with pytest.raises(InputError, match="glue.json: already exists"):
        glue_main([f"--data_dir={data}", "--init=none", f"--output={tmp_path}"])
