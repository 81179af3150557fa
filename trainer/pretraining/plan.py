"""The plan of a pre-training, which follows from its job and its data."""

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from beambert import io
from beambert.console import counted
from beambert.errors import InputError
from beambert.model.config import EncoderConfig
from beambert.model.families.family import Family
from beambert.model.families.table import FAMILIES, family_of
from beambert.model.objectives import MLM, PAIR_TASKS, RTD
from beambert.model_files import PRETRAINING
from beambert.trainer import model_folders
from beambert.trainer.model_folders import model_config
from beambert.trainer.pretraining import distillation, recipes
from beambert.trainer.pretraining.job import PretrainingJob
from beambert.trainer.pretraining.masks import MaskingRules, mask_settings, rules_for
from beambert.trainer.pretraining.records import Records, check_same, open_held_out, open_records
from beambert.trainer.weights.adaptation import extends
from beambert.trainer.weights.initial import InitialWeights, open_initial

# A record has two segments, sentence A and sentence B.
SEGMENTS = 2


# A variable of the generator's width, which each of its layers has.
_GENERATOR_NORM = "generator/encoder/layer_{}/output/layer_norm/gamma"
_BASE = recipes.bert_base()
# The objectives that may have a teacher: those with masked LM by the encoder itself.
_TAUGHT = (*PAIR_TASKS, MLM)


@dataclasses.dataclass(frozen=True)
class PhaseData:
    """Successive steps on sequences of one length: their records, and the held-out ones.

    Attributes:
      records: the records.
      held_out: name of the source -> held-out records, see `records.open_held_out`.
      first_step: number of steps of the whole training that come before.
      last_step: number of steps of the whole training at its end.
      rules: rules by which masks are drawn; None for those of the records.
    """

    records: Records
    held_out: Mapping[str, Records]
    first_step: int
    last_step: int
    rules: MaskingRules | None = None

    @property
    def steps(self) -> int:
        """Number of steps on these records."""
        return self.last_step - self.first_step

    @property
    def slots(self) -> int:
        """Prediction slots of a sequence."""
        return self.rules.slots if self.rules else self.records.max_predictions_per_seq


@dataclasses.dataclass(frozen=True)
class PretrainingPlan:
    """Everything that a pre-training needs, read and checked.

    Attributes:
      job: parameters of the pre-training.
      data: records of each phase.
      initial: weights to start from; None for random ones.
      config: configuration of the model.
      generator: configuration of the generator; None for an objective without one.
      teacher: teacher of the model; None for none.
    """

    job: PretrainingJob
    data: Sequence[PhaseData]
    initial: InitialWeights | None
    config: EncoderConfig
    generator: EncoderConfig | None = None
    teacher: distillation.Teacher | None = None

    @functools.cached_property
    def training(self) -> Mapping[str, Any]:
        """The content of training.json."""
        return _training(self.job, self.data, self.initial, self.teacher)

    @functools.cached_property
    def identity(self) -> dict[str, Any]:
        """The settings that decide the result; see `model_folders.job_identity`."""
        return model_folders.job_identity(self.training, self.config)


def make_plan(job: PretrainingJob) -> PretrainingPlan:
    """Returns the plan of a job, after opening the records and the initial weights.

    Raises:
      InputError: a parameter or the data cannot be used.
    """
    if job.family:
        _check_objective(job, FAMILIES[job.family])
    data = _open_data(job)
    rules = rules_for(job, [each.records for each in data], job.optimizer.num_train_steps)
    data = [dataclasses.replace(each, rules=by) for each, by in zip(data, rules, strict=True)]
    records = data[0].records
    longest = max(each.records.max_seq_length for each in data)
    initial = _open_weights(job.init, "--init", job, records)
    if initial:
        initial = initial.with_positions(longest, job.init_positions)
    config = (
        initial.config
        if initial
        else model_config(job.model or _BASE["model"], records.vocabulary, job.family)
    )
    _check_objective(job, family_of(config))
    if job.objective == RTD and job.generator_size is None:
        job = dataclasses.replace(job, generator_size=family_of(config).generator_size)
    if job.attend_within_documents:
        _check_documents(job, data)
    config = _with_rates(config, job)
    _check_sizes(data, config)
    generator = _generator(job, config, initial) if job.objective == RTD else None
    teacher = _open_teacher(job, records, config, longest)
    return PretrainingPlan(job, data, initial, config, generator, teacher)


def _open_data(job: PretrainingJob) -> list[PhaseData]:
    """Opens the records of each phase."""
    steps = job.optimizer.num_train_steps
    records = open_records(job.data, "--data", job.objective)
    held_out = open_held_out(records, job.eval_data, job.objective)
    if job.long_data is None:
        return [PhaseData(records, held_out, 0, steps)]
    long_records = open_records(job.long_data, "--long_data", job.objective)
    check_same(records, long_records, "--long_data", ["do_lower_case"])
    if long_records.max_seq_length <= records.max_seq_length:
        is_same = long_records.max_seq_length == records.max_seq_length
        remedy = "give records of longer sequences" if is_same else "exchange the two"
        raise InputError(
            f"--long_data={job.long_data}: its max_seq_length is {long_records.max_seq_length}, "
            f"that of --data={job.data} is {records.max_seq_length}; {remedy}, or leave "
            "--long_data out"
        )
    short = steps - round(steps * job.long_data_share)
    if not 0 < short < steps:
        raise InputError(
            f"--long_data_share={job.long_data_share}: leaves no step of --num_train_steps={steps} "
            "for --data or for --long_data; choose another share"
        )
    long_held_out = open_held_out(long_records, (), job.objective)
    return [
        PhaseData(records, held_out, 0, short),
        PhaseData(long_records, long_held_out, short, steps),
    ]


def _open_weights(
    path: str | None, flag: str, job: PretrainingJob, records: Records
) -> InitialWeights | None:
    """Opens weights of the same vocabulary as the records, or, with --init, of one they extend."""
    if path is None:
        return None
    initial = open_initial(path, flag)
    initial.check(flag)
    if flag == "--init" and extends(records.vocabulary, initial.vocabulary):
        initial = initial.with_vocabulary(records.vocabulary)
    what, own = records.vocabulary.WHAT, initial.vocabulary
    remedy = f"its {own.FILE}" + ("" if own.lower_cases is not None else " and --do_lower_case")
    for name, theirs, mine in (
        (what, own.sha256[:12], records.vocabulary.sha256[:12]),
        ("do_lower_case", initial.do_lower_case, records.info.parameters["do_lower_case"]),
    ):
        if theirs != mine:
            raise InputError(
                f"--data={job.data}: its {name} is {mine}, that of {flag}={path} is {theirs}; "
                f"make the records with {remedy}"
            )
    return initial


def _open_teacher(
    job: PretrainingJob, records: Records, config: EncoderConfig, longest: int
) -> distillation.Teacher | None:
    flag = distillation.FLAG
    if job.distill_from and job.objective not in _TAUGHT:
        raise InputError(
            f"{flag}={job.distill_from}: --objective={job.objective} has no teacher; choose one of "
            f"{', '.join(_TAUGHT)}, or leave {flag} out"
        )
    weights = _open_weights(job.distill_from, flag, job, records)
    return distillation.Teacher.of(weights, config, longest, SEGMENTS) if weights else None


def _with_rates(config: EncoderConfig, job: PretrainingJob) -> EncoderConfig:
    """Returns a configuration with the dropout and the random weights that the job asks for."""
    if job.dropout is not None:
        config = config.with_dropout(job.dropout)
    if job.initializer_range is not None:
        config = dataclasses.replace(config, initializer_range=job.initializer_range)
    return config


def _generator(
    job: PretrainingJob, config: EncoderConfig, initial: InitialWeights | None
) -> EncoderConfig:
    """Returns the configuration of the generator.

    Raises:
      InputError: no generator has the size, or that of the initial weights has another one.
    """
    flag = f"--generator_size={job.generator_size}"
    try:
        generator = family_of(config).generator_config(config, job.generator_size)
    except ValueError as error:
        raise InputError(
            f"{flag}: no generator can be made so ({error}); choose another"
        ) from error
    weights = initial.read() if initial else {}
    there = weights.get(_GENERATOR_NORM.format(0))
    if there is not None and len(there) != generator.hidden_size:
        raise InputError(
            f"{flag}: makes a generator of width {generator.hidden_size}, but that of "
            f"--init={job.init} has {len(there)}; give {len(there) / config.hidden_size:g}"
        )
    depth = next(i for i in itertools.count() if _GENERATOR_NORM.format(i) not in weights)
    if depth not in (0, generator.num_hidden_layers):
        raise InputError(
            f"{flag}: makes a generator of {counted(generator.num_hidden_layers, 'layer')}, but "
            f"that of --init={job.init} has {depth}; give {depth / config.num_hidden_layers:g}"
        )
    return generator


def _check_objective(job: PretrainingJob, family: Family) -> None:
    """Refuses an objective that a model of the family has no head for."""
    if job.objective not in family.objectives:
        raise InputError(
            f"--objective={job.objective}: {family.title} has no head for it; give "
            f"--objective={' or '.join(family.objectives)}"
        )


def _check_documents(job: PretrainingJob, data: Sequence[PhaseData]) -> None:
    """Refuses `attend_within_documents` where records or objective have no use for it."""
    flag = "--attend_within_documents"
    if job.objective != MLM or job.distill_from:
        other = distillation.FLAG if job.distill_from else f"--objective={job.objective}"
        raise InputError(f"{flag}: excludes {other}; give --objective={MLM} alone")
    for each in data:
        if each.records.info.has_label:
            raise InputError(
                f"{flag}: the records in {each.records.folder} are pairs, whose parts must see "
                "each other; make them with --pairs=none, or leave it out"
            )


def _check_sizes(data: Sequence[PhaseData], config: EncoderConfig) -> None:
    if config.segments is not None and config.segments < SEGMENTS:
        raise InputError(
            f"{data[0].records.folder}: its records have {SEGMENTS} segments, but the model's "
            f"type_vocab_size is {config.segments}; choose another --model or --init"
        )
    for each in data:
        length, limit = each.records.max_seq_length, config.longest_sequence
        if length > limit:
            tiles = ", or give --init with --init_positions=tile"
            raise InputError(
                f"{each.records.folder}: its max_seq_length is {length}, but the model's "
                f"max_position_embeddings is {limit}; make shorter records or "
                "choose another model" + (tiles if config.has_position_table else "")
            )


def _training(
    job: PretrainingJob,
    data: Sequence[PhaseData],
    initial: InitialWeights | None,
    teacher: distillation.Teacher | None,
) -> Mapping[str, Any]:
    records = data[-1].records
    trained = initial.trained_positions or 0 if initial else 0
    return {
        "kind": PRETRAINING,
        "objective": job.objective,
        "generator_size": job.generator_size,
        "attend_within_documents": job.attend_within_documents,
        "budget_seconds": job.budget,
        "optimizer": dataclasses.asdict(job.optimizer),
        "loop": dataclasses.asdict(job.loop),
        "do_lower_case": records.info.parameters["do_lower_case"],
        "max_seq_length": records.max_seq_length,
        "trained_positions": max(trained, records.max_seq_length),
        "vocabulary_sha256": records.vocabulary.sha256,
        **mask_settings(job, [each.records for each in data]),
        "init": io.absolute(initial.path) if initial else None,
        "init_sha256": initial.sha256 if initial else None,
        "init_positions": job.init_positions,
        "lora_rank": job.lora_rank,
        "distill_from": io.absolute(teacher.weights.path) if teacher else None,
        "distill_from_sha256": teacher.weights.sha256 if teacher else None,
        "data": [io.absolute(each.records.folder) for each in data],
        "phases": [
            {
                "last_step": each.last_step,
                "max_seq_length": each.records.max_seq_length,
                "records_sha256": _sha256(each.records),
                "eval_records_sha256": [
                    f"{name} {digest}".lstrip()
                    for name, records in each.held_out.items()
                    for digest in _sha256(records)
                ],
            }
            for each in data
        ],
    }


def _sha256(records: Records) -> list[str]:
    return [file["sha256"] for file in records.info.files]
