"""Fixtures of the trainer's tests: two devices, small records, small models."""

import fcntl
import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from support import small_finetuning

from beambert.folders import MARKER_FILE
from beambert.model.config import BertConfig
from beambert.pipelines.pretraining.documents import HASH_BYTES, CompactDocuments
from beambert.pipelines.pretraining.instances import (
    DocumentCounts,
    InstanceCounts,
    InstanceParameters,
    build_instances,
    order_documents,
    pair_documents,
)
from beambert.pipelines.pretraining.masks import TokenIds
from beambert.pipelines.records.contract import INFO_FILE, RecordsInfo, shard_name
from beambert.pipelines.records.encoding import RecordWriter, encode_examples
from beambert.pipelines.tokenizers.vocabulary import VOCABULARY_FILE, Vocabulary
from beambert.trainer.commands.finetune import main as finetune_main
from beambert.trainer.commands.pretrain import main as pretrain_main
from beambert.trainer.loop import strategy as loop_strategy

# Before anything runs on TensorFlow: the devices of MirroredStrategy. Others use the first only.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)


@pytest.fixture(autouse=True, scope="module")
def without_xla(request):
    """Trains without XLA, whose compiler takes half of the time of a small training.

    What commands train as processes has it, and so have the models below, and the modules that say
    `WITH_XLA = True`.
    """
    with pytest.MonkeyPatch.context() as patch:
        if not getattr(request.module, "WITH_XLA", False):
            patch.setattr(loop_strategy, "has_xla", lambda: False)
        yield


LENGTH, PREDICTIONS = 32, 5
# Each of a document's sentences takes its words from this many neighbours in the vocabulary.
WORDS_A_DOCUMENT = 3


def make_documents(vocabulary: Vocabulary, count: int, seed: int) -> CompactDocuments:
    """Returns documents of few different words, so that a model learns something fast."""
    random = np.random.default_rng(seed)
    stop = vocabulary.id_of(".")
    sentences, lengths = [], []
    for _ in range(count):
        first_word = random.integers(stop + 2, len(vocabulary) - WORDS_A_DOCUMENT)
        lengths.append(random.integers(2, 9))
        for _ in range(lengths[-1]):
            words = first_word + random.integers(0, WORDS_A_DOCUMENT, random.integers(3, 9))
            sentences.append(np.append(words, stop))
    return CompactDocuments(
        np.frombuffer(random.bytes(HASH_BYTES * count), f"V{HASH_BYTES}"),
        np.zeros(count, np.uint32),
        np.zeros(count, np.uint32),
        np.array(lengths, np.uint32),
        np.array([len(sentence) for sentence in sentences], np.uint32),
        np.concatenate(sentences).astype(np.uint16),
    )


def write_records(
    folder: pathlib.Path,
    vocabulary: Vocabulary,
    documents_a_shard: tuple[int, ...] = (30, 12, 21),
    seed: int = 1,
    length: int = LENGTH,
    masks: str = "static",
) -> pathlib.Path:
    """Makes a complete records folder."""
    folder.mkdir(parents=True)
    predictions = {"max_predictions_per_seq": PREDICTIONS} if masks == "static" else {}
    parameters = InstanceParameters(
        length,
        predictions.get("max_predictions_per_seq", 0),
        dupe_factor=2,
        random_seed=seed,
        masks=masks,
    )
    ids, files = TokenIds.of(vocabulary), []
    for shard, count in enumerate(documents_a_shard):
        name, counts = shard_name(shard, len(documents_a_shard)), InstanceCounts()
        documents = make_documents(vocabulary, count, seed + shard)
        documents = order_documents(documents, ids, DocumentCounts())
        pairs = pair_documents(documents, parameters, shard, counts)
        with open(folder / name, "wb") as file:
            writer = RecordWriter(file)
            for rows in build_instances(documents.tokens, pairs, ids, parameters, shard, counts):
                writer.write(encode_examples(rows))
        files.append(
            {
                "name": name,
                "instances": counts.instances,
                "bytes": writer.bytes,
                "sha256": writer.sha256,
            }
        )
    info = RecordsInfo(
        parameters={
            "max_seq_length": length,
            **predictions,
            "do_lower_case": True,
            **({} if masks == "static" else {"masks": masks}),
        },
        vocabulary={"size": len(vocabulary), "sha256": vocabulary.sha256},
        inputs=[],
        files=files,
        counts={},
        versions={},
    )
    (folder / INFO_FILE).write_text(info.to_json())
    (folder / VOCABULARY_FILE).write_bytes(vocabulary.serialize())
    (folder / MARKER_FILE).write_bytes(b"")
    return folder


@pytest.fixture(scope="session")
def two_devices() -> tf.distribute.Strategy:
    """One for the session: the collective operations of a second one would be taken for its."""
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


@pytest.fixture(scope="session")
def make_records(vocabulary):
    """The function that makes a records folder; other vocabularies by keyword."""

    def make(folder: pathlib.Path, **options) -> pathlib.Path:
        return write_records(folder, options.pop("vocabulary", vocabulary), **options)

    return make


@pytest.fixture(scope="session")
def records_folder(tmp_path_factory, make_records) -> pathlib.Path:
    """Three files of records; held-out ones in eval."""
    folder = make_records(tmp_path_factory.mktemp("data") / "records")
    make_records(folder / "eval", documents_a_shard=(14,), seed=100)
    return folder


@pytest.fixture(scope="session")
def read_rows():
    """A plain reader of records: a list of name -> numpy array, in the order of the files."""

    def read(folder: pathlib.Path) -> list[dict[str, np.ndarray]]:
        rows = []
        for path in sorted(folder.glob("*.tfrecord")):
            for record in tf.data.TFRecordDataset(str(path)):
                features = tf.train.Example.FromString(record.numpy()).features.feature
                rows.append(
                    {
                        name: np.array(feature.int64_list.value or feature.float_list.value)
                        for name, feature in features.items()
                    }
                )
        return rows

    return read


@pytest.fixture(scope="session")
def small_config(vocabulary) -> BertConfig:
    """One layer of 32."""
    return BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=LENGTH,
        # So narrow a model learns faster from larger weights.
        initializer_range=0.1,
    )


@pytest.fixture(scope="session")
def small_config_file(tmp_path_factory, small_config) -> pathlib.Path:
    """The same as a bert_config.json."""
    path = tmp_path_factory.mktemp("config") / "bert_config.json"
    path.write_text(small_config.to_json())
    return path


def once_for_all_workers(tmp_path_factory, name: str, make) -> pathlib.Path:
    """Makes a model by a command, which gets its folder: once for all of pytest's workers.

    It takes most of the time. Whoever comes later finds it finished. It is to be read only.
    """
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    with open(shared / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / name / MARKER_FILE).exists():
            make(shared / name)
    return shared / name


@pytest.fixture(scope="session")
def encoder_folder(tmp_path_factory, records_folder, small_config_file) -> pathlib.Path:
    """A finished encoder."""

    def make(folder):
        values = {
            "data": records_folder,
            "model": small_config_file,
            "model_dir": folder,
            "num_train_steps": 150,
            "train_batch_size": 16,
            "learning_rate": 5e-3,
            "eval_steps": 50,
        }
        pretrain_main([f"--{name}={value}" for name, value in values.items()])

    return once_for_all_workers(tmp_path_factory, "encoder", make)


@pytest.fixture(scope="session")
def task_folder(tmp_path_factory) -> pathlib.Path:
    return small_finetuning.write_task(tmp_path_factory.mktemp("task") / "single", pairs=False)


@pytest.fixture(scope="session")
def classifier_folder(task_folder, encoder_folder, tmp_path_factory) -> pathlib.Path:
    """Fine-tuned from the encoder."""

    def make(folder):
        finetune_main(small_finetuning.flags(task_folder, encoder_folder, folder))

    return once_for_all_workers(tmp_path_factory, "classifier", make)
