"""`beambert pretrain`: records -> an encoder."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from model.config import BertConfig, preset
from model.pretrainer import BertPretrainer
from pipelines.errors import InputError
from pipelines.records import EVAL_FOLDER
from trainer import folders
from trainer.config import LoopConfig, OptimizerConfig
from trainer.input_pipeline import (
    Records,
    check_same,
    compression_of,
    evaluation_batches,
    open_records,
    parse_batch,
    training_batches,
)
from trainer.loop import Trainer, train
from trainer.objectives import PretrainingObjective
from trainer.strategy import check_batch, is_chief


@dataclasses.dataclass(frozen=True)
class PretrainingJob:
    """What `pretrain` is asked for.

    Attributes:
      data: records folder.
      eval_data: held-out records folder, or None for `data`/eval if that is there.
      model: name of a published size, or path of a bert_config.json.
      model_dir: folder to make.
      optimizer, loop: how.
    """

    data: str
    eval_data: str | None
    model: str
    model_dir: str
    optimizer: OptimizerConfig
    loop: LoopConfig


def model_config(name: str, vocab_size: int) -> BertConfig:
    """Returns the configuration of a published size or of a bert_config.json.

    Raises:
      InputError: no such size or file, or a vocabulary of another size.
    """
    try:
        is_file = name.endswith(".json")
        config = BertConfig.from_file(name) if is_file else preset(name, vocab_size)
    except OSError as error:
        raise InputError(f"--model={name}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise InputError(f"--model={name}: {error}") from error
    if config.vocab_size < vocab_size:
        raise InputError(
            f"--model={name}: its vocab_size is {config.vocab_size}, the records' vocabulary has "
            f"{vocab_size} tokens; mend the file or make the records with its vocabulary"
        )
    return config


def _open_evaluation(job: PretrainingJob, records: Records) -> Records | None:
    folder = job.eval_data
    if folder is None:
        folder = f"{records.folder}/{EVAL_FOLDER}"
        if not tf.io.gfile.isdir(folder):
            return None
    held_out = open_records(folder, "--eval_data")
    check_same(records, held_out)
    return held_out


def commonest_token_accuracy(records: Records) -> float:
    """Returns how often the commonest predicted token of these records is right.

    The accuracy of the best guess that never looks at the text: what a masked LM has to beat.
    """
    files = records.files
    dataset = tf.data.TFRecordDataset(files, compression_of(files)).batch(4096)
    dataset = dataset.map(lambda serialized: parse_batch(serialized, records))
    counts = np.zeros(len(records.vocabulary), np.int64)
    for features in dataset:
        ids, weights = features["masked_lm_ids"].numpy(), features["masked_lm_weights"].numpy()
        counts += np.bincount(ids[weights > 0], minlength=len(counts))
    return float(counts.max() / max(counts.sum(), 1))


def pretrain(job: PretrainingJob, strategy: tf.distribute.Strategy) -> None:
    """Trains an encoder from nothing and leaves a finished model folder.

    Raises:
      InputError: what was given can't be used.
    """
    records = open_records(job.data, "--data")
    held_out = _open_evaluation(job, records)
    config = model_config(job.model, len(records.vocabulary))
    if records.max_seq_length > config.max_position_embeddings:
        raise InputError(
            f"--data={job.data}: its max_seq_length is {records.max_seq_length}, the model's "
            f"max_position_embeddings {config.max_position_embeddings}; choose another --model"
        )
    check_batch(strategy, job.loop.train_batch_size)
    training = _training(job, records, held_out)
    identity = folders.job_identity(training, config)
    model_dir = job.model_dir.rstrip("/")
    chief = is_chief(strategy)
    if folders.claim(model_dir, identity, chief):
        print(f"{model_dir}: already finished by the same command, nothing to do")
        return
    if chief:
        folders.describe_model(model_dir, config, records.vocabulary, training)
    trainer = Trainer(
        strategy,
        lambda: BertPretrainer(config, seed=job.loop.random_seed),
        PretrainingObjective(),
        job.optimizer,
        job.loop.random_seed,
    )
    if chief:
        print(_introduce(job, records, held_out, trainer), flush=True)
    batch_size, seed = job.loop.train_batch_size, job.loop.random_seed

    def batches_from(step: int) -> Any:
        return strategy.distribute_datasets_from_function(
            lambda context: training_batches(records, batch_size, seed, step, context)
        )

    def evaluation(max_batches: int | None) -> Any:
        return strategy.distribute_datasets_from_function(
            lambda context: evaluation_batches(held_out, batch_size, max_batches, context)
        )

    results = train(trainer, batches_from, evaluation if held_out else None, job.loop, model_dir)
    if not chief:
        return
    if held_out:
        results["commonest_token_accuracy"] = commonest_token_accuracy(held_out)
        print(f"always guessing the commonest token: {results['commonest_token_accuracy']:.1%}")
    folders.save_weights(trainer.model, model_dir)
    folders.write(f"{model_dir}/{folders.RESULTS_FILE}", json.dumps(results, indent=1).encode())
    folders.finish(model_dir, identity)
    print(f"{model_dir}: finished", flush=True)


def _training(job: PretrainingJob, records: Records, held_out: Records | None) -> Mapping[str, Any]:
    return {
        "kind": "pretraining",
        "do_lower_case": records.info.parameters["do_lower_case"],
        "max_seq_length": records.max_seq_length,
        "vocabulary_sha256": records.vocabulary.sha256,
        "data": folders.absolute(records.folder),
        "records_sha256": [file["sha256"] for file in records.info.files],
        "eval_records_sha256": [f["sha256"] for f in held_out.info.files] if held_out else [],
        "optimizer": dataclasses.asdict(job.optimizer),
        "loop": dataclasses.asdict(job.loop),
    }


def _introduce(
    job: PretrainingJob, records: Records, held_out: Records | None, trainer: Trainer
) -> str:
    parameters = sum(int(np.prod(v.shape)) for v in trainer.model.trainable_variables)
    epochs = job.optimizer.num_train_steps * job.loop.train_batch_size / records.instances
    replicas = trainer.strategy.num_replicas_in_sync
    evaluated = f"{held_out.instances:,} held out" if held_out else "none held out"
    return (
        f"{job.model}: {parameters:,} parameters on {replicas} device{'s' * (replicas > 1)}; "
        f"{records.instances:,} instances of {records.max_seq_length} tokens, {evaluated}; "
        f"{epochs:.2f} epochs"
    )
