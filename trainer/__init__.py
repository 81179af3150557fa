"""Pre-training, fine-tuning and export of encoders with Keras, by TensorFlow or by JAX."""

import importlib.util
import os

# Keras takes TensorFlow unless it is told otherwise before its import.
if importlib.util.find_spec("tensorflow") is None:
    os.environ.setdefault("KERAS_BACKEND", "jax")
