"""Serves the page on this machine."""

import contextlib
import importlib.util
import os
import threading

from beambert.errors import InputError
from beambert.explore.lean_gradio import import_gradio
from beambert.explore.material import Material
from beambert.loading import loading

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


class OnlyThePage:
    """Middleware that answers 404 to every path that the page doesn't need."""

    def __init__(self, app):
        """Takes the application behind it."""
        self._app = app

    async def __call__(self, scope, receive, send) -> None:
        """Passes on what the page needs."""
        path = scope.get("path", "")
        if scope["type"] == "lifespan" or path == "/" or path.startswith(_SERVED):
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await send({"type": "http.response.start", "status": 404, "headers": []})
            await send({"type": "http.response.body", "body": b""})


def open_page(material: Material, host: str, port: int) -> str:
    """Starts the server in a thread of its own and returns the page's address.

    Raises:
      InputError: Gradio isn't installed, or the port is in use.
    """
    if importlib.util.find_spec("gradio") is None:
        raise InputError(
            "--port: the page needs Gradio; run `make explore`, or pip install 'beambert[explore]'"
        )
    # Gradio reads these when it is imported or builds a page. With them it asks no server for
    # anything.
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
    gradio = import_gradio()
    from starlette.middleware import Middleware

    from beambert.explore.page import STYLE, build_page

    page = build_page(material)
    fonts = {"font": ["system-ui", "sans-serif"], "font_mono": ["monospace"]}
    # Gradio's own greys and its orange are too light to be read on white.
    theme = gradio.themes.Default(primary_hue="blue", **fonts).set(**_COLOURS)
    _, address, _ = page.launch(
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
        css=STYLE,
        theme=theme,
        app_kwargs={"middleware": [Middleware(OnlyThePage)]},
    )
    return address


def serve(material: Material, host: str, port: int) -> None:
    """Shows the page until the command is ended.

    Raises:
      InputError: see `open_page`.
    """
    print(f"page: {open_page(material, host, port)} (Ctrl-C ends it)", flush=True)
    # What takes long to load is loaded while the reader reads. A browser on this machine needs the
    # processors first.
    waiting = threading.Timer(SECONDS_OF_A_BROWSER, _warm_up, args=(material,))
    waiting.daemon = True
    waiting.start()
    threading.Event().wait()


def _warm_up(material: Material) -> None:
    # The page tells of it where it needs the thing.
    with contextlib.suppress(InputError):
        material.warm_up()
