"""What LoRA has learnt, as the library PEFT keeps it."""

from collections.abc import Mapping
from typing import Any

import keras

from beambert import io
from beambert.model.families.family import ENCODER
from beambert.model.families.table import family_of
from beambert.model.lora import SCALE, lora_changes
from beambert.model_files import PRETRAINING
from beambert.trainer.tasks.base import objective_of_kind
from beambert.trainer.weights.arrays import to_bytes
from beambert.trainer.weights.tokenizer_files import json_bytes

# The folder in a model folder with what `--lora_rank` has learnt.
ADAPTER_FOLDER = "adapter"


def write_adapter(
    model: keras.Model, training: Mapping[str, Any], init: str, model_dir: str
) -> None:
    """Writes the folder from which PEFT loads what LoRA has learnt.

    The pooler and the head of a task, trained whole, are with the changes of low rank; the heads of
    a pre-training are not. There are no files if no class of `transformers` has the head.

    Args:
      model: model whose changes are not merged yet.
      training: content of training.json.
      init: path of the encoder that was trained.
      model_dir: model folder that gets the folder `adapter`.
    """
    is_task = training["kind"] != PRETRAINING
    ending = objective_of_kind(training["kind"]).HUGGING_FACE_CLASS if is_task else ENCODER
    if ending is None or "windows" in training:
        return
    family = family_of(model.config)
    name_of, arrays, targets = family.namer(ending), {}, []
    for path, (a_IR, b_RO) in lora_changes(model.encoder).items():
        if named := name_of(path):
            targets.append(named[0].removesuffix(".weight"))
            arrays[f"{targets[-1]}.lora_A.weight"] = a_IR.T
            arrays[f"{targets[-1]}.lora_B.weight"] = b_RO.T
    whole = {}
    for variable in (model if is_task else model.encoder).trainable_variables:
        named = None if "lora_kernel" in variable.path else name_of(variable.path)
        if named:  # ModernBERT's head is none of the bare encoder.
            whole[named[0]] = variable.numpy().T if named[1] else variable.numpy()
    modules = {name.removeprefix(family.model_prefix).partition(".")[0] for name in whole}
    config = {
        "peft_type": "LORA",
        "base_model_name_or_path": init,
        "r": training["lora_rank"],
        "lora_alpha": SCALE * training["lora_rank"],
        "target_modules": targets,
        "modules_to_save": sorted(modules) or None,
        "inference_mode": True,
    }
    named = {f"base_model.model.{name}": each for name, each in (arrays | whole).items()}
    io.write_bytes(f"{model_dir}/{ADAPTER_FOLDER}/adapter_config.json", json_bytes(config))
    io.write_bytes(f"{model_dir}/{ADAPTER_FOLDER}/adapter_model.safetensors", to_bytes(named))
