"""Is the process alive, can it serve, and what people see while something is away."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from django.db import connection
from django.test import Client

from console.stack import postgres, process
from tests import stack
from tests.console.conftest import OwnRedis, WebProcess, ask, session_cookie
from tests.factories import People

# Its processes are started once where all of its tests run in one place.
pytestmark = pytest.mark.xdist_group("outages")

StartWeb = Callable[..., WebProcess]


@pytest.mark.django_db
def test_ready_names_each_part(client: Client) -> None:
    answer = client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json() == {
        "ready": True,
        "checks": {
            "database": {"ok": True, "detail": "answers"},
            "redis": {"ok": True, "detail": "answers"},
            "migrations": {"ok": True, "detail": "all applied"},
        },
    }
    assert "no-cache" in answer["Cache-Control"]


@pytest.mark.django_db(transaction=True)
def test_a_migration_that_is_missing_is_named(client: Client) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "delete from django_migrations "
            "where app = 'console' and name = '0002_audit_append_only'"
        )
    try:
        answer = client.get("/readyz")
        assert answer.status_code == 503
        checks = answer.json()["checks"]
        assert checks["database"]["ok"]
        assert checks["migrations"] == {
            "ok": False,
            "detail": "1 not applied: console.0002_audit_append_only",
        }
    finally:
        with connection.cursor() as cursor:
            cursor.execute(
                "insert into django_migrations (app, name, applied) "
                "values ('console', '0002_audit_append_only', now())"
            )


@pytest.mark.django_db
def test_metrics_count_requests_by_view_and_jobs_by_state(client: Client, persons: People) -> None:
    ask("refuse", persons.dana)
    client.get("/healthz")
    client.get("/nowhere/at/all/")
    text = client.get("/metrics").content.decode()
    assert 'covenant_http_requests_total{method="GET",status="200",view="console:healthz"}' in text
    assert 'view="none"' in text
    assert "/nowhere" not in text
    assert 'covenant_jobs{kind="test_refuse",state="queued"} 1.0' in text
    assert "process_resident_memory_bytes" in text


def test_none_of_the_three_asks_who_is_there(client: Client, db: None) -> None:
    for path in ("/healthz", "/readyz", "/metrics"):
        assert client.get(path).status_code == 200
        assert client.post(path).status_code == 405


@pytest.mark.django_db(transaction=True)
def test_without_redis_pages_stay_up_and_ready_says_what_is_away(
    start_web: StartWeb, own_redis: OwnRedis, persons: People
) -> None:
    web = start_web(REDIS_URL=own_redis.url)
    own_redis.kill()
    with httpx.Client(base_url=web.url, cookies=session_cookie(persons.ada), timeout=10) as client:
        began = time.monotonic()
        ready = client.get("/readyz")
        assert time.monotonic() - began < 3
        assert ready.status_code == 503
        parts = {name: part["ok"] for name, part in ready.json()["checks"].items()}
        assert parts == {"database": True, "redis": False, "migrations": True}
        assert client.get("/healthz").status_code == 200
        for path in ("/jobs/", "/audit/", "/settings/keys/", "/api/v1/jobs/", "/sign-in/"):
            assert client.get(path).status_code in {200, 302}, path
        csrf = client.get("/settings/tokens/").text.split('name="csrf-token" content="')[1]
        made = client.post(
            "/settings/tokens/create/",
            data={"name": "ci", "scopes": "read", "days": "30"},
            headers={"X-CSRFToken": csrf.split('"')[0], "Referer": web.url},
        )
        assert made.status_code == 201, "a write goes through without Redis"
        own_redis.start()
        assert client.get("/readyz").status_code == 200


class OwnPostgres:
    """A Postgres of one test's own, that may be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._programs = postgres.find(folder)
        password = "a secret of the test"
        postgres.prepare(self._programs, folder, password=password, createdb=True)
        self._port = stack.free_port()
        self.url = f"postgresql://covenant:{password}@127.0.0.1:{self._port}/covenant"
        self.start()

    def start(self) -> None:
        log = self._folder.parent / "own-postgres.log"
        command = postgres.server(self._programs, self._folder, port=self._port, durable=False)
        self._child = process.spawn(command, log)
        stack.wait_until("Postgres", lambda: postgres.is_ready(self._port), self._child, log)

    def stop(self) -> None:
        process.stop(self._child, signal.SIGINT, seconds=10)

    def freeze(self, frozen: bool) -> None:
        """Stop or continue the server without closing anything, like a machine that hangs."""
        server = psutil.Process(self._child.pid)
        # The server first, so that it starts no new process meanwhile; each has a group of its own.
        for one in (server, *server.children(recursive=True)):
            one.send_signal(signal.SIGSTOP if frozen else signal.SIGCONT)


@pytest.fixture
def own_postgres() -> Iterator[OwnPostgres]:
    # Where the unprivileged user that runs it may enter; pytest's own folder is not.
    own = OwnPostgres(Path(os.environ["COVENANT_HOME"]) / f"own-postgres-{time.monotonic_ns()}")
    yield own
    own.stop()


@pytest.mark.django_db(transaction=True)
def test_a_database_that_stops_is_explained_and_one_that_is_back_is_used_at_once(
    start_web: StartWeb, own_postgres: OwnPostgres
) -> None:
    web = start_web(DATABASE_URL=own_postgres.url)
    with httpx.Client(base_url=web.url, timeout=20, cookies={"sessionid": "x" * 32}) as client:
        unprepared = client.get("/readyz").json()["checks"]
        assert unprepared["database"]["ok"]
        assert "not applied" in unprepared["migrations"]["detail"]

        own_postgres.stop()
        began = time.monotonic()
        page = client.get("/jobs/")
        assert time.monotonic() - began < 8
        assert page.status_code == 503
        assert page.headers["Retry-After"] == "2"
        assert "The database is not reachable at the moment." in page.text
        api = client.get("/api/v1/jobs/", headers={"Authorization": "Token cvt_x"})
        assert (api.status_code, api.headers["Retry-After"]) == (503, "2")
        assert api.headers["content-type"] == "application/problem+json"
        assert api.json()["code"] == "database_unavailable"
        ready = client.get("/readyz")
        assert ready.status_code == 503
        assert not ready.json()["checks"]["database"]["ok"]
        assert client.get("/healthz").status_code == 200
        assert client.get("/static/css/tokens.css").status_code == 200

        own_postgres.start()
        began = time.monotonic()
        while not client.get("/readyz").json()["checks"]["database"]["ok"]:
            assert time.monotonic() - began < 10
        assert time.monotonic() - began < 10

        own_postgres.freeze(True)
        began = time.monotonic()
        hung = client.get("/readyz")
        assert time.monotonic() - began < 4
        alive = client.get("/healthz")
        own_postgres.freeze(False)
        assert (hung.status_code, alive.status_code) == (503, 200)
        assert hung.json()["checks"]["database"]["detail"] == "no answer within 2 s"
