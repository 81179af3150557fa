"""gs:// on this machine: an emulator, and what it takes to have TensorFlow use it.

TensorFlow's file system knows no other host than https://www.googleapis.com, but libcurl beneath it
asks the environment for a proxy and for whom to trust. So here is a proxy that, told to connect to
Google, answers with a certificate of its own and has the emulator serve the request.

The emulator ignores preconditions, refuses empty uploads, knows no layouts and lists everything at
once; that is mended here. It is a process of its own: TensorFlow keeps Python's lock while it reads
a checkpoint.
"""

import contextlib
import datetime
import functools
import io
import json
import os
import pathlib
import re
import socket
import socketserver
import ssl
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from urllib.parse import parse_qs, unquote, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID
from gcp_storage_emulator import server as emulator
from gcp_storage_emulator.exceptions import NotFound
from gcp_storage_emulator.handlers import buckets, objects
from gcp_storage_emulator.handlers.objects import _checksums, _make_object_resource
from gcp_storage_emulator.storage import Storage

HOSTS = ("www.googleapis.com", "storage.googleapis.com", "iamcredentials.googleapis.com")
BUCKET = "bucket"
# Where the server takes what is to become of requests, and says what became of them.
CONTROL = "/control"
# Instead of a status: the connection ends before the request is done, or after it.
CUT, LOST = 0, 1
# https://cloud.google.com/storage/docs/json_api/v1/objects/list
OBJECTS_A_PAGE = 1000


def write_certificate(folder: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """Writes a certificate that says it is Google, and its key."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "storage of the tests")])
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    names = x509.SubjectAlternativeName([x509.DNSName(host) for host in HOSTS])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(encoding))
    (folder / "key.pem").write_bytes(key.private_bytes(encoding, *plain))
    return folder / "certificate.pem", folder / "key.pem"


def write_account(folder: pathlib.Path, server: str) -> pathlib.Path:
    """Writes a service account whose tokens this server gives."""
    account = {
        "type": "service_account",
        "project_id": "project",
        "private_key_id": "1",
        "private_key": (folder / "key.pem").read_text(),
        "client_email": "tests@project.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": f"{server}/token",
    }
    path = folder / "account.json"
    path.write_text(json.dumps(account))
    return path


class Handler(emulator.RequestHandler):
    """The emulator's, one request at a time, with preconditions and empty uploads."""

    lock = threading.Lock()
    # Requests for objects that start so are refused, as a bucket without permission does.
    forbidden = "forbidden/"
    requests = []
    # Whoever sends a request like this pattern waits for its answer until he is killed.
    held = ""
    is_holding = False
    # Requests like this pattern get this status, so many times.
    faulty, status, faults_left = "", 0, 0

    def _handle(self, method: str) -> None:
        if self.headers["Transfer-Encoding"] == "chunked":
            del self.headers["Content-Length"]  # TensorFlow gives both, the emulator takes this one
        if self.headers["Expect"]:
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")  # or it waits for a second
        with self.lock:
            url = urlsplit(self.path)
            if url.path == CONTROL:
                self._control(method)
                return
            self.requests.append(f"{method} {unquote(url.path)}")
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            _, _, name = unquote(url.path).partition("/o/")
            name = name or query.get("name", "") or query.get("prefix", "")
            name = name or self._name_in_body(query)
            request = f"{method} {name}"
            is_held = re.fullmatch(self.held, request)
            is_refused = name.startswith(self.forbidden)
        if is_held:
            Handler.is_holding = True
            # Nothing of the request is done, and the connection stays open.
            threading.Event().wait()
        with self.lock:
            if url.path.endswith("/token"):
                token = b'{"access_token": "a", "token_type": "Bearer", "expires_in": 3600}'
                self._answer(HTTPStatus.OK, token)
            elif url.path.endswith("/storageLayout"):
                self._answer(HTTPStatus.OK, b'{"hierarchicalNamespace": {"enabled": false}}')
            elif is_refused:
                self._answer(HTTPStatus.FORBIDDEN)
            elif self.faults_left and re.fullmatch(self.faulty, request):
                Handler.faults_left -= 1
                self._fail(method)
            elif not self._holds(unquote(url.path), name, query):
                self._answer(HTTPStatus.PRECONDITION_FAILED)
            elif query.get("uploadType") == "media" and self.headers["Content-Length"] == "0":
                self._make_empty(name)
            elif method == "GET" and url.path.endswith("/o") and "matchGlob" not in query:
                self._list(url.path.partition("/b/")[2].partition("/")[0], query)
            else:
                emulator.Router(self).handle(method)

    def _fail(self, method: str) -> None:
        if self.status not in (CUT, LOST):
            self._answer(self.status)
            return
        connection, self.close_connection = self.connection, True
        if self.status == LOST:
            self.wfile = io.BytesIO()
            emulator.Router(self).handle(method)
        connection.shutdown(socket.SHUT_RDWR)

    def _control(self, method: str) -> None:
        """Takes attributes of this class, or says what they are; the requests are said once."""
        if method == "PUT":
            given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            for name, value in given.items():
                setattr(Handler, name, value)
        known = {name: getattr(Handler, name) for name in ("is_holding", "faults_left", "requests")}
        self._answer(HTTPStatus.OK, json.dumps(known).encode())
        if method == "GET":
            self.requests.clear()

    def _list(self, bucket: str, query: dict[str, str]) -> None:
        """Objects come a thousand at a time."""
        try:
            found = self.storage.get_file_list(bucket, query.get("prefix"), query.get("delimiter"))
        except NotFound:
            self._answer(HTTPStatus.NOT_FOUND)
            return
        objects, folders = found
        first = int(query.get("pageToken", 0))
        last = first + min(int(query.get("maxResults", OBJECTS_A_PAGE)), OBJECTS_A_PAGE)
        answer = {"kind": "storage#objects", "items": objects[first:last]}
        answer["prefixes"] = [] if first else folders
        if last < len(objects):
            answer["nextPageToken"] = str(last)
        self._answer(HTTPStatus.OK, json.dumps(answer).encode())

    def _name_in_body(self, query: dict[str, str]) -> str:
        """The name of an object whose upload begins; the body is there to be read again."""
        if query.get("uploadType") not in ("multipart", "resumable") or "upload_id" in query:
            return ""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.rfile = io.BytesIO(body)
        found = re.search(rb'"name": "([^"]+)"', body)
        return found[1].decode() if found else ""

    def _holds(self, path: str, name: str, query: dict[str, str]) -> bool:
        """Whether the object is of the generation that the request is about."""
        expected = query.get("ifGenerationMatch")
        if expected is None or "upload_id" in query:
            return True
        try:
            bucket = path.partition("/b/")[2].partition("/")[0]
            return self.storage.get_file_obj(bucket, name)["generation"] == expected
        except NotFound:
            return expected == "0"

    def _make_empty(self, name: str) -> None:
        bucket = self.path.partition("/b/")[2].partition("/")[0]
        host = f"http://{self.headers['Host']}"
        resource = _make_object_resource(host, bucket, name, "", "0")
        self.storage.create_file(bucket, name, b"", _checksums(b"", resource))
        self._answer(HTTPStatus.OK)

    def _answer(self, status: HTTPStatus, body: bytes = b"{}") -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = functools.partialmethod(_handle, "GET")
    do_POST = functools.partialmethod(_handle, "POST")
    do_PUT = functools.partialmethod(_handle, "PUT")
    do_DELETE = functools.partialmethod(_handle, "DELETE")
    do_PATCH = functools.partialmethod(_handle, "PATCH")


class Server(socketserver.ThreadingTCPServer):
    """Serves plain requests, and CONNECT by ending TLS itself."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, storage: Storage, context: ssl.SSLContext | None):
        super().__init__(("127.0.0.1", 0), None)
        self._storage = storage
        self._context = context

    def finish_request(self, request, address) -> None:
        with contextlib.suppress(OSError):  # clients may leave
            self._serve(request, address)

    def _serve(self, request, address) -> None:
        if self._context is not None:
            with request.makefile("rb") as lines:
                while lines.readline().strip():  # CONNECT and its headers
                    pass
            request.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
            request = _Secure(self._context.wrap_socket(request, server_side=True))
        Handler(self._storage, request, address, self)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Secure:
    """A TLS socket whose answers say https where the emulator says http."""

    def __init__(self, connection: ssl.SSLSocket):
        self._connection = connection

    def __getattr__(self, name):
        return getattr(self._connection, name)

    def sendall(self, data: bytes) -> None:
        self._connection.sendall(bytes(data).replace(b"Location: http:", b"Location: https:"))


def serve(folder: pathlib.Path) -> None:
    """Serves gs://bucket until the process is killed; prints the environment that clients need."""
    storage = Storage(use_memory_fs=True)
    # It writes the list of all objects at each change, which nobody reads.
    storage._write_config_to_file = lambda: None
    buckets.create_bucket(BUCKET, storage)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate, key = write_certificate(folder)
    context.load_cert_chain(certificate, key)
    plain, secure = Server(storage, None), Server(storage, context)
    # Where objects may be downloaded, also those that TensorFlow has sent as to Google.
    objects._make_object_resource = lambda _, *given, **named: _make_object_resource(
        plain.address, *given, **named
    )
    threading.Thread(target=plain.serve_forever, daemon=True).start()
    environment = {
        "STORAGE_EMULATOR_HOST": plain.address,
        "https_proxy": secure.address,
        "CURL_CA_BUNDLE": str(certificate),
        "REQUESTS_CA_BUNDLE": str(certificate),
        # Else Google's libraries look for an account for many seconds.
        "GOOGLE_APPLICATION_CREDENTIALS": str(write_account(folder, plain.address)),
        "GCS_RETRY_CONFIG_MAX_RETRIES": "1",
    }
    print(json.dumps(environment), flush=True)
    secure.serve_forever()


def _control(**given: object) -> dict:
    """Sets attributes of the server's `Handler`, and returns what it says; for users of `gs`."""
    address = os.environ["STORAGE_EMULATOR_HOST"] + CONTROL
    body, method = (json.dumps(given).encode(), "PUT") if given else (None, "GET")
    with urllib.request.urlopen(urllib.request.Request(address, body, method=method)) as answer:
        return json.loads(answer.read())


def requests_made() -> list[str]:
    """The requests since the last call, such as GET /storage/v1/b/bucket/o."""
    return _control()["requests"]


def hold(pattern: str) -> None:
    """Leaves requests like "POST name/of/object" without an answer; "" answers all new ones."""
    _control(held=pattern, is_holding=False)


def is_holding() -> bool:
    """Returns whether a request has come that is held."""
    return _control()["is_holding"]


def refuse(pattern: str) -> None:
    """Forbids requests like "POST name/of/object" from now on; "" allows all again."""
    fail(pattern, HTTPStatus.FORBIDDEN, 1_000_000 if pattern else 0)


def fail(pattern: str, status: int, times: int) -> None:
    """Answers requests like "POST name/of/object" with a status, so many times; 0 ends it.

    The status may be `CUT` or `LOST`.
    """
    _control(faulty=pattern, status=status, faults_left=times)


@contextlib.contextmanager
def emulated_storage(folder: pathlib.Path) -> Iterator[dict[str, str]]:
    """Serves gs://bucket.

    Args:
      folder: for the certificate.

    Yields:
      the environment that Google's client, Beam and TensorFlow need.
    """
    server = subprocess.Popen(
        [sys.executable, __file__, str(folder)], stdout=subprocess.PIPE, text=True
    )
    try:
        yield json.loads(server.stdout.readline())
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


if __name__ == "__main__":
    serve(pathlib.Path(sys.argv[1]))
