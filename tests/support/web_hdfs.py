"""A name node of HDFS and its data node, as far as the REST interface WebHDFS shows them.

https://hadoop.apache.org/docs/stable/hadoop-project-dist/hadoop-hdfs/WebHDFS.html has the requests
and answers. As there, a file that exists is not created again, a name that is taken is refused by
answering false, and contents come from another address than the one that is asked for them.
"""

import contextlib
import http.server
import json
import posixpath
import threading
import time
from collections.abc import Iterator
from http import HTTPStatus
from urllib.parse import parse_qs, unquote, urlsplit

PREFIX = "/webhdfs/v1"
# An argument that the name node adds to the address of the data node.
OF_DATA_NODE = "datanode"


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers the requests about the files of its server."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_) -> None:
        pass

    def _handle(self) -> None:
        url = urlsplit(self.path)
        arguments = {name.lower(): each[0] for name, each in parse_qs(url.query).items()}
        path = posixpath.normpath(unquote(url.path.removeprefix(PREFIX)) or "/")
        body, failing = self._body(), self.server.failing
        with self.server.lock:
            if failing and any(part in path for part in failing):
                self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "IOException", "a disk is broken")
                return
            getattr(self, f"_{arguments['op'].lower()}")(path, arguments, body)

    do_GET = do_PUT = do_POST = do_DELETE = _handle

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        chunks = []
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _status_of(self, path: str, name: str = "") -> dict:
        content, changed = self.server.files[path]
        kind = "DIRECTORY" if content is None else "FILE"
        return {"pathSuffix": name, "type": kind, "length": len(content or b"")} | {
            "modificationTime": changed,
            "accessTime": changed,
            "owner": "somebody",
            "group": "everybody",
            "permission": "755",
            "blockSize": 1 << 27,
            "replication": 1,
        }

    def _getfilestatus(self, path: str, *_) -> None:
        if self._is_there(path):
            self._answer({"FileStatus": self._status_of(path)})

    def _liststatus(self, path: str, *_) -> None:
        if not self._is_there(path):
            return
        inside = path.rstrip("/") + "/"
        names = [file.removeprefix(inside) for file in self.server.files if file.startswith(inside)]
        found = [self._status_of(inside + name, name) for name in names if name and "/" not in name]
        found = found or ([] if self.server.files[path][0] is None else [self._status_of(path)])
        self._answer({"FileStatuses": {"FileStatus": found}})

    def _mkdirs(self, path: str, *_) -> None:
        self.server.make_folder(path)
        self._answer({"boolean": True})

    def _open(self, path: str, arguments: dict, _: bytes) -> None:
        if not self._is_there(path) or self._is_sent_on(arguments):
            return
        start = int(arguments.get("offset", 0))
        content = self.server.files[path][0][start:]
        self._send(HTTPStatus.OK, content[: int(arguments.get("length", len(content)))])

    def _create(self, path: str, arguments: dict, body: bytes) -> None:
        if path in self.server.files and arguments.get("overwrite") != "true":
            why = f"{path} for client 127.0.0.1 already exists"
            self._refuse(HTTPStatus.FORBIDDEN, "FileAlreadyExistsException", why)
        elif not self._is_sent_on(arguments):
            self.server.put(path, body)
            self._send(HTTPStatus.CREATED, b"")

    def _append(self, path: str, arguments: dict, body: bytes) -> None:
        if self._is_there(path) and not self._is_sent_on(arguments):
            self.server.put(path, self.server.files[path][0] + body)
            self._send(HTTPStatus.OK, b"")

    def _rename(self, path: str, arguments: dict, _: bytes) -> None:
        files, new = self.server.files, arguments["destination"]
        done = path in files and new not in files and posixpath.dirname(new) in files
        if done:
            files[new] = files.pop(path)
        self._answer({"boolean": done})

    def _delete(self, path: str, *_) -> None:
        gone = [file for file in self.server.files if file == path or file.startswith(path + "/")]
        for each in gone:
            del self.server.files[each]
        self._answer({"boolean": bool(gone)})

    def _is_there(self, path: str) -> bool:
        if path in self.server.files:
            return True
        why = f"File does not exist: {path}"
        self._refuse(HTTPStatus.NOT_FOUND, "FileNotFoundException", why)
        return False

    def _is_sent_on(self, arguments: dict) -> bool:
        if OF_DATA_NODE in arguments:
            return False
        host = self.headers["Host"]
        self.send_response(HTTPStatus.TEMPORARY_REDIRECT)
        self.send_header("Location", f"http://{host}{self.path}&{OF_DATA_NODE}=1")
        self.send_header("Content-Length", "0")
        self.end_headers()
        return True

    def _refuse(self, status: HTTPStatus, kind: str, message: str) -> None:
        told = {"exception": kind, "javaClassName": f"java.io.{kind}", "message": message}
        self._send(status, json.dumps({"RemoteException": told}).encode(), "application/json")

    def _answer(self, answer: dict) -> None:
        self._send(HTTPStatus.OK, json.dumps(answer).encode(), "application/json")

    def _send(self, status: HTTPStatus, body: bytes, kind: str = "application/octet-stream"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(http.server.ThreadingHTTPServer):
    """Holds the files.

    Attributes:
      files: path -> content, which is None for a folder, and time of the last change in ms.
      failing: parts of paths about which each request fails.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, tuple[bytes | None, int]] = {}
        self.failing: list[str] = []
        self.lock = threading.Lock()
        self.make_folder("/")

    def make_folder(self, path: str) -> None:
        """Makes a folder and those around it."""
        while path not in self.files:
            self.files[path] = (None, int(1000 * time.time()))
            path = posixpath.dirname(path)

    def put(self, path: str, content: bytes) -> None:
        """Writes a file."""
        self.make_folder(posixpath.dirname(path))
        self.files[path] = (content, int(1000 * time.time()))


@contextlib.contextmanager
def served() -> Iterator[Server]:
    """Serves an empty HDFS while the body runs."""
    server = Server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
