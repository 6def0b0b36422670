"""Looks at each thing that Covenant depends on, says what is wrong and how to mend it."""

from __future__ import annotations

import ctypes.util
import importlib.util
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Literal

import psutil
import psycopg
import redis

from console.env import Config, FileStorage
from console.stack import control, envoy, postgres, sign_in_check, triton, valkey, web
from console.stack.errors import ProgramMissing

GIB = 2**30
LEAST_DISK = 3 * GIB
LEAST_MEMORY = 2 * GIB


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at, how it is, and what to do when it is not well."""

    subject: str
    state: Literal["ok", "warning", "fault"]
    detail: str
    mend: str = ""


def examine(config: Config) -> list[Finding]:
    """Every finding, in the order in which one would mend them."""
    return [
        *_programs(config),
        _sandbox(),
        _disk(config),
        _memory(),
        _storage(config),
        *_services(config),
        _database(config),
        _redis(config),
        *_serving(config),
        *_sign_in(config),
    ]


def _sign_in(config: Config) -> list[Finding]:
    return [
        Finding(subject, state, detail, mend)
        for subject, state, detail, mend in sign_in_check.look(config)
    ]


def lines(findings: list[Finding]) -> list[str]:
    """The findings for a terminal."""
    marks = {"ok": "ok     ", "warning": "warning", "fault": "FAULT  "}
    text = []
    for finding in findings:
        text.append(f"{marks[finding.state]}  {finding.subject:<11} {finding.detail}")
        if finding.mend:
            text.append(f"{'':21} → {finding.mend}")
    return text


def _programs(config: Config) -> list[Finding]:
    finders: dict[str, Callable[[], object]] = {}
    if config.embedded_database:
        finders["postgres"] = lambda: postgres.find(config.home / "postgres").bin
    if config.embedded_redis:
        finders["valkey"] = valkey.find
    if config.embedded_triton:
        finders["triton"] = lambda: triton.find().server
    if config.embedded_gateway:
        finders["envoy"] = envoy.find
    found = []
    for name, find in finders.items():
        try:
            found.append(Finding(name, "ok", f"installed: {find()}"))
        except ProgramMissing as error:
            what, _, mend = str(error).partition(". ")
            found.append(Finding(name, "fault", what, mend))
    return found


def _sandbox() -> Finding:
    program = shutil.which("bwrap")
    if program is None:
        return Finding(
            "sandbox",
            "fault",
            "bubblewrap is missing, in which model files are opened",
            "sudo apt-get install bubblewrap",
        )
    tried = subprocess.run(
        [program, "--unshare-all", "--ro-bind", "/", "/", "/bin/true"],
        check=False,
        capture_output=True,
        text=True,
        timeout=20,
    )
    if tried.returncode != 0:
        return Finding(
            "sandbox",
            "fault",
            f"bubblewrap cannot make a sandbox: {tried.stderr.strip()}",
            "allow user namespaces: sysctl kernel.unprivileged_userns_clone=1",
        )
    if importlib.util.find_spec("pyseccomp") is None or not ctypes.util.find_library("seccomp"):
        return Finding(
            "sandbox",
            "warning",
            "bubblewrap makes sandboxes without a network, but without the system call filter: "
            "libseccomp is missing",
            "sudo apt-get install libseccomp2, and install deploy/requirements/worker.txt",
        )
    return Finding(
        "sandbox",
        "ok",
        "bubblewrap makes sandboxes without a network, libseccomp filters their system calls",
    )


def _disk(config: Config) -> Finding:
    folder = config.home
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if free < LEAST_DISK:
        return Finding(
            "disk",
            "warning",
            f"{free / GIB:.1f} GiB free at {folder}",
            f"free some, or set COVENANT_HOME to a folder with {LEAST_DISK // GIB} GiB and more",
        )
    return Finding("disk", "ok", f"{free / GIB:.0f} GiB free at {folder}")


def _memory() -> Finding:
    available = psutil.virtual_memory().available
    if available < LEAST_MEMORY:
        return Finding(
            "memory",
            "warning",
            f"{available / GIB:.1f} GiB available",
            "the idle stack takes about 1.5 GiB: stop something else",
        )
    return Finding("memory", "ok", f"{available / GIB:.1f} GiB available")


def _storage(config: Config) -> Finding:
    if not isinstance(config.storage, FileStorage):
        return Finding("storage", "ok", f"bucket {config.storage.bucket} (not tried)")
    folder = config.storage.path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return Finding("storage", "ok", f"{folder} can be written")
    except OSError as error:
        return Finding(
            "storage",
            "fault",
            f"{folder} cannot be written: {error.strerror}",
            "give this user the folder, or set COVENANT_STORAGE to another",
        )


def _services(config: Config) -> list[Finding]:
    state = control.status(config)
    if state["phase"] == "down":
        return [Finding("stack", "fault", "the embedded stack is down", "make up")]
    bad = [
        Finding(
            service["name"],
            "fault",
            f"{service['state']}, restarted {service['restarts']} times",
            f"make logs S={service['name']}",
        )
        for service in state["services"]
        if service["state"] not in {"ready", "done"}
    ]
    names = ", ".join(service["name"] for service in state["services"])
    return bad or [Finding("stack", "ok", f"{state['phase']}: {names}")]


def _database(config: Config) -> Finding:
    mend = "make up" if config.embedded_database else "check DATABASE_URL and the server"
    try:
        with closing(psycopg.connect(config.database_url, connect_timeout=3)) as connection:
            version = connection.info.server_version // 10000
            row = connection.execute("SELECT to_regclass('django_migrations')").fetchone()
    except psycopg.Error as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        return Finding("database", "fault", f"does not answer: {reason}", mend)
    if version < postgres.OLDEST_MAJOR:
        oldest = f"use Postgres {postgres.OLDEST_MAJOR} or newer"
        return Finding("database", "fault", f"is Postgres {version}", oldest)
    if row is None or row[0] is None:
        return Finding("database", "fault", "has no tables", "python manage.py migrate")
    return Finding("database", "ok", f"answers: Postgres {version}")


def _redis(config: Config) -> Finding:
    mend = "make up" if config.embedded_redis else "check REDIS_URL and the server"
    try:
        with redis.Redis.from_url(config.redis_url, socket_connect_timeout=3) as client:
            client.ping()
    except (redis.RedisError, OSError) as error:
        return Finding("redis", "fault", f"does not answer: {error}", mend)
    return Finding("redis", "ok", "answers")


def _serving(config: Config) -> list[Finding]:
    """Triton and the gateway; web last, since it needs all others."""
    ports = config.ports
    found = []
    if config.embedded_triton:
        ready = triton.is_ready(ports.triton_http)
        found.append(_answer("triton", ready, f"port {ports.triton_http}"))
    if config.embedded_gateway:
        ready = envoy.is_ready(ports.gateway_admin)
        found.append(_answer("envoy", ready, f"admin port {ports.gateway_admin}"))
    status, body = web.get(f"http://127.0.0.1:{ports.web}/readyz")
    if status == 200:
        found.append(Finding("web", "ok", f"ready at port {ports.web}"))
    else:
        said = body[:300].decode(errors="replace") or "nothing"
        detail = f"/readyz answers {status}: {said}"
        found.append(Finding("web", "fault", detail, "make up, then make logs S=web"))
    return found


def _answer(name: str, ready: bool, where: str) -> Finding:
    if ready:
        return Finding(name, "ok", f"ready at {where}")
    return Finding(name, "fault", f"is not ready at {where}", f"make up, then make logs S={name}")
