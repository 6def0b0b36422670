"""People, jobs, workers and web processes for the tests of the floor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from django.db import connection, transaction
from django.test import Client
from rest_framework.test import APIClient

from console import live
from console.env import ROOT
from console.models import Job, User
from console.services.jobs import enqueue
from console.stack import process, valkey
from tests import stack
from tests.console import worker_app
from tests.factories import PASSWORD, People, actor, people

CHILDREN = "covenant-tests-child"


@pytest.fixture(autouse=True)
def quick_passwords(settings: Any) -> None:
    """Hashing is slow on purpose; nobody attacks the tests."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def persons(db: None) -> People:
    """dana, sam, bea, ada and vic, without passwords."""
    return people()


@pytest.fixture
def with_passwords(db: None) -> People:
    """The five, each with the password `tests.factories.PASSWORD`."""
    return people(password=PASSWORD)


@pytest.fixture
def signed_in(persons: People) -> Callable[[User], Client]:
    """A browser that is signed in as somebody."""

    def sign_in(user: User) -> Client:
        client = Client()
        client.force_login(user)
        return client

    return sign_in


@pytest.fixture
def api(persons: People) -> Callable[..., APIClient]:
    """An API client in the name of somebody, by session."""

    def connect(user: User) -> APIClient:
        client = APIClient()
        client.force_login(user)
        return client

    return connect


def ask(kind: str, user: User, *, queue: str = "", **arguments: Any) -> Job:
    """Ask for a job of a test's kind, in a transaction of its own."""
    with transaction.atomic():
        return enqueue(
            kind=f"test_{kind}",
            subject="a test",
            arguments=arguments,
            queue=queue,
            actor=actor(user),
        )


def wait_for(
    job: Job, check: Callable[[Job], bool], *, seconds: float = 20.0, what: str = ""
) -> float:
    """Wait until the job's row passes `check`; gives how long it took, fails when it does not."""
    began = time.monotonic()
    while True:
        job.refresh_from_db()
        took = time.monotonic() - began
        if check(job):
            return took
        if took > seconds:
            lines = "\n".join(f"{line.attempt} {line.text}" for line in job.lines.all())
            pytest.fail(
                f"{what or 'the job'} is not there after {took:.1f} s: {job.state}\n{lines}"
            )
        time.sleep(0.02)


@dataclass
class Worker:
    """A real Celery worker process."""

    child: subprocess.Popen[bytes]
    log: Path
    name: str

    def kill(self) -> None:
        """kill -9 of the worker and its children, as when a machine goes."""
        process.kill_group(self.child)
        self.child.wait()

    def also_work_on(self, queue: str) -> None:
        """Have the worker take work from one more queue."""
        worker_app.app.control.add_consumer(queue, destination=[self.name], reply=True, timeout=10)

    def no_longer_work_on(self, queue: str) -> None:
        worker_app.app.control.cancel_consumer(
            queue, destination=[self.name], reply=True, timeout=10
        )


def launch_worker(folder: Path, *, queues: str, **environment: str) -> Worker:
    """Start a worker with the tests' kinds on the test database; wait until it takes work."""
    name = f"{time.monotonic_ns()}@test"
    log = folder / f"worker-{name}.log"
    child = process.spawn(
        process.Command(
            argv=[
                *(sys.executable, "-m", "celery", "-A", "tests.console.worker_app", "worker"),
                *(f"--queues={queues}", "--pool=threads", "--concurrency=1", f"--hostname={name}"),
                *("--without-gossip", "--without-mingle", "--loglevel=INFO"),
            ],
            env={**stack_environment(), "CELERY_SKIP_CHECKS": "1", **environment},
            cwd=Path.cwd(),
        ),
        log,
    )
    try:
        stack.wait_until("the worker", lambda: b" ready." in log.read_bytes(), child, log)
    except BaseException:
        process.stop(child, signal.SIGKILL, seconds=5)
        raise
    return Worker(child, log, name)


def stack_environment() -> dict[str, str]:
    """The environment of a process of our own on the test database."""
    url = "postgresql://{USER}:{PASSWORD}@{HOST}:{PORT}/{NAME}".format_map(connection.settings_dict)
    named = f"{url}?application_name={CHILDREN}"
    return {**os.environ, "DATABASE_URL": named, "PYTHONPATH": str(ROOT)}


def stop_child(child: subprocess.Popen[bytes]) -> None:
    """kill -9, and wait until the database knows: else it cannot be dropped at the end."""
    process.stop(child, signal.SIGKILL, seconds=5)
    url = stack_environment()["DATABASE_URL"].replace(CHILDREN, "tests")
    asked = "select count(*) from pg_stat_activity where application_name = %s"
    deadline = time.monotonic() + 10
    with psycopg.connect(url, autocommit=True) as watch:
        while (row := watch.execute(asked, [CHILDREN]).fetchone()) and row[0]:
            if time.monotonic() > deadline:
                pytest.fail(f"{row[0]} sessions of processes that are gone")
            time.sleep(0.02)


@pytest.fixture(scope="module")
def steady_worker(
    django_db_setup: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Worker]:
    """A worker on the queue `control`, with the sweep, for all tests of a module."""
    live.connection().flushall()
    worker = launch_worker(tmp_path_factory.mktemp("steady"), queues="control")
    yield worker
    stop_child(worker.child)


@pytest.fixture
def victim(transactional_db: None, steady_worker: Worker, tmp_path: Path) -> Iterator[Worker]:
    """A worker on the queue `doomed`, for a test to kill or freeze; the steady one inherits."""
    worker = launch_worker(tmp_path, queues="doomed")
    yield worker
    process.stop(worker.child, signal.SIGKILL, seconds=5)
    steady_worker.no_longer_work_on("doomed")


class OwnRedis:
    """A Valkey of one test's own, that may be killed and started again at the same address."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = stack.free_port()
        self.url = f"redis://:secret@127.0.0.1:{self._port}/0"
        self.start()

    def start(self) -> None:
        """Start it, empty; waits until it answers."""
        log = self._folder / "valkey.log"
        command = valkey.server(
            valkey.find(),
            self._folder / f"valkey-{time.monotonic_ns()}",
            port=self._port,
            password="secret",
            durable=False,
        )
        self._child = process.spawn(command, log)
        stack.wait_until("Valkey", lambda: valkey.is_ready(self._port, "secret"), self._child, log)

    def kill(self) -> None:
        """kill -9"""
        process.kill_group(self._child)
        self._child.wait()


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[OwnRedis]:
    """A Valkey that a test may kill."""
    own = OwnRedis(tmp_path)
    yield own
    own.kill()


@dataclass
class WebProcess:
    """A real web process on the test's database."""

    child: subprocess.Popen[bytes]
    log: Path
    url: str


def launch_web(
    folder: Path, application: str, port: int | None = None, **environment: str
) -> WebProcess:
    """Start uvicorn with an ASGI application on the test database; wait until it answers."""
    port = port or stack.free_port()
    log = folder / f"web-{port}.log"
    child = process.spawn(
        process.Command(
            argv=[
                *(sys.executable, "-m", "uvicorn", application, f"--port={port}"),
                *("--no-access-log", "--timeout-graceful-shutdown=1", "--lifespan=off"),
            ],
            env={**stack_environment(), **environment},
            cwd=Path.cwd(),
        ),
        log,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        stack.wait_until("the web process", lambda: _answers(url), child, log)
    except BaseException:
        process.stop(child, signal.SIGKILL, seconds=5)
        raise
    return WebProcess(child, log, url)


@pytest.fixture
def start_web(transactional_db: None, tmp_path: Path) -> Iterator[Callable[..., WebProcess]]:
    """`start(**environment)` starts a web process of the test's own."""
    with ExitStack() as stop:

        def start(application: str = "console.asgi:application", **env: str) -> WebProcess:
            web = launch_web(tmp_path, application, **env)
            stop.callback(process.stop, web.child, signal.SIGKILL, seconds=5)
            return web

        yield start


@pytest.fixture(scope="module")
def steady_web(
    django_db_setup: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WebProcess]:
    """A web process for all tests of a module; it looks each second who still may listen."""
    web = launch_web(tmp_path_factory.mktemp("web"), "tests.console.web_app:application")
    yield web
    stop_child(web.child)


def session_cookie(user: User) -> dict[str, str]:
    """The cookie of a new session of somebody, for a real web process."""
    client = Client()
    client.force_login(user)
    return {"sessionid": client.cookies["sessionid"].value}


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False
