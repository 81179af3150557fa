"""`beambert.load` and `beambert.read_records` beside the functions of files and TensorFlow."""

import json

import numpy as np
import pytest
import tensorflow as tf

import beambert


def test_read_records(records_folder, tmp_path):
    folder = str(records_folder)
    opened = beambert.read_records(folder, batch_size=7)
    batches = list(opened)
    assert sum(len(batch["input_ids"]) for batch in batches) == len(opened)
    joined = {name: np.concatenate([b[name] for b in batches]) for name in opened.shapes}
    examples = [
        tf.train.Example.FromString(record.numpy())
        for record in tf.data.TFRecordDataset(opened.paths)
    ]
    for name, array in joined.items():
        feature = [example.features.feature[name] for example in examples]
        expected = [f.int64_list.value or f.float_list.value for f in feature]
        np.testing.assert_array_equal(array, np.array(expected))
    rows = opened.dataset().unbatch().as_numpy_iterator()
    for number, row in enumerate(rows):
        np.testing.assert_array_equal(row["input_ids"], joined["input_ids"][number])
    assert number + 1 == len(opened)
    with pytest.raises(beambert.InputError, match="no such folder"):
        beambert.read_records(str(tmp_path / "none"))


def test_load(encoder_folder, tmp_path):
    texts = ["the river begins", "people live there and [MASK]"]
    encoder = beambert.load(str(encoder_folder))
    np.testing.assert_array_equal(encoder.encode(texts), beambert.embed(str(encoder_folder), texts))
    assert encoder.fill(texts[1:]) == beambert.fill(str(encoder_folder), texts[1:])
    assert encoder.score(texts[:1]) == beambert.score(str(encoder_folder), texts[:1])
    with pytest.raises(beambert.InputError):
        encoder.predict(texts)
    with pytest.raises(beambert.InputError, match="no such folder"):
        beambert.load(str(tmp_path / "none"))


@pytest.mark.slow
def test_predictions_are_those_of_the_command(classifier_folder, tmp_path):
    texts = [f"so good {i}" for i in range(70)]
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    job = beambert.PredictionJob(
        str(classifier_folder), (str(tmp_path / "texts.txt"),), str(tmp_path / "answers")
    )
    beambert.predict(job)
    written = [
        json.loads(line)
        for path in sorted((tmp_path / "answers").glob("part-*"))
        for line in path.read_text().splitlines()
    ]
    answers = beambert.load(str(classifier_folder)).predict(texts)
    expected = sorted(written, key=lambda row: row["line"])
    assert [row["label"] for row in answers] == [row["label"] for row in expected]
    np.testing.assert_allclose(
        [list(row["probabilities"].values()) for row in answers],
        [list(row["probabilities"].values()) for row in expected],
        atol=1e-6,
    )
    with pytest.raises(beambert.InputError):
        beambert.load(str(classifier_folder)).predict([" "])
