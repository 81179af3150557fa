"""`beambert explore`: a local page on records, models and how BERT reads a text.

The page is HTML with forms and nothing else: no script, no file, nothing from elsewhere.
"""

import dataclasses
import functools
import http.server
import ipaddress
import socket
import socketserver
import sys
import threading
import urllib.parse
from collections.abc import Mapping, Sequence

from beambert import io, report
from beambert.config import (
    Settings,
    check_settings,
    read_settings,
    setting,
    settings_parser,
)
from beambert.errors import InputError
from beambert.explore import showing
from beambert.explore.material import Material
from beambert.report import Html, join, tag, text

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 7860

EXAMPLES = """examples:
  # masking and sentence pairs, with a vocabulary alone
  beambert explore --vocab_file=vocab.txt

  # all of it: records and an encoder
  beambert explore --records=records/128 --model=encoder

The page is only on this machine unless --host names another address. It sends nothing elsewhere,
and reads only what the flags name. Ctrl-C ends it.
"""
# Path on the server -> the settings of a part of the page, which show it.
PARTS: dict[str, type[showing.Masking | showing.Pairs | showing.Records]] = {
    "masking": showing.Masking,
    "pairs": showing.Pairs,
    "records": showing.Records,
}
# Greatest number of characters of a typed text: the address of a page has 65,536 bytes at most.
MOST_CHARACTERS = 5000
# Nothing of an answer is run, and no other page frames it or gets what is typed.
HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExploreSettings:
    """The settings of the command."""

    records: str | None = setting(
        None, metavar="DIR", help="records folder, or a pattern of record files, on this machine"
    )
    model: str | None = setting(
        None, metavar="DIR", help="model folder of `beambert pretrain`, whose answers are shown"
    )
    vocab_file: str | None = setting(
        None, help="vocabulary (default: that of the model, else of the records)"
    )
    tokenizer: str | None = setting(
        None, metavar="PATH", help="tokenizer.json, or its folder, instead of --vocab_file"
    )
    host: str = setting(DEFAULT_HOST, help="address to listen on")
    port: int = setting(DEFAULT_PORT, minimum=1, maximum=65535, help="port of the page")

    def __post_init__(self) -> None:
        """Checks the values.

        Raises:
          InputError: a value cannot be used.
        """
        check_settings(self)
        if not self.host:
            raise InputError("--host=: is empty; name an address of this machine")


build_parser = functools.partial(
    settings_parser,
    ExploreSettings,
    "explore",
    "Shows on a local page what the data job does with a text, what is in records, and what a "
    "model makes of it.",
    EXAMPLES,
)


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: a flag or a path cannot be used, or the port is in use.
    """
    flags = read_settings(ExploreSettings, build_parser().parse_args(list(argv)))
    material = Material(flags.records, flags.model, flags.vocab_file, flags.tokenizer)
    serve(material, flags.host, flags.port)


def is_asked_here(headers: Mapping[str, str], host: str) -> bool:
    """Returns whether a request is for this server and from its own page.

    A page elsewhere can give its own name this machine's address (DNS rebinding). Its requests then
    have that name for a host. A form or a script of another page has another origin.

    Args:
      headers: headers of the request.
      host: address that the server listens on.
    """
    asked, origin = headers.get("Host", ""), headers.get("Origin")
    try:
        name = urllib.parse.urlsplit(f"//{asked}").hostname or ""
        if name not in ("localhost", host, socket.gethostname().lower()):
            ipaddress.ip_address(name)
        return origin is None or urllib.parse.urlsplit(origin).netloc == asked
    except ValueError:  # no address
        return False


class PageServer(socketserver.ThreadingTCPServer):
    """Answers requests for the page, one after the other."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, material: Material, host: str, port: int):
        """Listens.

        Raises:
          OSError: the port is in use.
        """
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)
        self.material, self.host, self.lock = material, host, threading.Lock()
        self.is_loaded = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Prints nothing of a browser that has closed its connection."""
        if not isinstance(sys.exception(), OSError):
            socketserver.BaseServer.handle_error(self, request, client_address)

    @property
    def address(self) -> str:
        """Address of the page."""
        name, port = self.server_address[:2]
        return f"http://{f'[{name}]' if ':' in name else name}:{port}/"


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers a request."""

    server: PageServer
    # Browsers open connections that they don't use.
    timeout = 60

    def do_GET(self) -> None:
        """Sends a part of the page; 404 for another path, 403 for a request from elsewhere."""
        path, _, query = self.path.partition("?")
        name = path.strip("/") or next(iter(PARTS))
        if not is_asked_here(self.headers, self.server.host):
            self.send_error(403)
        elif name not in parts_of(self.server.material):
            self.send_error(404)
        else:
            given = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
            self.send_response(200)
            for header in HEADERS.items():
                self.send_header(*header)
            if self.server.is_loaded:
                with self.server.lock:
                    content = page_of(self.server.material, name, given).encode()
            else:
                self.send_header("Refresh", "2")
                content = report.page("BeamBERT: look inside", "It loads.", []).encode()
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Prints nothing of a request."""


def parts_of(material: Material) -> list[str]:
    """Returns the parts of the page that have something to show."""
    return [name for name in PARTS if name != "records" or material.records is not None]


def page_of(material: Material, name: str, given: Mapping[str, str]) -> str:
    """Returns a part of the page with the values that a form has sent."""
    links = (Html(f'<a href="/{each}">{each}</a>') for each in parts_of(material))
    settings = PARTS[name]
    parser = settings_parser(settings, "explore", "", "")
    try:
        # A browser ends the lines of a text with two characters.
        values = (f"--{key}={value.replace(chr(13), '')}" for key, value in given.items())
        asked = read_settings(settings, parser.parse_args(list(values)))
        shown = asked.show(material)
    except InputError as error:
        shown = report.verdict(report.BAD, str(error))
    fields = dataclasses.fields(settings)
    current = {field.name: given.get(field.name, field.default) for field in fields}
    return report.page(
        "BeamBERT: look inside",
        "BERT learns from text by two games: guess hidden tokens (masked LM), and say whether one "
        "passage follows another (next sentence prediction). This page plays both on your text, "
        "and shows what is in records.",
        [
            Html(f"<style>{showing.STYLE}</style>"),
            tag("nav", *links),
            form_of(settings, current, material),
            shown,
        ],
    )


def form_of(settings: type[Settings], current: Mapping[str, object], material: Material) -> Html:
    """Returns a form with a control for each setting."""
    controls = []
    for field in dataclasses.fields(settings):
        declared, value = field.metadata["setting"], current[field.name]
        name, kind = field.name, ""
        if declared.choices or name == "folder":
            choices = {choice: choice for choice in declared.choices}
            if name == "folder":
                short = io.short_names(list(material.folders), "--records")
                choices = dict(enumerate(short, start=1))
            options = (
                Html(
                    f'<option value="{text(choice)}"{" selected" * (str(choice) == str(value))}>'
                    f"{text(shown)}</option>"
                )
                for choice, shown in choices.items()
            )
            control = Html(f'<select name="{name}">{join(*options)}</select>')
        elif declared.metavar == "TEXT":
            kind = ' class="long"'
            control = Html(
                f'<textarea name="{name}" rows="5" maxlength="{MOST_CHARACTERS}">\n'
                f"{text(value)}</textarea>"
            )
        else:
            control = Html(f'<input name="{name}" value="{text(value)}">')
        controls.append(
            Html(f"<label{kind}>{join(name, control, tag('small', declared.help))}</label>")
        )
    return tag("form", *controls, tag("button", "Show"))


def serve(material: Material, host: str, port: int) -> None:
    """Shows the page until the command is ended; it says so while the model is loaded.

    Raises:
      InputError: the port is in use, or the model or the records cannot be used.
    """
    try:
        server = PageServer(material, host, port)
    except OSError as error:
        raise InputError(
            f"--port={port}: cannot be used on {host}, perhaps it is in use; name another port"
        ) from error
    with server:
        print(f"page: {server.address} (Ctrl-C ends it)", flush=True)
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        try:
            material.warm_up()
            server.is_loaded = True
            serving.join()
        finally:
            server.shutdown()
