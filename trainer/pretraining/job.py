"""The job of `beambert pretrain`: records -> an encoder."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from beambert.model.config import BertConfig
from beambert.model.flops import training_flops
from beambert.model.packing import Capacity
from beambert.model.pretrainer import BertPretrainer
from beambert.pipelines.records.contract import EVAL_FOLDER
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.shared.logs import logging_as_it_was
from beambert.pipelines.storage import claims, tensorflow_files
from beambert.pipelines.storage.weights import RESULTS_FILE
from beambert.trainer import model_folders
from beambert.trainer.loop.config import DYNAMIC, STATIC, LoopConfig, OptimizerConfig
from beambert.trainer.loop.loop import train
from beambert.trainer.loop.phase import Phase
from beambert.trainer.loop.steps import Trainer
from beambert.trainer.loop.strategy import check_batch, is_chief, make_strategy
from beambert.trainer.model_folders import model_config
from beambert.trainer.pretraining import recipes
from beambert.trainer.pretraining.batches import evaluation_batches, training_batches
from beambert.trainer.pretraining.capacity import capacity_for
from beambert.trainer.pretraining.objective import PretrainingObjective
from beambert.trainer.pretraining.records import (
    Records,
    check_same,
    compression_of,
    open_records,
    parse_batch,
)
from beambert.trainer.weights.initial import InitialWeights, open_initial

# A record has two segments, sentence A and sentence B.
SEGMENTS = 2


_BASE = recipes.bert_base()


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingJob:
    """The parameters of a pre-training; the defaults are those of `beambert pretrain`.

    Attributes:
      data: records folder.
      eval_data: folder of held-out records; None takes `data`/eval if that exists.
      long_data: folder of records with longer sequences, for the last steps; None for none. Its
        held-out records are in `long_data`/eval, if that exists.
      long_data_share: share of the steps on `long_data`.
      masking: "static" for the records' masks, "dynamic" for others in every epoch.
      model: name of a published size or path of a bert_config.json; None takes that of `init`,
        or base where that is None too.
      init: weights to start from, see `initial.open_initial`; None starts from random ones.
      output: folders to write to.
      optimizer: parameters of the optimizer.
      loop: parameters of the training loop.
    """

    data: str
    eval_data: str | None = None
    long_data: str | None = None
    long_data_share: float = _BASE.long_data_share
    masking: str = STATIC
    model: str | None = None
    init: str | None = None
    output: model_folders.TrainingFolders
    optimizer: OptimizerConfig = OptimizerConfig(
        _BASE.learning_rate, _BASE.num_train_steps, _BASE.num_warmup_steps
    )
    loop: LoopConfig = LoopConfig(_BASE.train_batch_size)


@dataclasses.dataclass(frozen=True)
class _Data:
    """The records of a phase, its held-out records, and the step of the whole run that ends it."""

    records: Records
    held_out: Records | None
    last_step: int


def _open_data(job: PretrainingJob) -> list[_Data]:
    """Opens the records of each phase."""
    steps = job.optimizer.num_train_steps
    records = open_records(job.data, "--data")
    held_out = _open_evaluation(records, job.eval_data)
    if job.long_data is None:
        return [_Data(records, held_out, steps)]
    long_records = open_records(job.long_data, "--long_data")
    for name, short, long in (
        ("vocabulary", records.vocabulary.sha256[:12], long_records.vocabulary.sha256[:12]),
        ("do_lower_case", *(r.info.parameters["do_lower_case"] for r in (records, long_records))),
    ):
        if short != long:
            raise InputError(
                f"--long_data={job.long_data}: its {name} is {long}, that of --data={job.data} is "
                f"{short}; make both in one run of `beambert data --max_seq_length=128,512`"
            )
    if long_records.max_seq_length <= records.max_seq_length:
        raise InputError(
            f"--long_data={job.long_data}: its max_seq_length is {long_records.max_seq_length}, "
            f"that of --data={job.data} is {records.max_seq_length}; exchange the two, or leave "
            "--long_data out"
        )
    long_steps = round(steps * job.long_data_share)
    if not 0 < long_steps < steps:
        raise InputError(
            f"--long_data_share={job.long_data_share}: leaves no step of --num_train_steps={steps} "
            "for --data or for --long_data; choose another share"
        )
    return [
        _Data(records, held_out, steps - long_steps),
        _Data(long_records, _open_evaluation(long_records, None), steps),
    ]


def _open_evaluation(records: Records, folder: str | None) -> Records | None:
    if folder is None:
        folder = f"{records.folder}/{EVAL_FOLDER}"
        if not tensorflow_files.exists(folder):
            return None
    held_out = open_records(folder, "--eval_data")
    check_same(records, held_out)
    return held_out


def commonest_token_accuracy(records: Records) -> float:
    """Returns the share of the predictions whose label is the commonest one.

    It is the best accuracy without looking at the text, so a masked LM has to beat it.
    """
    files = records.files
    dataset = tf.data.TFRecordDataset(files, compression_of(files)).batch(4096)
    dataset = dataset.map(lambda serialized: parse_batch(serialized, records))
    counts = np.zeros(len(records.vocabulary), np.int64)
    for features in dataset:
        ids, weights = features["masked_lm_ids"].numpy(), features["masked_lm_weights"].numpy()
        counts += np.bincount(ids[weights > 0], minlength=len(counts))
    return float(counts.max() / max(counts.sum(), 1))


@logging_as_it_was()
def pretrain(job: PretrainingJob, strategy: tf.distribute.Strategy | None = None) -> None:
    """Trains an encoder and writes a finished model folder.

    Args:
      job: what is asked for.
      strategy: devices to train on; None for those that `make_strategy("auto")` finds.

    Raises:
      InputError: a parameter or the data cannot be used.
    """
    strategy = strategy or make_strategy("auto")
    data = _open_data(job)
    records = data[0].records
    initial = _open_initial(job, records)
    config = (
        initial.config
        if initial
        else model_config(job.model or _BASE.model, len(records.vocabulary))
    )
    _check_sizes(data, config)
    loop = job.loop
    check_batch(strategy, loop.train_batch_size, loop.gradient_accumulation_steps)
    training = _training(job, data, initial)
    identity = model_folders.job_identity(training, config)
    model_dir = job.output.model
    chief = is_chief(strategy)
    if model_folders.claim(job.output, identity, chief):
        print(f"{model_dir}: already finished by the same command, nothing to do")
        return
    with model_folders.held(model_dir, chief):
        if chief:
            model_folders.describe_model(model_dir, config, records.vocabulary, training)
        trainer = Trainer(
            strategy,
            lambda: BertPretrainer(config, seed=loop.random_seed),
            PretrainingObjective(_capacities(data, loop, strategy)),
            job.optimizer,
            loop.random_seed,
            gradient_accumulation_steps=loop.gradient_accumulation_steps,
            dtype=loop.dtype,
        )
        notes = initial.load_into(trainer.model, "--init") if initial else []
        if chief:
            print("\n".join([_introduce(job, data, trainer), *notes]), flush=True)
        firsts = [0, *(each.last_step for each in data)]
        phases = [
            _phase(each, first, config, job, strategy)
            for each, first in zip(data, firsts, strict=False)
        ]
        results = train(trainer, phases, loop, job.output, training)
        if not chief:
            return
        if data[-1].held_out:
            results["commonest_token_accuracy"] = commonest_token_accuracy(data[-1].held_out)
            share = results["commonest_token_accuracy"]
            print(f"accuracy of always predicting the commonest token: {share:.1%}")
        model_folders.save_weights(trainer.model, model_dir)
        tensorflow_files.write_bytes(
            f"{model_dir}/{RESULTS_FILE}", json.dumps(results, indent=1).encode()
        )
        model_folders.finish(model_dir, identity)
        print(f"{model_dir}: finished", flush=True)


def _open_initial(job: PretrainingJob, records: Records) -> InitialWeights | None:
    if job.init is None:
        return None
    initial = open_initial(job.init, "--init")
    for name, theirs, mine in (
        ("vocabulary", initial.vocabulary.sha256[:12], records.vocabulary.sha256[:12]),
        ("do_lower_case", initial.do_lower_case, records.info.parameters["do_lower_case"]),
    ):
        if theirs != mine:
            raise InputError(
                f"--data={job.data}: its {name} is {mine}, that of --init={job.init} is {theirs}; "
                "make the records with its vocab.txt and --do_lower_case"
            )
    initial.check("--init")
    return initial


def _check_sizes(data: Sequence[_Data], config: BertConfig) -> None:
    if config.type_vocab_size < SEGMENTS:
        raise InputError(
            f"{data[0].records.folder}: its records have {SEGMENTS} segments, but the model's "
            f"type_vocab_size is {config.type_vocab_size}; choose another --model or --init"
        )
    for each in data:
        length, limit = each.records.max_seq_length, config.max_position_embeddings
        if length > limit:
            raise InputError(
                f"{each.records.folder}: its max_seq_length is {length}, but the model's "
                f"max_position_embeddings is {limit}; choose another --model"
            )


def _capacities(
    data: Sequence[_Data], loop: LoopConfig, strategy: tf.distribute.Strategy
) -> dict[int, Capacity]:
    """Returns length -> numbers of rows, for lengths where leaving out padding is worthwhile."""
    parts = strategy.num_replicas_in_sync * loop.gradient_accumulation_steps
    capacities = {
        each.records.max_seq_length: capacity_for(each.records, loop.train_batch_size // parts)
        for each in data
    }
    return {length: capacity for length, capacity in capacities.items() if capacity}


def _phase(
    data: _Data,
    first_step: int,
    config: BertConfig,
    job: PretrainingJob,
    strategy: tf.distribute.Strategy,
) -> Phase:
    loop = job.loop
    batch_size, seed = loop.train_batch_size, loop.random_seed
    records = data.records

    def batches_from(step: int) -> Any:
        return strategy.distribute_datasets_from_function(
            lambda context: training_batches(
                records,
                batch_size,
                seed,
                step - first_step,
                context,
                gradient_accumulation_steps=loop.gradient_accumulation_steps,
                do_dynamic_masking=job.masking == DYNAMIC,
            )
        )

    def evaluation(max_batches: int | None) -> Any:
        return strategy.distribute_datasets_from_function(
            lambda context: evaluation_batches(data.held_out, batch_size, max_batches, context)
        )

    length, predictions = records.max_seq_length, records.max_predictions_per_seq
    return Phase(
        data.last_step,
        batches_from,
        evaluation if data.held_out else None,
        batch_size * length,
        training_flops(config, batch_size, length, predictions),
    )


def _training(
    job: PretrainingJob, data: Sequence[_Data], initial: InitialWeights | None
) -> Mapping[str, Any]:
    records = data[-1].records
    return {
        "kind": model_folders.PRETRAINING,
        # These come first: an error names the first difference to the description in a folder.
        "optimizer": dataclasses.asdict(job.optimizer),
        "loop": dataclasses.asdict(job.loop),
        "do_lower_case": records.info.parameters["do_lower_case"],
        "max_seq_length": records.max_seq_length,
        "vocabulary_sha256": records.vocabulary.sha256,
        "masking": job.masking,
        "init": claims.absolute(initial.path) if initial else None,
        "init_sha256": initial.sha256 if initial else None,
        "data": [claims.absolute(each.records.folder) for each in data],
        "phases": [
            {
                "last_step": each.last_step,
                "max_seq_length": each.records.max_seq_length,
                "records_sha256": _sha256(each.records),
                "eval_records_sha256": _sha256(each.held_out) if each.held_out else [],
            }
            for each in data
        ],
    }


def _sha256(records: Records) -> list[str]:
    return [file["sha256"] for file in records.info.files]


def _introduce(job: PretrainingJob, data: Sequence[_Data], trainer: Trainer) -> str:
    parameters = sum(int(np.prod(v.shape)) for v in trainer.model.trainable_variables)
    replicas = trainer.strategy.num_replicas_in_sync
    devices = f"{replicas} device{'s' * (replicas > 1)}"
    lines = [f"{job.init or job.model}: {parameters:,} parameters on {devices}"]
    first = 0
    for each in data:
        steps, first = each.last_step - first, each.last_step
        records, held_out = each.records, each.held_out
        epochs = steps * job.loop.train_batch_size / records.instances
        lines.append(
            f"{steps:,} steps on {records.instances:,} instances of {records.max_seq_length} "
            f"tokens ({epochs:.2f} epochs), "
            + (f"{held_out.instances:,} held out" if held_out else "none held out")
        )
    return "\n".join(lines)
