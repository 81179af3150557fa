"""Which weights a model folder holds: what tells an evaluated model from a later one."""

import hashlib

# Keras's weights, and those of the SavedModel.
_PATTERNS = ("model.weights.h5", "saved_model/variables/*.data-*", "variables/*.data-*")
_BYTES_AT_A_TIME = 1 << 24


def weights_sha256(folder: str) -> str:
    """Returns the SHA-256 of a model folder's weights, on any file system TensorFlow knows."""
    import tensorflow as tf

    digest = hashlib.sha256()
    for pattern in _PATTERNS:
        for path in sorted(tf.io.gfile.glob(f"{folder.rstrip('/')}/{pattern}")):
            with tf.io.gfile.GFile(path, "rb") as file:
                while chunk := file.read(_BYTES_AT_A_TIME):
                    digest.update(chunk)
    return digest.hexdigest()
