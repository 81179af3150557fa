"""What a student learns from a teacher: its answers, or the relations in its last layer.

The losses of answers and hidden states are those of DistilBERT (Sanh et al. 2019, arXiv 1910.01108,
section 3); those of relations are MiniLMv2's (Wang et al. 2020, arXiv 2012.15828, section 3). No
gradient reaches the teacher.

Shape suffixes: B batch, L sequence length, A relation heads, D width of a relation head, H hidden
size, K predictions, V vocabulary size; R rows for tokens, B * L of them, or fewer without padding.
"""

import math

from keras import ops

from beambert.model.encoder import Encoder
from beambert.model.layers import score_bias
from beambert.model.unpadding import Packing

# The paper's teachers have 48 relation heads for the width 768 and 64 for 1024 (section 4.1).
_RELATION_HEAD_WIDTH = 16


def soft_target_losses(student_KV, teacher_KV, temperature: float):
    """Returns T² times the divergence of the softened distributions, in nats, float32 [K].

    It is the loss of the soft targets without the entropy of the teacher, which teaches nothing: 0
    where both agree. T² keeps the size of its gradients (Hinton et al. 2015, arXiv
    1503.02531, section 2).

    Args:
      student_KV, teacher_KV: float32 logits.
      temperature: T.
    """
    targets_KV, learned_KV = (
        ops.log_softmax(logits_KV / temperature) for logits_KV in (teacher_KV, student_KV)
    )
    return temperature**2 * _divergence(targets_KV, learned_KV)


def cosine_losses(student_RH, teacher_RH):
    """Returns 1 minus the cosine of the angle between hidden states, float32 [R]."""
    student_RH, teacher_RH = (
        ops.normalize(ops.cast(x_RH, "float32"), epsilon=1e-8)
        for x_RH in (student_RH, ops.stop_gradient(teacher_RH))
    )
    return 1.0 - ops.sum(student_RH * teacher_RH, axis=-1)


def relation_heads(student_width: int, teacher_width: int) -> int:
    """Returns the number of heads in which queries, keys and values are compared.

    It is that of the paper for base and large teachers, or the next smaller number that divides
    both widths.
    """
    both = math.gcd(student_width, teacher_width)
    most = max(1, teacher_width // _RELATION_HEAD_WIDTH)
    return max(heads for heads in range(1, most + 1) if both % heads == 0)


def relation_losses(
    student: Encoder, student_RHH, teacher: Encoder, teacher_RHH, mask_BL, packing=None
):
    """Returns the divergence between the relations of two last layers, in nats, float32 [B, L].

    Queries are compared with queries, keys with keys, and values with values; the three divergences
    are added up, each a mean over the relation heads (sections 3.1 and 3.2). The last layer of both
    is taken, as the paper does for base-size teachers.

    Args:
      student, teacher: encoders.
      student_RHH, teacher_RHH: the outputs of their last two layers, side by side.
      mask_BL: integer [B, L], 1 for tokens.
      packing: rows of the tokens without padding; None if padding has rows.
    """
    heads = relation_heads(student.config.hidden_size, teacher.config.hidden_size)
    bias_B11L = score_bias(mask_BL, mask_BL.shape[1])
    losses_BL = 0.0
    for name in ("query", "key", "value"):
        learned_BALL, targets_BALL = (
            _log_relation(_projected(encoder, name, states_RHH), bias_B11L, heads, packing)
            for encoder, states_RHH in ((student, student_RHH), (teacher, teacher_RHH))
        )
        losses_BL = losses_BL + ops.mean(_divergence(targets_BALL, learned_BALL), axis=1)
    return losses_BL


def _projected(encoder: Encoder, name: str, states_RHH):
    """Returns the queries, keys or values of the last layer, which reads the one before it."""
    return encoder.projected(name, states_RHH[:, : encoder.config.hidden_size])


def _log_relation(x_RH, bias_B11L, heads: int, packing: Packing | None):
    """Returns the logarithm of the softmax of vectors' scaled products, float32 [B, A, L, L]."""
    x_TH = packing.unpack(x_RH) if packing else x_RH
    width = x_TH.shape[-1] // heads
    x_BLAD = ops.reshape(x_TH, (-1, bias_B11L.shape[-1], heads, width))
    x_BALD = ops.transpose(x_BLAD, (0, 2, 1, 3))
    products_BALL = ops.matmul(x_BALD, ops.transpose(x_BALD, (0, 1, 3, 2)))
    return ops.log_softmax(ops.cast(products_BALL, "float32") * width**-0.5 + bias_B11L)


def _divergence(targets, learned):
    """Returns the Kullback-Leibler divergence [...] of log-probabilities [..., C]."""
    targets = ops.stop_gradient(targets)
    return ops.sum(ops.exp(targets) * (targets - learned), axis=-1)
