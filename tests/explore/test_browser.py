"""The page in a real browser: what each tab shows, for whom, and what it must never do.

`make test-explore` runs this. $BEAMBERT_PICTURES names a folder for pictures of each tab, and
$BEAMBERT_EXPLORE flags of `beambert explore` with what they shall show:

    BEAMBERT_PICTURES=docs BEAMBERT_EXPLORE='--records=records --model encoder' \\
        python -m pytest -m explore tests/explore/test_browser.py -k shows_what
"""

import os
import pathlib
import shlex
import shutil
import socket
import urllib.error
import urllib.request

import pytest

from beambert.explore.command import build_parser
from beambert.explore.material import Material

pytestmark = pytest.mark.explore
WIDE, NARROW = 1280, 390
# Tab -> what it must show.
TABS = {
    "Masking": "to predict of",
    "Next sentence": "documents gave",
    "Records": "Record 1 of part-0",
}
SCRIPT = (
    "<script>window.hacked=1</script><img src=x onerror=window.hacked=1> river "
    "${window.hacked=1} {{constructor}} {{#each value}}"
)
MILLISECONDS = 60_000


@pytest.fixture(scope="module")
def address(material):
    pytest.importorskip("gradio", reason="Gradio is not installed: make explore")
    from beambert.explore.command import open_page

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    if "BEAMBERT_EXPLORE" in os.environ:
        flags = build_parser().parse_args(shlex.split(os.environ["BEAMBERT_EXPLORE"]))
        material = Material(flags.records, flags.model, flags.vocab_file)
    material.warm_up()
    return open_page(material, "127.0.0.1", port)


@pytest.fixture(scope="module")
def browser():
    reason = "Playwright is not installed: make test-explore"
    playwright = pytest.importorskip("playwright.sync_api", reason=reason)
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium is installed, in which the page would be tested")
    with playwright.sync_playwright() as found:
        opened = found.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def open_tab(browser, address):
    """A function from a width and a tab to the page; what is wrong is told at the end."""
    wrong, pages = [], []

    def watch(page):
        page.set_default_timeout(MILLISECONDS)
        page.on("console", lambda said: said.type == "error" and wrong.append(said.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
        local = (address, "data:", "blob:")
        page.on("request", lambda of: of.url.startswith(local) or wrong.append(of.url))

    def open_at(width, tab):
        page = browser.new_context(viewport={"width": width, "height": 900}).new_page()
        pages.append(page)
        watch(page)
        page.goto(address)
        page.get_by_text(TABS["Masking"]).first.wait_for()
        choose(page, tab)
        return page

    yield open_at
    for page in pages:
        page.context.close()
    assert wrong == []


def choose(page, tab):
    """Opens a tab, by the menu of those that find no room."""
    button = page.get_by_role("tab", name=tab, exact=True)
    if button.count() and button.first.is_visible():
        button.first.click()
    else:
        page.locator(".overflow-menu > button").first.click()
        page.locator(".overflow-dropdown button", has_text=tab).first.click()
    page.get_by_text(TABS[tab]).locator("visible=true").first.wait_for()


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("tab", TABS)
def test_each_tab_shows_what_it_is_for(open_tab, tab, width):
    page = open_tab(width, tab)
    page.wait_for_timeout(500)  # the other parts of the tab
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if "BEAMBERT_PICTURES" in os.environ:
        folder = pathlib.Path(os.environ["BEAMBERT_PICTURES"])
        page.screenshot(
            full_page=True, path=folder / f"explore-{tab.replace(' ', '-')}-{width}.png"
        )


def test_a_script_that_is_typed_never_runs(open_tab):
    for tab in TABS:
        page = open_tab(WIDE, tab)
        for field in page.locator("textarea:visible, input[type=text]:visible").all():
            if field.is_editable():
                field.fill(SCRIPT)
                field.press("Tab")
        page.wait_for_timeout(700)
        assert page.evaluate("window.hacked") is None, tab
        assert page.locator("img[src=x]").count() == 0, tab


def test_changes_show_at_once(open_tab):
    page = open_tab(WIDE, "Masking")
    page.get_by_label("Text").first.fill("river river river river")
    page.get_by_text("1 token to predict of 6").wait_for()
    page.get_by_label("number input for Mask rate").fill("0.5")
    page.get_by_text("3 tokens to predict of 6").wait_for()


@pytest.mark.parametrize("tab", TABS)
def test_accessibility(open_tab, tab):
    """What axe-core finds serious, such as contrast and labels."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is missing")
    page = open_tab(WIDE, tab)
    page.wait_for_timeout(500)
    found = axe.Axe().run(page).response["violations"]
    serious = [
        (each["id"], node["html"][:200])
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]
    assert serious == []


@pytest.mark.parametrize(
    "path",
    [
        "gradio_api/file=/etc/passwd",
        "gradio_api/file=setup.py",
        "file=/etc/passwd",
        "gradio_api/proxy=http://127.0.0.1:1/",
        "gradio_api/upload",
        "gradio_api/deep_link",
        "static/../../../../etc/passwd",
        "static/%2e%2e/%2e%2e/config.py",
        "assets/%2e%2e/%2e%2e/%2e%2e/%2e%2e/setup.py",
        "docs",
    ],
)
def test_no_other_path_is_served(address, path):
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(address + path)
    assert refused.value.code in (403, 404)
