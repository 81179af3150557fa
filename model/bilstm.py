"""Bidirectional LSTMs on top of an encoder, with random weights (Devlin et al. 2019).

The paper puts one on its left-to-right model (section 5.1) and two on a frozen encoder (section
5.3).

Shape suffixes: B batch, L sequence length, H width of the input, U width of each direction.
"""

import keras
from keras import ops

from beambert.model.initialization import fold_seed


class BiLstm(keras.layers.Layer):
    """Layers of bidirectional LSTM (Graves and Schmidhuber 2005), each on top of the one before."""

    def __init__(self, width: int, layers: int, seed: int, name: str = "bilstm"):
        """Creates the layers without their variables.

        Args:
          width: U, the width of each direction; the paper's are as wide as the encoder.
          layers: number of layers.
          seed: seed of the model; every weight's own is folded from it.
          name: name of the layer.
        """
        super().__init__(name=name)
        self.width = width
        seed = fold_seed(seed, name)
        self.directions = [
            (
                _lstm(width, seed, f"forward_{index}"),
                _lstm(width, seed, f"backward_{index}", go_backwards=True),
            )
            for index in range(layers)
        ]

    def build(self, input_shape: tuple) -> None:
        """Creates the variables for inputs [B, L, H]."""
        for forward, backward in self.directions:
            forward.build(input_shape)
            backward.build(input_shape)
            input_shape = (*input_shape[:-1], 2 * self.width)

    def call(self, x_BLH, input_mask_BL):
        """Returns the states of both directions side by side, [B, L, 2 U]; padding is passed over.

        Args:
          x_BLH: outputs of the encoder.
          input_mask_BL: 1 for tokens and 0 for padding, which follows them.
        """
        is_token_BL = ops.cast(input_mask_BL, "bool")
        for forward, backward in self.directions:
            to_right = forward(x_BLH, mask=is_token_BL)
            to_left = ops.flip(backward(x_BLH, mask=is_token_BL), axis=1)
            x_BLH = ops.concatenate([to_right, to_left], axis=-1)
        return x_BLH

    def summary(self, states_BL2U):
        """Returns the last state of each direction, [B, 2 U]: at the last token, and at the first.

        The LSTM that reads to the right repeats its last state in the padding.
        """
        last_BU = states_BL2U[:, -1, : self.width]
        return ops.concatenate([last_BU, states_BL2U[:, 0, self.width :]], axis=-1)


def _lstm(width: int, seed: int, name: str, go_backwards: bool = False) -> keras.layers.LSTM:
    seed = fold_seed(seed, name)
    return keras.layers.LSTM(
        width,
        kernel_initializer=keras.initializers.GlorotUniform(fold_seed(seed, "kernel")),
        recurrent_initializer=keras.initializers.Orthogonal(seed=fold_seed(seed, "recurrent")),
        return_sequences=True,
        use_cudnn=False,  # XLA has no such operation.
        go_backwards=go_backwards,
        name=name,
    )
