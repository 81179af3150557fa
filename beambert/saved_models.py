"""Loads and calls SavedModels, after a check that their graph does nothing but compute.

A SavedModel is a program: its operations read and write files if its author wants it. So the graph
is read as data first. It may have the operations of the graphs that `beambert finetune` and
`export` write, and no others. Importing this module does not load TensorFlow.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from beambert import io, process
from beambert.errors import InputError
from beambert.model_files import GRAPH_FILE

FINGERPRINT_FILE = "fingerprint.pb"
# TensorFlow reads no protocol buffer of more bytes.
_MOST_BYTES_OF_GRAPH = (1 << 31) - 1
# The operations of the graphs that `trainer.serving` makes, for all kinds of tasks and activations,
# in float32 and bfloat16, and of simple functions of text like them. Each computes its outputs from
# its inputs and the model's variables and does nothing else.
_KNOWN = """
    Add AddV2 All Any ArgMax AsString Assert BatchMatMulV2 BiasAdd BroadcastTo Cast ConcatV2
    Const Cumsum DenseBincount DisableCopyOnRead Einsum Equal Erf Exp ExpandDims
    FastWordpieceTokenizeWithOffsets Fill FloorDiv FloorMod GatherV2 Greater GreaterEqual
    Identity IdentityN If Less LessEqual Log Log1p LogicalAnd LogicalNot LowerBound MatMul Max
    Maximum Mean Minimum Mul Neg NoOp NormalizeUTF8 NotEqual OneHot Pack Pad PartitionedCall
    Placeholder Pow Prod RaggedGather RaggedRange RaggedTensorFromVariant RaggedTensorToTensor
    RaggedTensorToVariant Range ReadVariableOp RealDiv Relu Reshape ReverseV2 Rsqrt SegmentMax
    SegmentMin SegmentSum Select SelectV2 Shape Sigmoid Size Softmax Split Sqrt Square
    SquaredDifference Squeeze StatefulPartitionedCall StatelessIf StatelessWhile
    StaticRegexFullMatch StaticRegexReplace StopGradient StridedSlice StringJoin StringLength
    StringLower StringSplitV2 Sub Substr Sum Tanh TensorListFromTensor TensorListGetItem
    TensorListReserve TensorListSetItem TensorListStack Tile TopKV2 Transpose UnicodeDecode
    UnicodeEncode UnicodeTranscode Unique Unpack UnsortedSegmentSum VarHandleOp
    VarIsInitializedOp Where While XlaDynamicUpdateSlice ZerosLike
"""
KNOWN = frozenset(_KNOWN.split())
# The operations by which a SavedModel saves and restores its variables. They write and read any
# file, so no function that a caller can reach may have them.
SAVERS = frozenset(
    ("AssignVariableOp", "MergeV2Checkpoints", "RestoreV2", "SaveV2", "ShardedFilename")
)
# The objects that these graphs hold. An asset is a file that the graph reads.
_OBJECTS = frozenset(
    ("bare_concrete_function", "captured_tensor", "constant", "function", "user_object", "variable")
)


def check_graph(saved_model: Any, name: str) -> None:
    """Refuses a SavedModel with an operation that the graphs of this project don't have.

    Args:
      saved_model: the content of saved_model.pb, a `SavedModel` of TensorFlow.
      name: flag and path of the model, for messages.

    Raises:
      InputError: the graph has such an operation, reads files or has another form.
    """
    if len(saved_model.meta_graphs) != 1 or not saved_model.meta_graphs[0].object_graph_def.nodes:
        raise _refusal(name, "is a SavedModel of another form than those of `beambert finetune`")
    graph = saved_model.meta_graphs[0]
    library = graph.graph_def.library.function
    functions = {each.signature.name: each.node_def for each in library}
    if len(functions) < len(library):
        raise _refusal(name, "has two functions of one name, as no graph of this project has")
    strange = {node.op for nodes in functions.values() for node in nodes} - KNOWN - SAVERS
    strange |= {node.op for node in graph.graph_def.node} - KNOWN - SAVERS
    # A caller can reach the functions of the objects. The others save and restore.
    reached = _reachable(functions, graph.object_graph_def.concrete_functions)
    strange |= {node.op for each in reached for node in functions[each]} & SAVERS
    if strange:
        names = ", ".join(sorted(strange)[:5])
        raise _refusal(name, f"its graph has operations of no graph of this project ({names})")
    kinds = {node.WhichOneof("kind") for node in graph.object_graph_def.nodes}
    if graph.asset_file_def or not kinds <= _OBJECTS:
        raise _refusal(name, "its graph reads files, as no graph of this project does")


def _reachable(functions: dict[str, Any], roots: Iterable[str]) -> set[str]:
    """Returns the names of all functions that the roots call, themselves included."""
    found: set[str] = set()
    waiting = [name for name in roots if name in functions]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            called = (each for node in functions[name] for each in _called(node.attr.values()))
            waiting += [each for each in called if each in functions]
    return found


def _called(attributes: Iterable[Any]) -> Iterator[str]:
    for value in attributes:
        for function in (value.func, *value.list.func):
            yield function.name
            yield from _called(function.attr.values())


def _refusal(name: str, reason: str) -> InputError:
    return InputError(
        f"{name}: {reason}; a SavedModel is a program, so give --trust_model only if you trust "
        "its author"
    )


def read_graph(path: str) -> Any:
    """Returns the content of a SavedModel's saved_model.pb, and runs nothing of it.

    Its fingerprint is looked at, too: of one that is damaged TensorFlow logs a traceback.

    Args:
      path: path of the SavedModel's folder, on any file system of TensorFlow.

    Raises:
      InputError: a file cannot be read, or is damaged.
    """
    from google.protobuf.message import DecodeError

    with process.loading():
        from tensorflow.core.protobuf import fingerprint_pb2, saved_model_pb2

    file = f"{path}/{FINGERPRINT_FILE}"
    try:
        if io.exists(file):
            fingerprint_pb2.FingerprintDef.FromString(io.read_bytes(file))
        file = f"{path}/{GRAPH_FILE}"
        graph = saved_model_pb2.SavedModel.FromString(
            io.read_bytes(file, most=_MOST_BYTES_OF_GRAPH)
        )
    except DecodeError as error:
        raise InputError(f"{file}: is damaged; export the model again") from error
    if not graph.meta_graphs:
        raise InputError(f"{file}: is damaged; export the model again")
    return graph


def load(path: str, name: str, is_trusted: bool = False) -> Any:
    """Loads a SavedModel whose graph is like those of this project.

    Args:
      path: path of its folder, on any file system of TensorFlow.
      name: flag and path of the model, for messages.
      is_trusted: whether the graph may do whatever it does, see `check_graph`.

    Raises:
      InputError: the model cannot be loaded, or its graph is not known.
    """
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  (registers the tokenizer's operations)

    graph = read_graph(path)
    if not is_trusted:
        check_graph(graph, name)
    with _loading(name):
        return tf.saved_model.load(path)


def check_weights(path: str, name: str) -> None:
    """Refuses a SavedModel with a weight that is not a finite number.

    It reads all weights, so it is for the command, and not for each of its workers.

    Raises:
      InputError: there is such a weight, or the weights cannot be read.
    """
    with _loading(name):
        for variable, value in variables(path):
            if not np.isfinite(value).all():
                raise ValueError(f"{variable} has weights that are no finite numbers")


@contextlib.contextmanager
def _loading(name: str) -> Iterator[None]:
    """Turns errors about a model's files into an `InputError`."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # A damaged file may raise any exception.
        if isinstance(error, OSError) and error.errno in process.FULL:
            raise  # It is the temporary folder that is full.
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(
            f"{name}: cannot be loaded ({reason}); copy it again, or export it again"
        ) from error


def variables(path: str) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the name and value of each floating-point variable of a SavedModel.

    Raises:
      InputError: a file of the variables is no regular file.
    """
    import tensorflow as tf

    prefix = f"{path}/variables/variables"
    files = io.match_in(f"{path}/variables", "variables.*")
    if not files:  # a graph without variables
        return
    for file in files:
        io.check_regular(file)
    reader = tf.train.load_checkpoint(prefix)
    for name, dtype in reader.get_variable_to_dtype_map().items():
        if dtype.is_floating:
            yield name, reader.get_tensor(name)


def call(
    model: Any, inputs: Mapping[str, np.ndarray | Sequence[Any]], signature: str = "serving_default"
) -> dict[str, np.ndarray]:
    """Returns the outputs of a loaded SavedModel for a batch, by their names.

    Args:
      model: the loaded model, see `load`.
      inputs: the batch, by the names of the signature's inputs.
      signature: name of the signature to call.
    """
    import tensorflow as tf

    given = {name: tf.constant(values) for name, values in inputs.items()}
    outputs = model.signatures[signature](**given)
    return {name: tensor.numpy() for name, tensor in outputs.items()}


def call_on_texts(
    model: Any, texts: Sequence[Mapping[str, str | Sequence[str]]]
) -> dict[str, np.ndarray]:
    """Returns the outputs for a batch of texts, each given by the names of the model's inputs."""
    return call(model, {name: [one[name] for one in texts] for name in texts[0]})
