"""A page in a real browser: it is seen, its text is there, and nothing in it runs or loads anything."""

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from html import unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from matplotlib import image

from operators.command.report.page import page
from tests.operators.command.states import content, records, survey_of
from tests.operators.command.test_page import HOSTILE

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: apt-get install chromium"),
]
PROBE = "<script>document.title = 'changed'</script>"
"""Markup that is in a page as it is, as if it had not been escaped."""


def browse(folder: Path, html: str, *arguments: str) -> str:
    """Open a page in Chromium, and return what that prints."""
    (folder / "page.html").write_text(html, "utf-8")
    flags = ["--headless", "--disable-gpu", "--no-first-run", f"--user-data-dir={folder / 'profile'}"]
    if os.geteuid() == 0:
        flags.append("--no-sandbox")
    uri = (folder / "page.html").as_uri()
    done = subprocess.run(
        [str(CHROMIUM), *flags, *arguments, uri], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout


def title(dom: str) -> str:
    """The title of a page as the browser has it."""
    return unescape(re.findall(r"<title>([^<]*)</title>", dom)[0])


@pytest.fixture(scope="module")
def html() -> str:
    """A page whose keys are markup."""
    return page(content(survey_of(records(HOSTILE, hours=12), buckets=4)))


def test_markup_in_keys_does_not_run(html: str, tmp_path: Path) -> None:
    """The text of the keys is there, the title is that of the page, and there are no elements of the keys."""
    dom = browse(tmp_path, html, "--dump-dom")
    assert "State of /data/checkpoint" == title(dom)
    assert "hopping windows of 1 h every 10 min" in dom
    for key in HOSTILE:
        assert key in unescape(dom)
    assert not re.search(r"<(?:script|img)", dom)


def test_scripts_do_not_run_even_if_they_are_in_the_page(html: str, tmp_path: Path) -> None:
    """The content security policy keeps a script from running that runs without it."""
    unescaped = html.replace("<main>", f"{PROBE}<main>")
    assert "State of /data/checkpoint" == title(browse(tmp_path, unescaped, "--dump-dom"))
    without = re.sub(r"<meta http-equiv=[^>]*>", "", unescaped)
    assert "changed" == title(browse(tmp_path, without, "--dump-dom"))


@pytest.fixture
def requests() -> Iterator[tuple[str, list[str]]]:
    """The address of a server, and the paths that it was asked for."""
    asked: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


def test_nothing_is_loaded(html: str, tmp_path: Path, requests: tuple[str, list[str]]) -> None:
    """An image of another host is not loaded that is loaded without the policy; nor is anything for the page itself."""
    address, asked = requests
    unescaped = html.replace("<main>", f'<img src="{address}/image.png"><main>')
    browse(tmp_path, unescaped, "--dump-dom")
    assert [] == asked
    browse(tmp_path, re.sub(r"<meta http-equiv=[^>]*>", "", unescaped), "--dump-dom")
    assert "/image.png" in asked


def screenshot(folder: Path, html: str, *arguments: str) -> np.ndarray:
    """The picture of a page, as bytes of shape (height, width, 3)."""
    picture = folder / "page.png"
    browse(
        folder, html, f"--screenshot={picture}", "--window-size=1200,1600", "--hide-scrollbars", *arguments
    )
    return (image.imread(picture)[:, :, :3] * 255).round().astype(np.uint8)


def colours(picture: np.ndarray) -> set[tuple[int, ...]]:
    """The colours of a picture that at least a hundred points have."""
    found, counts = np.unique(picture.reshape(-1, 3), axis=0, return_counts=True)
    return {tuple(colour.tolist()) for colour in found[counts >= 100]}


def test_a_page_is_seen(html: str, tmp_path: Path) -> None:
    """In light and in dark, with the colours of the heat map."""
    light = screenshot(tmp_path, html)
    assert (1_600, 1_200, 3) == light.shape
    assert 8 <= len(colours(light))
    assert {(0xF6, 0xF7, 0xF9), (0xFF, 0xFF, 0xFF), (0x08, 0x36, 0x6F)} <= colours(light)
    dark = screenshot(tmp_path, html, "--blink-settings=preferredColorScheme=0")
    assert {(0x12, 0x16, 0x1C), (0x1A, 0x20, 0x28), (0xC9, 0xE8, 0xFB)} <= colours(dark)
