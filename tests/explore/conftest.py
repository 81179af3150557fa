"""Fixtures of the page's tests: small models and records."""

import pytest
from support import record_files, untrained_models

from beambert.explore.material import Material
from beambert.explore.records import RecordBrowser
from beambert.pipelines.records.reading import RecordFeatures
from beambert.pipelines.records.statistics import FEATURES, VocabularyIds


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
            [record_files.changed(next_sentence_labels=[i % 2]) for i in range(300)],
        )
    return root


@pytest.fixture(scope="package")
def material(folders):
    return Material(str(folders / "records"), [str(folders / "encoder")])


@pytest.fixture
def browse(vocabulary):
    """A function from paths of files to their browser."""

    def open_files(*paths) -> RecordBrowser:
        features = RecordFeatures({name: name for name in FEATURES}, 12, 4)
        paths = [str(path) for path in paths]
        return RecordBrowser(paths, features, vocabulary.tokens, VocabularyIds.of(vocabulary))

    return open_files
