"""A name node of HDFS and its data node, as far as the REST interface WebHDFS shows them.

https://hadoop.apache.org/docs/stable/hadoop-project-dist/hadoop-hdfs/WebHDFS.html has the requests
and answers. As there, a file that exists is not created again, a name that is taken is refused by
answering false, and contents come from another address than the one that is asked for them.
"""

import contextlib
import json
import posixpath
import threading
import time
from collections.abc import Iterator
from http import HTTPStatus

from werkzeug.serving import make_server
from werkzeug.wrappers import Request, Response

PREFIX = "/webhdfs/v1"


class Server:
    """Holds the files.

    Attributes:
      files: path -> content, which is None for a folder, and time of the last change in ms.
      failing: parts of paths about which each request fails.
    """

    def __init__(self) -> None:
        self.files: dict[str, tuple[bytes | None, int]] = {}
        self.failing: list[str] = []
        self._lock = threading.Lock()
        self._mkdirs("/")

    def __call__(self, environment, start_response):
        """Answers a request, by the method of its operation."""
        request = Request(environment)
        path = posixpath.normpath(request.path.removeprefix(PREFIX) or "/")
        operation = request.args["op"].lower()
        with self._lock:
            if any(part in path for part in self.failing):
                answer = _refusal(
                    HTTPStatus.INTERNAL_SERVER_ERROR, "IOException", "a disk is broken"
                )
            elif operation == "create" and path in self.files and "overwrite" not in request.args:
                why = f"{path} for client 127.0.0.1 already exists"
                answer = _refusal(HTTPStatus.FORBIDDEN, "FileAlreadyExistsException", why)
            elif operation in ("open", "append", "getfilestatus", "liststatus") and (
                path not in self.files
            ):
                why = f"File does not exist: {path}"
                answer = _refusal(HTTPStatus.NOT_FOUND, "FileNotFoundException", why)
            elif operation in ("open", "append", "create") and "datanode" not in request.args:
                location = {"Location": f"{request.url}&datanode=1"}
                answer = Response(status=HTTPStatus.TEMPORARY_REDIRECT, headers=location)
            else:
                answer = getattr(self, f"_{operation}")(path, request)
        return answer(environment, start_response)

    def _status_of(self, path: str, name: str = "") -> dict:
        content, changed = self.files[path]
        kind = "DIRECTORY" if content is None else "FILE"
        size = {"length": len(content or b""), "modificationTime": changed}
        return {"pathSuffix": name, "type": kind} | size

    def _getfilestatus(self, path: str, _) -> Response:
        return _json({"FileStatus": self._status_of(path)})

    def _liststatus(self, path: str, _) -> Response:
        inside = path.rstrip("/") + "/"
        names = [file.removeprefix(inside) for file in self.files if file.startswith(inside)]
        found = [self._status_of(inside + name, name) for name in names if name and "/" not in name]
        found = found or ([] if self.files[path][0] is None else [self._status_of(path)])
        return _json({"FileStatuses": {"FileStatus": found}})

    def _mkdirs(self, path: str, _=None) -> Response:
        while path not in self.files:
            self.files[path] = (None, int(1000 * time.time()))
            path = posixpath.dirname(path)
        return _json({"boolean": True})

    def _open(self, path: str, request: Request) -> Response:
        content = self.files[path][0][int(request.args.get("offset", 0)) :]
        return Response(content[: int(request.args.get("length", len(content)))])

    def _create(self, path: str, request: Request, before: bytes = b"") -> Response:
        self._mkdirs(posixpath.dirname(path))
        self.files[path] = (before + request.get_data(), int(1000 * time.time()))
        return Response(status=HTTPStatus.CREATED)

    def _append(self, path: str, request: Request) -> Response:
        return self._create(path, request, self.files[path][0])

    def _rename(self, path: str, request: Request) -> Response:
        files, new = self.files, request.args["destination"]
        done = path in files and new not in files and posixpath.dirname(new) in files
        if done:
            files[new] = files.pop(path)
        return _json({"boolean": done})

    def _delete(self, path: str, _) -> Response:
        gone = [file for file in self.files if file == path or file.startswith(path + "/")]
        for each in gone:
            del self.files[each]
        return _json({"boolean": bool(gone)})


def _json(answer: dict, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(json.dumps(answer), status, mimetype="application/json")


def _refusal(status: HTTPStatus, kind: str, message: str) -> Response:
    found = {"exception": kind, "javaClassName": f"java.io.{kind}", "message": message}
    return _json({"RemoteException": found}, status)


@contextlib.contextmanager
def served() -> Iterator[tuple[str, Server]]:
    """Serves an empty HDFS while the body runs; yields its host and port, and what it holds."""
    files = Server()
    server = make_server("127.0.0.1", 0, files, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.port}", files
    finally:
        server.shutdown()
        server.server_close()
