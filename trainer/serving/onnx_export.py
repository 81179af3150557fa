"""Models -> ONNX graphs on ids, which onnxruntime runs without TensorFlow."""

import math
import os
import pathlib
import shutil
import tempfile
from typing import Any

import keras
import tensorflow as tf

from beambert import io, process
from beambert.console import size
from beambert.errors import InputError
from beambert.model_files import LABELS_FILE, ONNX_FILE, PRETRAINING
from beambert.pipelines.tasks.saved_models import ID_INPUTS
from beambert.trainer import model_folders
from beambert.trainer.models import pretrained_model, task_model
from beambert.trainer.tasks.base import objective_of_kind
from beambert.trainer.weights.export import new_folder
from beambert.trainer.weights.tokenizer_files import exported_files

# The version of ONNX's operators: the newest that tf2onnx 1.17 writes.
OPSET = 18
# The greatest size of a graph that TensorFlow and tf2onnx hand over: that of a message of protobuf.
MOST_BYTES = 2**31 - 1
# The graphs on the disk while weights are rounded: as it was, optimized, with shapes, and rounded.
_TEMPORARY_GRAPHS = 4


def export_onnx(model_dir: str, output: str, int8: bool = False) -> None:
    """Writes a folder with the ONNX graph of a model, its tokenizer and its labels.

    The graph takes `input_ids`, `input_mask` and `segment_ids`, int32 [n, L], where L is the length
    that the model was trained on. A fine-tuned model returns `logits`, float32: [n, labels], for a
    tagging [n, L, labels], for a span [n, L, 2]; for a choice [n, 1], a row for each ending. An
    embedding or a similarity returns `embedding`, float32 [n, H], and an encoder
    `sequence_output`, float32 [n, L, H]. Late interaction returns `embeddings`, float32 [n, L, D];
    its caller frames queries and documents, see `InteractionFeatures`.

    Args:
      model_dir: folder of an encoder or a fine-tuned model.
      output: folder to make.
      int8: whether the weights of matrices are rounded to 8 bits, see `int8_of`.

    Raises:
      InputError: the model cannot be used, tf2onnx is not installed or cannot convert the model, or
        the output exists already.
    """
    io.check_new(output.rstrip("/"))
    found = model_folders.open_model(model_dir, "--model")
    if "windows" in found.training:
        raise InputError(
            f"--model={model_dir}: reads long texts in windows, which no graph of one length does; "
            "export it as a SavedModel"
        )
    if found.training["kind"] == PRETRAINING:
        model, name = pretrained_model(found).encoder, "sequence_output"
    else:
        model = task_model(found)
        name = objective_of_kind(found.training["kind"]).ONNX_OUTPUT
    data = onnx_of(model, found.training["max_seq_length"], name)
    if int8:
        data = int8_of(data)

    with new_folder(output) as folder:
        io.write_bytes(f"{folder}/{ONNX_FILE}", data)
        for file, content in exported_files(found).items():
            io.write_bytes(f"{folder}/{file}", content)
        if labels := found.training.get("labels"):
            lines = "".join(f"{label}\n" for label in labels)
            io.write_bytes(f"{folder}/{LABELS_FILE}", lines.encode())


def onnx_of(model: keras.Model, length: int, output: str) -> bytes:
    """Returns the ONNX graph of a model for sequences of a length.

    Args:
      model: an encoder, or a model of a task.
      length: number of tokens of a sequence.
      output: name of the output.

    Raises:
      InputError: tf2onnx is not installed, or it cannot convert the model, such as a too large one.
    """
    if (of_weights := sum(4 * math.prod(weight.shape) for weight in model.weights)) > MOST_BYTES:
        raise InputError(
            f"--to=onnx: the weights take {size(of_weights)}, and a graph has {size(MOST_BYTES)} "
            "at most; export the model as a SavedModel"
        )
    try:
        import tf2onnx
    except ImportError as error:
        raise _lacks("tf2onnx") from error
    signature = [tf.TensorSpec([None, length], tf.int32, name=name) for name in ID_INPUTS]

    def answer(*ids: tf.Tensor) -> dict[str, Any]:
        features = dict(zip(ID_INPUTS, ids, strict=True))
        if output == "sequence_output":
            return {output: model(**features)[0]}
        return {output: model(features)}

    function = tf.function(answer, input_signature=signature, autograph=False)
    try:
        converted, _ = tf2onnx.convert.from_function(
            function, input_signature=signature, opset=OPSET
        )
    except (ValueError, RuntimeError, NotImplementedError, KeyError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise InputError(
            f"--to=onnx: tf2onnx cannot convert the model ({reason}); export it as a SavedModel"
        ) from error
    return converted.SerializeToString()


def int8_of(data: bytes) -> bytes:
    """Returns an ONNX graph with matrices and embeddings of 8 bits.

    It is onnxruntime's dynamic quantization: each column of a matrix has a scale of its own, and
    that of what the matrix is multiplied by is found while the graph runs. Matrices that stand in
    stacks, one for each head, keep 32 bits.

    Args:
      data: graph of `onnx_of`.

    Raises:
      InputError: onnxruntime is not installed, or there is no room for temporary files.
    """
    # Without this, onnxruntime 1.32 tells its makers of each use.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        import onnx
        from onnxruntime.quantization import quantize_dynamic
        from onnxruntime.quantization.shape_inference import quant_pre_process
    except ImportError as error:
        raise _lacks("onnxruntime") from error
    with tempfile.TemporaryDirectory() as folder:
        _check_room(folder, _TEMPORARY_GRAPHS * len(data))
        exact, prepared, rounded = (pathlib.Path(folder, f"{step}.onnx") for step in range(3))
        exact.write_bytes(data)
        # All lengths but that of the batch are known, so that no symbols are needed.
        quant_pre_process(exact, prepared, skip_symbolic_shape=True)
        left_out = _stacked_products(onnx.load(prepared))
        quantize_dynamic(prepared, rounded, per_channel=True, nodes_to_exclude=left_out)
        return rounded.read_bytes()


def _check_room(folder: str, needed: int) -> None:
    if (free := shutil.disk_usage(folder).free) < needed:
        raise InputError(
            f"--int8: needs {size(needed)} for temporary files, and {size(free)} are free; "
            f"{process.more_space()}"
        )


def _stacked_products(graph: Any) -> list[str]:
    """Returns the names of a graph's products with a matrix for each head, as DeBERTa's positions.

    onnxruntime doesn't run these with a scale for each column.
    """
    stacked = {weight.name for weight in graph.graph.initializer if len(weight.dims) > 2}
    products = (node for node in graph.graph.node if node.op_type == "MatMul")
    return [node.name for node in products if node.input[1] in stacked]


def _lacks(package: str) -> InputError:
    return InputError(
        f"--to=onnx: needs the package {package}; install it with `pip install -e '.[onnx]'`"
    )
