"""Google's services on this machine: real clients talk to a server that checks what they send.

Each request is decoded with the message of its protocol and compared with what the published
documentation of its fields says, as the client libraries ship it.
"""

import re
from collections.abc import Callable
from concurrent import futures
from typing import Any

import grpc
import proto
from google.cloud import aiplatform_v1, dataflow_v1beta3

PACKAGES = {
    "google.cloud.aiplatform.v1": aiplatform_v1,
    "google.dataflow.v1beta3": dataflow_v1beta3,
}
# https://cloud.google.com/compute/docs/labeling-resources#requirements
LABEL_KEY, LABEL_VALUE = r"[a-z][a-z0-9_-]{0,62}", r"[a-z0-9_-]{0,63}"
# https://cloud.google.com/artifact-registry/docs/docker/names
IMAGE = (
    r"[a-z0-9-]+-docker\.pkg\.dev/[a-z0-9-]+/[a-z0-9-]+/[a-z0-9-]+(@sha256:[0-9a-f]{64}|:[\w.-]+)"
)
PATTERNS = {
    "parent": r"projects/[^/ ]+/locations/[^/ ]+(/models/\w+(@\w+)?)?",
    "display_name": r"[^\n]{1,128}",
    "image_uri": IMAGE,
    "service_account": r"[a-z0-9-]{6,30}@[a-z0-9-]+\.iam\.gserviceaccount\.com",
    "output_uri_prefix": r"gs://[a-z0-9-]+/\S+",
    "tensorboard": r"projects/[^/ ]+/locations/[^/ ]+/tensorboards/[^/ ]+",
    "gcs_output_directory": r"gs://[a-z0-9-]+/\S+",
    "artifact_uri": r"gs://[a-z0-9-]+/\S+",
    # https://cloud.google.com/vertex-ai/docs/model-registry/model-alias
    "version_aliases": r"[a-z][a-zA-Z0-9-]{0,126}[a-z0-9]",
    "cron": r"(TZ=\S+ )?(\S+ ){4}\S+",
}


def documentation(message: type[proto.Message]) -> dict[str, str]:
    """Returns the documentation of a message's fields by name."""
    text = (message.__doc__ or "").partition("Attributes:\n")[2]
    found = re.split(r"^ {8}(\w+) \([^\n]*?(?:\n {12}[^\n]*?)?\):\n", text, flags=re.MULTILINE)
    return dict(zip(found[1::2], map(str.strip, found[2::2]), strict=True))


def faults(message: proto.Message, path: str = "") -> list[str]:
    """Returns what the documentation of the fields doesn't allow in a message.

    Fields and enumerators that the protocol lacks are refused before, when the message is made.
    """
    found, told = [], documentation(type(message))
    for name in type(message).meta.fields:
        where, value = f"{path}.{name}".lstrip("."), getattr(message, name)
        is_set = name in message
        text = told.get(name, "")
        if text.startswith("Required.") and not is_set:
            found.append(f"{where}: is required")
        if not is_set:
            continue
        # The name of what is updated is given, although it can't be changed.
        if text.startswith("Output only.") and not (name == "name" and path == "endpoint"):
            found.append(f"{where}: is output only")
        values = list(value) if isinstance(value, list | tuple) or _is_repeated(value) else [value]
        for each in values:
            if isinstance(each, proto.Message):
                found += faults(each, where)
            elif name in PATTERNS and not re.fullmatch(PATTERNS[name], str(each)):
                found.append(f"{where}: {each!r} isn't {PATTERNS[name]}")
        if name.endswith("labels"):
            found += [f"{where}: key {k!r}" for k in value if not re.fullmatch(LABEL_KEY, k)]
            found += [f"{where}: {v!r}" for v in value.values() if not re.fullmatch(LABEL_VALUE, v)]
    return found


def _is_repeated(value: Any) -> bool:
    return type(value).__name__ in ("Repeated", "RepeatedComposite")


def client_at(port: int, client: type) -> Any:
    """Returns a client of a server that another process may have."""
    # The emulator of gs:// sets a proxy for TensorFlow.
    options = [("grpc.enable_http_proxy", 0)]
    channel = grpc.insecure_channel(f"localhost:{port}", options)
    return client(transport=client.get_transport_class("grpc")(channel=channel))


class Services(grpc.GenericRpcHandler):
    """Answers requests from a table, and keeps them.

    Attributes:
      requests: (name of the method, request) in the order in which they came.
      answers: name of a method -> its answer, an exception's status, or a function of the request.
      port: number of the port on this machine.
    """

    def __init__(self):
        self.requests: list[tuple[str, proto.Message]] = []
        self.answers: dict[str, Any] = {}
        self._server = grpc.server(futures.ThreadPoolExecutor(2), (self,))
        self.port = self._server.add_insecure_port("localhost:0")
        self._server.start()

    def client(self, client: type) -> Any:
        """Returns a client of this server."""
        return client_at(self.port, client)

    def sent(self, method: str) -> list[proto.Message]:
        """Returns the requests of a method."""
        return [request for name, request in self.requests if name == method]

    def stop(self) -> None:
        self._server.stop(None)

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        service, _, method = details.method.lstrip("/").partition("/")
        package = PACKAGES[service.rpartition(".")[0]]
        request_type = getattr(package, f"{method}Request")
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: self._answer(method, request, context),
            request_deserializer=request_type.deserialize,
            response_serializer=_serialize,
        )

    def _answer(self, method: str, request: proto.Message, context: grpc.ServicerContext) -> Any:
        self.requests.append((method, request))
        if wrong := faults(request):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "; ".join(wrong))
        answer = self.answers[method]
        if isinstance(answer, Callable):
            answer = answer(request)
        if isinstance(answer, grpc.StatusCode):
            context.abort(answer, "refused by the test")
        return answer


def _serialize(message: Any) -> bytes:
    if isinstance(message, proto.Message):
        return type(message).serialize(message)
    return message.SerializeToString()


def done(result: proto.Message) -> Any:
    """Returns the finished operation of a request that takes its time."""
    return _done(type(result).pb(result))


def done_with_nothing() -> Any:
    """Returns the finished operation of a request that has no result."""
    from google.protobuf import empty_pb2

    return _done(empty_pb2.Empty())


def _done(response: Any) -> Any:
    from google.longrunning import operations_pb2

    operation = operations_pb2.Operation(name="projects/p/locations/r/operations/1", done=True)
    operation.response.Pack(response)
    return operation
