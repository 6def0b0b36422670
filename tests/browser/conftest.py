"""People at real pages: a web process of the tests' own, and a browser for each person."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from console.stack import process
from tests import factories
from tests.console.conftest import WebProcess, launch_web, session_cookie
from tests.factories import PASSWORD

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SignIn = Callable[..., "Page"]


@pytest.fixture(scope="module")
def web(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebProcess]:
    running = launch_web(tmp_path_factory.mktemp("web"), "console.asgi:application")
    yield running
    process.stop(running.child, signal.SIGKILL, seconds=5)


@pytest.fixture
def sign_in(transactional_db: None, web: WebProcess, browser: Browser) -> Iterator[SignIn]:
    """`sign_in("dana", "/models/")`: a browser of that person's own, at that page."""
    factories.people(password=PASSWORD)
    contexts, faults = [], []

    def enter(name: str, address: str, *, width: int = 1280) -> Page:
        context = browser.new_context(
            base_url=web.url, viewport={"width": width, "height": 800}, locale="en-GB"
        )
        context.set_default_timeout(15_000)
        contexts.append(context)
        cookies = session_cookie(getattr(factories.people(), name))
        context.add_cookies([{"name": k, "value": v, "url": web.url} for k, v in cookies.items()])
        tab = context.new_page()
        tab.on("pageerror", lambda error: faults.append(f"{name}: {error}"))
        tab.on(
            "console",
            lambda line: (
                faults.append(f"{name}: {line.text}")
                if line.type == "error" and "status of 422" not in line.text
                else None
            ),
        )
        tab.goto(address)
        return tab

    yield enter
    for context in contexts:
        context.close()
    assert faults == []
