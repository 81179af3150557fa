"""An encoder that has learned masked LM alone, on records without labels, from a teacher too."""

import json
import shutil

import pytest
import tensorflow as tf
from support import small_pretraining

from beambert.trainer.commands.pretrain import main as pretrain_main


@pytest.fixture(scope="session")
def unpaired_folder(records_folder, tmp_path_factory):
    """The same records without the labels of next sentence prediction."""
    folder = shutil.copytree(records_folder, tmp_path_factory.mktemp("unpaired") / "records")
    for part in (folder, folder / "eval"):
        info = json.loads((part / "info.json").read_text())
        for file in info["files"]:
            path = part / file["name"]
            examples = [
                tf.train.Example.FromString(record.numpy())
                for record in tf.data.TFRecordDataset(str(path))
            ]
            with tf.io.TFRecordWriter(str(path)) as writer:
                for example in examples:
                    del example.features.feature["next_sentence_labels"]
                    writer.write(example.SerializeToString())
            file["bytes"] = path.stat().st_size
        info["parameters"]["pairs"] = "none"
        (part / "info.json").write_text(json.dumps(info))
    return folder


@pytest.fixture(scope="session")
def student_folder(unpaired_folder, encoder_folder, small_config_file, tmp_path_factory):
    """A finished student of a teacher of its own width."""
    folder = tmp_path_factory.mktemp("student") / "encoder"
    others = {"objective": "mlm", "distill_from": encoder_folder}
    pretrain_main(small_pretraining.flags(unpaired_folder, small_config_file, folder, **others))
    return folder
