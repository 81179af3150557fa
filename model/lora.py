"""LoRA: low-rank changes of an encoder's dense layers (Hu et al. 2021, arXiv 2106.09685).

A kernel W of a frozen encoder becomes W + SCALE * A B, where A [inputs, rank] and B [rank, outputs]
are trained. The pooler is part of the head, which is trained whole: many encoders have none, or one
that was never trained, and a change of a low rank cannot make one of it. Keras computes the
changes; here is which layers have them, and how they are merged.
"""

import keras
import numpy as np

from beambert.model.layers import fold_seed

# alpha / rank, as of RoBERTa large in the paper; that of base is 1 (table 9).
SCALE = 2


def add_lora(encoder: keras.layers.Layer, rank: int, seed: int) -> None:
    """Freezes an encoder up to its pooler; its dense layers get a change of a low rank, which is 0.

    Args:
      encoder: encoder with all its variables.
      rank: rank of the changes, at least 1.
      seed: seed of the initial values of A.
    """
    whole = {id(variable) for variable in encoder.pooler.variables} if encoder.pooler else ()
    for variable in encoder.trainable_variables:
        variable.trainable = id(variable) in whole
    for layer in _dense_layers(encoder):
        if layer._kernel.trainable:
            continue
        # As nn.Linear in PyTorch, and so PEFT: uniform in 1 / sqrt(inputs).
        initializer = keras.initializers.VarianceScaling(
            1 / 3, "fan_in", "uniform", seed=fold_seed(seed, layer.path)
        )
        layer.enable_lora(rank, lora_alpha=SCALE * rank, a_initializer=initializer)


def lora_changes(encoder: keras.layers.Layer) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Returns path of a kernel -> A and B of its change."""
    return {
        layer._kernel.path: (layer.lora_kernel_a.numpy(), layer.lora_kernel_b.numpy())
        for layer in _dense_layers(encoder)
        if layer.lora_enabled
    }


def merge_lora(encoder: keras.layers.Layer) -> None:
    """Adds the changes to the kernels; the encoder is then as one without them."""
    for layer in _dense_layers(encoder):
        if layer.lora_enabled:
            layer._kernel.assign(layer.kernel)
            layer.lora_enabled = False
            for name in ("lora_kernel_a", "lora_kernel_b"):  # A SavedModel would have them.
                layer._untrack_variable(getattr(layer, name))
                delattr(layer, name)


def _dense_layers(encoder: keras.layers.Layer) -> list[keras.layers.Dense]:
    # A layer may occur twice, as in ALBERT.
    layers = {id(layer): layer for layer in encoder._flatten_layers()}
    return [layer for layer in layers.values() if isinstance(layer, keras.layers.Dense)]
