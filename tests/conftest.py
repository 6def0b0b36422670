"""Fixtures that every room may use. The databases are up before Django reads its settings."""

from __future__ import annotations

import os
import shutil
import signal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django
import pytest
from pytest_socket import socket_allow_hosts

from tests import stack

stack.provide()
django.setup()

from django.db import connection  # noqa: E402 - needs the environment from above

from console.env import ROOT  # noqa: E402
from console.stack import process  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-sync",
    "--disable-component-update",
    "--no-first-run",
    "--disable-quic",
]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """Let no parallel worker inherit the name of the settings.

    pytest-django would read them there before the worker's own Valkey is up, and all workers
    would share one.
    """
    os.environ.pop("DJANGO_SETTINGS_MODULE", None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """No test reaches beyond this machine."""
    socket_allow_hosts(["127.0.0.1", "::1", "localhost"], allow_unix_socket=True)


@pytest.fixture(autouse=True)
def audit_folder(settings: Any) -> None:
    """The files of the audit trail belong to one database, and each test has its own."""
    settings.AUDIT_FOLDER = settings.CONFIG.home / "audit" / uuid.uuid4().hex


@pytest.fixture(scope="session")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stack.RunningTriton]:
    """A real Triton in explicit mode with an empty repository, for the whole session.

    Use model names of your own and unload them when done.
    """
    running, child = stack.start_triton(tmp_path_factory.mktemp("triton"))
    yield running
    process.stop(child, signal.SIGTERM, seconds=8)


@pytest.fixture
def envoy_factory(tmp_path: Path) -> Iterator[Callable[..., stack.RunningEnvoy]]:
    """`start(bootstrap, wait=True)` starts a real Envoy; all are stopped after the test."""
    started: list[stack.RunningEnvoy] = []

    def start(document: dict[str, Any], *, wait: bool = True) -> stack.RunningEnvoy:
        folder = tmp_path / f"envoy-{len(started)}"
        started.append(stack.start_envoy(folder, document, wait=wait))
        return started[-1]

    yield start
    for running in started:
        process.stop(running.process, signal.SIGTERM, seconds=5)


@pytest.fixture
def free_port() -> Callable[[], int]:
    """A function that names a TCP port which is free now."""
    return stack.free_port


@pytest.fixture
def process_environment(transactional_db: None) -> dict[str, str]:
    """Environment for a process of our own (`manage.py …`, a worker) on the test database."""
    settings = connection.settings_dict
    url = "postgresql://{USER}:{PASSWORD}@{HOST}:{PORT}/{NAME}".format_map(settings)
    return {**os.environ, "DATABASE_URL": url, "PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium under Playwright, one for a module.

    Not for the session: while Playwright runs, so does an event loop in the thread of the tests,
    and Django's test client refuses to call an async view there.
    """
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.fail("chromium is missing: apt-get install chromium fonts-noto-cjk")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=CHROMIUM_FLAGS)
        yield running
        running.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh page, 1280 × 800; a script error, console error or breach of the CSP fails it."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-GB")
    context.set_default_timeout(10_000)
    faults: list[str] = []
    tab = context.new_page()
    tab.on("pageerror", lambda error: faults.append(f"script error: {error}"))
    tab.on(
        "console",
        lambda message: (
            faults.append(f"console: {message.text}")
            if message.type == "error" and "status of 4" not in message.text
            else None
        ),
    )
    yield tab
    context.close()
    assert faults == []
