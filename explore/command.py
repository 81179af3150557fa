"""`beambert explore`: a local page on records, models and how BERT reads a text."""

import contextlib
import dataclasses
import functools
import importlib.util
import ipaddress
import os
import socket
import threading
import urllib.parse
from collections.abc import Mapping, Sequence

from beambert.config import check_settings, read_settings, setting, settings_parser
from beambert.errors import InputError
from beambert.explore.material import Material
from beambert.process import loading

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 7860

EXAMPLES = """examples:
  # masking and sentence pairs, with a vocabulary alone
  beambert explore --vocab_file=vocab.txt

  # all of it: records and an encoder
  beambert explore --records=records/128 --model=encoder

The page is only on this machine unless --host names another address. It sends nothing elsewhere,
and reads only what the flags name. Ctrl-C ends it.
"""
# The beginnings of the paths that the page needs. Gradio has others, which read files, take uploads
# or fetch pages elsewhere.
_SERVED = (
    *("/config", "/assets/", "/static/", "/theme.css", "/favicon.ico", "/svelte/"),
    *("/gradio_api/queue/", "/gradio_api/heartbeat/", "/gradio_api/startup-events"),
    *("/gradio_api/app_id", "/gradio_api/reset", "/gradio_api/cancel", "/gradio_api/info"),
)
# Number of people whose changes of one control are answered at once.
_AT_ONCE = 8
# Time that a browser takes to show the page.
SECONDS_OF_A_BROWSER = 2.0
# Colours of a light page, and those of a dark one.
_COLOURS = {
    "body_text_color_subdued": "#4b5563",
    "body_text_color_subdued_dark": "#c3c8d0",
    "block_info_text_color": "#4b5563",
    "block_info_text_color_dark": "#c3c8d0",
    "block_label_text_color": "#374151",
    "block_title_text_color": "#1f2937",
    "input_placeholder_color": "#4b5563",
    "color_accent": "#1d4ed8",
    "button_primary_background_fill": "#1d4ed8",
    "slider_color": "#1d4ed8",
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
      InputError: a flag or a path cannot be used, or the page's library is missing.
    """
    flags = read_settings(ExploreSettings, build_parser().parse_args(list(argv)))
    material = Material(flags.records, flags.model, flags.vocab_file, flags.tokenizer)
    serve(material, flags.host, flags.port)


def is_asked_here(headers: Mapping[bytes, bytes], host: str) -> bool:
    """Returns whether a request is for this server and from its own page.

    A page elsewhere can give its own name this machine's address (DNS rebinding). Its requests then
    have that name for a host. A form or a script of another page has another origin.

    Args:
      headers: headers of the request, the names in lower case.
      host: address that the server listens on.
    """
    asked = headers.get(b"host", b"").decode("latin-1")
    name = urllib.parse.urlsplit(f"//{asked}").hostname or ""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        if name not in ("localhost", host, socket.gethostname().lower()):
            return False
    origin = headers.get(b"origin")
    return origin is None or urllib.parse.urlsplit(origin.decode("latin-1")).netloc == asked


class OnlyThePage:
    """Middleware that answers 404 to every path that the page doesn't need, and 403 to others."""

    def __init__(self, app, host: str):
        """Takes the application that serves the page, and the address that it listens on."""
        self._app, self._host = app, host

    async def __call__(self, scope, receive, send) -> None:
        """Passes on what the page needs."""
        path, status = scope.get("path", ""), 404
        if scope["type"] == "lifespan" or path == "/" or path.startswith(_SERVED):
            headers = dict(scope.get("headers", ()))
            if scope["type"] == "lifespan" or is_asked_here(headers, self._host):
                return await self._app(scope, receive, send)
            status = 403
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": status, "headers": []})
            await send({"type": "http.response.body", "body": b""})


def open_page(material: Material, host: str, port: int) -> str:
    """Starts the server in another thread and returns the page's address.

    Raises:
      InputError: Gradio isn't installed, or the port is in use.
    """
    if importlib.util.find_spec("gradio") is None:
        raise InputError(
            "--port: the page needs Gradio; run `make explore`, or pip install -e '.[explore]'"
        )
    # Gradio reads these when it is imported or builds a page. With them it contacts no server.
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["GRADIO_DEFAULT_CONCURRENCY_LIMIT"] = str(_AT_ONCE)
    try:
        # Gradio asks IPython whether this is a notebook, and prints to both streams.
        with (
            loading(),
            open(os.devnull, "w") as nowhere,
            contextlib.redirect_stdout(nowhere),
        ):
            return _launch(material, host, port)
    except OSError as error:
        raise InputError(
            f"--port={port}: cannot be used on {host}, perhaps it is in use; name another port"
        ) from error


def _launch(material: Material, host: str, port: int) -> str:
    """Does the work of `open_page`.

    Raises:
      OSError: the port is in use.
    """
    import gradio
    from starlette.middleware import Middleware

    from beambert.explore.page import STYLE as PAGE_STYLE
    from beambert.explore.page import build_page

    built = build_page(material)
    fonts = {"font": ["system-ui", "sans-serif"], "font_mono": ["monospace"]}
    # Gradio's own greys and its orange are too light to be read on white.
    theme = gradio.themes.Default(primary_hue="blue", **fonts).set(**_COLOURS)
    _, address, _ = built.launch(
        server_name=host,
        server_port=port,
        share=False,
        prevent_thread_lock=True,
        quiet=True,
        show_error=False,
        footer_links=[],
        ssr_mode=False,
        mcp_server=False,
        enable_monitoring=False,
        css=PAGE_STYLE,
        theme=theme,
        app_kwargs={"middleware": [Middleware(OnlyThePage, host=host)]},
    )
    return address


def serve(material: Material, host: str, port: int) -> None:
    """Shows the page until the command is ended.

    Raises:
      InputError: see `open_page`.
    """
    print(f"page: {open_page(material, host, port)} (Ctrl-C ends it)", flush=True)
    # Libraries and models are loaded while the user reads, after the browser has shown the page.
    waiting = threading.Timer(SECONDS_OF_A_BROWSER, _warm_up, args=(material,))
    waiting.daemon = True
    waiting.start()
    threading.Event().wait()


def _warm_up(material: Material) -> None:
    # The page shows the error when it needs the model.
    with contextlib.suppress(InputError):
        material.warm_up()
