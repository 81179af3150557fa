"""What a student learns from a teacher: its answers and its hidden states.

The losses are those of DistilBERT (Sanh et al. 2019, arXiv 1910.01108, section 3). No gradient
reaches the teacher.

Shape suffixes: H hidden size, K predictions, V vocabulary size; R rows for tokens.
"""

from keras import ops


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


def _divergence(targets, learned):
    """Returns the Kullback-Leibler divergence [...] of log-probabilities [..., C]."""
    targets = ops.stop_gradient(targets)
    return ops.sum(ops.exp(targets) * (targets - learned), axis=-1)
