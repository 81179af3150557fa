"""Fixtures of the page's tests: a small model and records."""

import pytest
from support import record_files, untrained_models

from beambert.explore.material import Material


@pytest.fixture(scope="package")
def folders(tmp_path_factory, vocabulary):
    """An encoder, a classifier and records, in one folder."""
    root = tmp_path_factory.mktemp("explore")
    (root / "encoder").mkdir()
    (root / "classifier").mkdir()
    untrained_models.save_encoder(root / "encoder", vocabulary)
    untrained_models.save_classifier(root / "classifier", vocabulary)
    (root / "records").mkdir()
    (root / "records" / "vocab.txt").write_bytes(vocabulary.serialize())
    for number in range(2):
        record_files.write(
            root / "records" / f"part-{number}.tfrecord",
            [record_files.changed(next_sentence_labels=[i % 2]) for i in range(13)],
        )
    return root


@pytest.fixture(scope="package")
def material(folders):
    return Material(str(folders / "records"), str(folders / "encoder"))
