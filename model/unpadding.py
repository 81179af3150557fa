"""Packing: the tokens of a batch as rows of a matrix, without the padding.

All layers except attention treat every position alike, so they compute the packed rows only. For
attention the rows are laid out as sequences and packed again afterwards. The results are those of
the padded batch. The number of rows is fixed, so that XLA compiles one program; rows that no token
needs hold padding.

Shape suffixes: B batch, L sequence length, T = B * L positions, C rows for tokens, H width.
"""

import dataclasses

import keras
from keras import ops


@dataclasses.dataclass(frozen=True)
class Capacity:
    """Numbers of rows for a batch without its padding.

    Attributes:
      tokens: number of rows in the encoder.
      predictions: number of rows in the masked-LM head.
    """

    tokens: int
    predictions: int


@dataclasses.dataclass(frozen=True)
class Packing:
    """The positions of a batch and their rows.

    Attributes:
      positions_C: int32 [C], the position b * L + l in each row; tokens first, then padding.
      rows_T: int32 [T], the row of each position; padding without a row has an arbitrary one.
      is_token_T1: float32 [T, 1], 1 for tokens.
    """

    positions_C: keras.KerasTensor
    rows_T: keras.KerasTensor
    is_token_T1: keras.KerasTensor

    @classmethod
    def of(cls, input_mask_BL: keras.KerasTensor, capacity: int) -> "Packing":
        """Gives every token of a batch a row.

        Args:
          input_mask_BL: integer [B, L], 1 for tokens; B and L are static.
          capacity: number of rows, at least the number of tokens.
        """
        mask_T = ops.cast(ops.reshape(input_mask_BL, (-1,)), "int32")
        size = mask_T.shape[0]
        position_T = ops.arange(size, dtype="int32")
        # Tokens sort before padding, each in the order of their positions.
        order_T = ops.sort((1 - mask_T) * size + position_T) % size
        # Sorting a permutation gives its inverse.
        rows_T = ops.argsort(order_T)
        return cls(
            order_T[:capacity],
            ops.minimum(ops.cast(rows_T, "int32"), capacity - 1),
            ops.cast(mask_T, "float32")[:, None],
        )

    def pack(self, x_TH: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the rows [C, H] of positions [T, H]."""

        # The gradient of a gather adds up rows that are picked several times. Here none is picked
        # twice, so the gradient is a gather too.
        @ops.custom_gradient
        def gather(x_TH):
            return ops.take(x_TH, self.positions_C, axis=0), self._spread

        return gather(x_TH)

    def unpack(self, x_CH: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the positions [T, H] of rows [C, H]; padding is 0."""

        @ops.custom_gradient
        def gather(x_CH):
            return self._spread(x_CH), self._gather_gradient

        return gather(x_CH)

    def _spread(self, x_CH: keras.KerasTensor) -> keras.KerasTensor:
        x_TH = ops.take(x_CH, self.rows_T, axis=0)
        return x_TH * ops.cast(self.is_token_T1, x_TH.dtype)

    def _gather_gradient(self, upstream_TH: keras.KerasTensor) -> keras.KerasTensor:
        upstream_TH = upstream_TH * ops.cast(self.is_token_T1, upstream_TH.dtype)
        return ops.take(upstream_TH, self.positions_C, axis=0)
