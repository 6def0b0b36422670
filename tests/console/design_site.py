"""The site that shows every component, served to a real browser by the tests' own server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import fields
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import pytest
from django.core.wsgi import get_wsgi_application
from django.test import override_settings

from tests.console.design.site import SITE, Site

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHUNK = 800 * 1024


class ThreadedServer(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class SilentHandler(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: what matters is asserted."""


READY = "[data-split-new] rect"
ENDPOINT = "endpoint:production/fraud_detector"


@pytest.fixture(scope="module")
def site_url() -> Iterator[str]:
    """The site on a port of its own; it needs no database."""
    with override_settings(ROOT_URLCONF="tests.console.design.site"):
        server = make_server("127.0.0.1", 0, get_wsgi_application(), ThreadedServer, SilentHandler)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(autouse=True)
def site() -> Iterator[Site]:
    fresh = Site()
    for part in fields(Site):
        setattr(SITE, part.name, getattr(fresh, part.name))
    yield SITE
    SITE.disconnect()


@pytest.fixture
def gallery(page: Page, site_url: str) -> Page:
    page.goto(site_url)
    page.wait_for_selector(READY, state="attached")
    return page


@pytest.fixture
def rough(browser: Browser, site_url: str) -> Iterator[Page]:
    """A page that may report failed requests: faults of the server are what is tested."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    tab = context.new_page()
    tab.goto(site_url)
    tab.wait_for_selector(READY, state="attached")
    yield tab
    context.close()


def wait_for_stream(page: Page, site: Site, count: int = 1) -> None:
    for _ in range(100):
        if len(site.streams) >= count:
            return
        page.wait_for_timeout(50)
    pytest.fail("the page opened no event stream")


def percents(page: Page) -> list[float]:
    values = page.eval_on_selector_all(".split-number input", "all => all.map(i => i.value)")
    return [float(value) for value in values]


def set_percent(page: Page, version: int, percent: float) -> None:
    field = page.locator(f"[data-split-version='{version}'] .split-number input")
    field.fill(str(percent))
    field.press("Tab")
